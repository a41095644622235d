"""Fingerprints of keys in both of their forms."""

from __future__ import annotations

import re

import pytest

from saltlite.errors import UsageError
from saltlite.model.keys import fingerprint, hex_fingerprint, parse_fingerprint

OWN = fingerprint(b"a key")
HEX = hex_fingerprint(OWN)


def test_the_form_of_salt_has_the_same_bytes() -> None:
    assert re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){24}", HEX)
    assert parse_fingerprint(HEX) == parse_fingerprint(f" {HEX.upper()} ") == parse_fingerprint(OWN) == OWN


@pytest.mark.parametrize(
    "text", [HEX[:-3], f"{HEX}:00", HEX.replace(":", ""), HEX.replace(":", "-"), ":".join("xx" * 25)]
)
def test_what_is_neither_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a fingerprint"):
        parse_fingerprint(text)
