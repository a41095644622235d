"""Masters on one database, with minions on each, as the tests of several masters have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from saltlite.client.follower import WaitPolicy
from saltlite.model.events import tag_presence_change
from saltlite.model.ids import MinionId
from saltlite.testing import memory_store
from saltlite.wire.directory import Directory, MasterEntry
from tests.simulation.clients import SimClient
from tests.simulation.fleet import Fleet, stage
from tests.simulation.masters import SimMaster
from tests.simulation.minions import SimMinion
from tests.simulation.story import CONNECT_S, RUN_MAX_S
from tests.simulation.universe import Universe
from tests.support.guarantees import Violation
from tests.support.keys import key_of

LOOK_S = 0.05


class Site:
    """Masters on one database, with minions on each."""

    def __init__(self, universe: Universe, masters: int, *, lists_masters: bool = True) -> None:
        minions = 3 * masters
        self.fleet = Fleet(
            universe, masters=masters, minions=minions, mworkers=2, shared=True, lists_masters=lists_masters
        )
        self.found: list[Violation] = []
        self.longest_gap = 0.0
        """The longest time without a session of any minion since `settle`."""
        self._away_since: dict[str, float] = {}
        for minion in self.fleet.minions.values():
            minion.let_functions_return(RUN_MAX_S)
        self.until(lambda: len(self.fleet.ready()) == len(self.fleet.minions))
        self._requests = 0

    @property
    def now(self) -> float:
        return self.fleet.universe.now

    def run(self, seconds: float) -> None:
        """Let time pass, and note for how long each minion had no session."""
        end = self.now + seconds
        while (rest := end - self.now) > 1e-6:
            self.found += self.fleet.run(min(rest, LOOK_S))
            here = {*self.fleet.ready()}
            self._away_since = {name: self._away_since.get(name, self.now) for name in {*self.fleet.minions} - here}
            gaps = [self.now - since + LOOK_S for since in self._away_since.values()]
            self.longest_gap = max([self.longest_gap, *gaps])

    def until(self, is_true: Callable[[], bool], within: float = 2 * CONNECT_S) -> float:
        """Let time pass until that is so; how much did."""
        began = self.now
        while not is_true():
            assert self.now - began < within, "it does not come"
            self.run(LOOK_S)
        return self.now - began

    def settle(self) -> None:
        """Let minions get the directory of masters and find their homes, and begin to count the times without a
        session."""
        self.until(lambda: all(minion.directory.masters for minion in self.fleet.minions.values()))
        self.until(self.are_home, within=300.0)
        self._away_since.clear()
        self.longest_gap = 0.0

    def are_home(self) -> bool:
        """Whether each minion is at its home, by the store."""
        known = directory_of(self.fleet.masters)
        homes = {name: known.home(MinionId(name)) for name in self.fleet.minions}
        return homes == {name: master for name, (master, _run, _number) in self.sessions().items()}

    def sessions(self) -> dict[str, tuple[str, int, int]]:
        """(master, run, handshake) of each minion that is up, by the store."""
        rows = self.fleet.masters[0].disk.tables.minions.values()
        return {row.id: (row.master, row.run, row.handshake) for row in rows if row.up}

    def drain(self, master: SimMaster, *, ends: bool = False) -> None:
        """As `saltlite master drain`."""
        with memory_store.MemoryStore(master.disk).write() as store:
            assert store.drain_master(master.name, ends=ends)

    def lost(self) -> list[str]:
        """The minions that counted as away once, by the events."""
        events = memory_store.MemoryStore(self.fleet.masters[0].disk).events(0, 100_000)
        return [name for event in events if event.tag == tag_presence_change() for name in event.data["lost"]]

    def minions_of(self, master: SimMaster) -> list[SimMinion]:
        """Those with a session there, by the store."""
        rows = master.disk.tables.minions.values()
        return [self.fleet.minions[row.id] for row in rows if row.up and row.master == master.name]

    def publish(self, master: SimMaster, target: str = "*") -> SimClient:
        """A client of that master that waits for its job."""
        self._requests += 1
        calls = [["test.ping", [], {}]]
        request = {"request_id": f"{self._requests:032x}", "tgt": target, "tgt_type": "glob", "calls": calls}
        client = SimClient(self.fleet, master, request, WaitPolicy(60.0))
        self.fleet.clients.append(client)
        return client

    def revoke(self, master: SimMaster, minion: SimMinion) -> list[float]:
        """Revoke its key; how long that took, once it is done."""
        began, took = self.now, list[float]()

        def answered(answer: Any) -> None:
            assert answer["ok"], answer
            master.revoked.add(key_of(minion.name))
            took.append(self.now - began)

        self.fleet.ask(master, "key_change", then=answered, action="revoke", fingerprints=[key_of(minion.name)])
        return took

    def close(self) -> list[Violation]:
        """Every violation of the run, once all jobs have ended."""
        self.until(lambda: not self.fleet.masters[0].open_rows())
        return self.found + self.fleet.close_books()


@contextmanager
def site(masters: int = 2, seed: int = 1) -> Iterator[Site]:
    universe = Universe(seed)
    with stage(universe):
        yield Site(universe, masters)


def directory_of(masters: Iterable[SimMaster]) -> Directory:
    """What minions know when all masters are up."""
    return Directory(tuple(MasterEntry(master.name, master.address, 100, True) for master in masters))


def stop(master: SimMaster, seconds: float) -> None:
    """The machine stands still."""
    for process in master.living():
        process.stopped_until = master.fleet.universe.now + seconds
