"""The in-memory store and the SQLite store give the same answers after any sequence of operations."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.errors import StoreError
from saltlite.master.store.ports import (
    FunctionSet,
    MinionRow,
    PartRow,
    ReturnCommit,
    Store,
    StoreWriter,
    TargetRow,
    TokenRecord,
)
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import Jid, MinionId, RequestId, jid_at
from saltlite.model.job import TERMINAL, Batch, Job, JobFilter, Return, Target, TargetOutcome, TargetState, part_id
from saltlite.model.keys import KeyRecord, KeyState, fingerprint
from saltlite.model.signature import by_name
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from tests.support.store import had_sessions

IDS = [MinionId("web1"), MinionId("web10"), MinionId("db1")]
JIDS = [jid_at(1_800_000_000_000_000 + n) for n in range(4)]
SRNS = ["dummy:a", "dummy:b", "ssh:a", "ssh:web1"]
NEWS = [(0, 100, 1 << 20), (3, 100, 2), (0, 1, 1 << 20)]
PARTS = [part_id(jid, number) for jid in JIDS for number in range(3)]
TOKEN = "k3f9aaaa"
DIGESTS = ["", "d1", "d2"]

Step = Callable[[StoreWriter], Any]

ids = st.sampled_from(IDS)
jids = st.sampled_from(JIDS)
times = st.integers(0, 40).map(float)
targets = st.sampled_from([*IDS, *SRNS])
states = st.sampled_from(sorted(TargetState))
publics = st.sampled_from([bytes([n]) * 32 for n in range(4)])

reasons = st.sampled_from(["", "why"])
part_rows = st.builds(PartRow, st.sampled_from(PARTS), ids, states, reasons, times)

function_sets = st.builds(
    FunctionSet,
    st.sampled_from(DIGESTS[1:]),
    st.sets(st.sampled_from(["test.ping()", "test.ping", "cmd.run(cmd)!x"])).map(by_name),
    st.booleans(),
)


@st.composite
def keys(draw: st.DrawFn) -> KeyRecord:
    public, state = draw(publics), draw(st.sampled_from(sorted(KeyState)))
    return KeyRecord(draw(ids), fingerprint(public), public, state, draw(ids), draw(times), draw(times), 1)


def managed(owners: dict[str, MinionId]) -> dict[MinionId, tuple[str, ...]]:
    """Resources by their minion, from who manages which."""
    return {minion: tuple(srn for srn in sorted(owners) if owners[srn] == minion) for minion in set(owners.values())}


resources = st.dictionaries(st.sampled_from(SRNS), ids).map(managed)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    return Job(
        jid=draw(jids),
        request_id=RequestId(f"{draw(st.integers(0, 5)):032x}"),
        user="root",
        uid=draw(st.integers(0, 1)),
        fun=draw(st.sampled_from(["test.ping", "cmd.run", "test.ping,cmd.run"])),
        target=Target("*"),
        created_at=draw(st.integers(1, 40).map(float)),  # 0 marks one of which prune has deleted a part
        deliver_ms=draw(st.integers(0, 20_000)),
        run_ms=0,
        body=b"body",
        signature=b"s",
        minions=tuple(draw(st.lists(ids, max_size=3))),
        resources=draw(resources),
        batch=draw(st.sampled_from([None, Batch(1), Batch(2, 10_000, failhard=True)])),
        origin=draw(st.sampled_from(["", "ssh 10.0.0.1"])),
    )


@st.composite
def commits(draw: st.DrawFn) -> ReturnCommit:
    state, retcode = draw(st.sampled_from(sorted(TERMINAL))), draw(st.integers(0, 1))
    ret = Return(draw(jids), draw(targets), state, retcode, draw(st.binary(max_size=3)), 0.0, 1)
    return ReturnCommit(fingerprint(draw(publics)), ret)


def put_token(uses: int) -> Step:
    return lambda tx: tx.put_token(TokenRecord(TOKEN, b"0", "*", uses, 0.0, 1.0, "root"))


def set_target(jid: Jid, row: TargetRow) -> Step:
    return lambda tx: tx.set_targets([(jid, row)])


@st.composite
def sessions(draw: st.DrawFn) -> MinionRow:
    at = draw(times)
    return MinionRow(
        id=draw(ids),
        fingerprint=fingerprint(draw(publics)),
        address="10.0.0.1",
        version="0.1",
        boot_id=f"boot{at}",
        incarnation="disk",
        functions=draw(st.sampled_from(DIGESTS)),
        up=draw(st.booleans()),
        last_seen=at,
    )


steps: st.SearchStrategy[Step] = st.one_of(
    keys().map(lambda record: lambda tx: tx.put_key(record)),
    publics.map(lambda public: lambda tx: tx.delete_key(fingerprint(public))),
    st.integers(0, 2).map(put_token),
    st.just(lambda tx: tx.use_token(TOKEN)),
    st.just(lambda tx: tx.delete_token(TOKEN)),
    st.just(lambda tx: tx.next_epoch()),
    ids.map(lambda minion: lambda tx: tx.put_preaccept(minion, fingerprint(b"p"), "root")),
    ids.map(lambda minion: lambda tx: tx.delete_preaccept(minion)),
    jobs().map(lambda job: lambda tx: tx.put_job(job)),
    st.builds(set_target, jids, st.builds(TargetRow, targets, states, reasons, times)),
    st.lists(part_rows, max_size=3).map(lambda rows: lambda tx: tx.set_parts(rows)),
    st.tuples(st.lists(commits(), max_size=6), times).map(lambda a: lambda tx: tx.put_returns(*a)),
    times.map(lambda at: lambda tx: tx.put_event("tag", {"at": at}, at)),
    sessions().map(lambda row: lambda tx: had_sessions(tx, [row])),
    function_sets.map(lambda known: lambda tx: tx.put_functions(known)),
    times.map(lambda now: lambda tx: tx.expire(now)),
    st.tuples(jids, times).map(lambda a: lambda tx: tx.cancel_job(a[0], "alice", a[1])),
    st.integers(1, 3).map(lambda count: lambda tx: tx.prune_oldest(count)),
    times.map(lambda before: lambda tx: tx.prune(before)),
)
transactions = st.lists(st.tuples(st.lists(steps, max_size=8), st.booleans()), max_size=8)


class RolledBackError(Exception):
    """Raised inside a transaction to end it."""


def run(store: Store, step_list: list[Step], *, rolled_back: bool) -> list[Any]:
    """What each step answered, or the text of its refusal, and what the transaction saw at its end."""
    answers: list[Any] = []
    try:
        with store.write() as tx:
            for step in step_list:
                try:
                    answers.append(step(tx))
                except StoreError as refusal:
                    answers.append(str(refusal))
            answers.append(everything(tx))
            if rolled_back:
                raise RolledBackError  # noqa: TRY301 - leaving the block is the point
    except RolledBackError:
        answers.append("rolled back")
    return answers


FILTERS = [
    JobFilter(minion=minion, fun=fun, outcome=outcome, since=since, until=until, before=before)
    for minion in (None, IDS[0], SRNS[0])
    for fun in ("", "cmd.*")
    for outcome in (None, *TargetOutcome)
    for since, until in ((None, None), (5.0, 30.0))
    for before in (None, JIDS[2])
]


def everything(store: Any) -> dict[str, Any]:
    """Every answer of a StoreReader, for all ids and jids there are."""
    return {
        "keys": store.keys(),
        "pending": store.keys(frozenset({KeyState.PENDING})),
        "pending keys": sorted(store.key_rows(KeyState.PENDING)),
        "keys among": store.keys_among([row.fingerprint for row in sorted(store.key_rows())][:1]),
        "accepted": store.accepted_ids(),
        "counts": [store.count_keys(state) for state in KeyState],
        "holders": [store.holder(minion) for minion in IDS],
        "token": store.token(TOKEN),
        "preaccepted": [store.preaccepted(minion) for minion in IDS],
        "jobs": [store.job(jid) for jid in JIDS],
        "requests": [store.job_of_request(RequestId(f"{n:032x}"), n % 2) for n in range(6)],
        "targets": [store.targets(jid) for jid in JIDS],
        # Stores number changes in their own ways.
        "news": [replace(store.news(jid, *page), moves=0) for jid in JIDS for page in NEWS],
        "in a state": [store.targets_in(jid, state) for jid in JIDS for state in TargetState],
        "returns": [store.returns(jid) for jid in JIDS],
        "later returns": [store.returns(jid, after=3, limit=2) for jid in JIDS],
        "listed": [store.jobs(wanted, 3) for wanted in FILTERS],
        "summaries": [store.job_summary(jid) for jid in JIDS],
        "details": [store.target_details(jid) for jid in JIDS],
        "details of one": [store.details_of(target, JIDS) for target in IDS],
        "cancelled": store.cancelled(JIDS),
        "open counts": store.open_counts(),
        "small pages": [store.returns(jid, size=2) for jid in JIDS],
        "cursors": [store.seq_before(at) for at in (0.0, 10.0, 30.0, 100.0)],
        "first seq": store.first_seq(),
        "events": store.events(),
        "later events": store.events(after=2, limit=3),
        "seq": store.last_seq(),
        "managing": [store.managing_minions(jid) for jid in JIDS],
        "in parts": [store.part_targets(jid, minion, n) for jid in JIDS for minion in IDS for n in range(4)],
        "open in parts": [store.open_in_part(jid, minion, n) for jid in JIDS for minion in IDS for n in range(4)],
        "open parts": [store.open_parts(jid) for jid in JIDS],
        "open": [store.open_jobs(minion, PARTS) for minion in IDS],
        "small open": [store.open_jobs(minion, PARTS[2:], 2) for minion in IDS],
        "unsettled": [store.unsettled(minion) for minion in IDS],
        "crowded": [store.crowded(IDS, most) for most in (1, 2, 3)],
        "expiry due": [store.expire_due(now) for now in (0.0, 10.0, 30.0, 100.0)],
        "functions": [store.functions(digest) for digest in DIGESTS],
        "digests": [store.function_digests(IDS[:n]) for n in range(len(IDS) + 1)],
        "minions with open jobs": store.minions_with_open_jobs(),
        "planned": (store.batches(), store.batches(JIDS[:2]), [store.planned_of(minion) for minion in IDS]),
        "standing": [store.standing(jid, at, at, 25.0) for jid in JIDS for at in (0.0, 10.0, 30.0)],
        "next planned": [store.next_planned(jid, 2) for jid in JIDS],
        "minion": [store.minion(minion) for minion in IDS],
        "minions": store.minions(),
    }


@settings(max_examples=60, deadline=None)
@given(transactions)
def test_both_stores_answer_alike_whatever_is_done_to_them(plan: list[tuple[list[Step], bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        real, twin = SqliteStore(f"{folder}/store.db"), MemoryStore(MemoryStoreDisk())
        try:
            for step_list, rolled_back in plan:
                real_answers = run(real, step_list, rolled_back=rolled_back)
                assert run(twin, step_list, rolled_back=rolled_back) == real_answers
                assert everything(twin) == everything(real)
        finally:
            real.close()
