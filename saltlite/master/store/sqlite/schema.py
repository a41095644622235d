"""Tables, their version, and the checks before a file is used.

    events       the log; its seq is the one counter that readers follow, never reused (AUTOINCREMENT)
    jobs         one row a job; seq is the seq of its event
    job_targets  one row a (jid, target); minion is the target itself, or manages it, and part the number of that
                 minion's part with the target, 0 for itself; rank is saltlite.master.store.ports.RANK of its
                 state,
                 outcome is history.OUTCOME_CODE of what became of it,
                 moved the number of the transaction that moved it last; NULL if none has, or its return tells
    returns      at most one row a (jid, target); seq is the seq of its event
    keys         one row a fingerprint; at most one accepted an id, in whatever case
    minions      the last session of each id, the master that has or had it, and why it ended
    functions    what each digest of a function set stands for
    store        one row: the id of the store, the number of the last change of a key, the version of the accepted ids,
                 the number of the last transaction that moved targets
    job_counts   of a job with COUNTED_FROM targets or more: how many are in which condition, kept with each change
    job_arguments  jobs whose bodies are to be reduced when they have ended
    auth_tokens  logins: one row a token, which itself is not in it

Nothing is deleted by foreign keys: prune deletes by hand, in one place.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress

from saltlite.errors import StoreError
from saltlite.master.store.sqlite.connection import SqliteConnection
from saltlite.master.store.writer import COUNTED_FROM

log = logging.getLogger(__name__)

APPLICATION_ID = 0x534C5453
"""`SLTS` in the file header: how a saltlite store is told from any other SQLite file."""

SCHEMA_VERSION = 11
COPY_ROOM = 2
"""How many times the size of an older store has to be free for a copy: once for it, once for what the change writes."""
_TOKENS_PROVE_SINCE = 5
"""In this format the store keeps the public key of a join token; in earlier ones the hash of its secret."""

# Wide columns last: SQLite reads a row up to the last column that is asked for.
_JOBS = """CREATE TABLE jobs (
        seq INTEGER PRIMARY KEY, jid TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL, user TEXT NOT NULL,
        uid INTEGER NOT NULL, origin TEXT NOT NULL, fun TEXT NOT NULL, tgt TEXT NOT NULL, tgt_type TEXT NOT NULL,
        created_at REAL NOT NULL, deliver_ms INTEGER NOT NULL, run_ms INTEGER NOT NULL,
        batch_size INTEGER, batch_wait_ms INTEGER, batch_failhard INTEGER,
        cancelled_at REAL, cancelled_by TEXT NOT NULL DEFAULT '',
        signature BLOB NOT NULL, body BLOB NOT NULL, minions BLOB NOT NULL, UNIQUE (request_id, uid))"""
# Format 2 had none: the same statement ends the table in a new file and in an older one. 0x80 is an empty map.
_JOBS_RESOURCES = "ALTER TABLE jobs ADD COLUMN resources BLOB NOT NULL DEFAULT x'80'"
# All that a list of jobs is narrowed by.
_JOBS_LISTING = "CREATE INDEX jobs_listing ON jobs (jid, created_at, user, fun)"
_TARGETS = """CREATE TABLE job_targets (
        jid TEXT NOT NULL, target TEXT NOT NULL, minion TEXT NOT NULL, part INTEGER NOT NULL, rank INTEGER NOT NULL,
        state TEXT NOT NULL, reason TEXT NOT NULL, changed_at REAL NOT NULL, outcome INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (jid, target)) WITHOUT ROWID"""
_TARGET_INDEXES = (
    # Holds what is not settled, and no history. A query has to say `rank < 9` for SQLite to take it.
    "CREATE INDEX job_targets_unfinished ON job_targets (rank, minion, jid, part, changed_at) WHERE rank < 9",
    # Holds resources: a minion is its own part. A query has to say `target <> minion` for SQLite to take it.
    "CREATE INDEX job_targets_parts ON job_targets (jid, minion, part) WHERE target <> minion",
    # Holds what went wrong, which is little. A query has to say `outcome > 1` for SQLite to take it.
    "CREATE INDEX job_targets_bad ON job_targets (outcome, jid, minion) WHERE outcome > 1",
)
# Of format 7 and 8: format 9 has another of this name.
_TARGETS_MOVED_OF_7 = (
    "CREATE INDEX job_targets_moved ON job_targets (jid, target) WHERE rank > 0 AND state <> 'returned'"
)
_TARGETS_NUMBER = "ALTER TABLE job_targets ADD COLUMN moved INTEGER"
# Holds what a client is told besides returns.
_TARGETS_MOVED = "CREATE INDEX job_targets_moved ON job_targets (jid, moved) WHERE moved IS NOT NULL"
_MOVES = "ALTER TABLE store ADD COLUMN moves INTEGER NOT NULL DEFAULT 0"
_JOB_COUNTS = """CREATE TABLE job_counts (
        jid TEXT NOT NULL PRIMARY KEY, open INTEGER NOT NULL, active INTEGER NOT NULL, planned INTEGER NOT NULL,
        failed INTEGER NOT NULL, changed_at REAL NOT NULL) WITHOUT ROWID"""
# Grows with each change of the set of accepted keys, so that a reader knows whether the ids that it remembers hold.
_ACCEPTED_VERSION = "ALTER TABLE store ADD COLUMN accepted_version INTEGER NOT NULL DEFAULT 0"

# The master of a session, and the minion's own order of its sessions.
_SESSIONS = (
    "ALTER TABLE minions ADD COLUMN master TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE minions ADD COLUMN run INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE minions ADD COLUMN handshake INTEGER NOT NULL DEFAULT 0",
)
# Why the session ended; NULL for one that ended before format 11.
_SESSION_ENDS = "ALTER TABLE minions ADD COLUMN end_reason TEXT"

_KEYS_HOLDER_ANY_CASE = "CREATE UNIQUE INDEX keys_holder_any_case ON keys (id COLLATE NOCASE) WHERE state = 'accepted'"

_FUNCTIONS = """CREATE TABLE functions (
        digest TEXT NOT NULL PRIMARY KEY, whole INTEGER NOT NULL, texts BLOB NOT NULL)"""

_AUTH_TOKENS = (
    """CREATE TABLE auth_tokens (
        token_id TEXT NOT NULL PRIMARY KEY, backend TEXT NOT NULL, user TEXT NOT NULL, groups TEXT NOT NULL,
        created_at REAL NOT NULL, expires_at REAL NOT NULL, seal TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX auth_tokens_by_user ON auth_tokens (backend, user, created_at)",
)

