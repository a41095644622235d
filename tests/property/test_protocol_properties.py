"""Whatever breaks when: a function is entered at most once a job (G4), and no job stays in doubt for ever (G5).

Masters and minions are joined by a network that loses, cuts, doubles and delays frames; daemons are killed,
machines lose their power in the middle of a write, the store fails. Then the faults stop.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.master.protocol.session_manager import PULL_AGAIN_S
from saltlite.minion.protocol.connection import Phase
from saltlite.model.job import TERMINAL, TargetState
from saltlite.testing.link import Fate, Flight
from saltlite.wire.limits import CHUNK, HEARTBEAT_MIN_S
from tests.support.memory_fleet import Fleet

NAMES = ("web1", "web2", "db1")
READY_S = 75.0 + 2.5 * HEARTBEAT_MIN_S + 25.0
HEALED_S = 2 * PULL_AGAIN_S + 100.0

minion = st.sampled_from(NAMES)
seconds = st.sampled_from([0.0, 0.1, 1.0, 3.0, 20.0, 60.0])
steps = st.one_of(
    st.tuples(st.just("publish"), st.sets(minion, min_size=1), st.sampled_from([1_000, 60_000, 600_000])),
    st.tuples(st.just("publish limited"), st.sets(minion, min_size=1), st.just(2_000)),
    st.tuples(st.just("finish"), minion, st.integers(0, 3)),
    st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("kill"), minion, st.booleans()),
    st.tuples(st.just("cut the power"), minion, st.integers(0, 12)),
    st.tuples(st.just("restart the master"), st.just(0), st.just(0)),
    st.tuples(st.just("network"), st.sampled_from(["good", "lossy", "cutting", "hostile", "gone"]), st.just(0)),
    st.tuples(st.just("store"), st.booleans(), st.just(0)),
    st.tuples(st.just("wait"), seconds, st.just(0)),
)

FATES: dict[str, list[Fate]] = {
    "good": [Fate.DELIVER],
    "lossy": [Fate.DELIVER] * 4 + [Fate.DROP],
    "cutting": [Fate.DELIVER] * 9 + [Fate.CUT],
    "hostile": [Fate.DELIVER] * 6 + [Fate.DROP, Fate.DUPLICATE, Fate.DELAY, Fate.DELAY],
    "gone": [Fate.DROP],
}


class FleetRig:
    """A fleet, and what can happen to it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.weather = "good"
        self.fleet = Fleet(self._fate)
        for name in NAMES:
            self.fleet.ready(name)
        self.fleet.minions["db1"].result = b"r" * (CHUNK * 2 + 1)

    def _fate(self, _flight: Flight) -> Fate:
        return self.random.choice(FATES[self.weather])

    def step(self, what: str, one: object, other: object) -> None:
        """One thing happens, and a moment passes."""
        if what in {"publish", "publish limited", "finish", "cancel"}:
            self._work(what, one, other)
        else:
            self._fault(what, one, other)
        self.fleet.run(0.01)

    def _work(self, what: str, one: object, other: object) -> None:
        master, minions = self.fleet.master, self.fleet.minions
        match what, one, other:
            case "publish", set(), int():
                master.publish(one, deliver_ms=other)
            case "publish limited", set(), int():
                master.publish(one, run_ms=other)
            case "finish", str(), int():
                running = sorted(minions[one].processes)
                for jid in running[other : other + 1]:
                    minions[one].finish(jid)
            case "cancel", int(), _:
                for jid in list(master.jobs)[one : one + 1]:
                    master.cancel(jid)

    def _fault(self, what: str, one: object, other: object) -> None:
        master, minions = self.fleet.master, self.fleet.minions
        match what, one, other:
            case "kill", str(), bool():
                minions[one].kill(power=other)
                minions[one].boot()
            case "cut the power", str(), int():
                minions[one].cut_after = other
            case "restart the master", _, _:
                master.stop()
                master.start()
            case "network", str(), _:
                self.weather = one
            case "store", bool(), _:
                master.store_fails = one
            case "wait", float(), _:
                self.fleet.run(one)

    def heal(self) -> None:
        """The faults stop, time passes, and functions return."""
        self.weather = "good"
        self.fleet.master.store_fails = False
        for machine in self.fleet.minions.values():
            machine.cut_after = None
        passed = 0.0
        while passed < HEALED_S and (passed < READY_S or self._busy()):
            self.fleet.run(25.0)
            passed += 25.0
            for machine in self.fleet.minions.values():
                for jid in sorted(machine.processes):
                    machine.finish(jid)
        self.fleet.run(1.0)

    def _busy(self) -> bool:
        spools = [machine.spool.jids() for machine in self.fleet.minions.values()]
        return bool(self.fleet.master.unfinished() or any(spools))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), story=st.lists(steps, min_size=3, max_size=25))
def test_a_function_is_entered_at_most_once_and_every_job_ends(
    seed: int, story: list[tuple[str, object, object]]
) -> None:
    rig = FleetRig(seed)
    master = rig.fleet.master
    for step in story:
        rig.step(*step)
        assert all(count == 1 for count in rig.fleet.entered.values())
    rig.heal()
    assert master.unfinished() == []
    for jid, job in master.jobs.items():
        for name, state in job.states.items():
            entered = rig.fleet.entered[jid, name]
            assert entered <= 1
            assert state in TERMINAL
            # What was refused never ran; what returned did, and its value is there.
            assert not (state in {TargetState.EXPIRED, TargetState.REFUSED} and entered)
            if state is TargetState.RETURNED:
                assert entered == 1
                assert job.returns[name] == rig.fleet.minions[name].result
        assert set(job.states) >= {name for number, name in rig.fleet.entered if number == jid}
    for machine in rig.fleet.minions.values():
        assert machine.phase() is Phase.READY
        assert machine.spool.jids() == []
