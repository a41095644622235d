"""Three masters on one PostgreSQL with 10,000 minions, of which one is killed: how long until all are back, and whether
a job that was published just before ends on every minion.

`python -m tests.bench.bench_masters [MINIONS]` prints one JSON document; not run by pytest. The minions are CROWDS
processes; each minion has the real connection machine, network process and link of its own, and the benchmark in place
of its job server, which answers each job at once. The masters are real daemons, the database is one of this machine's
packages with fsync. Times count from the SIGKILL. Then the master starts again, and gets its minions back.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from saltlite.master.processes import identity
from saltlite.master.processes.store_opening import SEALED_KEYS
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.minion.processes.network import NetworkProcess
from saltlite.minion.protocol.connection import ConnectionMachine, MinionIdentity, Phase
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.model.job import TargetState
from saltlite.model.keys import KeyRecord, KeyState, fingerprint, parse_fingerprint, unspell_fingerprint
from saltlite.platform.daemon import SystemClock
from saltlite.platform.process import raise_open_files
from saltlite.platform.reactor import Reactor
from saltlite.platform.zmq_link import DealerLink, context
from saltlite.wire.directory import Directory, MasterEntry, from_rows
from saltlite.wire.framing import pack, unpack
from saltlite.wire.limits import CHUNK
from saltlite.wire.noise import public_of
from tests.bench.measure import Others, cpu_s, family, machine, rounded, title
from tests.bench.swarm import FUNCTIONS, TRUE, minion_name, private_key
from tests.support.fleet import Fleet
from tests.support.postgres import Server, running_server

MINIONS = 10_000
CROWDS = 5
"""One process cannot have the descriptors of all."""
MASTERS = ("one", "two", "three")
KILLED = "three"
STARTS_PER_S = 60
"""Minions that a crowd starts in a second."""
TELL_S = 0.25
GIVE_UP_S = 900.0
BACK_MAX_S = 75.0
SHARE_OFF_MAX = 0.1
SHARES_MAX_S = 300.0


class BenchMinion:
    """A minion without a job server: a network process, and what the job server would answer."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self._session = 0
        self._away_since: float | None = None
        self.longest_gap_s = 0.0
        """The longest time without a session, after the first one."""
        me = MinionIdentity(
            id=minion_name(number),
            private=private_key(number),
            boot=f"{number:032x}",
            incarnation=f"{number:032x}",
            version="0",
            run=1,
            functions=FUNCTIONS["digest"],
        )
        addresses = tuple(one.address for one in crowd.known.masters)
        connection = ConnectionMachine(me, addresses, crowd.fleet, crowd.clock, crowd.known)
        self.network = NetworkProcess(
            crowd.reactor,
            connection,
            lambda owner: DealerLink(crowd.reactor, owner.on_up, owner.on_frame, owner.on_down),
            FUNCTIONS,
            key=fingerprint(public_of(me.private)),
        )

    def start(self) -> None:
        """Connect."""
        self.network.start(cast("Any", self))

    def master(self) -> str:
        """The address of the master that it has a session with; "" without one."""
        connection = self.network._connection
        return connection.master if connection.phase is Phase.READY else ""

    def send(self, data: bytes) -> None:
        """In place of the channel to the job server."""
        message = unpack(data)
        if message["t"] == "phase" and self._session:
            self._note_gap(is_ready=message["phase"] == Phase.READY)
        elif message["t"] == "ready":
            self._session = message["session"]
        elif message["t"] == "job":
            entry = SpoolEntry(TargetState.RETURNED, 0, TRUE, int(time.time() * 1000), 0)
            result = ipc.result(message["jid"], entry, inline_max=CHUNK)
            self.network.on_batch([pack({**result, "session": self._session})])

    def _note_gap(self, *, is_ready: bool) -> None:
        now = time.monotonic()
        if self._away_since is None and not is_ready:
            self._away_since = now
        elif self._away_since is not None and is_ready:
            self.longest_gap_s = max(self.longest_gap_s, now - self._away_since)
            self._away_since = None


