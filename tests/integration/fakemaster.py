"""The master's end of the Unix socket, scripted: it answers what the test says and records what was asked."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.model.signature import outputter_of

JID = "20260131235959123456"
DROP = "drop"
"""In a script: close this connection here."""

Step = dict[str, Any] | bytes | str | threading.Event
Script = Callable[[dict[str, Any]], Iterable[Step]]
"""From a request to what happens: a map is sent as a frame, bytes as they are, an event is waited for."""

_LENGTH = struct.Struct(">I")


def published(*minions: str, away: dict[str, float | None] | None = None, **fields: Any) -> dict[str, Any]:
    """The answer to a publish; `fields` replace those of the answer."""
    answer = {"ok": True, "jid": JID, "minions": list(minions), "resources": {}, "away": away or {}, "unknown": {}}
    return answer | {"skipped": [], "timeout_s": 5.0, "deliver_ms": 60_000} | fields


def returned(seq: int, minion: str, value: object, *, retcode: int = 0) -> dict[str, Any]:
    """One message of a stream, with one return."""
    body = msgpack.packb(value)
    row = {"id": minion, "state": "returned", "retcode": retcode, "body": body, "reason": "", "seq": seq}
    return {"seq": seq, "states": [], "returns": [{**row, "started_at": 0.0, "duration_ms": 1}]}


def state(seq: int, minion: str, name: str, reason: str = "") -> dict[str, Any]:
    """One message of a stream, with one move."""
    return {"seq": seq, "states": [{"id": minion, "state": name, "reason": reason}], "returns": []}


def end(seq: int) -> dict[str, Any]:
    """The last message of a stream."""
    return {"seq": seq, "states": [], "returns": [], "end": True}


def fixed(*steps: Step) -> Script:
    """Every request gets the same."""
    return lambda request: steps


def described(functions: Mapping[str, dict[str, Any]], count: int = 2) -> dict[str, Any]:
    """The answer to a describe of these functions; all minions say what is said of one, unless it says who does."""
    everybody = {"minions": count, "of": count, "one": "web1"}
    unsaid: dict[str, Any] = {"signatures": [], "risks": [], "missing": 0, "unknown": 0}
    known = {name: unsaid | fields for name, fields in functions.items()}
    for fields in known.values():
        fields["takers"] = [everybody for _text in fields["signatures"]]
        fields["risks"] = [everybody | risk for risk in fields["risks"]]
    return {"ok": True, "count": count, "resources": 0, "away": 0, "awaited": 0, "functions": known}


def good_job(request: dict[str, Any]) -> Iterable[Step]:
    """A job on two minions that both return at once."""
    yield published("web1", "web2")
    if request["follow"]:
        yield returned(1, "web2", {"a": 1})
        yield returned(2, "web1", True)
        yield end(2)


class FakeMaster:
    """Serves `folder`/master.ipc with one script until the context ends; `folder` has the config too.

    `whoami` and what a client asks before and after each job, `describe`, `last_seen` and the last look, are answered
    here and not by the script.
    """

    def __init__(self, folder: Path, script: Script) -> None:
        self.config_dir = str(folder)
        self.socket_path = str(folder / "master.ipc")
        self.requests: list[dict[str, Any]] = []
        """Those that the script answered."""
        self.functions: dict[str, dict[str, Any]] = {}
        """As in `described`; of other functions nothing is known."""
        self.awaited = 0
        """How many publishes are answered as if minions were about to report their functions."""
        self.describes = True
        """False: whoever asks may have none of the functions."""
        self.heard: dict[str, float | None] = {}
        self.unsaid: list[dict[str, Any]] = []
        """Messages that only the first who looks (`follow` with `once`) is told."""
        self.now: float | None = None
        """What `whoami` says that the clock of a store that masters share shows."""
        self.closed = threading.Event()
        self._script = script
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        (folder / "master").write_text(f"sock_dir: {folder}\n")

    def __enter__(self) -> Self:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.socket_path)
        self._listener.listen(16)
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.closed.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        self._listener.close()

    def _start(self, body: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=body, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            for request in _requests(connection):
                for step in self._steps(request):
                    if not self._take(connection, step):
                        return

    def _steps(self, request: dict[str, Any]) -> Iterable[Step]:
        asks = request["verb"] == "publish" and "consent" in request
        if (asks or request["verb"] == "describe") and not self.describes:
            return [{"ok": False, "exit": 6, "error": "mallory may not"}]
        if request["verb"] == "describe":
            return [described({name: self.functions.get(name, {}) for name in request["funs"]})]
        if asks and request.get("untyped") and self.awaited:
            self.awaited -= 1
            nothing = described({name: {} for name, _args, _kwargs in request["calls"]})
            return [{"ok": True, "question": nothing | {"awaited": 1}}]
        if asks:
            answer = described({name: self.functions.get(name, {}) for name, _args, _kwargs in request["calls"]})
            if _is_question(request, answer["functions"]):
                return [{"ok": True, "question": answer}]
            self.requests.append(request)
            named = {"outputter": _outputter(answer["functions"])}
            script = self._script(request)
            return (step | named if isinstance(step, dict) and "jid" in step else step for step in script)
        if request["verb"] == "last_seen":
            return [{"ok": True, "silent_s": {m: self.heard[m] for m in request["ids"] if m in self.heard}}]
        if request["verb"] == "whoami":
            return [{"ok": True, **({} if self.now is None else {"now": self.now})}]
        if request.get("once"):
            unsaid, self.unsaid = self.unsaid, []
            return [published(), *unsaid, {"seq": 0, "states": [], "returns": [], "so_far": True}]
        self.requests.append(request)
        return self._script(request)

    def _take(self, connection: socket.socket, step: Step) -> bool:
        if isinstance(step, threading.Event):
            while not step.wait(0.02):
                if self.closed.is_set():
                    return False
        elif isinstance(step, bytes):
            connection.sendall(step)
        elif isinstance(step, dict):
            payload = msgpack.packb(step)
            connection.sendall(_LENGTH.pack(len(payload)) + payload)
        return step != DROP


def _is_question(request: Mapping[str, Any], functions: Mapping[str, Any]) -> bool:
    """Whether the answer to a publish is one: `publish_or_ask` says when."""
    risks = {row["risk"] for known in functions.values() for row in known["risks"]}
    with_words = {fun for fun, args, kwargs in request["calls"] if args or kwargs} if request.get("untyped") else set()
    return bool(risks - set(request["consent"])) or any(functions[fun]["signatures"] for fun in with_words)


def _outputter(functions: Mapping[str, Any]) -> str:
    found = {outputter_of(text) for known in functions.values() for text in known["signatures"]}
    return found.pop() if len(found) == len(functions) == 1 else ""


def _requests(connection: socket.socket) -> Iterator[dict[str, Any]]:
    stream = connection.makefile("rb")
    with stream:
        while header := stream.read(_LENGTH.size):
            yield msgpack.unpackb(stream.read(_LENGTH.unpack(header)[0]))
