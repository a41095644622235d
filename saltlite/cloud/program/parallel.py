"""Several machines at the same time, each in a process of its own.

Processes and not threads: drivers are code of others, which keeps state where it likes, and only a process can be
interrupted in the middle of a question to its provider. Each is its own session, so that Ctrl-C reaches this process
alone; it is passed on once, and each process then takes back what it has half made.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudException
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules import listing
from saltlite.errors import SaltliteError

log = logging.getLogger(__name__)

LINE_MAX = 16 * 1024 * 1024
"""Bytes of what one process may say of one machine."""
_READ = 65536


class ForwardedError(SaltCloudException):
    """What went wrong in another process."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


@dataclass(slots=True)
class Done:
    """What came of each machine: `answers` of those that are made, `errors` of the others."""

    answers: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, SaltliteError] = field(default_factory=dict)
    interrupted: bool = False


@dataclass(slots=True)
class _Child:
    name: str
    pid: int
    text: bytearray = field(default_factory=bytearray)
    ended: bool = False


Work = Callable[[str], Any]
"""Makes or destroys the machine of that name."""


def one_by_one(names: Sequence[str], work: Work) -> Done:
    """One after the other. A machine that fails does not keep the next from its turn; Ctrl-C does."""
    done = Done()
    for name in names:
        try:
            done.answers[name] = work(name)
        except SaltliteError as error:
            done.errors[name] = error
            if error.exit_code == 128 + signal.SIGINT:
                done.interrupted = True
                break
        except KeyboardInterrupt:
            done.interrupted = True
            break
    return done


def at_once(names: Sequence[str], work: Work, program: Program, limit: int) -> Done:
    """At most `limit` at the same time. Whatever happens, no process is left when this ends."""
    return _Crew(names, work, program, limit).run()


class _Crew:
    def __init__(self, names: Sequence[str], work: Work, program: Program, limit: int) -> None:
        self._waiting = list(reversed(names))
        self._work = work
        self._program = program
        self._limit = limit
        self._selector = selectors.DefaultSelector()
        self._done = Done()

    def run(self) -> Done:
        try:
            while self._waiting or self._selector.get_map():
                try:
                    self._turn()
                except KeyboardInterrupt:
                    self._interrupt()
        finally:
            self._end_all()
        return self._done

    def _turn(self) -> None:
        while self._waiting and len(self._selector.get_map()) < self._limit:
            self._start(self._waiting.pop())
        for key, _events in self._selector.select():
            self._read(key.fd, key.data)

    def _interrupt(self) -> None:
        """The first Ctrl-C has everything taken back, the second leaves it as it is, for `--clean`."""
        for key in self._selector.get_map().values():
            os.kill(key.data.pid, signal.SIGINT)
        self._waiting.clear()
        self._done.interrupted = True

    def _start(self, name: str) -> None:
        reads, writes = os.pipe2(os.O_CLOEXEC)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reads)
            _child(name, self._work, self._program, writes)
        os.close(writes)
        self._selector.register(reads, selectors.EVENT_READ, _Child(name, pid))

    def _read(self, fd: int, child: _Child) -> None:
        data = os.read(fd, _READ)
        child.text += data
        *lines, rest = bytes(child.text).split(b"\n")
        child.text[:] = rest
        for line in lines:
            self._hear(child, json.loads(line))
        if not data or len(rest) > LINE_MAX:
            self._selector.unregister(fd)
            os.close(fd)
            _pid, status = os.waitpid(child.pid, 0)
            if not child.ended:
                how = f"its process ended with {os.waitstatus_to_exitcode(status)}"
                text = f"{child.name}: {how}; `saltlite cloud --clean` takes back what it may have made"
                self._done.errors[child.name] = ForwardedError(text, SaltCloudException.exit_code)

    def _hear(self, child: _Child, said: dict[str, Any]) -> None:
        match said:
            case {"progress": text}:
                self._program.progress(child.name, text)
            case {"answer": answer}:
                child.ended = True
                self._done.answers[child.name] = answer
            case {"error": text, "exit": code}:
                child.ended = True
                self._done.errors[child.name] = ForwardedError(text, code)

    def _end_all(self) -> None:
        for key in list(self._selector.get_map().values()):
            child: _Child = key.data
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            os.close(key.fd)
        self._selector.close()


def _child(name: str, work: Work, program: Program, writes: int) -> None:
    """The life of a process; it never returns."""

    def say(said: dict[str, Any]) -> None:
        data = json.dumps(said, default=str).encode() + b"\n"
        while data:
            data = data[os.write(writes, data) :]

    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        program.forked(lambda _machine, text: say({"progress": text}))
        try:
            say({"answer": listing.plain(work(name))})
            code = 0
        except SaltliteError as error:
            say({"error": str(error), "exit": error.exit_code})
        except KeyboardInterrupt:
            say({"error": f"{name}: interrupted", "exit": 128 + signal.SIGINT})
    except BaseException:  # supervision point: nothing may go on into the parent's code
        log.exception("A defect in saltlite, while %s was worked on.", name)
    finally:
        sys.stderr.flush()
        os._exit(code)


def worst_exit_code(done: Done) -> int:
    """What a command ends with: 130 for Ctrl-C, else the highest of what went wrong."""
    if done.interrupted:
        return 128 + signal.SIGINT
    return max((error.exit_code for error in done.errors.values()), default=0)