LONGEST_GAP_S = "longest_gap_s"


class Crowd:
    """Minions in one process. It prints how many have a session with each master, and the longest time that one of
    them was without any, again and again."""

    def __init__(self, fleet: bytes, known: Directory, numbers: range) -> None:
        self.reactor = Reactor()
        self.clock = SystemClock()
        self.fleet = fleet
        self.known = known
        self._minions = [BenchMinion(self, number) for number in numbers]
        self._waiting = list(self._minions)

    def run(self) -> None:
        """Stay until SIGTERM."""
        self.reactor.on_signal(signal.SIGTERM, self.reactor.stop)
        self._start_some()
        self._tell()
        self.reactor.run()
        os._exit(0)

    def _start_some(self) -> None:
        if self._waiting:
            self._waiting.pop().start()
            self.reactor.call_later(1 / STARTS_PER_S, self._start_some)

    def _tell(self) -> None:
        gap_s = max(minion.longest_gap_s for minion in self._minions)
        counts = Counter(minion.master() for minion in self._minions)
        print(json.dumps({**counts, LONGEST_GAP_S: gap_s}), flush=True)
        self.reactor.call_later(TELL_S, self._tell)


ROLES = {"master link": "link", "MWorker": "MWorkers", "membership": "membership"}
"""Processes by their titles."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of CPU by role, transactions of the database, and handshakes by what became of them."""

    seconds: Mapping[str, float]
    transactions: int
    handshakes: Mapping[str, int]

    def each(self, before: Spent, reconnects: int) -> dict[str, float]:
        """Milliseconds of CPU by role, and transactions, for each reconnect since then."""
        spent = {role: (self.seconds[role] - before.seconds[role]) * 1000 / reconnects for role in sorted(self.seconds)}
        of_it = {f"{role}_ms": rounded(value) for role, value in spent.items()}
        transactions = rounded((self.transactions - before.transactions) / reconnects)
        of_masters = sum(spent.values()) - spent["minions"]
        handshakes = {name: count - before.handshakes[name] for name, count in self.handshakes.items()}
        return {**of_it, "all_of_masters_ms": rounded(of_masters), "transactions": transactions, **handshakes}


