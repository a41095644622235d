"""Opening a path below one folder, component by component, so that nothing leads out of it.

Symbolic links are followed by hand: one that stays below the folder works, one that leaves it is as good as missing.
No component is looked up by the kernel from a path of several, so a link that is exchanged between a check and its use
gains nothing. The same rules as RESOLVE_BENEATH of openat2(2), which Python does not offer.
"""

from __future__ import annotations

import errno
import os
from collections import deque

LINKS_MAX = 40
"""Links followed in one path: as many as Linux itself allows."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(root: str, path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of `path` (relative, "" for the root itself) below `root`, opened with `flags`; never waits.

    Raises OSError: as open(2) does, ELOOP after LINKS_MAX links, EXDEV when the path leads out of the root.
    """
    walk = _Walk(root, path)
    try:
        return walk.open(flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        walk.close()


class _Walk:
    """The folders from the root down to where the walk is, and the components still ahead."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._folders = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._ahead = deque(part for part in path.split("/") if part not in ("", "."))
        self._links = 0

    def open(self, flags: int) -> int:
        while self._ahead:
            name = self._ahead.popleft()
            if name == "..":
                self._up()
                continue
            if target := self._link(name):
                self._follow(target)
            elif self._ahead:
                self._folders.append(os.open(name, _FOLDER, dir_fd=self._folders[-1]))
            else:
                return os.open(name, flags, dir_fd=self._folders[-1])
        return os.open(".", flags & ~os.O_NOFOLLOW, dir_fd=self._folders[-1])

    def close(self) -> None:
        for fd in self._folders:
            os.close(fd)

    def _up(self) -> None:
        if len(self._folders) == 1:
            raise OSError(errno.EXDEV, "the path leads out of its folder")
        os.close(self._folders.pop())

    def _link(self, name: str) -> str:
        """Where the link of that name leads; "" for anything that is no link."""
        try:
            return os.readlink(name, dir_fd=self._folders[-1])
        except OSError as error:
            if error.errno == errno.EINVAL:
                return ""
            raise

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            root = self._root.rstrip("/") + "/"
            if not target.startswith(root):
                raise OSError(errno.EXDEV, "a link leads out of its folder")
            target = target.removeprefix(root)
            while len(self._folders) > 1:
                os.close(self._folders.pop())
        self._ahead.extendleft(reversed([part for part in target.split("/") if part not in ("", ".")]))
