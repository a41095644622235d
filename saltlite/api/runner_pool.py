"""The processes of runners: at most AT_ONCE_MAX calls at a time, each with a limit of time.

A process serves one login only, so nothing of one caller reaches another. It serves the next call of that login when it
says that the last one, of a runner that ships with saltlite, has left no trace in it (`runner_process`); a call then
takes 15 ms of CPU where a new process takes 280. Every other process is killed after its call, with all that it
started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from saltlite.errors import SaltliteError
from saltlite.wire.framing import LENGTH, framed, pack

log = logging.getLogger(__name__)

AT_ONCE_MAX = 4
"""Concurrent runners; others wait."""
IDLE_MAX = 4
"""Processes without a call that are kept; of more, the one that is idle for the longest is ended."""
LIVES_S = 60.0
"""Seconds from the start of a process after which it gets no further call."""
OUTPUT_MAX = 64 * 1024 * 1024
MODULE = "saltlite.api.runner_process"
_STDERR_SHOWN = 300
_KEPT_NAMES = ("CACHE_DIRECTORY", "PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LANG", "LC_ALL", "TZ")


class RunnerError(SaltliteError):
    """A runner was killed, or its process gave no valid answer."""


class RunnerProcess:
    """A process that serves the calls of one login, one after another."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        # They are pipes, as `start` asks for.
        self._stdin: asyncio.StreamWriter = process.stdin  # type: ignore[assignment]  # see above
        self._stdout: asyncio.StreamReader = process.stdout  # type: ignore[assignment]  # see above
        self._stderr: asyncio.StreamReader = process.stderr  # type: ignore[assignment]  # see above
        self._printed = b""
        self._draining = asyncio.ensure_future(self._drain())
        loop = asyncio.get_running_loop()
        self._until = loop.time() + LIVES_S
        self.timer: asyncio.TimerHandle | None = None
        """Ends it while it is idle."""

    @classmethod
    async def start(cls) -> RunnerProcess:
        """A new one. Raises OSError."""
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                MODULE,
                "--serve",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _KEPT_NAMES if name in os.environ},
                cwd="/",
                start_new_session=True,
            )
        )

    @property
    def left_s(self) -> float:
        """Seconds during which it may get a call; 0 once it has ended."""
        if self._process.returncode is not None:
            return 0.0
        return max(0.0, self._until - asyncio.get_running_loop().time())

    async def call(self, fun: str, wanted: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """`value` and `retcode` of one call, and whether the process takes another. Raises RunnerError."""
        try:
            self._stdin.write(framed(pack(dict(wanted))))
            await self._stdin.drain()
            size = LENGTH.unpack(await self._stdout.readexactly(LENGTH.size))[0]
            if size > OUTPUT_MAX:
                raise RunnerError(f"{fun} returned more than {OUTPUT_MAX} bytes")
            found = json.loads(await self._stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise RunnerError(f"the process of {fun} ended without an answer; the API's log has its output") from None
        except ValueError:
            raise RunnerError(f"the process of {fun} gave an invalid answer") from None
        finally:
            self._report(fun)
        if not isinstance(found, dict) or not {"value", "retcode", "more"} <= found.keys():
            raise RunnerError(f"the process of {fun} gave an invalid answer")
        return {"value": found["value"], "retcode": found["retcode"]}, found["more"] is True

    async def end(self, fun: str = "") -> None:
        """Kill it, with all that it started."""
        if self.timer is not None:
            self.timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._draining
        self._report(fun)

    async def _drain(self) -> None:
        while chunk := await self._stderr.read(65536):
            self._printed = (self._printed + chunk)[-_STDERR_SHOWN:]

    def _report(self, fun: str) -> None:
        if self._printed:
            log.warning("the runner %s printed: %s", fun, self._printed.decode("utf-8", "backslashreplace"))
            self._printed = b""


class RunnerPool:
    """Starts the processes, and keeps those that may serve another call."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._idle: dict[str, RunnerProcess] = {}
        """By token, the one that is idle for the longest first."""
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, wanted: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """`value` and `retcode` of a call with the fields of `runner_process`. Raises RunnerError."""
        fun, token = wanted["fun"], wanted["token"]
        async with self._turns:
            process = self._take(token)
            if process is None:
                try:
                    process = await RunnerProcess.start()
                except OSError as error:
                    raise RunnerError(f"{fun} could not be started: {error.strerror}: {error.filename}") from error
            more = False
            try:
                async with asyncio.timeout(timeout_s):
                    found, more = await process.call(fun, wanted)
            except TimeoutError:
                raise RunnerError(f"{fun} has not ended in {timeout_s:g}s and was killed") from None
            finally:
                if more:
                    self._keep(token, process)
                else:
                    await process.end(fun)
        return found

    def close(self) -> None:
        """End the idle processes."""
        for token in list(self._idle):
            self._end(token)

    def _take(self, token: str) -> RunnerProcess | None:
        process = self._idle.pop(token, None)
        if process is None:
            return None
        if process.timer is not None:
            process.timer.cancel()
        if process.left_s:
            return process
        self._end_soon(process)
        return None

    def _keep(self, token: str, process: RunnerProcess) -> None:
        if token in self._idle:
            # Another call of this login has ended meanwhile.
            self._end_soon(process)
            return
        self._idle[token] = process
        process.timer = asyncio.get_running_loop().call_later(process.left_s, self._end, token)
        if len(self._idle) > IDLE_MAX:
            self._end(next(iter(self._idle)))

    def _end(self, token: str) -> None:
        self._end_soon(self._idle.pop(token))

    def _end_soon(self, process: RunnerProcess) -> None:
        ending = asyncio.ensure_future(process.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
