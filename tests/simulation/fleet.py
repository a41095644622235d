"""A fleet in the simulation: masters, minions, clients, the network between them, and what is noted of them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from saltlite.errors import UnreachableError
from saltlite.master.store.ports import TokenRecord
from saltlite.minion.jobs import job_process as jobprocess
from saltlite.minion.jobs import process_pool
from saltlite.model.ids import MinionId
from saltlite.model.keys import Fingerprint, KeyRecord, KeyState
from saltlite.platform import process, stream
from saltlite.testing.link import Fate, Flight, MemoryClientLink, MemoryNetwork
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.framing import pack, unpack
from saltlite.wire.noise import public_of
from saltlite.wire.signatures import token_public
from tests.simulation import minions as stand_ins
from tests.simulation.clients import SimClient
from tests.simulation.masters import SimAcceptor, SimMaster
from tests.simulation.minions import SimMinion
from tests.simulation.universe import Process, SimChannel, SimReactor, Universe
from tests.support.guarantees import GuaranteeChecker, History, Violation
from tests.support.keys import DAY, NOW, TOKEN, key_of, seed

WEATHER: dict[str, list[Fate]] = {
    "good": [Fate.DELIVER],
    "lossy": [Fate.DELIVER] * 30 + [Fate.DROP],
    "cutting": [Fate.DELIVER] * 40 + [Fate.CUT],
    "hostile": [Fate.DELIVER] * 40 + [Fate.DROP, Fate.DUPLICATE, Fate.DELAY, Fate.DELAY],
}


class SimNetwork(MemoryNetwork):
    """The network with time in it, and with routes that can be cut one way."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(self._decide)
        self.weather = "good"
        self.cuts: set[tuple[str, str, bool]] = set()
        """(IP of the minion, address of the master, to the master?): what takes that way is lost."""
        self._universe = universe
        self._latency_s = universe.random.choice((0.0002, 0.002, 0.03))
        self._ways: dict[int, tuple[str, str]] = {}

    def later(self, move: Any) -> None:
        """In the next turn: the same time later for all, so that they stay in order."""
        self._universe.after(self._latency_s, move)

    def dial(self, client: MemoryClientLink, address: str) -> Any:
        """A new connection; its way is remembered."""
        pipe = super().dial(client, address)
        if pipe is not None:
            self._ways[pipe.number] = client.ip, address
        return pipe

    def _rise(self, pipe: Any) -> None:
        ip, address = self._ways[pipe.number]
        if self.cuts & {(ip, address, True), (ip, address, False)}:
            self._universe.after(1.0, lambda: self._rise(pipe))
        else:
            super()._rise(pipe)

    def _decide(self, flight: Flight) -> Fate:
        if self.cuts and (*self._ways[flight.connection], flight.to_server) in self.cuts:
            return Fate.DROP
        if self.weather == "good":
            return Fate.DELIVER
        return self._universe.random.choice(WEATHER[self.weather])


