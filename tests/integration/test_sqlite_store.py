"""The SQLite store against real files, several processes, kills and full disks."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest

import saltlite
from saltlite.errors import StoreError
from saltlite.master.store.ports import PartRow, ReturnCommit, Stored, StoreWriter, TargetRow, TokenRecord
from saltlite.master.store.rows import AUDIENCES_KEPT, Audiences, Packed, pack_targets
from saltlite.master.store.sqlite import SqliteStore, connection
from saltlite.master.store.sqlite.connection import WAL_KEEP_BYTES
from saltlite.master.store.sqlite.statements import VACUUM_PAGES
from saltlite.model.ids import Jid, MinionId, RequestId, jid_at
from saltlite.model.job import PART_RESOURCES, Job, Return, Target, TargetState, part_id
from saltlite.model.keys import KeyRecord, KeyState, fingerprint

NOW = 1_800_000_000.0
WEB1 = MinionId("web1")
KEY = KeyRecord(WEB1, fingerprint(b"k" * 32), b"k" * 32, KeyState.ACCEPTED, "10.0.0.1", NOW, NOW, 1)
WRITERS = 4
EVENTS_A_WRITER = 60
PAGE = 4096

# Not fork: the test process may have threads (pytest-xdist), and a forked store refuses to work.
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def store(path: str) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def job(n: int, created_at: float = NOW) -> Job:
    """Job number `n`, for web1."""
    return Job(
        jid=jid_at(1_800_000_000_000_000 + n),
        request_id=RequestId(f"{n:032x}"),
        user="root",
        uid=0,
        fun="test.ping",
        target=Target("web1"),
        created_at=created_at,
        deliver_ms=60_000,
        run_ms=0,
        body=b"b" * 300,
        signature=b"s" * 64,
        minions=(WEB1,),
    )


def ret(jid: Jid, body: bytes = b"\xc3", duration_ms: int = 1) -> ReturnCommit:
    return ReturnCommit(KEY.fingerprint, Return(jid, WEB1, TargetState.RETURNED, 0, body, NOW, duration_ms))


def put_returned_job(tx: StoreWriter, n: int, body: bytes) -> None:
    """A job that is over, with its return."""
    tx.put_key(KEY)
    tx.put_job(job(n))
    assert tx.put_returns([ret(job(n).jid, body)], NOW) == [Stored.NEW]


def is_sound(path: str) -> bool:
    """Whether SQLite finds nothing wrong with the file."""
    raw = sqlite3.connect(path)
    try:
        return bool(raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)])
    finally:
        raw.close()


# --- the file ---------------------------------------------------------------------------------------


def test_every_file_of_the_store_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(f"{tmp_path}/store.db")
        with store.write() as tx:
            tx.put_event("t", {}, NOW)
        modes = {entry.name: entry.stat().st_mode & 0o777 for entry in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    names = ["store.db", "store.db-wal", "store.db-shm", "store.db.lock"]
    assert modes == dict.fromkeys(names, 0o600)


def test_a_file_that_is_not_a_database_is_named_and_left_as_it_is(path: str) -> None:
    Path(path).write_bytes(b"not a database at all" * 1000)
    with pytest.raises(StoreError, match=r"store\.db is damaged .* left as it is"):
        SqliteStore(path)
    assert Path(path).read_bytes() == b"not a database at all" * 1000


BEHIND_THE_SCHEMA = 40 * PAGE
"""What stands before is read by whoever opens the file."""


def test_damage_inside_the_file_is_named_when_it_is_met(path: str) -> None:
    store = SqliteStore(path)
    with store.write() as tx:
        for n in range(50):
            put_returned_job(tx, n, b"x" * 1000)
    store.close()
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(BEHIND_THE_SCHEMA)
        file.write(b"\xa5" * (size - BEHIND_THE_SCHEMA))
    broken = SqliteStore(path)
    with pytest.raises(StoreError, match=r"store\.db is damaged"):
        _ = [broken.returns(job(n).jid) for n in range(50)]
    broken.close()


def test_the_database_of_another_program_is_refused_and_left_as_it_is(path: str) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE photos (name)")
    other.close()
    before = Path(path).read_bytes()
    with pytest.raises(StoreError, match="not a saltlite store"):
        SqliteStore(path)
    assert Path(path).read_bytes() == before


def test_a_store_of_a_newer_format_is_refused(path: str) -> None:
    SqliteStore(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(StoreError, match="has format 99"):
        SqliteStore(path)


def test_an_empty_file_left_by_a_crash_becomes_a_store(path: str) -> None:
    Path(path).touch(0o600)
    store = SqliteStore(path)
    assert store.last_seq() == 0
    store.close()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing/store\.db"):
        SqliteStore(f"{tmp_path}/missing/store.db")


def test_a_program_that_locks_the_file_is_reported(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_SETTINGS", ("PRAGMA busy_timeout = 20",))
    store = SqliteStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by another program"), store.write():
        pass
    other.execute("ROLLBACK")
    other.close()
    with store.write() as tx:
        assert tx.put_event("t", {}, NOW) == 1
    store.close()


# --- transactions -----------------------------------------------------------------------------------


def test_an_error_that_the_caller_swallowed_still_undoes_the_whole_transaction(store: SqliteStore) -> None:
    with store.write() as tx:
        tx.put_key(KEY)
        tx.put_job(job(1))
    with pytest.raises(StoreError, match="nothing was stored"), store.write() as tx:  # noqa: PT012 - see above
        tx.put_event("first", {}, NOW)
        with pytest.raises(StoreError):
            tx.put_returns([ret(job(1).jid, duration_ms=2**70)], NOW)
        tx.put_event("last", {}, NOW)
    assert [event.tag for event in store.events()] == [f"salt/job/{job(1).jid}/new"]
    assert store.targets(job(1).jid)[0].state is TargetState.QUEUED


def test_a_forked_copy_refuses_and_leaves_the_lock_to_its_parent(path: str) -> None:
    program = """
