"""The primitives of the wire: without what `cryptography` loads about other keys, and with it where its parts moved."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROUND_TRIP = """
from saltlite.wire import primitives as p

mine, theirs = p.x25519_private(b"1" * 32), p.x25519_private(b"2" * 32)
shared = mine.exchange(p.x25519_public(theirs.public_key().public_bytes_raw()))
sealed = p.ChaCha20Poly1305(shared).encrypt(bytes(12), b"plain", b"")
key = p.ed25519_private(b"3" * 32)
p.ed25519_public(key.public_key().public_bytes_raw()).verify(key.sign(b"said"), b"said")
print(shared.hex(), sealed.hex(), key.sign(b"said").hex())
"""
MOVED = """
from types import SimpleNamespace
from cryptography.hazmat.backends.openssl import backend
from cryptography.hazmat.bindings import _rust
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from cryptography.hazmat.primitives.ciphers import aead
_rust.openssl = SimpleNamespace()
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_they_work_alike_where_the_compiled_part_has_another_shape() -> None:
    moved = run(MOVED + ROUND_TRIP + "\nassert p.ChaCha20Poly1305 is aead.ChaCha20Poly1305")
    assert moved == run(ROUND_TRIP) != ""


@pytest.mark.parametrize("program", ["saltlite.wire.frames", "saltlite.wire.signatures", "saltlite.wire.certificates"])
def test_nothing_about_other_kinds_of_keys_is_loaded_with_them(program: str) -> None:
    code = f"import {program}, sys; print(*(name for name in sys.modules if name.startswith('cryptography.')))"
    loaded = run(ROUND_TRIP + code).splitlines()[-1].split()
    assert set(loaded) <= {
        "cryptography.__about__",
        "cryptography.exceptions",
        "cryptography.hazmat",
        "cryptography.hazmat.bindings",
        "cryptography.hazmat.bindings._rust",
    }
