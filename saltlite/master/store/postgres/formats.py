"""How a store is brought from one format to the next, also while masters of an older saltlite use it.

A newer master expands: it adds what it needs, and older masters go on. It contracts, which is to remove what only older
ones used, when it starts and none of these has a lease, so the last of them that is upgraded does. Older saltlites
cannot use the store afterwards. A change that older masters could not bear is refused while one of them runs.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg.errors import DuplicateSchema, InsufficientPrivilege
from psycopg.sql import SQL, Identifier

from saltlite.errors import StoreError
from saltlite.master.store.postgres.connection import LONG_S, TimedConnection
from saltlite.master.store.postgres.schema import (
    FORMAT,
    MAKING,
    OID,
    STEPS,
    Formats,
    formats_of,
    least_beside,
    tables_of,
    typed,
)

log = logging.getLogger(__name__)

COPY_MAX = 1024 * 1024 * 1024
"""Bytes of tables and indexes of an older store that is copied before its format changes."""
LOST_S = 10.0
"""A master that does not renew its lease for so long does not run; it has had none for 6 s."""
LOOK_S = 0.2
_NO_LIMITS = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
_BESIDE_OTHERS = "SET LOCAL lock_timeout = '2s'"
"""What others ask meanwhile waits behind a change of tables, which waits for what they asked before."""
_SIZE = "SELECT pg_total_relation_size(%s::regclass)"
_OTHERS = "SELECT name, start, renewals FROM masters WHERE name <> %s AND state <> 'fenced'"
_IS_OLDER = " AND (format IS NULL OR format < %s OR format_start <> start)"
_END = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted"
    " AND classid::bigint = %s AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

Renewals = dict[str, tuple[int, int]]
"""By the name of a master: its start, and the number of its renewals."""


def lock_of(oid: int, name: str) -> int:
    """The advisory lock that the connections of this master of the store hold."""
    return zlib.crc32(f"{oid} {name}".encode()) & 0x7FFF_FFFF


def bring_to_format(connection: TimedConnection, where: str, writing: int, me: str = "") -> None:
    """Expand the tables to this format, and contract them if no older master may act. `writing`: the lock of all
    writers. `me`: the name of this master, "" if it shares the store with none. No other connection of it is open.

    Raises StoreError when an older master runs and could not go on with what is needed, and psycopg.Error.
    """
    formats = formats_of(connection)
    least = max((least_beside(number) for number in range(formats.expanded, FORMAT)), default=0)
    alone = any(STEPS[number].alone for number in range(formats.expanded, FORMAT))
    lost: Renewals = {}
    if _older(connection, formats, me, least):
        lost = _end_lost(connection, where, formats, me, least)
    older = _others_than(lost, _older(connection, formats, me, FORMAT))
    try:
        with connection.transaction():
            if older:
                connection.execute(_BESIDE_OTHERS)
            else:
                connection.execute(_NO_LIMITS)
                connection.patience_s = LONG_S
            connection.execute(f"SELECT pg_advisory_xact_lock({MAKING})")
            # No transaction of another master has begun to change a table: neither waits for the other in a circle.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (writing,))
            # A master of an older saltlite may have started since.
            formats = formats_of(connection)
            if barred := _others_than(lost, _older(connection, formats, me, least)):
                raise _refused(where, formats, barred)
            older = _others_than(lost, _older(connection, formats, me, FORMAT))
            _change(connection, where, formats, contracts=not older, keeps=alone or not me)
    finally:
        connection.patience_s = 0.0


def _change(connection: TimedConnection, where: str, formats: Formats, *, contracts: bool, keeps: bool) -> None:
    """`keeps`: whether the tables are copied first, for a return to the older saltlite."""
    steps = range(formats.least, FORMAT)
    contracted = [number for number in steps if contracts and STEPS[number].contract]
    if keeps and (contracted or any(STEPS[number].alone for number in steps)):
        _keep_copy(connection, where, sorted(tables_of(connection)), formats.least)
    least = formats.least
    for number in steps:
        step = STEPS[number]
        if number >= formats.expanded:
            connection.execute(typed(step.sql))
            least = max(least, least_beside(number))
        if number in contracted:
            connection.execute(typed(step.contract))
            least = number + 1
    connection.execute("UPDATE store SET format = %s, expanded = %s", (least, FORMAT))
    if (least, FORMAT) != formats:
        log.warning("the %s has tables of format %d now; a saltlite of format %d can use them", where, FORMAT, least)


def _older(connection: TimedConnection, formats: Formats, me: str, than: int) -> Renewals:
    """The start and the number of renewals of each other master that may act and is of an older format than that."""
    if not me or not than or "masters" not in tables_of(connection):
        return {}
    # A newer one would have expanded the tables.
    is_expanded = formats.expanded >= than
    sql, values = (_OTHERS + _IS_OLDER, (me, than)) if is_expanded else (_OTHERS, (me,))
    return {name: (start, renewals) for name, start, renewals in connection.execute(sql, values).fetchall()}


def _others_than(lost: Renewals, found: Renewals) -> Renewals:
    return {name: renewal for name, renewal in found.items() if lost.get(name) != renewal}


def _end_lost(connection: TimedConnection, where: str, formats: Formats, me: str, than: int) -> Renewals:
    """End the connections of masters of a format older than that which have not renewed their lease for LOST_S, and
    return these; they get no others on newer tables. Raises StoreError if one renews."""
    lost = _older(connection, formats, me, than)
    give_up_at = time.monotonic() + LOST_S
    while time.monotonic() < give_up_at:
        time.sleep(LOOK_S)
        now = _older(connection, formats, me, than)
        if runs := [name for name, renewal in now.items() if lost.get(name) != renewal]:
            raise _refused(where, formats, runs)
    ((oid,),) = connection.execute(OID).fetchall()
    for name in lost:
        connection.execute(_END, (lock_of(oid, name),))
    return lost


def _refused(where: str, formats: Formats, runs: Iterable[str]) -> StoreError:
    return StoreError(
        f"the {where} has format {formats.least}, which {', '.join(sorted(runs))} cannot use any more when this "
        f"saltlite brings it to format {FORMAT}: stop the masters of the older saltlite, and start this one then; "
        "nothing was changed"
    )


def _keep_copy(connection: psycopg.Connection[Any], where: str, tables: list[str], form: int) -> None:
    """Copy the tables into a schema beside, for whoever goes back to the saltlite that wrote them.

    A server does not tell how much room its disk has, so a large store is not copied. Raises psycopg.Error.
    """
    ((schema,),) = connection.execute("SELECT current_schema()").fetchall()
    aside = f"{schema}_format_{form}"
    problem = ""
    if sum(connection.execute(_SIZE, [one]).fetchall()[0][0] for one in tables) > COPY_MAX:
        problem = f"it has more than {COPY_MAX >> 20} MiB"
    else:
        try:
            with connection.transaction():
                connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(aside)))
                for name in tables:
                    copy, table = Identifier(aside, name), Identifier(schema, name)
                    connection.execute(SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(copy, table))
                    connection.execute(SQL("INSERT INTO {} SELECT * FROM {}").format(copy, table))
        except (InsufficientPrivilege, DuplicateSchema) as error:
            problem = str(error).partition("\n")[0]
    kept = f"there is no copy of it: {problem}" if problem else f"the schema {aside} of the {where} is a copy of it"
    log.warning("the store of an older saltlite is brought to format %d; %s", FORMAT, kept)
