"""What all minions have under one top-level key, in little memory.

A value is kept as a cell: plain values as they are, everything else in msgpack, so that bytes are always msgpack. Equal
texts are one object for as long as there are few different ones; a key whose values all differ costs no table of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from saltlite.targeting.bank_values import limits_of
from saltlite.targeting.banks import NAMES, RESOURCE_GRAINS
from saltlite.targeting.budget import Budget
from saltlite.targeting.subdict import STEPS_OF_A_VALUE
from saltlite.targeting.views import Ends, Path, View
from saltlite.wire.codec import decode, encode

INTERNED_MAX = 1024
"""Different texts of one column that are looked for again; with more, all are forgotten."""

DENSE_FROM = 64
"""Values of a column from which on it may become a list by number."""

DENSE_SHARE = 8
"""A column becomes a list when at least one id of that many has a value: a list costs 8 bytes for every id."""

Cell: TypeAlias = str | bytes | int | float | None


class _Absent:
    """That an id has no value, which None would be."""


ABSENT = _Absent()

_PLAIN = frozenset({str, int, float, bool, type(None)})
_LIMITS = limits_of(*NAMES[RESOURCE_GRAINS])


def value_of(cell: Cell) -> object:
    """The value again."""
    return decode(cell, _LIMITS) if type(cell) is bytes else cell


class Column:
    """The cells of one top-level key by the numbers of ids, and the views that are made of them."""

    __slots__ = ("_dense", "_interned", "_sparse", "count", "key", "nested", "views")

    def __init__(self, key: str | int) -> None:
        self.key = key
        self.count = 0
        self.nested = 0
        """How many of the cells are msgpack: without any, no path leads deeper."""
        self.views: dict[Path, View] = {}
        self._sparse: dict[int, Cell] = {}
        self._dense: list[Cell | _Absent] | None = None
        self._interned: dict[str | bytes, str | bytes] = {}

    def put(self, number: int, name: str, value: object, room: int) -> None:
        """Give `name`, which has that number of at most `room`, this value, which came out of a bank."""
        cell: Cell = value if type(value) in _PLAIN else encode(value, _LIMITS)  # type: ignore[assignment]  # see _PLAIN
        dense = self._dense
        old: Cell | _Absent = ABSENT
        if dense is None:
            old = self._sparse.get(number, ABSENT)
        elif number < len(dense):
            old = dense[number]
        if old is cell or (old is not ABSENT and _same(old, cell)):
            return
        if type(cell) is str or type(cell) is bytes:
            interned = self._interned
            if len(interned) >= INTERNED_MAX:
                interned.clear()
            cell = interned.setdefault(cell, cell)
        self._replace(name, old, cell)
        if dense is None:
            self._sparse[number] = cell
            if self.count >= DENSE_FROM and self.count * DENSE_SHARE >= room:
                self._become_dense(room)
        else:
            if number >= len(dense):
                dense += [ABSENT] * (room - len(dense))
            dense[number] = cell

    def drop(self, number: int, name: str) -> None:
        """Take the cell from `name`, which has that number, and has one."""
        if self._dense is None:
            self._replace(name, self._sparse.pop(number), ABSENT)
        else:
            old, self._dense[number] = self._dense[number], ABSENT
            self._replace(name, old, ABSENT)

    def items(self) -> Iterator[tuple[int, Cell]]:
        """The number of each id that has a cell, with it."""
        if self._dense is None:
            yield from self._sparse.items()
            return
        for number, cell in enumerate(self._dense):
            if cell is not ABSENT:
                yield number, cell  # type: ignore[misc]  # ABSENT is the only one of its kind

    def make_view(self, path: Path, names: Sequence[str], budget: Budget) -> View:
        """The view of that path, kept up from now on. `names` has the id of each number.

        Raises BudgetError when the ways through nested values are more than `budget` pays for; then there is none.
        """
        view = View(path)
        known: dict[str | bytes, Ends] = {}
        for number, cell in self.items():
            if not isinstance(cell, str | bytes):
                view.add(names[number], view.ends(cell))
                continue
            ends = known.get(cell)
            if ends is None:
                if len(known) >= INTERNED_MAX:
                    known.clear()
                ends = known[cell] = view.ends(value_of(cell))
                budget.spend(ends.steps * STEPS_OF_A_VALUE)
            view.add(names[number], ends)
        self.views[path] = view
        return view

    def _replace(self, name: str, old: Cell | _Absent, new: Cell | _Absent) -> None:
        if old is ABSENT:
            self.count += 1
        elif new is ABSENT:
            self.count -= 1
        if type(new) is bytes:
            self.nested += 1
        if type(old) is bytes:
            self.nested -= 1
        if not self.views:
            return
        for view in self.views.values():
            if not isinstance(old, _Absent):
                view.remove(name, view.ends(value_of(old)))
            if not isinstance(new, _Absent):
                view.add(name, view.ends(value_of(new)))

    def _become_dense(self, room: int) -> None:
        dense: list[Cell | _Absent] = [ABSENT] * room
        for number, cell in self._sparse.items():
            dense[number] = cell
        self._dense, self._sparse = dense, {}


def _same(old: Cell | _Absent, new: Cell) -> bool:
    # 1, 1.0 and True are equal, and 0.0 is -0.0, but their texts differ.
    return old is new or (type(old) is type(new) and type(new) is not float and old == new)
