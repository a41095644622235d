"""Words of the command line as values."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.cli.arguments import parse_arguments, parse_value
from saltlite.cli.durations import DURATION_MAX_S, format_duration, parse_duration
from saltlite.errors import UsageError


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("0", 0),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("[1, a, true]", [1, "a", True]),
        ("{a: 1, b: [x]}", {"a": 1, "b": ["x"]}),
        ('{"a": "1"}', {"a": "1"}),
    ],
)
def test_a_word_that_plainly_is_a_value_becomes_it(word: str, value: object) -> None:
    parsed = parse_value(word)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    "word",
    [
        "", "-", "a: b", "1_000", "yes", "no", "on", "0644", "0x1f", "1e5", "1.", ".5", "+1", "1.2.3", "nan",
        "inf", "~", "web1", "x==y", "\u0661", "tab\there", "1\n", "[1,\n2]", "{{ name }}",
        "[ -f /x ] && echo y", "{a: b]", "20260131235959123456",
        "9" * 5000, "-" + "9" * 30, '"plain"', "'", '"" or ""', "'" * 5000,
    ],
)  # fmt: skip
def test_a_word_that_would_lose_something_stays_text(word: str) -> None:
    assert parse_value(word) == word


@pytest.mark.parametrize(
    ("word", "text"), [('"5"', "5"), ("'1.10'", "1.10"), ('"true"', "true"), ("'{a: 1}'", "{a: 1}")]
)
def test_quotes_make_text_of_what_would_be_a_value(word: str, text: str) -> None:
    assert parse_value(word) == text


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("name=nginx", "name", "nginx"),
        ("n=1", "n", 1),
        ("e=", "e", ""),
        ("s=a=b", "s", "a=b"),
        ("t=a\nb", "t", "a\nb"),
    ],
)
def test_name_equals_value_is_a_keyword_argument(word: str, name: str, value: Any) -> None:
    assert parse_arguments([word]) == ([], {name: value})


@pytest.mark.parametrize("word", ["x==y", "=1", "1a=2", "a-b=1", "--opt=1", "dd if=x", "a.b=1"])
def test_what_is_not_an_identifier_before_an_equals_sign_is_positional(word: str) -> None:
    assert parse_arguments([word]) == ([word], {})


def test_a_keyword_that_stands_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="'a' is given twice"):
        parse_arguments(["a=1", "a=2"])


def test_a_key_that_stands_twice_in_a_map_is_refused() -> None:
    with pytest.raises(UsageError, match="'a' stands twice"):
        parse_value("{a: 1, a: 2}")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("250ms", 0.25), ("0", 0)],
)
def test_a_duration_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1w", "1h30m", "ms", "1 h", "nan", "1e3", "\u0665s", "1..2", "hd"])
def test_what_is_not_a_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="write 250ms, 30s, 5m, 1h or 2d"):
        parse_duration(text)


def test_the_longest_duration_is_taken_and_a_longer_one_is_not() -> None:
    assert parse_duration(f"{DURATION_MAX_S:.0f}") == DURATION_MAX_S
    with pytest.raises(UsageError, match="at most 365d"):
        parse_duration(f"{DURATION_MAX_S + 1:.0f}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0.34, "0.3s"),
        (0.00004, "0s"),
        (5.9, "5s"),
        (240, "4m"),
        (3599, "59m"),
        (7300, "2h"),
        (200000, "2d"),
    ],
)
def test_a_duration_is_shown_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
