"""Regular expressions: the tree of Python's parser, an automaton for it, and a bound on the steps of Python's engine.

This is the only module that uses private parts of `re`. As both engines run the same tree, they agree on all flags and
escapes. `tests/unit/test_targeting_patterns.py` runs on each supported version of Python, and fails if these parts
change.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import getitem
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # private; see above
from typing import Any, NamedTuple, TypeAlias

from saltlite.errors import UsageError
from saltlite.targeting.fleet import Budget

Item: TypeAlias = tuple[Any, Any]
"""An operation of `re._constants`, and its arguments."""
Items: TypeAlias = Sequence[Item]
Repeat: TypeAlias = tuple[int, int, Items]
"""Minimum, maximum, and the repeated items."""

AT, BRANCH, SUBPATTERN = _constants.AT, _constants.BRANCH, _constants.SUBPATTERN
MAX_REPEAT, MIN_REPEAT, POSSESSIVE = _constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT
ATOMIC, FAILURE = _constants.ATOMIC_GROUP, _constants.FAILURE
ASSERTIONS = frozenset({_constants.ASSERT, _constants.ASSERT_NOT})
BACKREFERENCE, CONDITION = _constants.GROUPREF, _constants.GROUPREF_EXISTS
LITERAL, ANY = _constants.LITERAL, _constants.ANY
CHARACTERS = frozenset({LITERAL, _constants.NOT_LITERAL, ANY, _constants.IN})
"""Operations that match one character."""
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
    """The syntax tree of the pattern, and `flags` with those that it sets itself.

    Raises UsageError, with the position, for an invalid regular expression.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated syntax of a user's pattern does not belong in the log
            tree = _parser.parse(pattern, flags)
    except (OverflowError, RecursionError):
        raise too_deep(pattern) from None
    except re.error as error:
        where = f" at position {error.pos}" if error.pos is not None else ""
        raise UsageError(f"{pattern[:80]!r} is not a regular expression: {error.msg}{where}") from None
    return tree, int(tree.state.flags)


def too_deep(pattern: str) -> UsageError:
    """The error for a pattern with too many nested groups, or too large a count."""
    return UsageError(f"the regular expression {pattern[:80]!r} is too large or too deeply nested")


def backwards(items: Any) -> Iterator[Item]:
    """The items from the last to the first."""
    yield from reversed(items.data)


def inside(items: Items) -> Iterator[Items]:
    """The sequences in these items, one level down."""
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
    """A part of the pattern that an automaton cannot match, in words; "" if there is none."""
    for operation, _argument in items:
        if operation in _NO_REGULAR:
            return _NO_REGULAR[operation]
    return next(filter(None, map(not_regular, inside(items))), "")


def native(items: Any, flags: int) -> re.Pattern[str]:
    """The pattern compiled for Python's engine."""
    made: re.Pattern[str] = _compiler.compile(items, flags)
    return made


def least_width(items: Any) -> int:
    """The minimal number of characters that the items match."""
    return int(items.getwidth()[0])


def combined_flags(flags: int, added: int, removed: int) -> int:
    """The flags inside a group that changes them, such as `(?i:x)`."""
    if added & _TYPE_FLAGS:
        flags &= ~_TYPE_FLAGS
    return (flags | added) & ~removed


