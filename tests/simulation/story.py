"""What happens to a fleet: jobs, and everything that can break, by a seed; then the faults stop and the books close.

`play(seed)` is one run. In its first part clients publish, follow and cancel while links, processes, disks, clocks
and keys go wrong; in its second nothing new goes wrong, each master in turn has all minions to itself for as long as
G5 allows, and then every job must have come to its end.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from saltlite.client.follower import WaitPolicy
from saltlite.model.job import TargetState, part_id, segment_id
from saltlite.wire.messages import SegmentRow, encode_segment
from tests.simulation.clients import SimClient
from tests.simulation.fleet import WEATHER, Fleet, stage
from tests.simulation.masters import SimMaster
from tests.simulation.minions import SimMinion
from tests.simulation.resources import TYPES
from tests.simulation.universe import Universe
from tests.support.guarantees import Violation
from tests.support.keys import DAY, NOW, key_of

CONNECT_S = 75.0 + 2.5 * 15.0
"""G10: how long an accepted minion may take to be READY again."""
SETTLE_S = 60.0
"""G5: what a job may take beyond its delivery and its run time, connected."""
RUN_MAX_S = 25.0
"""No function of this simulation runs longer, once it is healed."""


@dataclass(slots=True)
class Outcome:
    """One run that is over."""

    seed: int
    violations: list[Violation]
    steps: int
    fleet: Fleet
    faults: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Everything that happened, in order, for people."""
        told = [(event.at, str(event)) for event in self.fleet.history.events]
        return [line for _at, line in sorted(told + self.fleet.trace, key=lambda row: row[0])]


def play(seed: int, *, trace: bool = False, shared: bool = False) -> Outcome:
    """One run; with `shared` of two or three masters on one database. Whatever a daemon raises that it should not
    leaves this with a note that names the seed."""
    universe = Universe(seed)
    with stage(universe):
        story = Story(universe, trace=trace, shared=shared)
        try:
            violations = story.tell()
        except Exception as error:
            error.add_note(f"seed {seed}, at {universe.now:.4f}")
            raise
    return Outcome(seed, violations, universe.steps, story.fleet, story.counts)


