"""Schemas of minimal returns, and checks of values against them.

A schema is made of an annotation (`dict[str, str]`, a TypedDict, a dataclass, unions) or of a structure of types
(`{"name": str, "uid": int, "groups": [str]}`). Additional data always fits. A check examines the value and the first
entries of each container, so a large value costs no more: a few microseconds.
"""

from __future__ import annotations

import dataclasses
import itertools
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from saltlite.model.dataclass import dataclass

ENTRIES_MAX = 50
"""Entries of one list or dict that are checked."""

NESTED_MAX = 4
"""The same if each entry is a container; a provider that breaks an interface breaks it in every entry."""

MISMATCHES_MAX = 20
"""Mismatches of one value that are reported."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One part of a value that does not fit; `path` is its position, such as `vim.old` or `[3]`."""

    path: str
    wanted: str
    found: str

    def text(self) -> str:
        """The mismatch as the end of the sentence "it returned …"."""
        place = f" at {self.path}" if self.path else ""
        return f"{self.found}{place} where {self.wanted} is promised"


class Schema:
    """A kind of value. This one takes anything."""

    exact: frozenset[type] | None = None
    """The types whose every value fits, if the type alone decides."""

    def text(self) -> str:
        """The schema as text: `dict[str, str]`."""
        return "any"

    def fits(self, _value: object) -> bool:
        """Whether the value fits; the fast check."""
        return True

    def mismatches(self, _value: object, _path: str) -> Iterator[Mismatch]:
        """Every part that does not fit."""
        return iter(())

    def filled(self, value: Any, _default: Any) -> Any:
        """The value with its missing keys added, from the default structure or empty."""
        return value

    def empty(self) -> Any:
        """The empty value of this kind."""
        return None


class ScalarSchema(Schema):
    """A value of one type. A bool is not an int here, and an int is a float."""

    def __init__(self, kind: type) -> None:
        self.exact = self._types = frozenset({float, int}) if kind is float else frozenset({kind})
        self._kind = kind

    def text(self) -> str:
        return "None" if self._kind is type(None) else self._kind.__name__

    def empty(self) -> Any:
        return self._kind() if self._kind in (str, int, float, bool, bytes) else None

    def fits(self, value: object) -> bool:
        if type(value) in self._types:
            return True
        return isinstance(value, self._kind) and not isinstance(value, bool)

    def mismatches(self, value: object, path: str) -> Iterator[Mismatch]:
        if not self.fits(value):
            yield Mismatch(path, self.text(), _kind_of(value))


class ListSchema(Schema):
    """A list or tuple, which a job transports as a list; each entry fits `entry`."""

    def __init__(self, entry: Schema) -> None:
        self._entry = entry

    def empty(self) -> Any:
        return []

    def text(self) -> str:
        return f"list[{self._entry.text()}]" if type(self._entry) is not Schema else "list"

    def fits(self, value: object) -> bool:
        return isinstance(value, (list, tuple)) and _all_fit(value, self._entry)

    def mismatches(self, value: object, path: str) -> Iterator[Mismatch]:
        if not isinstance(value, list | tuple):
            yield Mismatch(path, self.text(), _kind_of(value))
            return
        for number, entry in enumerate(_first(value, self._entry)):
            yield from self._entry.mismatches(entry, f"{path}[{number}]")