def character_test(operation: Any, argument: Any, flags: int) -> Callable[[str], object]:
    """A test of one character against an item of CHARACTERS, made by `re`, so that case and categories agree."""
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
    """Whether an item of CHARACTERS never matches a character that the following item can begin with.

    `flags` are those of the complete pattern. False if it is uncertain, or expensive to find out.
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
    """The item of CHARACTERS that an item always begins with, otherwise None."""
    operation, argument = item
    if operation in CHARACTERS:
        return item
    if operation in (MAX_REPEAT, MIN_REPEAT, POSSESSIVE) and argument[0] > 0 and len(argument[2]) > 0:
        return _first_character(argument[2][0])
    if operation is SUBPATTERN and not argument[1] and not argument[2] and len(argument[3]) > 0:
        return _first_character(argument[3][0])
    return None


def _few_characters(item: Item) -> list[str] | None:
    """All characters that the item matches; None if there are more than FEW_CHARACTERS, or if they are not listed."""
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


POSITIONS_MAX = 5_000
"""Positions of the first automaton: `a{1,99}` has 198 of them, `(a{1,99}){1,99}` would have 20,000."""

CELLS_MAX = 200_000
"""Positions and characters in all states of one automaton: about 20 MB."""

STEPS_OF_A_POSITION = 10
"""Budget steps for a position that is visited while a state is created ..."""

STEPS_OF_A_STATE = 60
"""... for the state ..."""

STEPS_OF_A_TEXT = 30
"""... and for a text, besides one for each of its characters."""

_THE_END = 0
"""The number of the accepting position."""

_SLICE = 32
"""Characters between two checks for a state that decides the match."""

_END = ""
"""The end of the text."""
_LAST_NEWLINE = "\n\n"
"""A newline as the last character: `$` is true before it."""

# Properties of a place between two characters.
_START, _STOP, _BEFORE_LAST_NEWLINE, _NEWLINE, _WORD, _ASCII_WORD = 1, 2, 4, 8, 16, 32
_is_word = re.compile(r"\w").match
_is_ascii_word = re.compile(r"\w", re.ASCII).match
_EMPTY_HAS_NO_BOUNDARIES = re.match(r"\B", "") is None
"""Up to Python 3.13 neither `\\b` nor `\\B` is true in an empty text."""

Holds = Callable[[int, int], bool]
"""Whether an anchor holds between a character with these properties and one with those."""


class _State(dict[str, "_State"]):
    """A set of positions, and the properties of the previous character. Maps a character to the next state.

    The automaton adds missing transitions.
    """

    __slots__ = ("automaton", "before", "positions")

    def __init__(self, automaton: Automaton, positions: tuple[int, ...], before: int) -> None:
        super().__init__()
        self.automaton = automaton
        self.positions = positions
        self.before = before

    def __missing__(self, character: str) -> _State:
        return self.automaton.further(self, character)


class Automaton:
    """A lazily built automaton. `matches` agrees with `re.match`, or with `whole` with `re.fullmatch`."""

    def __init__(self, pattern: str, items: Items, flags: int, *, whole: bool) -> None:
        """Raises UsageError for a pattern with too many positions."""
        self._pattern = pattern
        self._whole = whole
        # The positions, by number: a character and the next position; an anchor and the next position; a fork; or the
        # accepting position, which is the first.
        self._ahead: list[tuple[int, ...]] = []
        self._test_of: list[int] = []
        self._holds: list[Holds | None] = []
        self._tests: list[Callable[[str], object]] = []
        self._test_numbers: dict[str, int] = {}
        self._with_anchors = False
        first = self._sequence(items, flags, self._position(()))
        self._states: dict[tuple[tuple[int, ...], int], _State] = {}
        self._cells = 0
        self._budget = Budget()
        self._dead = _State(self, (), -1)
        self._accepted = _State(self, (), -1)
        self._start = _State(self, (first,), _START)

    @property
    def size(self) -> int:
        """The number of positions."""
        return len(self._ahead)

    def matches(self, text: str, budget: Budget) -> bool:
        """Whether the text matches. Raises BudgetError if that would exceed the budget."""
        self._budget = budget
        budget.spend(STEPS_OF_A_TEXT + len(text))
        last = text.endswith("\n")
        end = len(text) - last
        state, dead, accepted = self._start, self._dead, self._accepted
        for at in range(0, end, _SLICE):
            state = reduce(getitem, text[at : min(at + _SLICE, end)], state)
            if state is dead:
                return False
            if state is accepted:
                return True
        if last:
            state = state[_LAST_NEWLINE]
        return state[_END] is accepted

    def further(self, state: _State, character: str) -> _State:
        """The state after this character, which is stored in `state`."""
        if state.before < 0:
            return state
        found = self._behind(state, character)
        if self._cells > CELLS_MAX:
            self._forget()
        state[character] = found
        self._cells += 2
        return found

    def _behind(self, state: _State, character: str) -> _State:
        read = "\n" if character is _LAST_NEWLINE else character
        behind = _properties(character) if self._with_anchors else 0
        tests, holds_of, ahead_of = self._test_of, self._holds, self._ahead
        verdicts: dict[int, object] = {}
        found: set[int] = set()
        seen = set(state.positions)
        visited = list(state.positions)
        for number in visited:  # it grows
            test = tests[number]
            if test >= 0:
                if test not in verdicts:
                    verdicts[test] = bool(read) and self._tests[test](read)
                if verdicts[test]:
                    found.add(ahead_of[number][0])
                continue
            holds = holds_of[number]
            if holds is None or holds(state.before, behind):
                for one in ahead_of[number]:
                    if one not in seen:
                        seen.add(one)
                        visited.append(one)
        self._budget.spend(STEPS_OF_A_STATE + STEPS_OF_A_POSITION * len(visited))
        if _THE_END in seen and (not self._whole or not read):
            return self._accepted
        return self._state(found, behind) if found else self._dead

    def _state(self, positions: set[int], before: int) -> _State:
        key = tuple(sorted(positions)), before
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(self, *key)
            self._cells += len(positions) + 10
        return state

    def _forget(self) -> None:
        for state in (*self._states.values(), self._start):
            state.clear()
        self._states.clear()
        self._cells = 0

    # -- the construction, from the last item to the first: each item gets the position that follows it

    def _position(self, ahead: tuple[int, ...], test: int = -1, holds: Holds | None = None) -> int:
        if len(self._ahead) >= POSITIONS_MAX:
            raise UsageError(
                f"the regular expression {self._pattern[:80]!r} is too large: with its repeats written out it has more "
                f"than {POSITIONS_MAX} parts"
            )
        self._ahead.append(ahead)
        self._test_of.append(test)
        self._holds.append(holds)
        return len(self._ahead) - 1

    def _sequence(self, items: Items, flags: int, after: int) -> int:
        for operation, argument in backwards(items):
            after = self._item(operation, argument, flags, after)
        return after

    def _item(self, operation: Any, argument: Any, flags: int, after: int) -> int:
        if operation in CHARACTERS:
            return self._position((after,), test=self._test(operation, argument, flags))
        if operation is AT:
            self._with_anchors = True
            return self._position((after,), holds=_anchor(argument, flags))
        if operation is SUBPATTERN:
            _number, added, removed, body = argument
            return self._sequence(body, combined_flags(flags, added, removed), after)
        if operation is BRANCH:
            return self._position(tuple(self._sequence(part, flags, after) for part in argument[1]))
        if operation is FAILURE:
            return self._position((), holds=_never)
        if operation is ATOMIC:
            return self._sequence(argument, flags, after)
        if operation is MAX_REPEAT or operation is MIN_REPEAT:
            return self._repeat(argument, flags, after)
        raise ValueError(f"no automaton matches {operation}")

    def _repeat(self, repeat: Repeat, flags: int, after: int) -> int:
        least, most, body = repeat
        if most == UNLIMITED:
            fork = self._position(())
            self._ahead[fork] = (self._sequence(body, flags, fork), after)
            after = fork
        else:
            leave = after
            for _ in range(most - least):
                entered = self._sequence(body, flags, after)
                if entered == after:  # it takes nothing
                    break
                after = self._position((entered, leave))
        for _ in range(least):
            entered = self._sequence(body, flags, after)
            if entered == after:
                break
            after = entered
        return after

    def _test(self, operation: Any, argument: Any, flags: int) -> int:
        key = f"{operation} {argument} {flags}"
        number = self._test_numbers.get(key)
        if number is None:
            number = self._test_numbers[key] = len(self._tests)
            self._tests.append(character_test(operation, argument, flags))
        return number


def _properties(character: str) -> int:
    if not character:
        return _STOP
    if character is _LAST_NEWLINE:
        return _NEWLINE | _BEFORE_LAST_NEWLINE
    if character == "\n":
        return _NEWLINE
    return (_WORD if _is_word(character) else 0) | (_ASCII_WORD if _is_ascii_word(character) else 0)


def _anchor(at: Any, flags: int) -> Holds:
    if at in AT_STARTS:
        wanted = _START | _NEWLINE if flags & re.MULTILINE and at is not AT_START_STRING else _START
        return lambda before, _behind: bool(before & wanted)
    if at is AT_END_STRING:
        return lambda _before, behind: bool(behind & _STOP)
    if at is AT_END:
        ends = _STOP | (_NEWLINE if flags & re.MULTILINE else _BEFORE_LAST_NEWLINE)
        return lambda _before, behind: bool(behind & ends)
    word = _ASCII_WORD if flags & re.ASCII else _WORD
    edge = at is AT_BOUNDARY

    def holds(before: int, behind: int) -> bool:
        if _EMPTY_HAS_NO_BOUNDARIES and before & _START and behind & _STOP:
            return False
        return (bool(before & word) != bool(behind & word)) is edge

    return holds


def _never(_before: int, _behind: int) -> bool:
    return False


EVALUATIONS_MAX = 1_000
"""Items that one analysis visits, counting those of repeated groups each time. Beyond it there is no bound."""


class _Cost(NamedTuple):
    """Steps of a visit that fails (0: none can), and of one that succeeds."""

    failing: float
    succeeding: float


_NO_BOUND = _Cost(math.inf, math.inf)
_DONE = _Cost(0, 1)
_DONE_AT_END = _Cost(1, 1)
"""After the last item, if the complete text must match: the match can still fail there."""


def steps_bound(items: Items, length: int, limit: float, flags: int = 0, *, whole: bool) -> tuple[float, int]:
    """An upper bound on the steps for a text of `length` characters, `math.inf` above `limit`; and the visited items.

    `whole`: the match must reach the end of the text.
    """
    bound = _Bound(length, limit, flags)
    cost = bound.sequence(items, _DONE_AT_END if whole else _DONE)
    steps = _steps(cost)
    return steps if steps <= limit else math.inf, bound.evaluations


class _Bound:
    def __init__(self, length: int, limit: float, flags: int) -> None:
        self._length = length
        self._limit = limit
        self._flags = flags
        self.evaluations = 0

    def sequence(self, items: Items, after: _Cost) -> _Cost:
        following: Item | None = None
        for item in backwards(items):
            self.evaluations += 1
            if self.evaluations > EVALUATIONS_MAX or after.succeeding > self._limit:
                return _NO_BOUND
            after = self._item(item, following, after)
            following = item
        return after

    def _item(self, item: Item, following: Item | None, after: _Cost) -> _Cost:
        operation, argument = item
        if operation is SUBPATTERN:
            outside = self._flags
            self._flags = combined_flags(outside, argument[1], argument[2])
            cost = self.sequence(argument[3], after)
            self._flags = outside
            return cost
        if operation is BRANCH:
            return _either([self.sequence(part, after) for part in argument[1]])
        if operation is MAX_REPEAT or operation is MIN_REPEAT:
            return self._repeat(argument, following, after)
        if operation is CONDITION:
            parts = [part for part in argument[1:] if part is not None]
            return _either([after, *(self.sequence(part, after) for part in parts)])
        steps = self._once(operation, argument)
        return _Cost(steps + after.failing, steps + after.succeeding)

    def _once(self, operation: Any, argument: Any) -> float:
        """The steps of an item that is not entered again after it has matched."""
        if operation in CHARACTERS or operation is AT or operation is FAILURE:
            return 1
        if operation is BACKREFERENCE:
            return self._length + 1
        if operation is ATOMIC:
            return _steps(self.sequence(argument, _DONE))
        if operation is POSSESSIVE:
            return _steps(self._repeat(argument, None, _DONE))
        if operation in ASSERTIONS:
            return _steps(self.sequence(argument[1], _DONE)) + 1
        return math.inf

    def _repeat(self, repeat: Repeat, following: Item | None, after: _Cost) -> _Cost:
        least, most, body = repeat
        if len(body) == 1 and body[0][0] in CHARACTERS:
            leads_on_once = following is not None and excludes(body[0], following, self._flags)
            return self._repeat_character(least, most, after, leads_on_once=leads_on_once)
        width = least_width(body)
        # A round that matches nothing is the last one.
        rounds = min(most, self._length // width + 1 if width else self._length + least + 1)
        cost = after
        for round_ in range(rounds - 1, -1, -1):
            entered = self.sequence(body, cost)
            cost = _either([entered, after]) if round_ >= least else _Cost(1 + entered.failing, 1 + entered.succeeding)
            if cost.succeeding > self._limit:
                return _NO_BOUND
        return cost

    def _repeat_character(self, least: int, most: int, after: _Cost, *, leads_on_once: bool) -> _Cost:
        span = min(most, self._length)
        ways = max(span - least, 0) + 1
        if not after.failing:
            retried: float = span + 1
        elif leads_on_once:
            retried = span + 2 * ways + after.failing
        else:
            retried = span + ways * (after.failing + 1)
        if after.failing or least == 0:
            return _Cost(retried if after.failing else 0, retried + after.succeeding)
        return _Cost(min(least, span) + 1, retried + after.succeeding)


def _steps(cost: _Cost) -> float:
    return cost.failing + cost.succeeding


def _either(parts: list[_Cost]) -> _Cost:
    failing = sum(part.failing for part in parts) + 1
    succeeding = failing + max(part.succeeding for part in parts)
    return _Cost(0 if any(part.failing == 0 for part in parts) else failing, succeeding)
