"""The notes of running jobs that `saltutil.running` reads: one JSON file a job, under its jid, in a private folder."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection
from contextlib import suppress

from saltlite.minion.jobs.job_process import JobCall

log = logging.getLogger(__name__)


class RunningNotes:
    """Writes and removes the notes. None of this may fail a job, so an error is only told to the log."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._noted: set[str] = set()

    def only(self, jids: Collection[str]) -> None:
        """After a restart: remove the notes of all other jobs."""
        for name in set(os.listdir(self._folder)) - set(jids):
            os.unlink(os.path.join(self._folder, name))

    def note(self, call: JobCall, pid: int, started: float) -> None:
        """Say once that this job runs; `started` is wall-clock seconds."""
        if call.jid in self._noted:
            return
        self._noted.add(call.jid)
        path = os.path.join(self._folder, call.jid)
        row = {"jid": call.jid, "fun": call.fun, "user": call.user, "pid": pid, "started": started}
        try:
            # Hidden until it is whole; readers skip names that are no jid.
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(row, file)
            os.rename(path + ".new", path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path + ".new")
            log.warning("saltutil.running will not list it: %s; make room in %s", error.strerror, self._folder)

    def forget(self, jid: str) -> None:
        """It runs no more."""
        self._noted.discard(jid)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, jid))
