"""The named crash points: functions of the product, before or after which a process is made to die.

A point names a place where a step of the protocol is half done: written and not committed, committed and not
told, told and not forgotten. The product knows nothing of them; `launch` wraps the functions. A test checks that
every one of them still exists under its name.
"""

from __future__ import annotations

import importlib
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.minion.protocol.effects import JournalStep

MASTER = "saltlite-master"
MINION = "saltlite-minion"


def always(_args: Sequence[Any]) -> bool:
    """Every call of the function."""
    return True


def writes(step: JournalStep) -> Callable[[Sequence[Any]], bool]:
    """Calls of `Journal.append` whose records have this step."""

    def when(args: Sequence[Any]) -> bool:
        return any(record.step is step for record in args[1])

    return when


@dataclass(frozen=True, slots=True)
class Point:
    """`where` is "module:qualified.name" as the product calls it; `after`: when the function has returned."""

    daemon: str
    where: str
    after: bool = False
    when: Callable[[Sequence[Any]], bool] = always

    def holder(self) -> tuple[Any, str]:
        """What holds the function, and its name there. Raises ImportError or AttributeError."""
        module, _, qualified = self.where.partition(":")
        above, _, name = qualified.rpartition(".")
        place = importlib.import_module(module)
        holder = operator.attrgetter(above)(place) if above else place
        return holder, name

    def function(self) -> Callable[..., Any]:
        """The function as it is now."""
        holder, name = self.holder()
        found: Callable[..., Any] = getattr(holder, name)
        return found


_WRITER = "saltlite.master.store.sqlite.statements:SqliteWriter"
_TO_LINK = "saltlite.master.processes.link_channel:LinkChannel"
_HUB = "saltlite.master.protocol.session_manager:SessionManager"
_JOURNAL = "saltlite.minion.jobs.journal:DiskJournal"
_SPOOL = "saltlite.minion.jobs.spool:DiskSpool"
_FOLDER = "saltlite.platform.files:PosixFolder"

POINTS: dict[str, Point] = {
    # An MWorker.
    "before_publish_commit": Point(MASTER, f"{_WRITER}.put_job", after=True),
    "after_publish_commit": Point(MASTER, f"{_TO_LINK}.publish"),
    "before_publish_answer": Point(MASTER, f"{_TO_LINK}.publish", after=True),
    "before_return_commit": Point(MASTER, f"{_WRITER}.put_returns", after=True),
    "after_return_commit": Point(MASTER, f"{_TO_LINK}.committed"),
    "after_committed_told": Point(MASTER, f"{_TO_LINK}.committed", after=True),
    "before_passing_commit": Point(MASTER, f"{_WRITER}.set_parts", after=True),
    "before_news": Point(MASTER, "saltlite.master.handlers.jobs:JobFollower.news"),
    "after_news": Point(MASTER, "saltlite.master.handlers.jobs:JobFollower.news", after=True),
    # The link process.
    "before_job_send": Point(MASTER, f"{_HUB}.deliver"),
    "after_job_send": Point(MASTER, "saltlite.master.protocol.sessions:Outbox.put", after=True),
    "before_ret_ack": Point(MASTER, f"{_HUB}.committed"),
    "after_ret_ack": Point(MASTER, f"{_HUB}.committed", after=True),
    "before_frame": Point(MASTER, f"{_HUB}.frame"),
    # The job server.
    "before_received_written": Point(MINION, f"{_JOURNAL}.append", when=writes(JournalStep.RECEIVED)),
    "after_received_written": Point(MINION, f"{_JOURNAL}.append", after=True, when=writes(JournalStep.RECEIVED)),
    "before_started_written": Point(MINION, f"{_JOURNAL}.append", when=writes(JournalStep.STARTED)),
    "after_started_written": Point(MINION, f"{_JOURNAL}.append", after=True, when=writes(JournalStep.STARTED)),
    "after_journal_sync": Point(MINION, f"{_JOURNAL}.sync", after=True),
    "before_job_goes": Point(MINION, "saltlite.minion.jobs.job_process:JobProcess.go"),
    "after_job_goes": Point(MINION, "saltlite.minion.jobs.job_process:JobProcess.go", after=True),
    "before_done_written": Point(MINION, f"{_JOURNAL}.append", when=writes(JournalStep.DONE)),
    "after_done_written": Point(MINION, f"{_JOURNAL}.append", after=True, when=writes(JournalStep.DONE)),
    "before_offer": Point(MINION, "saltlite.minion.processes.ipc_messages:result"),
    "before_acked_written": Point(MINION, f"{_JOURNAL}.append", when=writes(JournalStep.ACKED)),
    "before_forget": Point(MINION, f"{_SPOOL}.remove"),
    "after_forget": Point(MINION, f"{_SPOOL}.remove", after=True),
    # The process of a job.
    "before_enter": Point(MINION, "saltlite.loader.call:call"),
    "after_function": Point(MINION, "saltlite.loader.call:call", after=True),
    "before_spool_written": Point(MINION, f"{_SPOOL}.write"),
    "before_spool_rename": Point(MINION, f"{_FOLDER}.rename"),
    "after_spool_rename": Point(MINION, f"{_FOLDER}.rename", after=True),
    "after_spool_written": Point(MINION, f"{_SPOOL}.write", after=True),
    # The minion's network process.
    "before_job_passed_on": Point(MINION, "saltlite.minion.processes.network:MasterConnection.on_frame"),
    "before_result_sent": Point(MINION, "saltlite.minion.protocol.connection:ConnectionMachine.send"),
    "after_result_sent": Point(MINION, "saltlite.minion.protocol.connection:ConnectionMachine.send", after=True),
}


def on_file(text: str) -> Callable[[Sequence[Any]], bool]:
    """Calls on an open file, or folder, whose path has that text in it."""

    def when(args: Sequence[Any]) -> bool:
        return text in os.readlink(f"/proc/self/fd/{args[0]._fd}")

    return when


_FILE = "saltlite.platform.files:PosixHandle"

ERRORS: dict[str, Point] = {
    "journal_write": Point(MINION, f"{_FILE}.write", when=on_file("/minion/journal")),
    "journal_sync": Point(MINION, f"{_FILE}.sync", when=on_file("/minion/journal")),
    "spool_write": Point(MINION, f"{_FILE}.write", when=on_file("/minion/spool/")),
    "spool_sync": Point(MINION, f"{_FILE}.sync", when=on_file("/minion/spool/")),
}
"""Calls that can be made to fail as a disk fails. The store's are in C: tests use `strace` for those."""

PACE: dict[str, float] = {
    "saltlite.master.protocol.sessions:HEARTBEAT_MIN_S": 1.0,
    "saltlite.minion.protocol.connection:BACKOFF_MIN_S": 0.1,
    "saltlite.minion.protocol.connection:SETTLED_S": 0.0,
    "saltlite.platform.supervision:STEADY_S": 0.0,
    "saltlite.master.processes.maintenance:SWEEP_S": 2.0,
}
"""Times of the product that are shorter here: "module:NAME" -> seconds. A fleet that takes a fault a second would
otherwise mostly wait: its back-off would grow as it must when a master keeps dying, and so would pauses of restarts.
None of them is what a guarantee rests on."""