import os, sys
from saltlite.master.store.sqlite import SqliteStore, connection
from saltlite.errors import StoreError

store = SqliteStore(sys.argv[1])
with store.write() as tx:
    pid = os.fork()
    if pid == 0:
        said = []
        put = lambda: tx.put_event("child", {}, 0.0)
        for use in (store.last_seq, put, store.close, store.write().__enter__):
            try:
                use()
            except StoreError as error:
                said.append("before a fork" in str(error))
        os._exit(0 if said == [True] * 4 else 1)
    assert os.waitpid(pid, 0)[1] == 0, "the child could use the store"
    tx.put_event("parent", {}, 0.0)
print([event.tag for event in store.events()])
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        env={**os.environ, "PYTHONPATH": str(Path(saltlite.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("['parent']\n", "")


def test_another_thread_is_refused(store: SqliteStore) -> None:
    said: list[str] = []

    def use() -> None:
        try:
            store.last_seq()
        except StoreError as error:
            said.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(said) == 1
    assert "thread" in said[0]


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Tells what a question costs in steps of SQLite's machine: no load on the computer changes that.

    Only stores that are opened afterwards are counted.
    """
    steps = 0
    connect = sqlite3.connect

    def count_a_step() -> None:
        nonlocal steps
        steps += 1

    def connect_counting(path: str, isolation_level: None) -> sqlite3.Connection:
        opened = connect(path, isolation_level=isolation_level)
        opened.set_progress_handler(count_a_step, 1)
        return opened

    def cost_of(question: Callable[[], object]) -> int:
        nonlocal steps
        steps = 0
        question()
        return steps

    monkeypatch.setattr(sqlite3, "connect", connect_counting)
    return cost_of


def ask_all(store: SqliteStore) -> list[object]:
    """Every question about jobs that are not over."""
    return [
        store.unsettled(WEB1),
        store.open_jobs(WEB1, [job(0).jid]),
        store.crowded([WEB1], 2),
        store.minions_with_open_jobs(),
        store.expire_due(NOW),
    ]


def ask_for_one(store: SqliteStore) -> list[object]:
    """What is asked for each minion that comes back, ten thousand times when a master restarts."""
    return [store.unsettled(WEB1), store.open_jobs(WEB1, [job(0).jid]), store.crowded([WEB1], 2)]


def test_jobs_that_are_over_make_no_question_about_the_others_slower(
    cost: Callable[[Callable[[], object]], int], store: SqliteStore
) -> None:
    with store.write() as tx:
        tx.put_key(KEY)
        tx.put_job(job(0))
    before = cost(lambda: ask_all(store))
    with store.write() as tx:
        for n in range(1, 500):
            put_returned_job(tx, n, b"")
    assert 0 < cost(lambda: ask_all(store)) <= before + 10


@pytest.mark.parametrize("state", [TargetState.QUEUED, TargetState.RUNNING])
def test_jobs_of_other_minions_make_no_question_about_one_slower(
    cost: Callable[[Callable[[], object]], int], store: SqliteStore, state: TargetState
) -> None:
    others = tuple(MinionId(f"db{n}") for n in range(500))
    with store.write() as tx:
        tx.put_job(job(0))
    before = cost(lambda: ask_for_one(store))
    with store.write() as tx:
        tx.put_job(replace(job(1), minions=others))
        tx.set_targets([(job(1).jid, TargetRow(minion, state, "", NOW)) for minion in others])
    assert 0 < cost(lambda: ask_for_one(store)) <= before + 10


def test_other_parts_of_a_minion_make_no_question_about_one_slower(
    cost: Callable[[Callable[[], object]], int], store: SqliteStore
) -> None:
    def first_part(jid: Jid) -> list[object]:
        with store.write() as tx:
            moved = tx.set_parts([PartRow(part_id(jid, 1), WEB1, TargetState.RECEIVED, "", NOW)])
        return [moved, store.part_targets(jid, WEB1, 1), store.open_in_part(jid, WEB1, 1)]

    resources = [f"dummy:{n:05d}" for n in range(PART_RESOURCES * 4)]
    with store.write() as tx:
        for n, count in enumerate((PART_RESOURCES, PART_RESOURCES * 4)):
            tx.put_job(replace(job(n), minions=(), resources={WEB1: tuple(resources[:count])}))
    alone = cost(lambda: first_part(job(0).jid))
    assert alone > PART_RESOURCES
    assert cost(lambda: first_part(job(1).jid)) <= alone * 1.1


# --- limits -----------------------------------------------------------------------------------------


def test_the_longest_unused_target_list_is_forgotten_first() -> None:
    loaded: list[int] = []

    def load(seq: int) -> Packed:
        loaded.append(seq)
        return pack_targets((MinionId(f"web{seq}"),), {})

    def minions_of(seq: int) -> tuple[str, ...]:
        found = audiences.get(seq, load)
        return found.minions if found is not None else ()

    audiences = Audiences()
    for seq in range(AUDIENCES_KEPT):
        audiences.get(seq, load)
    audiences.get(0, load)
    audiences.get(AUDIENCES_KEPT, load)
    loaded.clear()
    assert minions_of(0) == ("web0",)
    assert minions_of(1) == ("web1",)
    assert loaded == [1]


def test_the_file_shrinks_after_pruning_by_a_bounded_part_each_time(path: str) -> None:
    store = SqliteStore(path)
    bodies = 3 * VACUUM_PAGES * PAGE // 2
    with store.write() as tx:
        put_returned_job(tx, 1, b"x" * (bodies // 2))
        put_returned_job(tx, 2, b"x" * (bodies // 2))
    store.close()
    sizes = [os.path.getsize(path)]
    for _ in range(2):
        store = SqliteStore(path)
        with store.write() as tx:
            tx.prune(NOW + 1, 10_000)
        store.close()
        sizes.append(os.path.getsize(path))
    assert sizes[0] > bodies
    # SQLite drops its own map of the freed pages as well: one page in about 800.
    assert VACUUM_PAGES <= (sizes[0] - sizes[1]) // PAGE <= VACUUM_PAGES * 1.01
    assert sizes[2] < 1024 * 1024
    assert is_sound(path)


def test_the_log_is_cut_back_after_it_grew(store: SqliteStore, path: str) -> None:
    with store.write() as tx:
        put_returned_job(tx, 1, b"x" * (WAL_KEEP_BYTES + 8 * 1024 * 1024))
    assert os.path.getsize(f"{path}-wal") > WAL_KEEP_BYTES
    with store.write() as tx:
        tx.put_event("next", {}, NOW)
    assert os.path.getsize(f"{path}-wal") <= WAL_KEEP_BYTES


# --- several processes ------------------------------------------------------------------------------


def write_events(path: str, writer: int) -> None:
    """A child: one event a transaction, into a store that may not be there yet."""
    store = SqliteStore(path)
    for n in range(EVENTS_A_WRITER):
        with store.write() as tx:
            tx.put_event(f"{writer}", {"n": n}, NOW)
    store.close()


def test_a_follower_misses_nothing_that_four_processes_write(path: str) -> None:
    writers = [SPAWN.Process(target=write_events, args=(path, n)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    store = SqliteStore(path)
    seen: list[tuple[int, str, int]] = []
    deadline = time.monotonic() + 50
    while len(seen) < WRITERS * EVENTS_A_WRITER and time.monotonic() < deadline:
        new = store.events(after=seen[-1][0] if seen else 0, limit=7)
        seen += [(event.seq, event.tag, event.data["n"]) for event in new]
    for writer in writers:
        writer.join(60)
    store.close()
    assert [seq for seq, _, _ in seen] == list(range(1, WRITERS * EVENTS_A_WRITER + 1))
    for writer_id in range(WRITERS):
        assert [n for _, tag, n in seen if tag == f"{writer_id}"] == list(range(EVENTS_A_WRITER))


def use_token_until_empty(path: str, answers: Pipe) -> None:
    """A child: takes uses of one token until there are none."""
    store = SqliteStore(path)
    taken = 0
    while True:
        with store.write() as tx:
            if not tx.use_token("k3f9aaaa"):
                break
        taken += 1
    store.close()
    answers.send(taken)
    answers.close()


def test_two_processes_never_take_the_same_use_of_a_token(store: SqliteStore, path: str) -> None:
    with store.write() as tx:
        tx.put_token(TokenRecord("k3f9aaaa", b"0" * 32, "*", 40, NOW, NOW + 1, "root"))
    pipes = [SPAWN.Pipe(duplex=False) for _ in range(2)]
    children = [SPAWN.Process(target=use_token_until_empty, args=(path, mine)) for _, mine in pipes]
    for child in children:
        child.start()
    assert sum(theirs.recv() for theirs, _ in pipes) == 40
    for child in children:
        child.join(60)
    for theirs, mine in pipes:
        theirs.close()
        mine.close()


# --- kill -9 ----------------------------------------------------------------------------------------


def publish_and_return(path: str, first: int, acks: Pipe) -> None:
    """A child: commits a job, says so, commits its return, says so, and so on until it is killed."""
    store = SqliteStore(path)
    for n in range(first, first + 1_000_000):
        with store.write() as tx:
            tx.put_job(job(n))
        acks.send(("job", n))
        with store.write() as tx:
            tx.put_returns([ret(job(n).jid)], NOW)
        acks.send(("return", n))


def acknowledged_until_killed(path: str, first: int, chance: random.Random) -> list[tuple[str, int]]:
    """Run the child, kill it at a random moment; what it had said before it died."""
    theirs, mine = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=publish_and_return, args=(path, first, mine))
    child.start()
    mine.close()
    heard: list[tuple[str, int]] = []
    for _ in range(chance.randint(1, 60)):
        heard.append(theirs.recv())
    # Not a wait for something: it puts the kill at any point of a transaction.
    moment = time.perf_counter() + chance.random() * 0.002
    while time.perf_counter() < moment:
        pass
    child.kill()
    child.join()
    try:
        while True:
            heard.append(theirs.recv())
    except EOFError:
        theirs.close()
    return heard


def test_what_was_acknowledged_survives_ten_kills(path: str) -> None:
    store = SqliteStore(path)
    with store.write() as tx:
        tx.put_key(KEY)
    chance = random.Random(20260131)
    acknowledged: list[tuple[str, int]] = []
    for life in range(10):
        acknowledged += acknowledged_until_killed(path, life * 1_000_000, chance)
        assert is_sound(path)
    for what, n in acknowledged:
        stored = store.job(job(n).jid) if what == "job" else store.returns(job(n).jid)
        assert stored, f"{what} {n} was acknowledged and is gone"
    seqs = [event.seq for event in store.events(limit=1_000_000)]
    assert seqs == list(range(1, store.last_seq() + 1))
    assert len(acknowledged) <= len(seqs) <= len(acknowledged) + 10
    store.close()


# --- no room ----------------------------------------------------------------------------------------


@contextmanager
def tiny_file_system(folder: Path) -> Iterator[Path]:
    """A file system of 2 MiB; skips where that takes rights that the tests do not have."""
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("mounting a tmpfs takes root")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting a tmpfs is not allowed here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file of this process can grow past `size`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(store: SqliteStore) -> int:
    """Commit jobs with returns of 20 KiB until it fails; how many were committed."""
    n = 0
    while True:
        with store.write() as tx:
            put_returned_job(tx, n, b"x" * 20_480)
        n += 1


def assert_whole(store: SqliteStore) -> None:
    """Every job that is there has its return, its settled target and both events; nothing is half there."""
    count = 0
    while store.job(job(count).jid) is not None:
        assert store.targets(job(count).jid) == [TargetRow(WEB1, TargetState.RETURNED, "", NOW)]
        assert len(store.returns(job(count).jid)) == 1
        count += 1
    assert count > 0
    assert store.returns(job(count).jid) == []
    assert store.targets(job(count).jid) == []
    assert len(store.events(limit=10_000)) == store.last_seq() == 2 * count


def test_a_full_disk_is_said_and_nothing_is_half_kept(tmp_path: Path) -> None:
    with tiny_file_system(tmp_path / "tiny") as folder:
        (folder / "ballast").write_bytes(b"x" * 512 * 1024)
        store = SqliteStore(f"{folder}/store.db")
        try:
            with pytest.raises(StoreError, match="no space left"):
                fill(store)
            assert_whole(store)
            (folder / "ballast").unlink()
            with store.write() as tx:
                put_returned_job(tx, 900, b"x" * 20_480)
            assert store.job(job(900).jid) is not None
            assert is_sound(f"{folder}/store.db")
        finally:
            store.close()


def test_a_file_that_cannot_grow_is_said_and_nothing_is_half_kept(store: SqliteStore, path: str) -> None:
    with files_up_to(512 * 1024), pytest.raises(StoreError, match="could not"):
        fill(store)
    assert_whole(store)
    with store.write() as tx:
        put_returned_job(tx, 900, b"x" * 20_480)
    assert store.job(job(900).jid) is not None
    assert is_sound(path)


def test_a_job_of_many_targets_is_pruned_in_transactions_of_a_bounded_number_of_rows(
    store: SqliteStore,
) -> None:
    keys = [replace(KEY, id=MinionId(f"web{n:04d}"), fingerprint=fingerprint(bytes([n] * 32))) for n in range(90)]
    value = ret(job(1).jid).ret
    with store.write() as tx:
        for one in keys:
            tx.put_key(one)
        tx.put_job(replace(job(1), minions=tuple(one.id for one in keys)))
        tx.put_returns([ReturnCommit(one.fingerprint, value._replace(id=one.id)) for one in keys], NOW)
    deleted = []
    while store.prune_due(NOW + 1):
        before = store._write_side._sqlite.total_changes
        with store.write() as tx:
            tx.prune(NOW + 1, 50)
        deleted.append(store._write_side._sqlite.total_changes - before)
    assert max(deleted) <= 2 * 50 + 2, "targets or returns, as many events, and the job itself"
    assert len(deleted) >= 4
    assert (store.job(job(1).jid), store.targets(job(1).jid), store.returns(job(1).jid)) == (None, [], [])


def test_what_a_store_takes_on_its_disk_is_what_its_files_have(store: SqliteStore, path: str) -> None:
    with store.write() as tx:
        tx.put_event("large", {"text": "x" * 500_000}, NOW)
    store.empty_log()
    with store.write() as tx:
        tx.prune_events(1)
    usage = store.disk_usage()
    assert (usage.file, usage.log) == (os.path.getsize(path), os.path.getsize(f"{path}-wal"))
    assert usage.free > 300_000 - 4096 * 128
    assert usage.file - usage.free <= store.size() + 4096 * 128
    assert usage.left is not None
    assert 0 < usage.left <= shutil.disk_usage(os.path.dirname(path)).total


@pytest.mark.parametrize(("limit", "is_full"), [(1 << 30, False), (1000, True)])
def test_a_store_is_full_when_what_is_in_use_has_reached_the_limit(
    store: SqliteStore, limit: int, *, is_full: bool
) -> None:
    assert store.is_full(limit) is is_full


def test_news_of_a_job_show_one_moment_though_another_process_writes_meanwhile(
    store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.write() as tx:
        tx.put_key(KEY)
        tx.put_job(job(1))
    other = SqliteStore(path)
    page = store._page

    def returned_meanwhile(*which: Any) -> Any:
        with other.write() as tx:
            tx.put_returns([ret(job(1).jid)], NOW)
        return page(*which)

    # Between the two statements of the query.
    monkeypatch.setattr(store, "_page", returned_meanwhile)
    news, stored = store.news(job(1).jid, 0, 10), other.returns(job(1).jid)
    other.close()
    assert (news.returns, news.is_whole, len(stored)) == ([], True, 1)