class Story:
    """One run, act by act."""

    def __init__(self, universe: Universe, *, trace: bool, shared: bool) -> None:
        self.random = random = Random(universe.random.getrandbits(64))
        self.universe = universe
        minions = random.choices((5, 7, 10, 16, 50), (50, 25, 15, 8, 2))[0]
        self.fleet = Fleet(
            universe,
            masters=random.choice((2, 2, 3)) if shared else random.choices((1, 2, 3), (70, 20, 10))[0],
            minions=minions,
            mworkers=random.randint(1, 4),
            shared=shared,
        )
        self.fleet.tracing = trace
        self.counts: dict[str, int] = {}
        self._acts = random.randint(30, 80) if minions < 50 else 15
        self._faults = {**FAULTS, **SHARED_FAULTS} if shared else FAULTS
        self._faulty = random.sample(sorted(self._faults), random.randint(2, len(self._faults)))
        self._requests = 0
        self.doomed: set[tuple[str, str]] = set()

    def tell(self) -> list[Violation]:
        """All of it; the violations, none when all is well."""
        found = self.fleet.run(self.random.choice((0.5, 5.0, 5.0)))
        for _ in range(self._acts):
            if found:
                return found
            self._act()
            found = self.fleet.run(self.random.choice((0.0, 0.001, 0.01, 0.1, 1.0, 5.0, 20.0)))
        return found or self._heal()

    def _act(self) -> None:
        name = self.random.choices(("publish", "cancel", "cut a client", "fault"), (45, 6, 6, 43))[0]
        if name == "publish":
            self._publish()
        elif name == "cancel":
            self._cancel()
        elif name == "cut a client" and self.fleet.clients:
            self.random.choice(self.fleet.clients).cut()
        elif name == "fault":
            fault = self.random.choice(self._faulty)
            self.counts[fault] = self.counts.get(fault, 0) + 1
            self._faults[fault](self)

    def note(self, what: str, who: str) -> None:
        """A fault is done."""
        self.fleet.history.note("fault", what=what, who=who)

    # -- what people do

    def _publish(self) -> None:
        random, names = self.random, sorted(self.fleet.minions)
        kind = random.choice(("all", "some", "one", "resources", "a type"))
        count = {"some": 3, "resources": 6}.get(kind, 1)
        srns = [
            f"{of}:{one}" for minion in self.fleet.minions.values() for of, ids in minion.managed.items() for one in ids
        ]
        among = names if kind in ("some", "one") else [*names, *srns]
        chosen = random.sample(among, min(len(among), count))
        whole = {"all": ("*", "glob"), "a type": (f"T@{random.choice(TYPES)}", "compound")}
        tgt, tgt_type = whole.get(kind, (",".join(chosen), "list"))
        self._requests += 1
        request: dict[str, Any] = {
            "request_id": f"{self._requests:032x}",
            "tgt": tgt,
            "tgt_type": tgt_type,
            "calls": [["test.ping", [], {}]],
            "deliver_ms": random.choice((0, 1_000, 10_000, 60_000, 600_000)),
            "run_ms": random.choice((0, 0, 2_000)),
        }
        if random.random() < 0.2:
            request["batch"] = {
                "size": random.randint(2, 4),
                "percent": False,
                "wait_ms": random.choice((0, 500)),
                "failhard": random.random() < 0.3,
            }
        elif random.random() < 0.1:
            request["subset"] = 2
        waits = (WaitPolicy(1.0), WaitPolicy(5.0), WaitPolicy(5.0, away_quiet_s=5.0), WaitPolicy(5.0, away_s=90.0))
        client = SimClient(self.fleet, random.choice(self.fleet.masters), request, random.choice(waits))
        self.fleet.clients.append(client)

    def _cancel(self) -> None:
        clients = [client for client in self.fleet.clients if client.progress is not None]
        if clients:
            client = self.random.choice(clients)
            assert client.progress is not None
            self.fleet.ask(client.master, "job_kill", jid=client.progress.published.jid)

    # -- who it happens to

    def minion(self) -> SimMinion:
        return self.fleet.minions[self.random.choice(sorted(self.fleet.minions))]

    def master(self) -> SimMaster:
        return self.random.choice(self.fleet.masters)

    # -- the end

    def _heal(self) -> list[Violation]:
        fleet = self.fleet
        fleet.network.weather = "good"
        fleet.network.cuts.clear()
        for machine in fleet.machines():
            machine.calm()
        fleet.history.note("healed")
        for minion in fleet.minions.values():
            minion.let_functions_return(RUN_MAX_S)
        stopped_until = max((p.stopped_until for machine in fleet.machines() for p in machine.living()), default=0.0)
        found = fleet.run(max(5.0 + RUN_MAX_S, stopped_until - self.universe.now))
        for master in fleet.masters:
            found = found or self._alone(master)
        return found or fleet.close_books()

    def _alone(self, master: SimMaster) -> list[Violation]:
        """This master has all minions to itself; the others are off."""
        fleet = self.fleet
        for other in fleet.masters:
            if other is not master:
                other.power_off(1e9)
            elif not other.on:
                other.start()
        self._let_everybody_in(master)
        # A minion backs off after each master that does not answer, and all others are off.
        left = CONNECT_S * len(fleet.masters) + SETTLE_S + RUN_MAX_S
        found: list[Violation] = []
        while left > 0 and not found and not (self._all_ready() and not master.open_rows()):
            found = fleet.run(5.0)
            left -= 5.0
        found = found or fleet.run(2.0) or self._left_waiting(master)
        if not found and not self._all_ready():
            away = sorted(set(fleet.minions) - set(fleet.ready()))
            return [Violation("G10", f"{', '.join(away)} did not come back to {master.name}")]
        return found

    def _left_waiting(self, master: SimMaster) -> list[Violation]:
        """Clients whose job is over and who were not told."""
        return [
            Violation("G7", f"{client.name} still follows {client.progress.published.jid}, which is over")
            for client in self.fleet.clients
            if client.master is master and client.progress is not None and not client.over
        ]

    def _all_ready(self) -> bool:
        return len(self.fleet.ready()) == len(self.fleet.minions)

    def _let_everybody_in(self, master: SimMaster) -> None:
        """The operator deletes what was revoked, and starts the minions that had been told so again.

        A master that refuses a minion sends it away for up to a quarter of an hour, from the other masters too.
        """
        for name, where in sorted(self.doomed):
            if where == master.name or self.fleet.shared:
                self.fleet.ask(master, "key_change", action="delete", fingerprints=[key_of(name)])
        self.fleet.run(1.0)
        refused = {name for name, _where in self.doomed}
        for name, minion in self.fleet.minions.items():
            if name in refused and minion.link is not None and minion.link.alive:
                minion.link.die()


