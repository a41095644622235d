"""Tables, their formats, and the checks before a database is used.

The tables are those of `saltlite.master.store.sqlite.schema`, without what only SQLite needs. `store` has five columns
more: `format` and `expanded`, see `Formats`, `seq`, the last sequence number of an event, `bytes`, what
`StoreReader.size` answers, and `targets`, how many targets were ever put. `masters` has a row for each master that
shares the store, `bank_values` and `resources` what minions reported to these, `inventory` the number of the last
change of it, for whose row writers wait, and `copy_pieces` files on their way to minions. `login_limits` has names that
wrong passwords were tried for, and `runner_requests` what minions have asked runners for, so that neither depends on
which master is asked. The rows that let minions in have a `seal` (`saltlite.master.store.postgres.seals`).
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from saltlite.errors import StoreError
from saltlite.master.store.postgres.connection import TimedConnection
from saltlite.model.dataclass import dataclass

FORMAT = 12
MOVED_AWAY = 0
"""The format of what is left when the store was moved to a file."""
OLDEST_SERVER = 130_000
"""The oldest version of PostgreSQL, as it numbers itself."""
MAKING = 0x5345_5455_50
"""The advisory lock of whoever makes or looks at the tables."""
OID = "SELECT 'store'::regclass::oid::bigint & x'7fffffff'::bigint"
"""The number of the store among those of the server."""

_TABLES = """
CREATE TABLE store (
    id text NOT NULL, format bigint NOT NULL, epoch bigint NOT NULL DEFAULT 0,
    accepted_version bigint NOT NULL DEFAULT 0, moves bigint NOT NULL DEFAULT 0, seq bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0, targets bigint NOT NULL DEFAULT 0, expanded bigint) WITH (fillfactor = 10);
CREATE TABLE keys (
    fingerprint text NOT NULL PRIMARY KEY, id text NOT NULL, public bytea NOT NULL, state text NOT NULL,
    address text NOT NULL, first_seen real NOT NULL, changed_at real NOT NULL, epoch bigint NOT NULL,
    how text NOT NULL, seal text NOT NULL DEFAULT '');
CREATE UNIQUE INDEX keys_holder_any_case ON keys (lower(id)) WHERE state = 'accepted';
CREATE INDEX keys_by_id ON keys (lower(id));
CREATE INDEX keys_by_state ON keys (state, address);
CREATE TABLE tokens (
    token_id text NOT NULL PRIMARY KEY, public bytea NOT NULL, id_glob text NOT NULL, uses_left bigint NOT NULL,
    created_at real NOT NULL, expires_at real NOT NULL, created_by text NOT NULL, seal text NOT NULL DEFAULT '');
CREATE TABLE preaccepts (
    id text NOT NULL PRIMARY KEY, fingerprint text NOT NULL, created_by text NOT NULL,
    seal text NOT NULL DEFAULT '');
CREATE TABLE minions (
    id text NOT NULL PRIMARY KEY, fingerprint text NOT NULL, address text NOT NULL, version text NOT NULL,
    boot_id text NOT NULL, incarnation text NOT NULL, functions text NOT NULL, up bigint NOT NULL,
    last_seen real NOT NULL, master text NOT NULL DEFAULT '', run bigint NOT NULL DEFAULT 0,
    handshake bigint NOT NULL DEFAULT 0, end_reason text);
CREATE TABLE functions (digest text NOT NULL PRIMARY KEY, whole bigint NOT NULL, texts bytea NOT NULL);
CREATE TABLE events (seq bigint NOT NULL PRIMARY KEY, tag text NOT NULL, data bytea NOT NULL, at real NOT NULL);
CREATE INDEX events_by_time ON events (at);
CREATE TABLE jobs (
    seq bigint NOT NULL PRIMARY KEY, jid text NOT NULL, request_id text NOT NULL, "user" text NOT NULL,
    uid bigint NOT NULL, origin text NOT NULL, fun text NOT NULL, tgt text NOT NULL, tgt_type text NOT NULL,
    created_at real NOT NULL, deliver_ms bigint NOT NULL, run_ms bigint NOT NULL,
    batch_size bigint, batch_wait_ms bigint, batch_failhard bigint,
    cancelled_at real, cancelled_by text NOT NULL DEFAULT '',
    signature bytea NOT NULL, body bytea NOT NULL, minions bytea NOT NULL, resources bytea NOT NULL,
    UNIQUE (request_id, uid));
