"""The file server of one MWorker: questions of minions about files, answered without keeping anybody waiting.

A large file is hashed slice by slice, one slice a turn of the reactor, so that handlers of jobs go on in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from saltlite.files.answers import FileService, Finding
from saltlite.files.uploads import Arrival, Uploads
from saltlite.model.ids import MinionId
from saltlite.platform.reactor import Reactor
from saltlite.platform.turn_board import Marks, Turn, TurnBoard
from saltlite.wire.messages import Message, response_message

Say = Callable[[Message], None]


class FileServer:
    """`uploads` is None where minions may not send files. `marks` tell the supervisor of each slice."""

    def __init__(
        self, reactor: Reactor, desk: FileService, uploads: Uploads | None, marks: Marks | None = None
    ) -> None:
        self._marks = marks or TurnBoard([""]).marks("")
        self._reactor = reactor
        self._desk = desk
        self._uploads = uploads
        self._hashing: deque[tuple[Finding | Arrival, Say, Turn]] = deque()

    def ask(self, minion: MinionId, message: Message, say: Say) -> None:
        """Answer a `file_request` or `file_put` of that minion by `say`, now or in a later turn."""
        answer: Message | Finding | Arrival
        if message["t"] == "file_request":
            answer = self._desk.begin(message)
        elif self._uploads is None:
            answer = response_message(message["n"], "refused")
        else:
            answer = self._uploads.put(minion, message)
        if isinstance(answer, Finding | Arrival):
            self._work(answer, say)
        else:
            say(answer)

    def _work(self, work: Finding | Arrival, say: Say) -> None:
        """The first slice now, which is all of most files; the next ones in turn with the others'."""
        said = work.step()
        if said is not None:
            say(said)
            return
        if not self._hashing:
            self._reactor.call_soon(self._next_slice)
        self._hashing.append((work, say, self._marks.now))

    def _next_slice(self) -> None:
        work, say, turn = self._hashing.popleft()
        with self._marks.named(turn):
            said = work.step()
        if said is None:
            self._hashing.append((work, say, turn))
        if self._hashing:
            self._reactor.call_soon(self._next_slice)
        if said is not None:
            say(said)
