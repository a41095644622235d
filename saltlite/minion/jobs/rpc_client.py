"""The job's side of `saltlite.minion.jobs.rpc_server`: a process of a job asks over its socket, and waits for the
answer.

Answers may come in another order than the questions, and several threads of a function may wait at once.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from saltlite.errors import CommandExecutionError
from saltlite.minion.processes.ipc_messages import FORGED
from saltlite.wire.framing import IpcMessage, framed, pack, read_frame, unpack
from saltlite.wire.limits import FILE_ASKS_MAX
from saltlite.wire.messages import Message

ASK = b"?"
"""What a process says to ask the minion for something; the length of a message follows, and it."""
PATIENCE_S = 600.0
"""How long a question waits for its answer: a master may be restarted meanwhile, and its minions come back slowly."""
REFRESH_S = 150.0
"""How long a new look is waited for: longer than a resource type may take to say what it has."""
BUSY_S = 0.5
"""After so long a piece that the master had no room for is offered again."""


class RpcClient:
    """What one process of a job has asked. `fd` is its socket."""

    def __init__(self, fd: int, patience_s: float = PATIENCE_S) -> None:
        self._fd = fd
        self._patience_s = patience_s
        self._numbers = 0
        self._answers: dict[int, IpcMessage] = {}
        self._unwanted: set[int] = set()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._saying = threading.Lock()
        self._hearing = threading.Lock()

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        """The answers of the master to `file_request` and `file_put` messages (whose `n` is set here), in order.

        Several are on their way at once. Raises CommandExecutionError when the minion or the master stays silent.
        """
        ahead: deque[tuple[int, Message]] = deque()
        try:
            for question in questions:
                ahead.append((self._say(question), question))
                if len(ahead) == FILE_ASKS_MAX:
                    yield self._settled(ahead)
            while ahead:
                yield self._settled(ahead)
        finally:
            self._unwanted.update(number for number, _question in ahead)

    def event(self, message: Message, patience_s: float) -> Message | None:
        """What the master says to an `event` (whose `n` is set here), None when it says nothing in that time: it may
        write the event down nevertheless, for the minion goes on asking."""
        number = self._say(message)
        answer = self._answer_within(number, patience_s)
        if answer is None:
            self._unwanted.add(number)
        return answer

    def refresh(self, what: str) -> IpcMessage:
        """Have the minion look anew at its "modules", "grains", "pillar" or "resources", and return when it has, with
        what it tells about that.

        Raises CommandExecutionError when that takes longer than REFRESH_S; it goes on nevertheless.
        """
        number = self._say({"t": "refresh", "what": what})
        patience_s = min(REFRESH_S, self._patience_s)
        answer = self._answer_within(number, patience_s)
        if answer is None:
            self._unwanted.add(number)
            raise CommandExecutionError(
                f"The minion still refreshes its {what} after {patience_s:g} s, and goes on with it: its log says what "
                "it waits for, and `saltlite doctor` there whether it has a master."
            )
        told: IpcMessage = answer["told"]
        return told

    def _settled(self, ahead: deque[tuple[int, Message]]) -> Message:
        number, question = ahead.popleft()
        answer = self._answer(number)
        while answer["state"] == "busy":
            time.sleep(BUSY_S)
            answer = self._answer(self._say(question))
        if answer["state"] == FORGED:
            raise CommandExecutionError(
                "An answer came that no master of this minion has signed, and was not used: the minion's log says more."
            )
        return answer

    def _say(self, message: Message) -> int:
        with self._saying:
            self._numbers += 1
            data = pack({**message, "n": self._numbers})
            rest = memoryview(ASK + framed(data))
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except BrokenPipeError:
                raise _minion_gone() from None
            return self._numbers

    def _answer(self, number: int) -> IpcMessage:
        answer = self._answer_within(number, self._patience_s)
        if answer is None:
            text = f"The master has not answered for {self._patience_s:g} s: look at the minion's log."
            raise CommandExecutionError(text)
        return answer

    def _answer_within(self, number: int, patience_s: float) -> IpcMessage | None:
        give_up_at = time.monotonic() + patience_s
        while True:
            with self._hearing:
                if number in self._answers:
                    return self._answers.pop(number)
                left = give_up_at - time.monotonic()
                if left <= 0 or not self._poll.poll(left * 1000):
                    return None
                data = read_frame(partial(os.read, self._fd))
                if data is None:
                    raise _minion_gone()
                answer = unpack(data)
            if answer["n"] in self._unwanted:
                self._unwanted.discard(answer["n"])
            else:
                self._answers[answer["n"]] = answer


def _minion_gone() -> CommandExecutionError:
    return CommandExecutionError("The minion was restarted while this function ran: run it again.")