_JOIN_TOKENS = """CREATE TABLE tokens (
        token_id TEXT NOT NULL PRIMARY KEY, public BLOB NOT NULL, id_glob TEXT NOT NULL,
        uses_left INTEGER NOT NULL, created_at REAL NOT NULL, expires_at REAL NOT NULL,
        created_by TEXT NOT NULL) WITHOUT ROWID"""

_JOB_ARGUMENTS = "CREATE TABLE job_arguments (jid TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID"

_SCHEMA = (
    "CREATE TABLE store (id TEXT NOT NULL, epoch INTEGER NOT NULL)",
    _ACCEPTED_VERSION,
    _MOVES,
    """CREATE TABLE keys (
        fingerprint TEXT NOT NULL PRIMARY KEY, id TEXT NOT NULL, public BLOB NOT NULL, state TEXT NOT NULL,
        address TEXT NOT NULL, first_seen REAL NOT NULL, changed_at REAL NOT NULL, epoch INTEGER NOT NULL,
        how TEXT NOT NULL) WITHOUT ROWID""",
    # `state` says nothing here, but without it a query that names it has to look into the table for each id.
    "CREATE UNIQUE INDEX keys_holder ON keys (id, state) WHERE state = 'accepted'",
    _KEYS_HOLDER_ANY_CASE,
    "CREATE INDEX keys_by_state ON keys (state, address)",
    _JOIN_TOKENS,
    """CREATE TABLE preaccepts (
        id TEXT NOT NULL PRIMARY KEY, fingerprint TEXT NOT NULL, created_by TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE minions (
        id TEXT NOT NULL PRIMARY KEY, fingerprint TEXT NOT NULL, address TEXT NOT NULL, version TEXT NOT NULL,
        boot_id TEXT NOT NULL, incarnation TEXT NOT NULL, functions TEXT NOT NULL, up INTEGER NOT NULL,
        last_seen REAL NOT NULL) WITHOUT ROWID""",
    *_SESSIONS,
    _SESSION_ENDS,
    _FUNCTIONS,
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT NOT NULL, data BLOB NOT NULL, at REAL NOT NULL)""",
    "CREATE INDEX events_by_time ON events (at)",
    _JOBS,
    _JOBS_RESOURCES,
    "CREATE INDEX jobs_by_time ON jobs (created_at)",
    _JOBS_LISTING,
    _TARGETS,
    *_TARGET_INDEXES,
    _TARGETS_NUMBER,
    _TARGETS_MOVED,
    _JOB_COUNTS,
    """CREATE TABLE returns (
        seq INTEGER PRIMARY KEY, jid TEXT NOT NULL, target TEXT NOT NULL, state TEXT NOT NULL,
        retcode INTEGER NOT NULL, started_at REAL NOT NULL, duration_ms INTEGER NOT NULL,
        reason TEXT NOT NULL, body BLOB NOT NULL, UNIQUE (jid, target))""",
    "CREATE INDEX returns_by_job ON returns (jid)",
    *_AUTH_TOKENS,
    _JOB_ARGUMENTS,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_JOBS_OF_1 = (
    "INSERT INTO jobs (seq, jid, request_id, user, uid, origin, fun, tgt, tgt_type, created_at, deliver_ms,"
    " run_ms, signature, body, minions) SELECT seq, jid, request_id, user, uid, '', fun, tgt, tgt_type,"
    " created_at, deliver_ms, run_ms, signature, body, minions FROM jobs_1"
)
# The rule of saltlite.model.job.outcome_of; the return decides where there is one.
_OUTCOMES_OF_1 = (
    "UPDATE job_targets SET outcome = coalesce((SELECT CASE"
    " WHEN r.retcode <> 0 OR r.state IN ('refused', 'timed_out', 'interrupted') THEN 3"
    " WHEN r.state = 'returned' THEN 1 ELSE 2 END"
    " FROM returns AS r WHERE r.jid = job_targets.jid AND r.minion = job_targets.minion),"
    " CASE WHEN rank < 9 THEN 0 WHEN state IN ('refused', 'timed_out', 'interrupted') THEN 3 ELSE 2 END)"
)
_TARGETS_OF_2 = (
    "INSERT INTO job_targets (jid, target, minion, part, rank, state, reason, changed_at, outcome)"
    " SELECT jid, minion, minion, 0, rank, state, reason, changed_at, outcome FROM job_targets_2"
)
# What a client is told of these jobs: what runs, what ended without a return, whose turn came in a batch.
_MOVED_OF_8 = (
    "UPDATE job_targets SET moved = 1 WHERE (rank > 0 AND state <> 'returned')"
    " OR (rank = 0 AND jid IN (SELECT jid FROM jobs WHERE batch_size IS NOT NULL))"
)
_COUNTS_OF_8 = (
    "INSERT INTO job_counts (jid, open, active, planned, failed, changed_at) SELECT jid, sum(rank < 9),"  # noqa: S608 - a number of this file
    " sum(rank IN (1, 2)), sum(rank = -1), sum(outcome = 3), max(changed_at) FROM job_targets GROUP BY jid"
    f" HAVING count(*) >= {COUNTED_FROM}"
)
_STEPS: dict[int, tuple[str, ...]] = {
    1: (
        "ALTER TABLE jobs RENAME TO jobs_1",
        _JOBS,
        _JOBS_OF_1,
        "DROP TABLE jobs_1",
        "CREATE INDEX jobs_by_time ON jobs (created_at)",
        _JOBS_LISTING,
        "ALTER TABLE job_targets ADD COLUMN outcome INTEGER NOT NULL DEFAULT 0",
        _OUTCOMES_OF_1,
        # Names without signatures; each minion is asked again when it comes.
        "DROP TABLE functions",
        _FUNCTIONS,
    ),
    2: (
        _JOBS_RESOURCES,
        "ALTER TABLE job_targets RENAME TO job_targets_2",
        _TARGETS,
        _TARGETS_OF_2,
        # With it go its indexes, whose names are free then.
        "DROP TABLE job_targets_2",
        *_TARGET_INDEXES,
        "ALTER TABLE returns RENAME COLUMN minion TO target",
    ),
    3: _AUTH_TOKENS,
    # The hash of a secret does not tell the public key of its seed, so the tokens of before are void.
    4: ("DROP TABLE tokens", _JOIN_TOKENS),
    # Every job is looked at once: what they were called with was never taken away before.
    5: (_JOB_ARGUMENTS, "INSERT INTO job_arguments SELECT jid FROM jobs"),
    6: (_TARGETS_MOVED_OF_7, _ACCEPTED_VERSION),
    # Ids had no capitals before, so no two accepted ones can differ by case only.
    7: (_KEYS_HOLDER_ANY_CASE,),
    8: (
        "DROP INDEX job_targets_moved",
        _TARGETS_NUMBER,
        _MOVES,
        "UPDATE store SET moves = 1",
        _MOVED_OF_8,
        _TARGETS_MOVED,
        _JOB_COUNTS,
        _COUNTS_OF_8,
    ),
    9: _SESSIONS,
    10: (_SESSION_ENDS,),
}
"""What makes a file of format N one of format N + 1; all steps of one opening are one transaction."""


def prepare(connection: SqliteConnection) -> None:
    """Make the tables in an empty file, or bring a store of an older version to this one.

    The caller holds the write lock. A file that is refused was not written to.
    Raises StoreError: not a store, a newer version, damaged, or a file system without shared memory maps.
    """
    application = connection.value("PRAGMA application_id")
    version = connection.value("PRAGMA user_version")
    empty = connection.value("SELECT count(*) FROM sqlite_master") == 0
    fresh = empty and application == 0 and version == 0
    if not fresh:
        _refuse_foreign(connection.path, application, version)
    else:
        # Only an empty file takes this; without it the file never gives a page back.
        connection.run("PRAGMA auto_vacuum = INCREMENTAL")
    if connection.value("PRAGMA journal_mode = WAL") != "wal":
        raise StoreError(
            f"the store {connection.path} cannot use a write-ahead log there; set data_dir to a folder on a local disk"
        )
    if fresh:
        _create(connection)
    elif version < SCHEMA_VERSION:
        _migrate(connection, version)


def _refuse_foreign(path: str, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is not a saltlite store and was left as it is; move it away or set data_dir")
    if version != SCHEMA_VERSION and version not in _STEPS:
        raise StoreError(
            f"the store {path} has format {version}, this saltlite reads format {SCHEMA_VERSION} and older; "
            "it was left as it is: start the saltlite that wrote it"
        )


def _create(connection: SqliteConnection) -> None:
    connection.run("BEGIN IMMEDIATE")
    try:
        for statement in _SCHEMA:
            connection.run(statement)
        connection.run("INSERT INTO store (id, epoch) VALUES (?, 0)", (os.urandom(16).hex(),))
        connection.run("COMMIT")
    finally:
        connection.rollback()


def _keep_copy(connection: SqliteConnection, version: int) -> None:
    """Copy the store beside itself where there is room, for whoever goes back to the saltlite that wrote it."""
    path = f"{connection.path}.format-{version}"
    with suppress(FileNotFoundError):
        os.unlink(path)
    size = connection.value("PRAGMA page_count") * connection.value("PRAGMA page_size")
    room = os.statvfs(os.path.dirname(path) or ".")
    if room.f_bavail * room.f_frsize < COPY_ROOM * size:
        log.warning(
            "the store of an older saltlite is brought to format %d without a copy of it: %s has less than %d MiB free",
            SCHEMA_VERSION,
            os.path.dirname(path),
            COPY_ROOM * size >> 20,
        )
        return
    connection.run("VACUUM INTO ?", (path,))
    os.chmod(path, 0o600)
    log.warning("the store of an older saltlite is brought to format %d; %s is a copy of it", SCHEMA_VERSION, path)


def _migrate(connection: SqliteConnection, version: int) -> None:
    _keep_copy(connection, version)
    connection.run("BEGIN IMMEDIATE")
    try:
        void = 0
        if version < _TOKENS_PROVE_SINCE:
            void = connection.value("SELECT count(*) FROM tokens WHERE uses_left > 0")
        for step in range(version, SCHEMA_VERSION):
            for statement in _STEPS[step]:
                connection.run(statement)
        connection.run(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.run("COMMIT")
        if void:
            log.warning(
                "%d join tokens of an older saltlite are revoked: make new ones with `saltlite key token create`",
                void,
            )
    finally:
        connection.rollback()
