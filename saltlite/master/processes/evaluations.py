"""The way from an MWorker to the process that makes pillars (`saltlite.pillar.evaluation.Evaluator`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from saltlite.errors import LocalProtocolError, RefusedError, UnreachableError
from saltlite.master.processes.evaluators import BUFFER_MAX, EVALUATION_S, MESSAGE_MAX
from saltlite.pillar.evaluation import Evaluation, Wanted
from saltlite.pillar.evaluation_queue import WAIT_S
from saltlite.platform.defects import supervised
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import Channel, connect_unix, peer_of
from saltlite.wire.ipc import pack, unpack

log = logging.getLogger(__name__)

ANSWER_S = WAIT_S + EVALUATION_S + 5.0
"""How long an MWorker waits for an answer."""
_GONE = Evaluation(problem="the evaluators do not answer: try again, or look at the log")

Done = Callable[[Evaluation], None]


class Evaluations:
    """Asks the process at `path`, which must be one of the user `uid`: others could give any pillar to anybody."""

    def __init__(self, reactor: Reactor, path: str, uid: int) -> None:
        self._reactor = reactor
        self._path = path
        self._uid = uid
        self._channel: Channel | None = None
        self._asked: dict[int, tuple[Done, Timer]] = {}
        self._numbers = 0

    def evaluate(self, wanted: Wanted, done: Done) -> None:
        if self._channel is None:
            self._connect()
        if self._channel is None:
            done(_GONE)
            return
        self._numbers += 1
        number = self._numbers
        raw = pack({"asker": wanted.asker, "minion": wanted.minion, "grains": wanted.grains, "names": wanted.names})
        message = pack({"n": number, "asker": wanted.asker, "id": wanted.minion, "raw": raw})
        try:
            self._channel.send(message)
        except LocalProtocolError as error:
            done(Evaluation(problem=str(error), unsendable=True))
            return
        timer = self._reactor.call_later(ANSWER_S, lambda: self._answered(number, _GONE))
        self._asked[number] = done, timer

    def _answered(self, number: int, evaluation: Evaluation) -> None:
        done, timer = self._asked.pop(number, (None, None))
        if done is not None and timer is not None:
            timer.cancel()
            done(evaluation)

    def _connect(self) -> None:
        try:
            sock = connect_unix(self._path)
        except (UnreachableError, RefusedError) as error:
            log.error("no pillar can be made: %s", error)  # noqa: TRY400 - the sentence says it all
            return
        if peer_of(sock).uid != self._uid:
            log.error("no pillar can be made: %s is not the master's, but of user %d", self._path, peer_of(sock).uid)
            sock.close()
            return
        self._channel = Channel(
            self._reactor, sock, self._on_batch, self._closed, message_max=MESSAGE_MAX, send_buffer_max=BUFFER_MAX
        )

    def _on_batch(self, batch: list[bytes]) -> None:
        for data in batch:
            supervised("a pillar that was made", partial(self._said, data))

    def _said(self, data: bytes) -> None:
        said = unpack(data)
        self._answered(said["n"], _evaluation(unpack(said["response"])))

    def _closed(self, _reason: str) -> None:
        self._channel = None
        for number in list(self._asked):
            self._answered(number, _GONE)


def _evaluation(said: dict[str, Any]) -> Evaluation:
    said["errors"], said["mistakes"] = tuple(said["errors"]), tuple(said["mistakes"])
    return Evaluation(**said)
