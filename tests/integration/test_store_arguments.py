"""Arguments of ended jobs are gone from the bytes of the store's files, and not only from its answers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from saltlite.master.processes.maintenance import DROP_ARGUMENTS_S, JOBS, EndedArguments
from saltlite.master.store.ports import TargetRow
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.job import Job, TargetState
from saltlite.platform.daemon import ManualClock
from saltlite.wire.job_body import FunctionCall, JobBody, encode_body
from tests.support.store import NOW, WEB1, job, publish

MARKER = b"s3cr3t-marker"
SIZES = (0, 100, 1_500, 3_900, 4_200, 60_000)
"""Bytes of filling: rows of some to a page, of one, and with pages of overflow."""


def secret_job(number: int) -> Job:
    text = MARKER.decode() + "-" * random.Random(number).choice(SIZES)
    made = job(number, (WEB1,))
    call = FunctionCall("user.add", ["fred"], {"password": text + MARKER.decode()})
    body = JobBody(jid=made.jid, calls=(call,), user="root", audience=bytes(32), run_ms=0, deliver_ms=60_000)
    return replace(made, body=encode_body(body))


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def end(store: SqliteStore, jobs: list[Job]) -> None:
    with store.write() as tx:
        tx.set_targets([(one.jid, TargetRow(WEB1, TargetState.LOST, "", NOW)) for one in jobs])


def test_no_byte_of_a_secret_is_left_in_the_files_of_the_store(tmp_path: Path) -> None:
    store = SqliteStore(f"{tmp_path}/store.db")
    jobs = [secret_job(number) for number in range(4 * JOBS)]
    # Not in order, so that pages are split and rows are moved about.
    random.Random(4).shuffle(jobs)
    for one in jobs:
        publish(store, one)
        with store.write() as tx:
            tx.mark_reducible(one.jid)
    assert MARKER in files(tmp_path)
    end(store, jobs)
    clock = ManualClock(wall=NOW)
    work = EndedArguments(store, clock, keep=True)
    work.drop()
    assert MARKER not in files(tmp_path)
    assert store.reducible(1) == []
    # Those that follow, in a log that was used before.
    more = [secret_job(1000 + number) for number in range(JOBS)]
    publish(store, *more)
    with store.write() as tx:
        for one in more:
            tx.mark_reducible(one.jid)
    end(store, more)
    clock.advance(100 * DROP_ARGUMENTS_S)
    work.drop()
    assert MARKER not in files(tmp_path)
    store.close()


@pytest.mark.parametrize("way", ["prune", "prune_oldest"])
def test_what_is_pruned_is_overwritten_too(tmp_path: Path, way: str) -> None:
    store = SqliteStore(f"{tmp_path}/store.db")
    jobs = [secret_job(number) for number in range(30)]
    publish(store, *jobs)
    end(store, jobs)
    with store.write() as tx:
        assert (tx.prune(NOW + 1) if way == "prune" else tx.prune_oldest(30)) == 30
    assert store.empty_log()
    assert MARKER not in files(tmp_path)
    store.close()


def test_a_log_that_somebody_reads_is_emptied_when_he_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.master.store.sqlite.connection.BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr(
        "saltlite.master.store.sqlite.connection._SETTINGS",
        ("PRAGMA secure_delete = ON", "PRAGMA synchronous = FULL", "PRAGMA busy_timeout = 50"),
    )
    store, reader = SqliteStore(f"{tmp_path}/store.db"), SqliteStore(f"{tmp_path}/store.db")
    publish(store, secret_job(1))
    with store.write() as tx:
        tx.mark_reducible(job(1).jid)
    end(store, [job(1)])
    reader._read_side.run("BEGIN")
    assert reader.store_id()
    clock = ManualClock(wall=NOW)
    work = EndedArguments(store, clock, keep=True)
    work.drop()
    assert MARKER in files(tmp_path)
    reader._read_side.run("ROLLBACK")
    clock.advance(100 * DROP_ARGUMENTS_S)
    work.drop()
    assert MARKER not in files(tmp_path)
    store.close()
    reader.close()
