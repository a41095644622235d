"""The job server's check of answers: it believes those that a master signed, and turns the others into FORGED.

The network process is what a stranger reaches first, and so is the master's link process. Neither can make a minion
load a plug-in, a file or a pillar that an MWorker did not give it (`saltlite.wire.signatures`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from saltlite.minion.processes.ipc_messages import FORGED
from saltlite.wire.messages import Message, response_message
from saltlite.wire.signatures import is_believed, with_nonce

log = logging.getLogger(__name__)


class AnswerCheck:
    """`keys` are the job keys that are trusted now, `entropy` gives random bytes; `alarm` is told how many answers were
    refused since this process began, after each."""

    def __init__(
        self,
        minion: str,
        keys: Callable[[], Iterable[bytes]],
        entropy: Callable[[int], bytes],
        alarm: Callable[[int], None] = lambda _refused: None,
    ) -> None:
        self._minion = minion
        self._keys = keys
        self._entropy = entropy
        self._alarm = alarm
        self._refused = 0

    def outgoing(self, question: Message) -> Message:
        """The question as the network process gets it."""
        return with_nonce(question, self._entropy)

    def incoming(self, question: Message, answer: Message) -> Message:
        """The answer to a question that was sent like this; in place of one that nobody signed, one that says so."""
        if is_believed(self._keys(), self._minion, question, answer):
            return answer
        self._refused += 1
        log.error(
            "an answer about %s was not signed by a master that this minion trusts, and was not used (%d so far): "
            "somebody may have taken over the link process of the master or the network process of this minion. Look "
            "into both machines, and restart both daemons",
            question.get("path") or question.get("kind") or question.get("operation"),
            self._refused,
        )
        self._alarm(self._refused)
        return response_message(answer["n"], FORGED)
