"""The master's store in a PostgreSQL database, for fleets whose store has to survive the loss of a machine.

This package has the schema, the connections and what is said to PostgreSQL in its own words; the rest of the reader and
the writer is that of every store in SQL. The contract is in `saltlite.master.store.ports`.

A database serves one master unless all of them say that they share it: each connection holds a lock with the number of
that start of the master, and a connection that finds another number there is refused.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from saltlite.errors import StoreError
from saltlite.master.store.ports import DiskUsage
from saltlite.master.store.postgres.commit_signal import PostgresCommitSignal
from saltlite.master.store.postgres.connection import (
    UNCONFIRMED,
    Database,
    PostgresConnection,
    TimedConnection,
)
from saltlite.master.store.postgres.formats import bring_to_format, lock_of
from saltlite.master.store.postgres.inventory import PLACE, PostgresInventory
from saltlite.master.store.postgres.locks import ORDER, SHARE, TAKE, WRITING
from saltlite.master.store.postgres.pipeline import stored
from saltlite.master.store.postgres.schema import MOVED_AWAY, NEVER_EMPTY, OID, OLDEST_SERVER, TABLES, prepare
from saltlite.master.store.postgres.seals import RowSeals
from saltlite.master.store.postgres.statements import (
    BYTES,
    LOGIN_FULL_AT,
    MASTERS,
    READER,
    AppendTransaction,
    PostgresAppends,
    PostgresReader,
    PostgresTransaction,
    PostgresWriter,
    Waiting,
    master_of,
)
from saltlite.master.store.reader import AcceptedIds, ChangingQueries, Queries, Values
from saltlite.master.store.rows import readable
from saltlite.master.store.sharing import CommitSignal, MasterRow, ReaderRow, SharedWriter
from saltlite.model.events import TIME_LINE_BITS

log = logging.getLogger(__name__)

_Copied = TypeVar("_Copied")

OTHERS_WAIT_S = 14.0
"""How long the first connection of a master waits for those of a master that was killed, or lost its power, a moment
ago: the server notices that after 11 s (`connection._SETTINGS`)."""
OTHERS_LOOK_S = 0.1
ONE_MASTER = "a database serves one master, or several of one fleet (saltlite help several-masters)"
_PLACE = f"SELECT {PLACE} FROM store"  # noqa: S608 - a constant
_TIME_LINE = "('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint"
_BELOW_LINE = f"(SELECT {_TIME_LINE} AS line) AS t WHERE t.line > 1 AND seq < t.line << {TIME_LINE_BITS}"
_RAISE_DUE = f"SELECT 1 FROM store, {_BELOW_LINE}"  # noqa: S608 - constants
_RAISE = f"UPDATE store SET seq = t.line << {TIME_LINE_BITS} FROM {_BELOW_LINE}"  # noqa: S608 - constants
_HOLD = "SELECT pg_advisory_lock_shared(%s, %s)"
_OTHERS = (
    "SELECT coalesce(a.application_name, ''), coalesce(host(a.client_addr), 'this machine of the database')"
    " FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.classid::bigint = %s"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND l.objid::bigint <> %s LIMIT 1"
)
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::double precision"
# Of the tables of a few rows that change all the time, and are found by reading all pages.
_SMALL_TABLES = (
    "SELECT name, rows, pg_relation_size(name::regclass) / current_setting('block_size')::bigint,"
    " pg_relation_filenode(name::regclass)::bigint FROM (SELECT 'store' AS name, 1::bigint AS rows UNION ALL"
    " SELECT 'inventory', 1 UNION ALL SELECT 'masters', (SELECT count(*) FROM masters)) AS small"
)
"""The name of each, its rows and pages, and the number of its file, which another one follows when it is rewritten."""
PAGES, PAGES_A_ROW = 16, 2
"""A table with more pages than these is rewritten. After a rewrite a row has a page: little of it may be filled."""
SHORTEN_S = 300.0
"""How often at most: versions that something still reads are rewritten, too."""
_SHARED = 0
"""What masters that share the store hold in place of the number of a start."""


class PostgresStore(PostgresReader):
    """`saltlite.master.store.ports.Store` in a PostgreSQL database.

    One instance belongs to one thread of one process: open it after the fork.
    Raises StoreError when the database cannot be reached, is no store of this version, or serves another master.
    """

    def __init__(
        self,
        dsn: str,
        *,
        master: int,
        application: str = "saltlite",
        waits_s: float = OTHERS_WAIT_S,
        name: str = "",
        several: bool = False,
        seal_key: bytes | None = None,
    ) -> None:
        """`master`: the number of this start of the master, the same in all its processes, below 2**31. `waits_s`: how
        long to wait for another master to go. `several`: others may share the store, each with another `name`, and the
        same `seal_key`, which keys of minions and join tokens are sealed with."""
        self._database = Database.of(dsn, application)
        self._master = master
        self._waits_s = waits_s
        self._name = name
        self._several = several
        self.seals = RowSeals(seal_key)
        self._where = self._database.where
        self.place = ""
        self._write_side = PostgresConnection(self._database, self._begin_writing, reads=False)
        try:
            oid = int(self._write_side.value(OID))
            self._read_side = PostgresConnection(self._database, self._begin, reads=True)
        except StoreError:
            self._write_side.close()
            raise
        self._writing_key, self._order_key = (WRITING << 32) + oid, (ORDER << 32) + oid
        self._channel = f"saltlite_{oid}"
        self._tells = [("SELECT pg_notify(?, '')", (self._channel,))] if several else []
        self._writing = False
        self._shorten_at = 0.0
        self._shortened: dict[str, int] = {}
        """Pages of small tables after they were rewritten."""
        self._waiting = Waiting()
        self._inventory: PostgresInventory | None = None
        super().__init__(self._read_side, AcceptedIds())

    def _begin(self, connection: TimedConnection) -> None:
        """Look at the tables of a new connection, and hold the database for this master. Raises StoreError."""
        formats = prepare(connection, self._where)
        ((oid,),) = connection.execute(OID).fetchall()
        if not self._several:
            self._hold(connection, oid, self._master, f"another master uses the {self._where} {{}}; {ONE_MASTER}")
        else:
            alone = f"a master that shares with no other uses the {self._where} {{}}: set `several_masters` there, too"
            self._hold(connection, oid, _SHARED, alone)
            namesake = (
                f"another master named {self._name} uses the {self._where} {{}}: this one needs another `master_name`"
            )
            self._hold(connection, lock_of(oid, self._name), self._master, namesake)
            ((self.place,),) = connection.execute(_PLACE).fetchall()
        if formats.is_due:
            # After the locks: nobody's tables are changed under a master that is not expected.
            bring_to_format(connection, self._where, (WRITING << 32) + oid, self._name if self._several else "")
        # A connection that is made again later does not wait: an MWorker would stand still.
        self._waits_s = 0.0

    def _begin_writing(self, connection: TimedConnection) -> None:
        """As `_begin`, and the numbers of events begin above those of all earlier time lines. No standby has to confirm
        that: a promotion that loses it begins a later time line. Raises StoreError."""
        self._begin(connection)
        if connection.execute(_RAISE_DUE).fetchall():
            with connection.transaction():
                connection.execute(UNCONFIRMED)
                connection.execute(_RAISE)

    def _hold(self, connection: TimedConnection, what: int, number: int, refusal: str) -> None:
        """Hold that lock with this number. Raises StoreError with the refusal while another number is there."""
        connection.execute(_HOLD, (what, number))
        give_up_at = time.monotonic() + self._waits_s
        while others := connection.execute(_OTHERS, (what, number)).fetchall():
            if time.monotonic() >= give_up_at:
                ((name, address),) = others
                raise StoreError(refusal.format(f"({name} from {address})"))
            time.sleep(OTHERS_LOOK_S)

    @contextmanager
    def write(self, *, appends_only: bool = False) -> Iterator[SharedWriter]:
        """One transaction; see `saltlite.master.store.ports.Store.write`. Transactions do not nest."""
        self._write_side.check()
        if self._writing:
            raise StoreError("a transaction of this store is open already; end it before the next")
        self._writing = True
        try:
            self._write_side.ready()
            yield from self._appends() if appends_only else self._changes()
        finally:
            self._writing = False

    def _appends(self) -> Iterator[SharedWriter]:
        transaction = AppendTransaction(self._write_side, (SHARE, (self._writing_key,)))
        try:
            writer = PostgresAppends(
                transaction, self._accepted, self._waiting, (TAKE, (self._order_key,)), self._tells
            )
            writer.seals = self.seals
            yield writer
            writer.commit()
        finally:
            transaction.end()

    def _changes(self) -> Iterator[SharedWriter]:
        transaction = PostgresTransaction(self._write_side, (TAKE, (self._writing_key,)))
        try:
            # What the caller reads elsewhere is to stay true, too.
            transaction.begin()
            writer = PostgresWriter(transaction, self._accepted, self._waiting, self._tells)
            writer.seals = self.seals
            yield writer
            transaction.commit(writer.finishing())
        finally:
            transaction.end()
        if writer.has_pruned:
            self._shorten_tables()

    def _shorten_tables(self) -> None:
        """Bring tables of a few rows back to a few pages. Versions of a row that a long query or a backup of the
        database might still read fill more of them; afterwards the row stays in the last one, and no vacuum removes
        the others. Raises nothing: another prune tries again."""
        now = time.monotonic()
        if now < self._shorten_at:
            return
        side = self._write_side
        try:
            files = {
                name: file
                for name, rows, pages, file in side.rows(_SMALL_TABLES)
                # What something still reads is as long afterwards, and is not rewritten again and again.
                if pages > max(PAGES + PAGES_A_ROW * rows, 2 * self._shortened.get(name, 0))
            }
            if not files:
                return
            self._shorten_at = now + SHORTEN_S
            with side.unconfirmed(self._writing_key):
                for name in files:
                    # A backup keeps the table locked until its end: nobody waits behind us for that.
                    side.run(f"VACUUM (FULL, SKIP_LOCKED) {name}")
            rewritten = [row for row in side.rows(_SMALL_TABLES) if row[0] in files and row[3] != files[row[0]]]
            self._shortened.update((name, pages) for name, _rows, pages, _file in rewritten)
        except StoreError as error:
            log.info("the pages of small tables are given back later: %s", error)

    def seal_rows(self) -> None:
        """Seal the rows that were written before there was a key to seal them with. Raises StoreError if other masters
        have sealed some."""
        transaction = PostgresTransaction(self._write_side, (TAKE, (self._writing_key,)))
        try:
            transaction.begin()
            self.seals.seal_all(transaction, self._where, self._name)
            transaction.commit([])
        finally:
            transaction.end()

    def check_seals(self) -> None:
        """Raises StoreError if the keys of minions are sealed with another key than that of this master."""
        self.seals.refuse_others(self._read_side, self._where)

    def masters(self) -> list[MasterRow]:
        """As SharedStore.masters."""
        rows = self._read_side.rows(f"{MASTERS} ORDER BY name")
        return readable(rows, master_of, lambda row: f"the master {row[0]}")

    def session_counts(self) -> dict[str, int]:
        """As SharedStore.session_counts."""
        return dict(self._read_side.rows("SELECT master, count(*) FROM minions WHERE up = 1 GROUP BY master"))

    def clock(self) -> float:
        """As SharedStore.clock."""
        return float(self._read_side.value(_CLOCK))

    def reader(self, name: str) -> ReaderRow | None:
        """As SharedStore.reader."""
        rows = self._read_side.rows(READER, (name,))
        return ReaderRow(*rows[0]) if rows else None

    def login_full_at(self, name: str) -> float:
        """As SharedStore.login_full_at."""
        return float(self._read_side.value(LOGIN_FULL_AT, (name,)) or 0.0)

    def listen(self) -> CommitSignal:
        """As SharedStore.listen. Only masters that share the store are heard."""
        return PostgresCommitSignal(self._database, self._channel)

    def inventory(self) -> PostgresInventory:
        """As SharedStore.inventory."""
        if self._inventory is None:
            self._inventory = PostgresInventory(self._database, self._begin)
        return self._inventory

    def unlimited(self) -> PostgresConnection:
        """The connection for changes, without limits of time for a statement or a pause between two."""
        self._write_side.lift_limits()
        return self._write_side

    def is_full(self, limit: int) -> bool:
        return self.size() >= limit

    def disk_usage(self) -> DiskUsage:
        names = list(TABLES)
        sql = "SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0)::bigint FROM unnest(?::text[]) AS name"
        file = int(self._read_side.value(sql, (names,)))  # type: ignore[arg-type]  # an array is a value here
        return DiskUsage(file, 0, free=max(0, file - self.size()), left=None)

    def empty_log(self) -> bool:
        """Nothing to do: the log is the server's, who overwrites it."""
        return True

    def close(self) -> None:
        """Let go of the database, and of a transaction that is still open. A second call does nothing."""
        self._read_side.close()
        self._write_side.close()
        if self._inventory is not None:
            self._inventory.close()


