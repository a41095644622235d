"""Evaluations of pillar: one request and its result, the port that MWorkers use, the queue, and the evaluator process.

Pillar files are user input: a template can loop for ever or fill the memory. MWorkers therefore ask the evaluator
processes. The queue is fair between askers: one evaluation at a time for each, and a pause after one that had to be
killed. An evaluator is forked from a parent without rights, opens no store, has no descriptors but its socket and the
log, and runs under limits of the kernel. Its parent kills it when an evaluation takes too long.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import socket
import struct
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from saltlite.config.external_pillars import ExternalPillar
from saltlite.errors import LocalProtocolError, SaltliteError
from saltlite.limits import HeldContents, RateLimiter
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import ERRORS, MemoryPillarFiles, Nodegroups, PillarFiles, has_top, names_of, pillar_of
from saltlite.platform.logs import DEFECT, log_defect
from saltlite.platform.process import close_all_but, set_parent_death_signal, set_title
from saltlite.wire.codec import encode_pillar
from saltlite.wire.framing import framed, pack, read_frame, unpack
from saltlite.wire.limits import DOC_MAX


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """A request for the pillar of `minion` with these grains. `names`: also the names of its files.

    `asker` is whom the time is counted against: a minion, or an operator.
    """

    asker: str
    minion: MinionId
    grains: Mapping[str, Any]
    names: bool = False
    external: Sequence[Sequence[Any]] = ()
    """Further external pillars, for `pillar.ext`: name and arguments of each."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result: the pillar as an encoded document, or a sentence in `problem`."""

    data: bytes = b""
    errors: tuple[str, ...] = ()
    """Mistakes in pillar files, which are also in the document."""
    top: Mapping[str, list[str]] = field(default_factory=dict)
    """Environment -> names of the files, if they were requested."""
    mistakes: tuple[str, ...] = ()
    """Mistakes in top files, if the names were requested."""
    problem: str = ""
    unsendable: bool = False
    """The pillar is too large for a document: a retry would not help."""
    ended: bool = False
    """The evaluation exceeded a limit, and its process was killed."""
    file: str = ""
    """The file that was being rendered then: `environment/path`."""


class Evaluator(Protocol):
    """Evaluates pillars."""

    def evaluate(self, wanted: EvaluationRequest, done: Callable[[Evaluation], None]) -> None:
        """Calls `done` once with the result, now or in a later turn."""
        ...


def evaluated(
    files: PillarFiles, nodegroups: Nodegroups, wanted: EvaluationRequest, external: ExternalPillars | None = None
) -> Evaluation:
    """Compile the pillar in this process, without limits."""
    top: Mapping[str, list[str]] = {}
    mistakes: list[str] = []
    try:
        if wanted.names:
            top, mistakes = names_of(files, wanted.minion, wanted.grains, nodegroups)
        pillar = _whole(files, nodegroups, wanted, external)
        data = encode_pillar(pillar)
    except LocalProtocolError as error:
        return Evaluation(problem=str(error), unsendable=True)
    except SaltliteError as error:
        return Evaluation(problem=str(error))
    return Evaluation(data, tuple(pillar.get(ERRORS, ())), top, tuple(mistakes))


def _whole(
    files: PillarFiles, nodegroups: Nodegroups, wanted: EvaluationRequest, external: ExternalPillars | None
) -> dict[Any, Any]:
    if external is None:
        return pillar_of(files, wanted.minion, wanted.grains, nodegroups)
    grains = {**wanted.grains, "id": wanted.minion}
    more = [ExternalPillar(*one) for one in wanted.external]
    if external.come_first:
        before, mistakes = external.add_to({}, wanted.minion, grains, more)
        pillar = pillar_of(files, wanted.minion, wanted.grains, nodegroups, before)
        of_files = pillar.pop(ERRORS, [])
    else:
        pillar = pillar_of(files, wanted.minion, wanted.grains, nodegroups)
        of_files = pillar.pop(ERRORS, [])
        pillar, mistakes = external.add_to(pillar, wanted.minion, grains, more)
    pillar.pop(ERRORS, None)
    return {**pillar, ERRORS: [*of_files, *mistakes]} if of_files or mistakes else pillar


if TYPE_CHECKING:
    from saltlite.pillar.external import ExternalPillars

WAITING_MAX: Final = 192
"""Waiting requests. They count towards FILE_ASKS_AT_ONCE, part of which stays free for files."""
WAITING_BYTES: Final = 64 * 1024 * 1024
"""Bytes of waiting requests."""
WAITING_PER_ASKER: Final = 4
"""Waiting requests of one asker."""
WAIT_S: Final = 8.0
"""Seconds that a request may wait; then the minion must ask again, so that the queue stays short."""
PAUSE_MIN_S: Final = 10.0
"""Pause for the same asker and minion after an evaluation that had to be killed ..."""
PAUSE_MAX_S: Final = 600.0
"""... doubled each time up to this."""
PAUSES_MAX: Final = 10_000
"""Recorded pauses; the oldest are dropped."""

