"""The processes that one process has started, and what those have started, for signals that must reach them all.

A process group is not enough: a child that made a session of its own (setsid) has left it. Parents are followed
instead. That finds every descendant while the first process is a child subreaper (PR_SET_CHILD_SUBREAPER) and lives;
what was seen while it lived is remembered for the time after. A process that outlives its parent and is started
between the last look and the end of the first process is not found.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from typing import NamedTuple

ROUNDS_MAX = 20
"""How often SIGKILL looks for processes that were started while it was at work."""


class Found(NamedTuple):
    """One living process; `pid` and `ticks` (start time since boot) together are never reused."""

    pid: int
    ticks: int
    group: int


class ProcessTree:
    """The process `leader`, which leads its group, with all below it."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._seen: set[Found] = set()

    def signal(self, signum: int) -> None:
        """Signal the group and every descendant outside it; none is an error. SIGKILL leaves no descendant.

        Raises PermissionError where the group belongs to another user.
        """
        for _ in range(ROUNDS_MAX):
            found = self._look()
            fresh = found - self._seen
            self._seen |= found
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader, signum)
            for process in found:
                if process.group != self._leader:
                    _signal(process, signum)
            if signum != signal.SIGKILL or not fresh:
                return

    def _look(self) -> set[Found]:
        """The living descendants of the leader and of those that were seen, and these themselves."""
        living, children = _living()
        found = {process for process in self._seen if living.get(process.pid, process).ticks == process.ticks}
        found = {living[process.pid] for process in found if process.pid in living}
        ahead = [self._leader, *(process.pid for process in found)]
        while ahead:
            for process in children[ahead.pop()]:
                if process not in found:
                    found.add(process)
                    ahead.append(process.pid)
        return found


def _living() -> tuple[dict[int, Found], dict[int, list[Found]]]:
    """Every living process by pid, and by the pid of its parent."""
    living: dict[int, Found] = {}
    children: dict[int, list[Found]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The name in parentheses may hold anything. proc(5): 3 state, 4 ppid, 5 pgrp, 22 start.
        fields = text[text.rindex(b")") + 2 :].split()
        if fields[0] not in (b"Z", b"X"):
            process = Found(int(name), int(fields[19]), int(fields[2]))
            living[process.pid] = process
            children[int(fields[1])].append(process)
    return living, children


def _signal(process: Found, signum: int) -> None:
    """Signal it, through a descriptor that was opened before it was looked at again: a pid may be reused."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError, PermissionError):
        fd = os.pidfd_open(process.pid)
        try:
            with open(f"/proc/{process.pid}/stat", "rb") as file:
                text = file.read()
            if int(text[text.rindex(b")") + 2 :].split()[19]) == process.ticks:
                signal.pidfd_send_signal(fd, signum)
        finally:
            os.close(fd)
