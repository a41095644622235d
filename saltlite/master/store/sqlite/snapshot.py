"""A copy of a store that is in use, in one file, by SQLite's own backup."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from saltlite.errors import StoreError
from saltlite.master.store.sqlite.connection import BUSY_TIMEOUT_MS, explain
from saltlite.master.store.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION


def copy_store(path: str, to: str) -> int:
    """Copy the store at `path` as it is at one moment to the existing empty file `to`; the format of the store.

    Writers wait for nothing, and readers see no difference. Raises StoreError: the store cannot be read, is damaged or
    is no store, or there is no room for the copy.
    """
    reading = path
    try:
        with (
            closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)) as store,
            closing(sqlite3.connect(to, isolation_level=None)) as copy,
        ):
            application = store.execute("PRAGMA application_id").fetchone()[0]
            reading = to
            # In one step: with several it would begin again after each commit of another process.
            store.backup(copy, pages=-1)
            copy.execute("PRAGMA journal_mode = DELETE")
            found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
            version = int(copy.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        raise explain(error, reading) from error
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is not a saltlite store")
    if found != "ok":
        raise StoreError(f"the store {path} is damaged, and no backup was made of it: {' '.join(found.split())}")
    return version


__all__ = ["SCHEMA_VERSION", "copy_store"]
