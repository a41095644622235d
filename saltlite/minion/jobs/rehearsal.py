"""Rehearsed jobs: what the fork server runs before its first fork, so that its processes have less to do.

Most of the CPU of a new process goes to the pages that it shares with its parent, because it copies each at the first
write. Code that has run about ten times is specialised by the interpreter: it then finds attributes and globals without
references to their names and types, and so writes to fewer pages. A rehearsed job goes the whole way of the job of a
custom module, from the message to the result. Its module, loader and spool folder are its own, and no code of the
operator runs.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import replace

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import JournalError
from saltlite.loader.index import Index, ModuleFile
from saltlite.loader.loader import Loader
from saltlite.loader.module_builder import PREFIX
from saltlite.loader.search_path import Form
from saltlite.minion.jobs.job_process import JobContext, JobRunner
from saltlite.minion.jobs.spool import UNSYNCED
from saltlite.wire.framing import framed

TIMES = 12
FOLDER = "rehearsal"
"""Name of the folder in the spool, which ignores names that are no results."""
_JID = "0" * 20
_MODULE = "rehearsed"
_TEXT = "def ping():\n    return True\n"


def rehearse(context: JobContext, place: int) -> None:
    """Run TIMES jobs in this process, each with a socket under the descriptor `place`.

    If the disk does not take their files, the rehearsal ends, and processes are slower.
    """
    path = os.path.join(context.spool_dir, FOLDER)
    with suppress(OSError, JournalError):
        os.makedirs(path, 0o700, exist_ok=True)
        try:
            _rehearse_in(path, context, place)
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _rehearse_in(path: str, context: JobContext, place: int) -> None:
    module = ModuleFile(
        path=os.path.join(path, f"{_MODULE}.py"),
        stem=_MODULE,
        layer=FOLDER,
        rank=0,
        form=Form.SOURCE,
        mtime_ns=0,
        size=len(_TEXT),
        functions=("ping",),
        claims=(_MODULE,),
    )
    with open(module.path, "w", encoding="utf-8") as file:
        file.write(_TEXT)
    index = Index((), [module])
    # Without the operator's options, which may name executors of his own.
    runner = JobRunner(replace(context, opts={}, grains={}, pillar={}, index=lambda: index, spool_dir=path), place)
    job = framed(msgpack.packb([_JID, [[f"{_MODULE}.ping", [], {}]], "", [], {}, False]))
    try:
        for _ in range(TIMES):
            runner.loader = Loader(index, {}, {}, {})
            _serve(runner, place, job)
            runner.folder.remove(_JID + UNSYNCED)
    finally:
        runner.folder.close()
        for name in [name for name in sys.modules if name.startswith(f"{PREFIX}{FOLDER}.")]:
            del sys.modules[name]


def _serve(runner: JobRunner, place: int, job: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.dup2(theirs.fileno(), place, inheritable=False)
        ours.sendall(job)
        # The process takes the end of the stream as the sign that the job server has heard of the result.
        ours.shutdown(socket.SHUT_WR)
        runner.serve()
