"""One process of the evaluators: it compiles pillars, one after the other, with limits that the kernel enforces.

It is forked from a parent that has dropped its rights. It opens no store, and has no descriptor but its socket and the
log. Its parent kills it when an evaluation is over its time; what it was at then stands in memory that both share.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import socket
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from saltlite.pillar.compiler import Nodegroups, PillarFiles
from saltlite.pillar.evaluation import Evaluation, EvaluationRequest, evaluated
from saltlite.platform.defects import DEFECT, log_defect
from saltlite.platform.process import close_all_but, set_parent_death_signal, set_title
from saltlite.wire.framing import framed, pack, read_frame, unpack

MEMORY: Final = 256 * 1024 * 1024
"""Bytes that an evaluation may use beyond what its process had at its start; more raise MemoryError in the template."""
CPU_S: Final = 8
"""Seconds of CPU after which the kernel ends the process, whatever the parent does. The parent does so earlier."""
NICENESS: Final = 5
"""How much the process stands back behind those that answer operators and minions."""
WORN_BYTES: Final = 64 * 1024 * 1024
"""A process whose peak grew so far ends after its answer: memory that was used once does not come back by itself."""
GOES_ON: Final = b"\0"
WORN: Final = b"\1"
"""The first byte of an answer: whether the process takes another question."""
NOTE_BYTES: Final = 512
"""Bytes of the name of a file that is shared with the parent."""
TITLE: Final = "evaluator"

_NOTE = struct.Struct(">H")


def new_note() -> mmap.mmap:
    """Memory that a parent shares with the process that it forks next."""
    return mmap.mmap(-1, NOTE_BYTES)


def noted(note: mmap.mmap) -> str:
    """The file that was rendered last: `environment/path`."""
    (size,) = _NOTE.unpack_from(note)
    return note[_NOTE.size : _NOTE.size + min(size, NOTE_BYTES - _NOTE.size)].decode("utf-8", "replace")


class Noting:
    """Pillar files, of which each that is rendered is noted first."""

    def __init__(self, files: PillarFiles, note: mmap.mmap) -> None:
        self._files = files
        self._note = note

    def envs(self) -> Sequence[str]:
        return self._files.envs()

    def has(self, env: str, path: str) -> bool:
        return self._files.has(env, path)

    def names(self, env: str) -> Sequence[str]:
        return self._files.names(env)

    def render(self, env: str, path: str, context: Mapping[str, Any]) -> Any:
        name = f"{env}/{path}".encode("utf-8", "replace")[: NOTE_BYTES - _NOTE.size]
        self._note[: _NOTE.size + len(name)] = _NOTE.pack(len(name)) + name
        return self._files.render(env, path, context)


def run(
    sock: socket.socket,
    files: PillarFiles,
    nodegroups: Nodegroups,
    note: mmap.mmap,
    *,
    parent: int,
    keeps: Collection[int] = (),
) -> None:
    """In the forked process: answer questions until the parent closes the socket. `keeps`: descriptors of the log."""
    set_parent_death_signal(signal.SIGKILL, parent)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    set_title(TITLE)
    os.nice(NICENESS)
    sock.setblocking(True)
    close_all_but((0, 1, 2, sock.fileno(), *keeps))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    watched = Noting(files, note)
    peak = _peak()
    while (raw := read_frame(lambda size: sock.recv(min(size, 1024 * 1024)))) is not None:
        _NOTE.pack_into(note, 0, 0)
        _limit_cpu()
        said = _answer(raw, watched, nodegroups)
        worn = _peak() - peak > WORN_BYTES
        sock.sendall(framed((WORN if worn else GOES_ON) + said))
        if worn:
            return


def _answer(raw: bytes, files: PillarFiles, nodegroups: Nodegroups) -> bytes:
    try:
        asked = unpack(raw)
        wanted = EvaluationRequest(asked["asker"], asked["minion"], asked["grains"], asked["names"])
        return pack(asdict(evaluated(files, nodegroups, wanted)))
    except MemoryError:
        problem = f"it takes more than {MEMORY // (1024 * 1024)} MiB of memory to evaluate"
    except Exception:  # noqa: BLE001 - named supervision point: the process answers, and goes on with the next question
        log_defect("an evaluation")
        problem = DEFECT
    return pack(asdict(Evaluation(problem=problem)))


def _limit_cpu() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + CPU_S + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
