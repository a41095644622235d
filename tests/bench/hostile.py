"""Those who mean harm to a master, each in a process of its own, until SIGTERM; then one line of JSON says what it did.

`python -m tests.bench.hostile user SOCKET UID KIND` is a local user with few rights, `minion ADDRESS FLEET SEED` an
accepted minion, `strangers ADDRESS COUNT` connections from addresses of 127/8 that never finish a handshake.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import random
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import zmq

from saltlite.model.ids import jid_at
from saltlite.wire import codec
from saltlite.wire.limits import CHUNK

ALLOWED = "min-00"
"""The one minion that hostile users may run test.ping on."""
CONNECTIONS = 40
"""Of one user at once: whoever has more is refused by his number."""
PIPELINED = 25
"""Requests of one connection that are sent before an answer is read."""
REOPEN_S = 0.002
"""Between two connections of strangers that are made anew: 500 in a second."""
KINDS = ("patterns", "floods", "streams", "sizes")

_LENGTH = struct.Struct(">I")
_did: Counter[str] = Counter()


def main(words: list[str]) -> None:
    """Do harm."""
    signal.signal(signal.SIGTERM, _end)
    roles: dict[str, Callable[..., None]] = {"user": user, "minion": minion, "strangers": strangers}
    roles[words[0]](*words[1:])


def _end(_signum: int, _frame: object) -> None:
    print(json.dumps(_did), flush=True)
    os._exit(0)


# -- users


def user(path: str, uid: str, kind: str) -> None:
    """Many connections of one user; each sends PIPELINED requests of its kind, and reads what comes."""
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))
    requests = _REQUESTS[kind](random.Random(kind))
    selector = selectors.DefaultSelector()
    while True:
        while len(selector.get_map()) < CONNECTIONS:
            sock = _connect(path)
            if sock is None:
                break
            selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, _Line(sock, requests, kind))
        if not selector.get_map():
            time.sleep(0.05)
        for key, events in selector.select(0.5):
            if not key.data.turn(events):
                selector.unregister(key.fileobj)
                key.data.sock.close()
                _did["hung up on"] += 1
        if kind == "streams":
            time.sleep(0.01)


def _connect(path: str) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        _did["not let in"] += 1
        return None
    return sock


class _Line:
    """One connection: what is to be written, how many answers are owed."""

    def __init__(self, sock: socket.socket, requests: Iterator[bytes], kind: str) -> None:
        self.sock = sock
        self._requests = requests
        self._reads = kind != "streams"
        self._out = bytearray()
        self._in = bytearray()
        self._owed = 0

    def turn(self, events: int) -> bool:
        """Write and read what goes; False when the connection is over."""
        try:
            if events & selectors.EVENT_READ and self._reads and not self._read():
                return False
            if events & selectors.EVENT_WRITE:
                self._write()
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def _write(self) -> None:
        if not self._out and self._owed < PIPELINED:
            data = next(self._requests)
            self._out += _LENGTH.pack(len(data)) + data
            self._owed += 1
            _did["requests"] += 1
        if self._out:
            del self._out[: self.sock.send(self._out[: 1 << 20])]
        else:
            time.sleep(0.0005)

    def _read(self) -> bool:
        data = self.sock.recv(1 << 20)
        self._in += data
        while len(self._in) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._in)
            if len(self._in) < _LENGTH.size + size:
                break
            self._owed -= 1
            _did["answers"] += 1
            del self._in[: _LENGTH.size + size]
        return bool(data)


def _asked(verb: str, **fields: Any) -> bytes:
    packed: bytes = msgpack.packb({"v": 1, "verb": verb, **fields})
    return packed


def _publish(chance: random.Random, tgt: str, kind: str, calls: Any = (("test.ping", [], {}),)) -> bytes:
    request_id = f"{chance.getrandbits(128):032x}"
    return _asked("publish", request_id=request_id, tgt=tgt, tgt_type=kind, calls=[list(call) for call in calls])


def _patterns(chance: random.Random) -> Iterator[bytes]:
    evil = [
        ("pcre", "(.*.*.*.*.*.*)*x$"),
        ("pcre", "(m|mi|min|min-|-|[0-9])*$x"),
        ("pcre", "(" * 90 + "m" + ")*" * 90),
        ("grain_pcre", "os:(.+)+(.+)+(.+)+x$"),
        ("grain_pcre", "kernelrelease:((.)*)*((.)*)*x"),
        ("grain_pcre", "path:(.+)+x$"),
        ("glob", "*" + "m*" * 400 + "x"),
        ("compound", " or ".join(f"E@(a*)*{number}b" for number in range(400))),
        ("compound", "( " * 300 + "min-00" + " )" * 300),
        ("compound", "not " * 2000 + "min-00"),
        ("list", ",".join(f"name-{number}" for number in range(20_000))),
        ("grain", "*:*:*:*:*:*:*:*:*"),
        ("ipcidr", "0.0.0.0/0"),
        ("nodegroup", "none"),
        ("pillar", "role:guess"),
        ("pillar_pcre", "role:(.*)*x"),
    ]
    for number in itertools.count():
        kind, tgt = evil[number % len(evil)]
        if number % 3 == 0:
            yield _publish(chance, tgt, kind)
        elif number % 3 == 1:
            yield _asked("describe", tgt=tgt, tgt_type=kind, funs=["test.ping"])
        else:
            who = {"user": "games", "fun": "test.ping", "args": [], "kwargs": {}}
            yield _asked("acl_explain", tgt=tgt, tgt_type=kind, **who)


def _floods(chance: random.Random) -> Iterator[bytes]:
    for number in itertools.count():
        yield [
            lambda: _publish(chance, ALLOWED, "glob"),
            lambda: _asked("whoami"),
            lambda: _asked("complete", kind="function", prefix=""),
            lambda: _asked("complete", kind="target", prefix="m"),
            lambda: _asked("job_list", limit=1000, whole=True),
            lambda: _asked("describe", tgt="*", tgt_type="glob", funs=["test.ping"]),
            lambda: _asked("status"),
            lambda: _asked("last_seen", ids=[f"min-{one:02d}" for one in range(1000)]),
            lambda: _asked("job_list", fun="*a*b*c*d*e*", user="*a*b*c*", limit=1000),
            lambda: _asked("nothing", x=1),
        ][number % 10]()


def _streams(_chance: random.Random) -> Iterator[bytes]:
    for number in itertools.count():
        yield _asked("events", pattern="*" * 200 + "x" if number % 2 else "*", after=0)


def _sizes(chance: random.Random) -> Iterator[bytes]:
    large = "x" * 4_000_000
    deep: Any = "x"
    for _ in range(60):
        deep = [deep]
    many = {str(number): number for number in range(codec.USER_VALUES - 100)}
    for number in itertools.count():
        yield [
            lambda: _publish(chance, ALLOWED, "glob", [["test.ping", [large], {}]]),
            lambda: _publish(chance, ALLOWED, "glob", [["test.ping", [many], {}]]),
            lambda: _publish(chance, ALLOWED, "glob", [["test.ping", [deep], {}]]),
            lambda: _publish(chance, large[:1_000_000], "list"),
            lambda: _asked("describe", tgt=ALLOWED, tgt_type="glob", funs=["a.b"] * 100_000),
            lambda: _asked("publish", request_id=5, tgt=[], tgt_type={}, calls="x"),
            lambda: _asked("events", pattern="*", after=2**63),
            lambda: _asked("follow", jid="x" * 100_000, after=-1),
            lambda: bytes(msgpack.packb({5: {2: b"\xff"}})),
            lambda: os.urandom(5000),
        ][number % 10]()


_REQUESTS: dict[str, Callable[[random.Random], Iterator[bytes]]] = {
    "patterns": _patterns,
    "floods": _floods,
    "streams": _streams,
    "sizes": _sizes,
}


# -- a minion


def minion(address: str, fleet_id: str, seed: str) -> None:
    """An accepted minion that sends what it may not, and more than it may, and comes back when it is sent away."""
    from tests.e2e.test_e2e_hostile import Stranger

    fleet = cast("Any", SimpleNamespace(fleet_id=lambda: fleet_id, address=lambda: address))
    while True:
        with (
            _noting(AssertionError, zmq.ZMQError, ValueError),
            Stranger(fleet, "traitor", bytes.fromhex(seed)) as peer,
        ):
            if peer.prove() != "accepted":
                time.sleep(0.5)
                continue
            _did["sessions"] += 1
            peer.socket.setsockopt(zmq.SNDTIMEO, 1000)
            for message in _messages():
                peer.send(peer.seal(message))
                _did["messages"] += 1
                while peer.socket.poll(0):
                    peer.socket.recv()
                if peer.monitor.poll(0):
                    _did["sent away"] += 1
                    break
        time.sleep(0.2)


@contextlib.contextmanager
def _noting(*kinds: type[Exception]) -> Iterator[None]:
    """Go on behind such an error, and count it: an attacker that does nothing must show."""
    try:
        yield
    except kinds as error:
        _did[f"{type(error).__name__}: {error}"[:80]] += 1


def _messages() -> Iterator[dict[str, Any]]:
    chunk, jid = os.urandom(CHUNK), jid_at(int(time.time() * 1e6))
    document = codec.encode({"resources": {"dummy": [f"r{number}" for number in range(5000)]}})
    digest = hashlib.sha256(document).digest()
    event = codec.encode({"text": "x" * 20_000})
    result = {"t": "return", "code": 0, "size": CHUNK, "start_ms": 0, "dur_ms": 0, "reason": "", "state": "returned"}
    for number in itertools.count(1):
        messages: list[dict[str, Any]] = [
            {"t": "event", "n": number, "tag": f"flood/{number}", "data": event, "jid": ""},
            {"t": "doc_get", "n": number, "kind": "pillar", "sha256": b"", "offset": 0},
            {
                "t": "doc_put", "n": number, "kind": "resources", "size": len(document), "sha256": digest,
                "offset": 0, "data": document[:CHUNK],
            },
            {"t": "file_request", "n": number, "operation": "files", "env": "base", "path": "", "after": "",
             "offset": 0},
            {"t": "file_request", "n": number, "operation": "read", "env": "base", "path": "../" * 50,
             "after": "", "offset": 0},
            {**result, "jid": jid, "body": chunk},
            {"t": "digest", "grains": os.urandom(16).hex(), "resources": os.urandom(16).hex()},
            {"t": "heartbeat", "running": [jid] * 100, "spool": 0},
        ]  # fmt: skip
        yield messages[number % 8]


# -- strangers


def strangers(address: str, count: str) -> None:
    """So many connections that say the first half of a greeting, or nothing, for as long as they are let."""
    wanted = int(count)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (wanted + 100, max(wanted + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    )
    host, _, port = address.rpartition(":")
    selector = selectors.DefaultSelector()
    sources = itertools.cycle(range(wanted))
    while True:
        if len(selector.get_map()) < wanted:
            number = next(sources)
            sock = socket.socket()
            sock.setblocking(False)
            sock.bind((f"127.{1 + number // 60_000}.{number // 250 % 240 + 1}.{number % 250 + 1}", 0))
            with contextlib.suppress(BlockingIOError):
                sock.connect((host, int(port)))
            selector.register(sock, selectors.EVENT_READ, number % 3)
            _did["connections"] += 1
            _did["open at the end"] = len(selector.get_map())
        for key, _events in selector.select(REOPEN_S):
            sock = cast("socket.socket", key.fileobj)
            try:
                data = sock.recv(4096)
                if data and key.data:
                    sock.send(b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"[: 3 * key.data])
            except OSError:
                data = b""
            if not data:
                selector.unregister(sock)
                sock.close()
                _did["hung up on"] += 1


if __name__ == "__main__":
    main(sys.argv[1:])
