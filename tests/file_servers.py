"""File servers for tests of what is around them."""

from __future__ import annotations

from saltlite.adapters.file_desk import FileDesk
from saltlite.adapters.memory_files import MemoryFileRoots
from saltlite.adapters.reactor import Reactor
from saltlite.master.fileserver import FileServer


def no_files(reactor: Reactor) -> FileServer:
    """One without any file, to which minions may send none."""
    return FileServer(reactor, FileDesk(MemoryFileRoots({})), None)