class Site:
    """The masters and the crowds."""

    def __init__(
        self, fleet: Fleet, server: Server, minions: int, databases: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`databases` are the DSNs of masters that reach the server in another way."""
        self.fleet = fleet
        self.server = server
        self.minions = minions
        self.known = Directory(tuple(MasterEntry(name, fleet.address(name), 100, True) for name in MASTERS))
        self._said: dict[int, Counter[str]] = {}
        self._gaps_s: dict[int, float] = {}
        self._unread: dict[int, bytes] = {}
        self._crowds: list[subprocess.Popen[bytes]] = []
        self._start_masters(databases)

    def _start_masters(self, databases: Mapping[str, str]) -> None:
        pki = "etc/saltlite/pki/master"
        for name in MASTERS:
            folder = self.fleet.root(name) / pki
            if name != MASTERS[0]:
                folder.mkdir(mode=0o700, parents=True)
                for file in ("fleet.key", "shared.key"):
                    shutil.copy(self.fleet.root(MASTERS[0]) / pki / file, folder)
            self.fleet.start_master(
                name,
                master_name=name,
                master_address=self.fleet.address(name),
                database=databases.get(name, self.server.dsn()),
                several_masters=True,
                handshakes_per_address=10_000,
            )
            if name == MASTERS[0]:
                _accept(self.server.dsn(), str(folder), self.minions)
                # It paces heartbeats by the number of keys that it finds when it starts.
                self.fleet.daemons[name].stop()
                self.fleet.restart_master(name)

    def start_crowds(self) -> None:
        """Start all minions."""
        with self.fleet.client(MASTERS[0]) as client:
            name = client.call("key_finger")["fleet"]
        each = -(-self.minions // CROWDS)
        for first in range(0, self.minions, each):
            numbers = f"{first}:{min(first + each, self.minions)}"
            words = [sys.executable, "-m", "tests.bench.bench_masters", name, json.dumps(self.known.rows()), numbers]
            crowd = subprocess.Popen(words, stdout=subprocess.PIPE)
            assert crowd.stdout is not None
            os.set_blocking(crowd.stdout.fileno(), False)
            self._crowds.append(crowd)

    def counts(self) -> Counter[str]:
        """How many minions have a session with each master, by its name."""
        names = {one.address: one.name for one in self.known.masters}
        for number, crowd in enumerate(self._crowds):
            if crowd.poll() is not None or crowd.stdout is None:
                raise RuntimeError("a crowd has ended")
            *lines, self._unread[number] = (self._unread.get(number, b"") + (crowd.stdout.read() or b"")).split(b"\n")
            if lines:
                said = json.loads(lines[-1])
                self._gaps_s[number] = said[LONGEST_GAP_S]
                self._said[number] = Counter({names[address]: said[address] for address in said if address in names})
        return sum(self._said.values(), Counter())

    def longest_gap_s(self) -> float:
        """The longest time that a minion was without a session, after its first one."""
        self.counts()
        return max(self._gaps_s.values())

    def until(self, is_so: Callable[[], bool], what: str, within_s: float = GIVE_UP_S) -> None:
        """Look again and again."""
        deadline = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not within {within_s:g} s; sessions {dict(self.counts())}")
            # A crowd stands still while nobody reads what it says.
            self.counts()
            select.select([], [], [], 0.05)

    def all_back(self) -> bool:
        """Whether all minions have a session, as they know it."""
        return self.counts().total() == self.minions

    def stored(self) -> bool:
        """Whether all are up, by the database."""
        return self.server.sql("SELECT count(*) FROM minions WHERE up = 1") == str(self.minions)

    def publish(self, master: str) -> str:
        """A job for all minions; its jid."""
        said = self.fleet.cli("--async", "--out", "json", "*", "test.ping", master=master)
        return str(said.json()["jid"])

    def returned(self, jid: str) -> int:
        """How many minions have returned that job."""
        count = f"SELECT count(*) FROM returns WHERE jid = '{jid}' AND state = 'returned'"  # noqa: S608 - a jid
        return int(self.server.sql(count))

    def shares(self) -> dict[str, float]:
        """The part of its share that each master has."""
        homes = Counter(self.known.home(MinionId(minion_name(number))) for number in range(self.minions))
        counts = self.counts()
        return {name: rounded(counts[name] / homes[name]) for name in MASTERS}

    def spent(self) -> Spent:
        """What the masters that are left and the database have spent so far."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for name in MASTERS:
            if name != KILLED:
                for pid in family(self.fleet.daemons[name].pid):
                    with contextlib.suppress(FileNotFoundError):
                        seconds[ROLES.get(title(pid).rstrip("0123456789-"), "other")] += cpu_s([pid])
        seconds["database"] = cpu_s(family(self.server.pid))
        seconds["minions"] = cpu_s([crowd.pid for crowd in self._crowds])
        handshakes: Counter[str] = Counter()
        for name in MASTERS:
            if name != KILLED:
                with self.fleet.client(name) as client:
                    link = client.call("status", brief=True)["link"]
                handshakes.update({"begun": link["handshakes_begun"], "finished": link["handshakes"]})
                handshakes.update({"postponed": link["handshakes_postponed"]})
        return Spent(seconds, int(self.server.sql("SELECT sum(xact_commit) FROM pg_stat_database")), handshakes)

    def close(self) -> None:
        """End the minions."""
        for crowd in self._crowds:
            crowd.terminate()
        for crowd in self._crowds:
            crowd.wait()
            if crowd.stdout is not None:
                crowd.stdout.close()


def _accept(dsn: str, pki: str, minions: int) -> None:
    from saltlite.master.store.postgres import PostgresStore

    shared = identity.shared_key(pki)
    assert shared is not None
    store = PostgresStore(dsn, master=1, name="bench", several=True, seal_key=identity.derived_key(shared, SEALED_KEYS))
    now = time.time()
    with store.write() as writer:
        for number in range(minions):
            public = public_of(private_key(number))
            record = KeyRecord(
                parse_minion_id(minion_name(number)),
                fingerprint(public),
                public,
                KeyState.ACCEPTED,
                "127.0.0.1",
                now,
                now,
                writer.next_epoch(),
                "bench",
            )
            writer.put_key(record)
    store.close()


def measure(site: Site) -> dict[str, Any]:
    """Kill one master under a job, start it again, and what comes of it."""
    began = time.monotonic()
    site.start_crowds()
    site.until(lambda: site.all_back() and site.stored(), "all minions are there")
    found: dict[str, Any] = {"first_connected_s": rounded(time.monotonic() - began), "shares": site.shares()}
    jid = site.publish(MASTERS[0])
    site.until(lambda: site.returned(jid) == site.minions, "all have answered")
    lost = site.counts()[KILLED]
    jid = site.publish(MASTERS[0])
    killed_at, spent = time.monotonic(), site.spent()
    site.fleet.daemons[KILLED].kill_whole()
    before = site.returned(jid)
    site.until(lambda: site.counts().total() < site.minions, "the loss is noticed")
    site.until(lambda: site.all_back() and site.stored(), "all minions are back")
    found["back_s"] = rounded(time.monotonic() - killed_at)
    found["each_reconnect"] = site.spent().each(spent, lost)
    found["shares_without_it"] = dict(site.counts())
    site.until(lambda: site.returned(jid) == site.minions, "all have answered")
    found["job_of_the_kill"] = {"returned_before": before, "all_returned_s": rounded(time.monotonic() - killed_at)}
    published_at = time.monotonic()
    jid = site.publish("two")
    site.until(lambda: site.returned(jid) == site.minions, "all have answered")
    found["job_after_it_s"] = rounded(time.monotonic() - published_at)
    site.fleet.restart_master(KILLED)
    again_at = time.monotonic()

    def shared_out() -> bool:
        return all(abs(share - 1.0) <= SHARE_OFF_MAX for share in site.shares().values())

    site.until(shared_out, "each master has its share")
    found["shared_out_s"] = rounded(time.monotonic() - again_at)
    found["shares_again"] = site.shares()
    found["met"] = found["back_s"] <= BACK_MAX_S and found["shared_out_s"] <= SHARES_MAX_S
    return found


@contextlib.contextmanager
def running_site(minions: int) -> Iterator[Site]:
    """A site in a folder of its own, and a PostgreSQL of its own, which are removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="saltlite-bench-"))
    with running_server(max_connections="100") as server:
        fleet = Fleet(folder)
        try:
            site = Site(fleet, server, minions)
            try:
                yield site
            finally:
                site.close()
        finally:
            fleet.close()
            shutil.rmtree(folder, ignore_errors=True)


def main(minions: int) -> int:
    """Measure; the exit code is 1 when a limit was not met."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    document: dict[str, Any] = {
        "machine": machine(),
        "minions": minions,
        "limits": {"back_s": BACK_MAX_S, "shared_out_s": SHARES_MAX_S},
    }
    others = Others()
    with running_site(minions) as site:
        document.update(measure(site))
    document["others_percent"] = others.share_percent()
    print(json.dumps(document, indent=2))
    return 0 if document["met"] else 1


def _be_crowd(fleet: str, masters: str, numbers: str) -> None:
    logging.disable(logging.CRITICAL)
    first, end = map(int, numbers.split(":"))
    raise_open_files(7 * (end - first) + 500)
    context().set(_MAX_SOCKETS, 4 * (end - first) + 100)
    Crowd(unspell_fingerprint(parse_fingerprint(fleet)), from_rows(json.loads(masters)), range(first, end)).run()


_MAX_SOCKETS = 2
"""zmq.MAX_SOCKETS"""

if __name__ == "__main__":
    if len(sys.argv) == 4:
        _be_crowd(*sys.argv[1:])
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MINIONS))
