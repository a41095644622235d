"""The process of one job: forked from the job server, enters one function, leaves the result in the spool.

It waits behind a gate until the journal says that it was started; if the job server dies before, it sees the
gate's end and goes without having done anything. It writes its result itself, so that it needs nobody.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.adapters.folder import PosixFolder
from saltlite.adapters.process import set_title
from saltlite.adapters.spool import DiskSpool
from saltlite.core.minion_ports import SpoolEntry
from saltlite.errors import JournalError
from saltlite.loader.call import call
from saltlite.loader.encode import encode_return
from saltlite.loader.finder import Index
from saltlite.loader.loader import Loader
from saltlite.model.job import TargetState

TITLE = "saltlite-job"
NO_RESULT = 1
"""Exit status of a process that could not leave its result."""


@dataclass(frozen=True, slots=True)
class JobCall:
    """What to run."""

    jid: str
    fun: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    user: str


@dataclass(slots=True)
class Surroundings:
    """What every job of this minion finds: configuration, grains, the index of modules, where results go."""

    opts: dict[str, Any]
    grains: dict[str, Any]
    index: Callable[[], Index]
    """The index as the files are now; unchanged files are not read again."""
    spool_dir: str
    phase_is: Callable[[str, str], None]
    """Told where the connection is, for `systemctl status`."""


def fork_job(job: JobCall, surroundings: Surroundings) -> tuple[int, int]:
    """Make the process, which waits; (pid, gate). One byte into the gate lets it go, closing it ends it.

    Raises OSError when there is no room for another process.
    """
    index = surroundings.index()
    waiting, gate = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:
        os.close(waiting)
        os.close(gate)
        raise
    if pid == 0:
        _become(job, surroundings, index, waiting)
    os.close(waiting)
    return pid, gate


def _become(job: JobCall, surroundings: Surroundings, index: Index, waiting: int) -> None:
    """The process's whole life; it never returns."""
    status = NO_RESULT
    try:
        _stand_alone(waiting)
        if os.read(3, 1):
            _run(job, surroundings, index)
        status = 0
    except JournalError as error:
        sys.stderr.write(f"job {job.jid}: its result is lost: {error}\n")
    except BaseException:  # noqa: BLE001 - named supervision point: the last frame of a job's process
        traceback.print_exc()
    finally:
        os._exit(status)


def _stand_alone(waiting: int) -> None:
    """Leave the daemon: own session and group, no descriptor of it but the gate, which becomes number 3."""
    os.setsid()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    if waiting != 3:
        os.dup2(waiting, 3, inheritable=False)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # What a module prints belongs to the log, and must not be taken for anything else.
    os.dup2(2, 1)
    set_title(TITLE)


def _run(job: JobCall, surroundings: Surroundings, index: Index) -> None:
    spool = DiskSpool(PosixFolder(surroundings.spool_dir))
    pub = {"jid": job.jid, "fun": job.fun, "arg": list(job.args), "user": job.user}
    started, began = time.time(), time.monotonic()
    loader = Loader(index, surroundings.opts, surroundings.grains, {})
    outcome = call(loader, job.fun, job.args, job.kwargs, pub=pub)
    entry = SpoolEntry(
        state=TargetState.RETURNED,
        code=max(-(2**31), min(2**31, outcome.retcode)),
        body=encode_return(outcome.value),
        start_ms=int(started * 1000),
        dur_ms=int((time.monotonic() - began) * 1000),
        reason=" ".join(outcome.warnings)[:512],
    )
    spool.write(job.jid, entry)
