"""Which of many have what a question asks for: an inverted index over grains or pillar.

It says of every question what `saltlite.targeting.subdict` says of each id's data, and asks that at most once for
each different value. Values stay by top-level key; what a path leads to is turned round when it is first asked for,
kept up from then on, and forgotten when others were asked for since and there is no more room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping

from saltlite.targeting.budget import Budget
from saltlite.targeting.columns import INTERNED_MAX, Column, value_of
from saltlite.targeting.fleet import Query
from saltlite.targeting.subdict import Subdict
from saltlite.targeting.views import Path, View, as_number

VIEWS_COST_MAX = 1_500_000
"""What all views together may cost, in ids that they hold; a text or a key counts as four. The one that was asked for
last is kept whatever it costs. A view of a million is some 50 MB."""

STEPS_OF_A_NEW_ROW = 30
"""Steps of the budget for each id of a view that is made."""

STEPS_OF_AN_ID = 1 / 4
"""Steps of the budget for an id that is found."""

CELLS_PAID_AT_ONCE = 256
"""Values that are compared before the next ones are paid for."""

SHAPES_MAX = 4096
"""Different lists of top-level keys that are looked for again."""


class Index:
    """Ids with their data: maps of what msgpack has. One thread uses it."""

    def __init__(self) -> None:
        self._columns: dict[str | int, Column] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._shapes: list[tuple[str | int, ...]] = []
        """By number: the top-level keys that the id has."""
        self._free: list[int] = []
        self._known_shapes: dict[tuple[str | int, ...], tuple[str | int, ...]] = {}
        self._views: OrderedDict[tuple[str | int, Path], View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def put(self, name: str, data: Mapping[str, object]) -> None:
        """Let `data` be what `name` has. What is the same as before costs a comparison."""
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
        """Forget `name`; nothing happens when it is not there."""
        number = self._numbers.pop(name, None)
        if number is None:
            return
        for key in self._shapes[number]:
            self._drop(key, number, name)
        self._shapes[number] = ()
        self._free.append(number)

    def select(self, query: Query, budget: Budget | None = None) -> frozenset[str]:
        """The ids for whose data the question holds, paid from `budget`.

        Raises UsageError for a bad regular expression, BudgetError.
        """
        question = Subdict(query, budget)
        budget = question.budget
        found: set[str] = set()
        if any(key == "*" for _, key in question.keys[0]):
            # Any top-level key: views of all of them would be as large as the data.
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
                found |= here
        return frozenset(found)

    def texts(self, expression: str, budget: Budget | None = None) -> Iterator[tuple[str, frozenset[str]]]:
        """Each text that the keys `a:b:c` lead to, with the ids where they do; a `*` among them, but for the first, is
        any key. A text may come more than once. Raises UsageError for an expression that is too long.
        """
        budget = budget or Budget()
        first, *others = expression.split(":")
        for column in self._named(first):
            shadowed = self._shadowed(column, first)
            for text, ids in self._view(column, Path.of(tuple(others), ":"), budget).texts():
                if ids - shadowed:
                    yield text, ids - shadowed

    def _named(self, key: str) -> list[Column]:
        number = as_number(key)
        keys: list[str | int] = [key] if number is None else [key, number]
        return [self._columns[key] for key in keys if key in self._columns]

    def _shadowed(self, column: Column, key: str) -> frozenset[str]:
        """Who has the text as a key, and so is not asked about the number that `column` is for."""
        if column.key == key or key not in self._columns:
            return frozenset()
        return frozenset(self._names[number] for number, _ in self._columns[key].items())

    def _scan(self, column: Column, question: Subdict) -> Iterator[str]:
        """The ids whose value in that column is what is asked for, of every value in turn."""
        question.budget.spend(column.count)
        ends = [end for end, key in question.keys[0] if key == "*" or column in self._named(key)]
        tests = [question.tests[end] for end in ends]
        verdicts: dict[str | bytes, bool] = {}
        count = characters = 0
        for number, cell in column.items():
            holds = verdicts.get(cell) if isinstance(cell, str | bytes) else None
            if holds is None:
                if isinstance(cell, bytes):
                    holds = question.match({column.key: value_of(cell)})  # type: ignore[dict-item]  # or a number
                else:
                    count += 1
                    characters += len(cell) if isinstance(cell, str) else 1
                    if count == CELLS_PAID_AT_ONCE:
                        for end in ends:
                            question.pay(end, count, characters)
                        count = characters = 0
                    holds = any(test(cell) for test in tests)
                if isinstance(cell, str | bytes):
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
