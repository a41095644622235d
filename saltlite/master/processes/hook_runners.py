"""Runners of hooks: each in a process of its own that belongs to the hook's user, started by a process with the rights
for that.

The starter keeps the rights of the master's start. It hears nobody but the process of hooks, through a socket pair that
no other process has, and takes from it which hook, with which arguments; who and what stands in its own copy of the
configuration, so that a process of hooks that was broken into cannot have anything else run.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from saltlite.errors import RefusedError
from saltlite.hooks import Firing, Hook
from saltlite.platform.process import set_parent_death_signal, set_title
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel
from saltlite.wire.ipc import pack, unpack

log = logging.getLogger(__name__)

AT_ONCE_MAX = 4
"""Runners of hooks that run at the same moment."""
WAITING_MAX = 64
"""Runners of hooks that were begun and have not ended; more are refused."""
RUN_S = 600.0
"""How long a runner of a hook may take; then it is killed."""
MESSAGE_MAX = 1024 * 1024
"""Bytes of what one runner is run with; the starter believes nobody who says more."""
FAILED = 1
TITLE = "hook runners"
MODULE = "saltlite.api.runnerprocess"
"""What runs one runner: the call on its stdin, the end on its stdout."""
_KEPT_NAMES = ("PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LANG", "LC_ALL", "TZ")
_LENGTH = struct.Struct(">I")


class HookRunners:
    """The side of the process of hooks."""

    def __init__(self, reactor: Reactor, sock: socket.socket) -> None:
        self._open: dict[int, Callable[[int], None]] = {}
        self._numbers = 0
        self._channel = Channel(
            reactor,
            sock,
            self._heard,
            lambda _reason: reactor.stop(),
            message_max=MESSAGE_MAX,
            send_buffer_max=64 * MESSAGE_MAX,
        )

    def run(self, hook: Hook, wanted: Firing, jid: str, ended: Callable[[int], None]) -> None:
        """Have it run; `ended` gets its retcode. RefusedError: too many have not ended, or too large."""
        if len(self._open) >= WAITING_MAX:
            raise RefusedError(f"{WAITING_MAX} runners of hooks have not ended yet")
        self._numbers += 1
        message = {"n": self._numbers, "hook": hook.name, "args": wanted.args, "kwargs": wanted.kwargs, "jid": jid}
        packed = pack(message)
        if len(packed) > MESSAGE_MAX:
            raise RefusedError(f"its arguments have {len(packed)} bytes, and may have {MESSAGE_MAX}")
        self._open[self._numbers] = ended
        self._channel.send(packed)

    def _heard(self, batch: list[bytes]) -> None:
        for data in batch:
            said = unpack(data)
            self._open.pop(said["n"])(said["retcode"])


class Starter:
    """The side with rights: its own process. `serve` returns when the process of hooks is gone."""

    def __init__(self, sock: socket.socket, hooks: tuple[Hook, ...], config_dir: str) -> None:
        self._socket = sock
        self._hooks = {hook.name: hook for hook in hooks if hook.tgt is None}
        self._config_dir = config_dir
        self._turns = threading.Semaphore(AT_ONCE_MAX)
        self._saying = threading.Lock()

    def serve(self) -> None:
        """Start what is asked for."""
        while header := self._read(_LENGTH.size):
            (size,) = _LENGTH.unpack(header)
            data = self._read(size) if size <= MESSAGE_MAX else b""
            if not data:
                return
            threading.Thread(target=self._one, args=(unpack(data),), daemon=True).start()

    def _one(self, message: dict[str, Any]) -> None:
        with self._turns:
            try:
                retcode = self._run(self._hooks[message["hook"]], message)
            except subprocess.TimeoutExpired:
                log.error("the runner of hook %s took more than %g s and was killed", message["hook"], RUN_S)  # noqa: TRY400 - a sentence
                retcode = FAILED
            except (OSError, KeyError, TypeError, ValueError) as error:
                log.error("the runner of hook %s was not run: %s", message["hook"], error)  # noqa: TRY400 - a sentence
                retcode = FAILED
        said = pack({"n": message["n"], "retcode": retcode})
        with self._saying, suppress(OSError):
            self._socket.sendall(_LENGTH.pack(len(said)) + said)

    def _run(self, hook: Hook, message: dict[str, Any]) -> int:
        wanted = {
            "config_dir": self._config_dir,
            "token": "",
            "fun": hook.fun,
            "args": message["args"],
            "kwargs": message["kwargs"],
            "user": hook.user,
            "jid": message["jid"],
        }
        with subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in _KEPT_NAMES if name in os.environ},
            cwd="/",
            start_new_session=True,
            **_identity(hook.user),
        ) as process:
            try:
                out, err = process.communicate(pack(wanted), timeout=RUN_S)
            finally:
                # What the runner started goes with it.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if err:
            log.warning("the runner of hook %s said: %s", hook.name, err.decode("utf-8", "backslashreplace")[-1000:])
        found = json.loads(out)
        if found["retcode"]:
            log.warning("the runner of hook %s failed: %s", hook.name, str(found["value"])[:1000])
        return int(found["retcode"])

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                return b""
            data += chunk
        return bytes(data)


def start_starter(hooks: tuple[Hook, ...], config_dir: str) -> socket.socket | None:
    """Fork the starter, which ends with this process; the way to it. None where no hook has a runner."""
    if all(hook.tgt is not None for hook in hooks):
        return None
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        try:
            set_parent_death_signal(signal.SIGKILL, parent)
            for signum in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signum, signal.SIG_IGN)  # it ends when the process of hooks does
            ours.close()
            set_title(TITLE)
            Starter(theirs, hooks, config_dir).serve()
        finally:
            os._exit(0)
    theirs.close()
    return ours


def _identity(user: str) -> dict[str, Any]:
    """What makes a program that user's. Raises OSError when this process may not: it was not started as root."""
    entry = pwd.getpwnam(user)
    if entry.pw_uid == os.geteuid():
        return {}
    if os.geteuid() != 0:
        raise PermissionError(1, f"a master that was not started as root runs nothing as {user}")
    groups = os.getgrouplist(user, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}
