"""Results on their way to the network process: a few at once, the others wait in the spool."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable

from saltlite.errors import JournalError
from saltlite.minion.jobs.results import Results
from saltlite.minion.processes import ipc_messages as inside
from saltlite.minion.protocol.ports import SpoolEntry
from saltlite.model.job import part_of_segment
from saltlite.platform.logs import log_context
from saltlite.wire.framing import IpcMessage
from saltlite.wire.limits import CHUNK

log = logging.getLogger(__name__)

OFFERS_OPEN = 32
"""Results handed to the network process and not acknowledged; the rest wait in the spool."""


class ResultQueue:
    """`tell` hands a message to the network process; `unreadable` is told of each result that the disk has lost."""

    def __init__(self, results: Results, tell: Callable[[IpcMessage], None], unreadable: Callable[[str], None]) -> None:
        self._results = results
        self._tell = tell
        self._unreadable = unreadable
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._offered: set[str] = set()

    def connected(self) -> None:
        """A new session: nothing is on its way in it."""
        self._offered.clear()
        self._waiting.clear()

    def offer(self, result: str) -> None:
        """Hand it over in its turn. What was handed over before is taken as lost, and must not hold a place."""
        self._offered.discard(result)
        self._waiting[result] = None

    def acknowledged(self, result: str) -> None:
        """The master has it; it may have been offered anew just before."""
        self._offered.discard(result)

    def forget(self, result: str) -> None:
        """It is in the spool no more."""
        self._waiting.pop(result, None)

    def hand_over(self) -> None:
        """Hand over as many as may be on their way."""
        while self._waiting and len(self._offered) < OFFERS_OPEN:
            result, _ = self._waiting.popitem(last=False)
            entry = self._read(result)
            if entry is not None:
                self._offered.add(result)
                self._tell(inside.result(result, entry, inline_max=CHUNK))

    def grant(self, result: str) -> None:
        """The master has room for the body of that result."""
        entry = self._read(result)
        if entry is not None:
            self._tell(inside.body(result, entry.body))

    def _read(self, result: str) -> SpoolEntry | None:
        try:
            return self._results.read(result)
        except JournalError as error:
            with log_context(jid=part_of_segment(result)):
                log.error("%s", error)  # noqa: TRY400 - the sentence says it all
            self._unreadable(result)
            return None
