"""Masters that share a database: one that is stopped, cut off or lost costs no guarantee (G1 to G9, S5).

For each rule, a test takes it away, and the simulation sees that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from saltlite.master.processes import maintenance, membership
from saltlite.master.processes.membership import LOST_S, Membership
from saltlite.master.processes.other_masters import FENCE_S, OtherMasters, fence
from saltlite.master.protocol import sharing
from saltlite.master.protocol.session_manager import SessionManager
from saltlite.master.protocol.sharing import SUSPEND_S, Lease
from saltlite.master.store.sharing import MasterState
from saltlite.minion.processes import network
from saltlite.minion.processes.network import NetworkProcess
from saltlite.minion.protocol import connection
from saltlite.model.ids import MinionId
from saltlite.model.job import TargetState
from saltlite.testing import memory_store
from tests.simulation.fleet import stage
from tests.simulation.masters import SimMaster
from tests.simulation.minions import SimMinion
from tests.simulation.site import LOOK_S, Site, site, stop
from tests.simulation.story import play
from tests.simulation.universe import SimClock, Universe
from tests.support.guarantees import Violation, report
from tests.support.keys import DAY

SEEDS = 20
CHUNK = 10


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_guarantee_holds_on_a_shared_database_whatever_breaks(first: int) -> None:
    for seed in range(first, first + CHUNK):
        violations = play(seed, shared=True).violations
        assert not violations, f"seed {seed}: {report(violations)}"


# -- jobs


def test_a_job_runs_once_on_the_minions_of_all_masters() -> None:
    with site(3) as at:
        assert all(at.minions_of(master) for master in at.fleet.masters)
        clients = [at.publish(master) for master in at.fleet.masters]
        at.until(lambda: all(client.over for client in clients))
        entered = [event for event in at.fleet.history.events if event.kind == "entered"]
        assert len(entered) == 3 * len(at.fleet.minions)
        assert at.close() == []


def test_a_job_goes_to_the_minions_of_another_master_at_once() -> None:
    with site() as at:
        first, second = at.fleet.masters
        minion = at.minions_of(second)[0]
        client = at.publish(first, minion.name)

        def arrived() -> bool:
            return any(event.kind == "received" for event in at.fleet.history.events)

        assert at.until(arrived) < 1.5
        at.until(lambda: client.over)
        assert at.close() == []


def test_a_kill_reaches_the_minions_of_another_master() -> None:
    with site() as at:
        first, second = at.fleet.masters
        minion = at.minions_of(second)[0]
        minion.patient = True
        client = at.publish(first, minion.name)
        at.until(lambda: any(event.kind == "entered" for event in at.fleet.history.events))
        assert client.progress is not None
        at.fleet.ask(first, "job_kill", jid=client.progress.published.jid)
        assert at.until(lambda: client.over) < 20.0
        assert at.close() == []


YEAR = 365.25 * DAY


@pytest.mark.parametrize("ahead_s", [-10 * YEAR, -DAY, DAY, 10 * YEAR])
def test_clocks_of_masters_may_differ_and_jump(ahead_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "PRUNE_S", 5.0)
    with site() as at:
        first, second = at.fleet.masters
        second.clock.jump(ahead_s)
        clients = [at.publish(first), at.publish(second)]
        at.run(30.0)
        second.clock.jump(-2 * ahead_s)
        clients += [at.publish(first), at.publish(second)]
        at.until(lambda: all(client.over for client in clients))
        at.run(10.0)
        jids = [client.progress.published.jid for client in clients if client.progress is not None]
        assert sorted(jids[:2]) + sorted(jids[2:]) == sorted(jids), "by the time of the database"
        assert sorted(jids) == sorted(first.disk.tables.jobs), "none is old enough to be pruned"
        assert at.close() == []


# -- a master that is lost


def test_jobs_of_a_master_that_loses_its_power_end_on_the_others() -> None:
    with site(3) as at:
        first, second, lost = at.fleet.masters
        clients = [at.publish(master) for master in (first, lost)]
        at.until(lambda: all(client.progress is not None for client in clients))
        lost.power_off(1e9)
        at.until(lambda: len(at.minions_of(first) + at.minions_of(second)) == len(at.fleet.minions), within=75.0)
        at.until(lambda: first.disk.tables.masters[lost.name].state is MasterState.FENCED, within=LOST_S + 3.0)
        assert at.close() == []


def test_the_minions_of_a_lost_master_count_as_away_after_ten_seconds() -> None:
    with site() as at:
        first, lost = at.fleet.masters
        lost.power_off(1e9)
        for minion in at.minions_of(lost):
            minion.power_off(1e9)
        assert LOST_S <= at.until(lambda: not at.minions_of(lost)) <= LOST_S + 3.0
        assert at.minions_of(first)


def test_a_lost_master_that_is_not_fenced_keeps_its_minions_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Membership, "_fence_lost", lambda self, masters: None)
    with pytest.raises(AssertionError, match="it does not come"):
        test_the_minions_of_a_lost_master_count_as_away_after_ten_seconds()


@pytest.mark.parametrize("seconds", [3.0, 10.0, 60.0])
def test_a_master_that_stood_still_takes_no_minion_back(seconds: float) -> None:
    """It wakes with jobs of these minions that are QUEUED, sent and running."""
    with site(seed=int(seconds)) as at:
        first, second = at.fleet.masters
        moved = at.minions_of(second)
        clients = [at.publish(first), at.publish(second)]
        at.until(lambda: any(event.kind == "entered" for event in at.fleet.history.events))
        stop(second, seconds)
        for minion in moved:
            assert minion.link is not None
            minion.link.die()
        at.run(seconds)
        clients.append(at.publish(first))
        at.until(lambda: len(at.fleet.ready()) == len(at.fleet.minions))
        at.until(lambda: all(client.over for client in clients))
        assert at.close() == []


def test_minions_leave_a_master_that_stands_still_while_they_keep_their_sessions() -> None:
    """It wakes with jobs of theirs, and takes none of them back."""
    with site(seed=6) as at:
        first, second = at.fleet.masters
        at.settle()
        clients = [at.publish(first), at.publish(second)]
        at.until(lambda: any(event.kind == "entered" for event in at.fleet.history.events))
        stop(second, 60.0)
        at.until(lambda: len(at.minions_of(first)) == len(at.fleet.minions), within=40.0)
        assert at.longest_gap == 0.0
        clients.append(at.publish(first))
        at.run(60.0)
        at.until(lambda: all(client.over for client in clients))
        assert {connected_to(minion) for minion in at.fleet.minions.values()} == {first.name}
        assert {master for master, _run, _handshake in at.sessions().values()} == {first.name}
        assert at.close() == []


def connected_to(minion: SimMinion) -> str:
    """The name of the master that it has its session with."""
    assert minion.connection is not None
    return minion.connection.master.partition(":")[0]


def _late_claim_is_refused() -> bool:
    """Whether a master that claims a minion with an older handshake than another one does not get it."""
    with site() as at:
        at.settle()
        minion = at.minions_of(at.fleet.masters[0])[0]
        before = at.sessions()[minion.name]
        row = at.fleet.masters[0].disk.tables.minions[MinionId(minion.name)]
        late = replace(row, master=at.fleet.masters[1].name, handshake=row.handshake - 1)
        with memory_store.MemoryStore(at.fleet.masters[0].disk).write() as store:
            store.claim([late])
        return at.sessions()[minion.name] == before


def test_a_late_claim_is_refused() -> None:
    assert _late_claim_is_refused()


def test_a_store_that_takes_late_claims_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_store, "is_outdated", lambda _row, _known: False)
    assert not _late_claim_is_refused()


# -- minions that move


def test_a_master_that_drains_is_left_without_a_time_without_a_session_and_jobs_go_on() -> None:
    with site(3) as at:
        drained, *others = at.fleet.masters
        at.settle()
        clients = [at.publish(master) for master in at.fleet.masters]
        at.until(lambda: any(event.kind == "entered" for event in at.fleet.history.events))
        before = at.lost()
        at.drain(drained)
        assert at.until(lambda: not at.minions_of(drained)) < 5.0
        clients.append(at.publish(drained))
        at.until(lambda: all(client.over for client in clients))
        assert all(at.minions_of(master) for master in others)
        assert (at.longest_gap, at.lost()) == (0.0, before)
        at.drain(drained, ends=True)
        at.until(at.are_home, within=300.0)
        assert (at.longest_gap, at.lost()) == (0.0, before)
        assert at.close() == []


def test_a_master_that_drains_goes_on_to_drain_after_it_was_fenced() -> None:
    with site(2) as at:
        drained, _other = at.fleet.masters
        at.drain(drained)
        at.until(lambda: not at.minions_of(drained))
        fence(memory_store.MemoryStore(drained.disk), drained.name, drained.clock.wall())
        states = set()
        began = at.now
        while at.now - began < 10.0:
            at.run(LOOK_S)
            states.add(next(row.state for row in drained.disk.tables.masters.values() if row.name == drained.name))
        assert MasterState.UP not in states
        assert MasterState.DRAINING in states
        assert at.close() == []


def test_minions_that_leave_before_another_master_has_accepted_them_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = NetworkProcess._begin_second

    def leave_first(self: NetworkProcess, address: str) -> None:
        self._line.close()
        self._line.on_down("it left")
        begin(self, address)

    monkeypatch.setattr(NetworkProcess, "_begin_second", leave_first)
    with pytest.raises(AssertionError):
        test_a_master_that_drains_is_left_without_a_time_without_a_session_and_jobs_go_on()


def test_sessions_that_end_before_the_next_master_has_stored_its_own_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "LINGER_S", 0.0)
    with pytest.raises(AssertionError):
        test_a_master_that_drains_is_left_without_a_time_without_a_session_and_jobs_go_on()


def test_the_minions_of_a_lost_master_spread_over_the_others_and_go_home_when_it_is_back() -> None:
    with site(3) as at:
        lost, *others = at.fleet.masters
        at.settle()
        moving = {minion.name for minion in at.minions_of(lost)}
        before = at.sessions()
        lost.power_off(120.0)
        assert moving
        at.until(lambda: sum(len(at.minions_of(master)) for master in others) == len(at.fleet.minions), within=75.0)
        assert {name: at.sessions()[name] for name in before if name not in moving} == {
            name: row for name, row in before.items() if name not in moving
        }
        at.run(120.0)
        at.until(at.are_home, within=300.0)
        assert at.close() == []


def test_masters_that_never_send_minions_home_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "OVER", 1e6)
    with pytest.raises(AssertionError, match="it does not come"):
        test_the_minions_of_a_lost_master_spread_over_the_others_and_go_home_when_it_is_back()


def test_without_a_directory_a_drained_master_is_left_for_another_one_of_the_configuration() -> None:
    universe = Universe(1)
    with stage(universe):
        at = Site(universe, 2, lists_masters=False)
        drained = at.fleet.masters[0]
        at.drain(drained)
        at.until(lambda: not at.minions_of(drained))
        assert not any(minion.directory.masters for minion in at.fleet.minions.values())
        assert at.longest_gap == 0.0
        assert at.close() == []


# -- the database


def test_a_database_that_is_away_for_ten_seconds_costs_no_session_and_no_result() -> None:
    with site() as at:
        client = at.publish(at.fleet.masters[0])
        at.until(lambda: any(event.kind == "entered" for event in at.fleet.history.events))
        before = {row.id: (row.run, row.handshake) for row in at.fleet.masters[0].disk.tables.minions.values()}
        for master in at.fleet.masters:
            master.is_cut_off = True
        at.run(10.0)
        for master in at.fleet.masters:
            master.is_cut_off = False
        at.until(lambda: client.over)
        after = {row.id: (row.run, row.handshake) for row in at.fleet.masters[0].disk.tables.minions.values()}
        assert before == after
        assert at.close() == []


def test_a_database_that_is_away_for_an_hour_costs_no_result_and_afterwards_all_goes_on() -> None:
    with site() as at:
        clients = [at.publish(master) for master in at.fleet.masters]
        at.until(lambda: sum(event.kind == "entered" for event in at.fleet.history.events) >= 2)
        for master in at.fleet.masters:
            master.is_cut_off = True
        at.found += at.fleet.run(3600.0)
        for master in at.fleet.masters:
            master.is_cut_off = False
        at.until(lambda: len(at.fleet.ready()) == len(at.fleet.minions), within=120.0)
        clients += [at.publish(master) for master in at.fleet.masters]
        at.until(lambda: all(client.over for client in clients), within=120.0)
        assert at.close() == []
        ends = {row.state for rows in at.fleet.masters[0].disk.tables.targets.values() for row in rows.values()}
        assert ends <= {TargetState.RETURNED, TargetState.INTERRUPTED}, "each job ended as its minion said"


def test_a_master_that_stays_cut_off_is_left_by_its_minions_while_they_keep_their_sessions() -> None:
    with site() as at:
        first, second = at.fleet.masters
        at.settle()
        second.is_cut_off = True
        at.until(lambda: len(at.minions_of(first)) == len(at.fleet.minions), within=SUSPEND_S)
        assert at.longest_gap == 0.0
        second.is_cut_off = False
        client = at.publish(second)
        at.until(lambda: client.over)
        assert at.close() == []


def test_minions_that_wait_for_a_master_that_is_cut_off_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "UNANSWERED_S", 1e6)
    with pytest.raises(AssertionError):
        test_a_master_that_stays_cut_off_is_left_by_its_minions_while_they_keep_their_sessions()


def test_minions_keep_their_sessions_when_no_master_reaches_the_database_for_a_while() -> None:
    with site() as at:
        at.settle()
        starts = {name: row.start for name, row in at.fleet.masters[0].disk.tables.masters.items()}
        for master in at.fleet.masters:
            master.is_cut_off = True
        at.run(20.0)
        for master in at.fleet.masters:
            master.is_cut_off = False
        at.run(30.0)
        assert at.longest_gap == 0.0
        assert {name: row.start for name, row in at.fleet.masters[0].disk.tables.masters.items()} == starts
        assert at.close() == []


def test_a_master_that_takes_its_own_absence_for_that_of_the_others_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    fence = Membership._fence_lost

    def fences_at_once(self: Membership, masters: Any) -> None:
        self._looked_at = self._clock.monotonic()
        fence(self, masters)

    monkeypatch.setattr(Membership, "_fence_lost", fences_at_once)
    with pytest.raises(AssertionError):
        test_minions_keep_their_sessions_when_no_master_reaches_the_database_for_a_while()


def test_a_client_of_a_master_that_is_cut_off_is_refused_at_once() -> None:
    with site() as at:
        answers: list[Any] = []
        at.fleet.masters[1].is_cut_off = True
        fields = {"tgt": "*", "tgt_type": "glob", "calls": [["test.ping", [], {}]], "request_id": "0" * 32}
        at.fleet.ask(at.fleet.masters[1], "publish", then=answers.append, **fields)
        assert at.until(lambda: bool(answers)) < 3.0
        assert "cannot be reached" in answers[0]["error"]


# -- revoked keys (S5)


def _revokes_while_all_masters_are_well() -> list[float]:
    """How long they take, each with a session at the master that revokes, shortest first."""
    every = []
    for seed in range(5):
        with site(3, seed=seed) as at:
            first = at.fleet.masters[0]
            took = at.revoke(first, at.minions_of(first)[0])
            at.until(lambda took=took: bool(took))  # type: ignore[misc]  # mypy cannot infer a default
            every += took
            at.run(20.0)
            assert at.found == []
    return sorted(every)


def test_a_revoke_takes_no_time_while_all_masters_are_well() -> None:
    took = _revokes_while_all_masters_are_well()
    assert took[-1] < 1.5, "a notification may be missed, but not the next renewal"
    assert took[2] < 0.5


def test_the_session_of_a_revoked_key_ends_in_the_store_of_whichever_master_had_it() -> None:
    with site(2) as at:
        first, second = at.fleet.masters
        minions = at.minions_of(first)[0], at.minions_of(second)[0]
        for minion in minions:
            took = at.revoke(first, minion)
            at.until(lambda took=took: bool(took))  # type: ignore[misc]  # mypy cannot infer a default
        at.until(lambda: not {minion.name for minion in minions} & {*at.sessions()})


def _revoked_elsewhere(hinder: Callable[[SimMaster], None]) -> tuple[float, list[Violation]]:
    """How long a revoke takes while the master of that minion is hindered, and what the minion brings about."""
    with site() as at:
        first, second = at.fleet.masters
        minion = at.minions_of(second)[0]
        hinder(second)
        took = at.revoke(first, minion)
        for _ in range(200):
            # Its frames arrive whenever that master acts again.
            minion.lie("20270101000000000000", b"\xa3lie")
            at.run(0.2)
        return took[0], at.found


def _cut_off(master: SimMaster) -> None:
    master.is_cut_off = True
    master.fleet.universe.after(30.0, lambda: setattr(master, "is_cut_off", False))


def _deaf(master: SimMaster) -> None:
    """Its membership process stands still, and its link process does not."""
    master.processes["membership"].stopped_until = master.fleet.universe.now + 30.0


HINDRANCES = [
    _cut_off,
    _deaf,
    *(lambda master, s=s: stop(master, s) for s in (3.0, 10.0, 30.0)),
    *(lambda master, s=s: master.suspend(s) for s in (3.0, 10.0, 30.0)),
]


@pytest.mark.parametrize("hinder", HINDRANCES)
def test_nothing_of_a_revoked_key_is_acted_on_by_a_master_that_is_cut_off_or_stopped(
    hinder: Callable[[SimMaster], None],
) -> None:
    took, found = _revoked_elsewhere(hinder)
    assert took < FENCE_S + 0.5
    assert found == []


def test_a_lease_by_the_clock_that_stands_still_while_the_machine_is_suspended_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimClock, "boottime", SimClock.monotonic)
    assert {one.guarantee for one in _revoked_elsewhere(lambda master: master.suspend(10.0))[1]} == {"S5"}


def test_a_suspended_master_goes_on_with_its_minions_and_jobs_when_it_is_back() -> None:
    with site(seed=8) as at:
        first, second = at.fleet.masters
        at.settle()
        clients = [at.publish(master) for master in at.fleet.masters]
        at.until(lambda: any(event.kind == "entered" for event in at.fleet.history.events))
        second.suspend(60.0)
        clients.append(at.publish(first))
        at.run(60.0)
        at.until(lambda: all(client.over for client in clients))
        at.until(at.are_home, within=300.0)
        assert at.close() == []


def test_a_master_that_acts_without_a_lease_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "is_held", True)
    assert {one.guarantee for one in _revoked_elsewhere(_deaf)[1]} == {"S5"}


def test_a_revoke_that_waits_for_no_other_master_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OtherMasters, "wait", lambda self, seq, done: done(True))
    assert {one.guarantee for one in _revoked_elsewhere(_deaf)[1]} == {"S5"}


def test_a_lease_that_is_longer_than_the_wait_for_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "LEASE_S", 2 * FENCE_S)
    assert {one.guarantee for one in _revoked_elsewhere(_deaf)[1]} == {"S5"}


def _revoked_twice(seed: int) -> tuple[list[float], list[Violation]]:
    """How long two revokes take, and what the minions of both bring about. The first one fences the other master, whose
    link process stands still: it goes on right after that, with the answer to a renewal of the last moment. The second
    revoke comes before that master knows that it was fenced."""
    with site(2, seed=seed) as at:
        first, second = at.fleet.masters
        minions = at.minions_of(second)[:2]
        at.run(seed / 20)
        second.processes["link"].stopped_until = at.now + 7.3
        at.run(2.0)
        took = [at.revoke(first, minions[0])]
        at.until(lambda: bool(took[0]))
        second.processes["membership"].stopped_until = at.now + 10.0
        took.append(at.revoke(first, minions[1]))
        for _ in range(100):
            for minion in minions:
                minion.lie("20270101000000000000", b"\xa3lie")
            at.run(0.1)
        return [one[0] for one in took], at.found


@pytest.mark.parametrize("seed", range(5))
def test_a_second_revoke_has_its_effect_on_a_master_that_the_first_one_fenced(seed: int) -> None:
    took, found = _revoked_twice(seed)
    assert max(took) < FENCE_S + 0.5
    assert found == []


def test_a_renewal_that_gives_a_lease_before_the_changes_that_it_found_are_applied_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Membership, "_news", _without_withdrawn)
    assert {one.guarantee for seed in range(5) for one in _revoked_twice(seed)[1]} == {"S5"}


_news = Membership._news


def _without_withdrawn(self: Membership, events: Any) -> Any:
    return replace(_news(self, events), withdrawn=2**63)


def test_a_change_of_a_key_that_is_applied_nowhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionManager, "key_changed", lambda self, key, state, minion: None)
    assert {one.guarantee for one in _revoked_elsewhere(lambda master: None)[1]} == {"S5"}


def _up_after_another_link_process_started() -> bool:
    """Whether the sessions of a master are still up when the link process of another one was started again."""
    with site() as at:
        first, second = at.fleet.masters
        before = at.minions_of(second)
        first.processes["link"].die()
        at.run(6.0)
        assert first.processes["link"].alive
        now = at.minions_of(second)
        return all(minion in now for minion in before)


def test_a_link_process_that_starts_ends_the_sessions_of_its_own_master_only() -> None:
    assert _up_after_another_link_process_started()


def test_a_link_process_that_ends_the_sessions_of_all_masters_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    fence = memory_store._MemoryWriter.fence

    def fences_all(self: Any, master: str, end: str, now: float, keep: Any = ()) -> Any:
        for row in list(self._tables.minions.values()):
            self._end_sessions({row.master}, {row.id: end}, now)
        return fence(self, master, end, now, keep)

    monkeypatch.setattr(memory_store._MemoryWriter, "fence", fences_all)
    assert not _up_after_another_link_process_started()