_TAKE = f"UPDATE store SET id = ?, epoch = ?, accepted_version = ?, moves = ?, seq = ?, bytes = {BYTES}"  # noqa: S608 - constants
_GIVE = f"SELECT id, epoch, accepted_version, moves, {PostgresReader.LAST_SEQ} FROM store"  # noqa: S608 - as above


class MovingStore:
    """A database that a store is moved to or from, while no master uses it."""

    def __init__(self, dsn: str) -> None:
        """Raises StoreError as PostgresStore does."""
        self._store = PostgresStore(dsn, master=int.from_bytes(os.urandom(4), "big") >> 1, application="saltlite store")
        self._side = self._store.unlimited()

    def take(self, copied: Callable[[ChangingQueries, Callable[[object], object]], _Copied], values: Values) -> _Copied:
        """Store what `copied` copies, and `values`: id, epoch, version of the accepted ids, number of moves, last seq.
        Raises StoreError if a store is there already."""
        side = self._side
        for table in TABLES:
            if table not in NEVER_EMPTY and side.value(f"SELECT EXISTS (SELECT 1 FROM {table})"):  # noqa: S608 - names of this package
                raise StoreError(f"the {side.where} has a store already (table {table}): name an empty database")
        side.run("BEGIN")
        try:
            answer = copied(side, stored)
            side.commit([(_TAKE, values)])
        finally:
            side.rollback()
        return answer

    def give(self) -> tuple[Queries, Values]:
        """What to copy from, and the values that `take` gets."""
        (values,) = self._side.rows(_GIVE)
        return self._side, values

    def seal(self, seal_key: bytes) -> None:
        """Seal what was taken."""
        self._store.seals = RowSeals(seal_key)
        self._store.seal_rows()

    def unsealed(self, seal_key: bytes) -> list[tuple[str, tuple[str, ...]]]:
        """As `RowSeals.unsealed`, with this key."""
        return RowSeals(seal_key).unsealed(self._side)

    def leave(self) -> None:
        """Note that the store is elsewhere now: no master starts on what is left here."""
        self._side.run("UPDATE store SET format = ?", (MOVED_AWAY,))

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()


