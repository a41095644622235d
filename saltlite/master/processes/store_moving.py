"""Moves the store of this machine's master from its SQLite file to its PostgreSQL database, or back.

Both have the same tables and columns, and both order texts by their bytes. The copy is verified by reading it again:
the number of rows of each table, and a digest of them in the order of their keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import SaltliteError, StoreError, UsageError
from saltlite.master.processes.app import Paths
from saltlite.master.processes.store_opening import load_postgres, seal_key_of
from saltlite.master.store.reader import ChangingQueries, Queries
from saltlite.master.store.sqlite import SqliteStore
from saltlite.master.store.sqlite.connection import SqliteConnection
from saltlite.model.dataclass import dataclass
from saltlite.platform.daemon import InstanceLock
from saltlite.platform.privileges import drop_to

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig

MOVED = ".moved"
"""The end of the name that a file gets when its store was moved to a database."""
_STORE = "SELECT id, epoch, accepted_version, moves, {last_seq} FROM store"
_LAST_SEQ = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)"


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved."""

    tables: Mapping[str, Contents]
    """The content of each table that was copied."""
    unsealed: int = 0
    """Rows that no master had sealed: the number of keys that are rejected now, and of join tokens and pre-accepted
    keys that were deleted."""


def move_store(config: MasterConfig, *, to_database: bool) -> Moved:
    """Move the store from the file to the database of the configuration, or back.

    The master must not run. The process becomes the master's user. Raises SaltliteError; nothing has moved then.
    """
    if not config.database:
        raise UsageError("the master's configuration names no `database`: set it, and keep it until the store is moved")
    postgres = load_postgres()
    paths = Paths(config)
    lock = InstanceLock(paths.lock, program="saltlite-master", root_dir=config.root_dir)
    try:
        seal_key = seal_key_of(config)
        drop_to(config.user)
        database = postgres.open_to_move(config.database)
        try:
            if not to_database:
                return _to_file(paths.store, database, seal_key)
            return Moved(_to_database(paths.store, database, seal_key))
        finally:
            database.close()
    finally:
        lock.close()


def _to_database(path: str, database: Any, seal_key: bytes | None) -> Mapping[str, Contents]:
    if not os.path.isfile(path):
        if os.path.isfile(path + MOVED):
            raise UsageError(
                f"the store has been moved already: {path}{MOVED} is the file that it left. `saltlite store migrate "
                "sqlite` moves it back from the database"
            )
        raise UsageError(f"there is no store to move, as {path} does not exist: is that the master's data_dir?")
    SqliteStore(path).close()  # an older format is brought to this one
    file = SqliteConnection(path)
    try:
        (values,) = file.rows(_STORE.format(last_seq=_LAST_SEQ))
        copied: Mapping[str, Contents] = database.take(
            lambda target, stored: copy(file, target, _columns(file), stored), values
        )
    finally:
        file.close()
    if seal_key is not None:
        database.seal(seal_key)
    # A master without `database` must not start with what is old from now on.
    _rename(path, path + MOVED)
    return copied


def _to_file(path: str, database: Any, seal_key: bytes | None) -> Moved:
    if os.path.exists(path):
        raise UsageError(f"{path} exists: move it away, as it would be replaced")
    new = path + ".new"
    with _without(new):
        SqliteStore(new).close()
        file = SqliteConnection(new)
        try:
            source, values = database.give()
            file.run("BEGIN IMMEDIATE")
            copied = copy(source, file, _columns(file), _same)
            # The file has no seals, so every accepted key in it would be valid.
            unsealed = database.unsealed(seal_key) if seal_key is not None else []
            for sql, parameters in unsealed:
                file.run(sql, parameters)
            file.run("UPDATE store SET id = ?, epoch = ?, accepted_version = ?, moves = ?", values[:4])
            file.run("DELETE FROM sqlite_sequence WHERE name = 'events'")
            file.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?)", values[4:])
            file.run("COMMIT")
        finally:
            file.close()
        _rename(new, path)
    database.leave()
    return Moved(copied, len(unsealed))


def _columns(file: SqliteConnection) -> dict[str, list[str]]:
    names = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
    return {table: [name for (name,) in file.rows(names, (table,))] for table in KEYS}


def _same(value: object) -> object:
    return value


def _rename(path: str, name: str) -> None:
    try:
        os.rename(path, name)
    except OSError as error:
        raise SaltliteError(
            f"{path} cannot be renamed to {name} ({error.strerror}): do so before the master starts"
        ) from error


@contextlib.contextmanager
def _without(path: str) -> Iterator[None]:
    """No such file before and after, nor those that SQLite puts beside it."""

    def remove() -> None:
        for end in ("", "-wal", "-shm", ".lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + end)

    remove()
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror}); nothing was moved") from error
    finally:
        remove()


# -- The copy of all tables

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
"""The tables, each with the columns that identify and order its rows."""
PAGE = 1_000
LARGE_PAGE = 16
"""Rows per page of tables whose rows may have 16 MiB."""
_LARGE = ("jobs", "returns", "events")


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a table: how many rows, and a digest of them."""

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
    """The content of each table."""
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
    """Copy all tables. Returns the content of each. `stored` converts a value to its form in the target. Raises
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
