"""Paths on a machine that others use meanwhile: walked folder by folder, and held open where they end.

What belongs here: going along a path, deciding which links are followed, and holding what was found, so that nobody can
exchange it between a look and a deed. It knows nothing of contents.

The minion acts as root in folders that others write into, and they can put a link wherever a path leads there. A link
of root's, or of the minion's own user, is followed, and so is every link in a folder into which nobody else writes. Any
other is followed to where its owner could have written without the minion: into a folder, or to a file, of that same
user. Everywhere else it leads the minion to do what its owner may not, and is refused. This is stricter than Linux'
`fs.protected_symlinks`, which asks for sticky folders only, and does not depend on it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from saltlite.errors import CommandExecutionError

LINKS_MAX = 40
"""Links that are followed along one path, as the kernel has it."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Place(NamedTuple):
    """Where a path ends: an open folder, for `dir_fd`, and a name in it, which is no link unless one was asked for."""

    folder: int
    name: str

    def status(self) -> os.stat_result | None:
        """What the kernel knows of it, a link itself; None when there is nothing. Raises OSError."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def pinned(path: str, *, follow_symlinks: bool = True) -> Iterator[Place]:
    """Where the path ends, there being something or not; `follow_symlinks` is about its last part.

    Raises OSError, and CommandExecutionError for a link that is not followed, see above.
    """
    walk = _Walk(path)
    try:
        place = walk.end(follow_symlinks=follow_symlinks)
        walk.refuse_strange_links(place)
        yield place
    finally:
        os.close(walk.folder)


@contextlib.contextmanager
def held(path: str, *, follow_symlinks: bool = True) -> Iterator[str]:
    """Another path of what is there now, which goes on meaning the very same file, folder or link: see `hold`.

    Raises OSError and CommandExecutionError as `pinned` does, and FileNotFoundError.
    """
    with pinned(path, follow_symlinks=follow_symlinks) as place, hold(place, follow_symlinks=follow_symlinks) as same:
        yield same


@contextlib.contextmanager
def hold(place: Place, *, follow_symlinks: bool = False) -> Iterator[str]:
    """A path of what is at a place, also when something else takes its place meanwhile.

    With `follow_symlinks` there must be no link, as behind `pinned`, which has followed them. Raises OSError.
    """
    fd = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
    try:
        if follow_symlinks and stat.S_ISLNK(os.fstat(fd).st_mode):
            raise OSError(errno.ELOOP, "It became a link while it was looked at", place.name)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def refuse_strange_links(path: str) -> None:
    """Raise CommandExecutionError when a link on the way is not followed, see above: for paths given to programs.

    A path that cannot be walked is none of this function's: whoever opens it says so.
    """
    with contextlib.suppress(OSError), pinned(path):
        pass


class _Walk:
    """One way along a path; `folder` is the open folder that it has come to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._parts: list[str] = []
        self._strange: list[tuple[str, int]] = []
        self._links = 0
        self.folder = os.open("/" if path.startswith("/") else ".", _FOLDER)
        self._go_on(path)

    def end(self, *, follow_symlinks: bool) -> Place:
        """Walk all folders; where the last part is."""
        while self._parts:
            name = self._parts.pop()
            last = not self._parts
            found = Place(self.folder, name).status() if last or name != ".." else None
            if found is not None and stat.S_ISLNK(found.st_mode) and (follow_symlinks or not last):
                self._follow(name, found)
            elif last and name != "..":
                return Place(self.folder, name)
            else:
                self._enter(name)
        return Place(self.folder, ".")

    def refuse_strange_links(self, place: Place) -> None:
        """Raise CommandExecutionError when a link of somebody else leads to what is not theirs."""
        if not self._strange:
            return
        found = place.status()
        theirs = {os.fstat(place.folder).st_uid, found.st_uid if found else -1}
        for name, owner in self._strange:
            if owner not in theirs:
                raise CommandExecutionError(
                    f"{_shown(self._path)} leads over the link {_shown(name)!r} of the user {owner} to what is not "
                    "theirs: give the path that it leads to, if that is meant."
                )

    def _go_on(self, path: str) -> None:
        self._parts += [part for part in reversed(path.split("/")) if part not in ("", ".")]

    def _enter(self, name: str) -> None:
        deeper = os.open(name, _FOLDER, dir_fd=self.folder)
        os.close(self.folder)
        self.folder = deeper

    def _follow(self, name: str, found: os.stat_result) -> None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        if found.st_uid not in (0, os.geteuid()) and _others_write(self.folder):
            self._strange.append((name, found.st_uid))
        aim = os.readlink(name, dir_fd=self.folder)
        if aim.startswith("/"):
            self._enter("/")
        self._go_on(aim)


def _others_write(folder: int) -> bool:
    found = os.fstat(folder)
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")
