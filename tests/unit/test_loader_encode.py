"""Return values as bytes: every value becomes msgpack that every reader accepts."""

from __future__ import annotations

import datetime
import decimal
import enum
from collections import OrderedDict, deque, namedtuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saltlite.errors import RemoteProtocolError
from saltlite.loader.encode import DEPTH_MAX, ITEMS_MAX, RETURN_MAX, decode_return, encode_return


class Colour(enum.IntEnum):
    RED = 1


class Mood(enum.Enum):
    GOOD = "good"


class Unprintable:
    def __str__(self) -> str:
        raise ValueError


class Explodes(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError


Point = namedtuple("Point", "x y")


def there_and_back(value: Any) -> Any:
    return decode_return(encode_return(value))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])) | st.integers(0, 9), inner)
    ),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # it measures the load of the machine
@given(plain)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert there_and_back(value) == value


@given(st.text())
def test_any_text_comes_back_valid(text: str) -> None:
    there_and_back(text).encode("utf-8")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset("b"), ["b"]),
        (deque([1]), [1]),
        (range(3), [0, 1, 2]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        (map(str, [1, 2]), ["1", "2"]),
        ({"a": filter(None, [0, 1]), "b": zip("x", "y", strict=True)}, {"a": [1], "b": [["x", "y"]]}),
        (Point(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (bytearray(b"x"), b"x"),
        (memoryview(b"abcd")[::2], b"ac"),
        (datetime.datetime(2026, 1, 31, 23, 59, tzinfo=datetime.UTC), "2026-01-31T23:59:00+00:00"),
        (datetime.date(2026, 1, 31), "2026-01-31"),
        (decimal.Decimal("1.50"), "1.50"),
        (Path("/etc"), "/etc"),
        (Colour.RED, 1),
        (Mood.GOOD, "Mood.GOOD"),
        (2**64, "18446744073709551616"),
        (-(2**63) - 1, "-9223372036854775809"),
        ("a\udcff", "a\ufffd"),
        (ValueError("boom"), "boom"),
        (Unprintable(), "[a Unprintable whose text cannot be made: ValueError]"),
    ],
)
def test_other_values_become_their_nearest_plain_form(value: Any, expected: Any) -> None:
    assert there_and_back(value) == expected


def test_an_integer_that_python_refuses_to_print_is_given_in_hexadecimal() -> None:
    assert there_and_back(1 << 40_000) == hex(1 << 40_000)


def test_keys_that_are_neither_text_nor_integer_become_text() -> None:
    assert there_and_back({True: 1, None: 2, 1.5: 3, (1, 2): 4, b"raw": 5, 7: 6}) == {
        "True": 1,
        "None": 2,
        "1.5": 3,
        "(1, 2)": 4,
        "raw": 5,
        7: 6,
    }


def test_keys_that_become_the_same_text_all_stay() -> None:
    assert there_and_back({"None": 1, None: 2, b"None": 3}) == {"None": 1, "None (2)": 2, "None (3)": 3}


def test_a_value_that_contains_itself_is_cut_there() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert there_and_back(loop) == [1, "[a value that contains itself]"]


def test_the_same_value_twice_is_no_cycle() -> None:
    shared = [1]
    assert there_and_back([shared, shared]) == [[1], [1]]


def test_what_is_deeper_than_the_limit_becomes_a_text() -> None:
    value: Any = "bottom"
    for _ in range(DEPTH_MAX + 10):
        value = [value]
    found = there_and_back(value)
    for _ in range(DEPTH_MAX):
        (found,) = found
    assert found == f"[deeper than {DEPTH_MAX} levels]"


def test_data_at_the_depth_limit_is_whole() -> None:
    value: Any = "bottom"
    for _ in range(DEPTH_MAX):
        value = [value]
    assert there_and_back(value) == value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 100_000,
        "é" * 50_000,
        b"x" * 100_000,
        ["x" * 100] * 1000,
        [None] * 100_000,
        {str(number): number for number in range(20_000)},
        {"x" * 100_000: 1},
        [[["y" * 5000] * 10] * 10],
    ],
    ids=["text", "utf-8", "bytes", "texts", "nones", "map", "key", "nested"],
)
def test_a_value_beyond_the_limit_is_cut_and_says_what_is_missing(value: Any) -> None:
    encoded = encode_return(value, limit=32_768)
    assert len(encoded) <= 32_768
    assert "missing" in repr(decode_return(encoded))


def test_a_cut_text_keeps_its_beginning_and_names_the_size() -> None:
    found = decode_return(encode_return("abc" * 20_000, limit=32_768))
    assert found.startswith("abcabc")
    assert "of 60000 bytes are missing: a return has at most 32768 bytes" in found


def test_a_structure_of_shared_references_does_not_explode() -> None:
    value: Any = "x"
    for _ in range(50):
        value = [value, value]
    assert len(encode_return(value, limit=65_536)) <= 65_536


def test_a_list_of_more_items_than_the_limit_is_cut() -> None:
    found = there_and_back([None] * (ITEMS_MAX + 5))
    assert len(found) == ITEMS_MAX
    assert found[-1].startswith("[6 of 1000005 items are missing")


def test_the_default_limit_is_that_of_a_return() -> None:
    assert len(encode_return("x" * (RETURN_MAX + 1))) <= RETURN_MAX


def test_a_value_whose_own_code_fails_still_has_a_return() -> None:
    assert there_and_back(Explodes(a=1)) == "The function returned a value that cannot be encoded: RuntimeError"


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x91", b"\x01\x01", b"\xd4\x05x", b"x" * (RETURN_MAX + 1)])
def test_bytes_that_no_encoder_made_are_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_return(body)
