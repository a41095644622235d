"""Start a real daemon with a way to hurt it: `python -m tests.faults.launch saltlite-minion -c DIR`.

The product has no hooks for this; its functions are wrapped before its `main` runs. The files in DIR/faults say
what happens, and are looked at at each call, so that a running daemon can be hurt without starting it anew:

    <name of a point>   `process N` or `group N`: at the N-th further call SIGKILL to the process, or to all of
                        the daemon's processes; whoever removes the file has taken it, so it happens once
                        `EIO`, `ENOSPC`: the call fails so, for as long as the file is there
    clock               seconds by which this machine's wall clock is off

Events are appended to the file `trace` beside DIR, as lines that `tests.support.guarantees.History.load` reads.
"""

from __future__ import annotations

import errno
import functools
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from saltlite.master.store.ports import Stored
from saltlite.master.store.sqlite.connection import Transaction
from saltlite.master.store.sqlite.statements import SqliteWriter
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.model.job import TERMINAL, split_part
from saltlite.platform.daemon import SystemClock
from tests.faults.points import ERRORS, MASTER, MINION, PACE, POINTS, Point
from tests.faults.trace import digest_of, note

SLOW = "SALTLITE_FAULTS_LONG"
"""Set in the environment: the product's own times, and faults that last a minute."""


def main() -> int:
    """Wrap what can be hurt, then be the daemon."""
    program, *arguments = sys.argv[1:]
    config_dir = Path(arguments[arguments.index("-c") + 1])
    folder = config_dir / "faults"
    trace = _trace_of(config_dir)
    if program == MASTER:
        _trace_commits(trace)
    elif program == MINION:
        _trace_minion(trace, _option(config_dir / "minion", "id"))
    # Wrapped second: what is noted as done has been done when a point kills behind it.
    for name, point in (POINTS | ERRORS).items():
        if point.daemon == program:
            _wrap(point, str(folder / name))
    if not os.environ.get(SLOW):
        for where, value in PACE.items():
            module, _, name = where.partition(":")
            setattr(importlib.import_module(module), name, value)
    _bend_clock(folder / "clock")
    result: int = importlib.import_module(program.replace("-", "_")).main(arguments)
    return result


def _trace_of(config_dir: Path) -> str:
    return str(config_dir.parent / "trace")


def _option(path: Path, name: str) -> str:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next(str(json.loads(value)) for key, _, value in lines if key == name)


# -- hurting


def _wrap(point: Point, flag: str) -> None:
    holder, name = point.holder()
    function = point.function()

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not point.after and point.when(args):
            _look(flag)
        result = function(*args, **kwargs)
        if point.after and point.when(args):
            _look(flag)
        return result

    setattr(holder, name, wrapped)


def _look(flag: str) -> None:
    try:
        with open(flag, encoding="ascii") as file:
            words = file.read().split()
    except FileNotFoundError:
        return
    if len(words) == 1:
        number = getattr(errno, words[0])
        note(_trace_of(Path(flag).parent.parent), "fault", what=f"{words[0]} came", who=flag)
        raise OSError(number, os.strerror(number))
    try:
        os.unlink(flag)
    except FileNotFoundError:
        return
    victim, left = words[0], int(words[1])
    if left > 1:
        arm(flag, f"{victim} {left - 1}")
    elif victim == "group":
        os.killpg(os.getpgrp(), signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def arm(flag: str, text: str) -> None:
    """Write a flag file, whole at once."""
    unfinished = f"{flag}.new"
    with open(unfinished, "w", encoding="ascii") as file:
        file.write(text)
    os.rename(unfinished, flag)


def _bend_clock(path: Path) -> None:
    wall = SystemClock.wall

    def bent(clock: SystemClock) -> float:
        try:
            return wall(clock) + float(path.read_text())
        except FileNotFoundError:
            return wall(clock)

    _replace(SystemClock, wall=bent)


# -- watching


def _trace_commits(trace: str) -> None:
    """Note each terminal state when it is committed; one that dies between commit and note is only not noted."""
    uncommitted: list[dict[str, Any]] = []
    put_returns, expire = SqliteWriter.put_returns, SqliteWriter.expire
    set_targets, set_parts = SqliteWriter.set_targets, SqliteWriter.set_parts
    commit, end = Transaction.commit, Transaction.end

    def returns(writer: SqliteWriter, commits: Sequence[Any], now: float) -> list[Stored]:
        senders = {one.fingerprint: writer.key(one.fingerprint) for one in commits}
        stored = put_returns(writer, commits, now)
        for one, what in zip(commits, stored, strict=True):
            key = senders[one.fingerprint]
            if what is Stored.NEW:
                # Of a job that had ended already the return is kept, and its end stands.
                stands = _state(writer, one.ret.jid, one.ret.id)
                said = {"sender": key.id if key else "nobody", "state": stands, "ret": True}
                uncommitted.append({"jid": one.ret.jid, "minion": one.ret.id, **said})
        return stored

    def targets(writer: SqliteWriter, rows: Iterable[Any]) -> Any:
        rows = list(rows)
        moved = set_targets(writer, rows)
        ended_ones([(jid, row.id) for jid, row in rows if row.state in TERMINAL and (jid, row.id) in moved], writer)
        return moved

    def parts(writer: SqliteWriter, rows: Iterable[Any]) -> Any:
        rows = list(rows)
        moved = set_parts(writer, rows)
        jobs = {split_part(row.part)[0] for row in rows if row.state in TERMINAL}
        ended_ones([(jid, target) for jid, target in moved if jid in jobs], writer)
        return moved

    def ended_ones(ends: Sequence[tuple[Any, str]], writer: SqliteWriter) -> None:
        uncommitted.extend(_ends(writer, ends))

    def expired(writer: SqliteWriter, now: float) -> Any:
        gone = expire(writer, now)
        said = {"sender": "", "state": "expired", "ret": False}
        uncommitted.extend({"jid": jid, "minion": minion, **said} for jid, minion in gone)
        return gone

    def committed(transaction: Transaction) -> None:
        commit(transaction)
        for fields in uncommitted:
            note(trace, "stored", **fields)
        uncommitted.clear()

    def ended(transaction: Transaction) -> None:
        uncommitted.clear()
        end(transaction)

    _replace(SqliteWriter, put_returns=returns, set_targets=targets, set_parts=parts, expire=expired)
    _replace(Transaction, commit=committed, end=ended)


def _ends(writer: SqliteWriter, ends: Sequence[tuple[Any, str]]) -> Iterable[dict[str, Any]]:
    for jid, target in ends:
        state = _state(writer, jid, target)
        if state in TERMINAL:
            yield {"jid": jid, "minion": target, "sender": "", "state": state, "ret": False}


def _state(writer: SqliteWriter, jid: Any, minion: str) -> str:
    return next(str(row.state) for row in writer.targets(jid) if row.id == minion)


def _trace_minion(trace: str, minion: str) -> None:
    received, write = JobMachine.received, DiskSpool.write

    def arrived(jobs: JobMachine, parcel: Any) -> None:
        note(trace, "received", jid=parcel.jid, minion=minion)
        received(jobs, parcel)

    def spooled(spool: DiskSpool, jid: str, result: Any, **how: Any) -> bool:
        is_new = write(spool, jid, result, **how)
        if is_new:
            note(trace, "spooled", jid=jid, minion=minion, digest=digest_of(result.body))
        return is_new

    _replace(JobMachine, received=arrived)
    _replace(DiskSpool, write=spooled)


def _replace(owner: type, **functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        setattr(owner, name, function)


if __name__ == "__main__":
    sys.exit(main())
