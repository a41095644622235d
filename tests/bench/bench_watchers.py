"""What open consoles cost a job of a whole fleet, as one JSON document:
`python -m tests.bench.bench_watchers [MINIONS]`.

Not run by pytest. The minions are simulated on the real wire; master, API and command line are the real ones. Each
console is a stream of /events as a browser opens it, with a login of its own. All run on this machine, so consoles are
read by a process that throws away what it gets without decrypting it, except for a few, which count their events.

Rounds with and without consoles alternate, because the ratio of the two is the figure.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.bench_console import Caller, start
from tests.bench.fleet import BenchFleet
from tests.bench.measure import Figure, Others, cpu_s, machine, pss_mib, rounded, timed

MINIONS = 5000
CONSOLES = 200
READ = 4
"""Consoles whose events are decrypted and counted."""
ROUNDS = 5
QUIET_S = 3.0
"""Until a job's events have arrived, and what came before it has ended."""

FIGURES = {
    "without_s": Figure("s", 1.5, "-"),
    "with_s": Figure("s", 2.0, "-"),
    "ratio": Figure("times as long", 1.3, "-"),
    "api_pss": Figure("MiB of the API after a job, with all consoles", 150, "-"),
    "behind_s": Figure("s from the end of the job until the last console that is counted has its last event", 2.0, "-"),
    "sent_kb": Figure("kB a console and job", 300, "-"),
    "api_cpu": Figure("s of CPU of the API a job", 1.0, "-"),
}


# -- the process that reads the consoles: `python -m tests.bench.bench_watchers --read PORT READ`, tokens on stdin


class Console:
    """One stream. It speaks TLS itself, so that it can stop to decrypt."""

    def __init__(self, port: int, token: str, tls: ssl.SSLContext, *, counts: bool) -> None:
        self.bytes = 0
        self.events = 0
        self.last_at = 0.0
        self._counts = counts
        self._text = b""
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._shake_hands()
        head = ("GET /events?returns=false HTTP/1.1", "Host: x", "Accept-Encoding: gzip", f"X-Auth-Token: {token}")
        self._tls.write("\r\n".join((*head, "", "")).encode())
        self._send()
        self._head = b""
        while b"\r\n\r\n" not in self._head:
            self._head += self._decrypted(self.socket.recv(65536))
        self._head, _, body = self._head.partition(b"\r\n\r\n")
        self._is_packed = b"content-encoding: gzip" in self._head.lower()
        self._chunks = body

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send()
                self._incoming.write(self.socket.recv(65536))
            else:
                self._send()
                return

    def _send(self) -> None:
        self.socket.sendall(self._outgoing.read())

    def _decrypted(self, data: bytes) -> bytes:
        self._incoming.write(data)
        found = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                found += self._tls.read(1 << 20)
        return found

    def read(self) -> bool:
        """Take what has arrived; False at the end."""
        data = self.socket.recv(1 << 20)
        self.bytes += len(data)
        if self._counts:
            self._count(self._decrypted(data))
        return bool(data)

    def _count(self, text: bytes) -> None:
        self._chunks += text
        while b"\r\n" in self._chunks:
            length, _, rest = self._chunks.partition(b"\r\n")
            size = int(length, 16)
            if len(rest) < size + 2:
                return
            piece, self._chunks = rest[:size], rest[size + 2 :]
            count = (self._unpack.decompress(piece) if self._is_packed else piece).count(b"\ndata: ")
            self.events += count
            self.last_at = time.time() if count else self.last_at


def read_consoles(port: int, read: int) -> None:
    """Open a console for each token of stdin, and read all until stdin ends; then print what each got."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tokens = sys.stdin.readline().split()
    consoles = [Console(port, token, tls, counts=number < read) for number, token in enumerate(tokens)]
    selector = selectors.DefaultSelector()
    for one in consoles:
        selector.register(one.socket, selectors.EVENT_READ, one)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                counted = consoles[:read]
                found = {
                    "events": [one.events for one in counted],
                    "last_at": max(one.last_at for one in counted),
                    "bytes": [one.bytes for one in consoles],
                    "open": len(selector.get_map()) - 1,
                }
                print(json.dumps(found), flush=True)
                return
            if not key.data.read():
                selector.unregister(key.fileobj)


@contextlib.contextmanager
def open_consoles(port: int, tokens: list[str], found: dict[str, Any]) -> Iterator[None]:
    """Consoles that are open while the block runs; afterwards `found` says what they got."""
    command = [sys.executable, "-m", "tests.bench.bench_watchers", "--read", str(port), str(READ)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(" ".join(tokens) + "\n")
    process.stdin.flush()
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("the consoles did not open")
    try:
        yield
    finally:
        process.stdin.close()
        found.update(json.loads(process.stdout.readline() or "{}"))
        process.wait()


# -- the measurement


def watchers(fleet: BenchFleet, minions: int) -> dict[str, Any]:
    """All figures, on a fleet of which nothing runs yet."""
    port = start(fleet, minions, never=0)
    tokens = [Caller(port).token for _ in range(CONSOLES)]
    samples: dict[str, list[float]] = {name: [] for name in FIGURES}
    ping_all(fleet, minions)
    for _ in range(ROUNDS):
        time.sleep(QUIET_S)
        without, _ = ping_all(fleet, minions)
        time.sleep(QUIET_S)
        found: dict[str, Any] = {}
        with open_consoles(port, tokens, found):
            before = cpu_s(fleet.pids("api"))
            took, ended_at = ping_all(fleet, minions)
            time.sleep(QUIET_S)
            samples["api_cpu"].append(cpu_s(fleet.pids("api")) - before)
            samples["api_pss"].append(sum(pss_mib(fleet.pids("api")).values()))
        if found["open"] != CONSOLES or any(count < minions + 1 for count in found["events"]):
            raise RuntimeError(f"{found['open']} consoles are open, with {found['events']} events")
        samples["without_s"].append(without)
        samples["with_s"].append(took)
        samples["ratio"].append(took / without)
        samples["behind_s"].append(max(0.0, found["last_at"] - ended_at))
        samples["sent_kb"].append(statistics.median(found["bytes"]) / 1000)
    return {name: FIGURES[name].report(values) for name, values in samples.items()}


def ping_all(fleet: BenchFleet, minions: int) -> tuple[float, float]:
    """Seconds that the command takes, and when it ended."""
    run = timed(fleet.command("*", "test.ping", "--out", "json"))
    if run.code != 0 or list(json.loads(run.out).values()) != [True] * minions:
        raise RuntimeError(f"not all of {minions} answered, exit {run.code}: {run.out[-500:]}")
    return rounded(run.wall_s), time.time()


def main(words: list[str]) -> int:
    """Print the document; the exit code."""
    if words[:1] == ["--read"]:
        read_consoles(int(words[1]), int(words[2]))
        return 0
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    minions = int(words[0]) if words else MINIONS
    others = Others()
    with BenchFleet() as fleet:
        report = watchers(fleet, minions)
        document = {"machine": machine(), "minions": minions, "consoles": CONSOLES, **report}
        document["others_percent"] = others.share_percent()
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
