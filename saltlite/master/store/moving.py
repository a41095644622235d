"""How all that a store in SQL holds is copied to another one, and how it is made sure that nothing is missing.

Both have the same tables and columns, and both order texts by their bytes. A copy is verified by reading it again: the
number of rows of each table, and a digest of them in the order of their keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import StoreError
from saltlite.master.store.reader import ChangingQueries, Queries
from saltlite.model.dataclass import dataclass

KEYS: dict[str, tuple[str, ...]] = {
    "keys": ("fingerprint",),
    "tokens": ("token_id",),
    "preaccepts": ("id",),
    "auth_tokens": ("token_id",),
    "minions": ("id",),
    "functions": ("digest",),
    "events": ("seq",),
    "jobs": ("seq",),
    "job_targets": ("jid", "target"),
    "job_counts": ("jid",),
    "job_arguments": ("jid",),
    "returns": ("jid", "seq"),
}
"""The tables, each with the columns that its rows are told apart and ordered by."""
PAGE = 1_000
LARGE_PAGE = 16
"""Rows that are read at once of tables whose rows may have 16 MiB."""
_LARGE = ("jobs", "returns", "events")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a table holds."""

    rows: int
    digest: str


def rows_of(store: Queries, table: str, columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
    """All rows of the table, in pages, in the order of its key."""
    keys = KEYS[table]
    at = [columns.index(key) for key in keys]
    names, order, marks = _quoted(columns), _quoted(keys), ", ".join("?" * len(keys))
    page = LARGE_PAGE if table in _LARGE else PAGE
    first = f"SELECT {names} FROM {table} ORDER BY {order} LIMIT {page}"  # noqa: S608 - names of this package
    later = f"SELECT {names} FROM {table} WHERE ({order}) > ({marks}) ORDER BY {order} LIMIT {page}"  # noqa: S608 - as above
    rows = store.rows(first)
    while rows:
        yield rows
        rows = store.rows(later, [rows[-1][index] for index in at]) if len(rows) == page else []


def contents(store: Queries, columns: Mapping[str, Sequence[str]]) -> dict[str, Contents]:
    """What each table holds."""
    found = {}
    for table in KEYS:
        count, digest = 0, hashlib.sha256()
        for rows in rows_of(store, table, columns[table]):
            count += len(rows)
            _add(digest, rows)
        found[table] = Contents(count, digest.hexdigest())
    return found


def copy(
    source: Queries, target: ChangingQueries, columns: Mapping[str, Sequence[str]], stored: Any
) -> dict[str, Contents]:
    """Copy all tables; what each holds then. `stored` makes of each value what the target keeps of it. Raises
    StoreError if the target does not hold what was copied."""
    copied = {}
    for table in KEYS:
        names = columns[table]
        marks = ", ".join("?" * len(names))
        insert = f"INSERT INTO {table} ({_quoted(names)}) VALUES ({marks})"  # noqa: S608 - names of this package
        count, digest = 0, hashlib.sha256()
        for page in rows_of(source, table, names):
            rows = [tuple(map(stored, row)) for row in page]
            target.run_many(insert, rows)
            count += len(rows)
            _add(digest, rows)
        copied[table] = Contents(count, digest.hexdigest())
    for table, found in contents(target, columns).items():
        if found != copied[table]:
            raise StoreError(
                f"the copy of the table {table} has {found.rows} rows, {copied[table].rows} were copied, or differs in "
                "what they hold; nothing was moved"
            )
    return copied


def _add(digest: Any, rows: Sequence[Sequence[Any]]) -> None:
    for row in rows:
        digest.update(msgpack.packb(tuple(row)))


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