SUSPECTS_AT_ONCE: Final = 1
"""Concurrent evaluations of askers whose last one had to be killed; the other processes serve the rest."""

Ticket = TypeVar("Ticket")


@dataclass(frozen=True, slots=True)
class QueuedEvaluation(Generic[Ticket]):
    """One request. `about` is the minion of the pillar."""

    asker: str
    about: str
    size: int
    since: float
    ticket: Ticket


class EvaluationQueue(Generic[Ticket]):
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[QueuedEvaluation[Ticket]]] = OrderedDict()
        """By asker; the next one comes first."""
        self._count = 0
        self._bytes = 0
        self._under_way: dict[str, bool] = {}
        """Asker -> whether its last evaluation had to be killed."""
        self._pauses: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """(asker, minion) -> the end and the length of the pause."""

    def offer(self, place: QueuedEvaluation[Ticket]) -> str:
        """Queue a request; the reason if it is refused, otherwise ""."""
        until, _pause_s = self._pauses.get((place.asker, place.about), (0.0, 0.0))
        if place.since < until:
            return (
                f"the last evaluation of the pillar of {place.about} took too much and was ended; "
                f"it is tried again in {until - place.since:.0f} s"
            )
        own = self._waiting.get(place.asker, ())
        if len(own) >= WAITING_PER_ASKER or self._count >= WAITING_MAX or self._bytes + place.size > WAITING_BYTES:
            return "too many pillars are evaluated at this moment: try again"
        self._waiting.setdefault(place.asker, deque()).append(place)
        self._count += 1
        self._bytes += place.size
        return ""

    def take(self) -> QueuedEvaluation[Ticket] | None:
        """Take the next request, which is then running; None if none may start."""
        full = sum(self._under_way.values()) >= SUSPECTS_AT_ONCE
        for asker, own in self._waiting.items():
            suspect = (asker, own[0].about) in self._pauses
            if asker not in self._under_way and not (suspect and full):
                self._under_way[asker] = suspect
                return self._pop(asker)
        return None

    def overdue(self, now: float) -> list[QueuedEvaluation[Ticket]]:
        """Remove and return the requests that have waited too long."""
        late = [asker for asker, own in self._waiting.items() if now - own[0].since >= WAIT_S]
        return [self._pop(asker) for asker in late]

    def ended(self, place: QueuedEvaluation[Ticket]) -> None:
        """The evaluation has ended in time."""
        self._under_way.pop(place.asker, None)
        self._pauses.pop((place.asker, place.about), None)

    def killed(self, place: QueuedEvaluation[Ticket], now: float) -> float:
        """The evaluation was killed; the pause that follows."""
        self._under_way.pop(place.asker, None)
        key = place.asker, place.about
        _until, before = self._pauses.pop(key, (0.0, 0.0))
        pause_s = min(PAUSE_MAX_S, max(PAUSE_MIN_S, 2 * before))
        self._pauses[key] = now + pause_s, pause_s
        if len(self._pauses) > PAUSES_MAX:
            self._pauses.popitem(last=False)
        return pause_s

    def _pop(self, asker: str) -> QueuedEvaluation[Ticket]:
        own = self._waiting.pop(asker)
        place = own.popleft()
        if own:
            # Behind all others: who asks for much gets no more turns than who asks for one.
            self._waiting[asker] = own
        self._count -= 1
        self._bytes -= place.size
        return place


class MemoryEvaluator:
    """`files` may be replaced."""

    def __init__(self, files: PillarFiles, nodegroups: Nodegroups | None = None) -> None:
        self.files = files
        self._nodegroups = nodegroups or {}

    def evaluate(self, wanted: EvaluationRequest, done: Callable[[Evaluation], None]) -> None:
        done(evaluated(self.files, self._nodegroups, wanted))


# -- The pillars that one MWorker is sending


PILLARS_MEMORY = DOC_MAX
"""Bytes of pillars in one MWorker that are being fetched piece by piece. The oldest is dropped first; its minion starts
again."""

PILLARS_AT_ONCE = 60
"""Evaluations that a minion may ask for at once, so that it cannot keep an MWorker busy …"""
PILLAR_EVERY_S = 1.0
"""… and seconds until it may ask for another one."""


