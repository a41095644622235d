"""File servers for tests: of what is around them, and of their clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from saltlite.files.client import FileAsker, FileClient
from saltlite.files.roots import FileRoots, ServedFile
from saltlite.files.server import FileServer, FileService
from saltlite.platform.reactor import Reactor
from saltlite.wire.messages import Message


def no_files(reactor: Reactor) -> FileServer:
    """One without any file, to which minions may send none."""
    return FileServer(reactor, FileService(FileRoots({})), None)


class Served:
    """A file server of the folder `root`, and a client of it with its own cache, below `folder`."""

    def __init__(self, folder: Path, asker: Callable[[FileAsker], FileAsker] = lambda service: service) -> None:
        self.root = folder / "root"
        self.cache = folder / "cache"
        self.extmods = folder / "extmods"
        self.root.mkdir(exist_ok=True)
        service = FileService(FileRoots({"base": [str(self.root)], "dev": [str(folder / "dev")]}))
        self.client = FileClient(asker(service), str(self.cache), extmods=str(self.extmods))

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


class MemoryFile(ServedFile):
    """An open file in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size = len(content)
        self.mode = 0o644
        self.mtime = 0
        self.identity: tuple[int, ...] = (hash(content),)

    def read(self, offset: int, size: int) -> bytes:
        return self._content[offset : offset + size]

    def close(self) -> None:
        pass


class MemoryFileRoots(FileRoots):
    """`files`: environment -> path -> content."""

    def __init__(self, files: Mapping[str, Mapping[str, bytes]]) -> None:
        self._files = files

    def envs(self) -> list[str]:
        return sorted(self._files)

    def names(self, env: str, prefix: str, *, folders: bool) -> list[str]:
        files = [path for path in self._files.get(env, {}) if not prefix or path.startswith(f"{prefix}/")]
        if not folders:
            return sorted(files)
        parents = {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}
        return sorted(parent for parent in parents if not prefix or parent.startswith(f"{prefix}/"))

    def links(self, env: str) -> dict[str, str]:
        return {}

    def open(self, env: str, path: str) -> MemoryFile | None:
        content = self._files.get(env, {}).get(path)
        return None if content is None else MemoryFile(content)
