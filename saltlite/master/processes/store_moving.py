"""Moves the store of this machine's master from its SQLite file to its PostgreSQL database, or back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from saltlite.config.master import MasterConfig
from saltlite.errors import SaltliteError, StoreError, UsageError
from saltlite.master.processes.app import Paths
from saltlite.master.processes.store_opening import load_postgres, seal_key_of
from saltlite.master.store.moving import KEYS, Contents, copy
from saltlite.master.store.sqlite import SqliteStore
from saltlite.master.store.sqlite.connection import SqliteConnection
from saltlite.model.dataclass import dataclass
from saltlite.platform.daemon import InstanceLock
from saltlite.platform.privileges import drop_to

MOVED = ".moved"
"""The end of the name that a file gets when its store was moved to a database."""
_STORE = "SELECT id, epoch, accepted_version, moves, {last_seq} FROM store"
_LAST_SEQ = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)"


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved."""

    tables: Mapping[str, Contents]
    """What each table held."""
    unsealed: int = 0
    """Rows that no master had sealed: keys that are rejected now, join tokens and pre-accepted keys that are gone."""


def move_store(config: MasterConfig, *, to_database: bool) -> Moved:
    """Move the store to the database of the configuration, or from there to the file.

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
        raise UsageError(f"there is no store to move: {path} does not exist")
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
            # The file has no seals, so all that is in it lets minions in.
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
