"""A master restarts under 200 minions: how long until all are back, and after how many handshakes.

`python -m tests.bench.bench_reconnect [RUNS]` prints one JSON document. Not run by pytest. The minions are one
process with the real connection machine and the real link for each; the master is the real daemon, stopped by
SIGTERM or SIGKILL and started again at once. Times count from the signal, so they include the master's own start.
All minions come from one address here, so the limit of handshakes for an address is raised. A minion is back when it
has a session and its pillar, which is made of a template for each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from saltlite.master.store.sqlite import SqliteStore
from saltlite.minion.protocol.connection import (
    Changed,
    Close,
    ConnectionMachine,
    Deliver,
    MinionIdentity,
    OpenLink,
    Phase,
    SendFrame,
)
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import KeyRecord, KeyState, fingerprint, parse_fingerprint, unspell_fingerprint
from saltlite.platform.daemon import SystemClock
from saltlite.platform.process import raise_open_files
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.zmq_link import DealerLink
from saltlite.wire.noise import public_of
from tests.bench.fleet import BenchFleet
from tests.bench.measure import Figure, Others, family, machine, rounded
from tests.bench.swarm import minion_name, private_key

MINIONS = 200
RUNS = 3
PILLAR = {
    "top.sls": "base:\n  '*': [all]\n  'm*1': [some]\n",
    "all.sls": "id: {{ grains.id }}\nports:\n{% for n in range(50) %}\n  p{{ n }}: {{ n }}\n{% endfor %}\n",
    "some.sls": "role: web\n",
}
READY_S = 60.0
"""Give up when not all of them are back by then."""

FIGURES = {
    "all_ready": Figure("s", 5.0, "up to minutes: auth_timeout and random back-off"),
    "handshakes_a_minion": Figure("handshakes", 1.2, "-"),
}


FETCH = {"t": "doc_get", "n": 1, "kind": "pillar", "sha256": b"", "offset": 0, "nonce": b""}


class Member:
    """One minion's connection: the machine, the link, its timer."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self._crowd = crowd
        self._timer: Timer | None = None
        me = MinionIdentity(
            id=minion_name(number),
            private=private_key(number),
            boot=f"{number:032x}",
            incarnation=f"{number:032x}",
            version="0",
            run=1,
            functions="",
        )
        self._connection = ConnectionMachine(me, (crowd.address,), crowd.fleet, crowd.clock)
        self._link = DealerLink(crowd.reactor, self._up, self._frame, self._down)

    def start(self) -> None:
        """Connect."""
        self._connection.start()
        self._carry_out()

    def _up(self) -> None:
        self._connection.link_up()
        self._carry_out()

    def _frame(self, frame: bytes) -> None:
        self._connection.frame(frame)
        self._carry_out()

    def _down(self, reason: str) -> None:
        self._connection.link_down(reason)
        self._carry_out()

    def _tick(self) -> None:
        self._timer = None
        self._connection.tick()
        self._carry_out()

    def _carry_out(self) -> None:
        while effects := self._connection.take():
            for effect in effects:
                match effect:
                    case SendFrame(frame):
                        self._link.send(frame)
                    case OpenLink(address):
                        self._link.open(address)
                    case Close():
                        self._link.close()
                    case Changed(phase, _):
                        self._crowd.changed(self, phase)
                        if phase is Phase.READY:
                            self._connection.send({"t": "digest", "grains": "0" * 32, "resources": ""})
                            self._connection.send(FETCH)
                    case Deliver({"t": "response"}):
                        self._crowd.has_pillar(self)
                    case _:
                        pass
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._crowd.reactor.call_at(self._connection.deadline(), self._tick)