@dataclass(slots=True)
class Pillars:
    """The pillars of one MWorker, which `evaluator` makes from `files` and external pillars. `cached`: whether they go
    into their bank."""

    files: PillarFiles = field(default_factory=lambda: MemoryPillarFiles({}))
    evaluator: Evaluator = field(default_factory=lambda: MemoryEvaluator(MemoryPillarFiles({})))
    cached: bool = True
    external: bool = False
    """Whether the option `ext_pillar` lists any."""
    on_demand: frozenset[str] = frozenset()
    """External pillars that minions may choose."""
    _rate: RateLimiter = field(default_factory=lambda: RateLimiter(1 / PILLAR_EVERY_S, PILLARS_AT_ONCE))
    _under_way: HeldContents = field(default_factory=lambda: HeldContents(PILLARS_MEMORY))

    def any_to_make(self) -> bool:
        """Whether there is a top file or an external pillar."""
        return self.external or has_top(self.files)

    def may_make(self, minion: MinionId, now: float) -> bool:
        """Whether the minion may have another evaluation now, which is then counted. `now` is seconds."""
        return not self._rate.take(minion, now)

    def remember(self, minion: MinionId, sha256: bytes, data: bytes) -> None:
        """Store a pillar that this minion fetches in pieces."""
        self._under_way.put(minion, sha256, data)

    def remembered(self, minion: MinionId, sha256: bytes) -> bytes | None:
        """The pillar with that digest that this minion fetches; None if it was dropped."""
        return self._under_way.get(minion, sha256)

    def forget(self, minion: MinionId, sha256: bytes) -> None:
        """The minion has its complete pillar."""
        self._under_way.drop(minion, sha256)


MEMORY: Final = 256 * 1024 * 1024
"""Bytes that an evaluation may use beyond those of its process at the start; more raise MemoryError in the template."""
CPU_S: Final = 8
"""Seconds of CPU after which the kernel ends the process, whatever the parent does. The parent does so earlier."""
NICENESS: Final = 5
"""Lowers the priority below that of the processes that answer operators and minions."""
WORN_BYTES: Final = 64 * 1024 * 1024
"""A process whose peak memory grew so far ends after its answer, because its memory would not shrink again."""
GOES_ON: Final = b"\0"
WORN: Final = b"\1"
"""The first byte of an answer: whether the process accepts another request."""
NOTE_BYTES: Final = 512
"""Bytes of the name of a file that is shared with the parent."""
TITLE: Final = "evaluator"

_NOTE = struct.Struct(">H")


def new_note() -> mmap.mmap:
    """Create memory that the parent shares with the process that it forks next."""
    return mmap.mmap(-1, NOTE_BYTES)


def noted(note: mmap.mmap) -> str:
    """The last rendered file: `environment/path`."""
    (size,) = _NOTE.unpack_from(note)
    return note[_NOTE.size : _NOTE.size + min(size, NOTE_BYTES - _NOTE.size)].decode("utf-8", "replace")


class Noting:
    """Pillar files that record the name of each file before it is rendered."""

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
        self.begins(f"{env}/{path}")
        return self._files.render(env, path, context)

    def begins(self, what: str) -> None:
        """Record what is evaluated now."""
        name = what.encode("utf-8", "replace")[: NOTE_BYTES - _NOTE.size]
        self._note[: _NOTE.size + len(name)] = _NOTE.pack(len(name)) + name


def run(
    sock: socket.socket,
    files: PillarFiles,
    nodegroups: Nodegroups,
    note: mmap.mmap,
    *,
    parent: int,
    keeps: Collection[int] = (),
    external: ExternalPillars | None = None,
) -> None:
    """In the forked process: answer requests until the parent closes the socket. `keeps`: descriptors of the log."""
    set_parent_death_signal(signal.SIGKILL, parent)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    set_title(TITLE)
    # Programs of external pillars are killed with this process.
    os.setpgid(0, 0)
    os.nice(NICENESS)
    sock.setblocking(True)
    close_all_but((0, 1, 2, sock.fileno(), *keeps))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _address_space() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    watched = Noting(files, note)
    if external is not None:
        external.begins = lambda name: watched.begins(f"ext_pillar {name}")
    peak = _peak()
    while (raw := read_frame(lambda size: sock.recv(min(size, 1024 * 1024)))) is not None:
        _NOTE.pack_into(note, 0, 0)
        _limit_cpu()
        answer = _answer(raw, watched, nodegroups, external)
        worn = _peak() - peak > WORN_BYTES
        sock.sendall(framed((WORN if worn else GOES_ON) + answer))
        if worn:
            return


def _answer(raw: bytes, files: PillarFiles, nodegroups: Nodegroups, external: ExternalPillars | None) -> bytes:
    try:
        asked = unpack(raw)
        wanted = EvaluationRequest(asked["asker"], asked["minion"], asked["grains"], asked["names"], asked["external"])
        return pack(asdict(evaluated(files, nodegroups, wanted, external)))
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
