"""`salt.utils.stringutils`: text, bytes and what is between them."""

from __future__ import annotations

import base64
import difflib
import errno
import fnmatch
import logging
import os
import re
import shlex
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from saltlite.salt.utils.decorators.jinja import jinja_filter

log = logging.getLogger(__name__)

_TEXT = bytes(range(32, 127)) + b"\n\r\t\f\b"
_TEXT_OF_UTF8 = _TEXT + bytes(range(128, 255))
_NONTEXT_MAX = 0.30


def _encodings(encoding: Any) -> tuple[str, ...]:
    if encoding is None:
        return ("utf-8", sys.getdefaultencoding())
    names = tuple(encoding) if isinstance(encoding, tuple | list) else (encoding,)
    if not names:
        raise ValueError("encoding cannot be empty")
    return names


@jinja_filter("to_bytes")
def to_bytes(s: Any, encoding: Any = None, errors: str = "strict") -> bytes:
    """The bytes of a text, by the first of the encodings that can. Raises TypeError for what is neither."""
    names = _encodings(encoding)
    if isinstance(s, bytes | bytearray):
        return bytes(s)
    if not isinstance(s, str):
        raise TypeError(f"expected str, bytes, or bytearray not {type(s)}")
    for name in names[:-1]:
        try:
            return s.encode(name, errors)
        except UnicodeEncodeError:
            continue
    return s.encode(names[-1], errors)


def to_str(s: Any, encoding: Any = None, errors: str = "strict", normalize: bool = False) -> str:
    """The text of bytes, by the first of the encodings that can; `normalize` makes it NFC."""
    names = _encodings(encoding)
    if isinstance(s, bytes | bytearray):
        text = _decoded(s, names, errors)
    elif isinstance(s, str):
        text = s
    else:
        raise TypeError(f"expected str, bytes, or bytearray not {type(s)}")
    return unicodedata.normalize("NFC", text) if normalize else text


def _decoded(data: bytes | bytearray, names: tuple[str, ...], errors: str) -> str:
    for name in names[:-1]:
        try:
            return data.decode(name, errors)
        except UnicodeDecodeError:
            continue
    return data.decode(names[-1], errors)


def to_unicode(s: Any, encoding: Any = None, errors: str = "strict", normalize: bool = False) -> str:
    """As `to_str`."""
    return to_str(s, encoding, errors, normalize)