class Crowd:
    """All of them in this process. Each time all are back it prints when, and the handshakes begun since the last."""

    def __init__(self, port: int, fleet: bytes) -> None:
        self.reactor = Reactor()
        self.clock = SystemClock()
        self.address = f"127.0.0.1:{port}"
        self.fleet = fleet
        self._ready: set[Member] = set()
        self._handshakes = 0

    def run(self) -> None:
        """Stay until SIGTERM."""
        raise_open_files(8 * MINIONS + 500)
        self.reactor.on_signal(signal.SIGTERM, self.reactor.stop)
        for member in [Member(self, number) for number in range(MINIONS)]:
            member.start()
        self.reactor.run()

    def changed(self, member: Member, phase: Phase) -> None:
        """A connection is in another phase."""
        self._handshakes += phase is Phase.HANDSHAKE
        if phase is not Phase.READY:
            self._ready.discard(member)

    def has_pillar(self, member: Member) -> None:
        """It is back."""
        self._ready.add(member)
        if len(self._ready) == MINIONS:
            print(json.dumps({"at": time.monotonic(), "handshakes": self._handshakes}), flush=True)
            self._handshakes = 0


def restart(how: signal.Signals) -> tuple[float, float, float]:
    """(seconds until all were READY again, of those the master's own start, handshakes a minion)."""
    with BenchFleet() as fleet:
        _write_pillar(fleet)
        fleet.start_master(handshakes_per_address=5000)
        _accept_all(fleet.store_path)
        with fleet.client() as client:
            name = client.call("key_finger")["fleet"]
        crowd = subprocess.Popen([sys.executable, "-m", __spec__.name, str(fleet.port), name], stdout=subprocess.PIPE)
        try:
            _all_ready(crowd)
            began = time.monotonic()
            if how is signal.SIGKILL:
                for pid in family(fleet.daemons["master"].pid):
                    os.kill(pid, signal.SIGKILL)
            fleet.stop("master")
            fleet.start_master(handshakes_per_address=5000)
            started_s = time.monotonic() - began
            back = _all_ready(crowd)
        finally:
            crowd.terminate()
            crowd.wait()
            if crowd.stdout is not None:
                crowd.stdout.close()
    return back["at"] - began, started_s, back["handshakes"] / MINIONS


def _write_pillar(fleet: BenchFleet) -> None:
    folder = fleet.folder / "master/root/srv/pillar"
    folder.mkdir(parents=True)
    for name, text in PILLAR.items():
        (folder / name).write_text(text)


def _all_ready(crowd: subprocess.Popen[bytes]) -> dict[str, Any]:
    if crowd.stdout is None:
        raise RuntimeError("the minions were started without a way to hear them")
    os.set_blocking(crowd.stdout.fileno(), False)
    deadline = time.monotonic() + READY_S
    while not (line := crowd.stdout.readline()):
        if time.monotonic() > deadline or crowd.poll() is not None:
            raise RuntimeError(f"not all minions were READY within {READY_S:g} s")
        time.sleep(0.005)
    said: dict[str, Any] = json.loads(line)
    return said


def _accept_all(store_path: str) -> None:
    store = SqliteStore(store_path)
    now = time.time()
    with store.write() as writer:
        for number in range(MINIONS):
            public = public_of(private_key(number))
            writer.put_key(
                KeyRecord(
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
            )
    store.close()


def main(runs: int) -> int:
    """Both kinds of restart, so many times each; the exit code."""
    # Programs that were installed have their bytecode; a checkout gets it from the first run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    document: dict[str, Any] = {"machine": machine(), "minions": MINIONS, "cases": {}}
    for how in (signal.SIGTERM, signal.SIGKILL):
        others = Others()
        samples = [restart(how) for _ in range(runs)]
        document["cases"][how.name] = {
            "others_percent": others.share_percent(),
            "all_ready": FIGURES["all_ready"].report([all_s for all_s, _, _ in samples]),
            "master_start_s": [rounded(started_s) for _, started_s, _ in samples],
            "handshakes_a_minion": FIGURES["handshakes_a_minion"].report([count for _, _, count in samples]),
        }
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        Crowd(int(sys.argv[1]), unspell_fingerprint(parse_fingerprint(sys.argv[2]))).run()
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
