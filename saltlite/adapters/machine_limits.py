"""The memory that a machine may use, as a control group of its own; nothing where the host has none to give."""

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


def limit_memory(name: str, memory: int) -> str:
    """Make the group `name` with at most `memory` bytes; its folder, or "" where this host cannot limit memory."""
    for parent, file in ((f"{ROOT}/memory", "memory.limit_in_bytes"), (ROOT, "memory.max")):
        if not os.path.exists(f"{parent}/cgroup.procs"):
            continue
        folder = f"{parent}/{name}"
        try:
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/{file}", "w", encoding="ascii") as limit:
                limit.write(str(memory))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
            log.debug("Memory cannot be limited below %s: %s.", parent, error.strerror)
        else:
            return folder
    log.info("This host has no control groups for memory: the machine %s may use as much as there is.", name)
    return ""


def drop_limit(name: str) -> None:
    """Remove the group `name` once its processes have ended; none is no error."""
    deadline = time.monotonic() + EMPTY_S
    for folder in (f"{ROOT}/memory/{name}", f"{ROOT}/{name}"):
        while os.path.isdir(folder):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise MachineError(f"the control group {folder} cannot be removed: {error.strerror}") from error
                time.sleep(0.005)
