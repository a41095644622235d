"""The memory and the processes that a machine may use, as control groups of its own; nothing where the host has none.

Contract: the kernel's documentation of cgroup-v1 (one tree for each controller) and cgroup-v2 (one for all).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time

from saltlite.errors import MachineError

log = logging.getLogger(__name__)

ROOT = "/sys/fs/cgroup"
EMPTY_S = 2.0
"""How long a group may take to be empty after its last process has ended."""

_FILES = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}
"""Controller -> the file with its limit, in version 1 and in version 2."""


def limit(name: str, memory: int, processes: int) -> str:
    """Make the group `name` with at most `memory` bytes, and so many processes and threads.

    Its folders with ":" between them; "" where this host can limit nothing.
    """
    found: list[str] = []
    for controller, most in (("memory", memory), ("pids", processes)):
        folder = _limited(name, controller, most, found)
        if not folder:
            log.info("This host has no control group for %s: %s may use as much as there is.", controller, name)
        elif folder not in found:
            found.append(folder)
    return ":".join(found)


def _limited(name: str, controller: str, most: int, kept: list[str]) -> str:
    """The folder of the group that has this limit now, "" for none. `kept` are folders that are used already."""
    parents = (f"{ROOT}/{controller}", ROOT)
    for parent, file in zip(parents, _FILES[controller], strict=True):
        if not os.path.exists(f"{parent}/cgroup.procs"):
            continue
        folder = f"{parent}/{name}"
        try:
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/{file}", "w", encoding="ascii") as limit_file:
                limit_file.write(str(most))
        except OSError as error:
            if folder not in kept:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            log.debug("There is no limit of %s below %s: %s.", controller, parent, error.strerror)
        else:
            return folder
    return ""


def drop_limit(name: str) -> None:
    """Remove the group `name` once its processes have ended; none is no error."""
    deadline = time.monotonic() + EMPTY_S
    for folder in folders_of(name):
        while os.path.isdir(folder):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise MachineError(f"the control group {folder} cannot be removed: {error.strerror}") from error
                time.sleep(0.005)


def folders_of(name: str) -> list[str]:
    """Where the group `name` may be."""
    return [*(f"{ROOT}/{controller}/{name}" for controller in _FILES), f"{ROOT}/{name}"]