# -- what can go wrong


def _weather(story: Story) -> None:
    story.fleet.network.weather = story.random.choice(sorted(WEATHER))
    story.note(f"the network is {story.fleet.network.weather}", "all")


def _cut(story: Story) -> None:
    """A link is cut, one way or both, for a while."""
    minion, master = story.minion(), story.master()
    ways = story.random.choice(((True,), (False,), (True, False)))
    cuts = {(minion.ip, master.address, way) for way in ways}
    story.fleet.network.cuts |= cuts
    seconds = story.random.choice((1.0, 5.0, 60.0))
    story.universe.after(seconds, lambda: story.fleet.network.cuts.difference_update(cuts))
    story.note(f"cut for {seconds} s", f"{minion.name} - {master.name}")


def _kill_master_process(story: Story) -> None:
    master = story.master()
    alive = [process for process in master.processes.values() if process.alive]
    if alive:
        process = story.random.choice(alive)
        story.note("kill -9", process.name)
        process.die()


def _master_power(story: Story) -> None:
    master = story.master()
    story.note("power", master.name)
    master.power_off(story.random.choice((0.3, 3.0, 30.0)))


def _master_crash_point(story: Story) -> None:
    where = story.random.choice(("before commit", "after commit", "before returns", "after returns"))
    master = story.master()
    story.note(f"will die {where}", master.name)
    master.plan_crash(where, story.random.randrange(4), power=story.random.random() < 0.4)


def _store_fails(story: Story) -> None:
    master = story.master()
    master.store_fails = True
    story.universe.after(story.random.choice((0.5, 5.0, 30.0)), lambda: setattr(master, "store_fails", False))
    story.note("the store is full", master.name)


def _stop(story: Story) -> None:
    """SIGSTOP, and SIGCONT later."""
    processes = [process for machine in story.fleet.machines() for process in machine.living()]
    if processes:
        process = story.random.choice(processes)
        seconds = story.random.choice((0.5, 5.0, 60.0))
        process.stopped_until = max(process.stopped_until, story.universe.now + seconds)
        story.note(f"SIGSTOP for {seconds} s", process.name)


def _kill_minion_process(story: Story) -> None:
    minion = story.minion()
    alive = minion.living()
    if alive:
        process = story.random.choice(alive)
        story.note("kill -9", process.name)
        process.die()


def _minion_power(story: Story) -> None:
    # One that has something to lose, if there is any.
    minion = next((one for one in story.fleet.minions.values() if one.unsynced), story.minion())
    story.note("power", minion.name)
    minion.power_off(story.random.choice((0.5, 5.0, 60.0)))


def _minion_crash_point(story: Story) -> None:
    minion = story.minion()
    power = story.random.random() < 0.6
    minion.plan_crash(story.random.randrange(12), power=power)
    story.note("will lose its power" if power else "will be killed", minion.name)


def _disk_fails(story: Story) -> None:
    minion = story.minion()
    minion.disk_error = story.random.choice((errno.ENOSPC, errno.ENOSPC, errno.EIO))
    story.universe.after(story.random.choice((0.5, 5.0, 30.0)), lambda: setattr(minion, "disk_error", 0))
    story.note(f"its disk fails with {errno.errorcode[minion.disk_error]}", minion.name)


def _new_disk(story: Story) -> None:
    minion = story.minion()
    story.note("gets a new disk", minion.name)
    minion.new_disk()


