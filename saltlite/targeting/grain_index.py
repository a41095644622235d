"""An inverted index over grains or pillar: finds the ids whose data a query matches.

The result is that of `saltlite.targeting.subdict` for each id, but each distinct value is compared at most once. Values
are stored by top-level key. The first query of a path inverts it into a view, which is then kept current, and dropped
when memory is short and other views were used more recently.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import compress
from typing import NamedTuple, TypeAlias, TypeVar

from saltlite.model.dataclass import dataclass
from saltlite.targeting.banks import NAMES, RESOURCE_GRAINS, Bank, Value, limits_of
from saltlite.targeting.fleet import Budget, DataQuery
from saltlite.targeting.patterns import has_wildcard
from saltlite.targeting.subdict import STEPS_OF_A_VALUE, Subdict, value_text
from saltlite.wire.codec import decode, encode

OWN_COST = 2_000
"""The cost of an empty view: queries of keys that do not exist create any number of these."""

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_Key = TypeVar("_Key", str, str | int)


class Path(NamedTuple):
    """The pieces of a query between the top-level key and the pattern, and their delimiter."""

    pieces: tuple[str, ...]
    delimiter: str

    @classmethod
    def of(cls, pieces: tuple[str, ...], delimiter: str) -> Path:
        """The path of these pieces. Without pieces, the delimiter does not matter."""
        return cls(pieces, delimiter if pieces else "")


@dataclass(slots=True)
class PathEnds:
    """The ends of a path in one value."""

    texts: set[str] = field(default_factory=set)
    """The texts of plain values, including those in lists."""
    keys: set[str | int] = field(default_factory=set)
    """The keys of maps."""
    reached: bool = False
    """Whether the path exists: empty maps and lists have neither texts nor keys."""
    steps: int = 1
    """Visited values."""


class PathWalk:
    """Follows a path through nested values."""

    def __init__(self, path: Path) -> None:
        self.length = len(path.pieces)
        self.keys: list[list[tuple[int, str]]] = []
        self.positions: list[int | None] = []
        if path.pieces:
            # An empty pattern, because only its place matters.
            asked = Subdict(DataQuery(path.delimiter.join((*path.pieces, "")), path.delimiter))
            self.keys = asked.keys[: self.length]
            self.positions = [asked.position(place) for place in range(self.length)]

    def ends(self, value: object) -> PathEnds:
        """The ends of the path in this value."""
        if type(value) is str:
            return PathEnds() if self.length else PathEnds({value}, reached=True)
        ends = PathEnds()
        seen: set[tuple[int, int]] = set()
        ahead: list[tuple[object, int]] = [(value, 0)]
        while ahead:
            found, place = ahead.pop()
            ends.steps += 1
            ended = place == self.length
            ends.reached = ends.reached or ended
            if not isinstance(found, Mapping | list | tuple):
                if ended:
                    ends.texts.add(value_text(found))
            elif (id(found), place) not in seen:
                seen.add((id(found), place))
                if ended and isinstance(found, Mapping):
                    ends.keys.update(found)
                else:
                    ahead += self._further(found, place)
        return ends

    def _further(self, found: object, place: int) -> Iterator[tuple[object, int]]:
        if isinstance(found, Mapping):
            for end, key in self.keys[place]:
                for value in found.values() if key == "*" else _under(found, key):
                    yield value, end
        elif isinstance(found, list | tuple):
            yield from ((member, place) for member in found)
            at = self.positions[place] if place < self.length else None
            if at is not None and at < len(found):
                yield found[at], place + 1


def as_number(key: str) -> int | None:
    """The key as a number, if it is one."""
    return int(key) if _NUMBER.fullmatch(key) else None


def _under(found: Mapping[object, object], key: str) -> list[object]:
    if key in found:
        return [found[key]]
    number = as_number(key)
    return [found[number]] if number in found else []


class View:
    """Ids by the texts and keys at the ends of a path. A single id is stored without a set."""

    def __init__(self, path: Path) -> None:
        self._steps = PathWalk(path)
        self._texts: dict[str, str | set[str]] = {}
        self._spelled: dict[str, set[str]] = {}
        """Lower case -> the texts that differ from it."""
        self._keys: dict[str | int, str | set[str]] = {}
        self._empty: set[str] = set()
        """Ids where the path exists, but without texts or keys."""
        self.size = 0
        """Ids in the tables, counted as often as they occur."""
        self._characters = 0
        """Sum of the lengths of all texts."""
        self._longest = 0
        """Length of the longest text so far."""

    def cost(self) -> int:
        """The memory of the view, in units of an id in a set."""
        return OWN_COST + self.size + 4 * (len(self._texts) + len(self._keys))

    def ends(self, value: object) -> PathEnds:
        """The ends of the view's path in this value."""
        return self._steps.ends(value)

    def add(self, name: str, ends: PathEnds) -> None:
        """Add `name` with these ends."""
        for text in ends.texts:
            if text not in self._texts:
                self._characters += len(text)
                self._longest = max(self._longest, len(text))
                if (lower := text.lower()) != text:
                    self._spelled.setdefault(lower, set()).add(text)
            _put(self._texts, text, name)
        for key in ends.keys:
            _put(self._keys, key, name)
        self.size += len(ends.texts) + len(ends.keys)
        if ends.reached and not ends.texts and not ends.keys:
            self._empty.add(name)

    def remove(self, name: str, ends: PathEnds) -> None:
        """Remove `name`, which had these ends."""
        for text in ends.texts:
            _take(self._texts, text, name)
            if text not in self._texts:
                self._characters -= len(text)
                if (lower := text.lower()) != text:
                    self._forget_spelling(lower, text)
        for key in ends.keys:
            _take(self._keys, key, name)
        self.size -= len(ends.texts) + len(ends.keys)
        self._empty.discard(name)

    def collect(self, found: set[str], question: Subdict, place: int, *, regex: bool) -> None:
        """Add to `found` the ids for which the rest of the query, from `place` on, is true."""
        tail = question.tails[place]
        if tail == "*":
            found |= self._empty
            _gather(found, self._texts.values())
            _gather(found, self._keys.values())
            return
        number = as_number(tail)
        _gather(found, [self._keys.get(tail, ()), () if number is None else self._keys.get(number, ())])
        if regex or has_wildcard(tail):
            verdicts = question.verdicts(place, self._texts, self._characters, self._longest)
            _gather(found, compress(self._texts.values(), verdicts))
        else:
            lower = tail.lower()
            _gather(found, (self._texts.get(text, ()) for text in (lower, *self._spelled.get(lower, ()))))

    def with_texts(self, found: set[str], passes: Callable[[str], bool], budget: Budget) -> None:
        """Add to `found` the ids that have a text which passes."""
        budget.spend(len(self._texts) * _STEPS_OF_A_TEST)
        _gather(found, (ids for text, ids in self._texts.items() if passes(text)))

    def _forget_spelling(self, lower: str, text: str) -> None:
        spelled = self._spelled[lower]
        spelled.discard(text)
        if not spelled:
            del self._spelled[lower]


