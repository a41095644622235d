"""The process that has pillars evaluated, and the client by which MWorkers ask it.

Pillar files are templates, and a template can loop or exhaust the memory. This process opens no store, runs as the
master's user, and evaluates nothing itself: it forks a few evaluator processes on demand, passes the questions of
MWorkers to them, and kills one that uses more than EVALUATION_CPU_S. The minion that asked for that waits before its
next evaluation; all others continue.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, field
from functools import partial

from saltlite.errors import LocalProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.pillar import evaluation
from saltlite.pillar.compiler import Nodegroups, PillarFiles
from saltlite.pillar.evaluation import (
    WAIT_S,
    Evaluation,
    EvaluationQueue,
    EvaluationRequest,
    QueuedEvaluation,
    new_note,
    noted,
)
from saltlite.pillar.external import ExternalPillars
from saltlite.platform import logs
from saltlite.platform.logs import supervised
from saltlite.platform.process import Child, cpu_seconds, freeze_heap, watch_exit
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import Channel, ProcessClient
from saltlite.platform.supervision import how
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import DOC_MAX, MIB

log = logging.getLogger(__name__)

PROCESSES = 3
"""Concurrent evaluations, so that one that hangs does not block the others."""
EVALUATION_CPU_S = 5.0
"""CPU seconds of one evaluation; then its process is killed."""
EVALUATION_S = 15.0
"""Wall-clock seconds of one evaluation, which may get less than a CPU, or wait."""
BAD_FILE_CPU_S = 1.0
"""CPU seconds in a file in which another evaluation was killed."""
BAD_FILE_S = 600.0
"""How long such a file is remembered."""
BAD_FILES_MAX = 100
"""Such files that are remembered."""
CHECK_S = 0.25
"""How often the CPU time of an evaluation is checked."""
MESSAGE_MAX = DOC_MAX + MIB
"""Bytes of one question or answer."""
BUFFER_MAX = 4 * MESSAGE_MAX
LOOK_S = 0.5
"""How often questions that wait too long are rejected."""

MakeChannel = Callable[[Callable[[list[bytes]], None], Callable[[str], None]], Channel]


@dataclass(frozen=True, slots=True)
class _Question:
    """A question of an MWorker under its number; `raw` goes to the process unchanged."""

    channel: Channel
    number: int
    raw: bytes = field(repr=False)


@dataclass(eq=False, slots=True)
class _Process:
    """One evaluator process, and its current question."""

    note: mmap.mmap
    child: Child = field(init=False)
    channel: Channel = field(init=False)
    place: QueuedEvaluation[_Question] | None = None
    timer: Timer | None = None
    since: float = 0.0
    cpu_before: float = 0.0
    too_much: str = ""
    """Why it was killed."""


class Evaluators:
    """Answers `{n, asker, id, raw}` with `{n, response}`. Only the two ends read `raw` and `response`."""

    def __init__(
        self, reactor: Reactor, files: PillarFiles, nodegroups: Nodegroups, external: ExternalPillars | None = None
    ) -> None:
        self._reactor = reactor
        self._files = files
        self._nodegroups = nodegroups
        self._external = external
        self._queue: EvaluationQueue[_Question] = EvaluationQueue()
        self._processes: list[_Process] = []
        self._closed = False
        self._bad_files: OrderedDict[str, float] = OrderedDict()
        freeze_heap()
        self._look()

    def add(self, make_channel: MakeChannel) -> None:
        """An MWorker has connected."""
        holder: list[Channel] = []

        def on_batch(batch: list[bytes]) -> None:
            for data in batch:
                supervised("a question about a pillar", partial(self._asked, holder[0], data))

        holder.append(make_channel(on_batch, lambda _reason: None))

    def pids(self) -> list[int]:
        """The pids of its processes."""
        return [process.child.pid for process in self._processes]

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for process in self._processes:
            _kill(process)

    # -- questions

    def _asked(self, channel: Channel, data: bytes) -> None:
        asked = unpack(data)
        question = _Question(channel, asked["n"], asked["raw"])
        place = QueuedEvaluation(asked["asker"], asked["id"], len(data), self._reactor.now(), question)
        refusal = self._queue.offer(place)
        if refusal:
            self._say(question, Evaluation(problem=refusal))
        else:
            self._next()

    def _next(self) -> None:
        """Give each free process the next question."""
        while True:
            free = next((one for one in self._processes if one.place is None and not one.channel.closed), None)
            if self._closed or (free is None and len(self._processes) >= PROCESSES):
                return
            place = self._queue.take()
            if place is None:
                return
            process = free or self._fork()
            process.place, process.since, process.cpu_before = (
                place,
                self._reactor.now(),
                cpu_seconds(process.child.pid),
            )
            process.timer = self._reactor.call_later(CHECK_S, partial(self._check, process))
            process.channel.send(place.ticket.raw)
            process.channel.flush()

    def _look(self) -> None:
        for place in self._queue.overdue(self._reactor.now()):
            self._say(place.ticket, Evaluation(problem="pillars are evaluated too slowly at this moment: try again"))
        self._reactor.call_later(LOOK_S, self._look)

    def _say(self, question: _Question, evaluation: Evaluation) -> None:
        self._pass_on(question, pack(asdict(evaluation)))

    def _pass_on(self, question: _Question, response: bytes) -> None:
        question.channel.send(pack({"n": question.number, "response": response}))

    # -- processes

    def _fork(self) -> _Process:
        ours, theirs = socket.socketpair()
        process = _Process(new_note())
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                keeps = logs.descriptors()
                evaluation.run(
                    theirs,
                    self._files,
                    self._nodegroups,
                    process.note,
                    parent=parent,
                    keeps=keeps,
                    external=self._external,
                )
            finally:
                os._exit(0)
        theirs.close()
        process.child = watch_exit(self._reactor, pid, partial(self._exited, process))
        process.channel = Channel(
            self._reactor,
            ours,
            partial(self._on_result, process),
            partial(self._fell_silent, process),
            message_max=MESSAGE_MAX,
            send_buffer_max=BUFFER_MAX,
        )
        self._processes.append(process)
        return process

    def _on_result(self, process: _Process, batch: list[bytes]) -> None:
        """Its answer, after a byte that tells whether the process ends now."""
        for data in batch:
            place = self._free(process)
            if place is not None:
                self._queue.ended(place)
                self._pass_on(place.ticket, data[1:])
            if data[:1] == evaluation.WORN:
                self._processes.remove(process)
                process.channel.close()
        self._next()

    def _fell_silent(self, process: _Process, _reason: str) -> None:
        """It closed its socket, or its answer is too large."""
        _kill(process)

    def _free(self, process: _Process) -> QueuedEvaluation[_Question] | None:
        place, process.place = process.place, None
        if process.timer is not None:
            process.timer.cancel()
            process.timer = None
        return place

    def _check(self, process: _Process) -> None:
        """Kill an evaluation that takes too long; otherwise check again later."""
        now = self._reactor.now()
        cpu_s = cpu_seconds(process.child.pid) - process.cpu_before
        known = now - self._bad_files.get(noted(process.note), -BAD_FILE_S) < BAD_FILE_S
        most_s = BAD_FILE_CPU_S if known else EVALUATION_CPU_S
        if cpu_s >= most_s:
            process.too_much = f"it took more than {most_s:g} s of CPU"
        elif now - process.since >= EVALUATION_S:
            process.too_much = f"it took more than {EVALUATION_S:g} s"
        else:
            process.timer = self._reactor.call_later(CHECK_S, partial(self._check, process))
            return
        _kill(process)

    def _exited(self, process: _Process, status: int | None) -> None:
        # Its last answer is read in this turn at the latest.
        self._reactor.call_soon(partial(self._gone, process, status))

    def _gone(self, process: _Process, status: int | None) -> None:
        if process not in self._processes:
            return
        self._processes.remove(process)
        process.channel.close()
        place = self._free(process)
        if place is not None:
            self._killed(process, place, status)
        self._next()

    def _killed(self, process: _Process, place: QueuedEvaluation[_Question], status: int | None) -> None:
        pause_s = self._queue.killed(place, self._reactor.now())
        file = noted(process.note)
        why = process.too_much or f"its process ended ({how(status)})"
        where = f" in {file}" if file else ""
        if file:
            self._bad_files[file] = self._reactor.now()
            if len(self._bad_files) > BAD_FILES_MAX:
                self._bad_files.popitem(last=False)
        log.error(
            "the evaluation of the pillar of %s for %s was ended%s: %s; it is not tried again for %g s",
            place.about,
            place.asker,
            where,
            why,
            pause_s,
        )
        problem = f"the evaluation of the pillar of {place.about} was ended{where}: {why}"
        self._say(place.ticket, Evaluation(problem=problem, ended=True, file=file))


def _kill(process: _Process) -> None:
    """Kill it with the programs that it has started."""
    # As long as the process exists or was not waited for, no other group can have its number.
    if process.child.signal(0):
        with suppress(ProcessLookupError):
            os.killpg(process.child.pid, signal.SIGKILL)
    process.child.signal(signal.SIGKILL)


ANSWER_S = WAIT_S + EVALUATION_S + 5.0
"""How long an MWorker waits for an evaluation."""

Done = Callable[[Evaluation], None]


class Evaluations:
    """The client of `Evaluators`. The process at `path` must be of user `uid`: another could forge pillars."""

    def __init__(self, reactor: Reactor, path: str, uid: int) -> None:
        self._process = ProcessClient(
            reactor, path, uid, "no pillar can be made", message_max=MESSAGE_MAX, send_buffer_max=BUFFER_MAX
        )

    def evaluate(self, wanted: EvaluationRequest, done: Done) -> None:
        raw = pack(asdict(wanted))
        request = {"asker": wanted.asker, "id": wanted.minion, "raw": raw}
        try:
            self._process.ask(request, ANSWER_S, lambda answer: done(_evaluation(answer)))
        except LocalProtocolError as error:
            done(Evaluation(problem=str(error), unsendable=True))


def _evaluation(answer: IpcMessage | None) -> Evaluation:
    if answer is None:
        return Evaluation(problem="the evaluators do not answer: try again, or look at the log")
    fields = unpack(answer["response"])
    fields["errors"], fields["mistakes"] = tuple(fields["errors"]), tuple(fields["mistakes"])
    return Evaluation(**fields)