class DictSchema(Schema):
    """A dict with keys and values of one kind each."""

    def __init__(self, key: Schema, value: Schema) -> None:
        self._key = key
        self._value = value

    def empty(self) -> Any:
        return {}

    def text(self) -> str:
        if type(self._key) is Schema and type(self._value) is Schema:
            return "dict"
        return f"dict[{self._key.text()}, {self._value.text()}]"

    def fits(self, value: object) -> bool:
        # The isinstance check of a plain dict costs as much as the rest.
        if type(value) is not dict and not isinstance(value, Mapping):
            return False
        return _all_fit(value, self._key) and _all_fit(value.values(), self._value)

    def mismatches(self, value: object, path: str) -> Iterator[Mismatch]:
        if not isinstance(value, Mapping):
            yield Mismatch(path, self.text(), _kind_of(value))
            return
        for key, entry in zip(value, _first(value.values(), self._value), strict=False):
            yield from self._key.mismatches(key, f"the key {key!r} of {path}" if path else f"the key {key!r}")
            yield from self._value.mismatches(entry, _below(path, key))

    def filled(self, value: Any, default: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        sample = next(iter(default.values()), None) if isinstance(default, Mapping) else None
        return {key: self._value.filled(entry, sample) for key, entry in value.items()}


class RecordSchema(Schema):
    """A dict with certain keys; others are allowed."""

    def __init__(self, required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> None:
        self._required = dict(required)
        self._optional = dict(optional or {})

    def empty(self) -> Any:
        return {name: schema.empty() for name, schema in self._required.items()}

    def text(self) -> str:
        fields = [f"{name}: {schema.text()}" for name, schema in self._required.items()]
        fields += [f"{name}?: {schema.text()}" for name, schema in self._optional.items()]
        return "{" + ", ".join(fields) + "}"

    def fits(self, value: object) -> bool:
        if type(value) is not dict and not isinstance(value, Mapping):
            return False
        for name, schema in self._required.items():
            if name not in value or not schema.fits(value[name]):
                return False
        return not self._optional or all(
            name not in value or schema.fits(value[name]) for name, schema in self._optional.items()
        )

    def mismatches(self, value: object, path: str) -> Iterator[Mismatch]:
        if not isinstance(value, Mapping):
            yield Mismatch(path, self.text(), _kind_of(value))
            return
        for name, schema in {**self._optional, **self._required}.items():
            if name in value:
                yield from schema.mismatches(value[name], _below(path, name))
            elif name in self._required:
                yield Mismatch(_below(path, name), schema.text(), "nothing")

    def filled(self, value: Any, default: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        given = default if isinstance(default, Mapping) else {}
        whole = dict(value)
        for name, schema in self._required.items():
            if name in whole:
                whole[name] = schema.filled(whole[name], given.get(name))
            else:
                whole[name] = given[name] if name in given else schema.empty()
        return whole


class UnionSchema(Schema):
    """A value of one of several kinds."""

    def __init__(self, choices: Sequence[Schema]) -> None:
        self._choices = tuple(choices)
        exact = [choice.exact for choice in self._choices]
        self.exact = frozenset().union(*(one for one in exact if one)) if all(exact) else None

    def empty(self) -> Any:
        kinds = [choice.empty() for choice in self._choices]
        return None if None in kinds else kinds[0]

    def text(self) -> str:
        return " | ".join(choice.text() for choice in self._choices)

    def fits(self, value: object) -> bool:
        return any(choice.fits(value) for choice in self._choices)

    def mismatches(self, value: object, path: str) -> Iterator[Mismatch]:
        if self.fits(value):
            return
        # If a container is one of the choices, a mismatch inside it is more helpful than the type.
        for choice in self._choices:
            found = list(choice.mismatches(value, path))
            if isinstance(value, Mapping | list) and found and found[0].path != path:
                yield from found
                return
        yield Mismatch(path, self.text(), _kind_of(value))

    def filled(self, value: Any, default: Any) -> Any:
        if self.fits(value):
            return value
        candidates = (choice.filled(value, default) for choice in self._choices)
        return next((one for one in candidates if self.fits(one)), value)


def mismatches_of(schema: Schema, value: object) -> list[Mismatch]:
    """The mismatches of the value, at most MISMATCHES_MAX; empty if it fits."""
    return [] if schema.fits(value) else list(itertools.islice(schema.mismatches(value, ""), MISMATCHES_MAX))


def schema_of(annotation: Any) -> Schema:
    """The schema of an annotation or a structure of types; an unknown form accepts anything."""
    if annotation is None:
        return ScalarSchema(type(None))
    for read in (_of_structure, _of_generic, _of_class):
        found = read(annotation)
        if found is not None:
            return found
    return Schema()


def schema_of_example(value: Any) -> Schema:
    """The schema of a structure that is itself an example: the types of its entries, and anything for None."""
    if isinstance(value, Mapping):
        if not value:
            return DictSchema(Schema(), Schema())
        return RecordSchema({str(name): schema_of_example(one) for name, one in value.items()})
    if isinstance(value, list | tuple):
        return ListSchema(schema_of_example(value[0]) if value else Schema())
    return ScalarSchema(type(value)) if isinstance(value, bool | int | float | str | bytes) else Schema()


def _of_structure(wanted: Any) -> Schema | None:
    if isinstance(wanted, Mapping):
        return RecordSchema({str(name): schema_of(kind) for name, kind in wanted.items()})
    if isinstance(wanted, list):
        return ListSchema(schema_of(wanted[0]) if wanted else Schema())
    if isinstance(wanted, tuple) and wanted:
        return UnionSchema([schema_of(one) for one in wanted])
    return None


def _of_generic(wanted: Any) -> Schema | None:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is None:
        return None
    if origin in (typing.Union, types.UnionType):
        return UnionSchema([schema_of(one) for one in arguments])
    if origin is typing.Literal:
        return UnionSchema([ScalarSchema(kind) for kind in dict.fromkeys(type(one) for one in arguments)])
    if origin in (typing.Required, typing.NotRequired, typing.Annotated):
        return schema_of(arguments[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return DictSchema(*(schema_of(one) for one in arguments[:2]))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return ListSchema(schema_of(arguments[0]))
    return None


def _of_class(wanted: Any) -> Schema | None:
    if not isinstance(wanted, type) or wanted in (object, Any):
        return None
    if typing.is_typeddict(wanted):
        hints = typing.get_type_hints(wanted)
        needed = {name for name in hints if name in wanted.__required_keys__}  # type: ignore[attr-defined]  # a TypedDict
        return RecordSchema(
            {name: schema_of(hint) for name, hint in hints.items() if name in needed},
            {name: schema_of(hint) for name, hint in hints.items() if name not in needed},
        )
    if dataclasses.is_dataclass(wanted):
        return RecordSchema({name: schema_of(hint) for name, hint in typing.get_type_hints(wanted).items()})
    if issubclass(wanted, Mapping):
        return DictSchema(Schema(), Schema())
    return ListSchema(Schema()) if issubclass(wanted, list | tuple) else ScalarSchema(wanted)


def _all_fit(values: Collection[Any], schema: Schema) -> bool:
    exact = schema.exact
    if exact is None:
        return type(schema) is Schema or all(map(schema.fits, _first(values, schema)))
    # Comparing the types of all entries at once is ten times as fast, and most values pass.
    first = values if len(values) <= ENTRIES_MAX else itertools.islice(values, ENTRIES_MAX)
    return exact.issuperset(map(type, first)) or all(map(schema.fits, _first(values, schema)))


def _first(values: Collection[Any], entry: Schema) -> Iterable[Any]:
    """The entries that are checked."""
    most = NESTED_MAX if entry.exact is None else ENTRIES_MAX
    return values if len(values) <= most else itertools.islice(values, most)


def _kind_of(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
