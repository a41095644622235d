"""Two machines with one key at two masters that share a database: one stays, and no job runs twice (G4)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from saltlite.master.handlers import keys
from saltlite.master.processes import contests
from saltlite.master.protocol.sessions import PROBE_S
from saltlite.model.events import CLONE_SUSPECT, Event
from saltlite.testing import memory_store
from tests.simulation.masters import SimMaster
from tests.simulation.minions import SimMinion
from tests.simulation.site import Site, site
from tests.simulation.story import RUN_MAX_S
from tests.support.guarantees import Violation

CONTEST_LIMIT_S = 4.0
"""The second of a probe, what the owner has to answer at most, and the time of the messages."""


def _copied(at: Site, name: str, elsewhere: SimMaster, *, restarts: int = 0) -> SimMinion:
    """A machine with a copy of the disk of that minion comes to that master, after so many starts."""
    copy = at.fleet.copy_minion(name, (elsewhere.address,))
    copy.let_functions_return(RUN_MAX_S)
    for _ in range(restarts):
        at.until(lambda: copy.link is not None and copy.link.alive)
        assert copy.link is not None
        copy.link.die()
    return copy


def _events(at: Site, is_wanted: Callable[[Event], bool]) -> list[Event]:
    events = memory_store.MemoryStore(at.fleet.masters[0].disk).events(0, 100_000)
    return [event for event in events if is_wanted(event)]


def _clones(at: Site) -> list[str]:
    """The minions that were reported to be two machines."""
    return [event.data["id"] for event in _events(at, lambda event: event.data.get("act") == CLONE_SUSPECT)]


def _contests(at: Site) -> int:
    """How often a master has asked another one whether a session is alive."""
    return len(_events(at, lambda event: event.tag.endswith("/contested")))


def _copy_at_another_master(seed: int) -> list[Violation]:
    """A copy of a minion comes to another master, while both masters publish jobs for it."""
    with site(2, seed=seed) as at:
        first, second = at.fleet.masters
        at.settle()
        minion = at.minions_of(first)[0]
        before = at.sessions()[minion.name]
        copy = _copied(at, minion.name, second, restarts=seed % 3)
        for _ in range(20):
            for master in at.fleet.masters:
                at.publish(master, minion.name)
            at.run(2.0)
        at.until(lambda: all(client.over for client in at.fleet.clients))
        at.until(lambda: bool(_clones(at)), within=300.0)
        at.run(300.0)
        assert at.sessions()[minion.name] == before, "who was there stays"
        assert not copy.is_ready()
        assert _clones(at) == [minion.name]
        return at.close()


@pytest.mark.parametrize("seed", range(3))
def test_of_two_machines_with_one_key_at_two_masters_one_stays_and_no_job_runs_twice(seed: int) -> None:
    assert _copy_at_another_master(seed) == []


def test_a_master_that_takes_a_newcomer_without_asking_the_owner_of_the_session_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "ask_owners", lambda _master, _asks: set())
    monkeypatch.setattr(memory_store, "is_outdated", lambda _row, _known: False)
    found = set()
    for seed in range(3):
        with suppress(AssertionError):
            found |= {one.guarantee for one in _copy_at_another_master(seed)}
            continue
        found.add("one stays")
    assert "one stays" in found


def test_two_copies_that_start_at_once_at_two_masters_run_no_job_twice() -> None:
    for seed in range(3):
        with site(2, seed=seed) as at:
            first, second = at.fleet.masters
            at.settle()
            minion = at.minions_of(first)[0]
            minion.power_off(1.0)
            at.until(lambda: minion.name not in at.sessions())  # noqa: B023 - called at once
            at.run(0.9)
            copy = _copied(at, minion.name, second)
            for _ in range(10):
                for master in at.fleet.masters:
                    at.publish(master, minion.name)
                at.run(1.0)
            at.until(lambda: all(client.over for client in at.fleet.clients))
            at.until(lambda: bool(_clones(at)), within=300.0)
            at.until(lambda: minion.is_ready() != copy.is_ready())  # noqa: B023 - called at once
            assert at.close() == []


def _comes_elsewhere(at: Site, *, owner_is_there: bool) -> float:
    """A machine is gone without a word, perhaps with its master; how long another one with its disk has to wait."""
    first, second = at.fleet.masters
    at.settle()
    minion = at.minions_of(first)[0]
    disk = minion.disk.copied(lambda _operation: None)
    if owner_is_there:
        at.fleet.network.cuts.update({(minion.ip, first.address, True), (minion.ip, first.address, False)})
    else:
        first.power_off(1e9)
        stop_minion(minion)
    minion.disk = disk
    copy = at.fleet.copy_minion(minion.name, (second.address,))
    return at.until(copy.is_ready, within=30.0)


def stop_minion(minion: SimMinion) -> None:
    """The machine stands still, and its connections stay."""
    for process in minion.living():
        process.stopped_until = 1e12


def test_a_machine_whose_session_elsewhere_is_silent_is_accepted_after_the_probe() -> None:
    with site(2) as at:
        assert PROBE_S <= _comes_elsewhere(at, owner_is_there=True) < CONTEST_LIMIT_S


def test_a_machine_whose_session_is_at_a_master_that_is_gone_does_not_wait_for_that() -> None:
    with site(2) as at:
        assert contests.ANSWER_S <= _comes_elsewhere(at, owner_is_there=False) < CONTEST_LIMIT_S


def test_a_newcomer_comes_again_while_the_owner_renews_its_lease_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contests.Contests, "_answer", lambda self: self._answers.clear())
    with site(2) as at:
        first, second = at.fleet.masters
        at.settle()
        minion = at.minions_of(first)[0]
        before = at.sessions()[minion.name]
        copy = _copied(at, minion.name, second)
        for _ in range(20):
            at.run(1.0)
            assert not copy.is_ready()
        assert at.sessions()[minion.name] == before


def test_a_minion_that_starts_again_or_moves_waits_for_no_other_master() -> None:
    with site(3) as at:
        at.settle()
        drained = at.fleet.masters[0]
        at.drain(drained)
        at.until(lambda: not at.minions_of(drained))
        at.drain(drained, ends=True)
        at.until(at.are_home, within=300.0)
        minion = at.minions_of(drained)[0]
        assert minion.daemon is not None
        minion.daemon.die()
        at.until(lambda: not minion.is_ready())
        at.until(minion.is_ready)
        assert _contests(at) == 0
        assert at.close() == []
