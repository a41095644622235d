"""Regular expressions in linear time: no text takes longer than its length, times the size of the pattern at worst.

The pattern becomes a nondeterministic automaton (Thompson's construction). A text runs through a deterministic one. Its
states are sets of positions of the first; they are made when they are needed, and forgotten together when they take too
much memory. A state is a dictionary from characters to states, so a text that goes where others went costs a look-up a
character. The automaton only says whether there is a match. In which order `re` would try changes nothing about that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Any

from saltlite.errors import UsageError
from saltlite.targeting import regex_tree as tree
from saltlite.targeting.budget import Budget

POSITIONS_MAX = 5_000
"""Positions of the first automaton: `a{1,99}` has 198 of them, `(a{1,99}){1,99}` would have 20,000."""

CELLS_MAX = 200_000
"""What the states of one automaton may hold together, in positions and characters: some 20 MB."""

STEPS_OF_A_POSITION = 10
"""Steps of the budget for a position that is visited while a state is made ..."""

STEPS_OF_A_STATE = 60
"""... for the state ..."""

STEPS_OF_A_TEXT = 30
"""... and for a text, besides one for each of its characters."""

_THE_END = 0
"""The number of the position that a match has reached."""

_SLICE = 32
"""Characters after which is looked whether the rest of the text still matters."""

_END = ""
"""Stands for what follows the last character."""
_LAST_NEWLINE = "\n\n"
"""Stands for a newline that is the last character: `$` is true in front of it."""

# What is true of a place between two characters.
_START, _STOP, _BEFORE_LAST_NEWLINE, _NEWLINE, _WORD, _ASCII_WORD = 1, 2, 4, 8, 16, 32
_is_word = re.compile(r"\w").match
_is_ascii_word = re.compile(r"\w", re.ASCII).match
_EMPTY_HAS_NO_BOUNDARIES = re.match(r"\B", "") is None
"""Up to Python 3.13 neither `\\b` nor `\\B` is true in an empty text."""

Holds = Callable[[int, int], bool]
"""Whether an anchor holds between a character with these properties and one with those."""


class _State(dict[str, "_State"]):
    """A set of positions, and what stood in front. It asks the automaton where a new character leads."""

    __slots__ = ("automaton", "before", "positions")

    def __init__(self, automaton: Automaton, positions: tuple[int, ...], before: int) -> None:
        super().__init__()
        self.automaton = automaton
        self.positions = positions
        self.before = before

    def __missing__(self, character: str) -> _State:
        return self.automaton.further(self, character)


class Automaton:
    """One regular expression. Its `matches` says what `re.match` would, or with `whole` what `re.fullmatch` would."""

    def __init__(self, pattern: str, items: tree.Items, flags: int, *, whole: bool) -> None:
        """Raises UsageError for a pattern with too many positions."""
        self._pattern = pattern
        self._whole = whole
        # The positions, by number. One is a character and where that leads; an anchor and where it leads; a fork; or
        # the end, which is the first of them.
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
        """How many positions it has."""
        return len(self._ahead)

    def matches(self, text: str, budget: Budget) -> bool:
        """Whether the text matches. Raises BudgetError when that costs more than is left."""
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
        """The state behind this character, which is kept with the state."""
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

    # -- the first automaton, made from behind: each item is told what follows it

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

    def _sequence(self, items: tree.Items, flags: int, after: int) -> int:
        for operation, argument in tree.backwards(items):
            after = self._item(operation, argument, flags, after)
        return after

    def _item(self, operation: Any, argument: Any, flags: int, after: int) -> int:
        if operation in tree.CHARACTERS:
            return self._position((after,), test=self._test(operation, argument, flags))
        if operation is tree.AT:
            self._with_anchors = True
            return self._position((after,), holds=_anchor(argument, flags))
        if operation is tree.SUBPATTERN:
            _number, added, removed, body = argument
            return self._sequence(body, tree.combined_flags(flags, added, removed), after)
        if operation is tree.BRANCH:
            return self._position(tuple(self._sequence(part, flags, after) for part in argument[1]))
        if operation is tree.FAILURE:
            return self._position((), holds=_never)
        if operation is tree.ATOMIC:
            return self._sequence(argument, flags, after)
        if operation is tree.MAX_REPEAT or operation is tree.MIN_REPEAT:
            return self._repeat(argument, flags, after)
        raise ValueError(f"no automaton matches {operation}")

    def _repeat(self, repeat: tree.Repeat, flags: int, after: int) -> int:
        least, most, body = repeat
        if most == tree.UNLIMITED:
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
            self._tests.append(tree.character_test(operation, argument, flags))
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
    if at in tree.AT_STARTS:
        wanted = _START | _NEWLINE if flags & re.MULTILINE and at is not tree.AT_START_STRING else _START
        return lambda before, _behind: bool(before & wanted)
    if at is tree.AT_END_STRING:
        return lambda _before, behind: bool(behind & _STOP)
    if at is tree.AT_END:
        ends = _STOP | (_NEWLINE if flags & re.MULTILINE else _BEFORE_LAST_NEWLINE)
        return lambda _before, behind: bool(behind & ends)
    word = _ASCII_WORD if flags & re.ASCII else _WORD
    edge = at is tree.AT_BOUNDARY

    def holds(before: int, behind: int) -> bool:
        if _EMPTY_HAS_NO_BOUNDARIES and before & _START and behind & _STOP:
            return False
        return (bool(before & word) != bool(behind & word)) is edge

    return holds


def _never(_before: int, _behind: int) -> bool:
    return False
