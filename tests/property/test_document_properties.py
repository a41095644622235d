"""Documents: the same content is the same bytes, whatever it is made of, and comes back as what it was."""

from __future__ import annotations

import contextlib
import datetime
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.wire.codec import DOCUMENT, decode_document, document_digest, encode_document
from saltlite.wire.limits import DOC_MAX, MIB

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
PLAIN = st.recursive(
    SCALARS | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=12,
)
MAPS = st.dictionaries(st.text() | st.integers(-9, 9), PLAIN, max_size=6)
ANYTHING = st.recursive(
    SCALARS | st.dates() | st.integers() | st.complex_numbers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.dates() | st.booleans(), inner),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    """The same with the keys of all maps in another order."""
    if isinstance(value, dict):
        pairs = [(key, shuffled(item)) for key, item in value.items()]
        random.Random(1).shuffle(pairs)
        return dict(pairs)
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(MAPS)
def test_plain_data_comes_back_as_it_was(content: dict[Any, Any]) -> None:
    assert decode_document(encode_document(content)) == content


@given(MAPS)
def test_the_order_of_keys_changes_no_byte(content: dict[Any, Any]) -> None:
    assert encode_document(shuffled(content)) == encode_document(content)


@given(st.dictionaries(st.text(), ANYTHING, max_size=6))
def test_whatever_is_in_it_becomes_something_that_can_be_read(content: dict[str, Any]) -> None:
    decoded = decode_document(encode_document(content))
    assert encode_document(decoded) == encode_document(content)


@given(st.binary(max_size=200))
def test_strange_bytes_are_a_map_or_an_error_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert isinstance(decode_document(data), dict)


def test_dates_and_sets_become_text_and_lists() -> None:
    content = {"day": datetime.date(2026, 1, 31), "set": {2, 1}, ("a", 1): 2**70, "bad": "\udc80"}
    assert decode_document(encode_document(content)) == {
        "day": "2026-01-31",
        "set": [1, 2],
        "('a', 1)": str(2**70),
        "bad": "?",
    }


def test_a_digest_has_32_digits_and_stands_for_the_bytes() -> None:
    digest = document_digest(encode_document({"a": 1}))
    assert len(digest) == 32
    assert digest != document_digest(encode_document({"a": 2}))


def test_what_is_too_deep_or_too_large_is_refused() -> None:
    nested: Any = {}
    for _ in range(DOCUMENT.depth):
        nested = {"x": nested}
    with pytest.raises(LocalProtocolError, match=r"nested too deeply|levels"):
        encode_document(nested)
    with pytest.raises(LocalProtocolError, match=str(DOC_MAX)):
        encode_document({str(number): b"x" * MIB for number in range(DOC_MAX // MIB)})
