"""Listings of machines in one form: six fields, always present, each of one type.

Contract: "Writing Cloud Driver Modules", `list_nodes`. Drivers answer with None, tuples, numbers and extra fields;
these functions normalize them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TEXTS = ("id", "image", "size", "state")
LISTS = ("private_ips", "public_ips")
FIELDS = (*TEXTS, *LISTS)
"""The fields of every machine in a listing."""

GONE_STATES = frozenset({"terminated", "terminating", "shutting-down", "deleted", "deleting", "destroyed", "absent"})
"""States, in lower case, of machines that are still listed but gone: their names are free."""


class ListingError(ValueError):
    """A driver did not answer a map of machines."""


def normal(machines: object) -> dict[str, dict[str, Any]]:
    """A normalized answer of `list_nodes`: `{name: {the six fields}}`. Raises ListingError."""
    return {name: six_fields(details) for name, details in _machines(machines)}


def full(machines: object) -> dict[str, dict[str, Any]]:
    """A normalized answer of `list_nodes_full`: all fields, with the six. Raises ListingError."""
    return {name: {**plain(details), **six_fields(details)} for name, details in _machines(machines)}


def six_fields(details: Mapping[str, Any]) -> dict[str, Any]:
    """Exactly the six fields: four texts and two lists of texts."""
    texts = {field: _text(details.get(field)) for field in TEXTS}
    return {**texts, **{field: _addresses(details.get(field)) for field in LISTS}}


def selected(details: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The selected fields of a machine that it has; `extra:key` is a key in a map."""
    found: dict[str, Any] = {}
    for field in fields:
        value: Any = details
        for part in (field,) if field in details else field.split(":"):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None or field in details:
            found[field] = value
    return found


def is_gone(details: Mapping[str, Any]) -> bool:
    """Whether this machine is gone and its provider still lists it."""
    return str(details.get("state") or "").strip().lower() in GONE_STATES


def plain(value: Any) -> Any:
    """The value as data that can be stored and sent: maps, lists, texts, numbers, booleans, None."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(one) for one in value]
        case bytes():
            return value.decode("utf-8", "replace")
        case _:
            return str(value)


def _machines(machines: object) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(machines, Mapping):
        raise ListingError(f"a {type(machines).__name__} in place of a map of machines")
    for name, details in machines.items():
        if not isinstance(details, Mapping):
            raise ListingError(f"a {type(details).__name__} in place of the fields of {str(name)[:60]}")
    return [(str(name), details) for name, details in machines.items()]


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _addresses(value: object) -> list[str]:
    if isinstance(value, str) or value is None:
        return [value] if value else []
    if isinstance(value, Sequence | set | frozenset):
        return [str(one) for one in value if one]
    return [str(value)]