def _put(table: dict[_Key, str | set[str]], key: _Key, name: str) -> None:
    ids = table.get(key)
    if ids is None:
        table[key] = name
    elif isinstance(ids, str):
        if ids != name:
            table[key] = {ids, name}
    else:
        ids.add(name)


def _take(table: dict[_Key, str | set[str]], key: _Key, name: str) -> None:
    ids = table.get(key)
    if isinstance(ids, set):
        ids.discard(name)
        if not ids:
            del table[key]
    elif ids == name:
        del table[key]


def _gather(found: set[str], many: Iterable[str | Collection[str]]) -> None:
    for ids in many:
        if isinstance(ids, str):
            found.add(ids)
        else:
            found.update(ids)


INTERNED_MAX = 1024
"""Distinct texts of one column that are shared; beyond that, sharing starts again."""

DENSE_FROM = 64
"""Number of values from which on a column may become a list."""

DENSE_SHARE = 8
"""A column becomes a list if at least one in so many ids has a value: a list costs 8 bytes for every id."""

Cell: TypeAlias = str | bytes | int | float | None


class _Absent:
    """Marks an id without a value, because None is a value."""


ABSENT = _Absent()

_REPEATING = (str, bytes)
"""Types of cells that many ids may share, and that are compared once."""

_PLAIN = frozenset({str, int, float, bool, type(None)})
_LIMITS = limits_of(*NAMES[RESOURCE_GRAINS])