def open_to_move(dsn: str) -> MovingStore:
    """The database of `saltlite store migrate`. Raises StoreError."""
    return MovingStore(dsn)


_SETTINGS = (
    "SELECT name, setting FROM pg_settings WHERE name IN"
    " ('server_version', 'fsync', 'full_page_writes', 'synchronous_standby_names')"
)


def look(dsn: str) -> dict[str, Any]:
    """What matters of a server, without a change to it: `where`, the `settings` of _SETTINGS, how many `standbys` there
    are and how many of them are `synchronous`, its `clock` in wall-clock seconds, and whether it `is_old`. Raises
    StoreError as PostgresStore does.
    """
    database = Database.of(dsn, "saltlite doctor")
    side = PostgresConnection(database, lambda _connection: None, reads=True)
    try:
        states = [state for (state,) in side.rows("SELECT coalesce(sync_state, '') FROM pg_stat_replication")]
        return {
            "where": database.where,
            "settings": dict(side.rows(_SETTINGS)),
            "standbys": len(states),
            "synchronous": sum(state in ("sync", "quorum") for state in states),
            "clock": float(side.value(_CLOCK)),
            "is_old": int(side.value("SHOW server_version_num")) < OLDEST_SERVER,
        }
    finally:
        side.close()


__all__ = ["MovingStore", "PostgresStore", "look", "open_to_move"]