@jinja_filter("str_to_num")
@jinja_filter("to_num")
def to_num(text: Any) -> Any:
    """The number that a text spells, or the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def to_none(text: Any) -> Any:
    """None for what is blank as text, and the value else."""
    return text if str(text).strip() else None


def is_quoted(value: Any) -> str:
    """The quotation mark on both ends of a text, or ""."""
    quoted = isinstance(value, str) and value[0] == value[-1] and value[0] in "'\""
    return value[0] if quoted else ""


def dequote(value: Any) -> Any:
    """The value without one pair of quotation marks around it."""
    return value[1:-1] if is_quoted(value) else value


@jinja_filter("is_hex")
def is_hex(value: Any) -> bool:
    """Whether the text is a hexadecimal number."""
    try:
        int(value, 16)
    except (TypeError, ValueError):
        return False
    return True


def is_binary(data: Any) -> bool:
    """Whether a text or bytes hold NUL, or more than 30 % of characters that are no text."""
    if not data or not isinstance(data, str | bytes):
        return False
    raw = to_bytes(data)
    if b"\0" in raw:
        return True
    text = _TEXT_OF_UTF8
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            text = _TEXT
    return len(raw.translate(None, text)) / len(raw) > _NONTEXT_MAX


@jinja_filter("random_str")
def random(size: int = 32) -> str:
    """`size` random characters of base64."""
    return base64.b64encode(os.urandom(size))[:size].decode()


@jinja_filter("contains_whitespace")
def contains_whitespace(text: str) -> bool:
    return any(one.isspace() for one in text)


@jinja_filter("human_to_bytes")
def human_to_bytes(size: Any, default_unit: str = "B", handle_metric: bool = False) -> int:
    """The number of bytes that a text such as `2G` or `64KiB` means; 0 if it means none. With `handle_metric`, units
    such as `MB` are powers of 1000."""
    found = re.match(r"([0-9.]*)\s*(.*)$", str(size).strip())
    number = to_num(found[1]) if found else ""
    unit = ((found[2] if found else "") or default_unit).lower()
    if isinstance(number, str) or not re.fullmatch(r"b|[kmgtpezy](i?b)?", unit):
        return 0
    power = "bkmgtpezy".index(unit[0])
    metric = handle_metric and len(unit) == 2
    return int(number * (1000**power if metric else 1024**power))


def build_whitespace_split_regex(text: str) -> str:
    """A pattern that finds the text with any white space between its words."""
    space = r"(?:[\s]+)?"
    lines = (space + space.join(map(re.escape, _shell_words(line))) + space for line in text.splitlines())
    return f"(?m)^{''.join(lines)}$"


def _shell_words(text: str) -> list[str]:
    lexer = shlex.shlex(text)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if r"'\"" in text:
        lexer.quotes = ""
    elif "'" in text:
        lexer.quotes = '"'
    elif '"' in text:
        lexer.quotes = "'"
    return list(lexer)


def expr_match(line: Any, expr: Any) -> bool:
    """Whether the text matches the expression as a glob, or as a regular expression from end to end."""
    try:
        if fnmatch.fnmatch(line, expr):
            return True
        return re.match(rf"\A{expr}\Z", line) is not None
    except re.error:
        return False
    except TypeError:
        log.exception("Value %r or expression %r is not a string", line, expr)
        return False


@jinja_filter("check_whitelist_blacklist")
def check_whitelist_blacklist(value: str, whitelist: Any = None, blacklist: Any = None) -> bool:
    """Whether the value matches no expression of the blacklist and, if there is a whitelist, one of that.

    Raises TypeError for a list that is none.
    """
    black, white = _expressions(blacklist, "blacklist"), _expressions(whitelist, "whitelist")
    if black and any(expr_match(value, one) for one in black):
        return False
    return not white or any(expr_match(value, one) for one in white)


def _expressions(given: Any, name: str) -> list[Any]:
    if not given:
        return []
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise TypeError(f"Expecting iterable {name}, but got {type(given).__name__} ({given})")
    return list(given)


def check_include_exclude(path_str: str, include_pat: Any = None, exclude_pat: Any = None) -> bool:
    """Whether a path matches one of the patterns to include, if any, and none of those to exclude.

    A pattern is a glob or, behind `E@`, a regular expression that is searched for.
    """
    if include_pat and not any(_matches(path_str, one) for one in _as_list(include_pat)):
        return False
    return not (exclude_pat and any(_matches(path_str, one) for one in _as_list(exclude_pat)))


def _as_list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _matches(path: str, pattern: str) -> bool:
    return bool(re.search(pattern[2:], path)) if pattern.startswith("E@") else fnmatch.fnmatch(path, pattern)


def print_cli(msg: object, retries: int = 10, step: float = 0.01) -> None:
    """Print, without an error if the reader of a pipe has gone. A terminal that is busy is tried again."""
    while retries:
        try:
            try:
                print(msg)  # noqa: T201 - what the function is for
            except UnicodeEncodeError:
                print(str(msg).encode("utf-8"))  # noqa: T201 - as above
        except OSError as error:
            if error.errno == errno.EAGAIN or "temporarily unavailable" in str(error):
                time.sleep(step)
                retries -= 1
                continue
            if error.errno != errno.EPIPE:
                raise
        return


def get_context(template: str, line: int, num_lines: int = 5, marker: str | None = None) -> str:
    """The lines of a text around a line, which `marker` follows."""
    lines = template.splitlines()
    if line > len(lines):
        return template
    start, end = max(0, line - num_lines - 1), min(len(lines), line + num_lines)
    shown = lines[start:end]
    if marker:
        shown[line - start - 1] += marker
    shown = [*(["[...]"] if start else []), *shown, *(["[...]"] if end < len(lines) else [])]
    return "---\n" + "\n".join(shown) + "\n---"


def get_diff_list(a: Iterable[Any], b: Iterable[Any], *args: Any, **kwargs: Any) -> Iterator[str]:
    """The lines of the unified difference of two lists of lines, which may be bytes."""
    encodings = ("utf-8", "latin-1", sys.getdefaultencoding())
    before, after = ([to_str(line, encodings) for line in lines] for lines in (a, b))
    return difflib.unified_diff(before, after, *args, **kwargs)


def get_diff(a: Iterable[Any], b: Iterable[Any], *args: Any, **kwargs: Any) -> str:
    """The unified difference of two lists of lines as one text."""
    return "".join(get_diff_list(a, b, *args, **kwargs))


def get_conditional_diff(
    a: Iterable[Any],
    b: Iterable[Any],
    *args: Any,
    ignore_ordering: bool = True,
    ignore_whitespace: bool = True,
    ignore_comment_characters: Any = "#",
    **kwargs: Any,
) -> tuple[bool, str]:
    """Whether two lists of lines differ in what is not ignored, and their unified difference as one text."""
    marks = ignore_comment_characters or []
    marks = [marks] if isinstance(marks, str) else marks
    if not isinstance(marks, list):
        log.warning("ignore_comment_characters must be set to a string or list")
        marks = []
    diff = list(get_diff_list(a, b, *args, **kwargs))
    if not (ignore_ordering or ignore_whitespace or marks):
        return bool(diff), "".join(diff)
    sides: dict[str, list[str]] = {"+": [], "-": []}
    for line in diff:
        if line[:1] in sides and not line.startswith(("+++", "---")):
            text = line[1:]
            for mark in marks:
                text = text.partition(mark)[0]
            text = text.strip() if ignore_whitespace else text
            if text:
                sides[line[0]].append(text)
    return sorted(sides["+"]) != sorted(sides["-"]), "".join(diff)


@jinja_filter("to_snake_case")
def camel_to_snake_case(camel_input: str) -> str:
    """`someName` -> `some_name`; `HTTPServer` -> `http_server`."""
    words = ""
    for index, letter in enumerate(camel_input):
        around = camel_input[index - 1 : index] + camel_input[index + 1 : index + 2]
        begins_word = index > 0 and letter.isupper() and any(map(str.islower, around))
        words += f"_{letter.lower()}" if begins_word else letter.lower()
    return words


@jinja_filter("to_camelcase")
def snake_to_camel_case(snake_input: str, uppercamel: bool = False) -> str:
    """`some_name` -> `someName` or, with `uppercamel`, `SomeName`."""
    first, *rest = snake_input.split("_")
    return (first.capitalize() if uppercamel else first) + "".join(map(str.capitalize, rest))
