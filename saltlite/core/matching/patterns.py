"""Globs and regular expressions, compiled under limits: the only place that does, and so the only place that refuses.

A regular expression that takes for ever on some texts cannot be recognised; one that is long is refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from fnmatch import translate

from saltlite.errors import UsageError

PATTERN_MAX = 1024
"""Characters of one glob, one regular expression or one question to grains or pillar."""

_WILDCARD = re.compile(r"[*?\[]")


def has_wildcard(text: str) -> bool:
    """Whether the text is a glob, and not one name."""
    return _WILDCARD.search(text) is not None


def glob_matcher(pattern: str) -> Callable[[str], object]:
    """A function that is true of the texts which the glob matches whole, with regard to case.

    Raises UsageError for a glob that is too long.
    """
    check_length(pattern, "glob")
    if not has_wildcard(pattern):
        return pattern.__eq__
    stem = pattern.removesuffix("*")
    if not has_wildcard(stem):
        return lambda text: text.startswith(stem)
    return re.compile(translate(pattern)).match


def regex_matcher(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[str], object]:
    """A function that is true of the texts which the regular expression matches from their start, not to their end.

    Raises UsageError, with the position, for what is no regular expression, and for a long one.
    """
    check_length(pattern, "regular expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what another Python may read in another way is no matter for a log here
            return re.compile(pattern, flags).match
    except (OverflowError, RecursionError):
        raise UsageError(f"the regular expression {pattern[:80]!r} is too large or too deeply nested") from None
    except re.error as error:
        where = f" at position {error.pos}" if error.pos is not None else ""
        raise UsageError(f"{pattern[:80]!r} is not a regular expression: {error.msg}{where}") from None


def check_length(pattern: str, what: str) -> None:
    """Raises UsageError for a pattern of more than PATTERN_MAX characters."""
    if len(pattern) > PATTERN_MAX:
        raise UsageError(f"{pattern[:20]!r}… is too long: a {what} has at most {PATTERN_MAX} characters")