CREATE INDEX jobs_by_time ON jobs (created_at);
CREATE UNIQUE INDEX jobs_listing ON jobs (jid) INCLUDE (created_at, "user", fun);
CREATE TABLE job_targets (
    jid text NOT NULL, target text NOT NULL, minion text NOT NULL, part bigint NOT NULL, rank bigint NOT NULL,
    state text NOT NULL, reason text NOT NULL, changed_at real NOT NULL, outcome bigint NOT NULL DEFAULT 0,
    moved bigint, PRIMARY KEY (jid, target)) WITH (fillfactor = 70);
CREATE INDEX job_targets_unfinished ON job_targets (rank, minion, jid, part) WHERE rank < 9;
CREATE INDEX job_targets_parts ON job_targets (jid, minion, part) WHERE target <> minion;
CREATE INDEX job_targets_bad ON job_targets (outcome, jid, minion) WHERE outcome > 1;
CREATE INDEX job_targets_moved ON job_targets (jid, moved) WHERE moved IS NOT NULL;
CREATE TABLE job_counts (
    jid text NOT NULL PRIMARY KEY, open bigint NOT NULL, active bigint NOT NULL, planned bigint NOT NULL,
    failed bigint NOT NULL, changed_at real NOT NULL) WITH (fillfactor = 50);
CREATE TABLE returns (
    seq bigint NOT NULL, jid text NOT NULL, target text NOT NULL, state text NOT NULL,
    retcode bigint NOT NULL, started_at real NOT NULL, duration_ms bigint NOT NULL,
    reason text NOT NULL, body bytea NOT NULL, PRIMARY KEY (jid, seq), UNIQUE (jid, target));
CREATE TABLE auth_tokens (
    token_id text NOT NULL PRIMARY KEY, backend text NOT NULL, "user" text NOT NULL, groups text NOT NULL,
    created_at real NOT NULL, expires_at real NOT NULL, seal text NOT NULL);
CREATE INDEX auth_tokens_by_user ON auth_tokens (backend, "user", created_at);
CREATE TABLE job_arguments (jid text NOT NULL PRIMARY KEY);
"""
_MASTERS = """
CREATE TABLE masters (
    name text NOT NULL PRIMARY KEY, start bigint NOT NULL, certificate bytea NOT NULL, address text NOT NULL,
    version text NOT NULL, state text NOT NULL, applied bigint NOT NULL, renewals bigint NOT NULL)
    WITH (fillfactor = 10);
