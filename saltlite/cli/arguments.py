"""The arguments of a function, from words of the command line to values.

A word is text unless it plainly is something else: a whole number, a decimal number, `true`, `false`,
`null` or `None`, a list or map in YAML's flow style (`[a, b]`, `{a: 1}`). As in Salt `name=value` is a
keyword argument and `1_000`, `a: b` and anything with a tab or a newline stay text. Other than in Salt so do
`yes`, `no`, `0644` and numbers of more than 64 bits: what would lose something is not converted. Quotes that
arrive here (`'"1.10"'` in a shell) make text of what would be a value.
"""

from __future__ import annotations

from saltlite.errors import ConfigError, UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_WORDS = {
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
    "null": None, "None": None,
}  # fmt: skip

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
"""What msgpack can carry."""


def parse_arguments(words: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments in `words`. Raises UsageError for a keyword that stands twice."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier() or text.startswith("="):
            positional.append(parse_value(word))
        elif name in keywords:
            raise UsageError(f"the keyword {name!r} is given twice")
        else:
            keywords[name] = parse_value(text)
    return positional, keywords


def parse_value(text: str) -> Any:
    """The value of one word: None, bool, int, float, str, or a list or dict of these."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        inside = text[1:-1]
        return text if _parse_plain(inside) == inside else inside
    return _parse_plain(text)


def _parse_plain(text: str) -> Any:
    if "\t" in text or "\n" in text:
        return text
    if text[:1] in ("{", "["):
        return _parse_flow(text)
    if text in _WORDS:
        return _WORDS[text]
    return _parse_number(text)


def _parse_number(text: str) -> str | int | float:
    whole, dot, decimals = text.removeprefix("-").partition(".")
    if not whole.isascii() or not whole.isdigit() or (len(whole) > 1 and whole[0] == "0"):
        return text
    if dot:
        return float(text) if decimals.isascii() and decimals.isdigit() else text
    if len(whole) > 20:  # no need to convert a number of a million digits to see that it is too large
        return text
    number = int(text)
    return number if _INT_MIN <= number <= _INT_MAX else text


def _parse_flow(text: str) -> Any:
    """A YAML list or map; what only looks like one, such as `{{ name }}` or `[ -f x ] && y`, stays text."""
    from saltlite.config.written import value_of
    from saltlite.config.yamlfile import parse

    try:
        written, duplicates = parse(text.encode())
    except (ConfigError, UnicodeEncodeError):
        return text
    if duplicates:
        raise UsageError(f"in the argument {text!r} {duplicates[0]}")
    return text if written is None else value_of(written)