def _clock(story: Story) -> None:
    """Somebody sets a wall clock, up to a day off."""
    machine = story.random.choice(story.fleet.machines())
    right = NOW + story.universe.now - 1_000.0
    off = story.random.choice((-DAY, -3600.0, -5.0, 0.0, 5.0, 3600.0, DAY)) + story.random.random()
    machine.clock.jump(off - machine.clock.off_by(right))
    story.note(f"its clock is {off:.6f} s off", machine.name)


def _key(story: Story) -> None:
    """An operator revokes or deletes a key; one that was deleted is let in again by its token."""
    minion, master = story.minion(), story.master()
    action = story.random.choice(("delete", "delete", "revoke"))
    story.note(f"key {action}", f"{minion.name} on {master.name}")
    if action == "revoke":
        story.doomed.add((minion.name, master.name))

    def answered(answer: Any) -> None:
        if action == "revoke" and answer["ok"]:
            master.revoked.add(key_of(minion.name))

    story.fleet.ask(master, "key_change", then=answered, action=action, fingerprints=[key_of(minion.name)])


def _cut_off(story: Story) -> None:
    """A master, or all of them, cannot reach the database."""
    masters = story.random.choice(([story.master()], story.fleet.masters))
    seconds = story.random.choice((0.5, 3.0, 10.0, 60.0))
    for master in masters:
        master.is_cut_off = True
        story.universe.after(seconds, partial(setattr, master, "is_cut_off", False))
    story.note(f"cut off from the database for {seconds} s", ", ".join(master.name for master in masters))


def _answers_lost(story: Story) -> None:
    master = story.master()
    master.lose_answers(story.random.choice((1, 2, 5)))
    story.note("loses answers of the database", master.name)


def _stop_master(story: Story) -> None:
    """A machine is suspended as a whole, as when it is moved to another host."""
    master = story.master()
    seconds = story.random.choice((1.0, 3.0, 8.0, 60.0))
    for process in master.living():
        process.stopped_until = max(process.stopped_until, story.universe.now + seconds)
    story.note(f"stands still for {seconds} s", master.name)


def _lie(story: Story) -> None:
    """A minion reports a return for a job that was not given to it, or once more for one that it returned."""
    minion = story.minion()
    tables = story.master().disk.tables
    foreign = [jid for jid, rows in tables.targets.items() if minion.name not in rows]
    again = [jid for jid, rows in tables.returns.items() if minion.name in rows]
    # Where it has a part itself the lie could only have its own segment taken for handed over.
    with_resources = [jid for jid, job in tables.jobs.items() if job.resources and minion.name not in job.resources]
    kind, jids = story.random.choice((("foreign", foreign), ("again", again), ("resources", with_resources)))
    if not jids:
        return
    story.note("lies", minion.name)
    jid = story.random.choice(jids)
    if kind != "resources":
        minion.lie(jid, b"\xa3lie")
        return
    others = [srn for srns in tables.jobs[jid].resources.values() for srn in srns]
    row = SegmentRow(story.random.choice(others), TargetState.RETURNED, 0, b"\xa3lie", 0, 0)
    minion.lie(segment_id(part_id(jid, story.random.randint(1, 3)), 0), encode_segment([row]))


FAULTS: dict[str, Callable[[Story], None]] = {
    "weather": _weather,
    "cut": _cut,
    "kill a process of a master": _kill_master_process,
    "power of a master": _master_power,
    "crash point of a master": _master_crash_point,
    "store": _store_fails,
    "stop": _stop,
    "kill a process of a minion": _kill_minion_process,
    "power of a minion": _minion_power,
    "crash point of a minion": _minion_crash_point,
    "disk": _disk_fails,
    "new disk": _new_disk,
    "clock": _clock,
    "key": _key,
    "lie": _lie,
}
SHARED_FAULTS: dict[str, Callable[[Story], None]] = {
    "cut off": _cut_off,
    "answers lost": _answers_lost,
    "stop a master": _stop_master,
}
"""What can also go wrong where masters share a database."""