"""
_INVENTORY = """
CREATE TABLE inventory (seq bigint NOT NULL, pruned bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO inventory (seq, pruned) VALUES (0, 0);
CREATE TABLE bank_values (
    bank text NOT NULL, key text NOT NULL, seq bigint NOT NULL, at real NOT NULL, digest text NOT NULL,
    data bytea, PRIMARY KEY (bank, key));
ALTER TABLE bank_values ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX bank_values_changed ON bank_values (seq);
CREATE TABLE resources (srn text NOT NULL PRIMARY KEY, minion text, seq bigint NOT NULL);
CREATE INDEX resources_changed ON resources (seq);
"""
_MORE_OF_MASTERS = (
    "ALTER TABLE masters ADD COLUMN weight bigint NOT NULL DEFAULT 100, ADD COLUMN about text NOT NULL DEFAULT ''"
)
_UPGRADES = "ALTER TABLE masters ADD COLUMN format bigint, ADD COLUMN format_start bigint"
"""`format` is that of the start `format_start`: an older saltlite leaves both as they are."""
_COPIES = """
CREATE TABLE copy_pieces (
    area text NOT NULL, number bigint NOT NULL, at real NOT NULL, data bytea NOT NULL, PRIMARY KEY (area, number));
ALTER TABLE copy_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
"""
_READERS = """
CREATE TABLE readers (
    name text NOT NULL PRIMARY KEY, master text NOT NULL, start bigint NOT NULL, fence bigint NOT NULL,
    data text NOT NULL) WITH (fillfactor = 50);
"""
_RENEWED = "ALTER TABLE masters ADD COLUMN renewed bytea NOT NULL DEFAULT ''"
_OF_ALL_MASTERS = """
CREATE TABLE login_limits (name text NOT NULL PRIMARY KEY, full_at real NOT NULL);
CREATE INDEX login_limits_by_time ON login_limits (full_at);
CREATE TABLE runner_requests (
    minion text NOT NULL, request_id text NOT NULL, at real NOT NULL, PRIMARY KEY (minion, request_id));
CREATE INDEX runner_requests_by_time ON runner_requests (at);
"""
_TABLES += f"{_MASTERS}{_INVENTORY}{_MORE_OF_MASTERS};{_UPGRADES};{_COPIES}{_READERS}{_RENEWED};{_OF_ALL_MASTERS}"


@dataclass(frozen=True, slots=True)
class Step:
    """What makes a store of one format one of the next."""

    sql: str
    """Adds columns that may be empty or have a default, indexes and tables, so that older masters can go on."""
    contract: str = ""
    """Removes or changes what only older masters use: done when none of them may act any more."""
    alone: bool = False
    """`sql` changes what older masters use, so none of them may run."""
    bearable_from: int = 0
    """The oldest format whose masters can go on, if not all can."""


_ALONE = {
    1: "ALTER TABLE minions ADD COLUMN master text NOT NULL DEFAULT '', ADD COLUMN run bigint NOT NULL DEFAULT 0,"
    " ADD COLUMN handshake bigint NOT NULL DEFAULT 0",
    # Each index costs every return or job an insertion.
    2: "ALTER TABLE store ADD COLUMN targets bigint NOT NULL DEFAULT 0;"
    " ALTER TABLE returns DROP CONSTRAINT returns_pkey; DROP INDEX returns_by_job;"
    " ALTER TABLE returns ADD PRIMARY KEY (jid, seq);"
    " DROP INDEX jobs_listing; ALTER TABLE jobs DROP CONSTRAINT jobs_jid_key;"
    ' CREATE UNIQUE INDEX jobs_listing ON jobs (jid) INCLUDE (created_at, "user", fun);'
    " DROP INDEX job_targets_unfinished; DROP INDEX job_targets_open;"
    " CREATE INDEX job_targets_unfinished ON job_targets (rank, minion, jid, part) WHERE rank < 9",
    3: _MASTERS,
    4: _INVENTORY,
    5: "ALTER TABLE keys ADD COLUMN seal text NOT NULL DEFAULT '';"
    " ALTER TABLE tokens ADD COLUMN seal text NOT NULL DEFAULT '';"
    f" ALTER TABLE preaccepts ADD COLUMN seal text NOT NULL DEFAULT ''; {_MORE_OF_MASTERS}",
    6: _COPIES,
    7: _READERS,
    8: "ALTER TABLE minions ADD COLUMN end_reason text",
}
STEPS = {number: Step(sql, alone=True) for number, sql in _ALONE.items()} | {
    9: Step(f"ALTER TABLE store ADD COLUMN expanded bigint; {_UPGRADES}"),
    10: Step(_RENEWED),
    # Format 9 takes a table that it does not know for that of another program.
    11: Step(_OF_ALL_MASTERS, bearable_from=10),
}
"""What makes a store of format N one of format N + 1."""


def least_beside(number: int) -> int:
    """The oldest format whose masters can go on after that step; 0 if all can."""
    return number + 1 if STEPS[number].alone else STEPS[number].bearable_from


def typed(sql: str) -> str:
    # Texts are ordered by their bytes, as Python and SQLite order them, whatever the locale of the server.
    return re.sub(r"\breal\b", "double precision", re.sub(r"\btext\b", 'text COLLATE "C"', sql))


TABLES = tuple(re.findall(r"CREATE TABLE (\w+)", _TABLES))
"""Names of all tables."""
_FIRST = frozenset(re.findall(r"CREATE TABLE (\w+)", _TABLES.partition("CREATE TABLE masters")[0]))
"""Those of format 1."""
NEVER_EMPTY = ("store", "inventory")
"""Tables that have a row from the beginning."""


class Formats(NamedTuple):
    """Which saltlite a store is for. Masters that share it are upgraded one after the other, so these may differ."""

    least: int
    """The oldest format whose saltlite can use it; the column `format`, which every saltlite looks at."""
    expanded: int
    """The newest format whose saltlite finds in it what it needs."""

    @property
    def is_due(self) -> bool:
        """Whether this saltlite has something to change."""
        return self.expanded < FORMAT or self.least < least_of_new()


def least_of_new() -> int:
    """The oldest format whose saltlite can use a store in which nothing is left of older ones."""
    return max(number + 1 if step.contract else least_beside(number) for number, step in STEPS.items())


def prepare(connection: TimedConnection, where: str) -> Formats:
    """Make the tables in an empty schema, or check those that are there.

    Raises StoreError: an old server, another encoding, no schema to use, tables of another program, a newer format. A
    database that is refused is left as it was. Raises psycopg.Error.
    """
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        raise StoreError(
            f"the {where} is PostgreSQL {version // 10_000}; saltlite needs {OLDEST_SERVER // 10_000} or newer"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"the {where} has the encoding {encoding}; create it with ENCODING 'UTF8'")
    with connection.transaction():
        connection.execute(f"SELECT pg_advisory_xact_lock({MAKING})")
        ((schema,),) = connection.execute("SELECT current_schema()").fetchall()
        if schema is None:
            raise StoreError(f"the {where} has no schema that its search_path names; create one, or set search_path")
        found = tables_of(connection)
        if found:
            return _checked(connection, where, schema, found)
        connection.execute(typed(_TABLES))
        new = Formats(least_of_new(), FORMAT)
        connection.execute("INSERT INTO store (id, format, expanded) VALUES (%s, %s, %s)", (os.urandom(16).hex(), *new))
        return new


def tables_of(connection: TimedConnection) -> set[str]:
    """The names of the tables of the schema. Raises psycopg.Error."""
    sql = (
        "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind IN ('r', 'p', 'v', 'm', 'f')"
    )
    return {name for (name,) in connection.execute(sql).fetchall()}


def formats_of(connection: TimedConnection) -> Formats:
    """Raises psycopg.Error."""
    sql = "SELECT format, coalesce((to_jsonb(store) ->> 'expanded')::bigint, format) FROM store"
    ((least, expanded),) = connection.execute(sql).fetchall()
    return Formats(least, expanded)


def _checked(connection: TimedConnection, where: str, schema: str, found: set[str]) -> Formats:
    """Raises StoreError."""
    formats = formats_of(connection) if found.issuperset(_FIRST) else None
    # A newer saltlite may have added tables.
    strangers = [] if formats is not None and formats.expanded > FORMAT else sorted(found.difference(TABLES))
    if strangers or formats is None:
        named = f", such as {strangers[0]}," if strangers else ""
        raise StoreError(
            f"the schema {schema} of the {where} has tables of another program{named} and was left as it is; give "
            "saltlite a database of its own"
        )
    if formats.least == MOVED_AWAY:
        raise StoreError(
            f"the store that was in the {where} was moved to a file by `saltlite store migrate`; name an empty "
            "database, or remove `database` from the configuration"
        )
    if not 0 < formats.least <= FORMAT:
        raise StoreError(
            f"the store in the {where} has format {formats.least}, this saltlite reads format {FORMAT} and older; it "
            "was left as it is: start the saltlite that wrote it"
        )
    return formats
