"""SHA-256 and HMAC without OpenSSL."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
import sys

import pytest

from saltlite.model.sha256 import LONG_MAX, SHORT_MAX, hmac_sha256, sha256

SIZES = (0, 1, 55, 56, 64, SHORT_MAX, SHORT_MAX + 1, LONG_MAX, LONG_MAX + 1)


@pytest.mark.parametrize("size", SIZES)
def test_a_digest_is_that_of_the_standard_library(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert sha256(data) == hashlib.sha256(data).digest()
    assert hmac_sha256(b"key", data) == hmac.digest(b"key", data, "sha256")


@pytest.mark.parametrize("size", [0, 32, 63, 64, 65, 200])
def test_a_key_of_any_length_gives_the_hmac_of_the_standard_library(size: int) -> None:
    assert hmac_sha256(b"k" * size, b"data") == hmac.digest(b"k" * size, b"data", "sha256")


@pytest.mark.parametrize(("size", "loaded"), [(LONG_MAX, False), (LONG_MAX + 1, True)])
def test_openssl_is_loaded_for_long_data_only(size: int, loaded: bool) -> None:
    program = (
        f"import sys, hashlib; expected = hashlib.sha256(bytes({size})).digest()\n"
        "del sys.modules['hashlib'], sys.modules['_hashlib']\n"
        "from saltlite.model.sha256 import sha256\n"
        f"assert sha256(bytes({size})) == expected\n"
        "print('hashlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(loaded)
