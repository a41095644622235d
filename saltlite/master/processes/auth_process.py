"""The process that checks passwords, and the client by which MWorkers ask it.

The process keeps the rights with which the master was started, because PAM and secret files need them; it reads only
short messages of MWorkers. Each check runs in a process of its own, so a backend that hangs, dies or leaks affects
nothing else, and no password stays in memory. The answer is yes or no, and groups: this process issues no token and
publishes nothing.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any

from saltlite.auth.logins import guess_limiter
from saltlite.errors import SaltliteError
from saltlite.model.dataclass import dataclass
from saltlite.platform.logs import supervised
from saltlite.platform.process import Child, close_all_but, expect_large, freeze_heap, watch_exit
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel, ProcessClient
from saltlite.wire.framing import IpcMessage, pack, unpack

log = logging.getLogger(__name__)

CHECKS_AT_ONCE = max(4, os.cpu_count() or 1)
"""More than the cores of a small machine: PAM delays the answer to a wrong password, which costs no CPU."""
WAITING_MAX = 64
"""Checks that wait; more are refused."""
CHECK_S = 10.0
"""How long a backend may take; then its process is killed, and the check fails."""
_ANSWER_MAX = 32 * 1024
"""Bytes of a check's answer: less than a pipe holds, so that it never blocks."""
_BUSY = "too many people log in at this moment: try again"

Functions = Mapping[str, Callable[..., Any]]
"""`backend.auth` and `backend.groups`, from the loader."""


@dataclass(eq=False, slots=True)
class _Check:
    channel: Channel
    number: int
    backend: str
    user: str
    password: str = field(repr=False)


class AuthProcess:
    """Answers `{n, backend, user, password}` with `{n, ok, groups, reason}`."""

    def __init__(self, reactor: Reactor, functions: Functions) -> None:
        self._reactor = reactor
        self._functions = functions
        self._guesses = guess_limiter()
        self._waiting: deque[_Check] = deque()
        self._running = 0
        freeze_heap()

    def add(self, make_channel: Callable[[Callable[[list[bytes]], None], Callable[[str], None]], Channel]) -> None:
        """An MWorker has connected."""
        holder: list[Channel] = []

        def on_batch(batch: list[bytes]) -> None:
            for data in batch:
                supervised("a check of a password", partial(self._received, holder[0], data))

        holder.append(make_channel(on_batch, lambda _reason: None))

    def _received(self, channel: Channel, data: bytes) -> None:
        request = unpack(data)
        self._take(_Check(channel, request["n"], request["backend"], request["user"], request["password"]))

    def _take(self, check: _Check) -> None:
        wait_s = self._guesses.wait_s((check.backend, check.user), self._reactor.now())
        if wait_s > 0:
            self._say(check, reason=f"too many wrong passwords for this name: try again in {wait_s:.0f} s")
        elif len(self._waiting) >= WAITING_MAX:
            self._say(check, reason=_BUSY)
        else:
            self._waiting.append(check)
            self._next()

    def _next(self) -> None:
        while self._waiting and self._running < CHECKS_AT_ONCE:
            check = self._waiting.popleft()
            # Checked again: wrong passwords count that came while this one waited.
            if self._guesses.wait_s((check.backend, check.user), self._reactor.now()) > 0:
                self._say(check, reason="too many wrong passwords for this name: try again later")
                continue
            self._running += 1
            self._start(check)

    def _start(self, check: _Check) -> None:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _checked(self._functions, check, writing)
        os.close(writing)
        child = watch_exit(self._reactor, pid, lambda _status: self._ended(check, reading))
        self._reactor.call_later(CHECK_S, lambda: _end(child))

    def _ended(self, check: _Check, reading: int) -> None:
        raw = os.read(reading, _ANSWER_MAX)
        os.close(reading)
        self._running -= 1
        outcome: dict[str, Any] = {"ok": False, "groups": [], "problem": "its process was killed, or died"}
        if raw:
            outcome = unpack(raw)
        if outcome.get("problem"):
            log.error("the backend %s could not check a password: %s", check.backend, outcome["problem"])
        if not outcome["ok"]:
            self._guesses.spend((check.backend, check.user), self._reactor.now())
            log.warning("%s:%s was not let in", check.backend, check.user)
        self._say(check, ok=outcome["ok"], groups=outcome["groups"])
        self._next()

    def _say(self, check: _Check, *, ok: bool = False, groups: list[str] | None = None, reason: str = "") -> None:
        check.channel.send(pack({"n": check.number, "ok": ok, "groups": groups or [], "reason": reason}))


def _end(child: Child) -> None:
    child.signal(signal.SIGKILL)


def _checked(functions: Functions, check: _Check, writing: int) -> None:
    """The child process of one check: ask the backend, write its answer, and exit."""
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    outcome: dict[str, Any] = {"ok": False, "groups": [], "problem": ""}
    try:
        close_all_but((0, 1, 2, writing))
        expect_large()
        outcome |= _asked(functions, check)
    except SaltliteError as error:
        outcome["problem"] = str(error)[:1000]
    except BaseException as error:  # noqa: BLE001 - supervision point: a plug-in may raise anything, and its text may hold the password
        outcome["problem"] = f"it raised {type(error).__name__}"
    finally:
        raw = pack(outcome)
        os.write(writing, raw if len(raw) <= _ANSWER_MAX else pack(outcome | {"ok": False, "groups": []}))
        os._exit(0)


def _asked(functions: Functions, check: _Check) -> dict[str, Any]:
    # Only True is a yes: another true value may be an object that tells why not.
    if functions[f"{check.backend}.auth"](check.user, check.password) is not True:
        return {"ok": False}
    name = f"{check.backend}.groups"
    groups = functions[name](check.user) if name in functions else []
    return {"ok": True, "groups": [str(group) for group in groups]}


MESSAGE_MAX = 256 * 1024
WAIT_S = 30.0
"""How long a check may take, including its wait."""


@dataclass(frozen=True, slots=True)
class PasswordVerdict:
    """A backend's verdict on a name and a password. `reason` is an error message for the caller, or ""."""

    ok: bool
    groups: tuple[str, ...] = ()
    reason: str = ""


Done = Callable[[PasswordVerdict], None]


class Backends:
    """The client of `AuthProcess`. The process at `path` must be of user `uid`: another could accept any password."""

    def __init__(self, reactor: Reactor, path: str, uid: int) -> None:
        self._process = ProcessClient(
            reactor, path, uid, "no user can log in", message_max=MESSAGE_MAX, send_buffer_max=16 * MESSAGE_MAX
        )

    def check(self, backend: str, user: str, password: str, done: Done) -> None:
        """Check a password; `done` gets the verdict, once."""
        request = {"backend": backend, "user": user, "password": password}
        self._process.ask(request, WAIT_S, lambda answer: done(_verdict(answer)))


def _verdict(answer: IpcMessage | None) -> PasswordVerdict:
    if answer is None:
        gone = "the process that checks passwords does not answer: try again, or look at the log"
        return PasswordVerdict(ok=False, reason=gone)
    return PasswordVerdict(answer["ok"], tuple(answer["groups"]), answer["reason"])
