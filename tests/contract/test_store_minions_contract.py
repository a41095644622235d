"""What every store promises about minions, function sets, expiry and pruning: SQLite and its in-memory twin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from saltlite.master.store.ports import (
    EXPIRED_REASON,
    FunctionSet,
    JobNews,
    MinionRow,
    PartRow,
    Store,
    Stored,
    TargetRow,
)
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.job import TERMINAL, Batch, Job, TargetState, part_id
from saltlite.model.keys import Fingerprint, KeyState
from saltlite.model.minion import SessionEnd, end_with
from saltlite.model.signature import by_name
from tests.support.store import (
    NOW,
    WEB1,
    WEB2,
    WEB3,
    commit,
    had_sessions,
    job,
    key,
    move,
    move_part,
    publish,
    ret,
    row,
    srns,
    state_of,
)

OpenStore = Callable[[], Store]


# --- minions --------------------------------------------------------------------------------------


def test_a_minion_row_is_replaced_but_is_never_seen_earlier_than_before(store: Store) -> None:
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, NOW + 5, up=True), row(WEB1, NOW + 1, boot_id="later", functions="f1")])
    assert store.minion(WEB1) == row(WEB1, NOW + 5, boot_id="later", functions="f1", up=False)
    assert store.minion(WEB2) is None


def test_minions_are_those_whose_accepted_key_had_a_session(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB2))
        tx.put_key(key(WEB1))
        tx.put_key(key(WEB3, KeyState.REVOKED))
        tx.put_key(key(WEB3, n=1))
        tx.put_key(key(MinionId("silent")))
        had_sessions(tx, [row(WEB2), row(WEB1), row(WEB3), row(MinionId("nokey"))])
    assert store.minions() == [row(WEB1), row(WEB2)]
    assert store.minions([WEB2, WEB3, MinionId("nokey"), MinionId("silent")]) == [row(WEB2)]
    assert store.minions([]) == []
    for column in ("address", "version", "last_seen"):
        values = {WEB1: getattr(row(WEB1), column), WEB2: getattr(row(WEB2), column)}
        assert store.minion_values(column) == values


def test_a_minion_is_up_or_not_as_it_was_last_written(store: Store) -> None:
    seen = []
    for n, up in enumerate((True, True, False, True)):
        with store.write() as tx:
            had_sessions(tx, [row(WEB1, NOW + n, up=up)])
        found = store.minion(WEB1)
        seen.append(found.up if found else None)
    assert seen == [True, True, False, True]


def at(master: str, n: int = 1, minion: MinionId = WEB1, **changes: Any) -> MinionRow:
    """A session of a minion with that master, the n-th of its run."""
    return row(minion, NOW + n, **{"master": master, "run": 1, "handshake": n, "up": True, **changes})


def test_a_session_is_claimed_and_what_was_there_before_is_told(store: Store) -> None:
    with store.write() as tx:
        assert tx.claim([at("a"), at("a", minion=WEB2)]) == {WEB1: None, WEB2: None}
        assert tx.claim([at("a", 2, boot_id="later", up=False)]) == {WEB1: at("a")}
        assert tx.claim([]) == {}
    assert store.minion(WEB1) == at("a", 2, boot_id="later")


def test_a_session_that_was_claimed_twice_is_claimed_once(store: Store) -> None:
    with store.write() as tx:
        tx.claim([at("a")])
        assert tx.claim([at("a")]) == {WEB1: at("a")}
    assert store.minion(WEB1) == at("a")


@pytest.mark.parametrize(
    ("later", "is_claimed"),
    [
        (at("b", 3), True),
        (at("b", 2), False),
        (at("b", 1), False),
        (at("a", 1), True),
        (at("b", 1, boot_id="restarted", run=2), False),
        (at("b", 9, boot_id="earlier", run=0), False),
        (at("a", 1, boot_id="restarted", run=2), True),
        (at("b", 1, boot_id="another key", fingerprint=Fingerprint("B" * 40)), True),
        (at("b", 1, incarnation="another disk", run=0), True),
        (at("b", 0, run=0), True),  # of the version before, which does not count
    ],
)
def test_a_master_does_not_take_a_minion_back_by_an_older_session(
    store: Store, later: MinionRow, is_claimed: bool
) -> None:
    with store.write() as tx:
        tx.claim([at("a", 2)])
        assert tx.claim([later]) == ({WEB1: at("a", 2)} if is_claimed else {})
    found = store.minion(WEB1)
    assert found == (replace(later, last_seen=max(later.last_seen, NOW + 2)) if is_claimed else at("a", 2))


@pytest.mark.parametrize("run", [0, 2])
def test_another_start_of_a_minion_is_claimed_once_its_session_elsewhere_is_over(store: Store, run: int) -> None:
    """A lower run is that of a disk that was restored."""
    restored = at("b", 3, boot_id="another start", run=run)
    with store.write() as tx:
        tx.claim([at("a", 2)])
        assert tx.claim([restored]) == {}
        tx.release("a", {WEB1: "lost"}, NOW)
        assert tx.claim([restored]) == {WEB1: at("a", 2, up=False, end_reason="lost")}
    assert store.minion(WEB1) == restored


def test_a_release_ends_the_sessions_of_its_master_only(store: Store) -> None:
    with store.write() as tx:
        tx.claim([at("a"), at("b", minion=WEB2)])
        tx.release("a", {WEB1: "silent 50", WEB2: "lost", WEB3: "lost"}, NOW + 9)
    assert store.minion(WEB1) == replace(at("a"), up=False, last_seen=NOW + 9, end_reason="silent 50")
    assert store.minion(WEB2) == at("b", minion=WEB2)
    assert store.minion(WEB3) is None


def test_a_fence_ends_all_sessions_of_a_master_but_those_that_are_kept(store: Store) -> None:
    with store.write() as tx:
        tx.claim([at("a", minion=WEB3), at("a"), at("b", minion=WEB2)])
        assert tx.fence("a", "fenced", NOW + 9, [WEB3]) == [WEB1]
        assert tx.fence("a", "fenced", NOW + 9) == [WEB3]
        assert tx.fence("a", "fenced", NOW + 9) == []
    up = {minion: found.up for minion in (WEB1, WEB2, WEB3) if (found := store.minion(minion)) is not None}
    assert up == {WEB1: False, WEB2: True, WEB3: False}
    reasons = {minion: found.end_reason for minion in (WEB1, WEB2, WEB3) if (found := store.minion(minion)) is not None}
    assert reasons == {WEB1: "fenced", WEB2: "", WEB3: "fenced"}


def test_a_new_session_takes_away_why_the_one_before_ended(store: Store) -> None:
    with store.write() as tx:
        tx.claim([at("a")])
        tx.release("a", {WEB1: "lost"}, NOW + 2)
        assert tx.claim([at("a", 3)]) == {WEB1: at("a", 2, handshake=1, up=False, end_reason="lost")}
    assert store.minion(WEB1) == at("a", 3)


def test_a_refusal_is_kept_for_the_key_of_the_session_and_the_first_time_only(store: Store) -> None:
    own, other = key(WEB1).fingerprint, key(WEB2).fingerprint
    with store.write() as tx:
        tx.claim([at("a")])
        tx.refused(WEB1, own, "renamed web7")
        tx.refused(WEB3, own, "renamed web7")
    assert store.minion(WEB1) == at("a")
    assert store.minion(WEB3) is None
    kept = []
    for fingerprint, end in ((other, "renamed evil"), (own, "renamed web8"), (own, "renamed web9")):
        with store.write() as tx:
            tx.release("a", {WEB1: "lost"}, NOW + 2)
            tx.refused(WEB1, fingerprint, end)
        found = store.minion(WEB1)
        kept.append(found.end_reason if found else None)
    assert kept == ["lost", "renamed web8", "renamed web8"]


def test_a_session_of_before_masters_were_known_belongs_to_whoever_comes(store: Store) -> None:
    with store.write() as tx:
        tx.claim([at("", 5)])
        assert tx.fence("a", "fenced", NOW + 9) == [WEB1]
        tx.claim([at("", 5)])
        assert tx.claim([at("a", 1)]) == {WEB1: replace(at("", 5), last_seen=NOW + 9)}


def test_the_end_of_a_session_is_never_before_a_job_that_it_may_have_got(store: Store) -> None:
    publish(store, job(1, (WEB1, WEB2)))
    with store.write() as tx:
        tx.claim([at("a", -50), at("a", -50, minion=WEB2)])
        tx.release("a", {WEB1: "lost"}, NOW - 40)
        tx.fence("a", "fenced", NOW - 40)
    with store.write() as tx:
        assert tx.expire(NOW + 3600) == []


def test_functions_are_set_for_a_minion_that_had_a_session(store: Store) -> None:
    with store.write() as tx:
        tx.claim([at("a")])
        tx.set_functions(WEB1, "d1")
        tx.set_functions(WEB2, "d1")
    assert store.minion(WEB1) == at("a", functions="d1")
    assert store.minion(WEB2) is None


def test_a_function_set_comes_back_as_it_was_put_and_is_replaced_by_digest(store: Store) -> None:
    part = FunctionSet("d1", {"test.ping": "test.ping"}, whole=False)
    whole = FunctionSet("d1", by_name(["test.ping()", "pkg.remove(name:str)!remove", "cmd.run!x"]), whole=True)
    empty = FunctionSet("d2", {}, whole=True)
    with store.write() as tx:
        tx.put_functions(part)
        tx.put_functions(empty)
        assert tx.functions("d1") == part
    assert store.functions("d2") == empty
    with store.write() as tx:
        tx.put_functions(whole)
    assert store.functions("d1") == whole
    assert store.functions("d3") is None
    assert store.functions("") is None


def test_functions_are_found_by_how_their_names_begin(store: Store) -> None:
    with store.write() as tx:
        tx.put_functions(FunctionSet("d1", by_name(["acl.get()", "mine.b?", "mine.a?", "pkg.mine()"]), whole=True))
        tx.put_functions(FunctionSet("d2", by_name(["pkg.mine()"]), whole=True))
    assert store.function_names("mine.") == {"d1": ["mine.a", "mine.b"]}
    assert store.function_names("nothing.") == {}


def test_function_digests_are_counted_as_last_reported_and_empty_for_a_minion_that_never_did(store: Store) -> None:
    silent = MinionId("silent")
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, functions="old"), row(WEB2, functions="d1"), row(WEB3, functions="")])
        had_sessions(tx, [row(WEB1, functions="d1")])
    assert store.function_digests([WEB1, WEB2]) == {"d1": (2, WEB1)}
    assert store.function_digests([WEB1, silent]) == {"d1": (1, WEB1), "": (1, silent)}
    assert store.function_digests((WEB3, silent)) == {"": (2, min(WEB3, silent))}
    assert store.function_digests([]) == {}


def test_function_digests_can_be_asked_for_a_whole_fleet(store: Store) -> None:
    fleet = [MinionId(f"m{n}") for n in range(40_000)]  # a statement of SQLite has 32,766 parameters at most
    known = fleet[19::20]
    with store.write() as tx:
        had_sessions(tx, [row(minion, functions=f"d{n % 2}") for n, minion in enumerate(known)])
    found = {"d0": (1_000, min(known[::2])), "d1": (1_000, min(known[1::2])), "": (38_000, "m0")}
    assert store.function_digests(fleet) == found


# --- expiry and pruning ---------------------------------------------------------------------------


def test_a_job_expires_for_minions_that_had_no_session_since_it_was_made(store: Store) -> None:
    with store.write() as tx:
        had_sessions(tx, [row(WEB3, NOW - 0.5)])
    publish(store, job(2, (WEB1, WEB2, WEB3)), job(1, (WEB1,)))
    with store.write() as tx:
        had_sessions(tx, [row(WEB2, NOW)])
    with store.write() as tx:
        assert tx.expire(NOW + 59.999) == []
        gone = tx.expire(NOW + 60)
        assert tx.expire(NOW + 60) == []
    assert gone == [(job(1).jid, WEB1), (job(2).jid, WEB1), (job(2).jid, WEB3)]
    states = [target.state for target in store.targets(job(2).jid)]
    assert states == [TargetState.EXPIRED, TargetState.QUEUED, TargetState.EXPIRED]
    assert store.targets(job(1).jid)[0].changed_at == NOW + 60


def test_an_expired_target_says_why_its_minion_was_away_when_it_expired(store: Store) -> None:
    with store.write() as tx:
        had_sessions(tx, [row(one, NOW - 9, up=True, master="a") for one in (WEB2, WEB3)])
        tx.release("a", {WEB2: end_with(SessionEnd.SILENT, 52), WEB3: "a word of a newer release"}, NOW - 1)
    publish(store, job(1, (WEB1, WEB2, WEB3)))
    with store.write() as tx:
        assert len(tx.expire(NOW + 60)) == 3
    with store.write() as tx:  # its next session takes the reason of the last one away
        had_sessions(tx, [row(WEB2, NOW + 99, up=True)])
    assert [target.reason for target in store.targets(job(1).jid)] == [
        f"{EXPIRED_REASON}: never connected", f"{EXPIRED_REASON}: no heartbeat for 52 s", EXPIRED_REASON,
    ]  # fmt: skip


def test_a_job_does_not_expire_for_a_minion_whose_session_is_older_than_the_job_but_lasts(
    store: Store,
) -> None:
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, NOW - 100, up=True), row(WEB2, NOW - 100, up=False)])
    publish(store, job(1))
    with store.write() as tx:
        assert tx.expire(NOW + 3600) == [(job(1).jid, WEB2)]
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, NOW + 3600, up=False)])
        assert tx.expire(NOW + 7200) == []
    assert state_of(store, job(1).jid, WEB1) is TargetState.QUEUED


@pytest.mark.parametrize("up", [True, False])
def test_a_session_after_the_wall_clock_was_set_back_is_a_session_after_the_job(store: Store, up: bool) -> None:
    publish(store, job(1, (WEB1,)))
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, NOW - 86_400, up=True)])
        had_sessions(tx, [row(WEB1, NOW - 86_399, up=up)])
    with store.write() as tx:
        assert tx.expire(NOW + 3600) == []


@pytest.mark.parametrize("reported", ["no session ever", "ended before", "began before", "ended after"])
@pytest.mark.parametrize("state", sorted(TargetState))
def test_an_expiry_is_due_exactly_when_it_would_move_something(store: Store, state: TargetState, reported: str) -> None:
    sessions = {
        "ended before": [row(WEB1, NOW - 1)],
        "began before": [row(WEB1, NOW - 1, up=True)],
        "ended after": [row(WEB1, NOW)],
    }
    with store.write() as tx:
        had_sessions(tx, sessions.get(reported, []))
    publish(store, job(1, (WEB1,)))
    move(store, job(1), WEB1, state)
    for now in (NOW + 59.999, NOW + 60):
        due = store.expire_due(now)
        with store.write() as tx:
            assert tx.expire_due(now) is due
            assert bool(tx.expire(now)) is due
        assert store.expire_due(now) is False


def test_whether_an_expiry_is_due_can_be_asked_while_another_writes(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    publish(one, job(1))
    with one.write() as tx:
        tx.expire(NOW + 60)
        assert other.expire_due(NOW + 60) is True
    assert other.expire_due(NOW + 60) is False


def test_a_job_that_was_received_does_not_expire(store: Store) -> None:
    publish(store, job(1))
    move(store, job(1), WEB1, TargetState.RECEIVED)
    with store.write() as tx:
        assert tx.expire(NOW + 3600) == [(job(1).jid, WEB2)]
    assert state_of(store, job(1).jid, WEB1) is TargetState.RECEIVED


@pytest.mark.parametrize("state", TargetState)
def test_a_target_counts_as_open_until_it_is_terminal(store: Store, state: TargetState) -> None:
    publish(store, job(1))
    move(store, job(1), WEB1, state)
    assert store.open_targets(job(1).jid) == (1 if state in TERMINAL else 2)
    assert store.open_targets(job(9).jid) == 0


def moved(store: Store, jid: Jid) -> list[TargetRow]:
    return store.news(jid, 0, 10).moved


def test_moved_targets_are_those_of_which_no_return_tells(store: Store) -> None:
    publish(store, job(1), job(2), job(3, batch=Batch(1)))
    assert moved(store, job(1).jid) == moved(store, job(3).jid) == []
    move(store, job(1), WEB2, TargetState.REFUSED, "why")
    commit(store, ret(job(1), WEB1))
    move(store, job(2), WEB1, TargetState.RUNNING)
    assert [(row.id, row.state, row.reason) for row in moved(store, job(1).jid)] == [(WEB2, TargetState.REFUSED, "why")]
    assert [row.id for row in moved(store, job(2).jid)] == [WEB1]


def test_news_have_the_returns_after_the_cursor_and_say_whether_these_are_all(store: Store) -> None:
    publish(store, job(1))
    commit(store, ret(job(1), WEB1, body=b"x" * 10), ret(job(1), WEB2, body=b"y" * 10))
    first, second = store.returns(job(1).jid)
    for after, limit, size, told, is_whole in [
        (0, 3, 21, [first, second], True),
        (0, 2, 21, [first, second], False),
        (0, 1, 21, [first], False),
        (0, 3, 20, [first, second], False),
        (0, 3, 10, [first], False),
        (first.seq, 3, 21, [second], True),
        (second.seq, 3, 21, [], True),
    ]:
        news = store.news(job(1).jid, after, limit, size)
        assert (news.returns, news.is_whole) == (told, is_whole)


def test_news_name_the_targets_that_ended_otherwise(store: Store) -> None:
    publish(store, job(1))
    move(store, job(1), WEB1, TargetState.RUNNING)
    move(store, job(1), WEB2, TargetState.REFUSED)
    assert store.news(job(1).jid, 0, 10).ended == {WEB2}
    assert store.news(job(9).jid, 0, 10) == JobNews([], 0, frozenset(), [], is_whole=True)


def test_a_change_of_state_is_told_once_to_who_comes_with_the_cursor(store: Store) -> None:
    publish(store, job(1, (WEB1, WEB2, WEB3), batch=Batch(1)), job(2))
    move(store, job(1), WEB1, TargetState.QUEUED)
    first = store.news(job(1).jid, 0, 10)
    assert [(row.id, row.state) for row in first.moved] == [(WEB1, TargetState.QUEUED)]
    move(store, job(2), WEB1, TargetState.RUNNING)
    assert store.news(job(1).jid, 0, 10, moves=first.moves).moved == []
    move(store, job(1), WEB1, TargetState.RUNNING)
    move_part(store, job(1).jid, WEB2, TargetState.RECEIVED)
    commit(store, ret(job(1), WEB3, state=TargetState.TIMED_OUT))
    second = store.news(job(1).jid, 0, 10, moves=first.moves)
    assert [(row.id, row.state) for row in second.moved] == [
        (WEB1, TargetState.RUNNING),
        (WEB2, TargetState.RECEIVED),
        (WEB3, TargetState.TIMED_OUT),
    ]
    commit(store, ret(job(1), WEB1))
    with store.write() as tx:
        tx.set_parts([PartRow(job(1).jid, WEB2, TargetState.LOST, "", NOW + 9)])
        tx.cancel_job(job(1).jid, "root", NOW + 9)
    third = store.news(job(1).jid, 0, 10, moves=second.moves)
    assert [(row.id, row.state) for row in third.moved] == [(WEB2, TargetState.LOST)]
    assert first.moves < second.moves < third.moves
    assert store.news(job(1).jid, 0, 10, moves=third.moves).moves == third.moves


def test_a_change_that_was_rolled_back_moves_no_cursor(store: Store) -> None:
    publish(store, job(1))
    with suppress(RuntimeError), store.write() as tx:
        tx.set_targets([(job(1).jid, TargetRow(WEB1, TargetState.RUNNING, "", NOW))])
        raise RuntimeError
    assert store.news(job(1).jid, 0, 10).moved == []
    move(store, job(1), WEB2, TargetState.RUNNING)
    assert [row.id for row in store.news(job(1).jid, 0, 10).moved] == [WEB2]


MANY = tuple(MinionId(f"web{n:03d}") for n in range(100))


def numbers(store: Store, of: Job) -> tuple[int, int, int, float, TargetId | None]:
    """What is counted of a large job, and is the same when its targets are looked at one by one."""
    standing = store.standing(of.jid, NOW - 100, NOW + 1000, NOW + 1000)
    states = Counter(row.state for row in store.targets(of.jid))
    assert store.open_targets(of.jid) == sum(count for state, count in states.items() if state not in TERMINAL)
    assert standing.planned == states[TargetState.PLANNED]
    occupied = (TargetState.QUEUED, TargetState.RECEIVED, TargetState.RUNNING)
    assert standing.active == sum(states[state] for state in occupied)
    assert [one.jid for one in store.batches([of.jid])] == ([of.jid] if standing.planned else [])
    return store.open_targets(of.jid), standing.active, standing.planned, standing.changed_at, standing.failed


def test_a_large_job_is_counted_right_whatever_becomes_of_it(store: Store) -> None:
    srn = srns(3)
    large = job(1, MANY, batch=Batch(50), resources={MANY[0]: srn})
    publish(store, large)
    assert numbers(store, large) == (103, 0, 103, NOW, None)
    with store.write() as tx:
        queued = [(large.jid, TargetRow(target, TargetState.QUEUED, "", NOW + 1)) for target in (*MANY[:20], *srn)]
        tx.set_targets(queued)
        tx.set_targets([(large.jid, TargetRow("db1", TargetState.LOST, "no target of it", NOW + 1))])
    assert numbers(store, large) == (103, 23, 80, NOW + 1, None)
    move_part(store, large.jid, MANY[1], TargetState.RUNNING)
    move_part(store, part_id(large.jid, 1), MANY[0], TargetState.RUNNING)
    move_part(store, large.jid, MANY[2], TargetState.RECEIVED)
    assert numbers(store, large) == (103, 23, 80, NOW + 3, None)
    # It ran: so it is lost.
    move_part(store, large.jid, MANY[1], TargetState.REFUSED)
    move(store, large, MANY[2], TargetState.REFUSED)
    assert numbers(store, large) == (101, 21, 80, NOW + 3, MANY[2])
    commit(store, ret(large, MANY[3], retcode=1), ret(large, MANY[4]), ret(large, MANY[4]), now=NOW + 4)
    assert numbers(store, large) == (99, 19, 80, NOW + 4, MANY[2])
    # Late ones: the first says that it did not fail, the second that it did.
    commit(store, ret(large, MANY[2]), ret(large, MANY[1], retcode=1), now=NOW + 5)
    assert numbers(store, large) == (99, 19, 80, NOW + 4, MANY[1])
    with store.write() as tx:
        assert len(tx.expire(NOW + 61)) == 18
    assert numbers(store, large) == (81, 1, 80, NOW + 61, MANY[1])
    with store.write() as tx:
        assert len(tx.cancel_job(large.jid, "root", NOW + 70)) == 80
    assert numbers(store, large) == (1, 1, 0, NOW + 70, MANY[1])


@pytest.mark.parametrize("state", TargetState)
def test_the_targets_in_a_state_are_told_with_the_reason(store: Store, state: TargetState) -> None:
    publish(store, job(1, batch=Batch(1)))
    move(store, job(1), WEB2, state, "why")
    (found,) = [row for row in store.targets_in(job(1).jid, state) if row.id == WEB2]
    assert [found] == [row for row in store.targets(job(1).jid) if row.id == WEB2]
    others = {row.id for other in TargetState if other is not state for row in store.targets_in(job(1).jid, other)}
    assert WEB2 not in others


def test_pruning_deletes_old_jobs_that_are_over_and_old_events(store: Store) -> None:
    over, still_open = job(1, (WEB1,)), job(2, (WEB1, WEB2))
    young = job(3, (WEB1,), created_at=NOW + 100)
    publish(store, over, still_open, young)
    commit(store, ret(over, WEB1), ret(still_open, WEB1), now=NOW + 1)
    commit(store, ret(young, WEB1), now=NOW + 101)
    with store.write() as tx:
        assert tx.prune(NOW + 100) == 1
    assert store.job(over.jid) is None
    assert store.targets(over.jid) == []
    assert store.returns(over.jid) == []
    assert store.job(still_open.jid) == still_open
    assert [r.id for r in store.returns(still_open.jid)] == [WEB1]
    assert [event.tag for event in store.events()] == [
        f"salt/job/{young.jid}/new",
        f"salt/job/{young.jid}/ret/web1",
    ]


def test_pruning_drops_function_sets_that_no_minion_has_any_more(store: Store) -> None:
    sets = [FunctionSet(digest, by_name([f"{digest}.run()"]), whole=True) for digest in ("old", "new", "lone")]
    with store.write() as tx:
        for one in sets:
            tx.put_functions(one)
        had_sessions(tx, [row(WEB1, functions="old"), row(WEB2, functions="")])
        had_sessions(tx, [row(WEB1, functions="new")])
    assert store.functions("old") == sets[0]
    with store.write() as tx:
        tx.prune(NOW)
    assert [store.functions(one.digest) for one in sets] == [None, sets[1], None]


def test_a_sequence_number_is_never_given_out_again(open_store: OpenStore) -> None:
    first = open_store()
    publish(first, job(1, (WEB1,)))
    commit(first, ret(job(1), WEB1))
    with first.write() as tx:
        tx.prune(NOW + 1000)
    assert first.events() == []
    first.close()
    second = open_store()
    assert second.last_seq() == 2
    with second.write() as tx:
        assert tx.put_event("next", {}, NOW) == 3


def test_a_pruned_job_frees_its_jid_and_its_request(store: Store) -> None:
    publish(store, job(1, ()))
    with store.write() as tx:
        assert tx.prune(NOW + 1) == 1
        tx.put_job(job(1))
    assert store.job_of_request(job(1).request_id, 0) == job(1).jid
    assert [target.id for target in store.targets(job(1).jid)] == [WEB1, WEB2]


def test_pruning_and_writing_the_same_job_in_one_transaction_agree(store: Store) -> None:
    publish(store, job(1, (WEB1,)))
    with store.write() as tx:
        tx.put_returns([ret(job(1), WEB1)], NOW)
        assert tx.prune(NOW + 1) == 1
        assert tx.put_returns([ret(job(1), WEB1)], NOW) == [Stored.UNASSIGNED]
        tx.put_job(job(1, (WEB1,)))
        assert tx.put_returns([ret(job(1), WEB1)], NOW) == [Stored.NEW]
    assert [r.id for r in store.returns(job(1).jid)] == [WEB1]