def value_of(cell: Cell) -> object:
    """The value of a cell."""
    return decode(cell, _LIMITS) if type(cell) is bytes else cell


class Column:
    """The cells of one top-level key by the number of the id, and the views of them."""

    __slots__ = ("_dense", "_interned", "_sparse", "count", "key", "nested", "views")

    def __init__(self, key: str | int) -> None:
        self.key = key
        self.count = 0
        self.nested = 0
        """The number of cells with msgpack: without any, there are no deeper paths."""
        self.views: dict[Path, View] = {}
        self._sparse: dict[int, Cell] = {}
        self._dense: list[Cell | _Absent] | None = None
        self._interned: dict[str | bytes, str | bytes] = {}

    def put(self, number: int, name: str, value: object, room: int) -> None:
        """Set the value of `name`, which has this number out of `room`. The value comes from a bank."""
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
        """Remove the cell of `name`, which has this number. The cell must exist."""
        if self._dense is None:
            self._replace(name, self._sparse.pop(number), ABSENT)
        else:
            old, self._dense[number] = self._dense[number], ABSENT
            self._replace(name, old, ABSENT)

    def items(self) -> Iterator[tuple[int, Cell]]:
        """Each cell with the number of its id."""
        if self._dense is None:
            yield from self._sparse.items()
            return
        for number, cell in enumerate(self._dense):
            if cell is not ABSENT:
                yield number, cell  # type: ignore[misc]  # ABSENT is the only one of its kind

    def make_view(self, path: Path, names: Sequence[str], budget: Budget) -> View:
        """Create the view of a path, which is kept current from now on. `names` are the ids by number.

        Raises BudgetError, without a view, if nested values exceed the budget.
        """
        view = View(path)
        known: dict[str | bytes, PathEnds] = {}
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


VIEWS_COST_MAX = 1_500_000
"""Maximal cost of all views together; see `View.cost`. The most recently used view is always kept. A view of a million
takes about 50 MB."""

STEPS_OF_A_NEW_ROW = 30
"""Budget steps per id when a view is created."""

_STEPS_OF_A_TEST = 10
"""Budget steps to ask whether a text passes."""

STEPS_OF_AN_ID = 1 / 4
"""Budget steps per id in a result."""

CELLS_PAID_AT_ONCE = 256
"""Values that are compared per charge to the budget."""

SHAPES_MAX = 4096
"""Distinct lists of top-level keys that are shared."""


