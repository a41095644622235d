"""File servers for tests: of what is around them, and of their clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from saltlite.files.client import FileClient
from saltlite.files.roots import DiskFileRoots, FileAsker, MemoryFileRoots
from saltlite.files.server import FileServer, FileService
from saltlite.platform.reactor import Reactor
from saltlite.wire.messages import Message


def no_files(reactor: Reactor) -> FileServer:
    """One without any file, to which minions may send none."""
    return FileServer(reactor, FileService(MemoryFileRoots({})), None)


class Served:
    """A file server of the folder `root`, and a client of it with its own cache, below `folder`."""

    def __init__(self, folder: Path, asker: Callable[[FileAsker], FileAsker] = lambda desk: desk) -> None:
        self.root = folder / "root"
        self.cache = folder / "cache"
        self.extmods = folder / "extmods"
        self.root.mkdir(exist_ok=True)
        desk = FileService(DiskFileRoots({"base": [str(self.root)], "dev": [str(folder / "dev")]}))
        self.client = FileClient(asker(desk), str(self.cache), extmods=str(self.extmods))

    def put(self, path: str, content: str | bytes) -> Path:
        """A served file."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place


class CutOff:
    """Answers so many questions, then fails with `error`."""

    def __init__(self, asker: FileAsker, answers: int, error: BaseException) -> None:
        self._asker = asker
        self.left = answers
        self.asked: list[Message] = []
        self._error = error

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        for question in questions:
            if not self.left:
                raise self._error
            self.left -= 1
            self.asked.append(question)
            yield from self._asker.ask([question])
