"""The twin of `saltlite.files.roots` in memory."""

from __future__ import annotations

from collections.abc import Mapping


class MemoryFile:
    """An open file (`saltlite.files.ports.ServedFile`)."""

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


class MemoryFileRoots:
    """`files`: environment -> path -> content (`saltlite.files.ports.FileRoots`)."""

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

    def links(self, env: str) -> dict[str, str]:  # noqa: ARG002 - there are none in memory
        return {}

    def open(self, env: str, path: str) -> MemoryFile | None:
        content = self._files.get(env, {}).get(path)
        return None if content is None else MemoryFile(content)
