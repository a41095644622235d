"""The clients `runner` and `runner_async`: each call in a process of its own, with the rights of the token's holder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.api.link import MasterLink
from saltlite.errors import RefusedError, SaltliteError, UnreachableError, UsageError
from saltlite.model.ids import jid_at
from saltlite.wire.ipc import pack

log = logging.getLogger(__name__)

AT_ONCE_MAX = 4
"""Runners that run at the same moment; others wait for their turn."""
WAITING_MAX = 64
"""Runners that wait for their turn; more are refused."""
AS_CALLER = frozenset({"salt.cmd"})
"""Runners that do something on this machine with the rights of the process that they are in."""
OUTPUT_MAX = 64 * 1024 * 1024
_STDERR_SHOWN = 300
_KEPT_NAMES = ("CACHE_DIRECTORY", "PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LANG", "LC_ALL", "TZ")


class RunnerError(SaltliteError):
    """A runner did not come to an end, or its process did not answer."""


@dataclass(frozen=True, slots=True)
class RunnerCall:
    """Which runner, for whom."""

    fun: str
    args: list[Any]
    kwargs: Mapping[str, Any]
    token: str
    timeout_s: float | None = None


class Runners:
    """Starts the processes of runners, a few at a time, and ends those that take too long."""

    def __init__(self, link: MasterLink, config_dir: str, timeout_s: float) -> None:
        self._link = link
        self._config_dir = config_dir
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._waiting = 0
        self._left: set[asyncio.Task[Any]] = set()

    async def run(self, call: RunnerCall) -> tuple[str, dict[str, Any]]:
        """The runner's jid, and `value` and `retcode`; a runner that failed has the sentence of it as its value.

        Raises RefusedError when the caller may not run it.
        """
        jid = await self._announce(call)
        return jid, await self._carry_out(call, jid)

    async def start(self, call: RunnerCall) -> dict[str, str]:
        """Begin with it and answer Salt's `{tag, jid}`; the events of that tag say how it goes."""
        jid = await self._announce(call)
        running = asyncio.ensure_future(self._carry_out(call, jid))
        self._left.add(running)
        running.add_done_callback(self._left.discard)
        return {"tag": f"salt/run/{jid}", "jid": jid}

    async def _announce(self, call: RunnerCall) -> str:
        """The runner's jid; the master has decided that the caller may run it."""
        if self._waiting >= WAITING_MAX:
            raise UnreachableError(f"{WAITING_MAX} runners wait for their turn already; try again")
        if call.fun.count(".") != 1 or "," in call.fun:
            raise UsageError(f"{call.fun[:80]!r} is not a function: it is written module.function, as in manage.up")
        if call.fun in AS_CALLER:
            raise RefusedError(
                f"{call.fun} runs a function as whoever calls it, and here that would be the API's own user, who has "
                "more than its caller: use `saltlite-run` on the master, or the client local"
            )
        jid = jid_at(time.time_ns() // 1000)
        await self._link.call(call.token, "runner_event", jid=jid, funs=[call.fun])
        return jid

    async def _carry_out(self, call: RunnerCall, jid: str) -> dict[str, Any]:
        retcode, began = 1, time.monotonic()
        self._waiting += 1
        try:
            async with self._turns:
                found = await self._process(call, jid)
            retcode = found["retcode"]
        except RunnerError as error:
            found = {"value": str(error), "retcode": retcode}
        finally:
            self._waiting -= 1
            duration_ms = int((time.monotonic() - began) * 1000)
            ended = {"jid": jid, "funs": [call.fun], "retcode": retcode, "duration_ms": duration_ms}
            with contextlib.suppress(SaltliteError):  # the runner has ended whether somebody hears of it or not
                await self._link.call(call.token, "runner_event", **ended)
        return found

    async def _process(self, call: RunnerCall, jid: str) -> dict[str, Any]:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "saltlite.api.runnerprocess",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _KEPT_NAMES if name in os.environ},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise RunnerError(f"{call.fun} could not be started: {error.strerror}: {error.filename}") from error
        wanted = {
            "config_dir": self._config_dir,
            "token": call.token,
            "fun": call.fun,
            "args": call.args,
            "kwargs": dict(call.kwargs),
            "user": "api",
            "jid": jid,
        }
        timeout_s = min(call.timeout_s or self._timeout_s, self._timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(pack(wanted))
        except TimeoutError:
            raise RunnerError(f"{call.fun} has not ended in {timeout_s:g}s and was killed") from None
        finally:
            # What the runner started goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return _outcome(call.fun, out, err)


def _outcome(fun: str, out: bytes, err: bytes) -> dict[str, Any]:
    if err:
        log.warning("the runner %s said: %s", fun, err.decode("utf-8", "backslashreplace")[-_STDERR_SHOWN:])
    if len(out) > OUTPUT_MAX:
        raise RunnerError(f"{fun} returned more than {OUTPUT_MAX} bytes")
    try:
        found = json.loads(out)
    except ValueError:
        raise RunnerError(f"the process of {fun} ended without an answer; the API's log has what it said") from None
    if not isinstance(found, dict) or not {"value", "retcode"} <= found.keys():
        raise RunnerError(f"the process of {fun} answered nonsense")
    return found
