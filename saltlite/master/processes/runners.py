"""Runners that the master runs for others: those of hooks, and those of minions under `peer_run`.

Each one runs in its own process, as the local user that the configuration names. A `Starter` starts them. It keeps the
rights that the master was started with, and reads only short requests of other processes of the master. Everything that
decides about rights comes from its own copy of the configuration, so a compromised process can run only what the
configuration grants.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from saltlite.auth.acl import PEER, Call, Granted, authorize_peer_run
from saltlite.auth.logins import external
from saltlite.errors import LocalProtocolError, RefusedError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import Jid, MinionId, RequestId
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import ProcessClient, peer_of
from saltlite.wire.framing import IpcMessage, framed, pack, read_frame, unpack

log = logging.getLogger(__name__)

AT_ONCE_MAX = 4
"""Concurrent runners of one starter ..."""
AT_ONCE_OF_A_MINION = 2
"""... and those of one minion, so that others are served, too."""
TURN_S = 600.0
"""Seconds that a runner of a minion waits for its turn."""
RUN_S = 600.0
"""Seconds until a runner is killed."""
ANSWER_S = TURN_S + RUN_S + 60.0
"""Seconds that an MWorker waits for a runner. No runner takes longer."""
MESSAGE_MAX = 1024 * 1024
"""Bytes of one message to or from a starter, which stops reading after a larger one."""
VALUE_MAX = MESSAGE_MAX - 4096
"""Bytes of the return of a runner of `peer_run`."""
FAILED = 1
MODULE = "saltlite.api.runner_process"
"""The program of one runner: the call on stdin, the result on stdout."""
_KEPT_NAMES = ("PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LANG", "LC_ALL", "TZ")


@dataclass(frozen=True, slots=True)
class RunnerStart:
    """One run of a runner. `what` names it in the log, `user` is the local user, and `by` is the user or minion that it
    runs for."""

    what: str
    user: str
    fun: str
    args: list[Any]
    kwargs: dict[str, Any]
    jid: str
    by: str


class Starter:
    """Starts the runner that `run_of` returns for each request. A RefusedError of `run_of` becomes the answer.

    Answers `{n, ...}` with `{n, retcode}`, and with `value`, the JSON of the return, if `has_value`.
    """

    def __init__(
        self, config_dir: str, run_of: Callable[[Mapping[str, Any]], RunnerStart], *, has_value: bool = False
    ) -> None:
        self._config_dir = config_dir
        self._run_of = run_of
        self._has_value = has_value
        self._turns = threading.Condition()
        self._running: Counter[str] = Counter()
        """The number of running runners by minion; those of hooks are under ""."""

    def serve(self, sock: socket.socket) -> None:
        """Serve the process at the other end until it ends."""
        sending = threading.Lock()
        while data := read_frame(sock.recv, MESSAGE_MAX):
            threading.Thread(target=self._one, args=(sock, sending, unpack(data)), daemon=True).start()

    def _one(self, sock: socket.socket, sending: threading.Lock, message: dict[str, Any]) -> None:
        whose = str(message.get("minion", ""))
        if self._takes_turn(whose):
            try:
                found = self._found(message)
            finally:
                with self._turns:
                    self._running -= Counter((whose,))
                    self._turns.notify_all()
        else:
            reason = f"the runner {message.get('fun')} had no turn within {TURN_S:g} s and was not run"
            log.error("minion %s: %s", whose, reason)
            found = {"value": reason, "retcode": FAILED}
        answer: IpcMessage = {"n": message["n"], "retcode": found["retcode"]}
        if self._has_value:
            value = json.dumps(found["value"]).encode()
            if len(value) > VALUE_MAX:
                value = json.dumps(f"the return has {len(value)} bytes, and may have {VALUE_MAX}").encode()
                answer["retcode"] = FAILED
            answer["value"] = value
        with sending, suppress(OSError):
            sock.sendall(framed(pack(answer)))

    def _takes_turn(self, whose: str) -> bool:
        """Wait for a free slot; for a minion, at most TURN_S. Returns whether there is one."""

        def is_free() -> bool:
            if whose and self._running[whose] >= AT_ONCE_OF_A_MINION:
                return False
            return self._running.total() < AT_ONCE_MAX

        with self._turns:
            has_turn = self._turns.wait_for(is_free, TURN_S if whose else None)
            if has_turn:
                self._running[whose] += 1
        return has_turn

    def _found(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """`value` and `retcode`."""
        try:
            run = self._run_of(message)
        except (RefusedError, KeyError) as error:
            log.error("a runner is refused: %s", error)  # noqa: TRY400 - a sentence
            return {"value": str(error), "retcode": FAILED}
        try:
            return self._run(run)
        except subprocess.TimeoutExpired:
            reason = f"took more than {RUN_S:g} s and was killed"
        except (OSError, KeyError, TypeError, ValueError) as error:
            reason = f"was not run: {error}"
        log.error("the runner %s of %s %s", run.fun, run.what, reason)
        return {"value": f"the runner {run.fun} {reason}", "retcode": FAILED}

    def _run(self, run: RunnerStart) -> dict[str, Any]:
        wanted = {
            "config_dir": self._config_dir,
            "token": "",
            "fun": run.fun,
            "args": run.args,
            "kwargs": run.kwargs,
            "user": run.by,
            "jid": run.jid,
        }
        with subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in _KEPT_NAMES if name in os.environ},
            cwd="/",
            start_new_session=True,
            **_identity(run.user),
        ) as process:
            try:
                out, err = process.communicate(pack(wanted), timeout=RUN_S)
            finally:
                # This also ends what the runner started.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if err:
            log.warning("the runner of %s wrote: %s", run.what, err.decode("utf-8", "backslashreplace")[-1000:])
        try:
            found = json.loads(out)
        except ValueError:
            reason = f"ended without a result (return code {process.returncode}); what it did stays done"
            log.error("the runner %s of %s %s", run.fun, run.what, reason)  # noqa: TRY400 - a sentence
            return {"value": f"the runner {run.fun} {reason}", "retcode": FAILED}
        if found["retcode"]:
            log.warning("the runner of %s failed: %s", run.what, str(found["value"])[:1000])
        return {"value": found["value"], "retcode": int(found["retcode"])}


def _identity(user: str) -> dict[str, Any]:
    """Arguments of Popen to run as that user. Raises OSError if this process is not root."""
    entry = pwd.getpwnam(user)
    if entry.pw_uid == os.geteuid():
        return {}
    if os.geteuid() != 0:
        raise PermissionError(1, f"a master that was not started as root runs nothing as {user}")
    groups = os.getgrouplist(user, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}


# -- runners of minions


def serve_peer_runs(listener: socket.socket, mworker_uid: int, granted: Granted, user: str, config_dir: str) -> None:
    """Run the runners that MWorkers request for minions, as `user`. Never returns. Only processes of `mworker_uid` are
    served."""

    starter = Starter(config_dir, RunsOfMinions(granted, user), has_value=True)
    listener.setblocking(True)
    while True:
        sock, _address = listener.accept()
        if peer_of(sock).uid != mworker_uid:
            sock.close()
            continue
        threading.Thread(target=starter.serve, args=(sock,), daemon=True).start()


REQUESTS_KNOWN = 10_000
"""The newest requests of minions whose runners were begun."""


class RunsOfMinions:
    """Makes a runner of each request, once. A minion repeats its request when the answer was lost, and the repeated one
    may reach another MWorker."""

    def __init__(self, granted: Granted, user: str) -> None:
        self._granted = granted
        self._user = user
        self._begun: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._one = threading.Lock()

    def __call__(self, message: Mapping[str, Any]) -> RunnerStart:
        """Raises RefusedError if no rule grants the runner, and for a repeated request."""
        principal = external(PEER, message["minion"], ())
        fun, args, kwargs = message["fun"], message["args"], message["kwargs"]
        authorize_peer_run(principal, Call(fun, args, kwargs), self._granted)
        key = message["minion"], message["request_id"]
        with self._one:
            if key in self._begun:
                raise RefusedError(lost_sight(fun))
            self._begun[key] = None
            if len(self._begun) > REQUESTS_KNOWN:
                self._begun.popitem(last=False)
        return RunnerStart(str(principal), self._user, fun, args, kwargs, message["jid"], principal.label)


def lost_sight(fun: str) -> str:
    """The error message for a runner that was begun but is unknown to the master now."""
    return (
        f"the master has lost sight of the runner {fun}, which was begun and is not run again: "
        "an event salt/run/*/ret says how it ended, unless the master was restarted"
    )


RUNS_OF_A_MINION = 4
"""Runners of one minion that have not ended; further ones wait ..."""
RUNS_MAX = 64
"""... and those of all minions of one MWorker."""
RUNS_KEPT_S = 60.0
"""Seconds that a return is kept, because its minion asks again after a lost answer."""


@dataclass(slots=True)
class PeerRun:
    """A runner of a minion. `value` is the JSON of its return; `ended_at` is 0 before it has one."""

    ended_at: float = 0.0
    retcode: int = 0
    value: bytes = b""


class PeerRuns:
    """The runners of the minions of one MWorker, and the client of `serve_peer_runs`. Times are monotonic seconds."""

    def __init__(self, reactor: Reactor, path: str, uid: int) -> None:
        self._reactor = reactor
        self._process = ProcessClient(
            reactor, path, uid, "minions run no runners", message_max=MESSAGE_MAX, send_buffer_max=64 * MESSAGE_MAX
        )
        self._runs: OrderedDict[tuple[MinionId, RequestId], PeerRun] = OrderedDict()

    def get(self, minion: MinionId, request_id: RequestId, now: float) -> PeerRun | None:
        """The run of that request; None if there is none, or if its return is too old."""
        for key in [key for key, run in self._runs.items() if run.ended_at and now - run.ended_at > RUNS_KEPT_S]:
            del self._runs[key]
        return self._runs.get((minion, request_id))

    def has_room(self, minion: MinionId) -> bool:
        """Whether another runner of that minion may start."""
        running = [whose for (whose, _), run in self._runs.items() if not run.ended_at]
        return running.count(minion) < RUNS_OF_A_MINION and len(running) < RUNS_MAX

    def start(
        self, minion: MinionId, request_id: RequestId, call: Call, jid: Jid, ended: Callable[[int], None]
    ) -> PeerRun:
        """Start it if `has_room`; `ended` is called with its retcode. It may replace the oldest stored return. Raises
        RefusedError for arguments that are too large."""

        def answered(answer: IpcMessage | None) -> None:
            if answer is None:
                answer = {"retcode": FAILED, "value": json.dumps("the process of runners does not answer").encode()}
            run.ended_at, run.retcode, run.value = self._reactor.now(), answer["retcode"], answer["value"]
            ended(run.retcode)

        if len(self._runs) >= RUNS_MAX:
            del self._runs[min((run.ended_at, key) for key, run in self._runs.items() if run.ended_at)[1]]
        run = self._runs[minion, request_id] = PeerRun()
        message = {
            "minion": minion, "request_id": request_id, "jid": jid, "fun": call.fun, "args": list(call.args),
            "kwargs": dict(call.kwargs or {}),
        }  # fmt: skip
        try:
            self._process.ask(message, ANSWER_S, answered)
        except LocalProtocolError as error:
            del self._runs[minion, request_id]
            raise RefusedError(str(error)) from error
        return run
