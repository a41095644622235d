"""Signals to the processes of jobs, with all that these have started."""

from __future__ import annotations

import logging

from saltlite.platform.logs import log_context
from saltlite.platform.process import ProcessTree

log = logging.getLogger(__name__)


class Kills:
    """Remembers what was found below a job's process, for as long as that process is not reaped."""

    def __init__(self) -> None:
        self._trees: dict[int, ProcessTree] = {}

    def signal(self, jid: str, pid: int, signum: int) -> None:
        """Signal the process of that job, its group, and every descendant."""
        with log_context(jid=jid):
            log.info("signal %d to its processes", signum)
            try:
                self._trees.setdefault(pid, ProcessTree(pid)).signal(signum)
            except PermissionError as error:
                log.warning("its process group cannot be signalled: %s; run the minion as that user", error.strerror)

    def over(self, pid: int) -> None:
        """That process was reaped."""
        self._trees.pop(pid, None)