class Fleet:
    """Everything of one run. Use it inside `stage(universe)`."""

    def __init__(
        self,
        universe: Universe,
        *,
        masters: int,
        minions: int,
        mworkers: int,
        shared: bool = False,
        lists_masters: bool = True,
    ) -> None:
        """`shared`: all masters use one database. `lists_masters`: minions get the directory of them then."""
        self.universe = universe
        self.history = History(lambda: universe.now)
        self.tracing = False
        self.lists_masters = lists_masters
        self.trace: list[tuple[float, str]] = []
        self.network = SimNetwork(universe)
        self._most_resources = universe.random.choice((0, 2, 5, 12))
        self.clients: list[SimClient] = []
        self.copies: list[SimMinion] = []
        """Machines that are copies of other ones."""
        self._checker = GuaranteeChecker()
        self._read = 0
        self._owners: dict[Fingerprint, str] = {}
        self.shared = shared
        self.masters: list[SimMaster] = []
        for number in range(masters):
            first = self.masters[0] if shared and self.masters else None
            self.masters.append(SimMaster(self, f"m{number + 1}", mworkers=mworkers, shared=first, shares=shared))
        names = [f"web{number + 1}" for number in range(minions)]
        for master in self.masters[:1] if shared else self.masters:
            self._let_in(master, names)
        addresses = [master.address for master in self.masters]
        self.minions: dict[str, SimMinion] = {}
        for number, name in enumerate(names):
            turn = universe.random.randrange(masters)
            order = (*addresses[turn:], *addresses[:turn])
            self._owners[key_of(name)] = name
            self.minions[name] = SimMinion(self, name, order, number)

    def _let_in(self, master: SimMaster, names: list[str]) -> None:
        """Their keys are accepted there, and one that is deleted comes back by its token."""
        with MemoryStore(master.disk).write() as store:
            store.put_token(TokenRecord(TOKEN.token_id, token_public(TOKEN), "*", 10**6, NOW, NOW + 400 * DAY, "root"))
            for name in names:
                store.put_key(
                    KeyRecord(
                        id=MinionId(name),
                        fingerprint=key_of(name),
                        public=public_of(seed(f"key of {name}")),
                        state=KeyState.ACCEPTED,
                        address="",
                        first_seen=NOW,
                        changed_at=NOW,
                        epoch=1,
                    )
                )

    def copy_minion(self, name: str, masters: tuple[str, ...]) -> SimMinion:
        """Another machine starts from a copy of the disk of that minion, with this list of masters."""
        copy = SimMinion(self, name, masters, len(self.minions) + len(self.copies), copy_of=self.minions[name])
        self.copies.append(copy)
        return copy

    def resources_each(self) -> int:
        """How many resources the next minion manages."""
        return self.universe.random.randint(0, self._most_resources)

    def machines(self) -> list[SimMaster | SimMinion]:
        """All of them, in an order that repeats."""
        return [*self.masters, *self.minions.values()]

    def owner_of(self, key: Fingerprint) -> str:
        """Whose key that is."""
        return self._owners.get(key, f"a stranger with {key}")

    def say(self, who: str, what: str) -> None:
        """One line of the trace, for people."""
        if self.tracing:
            self.trace.append((self.universe.now, f"{self.universe.now:12.4f} {who}: {what}"))

    def ask(
        self, master: SimMaster, verb: str, *, then: Callable[[Any], None] = lambda _answer: None, **fields: Any
    ) -> None:
        """An operator's command, and what to do when it was answered; lost when the master is not there."""
        self.say("operator", f"{verb} {fields}")
        process = Process(self.universe, "operator", lambda _process, _power: None)

        def send() -> None:
            try:
                end = self.universe.connect(f"{master.name}/clients")
            except UnreachableError:
                return
            reactor: Any = SimReactor(process)
            SimChannel(reactor, end, lambda batch: then(unpack(batch[0])), lambda _reason: None).send(
                pack({"v": 1, "verb": verb, **fields})
            )

        process.run(send)

    def run(self, seconds: float) -> list[Violation]:
        """Let time pass; what was broken in it."""
        self.universe.run(seconds)
        events, self._read = self.history.events[self._read :], len(self.history.events)
        return [violation for event in events for violation in self._checker.feed(event)]

    def close_books(self) -> list[Violation]:
        """The run is over: the rest of the violations."""
        for master in self.masters[:1] if self.shared else self.masters:
            master.note_final()
        return self.run(0.0) + self._checker.close()

    def ready(self) -> list[str]:
        """The minions that have an accepted session now."""
        return [minion.name for minion in self.minions.values() if minion.is_ready()]


@contextmanager
def stage(universe: Universe) -> Iterator[None]:
    """Put what stands in for the kernel into the modules of the daemons, and keep them quiet."""
    processes = stand_ins.SimProcesses(lambda: universe.current)
    replaced: list[tuple[Any, Any]] = [
        (stream.connect_unix, universe.connect),
        (stream.Channel, SimChannel),
        (stream.Acceptor, SimAcceptor),
        (jobprocess.fork_waiting, stand_ins.fork_waiting),
        (process_pool.start_fork_server, stand_ins.start_fork_server),
        (process.Child, stand_ins.SimChild),
        (process.start_ticks, processes.start_ticks),
        (process.ProcessTree, processes.tree),
        (jobprocess.RunningNotes, stand_ins.NoNotes),
    ]
    modules = [
        m
        for name, m in sys.modules.items()
        if name.startswith(("saltlite.master.", "saltlite.minion.", "saltlite.files."))
    ]
    quiet = logging.root.manager.disable
    with ExitStack() as stack:
        for real, stand_in in replaced:
            users = [module for module in modules if vars(module).get(real.__name__) is real]
            assert users, f"no daemon uses {real.__name__} any more: the simulation misses what took its place"
            for module in users:
                stack.enter_context(patch.object(module, real.__name__, stand_in))
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(quiet)