class GrainIndex:
    """Ids with their data, which are maps of msgpack types. It is not thread-safe."""

    def __init__(self) -> None:
        self._columns: dict[str | int, Column] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._shapes: list[tuple[str | int, ...]] = []
        """By number: the top-level keys of the id."""
        self._free: list[int] = []
        self._known_shapes: dict[tuple[str | int, ...], tuple[str | int, ...]] = {}
        self._views: OrderedDict[tuple[str | int, Path], View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def put(self, name: str, data: Mapping[str, object]) -> None:
        """Set the data of `name`. Unchanged values cost one comparison each."""
        number = self._number_of(name)
        name, before = self._names[number], self._shapes[number]
        room = len(self._names)
        key: str | int
        for key, value in data.items():
            column = self._columns.get(key)
            if column is None:
                column = self._columns[key] = Column(key)
            column.put(number, name, value, room)
        shape = self._shape(tuple(data))
        self._shapes[number] = shape
        if shape is not before:
            for key in set(before).difference(shape):
                self._drop(key, number, name)

    def delete(self, name: str) -> None:
        """Remove `name`, if it exists."""
        number = self._numbers.pop(name, None)
        if number is None:
            return
        for key in self._shapes[number]:
            self._drop(key, number, name)
        self._shapes[number] = ()
        self._free.append(number)

    def keys(self) -> list[str]:
        """The top-level keys that some id has, without numbers."""
        return [key for key, column in self._columns.items() if isinstance(key, str) and column.count]

    def select(self, query: DataQuery, budget: Budget | None = None) -> frozenset[str]:
        """The ids whose data the query matches. Work is charged to `budget`.

        Raises UsageError for an invalid regular expression, BudgetError.
        """
        question = Subdict(query, budget)
        budget = question.budget
        found: set[str] = set()
        if any(key == "*" for _, key in question.keys[0]):
            # Any top-level key: views of all keys would be as large as the data.
            for column in self._columns.values():
                found.update(self._scan(column, question))
            return frozenset(found)
        pieces = query.expression.split(query.delimiter, len(question.tails) - 1)
        for end, key in question.keys[0]:
            for column in self._named(key):
                here: set[str] = set()
                for place in range(end, len(pieces) if column.nested else end + 1):
                    view = self._view(column, Path.of(tuple(pieces[end:place]), query.delimiter), budget)
                    view.collect(here, question, place, regex=query.regex)
                if here:
                    here -= self._shadowed(column, key)
                budget.spend(len(here) * STEPS_OF_AN_ID)
                found = found | here if found else here
        return frozenset(found)

    def with_texts(self, expression: str, passes: Callable[[str], bool], budget: Budget) -> set[str]:
        """The ids that have a text which passes under the keys `a:b:c`. A `*`, except as the first, is any key.

        Raises UsageError for an expression that is too long, BudgetError.
        """
        found: set[str] = set()
        first, *others = expression.split(":")
        for column in self._named(first):
            here: set[str] = set()
            self._view(column, Path.of(tuple(others), ":"), budget).with_texts(here, passes, budget)
            found |= here - self._shadowed(column, first)
        return found

    def _named(self, key: str) -> list[Column]:
        number = as_number(key)
        keys: list[str | int] = [key] if number is None else [key, number]
        return [self._columns[key] for key in keys if key in self._columns]

    def _shadowed(self, column: Column, key: str) -> frozenset[str]:
        """The ids that have `key` as text, which takes precedence over the number of `column`."""
        if column.key == key or key not in self._columns:
            return frozenset()
        return frozenset(self._names[number] for number, _ in self._columns[key].items())

    def _scan(self, column: Column, question: Subdict) -> Iterator[str]:
        """The ids whose value in this column matches, found by comparing all of them."""
        question.budget.spend(column.count)
        ends = [end for end, key in question.keys[0] if key == "*" or column in self._named(key)]
        tests = [question.tests[end] for end in ends]
        passes = tests[0] if len(tests) == 1 else lambda cell: any(test(cell) for test in tests)
        verdicts: dict[str | bytes, bool] = {}
        count = characters = 0
        for number, cell in column.items():
            holds = verdicts.get(cell) if isinstance(cell, _REPEATING) else None
            if holds is None:
                if isinstance(cell, bytes):
                    holds = question.match({column.key: value_of(cell)})  # type: ignore[dict-item]  # or a number
                else:
                    count += 1
                    characters += len(cell) if type(cell) is str else 1
                    if count == CELLS_PAID_AT_ONCE:
                        for end in ends:
                            question.pay(end, count, characters)
                        count = characters = 0
                    holds = passes(cell)
                if isinstance(cell, _REPEATING):
                    if len(verdicts) >= INTERNED_MAX:
                        verdicts.clear()
                    verdicts[cell] = holds
            if holds:
                yield self._names[number]

    def _view(self, column: Column, path: Path, budget: Budget) -> View:
        view = column.views.get(path)
        if view is None:
            budget.spend(column.count * STEPS_OF_A_NEW_ROW)
            view = self._views[column.key, path] = column.make_view(path, self._names, budget)
            self._make_room()
        self._views.move_to_end((column.key, path))
        return view

    def _make_room(self) -> None:
        cost = sum(view.cost() for view in self._views.values())
        while cost > VIEWS_COST_MAX and len(self._views) > 1:
            (key, path), view = self._views.popitem(last=False)
            del self._columns[key].views[path]
            cost -= view.cost()

    def _drop(self, key: str | int, number: int, name: str) -> None:
        column = self._columns[key]
        column.drop(number, name)
        if not column.count:
            del self._columns[key]
            for path in column.views:
                del self._views[key, path]

    def _number_of(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
            self._names[number] = name
        else:
            number = len(self._names)
            self._names.append(name)
            self._shapes.append(())
        self._numbers[name] = number
        return number

    def _shape(self, keys: tuple[str | int, ...]) -> tuple[str | int, ...]:
        known = self._known_shapes.get(keys)
        if known is None:
            if len(self._known_shapes) >= SHAPES_MAX:
                self._known_shapes.clear()
            # The keys of the columns, so that each key is in memory once.
            known = tuple(self._columns[key].key for key in keys)
            self._known_shapes[known] = known
        return known


Rows = Callable[[str, Value], Mapping[str, Mapping[str, object]]]
"""The rows, id -> data, of a value of a bank and its key."""


def of_minion(key: str, value: Value) -> Mapping[str, Mapping[str, object]]:
    """The only row of a value of `grains` or `pillar`: that of the minion."""
    return {key: value}


def of_resources(_key: str, value: Value) -> Mapping[str, Mapping[str, object]]:
    """The rows of a value of `resource_grains`: one per resource, under its SRN."""
    return {
        srn: row["grains"]
        for srn, row in value.items()
        if isinstance(srn, str) and isinstance(row, dict) and isinstance(row.get("grains"), dict)
    }


class BankIndex:
    """Answers queries of a bank. The first one reads the complete bank, later ones only the changes.

    If the values of several keys contain the same id, the one that was put last counts, and the id exists as long as
    one of them contains it.
    """

    def __init__(self, bank: Bank, rows: Rows = of_minion) -> None:
        self._bank = bank
        self._rows = rows
        self._index = GrainIndex()
        self._cursor = ""
        self._held: dict[str, frozenset[str]] = {}
        self._again: dict[str, int] = {}
        """Ids that several keys have, with the number of additional keys."""

    def select(self, query: DataQuery, budget: Budget | None = None) -> frozenset[str]:
        """The ids that the query matches in the current bank. Work is charged to `budget`.

        Raises UsageError for an invalid query, BudgetError, StoreError.
        """
        self.refresh()
        return self._index.select(query, budget)

    def with_texts(self, expression: str, passes: Callable[[str], bool], budget: Budget) -> set[str]:
        """As `GrainIndex.with_texts`. Raises StoreError as well."""
        self.refresh()
        return self._index.with_texts(expression, passes, budget)

    def keys(self) -> list[str]:
        """As `GrainIndex.keys`. Raises StoreError as well."""
        self.refresh()
        return self._index.keys()

    def refresh(self) -> None:
        """Apply the changes of the bank. Raises StoreError; the next call applies the rest."""
        changes = self._bank.changes(self._cursor)
        if changes.whole:
            for key in self._held.keys() - changes.keys:
                self._apply(key, {})
        for key in changes.keys:
            value = self._bank.get(key)
            self._apply(key, {} if value is None else self._rows(key, value))
        self._cursor = changes.cursor

    def _apply(self, key: str, rows: Mapping[str, Mapping[str, object]]) -> None:
        before = self._held.get(key, frozenset())
        for target, data in rows.items():
            if target not in before and target in self._index:
                self._again[target] = self._again.get(target, 0) + 1
            self._index.put(target, data)
        for target in before.difference(rows):
            self._drop(target)
        if rows:
            self._held[key] = frozenset(rows)
        else:
            self._held.pop(key, None)

    def _drop(self, target: str) -> None:
        others = self._again.get(target, 0)
        if not others:
            self._index.delete(target)
        elif others == 1:
            del self._again[target]
        else:
            self._again[target] = others - 1
