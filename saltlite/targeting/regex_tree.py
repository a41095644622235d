"""Regular expressions as Python's own parser reads them. The only place that knows the private parts of `re`.

What is read here is what `re` itself would run, so both engines read every pattern in the same way, with all its flags
and escapes. `tests/unit/test_matching_patterns.py` runs on each version of Python that is supported, and fails when
one changes these parts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # private; see above
from typing import Any, TypeAlias

from saltlite.errors import UsageError

Item: TypeAlias = tuple[Any, Any]
"""An operation of `re._constants`, and its arguments."""
Items: TypeAlias = Sequence[Item]
Repeat: TypeAlias = tuple[int, int, Items]
"""At least, at most, and of what."""

AT, BRANCH, SUBPATTERN = _constants.AT, _constants.BRANCH, _constants.SUBPATTERN
MAX_REPEAT, MIN_REPEAT, POSSESSIVE = _constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT
ATOMIC, FAILURE = _constants.ATOMIC_GROUP, _constants.FAILURE
ASSERTIONS = frozenset({_constants.ASSERT, _constants.ASSERT_NOT})
BACKREFERENCE, CONDITION = _constants.GROUPREF, _constants.GROUPREF_EXISTS
LITERAL, ANY = _constants.LITERAL, _constants.ANY
CHARACTERS = frozenset({LITERAL, _constants.NOT_LITERAL, ANY, _constants.IN})
"""What one character matches, or does not."""
UNLIMITED: int = _constants.MAXREPEAT
FEW_CHARACTERS = 128
"""Sets of characters up to this size are compared character by character."""
AT_START_STRING = _constants.AT_BEGINNING_STRING
AT_STARTS = frozenset({_constants.AT_BEGINNING, AT_START_STRING})
AT_END, AT_END_STRING = _constants.AT_END, _constants.AT_END_STRING
AT_BOUNDARY = _constants.AT_BOUNDARY

_TYPE_FLAGS: int = re.ASCII | re.LOCALE | re.UNICODE
_NO_REGULAR = {
    _constants.GROUPREF: "a backreference",
    _constants.GROUPREF_EXISTS: "a condition on a group",
    _constants.ASSERT: "a lookahead or lookbehind",
    _constants.ASSERT_NOT: "a lookahead or lookbehind",
    _constants.POSSESSIVE_REPEAT: "a possessive repeat",
    _constants.ATOMIC_GROUP: "an atomic group",
}


def parsed(pattern: str, flags: int) -> tuple[Items, int]:
    """The pattern taken apart, and the flags that hold at its start, with those that it sets itself.

    Raises UsageError, with the position, for what is no regular expression.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what another Python may read in another way is no matter for a log here
            tree = _parser.parse(pattern, flags)
    except (OverflowError, RecursionError):
        raise too_deep(pattern) from None
    except re.error as error:
        where = f" at position {error.pos}" if error.pos is not None else ""
        raise UsageError(f"{pattern[:80]!r} is not a regular expression: {error.msg}{where}") from None
    return tree, int(tree.state.flags)


def too_deep(pattern: str) -> UsageError:
    """The error of a pattern with too many groups inside each other, or too large a count."""
    return UsageError(f"the regular expression {pattern[:80]!r} is too large or too deeply nested")


def backwards(items: Any) -> Iterator[Item]:
    """The items from the last to the first."""
    yield from reversed(items.data)


def inside(items: Items) -> Iterator[Items]:
    """The sequences that stand in these items, one level down."""
    for operation, argument in items:
        if operation is BRANCH:
            yield from argument[1]
        elif operation is SUBPATTERN:
            yield argument[3]
        elif operation in (MAX_REPEAT, MIN_REPEAT, POSSESSIVE):
            yield argument[2]
        elif operation in ASSERTIONS:
            yield argument[1]
        elif operation is ATOMIC:
            yield argument
        elif operation is CONDITION:
            yield from (part for part in argument[1:] if part is not None)


def not_regular(items: Items) -> str:
    """What in the pattern no automaton can match, in words; "" for nothing."""
    for operation, _argument in items:
        if operation in _NO_REGULAR:
            return _NO_REGULAR[operation]
    return next(filter(None, map(not_regular, inside(items))), "")


def native(items: Any, flags: int) -> re.Pattern[str]:
    """The same for Python's own engine."""
    made: re.Pattern[str] = _compiler.compile(items, flags)
    return made


def least_width(items: Any) -> int:
    """How many characters it takes at least."""
    return int(items.getwidth()[0])


def combined_flags(flags: int, added: int, removed: int) -> int:
    """The flags inside of a group that has flags of its own, such as `(?i:x)`."""
    if added & _TYPE_FLAGS:
        flags &= ~_TYPE_FLAGS
    return (flags | added) & ~removed


def character_test(operation: Any, argument: Any, flags: int) -> Callable[[str], object]:
    """Whether one character is matched by an item of CHARACTERS: `re` itself is asked, so case and categories agree."""
    if operation is ANY:
        return _everything if flags & re.DOTALL else "\n".__ne__
    if operation is LITERAL and not flags & re.IGNORECASE:
        return chr(argument).__eq__
    state = _parser.State()
    state.flags = flags
    one = _parser.SubPattern(state, [(operation, argument)])
    test: Callable[[str], object] = _compiler.compile(one, flags).fullmatch
    return test


def excludes(repeated: Item, following: Item, flags: int) -> bool:
    """Whether an item of CHARACTERS never takes a character that the item behind it can begin with.

    `flags` are those of the whole pattern. False where that is not certain, or would take long to find out.
    """
    first = _first_character(following)
    if first is None or flags & re.IGNORECASE:
        return False
    for some, others in ((first, repeated), (repeated, first)):
        characters = _few_characters(some)
        if characters is not None:
            taken = character_test(*others, flags)
            return not any(taken(character) for character in characters)
    return False


def _first_character(item: Item) -> Item | None:
    """The item of CHARACTERS that an item has to begin with, None where it may begin with something else."""
    operation, argument = item
    if operation in CHARACTERS:
        return item
    if operation in (MAX_REPEAT, MIN_REPEAT, POSSESSIVE) and argument[0] > 0 and len(argument[2]) > 0:
        return _first_character(argument[2][0])
    if operation is SUBPATTERN and not argument[1] and not argument[2] and len(argument[3]) > 0:
        return _first_character(argument[3][0])
    return None


def _few_characters(item: Item) -> list[str] | None:
    """All characters that the item takes, None for more than FEW_CHARACTERS and for those that no list gives."""
    operation, argument = item
    if operation not in (LITERAL, _constants.IN):
        return None
    found: list[str] = []
    for kind, value in [item] if operation is LITERAL else argument:
        if kind is LITERAL:
            found.append(chr(value))
        elif kind is _constants.RANGE and value[1] - value[0] < FEW_CHARACTERS:
            found += map(chr, range(value[0], value[1] + 1))
        else:
            return None
    return found if len(found) <= FEW_CHARACTERS else None


def _everything(_character: str) -> bool:
    return True
