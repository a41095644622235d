"""Who has files open, and how much of the disk they take."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from saltlite.plugins.modules._safe_files import checked_path, sentence


def open_files(by_pid: bool = False) -> dict[str, list[int]] | dict[int, list[str]]:
    """
    The files that processes have open or run: path -> process numbers, or the other way round with ``by_pid``.

    Sockets, pipes and deleted files are left out, and processes of others where the minion does not run as root.

    CLI Example::

        saltlite '*' file.open_files
        saltlite '*' file.open_files by_pid=True
    """
    of_process = {int(name): sorted(set(_paths(name))) for name in os.listdir("/proc") if name.isdecimal()}
    if by_pid:
        return of_process
    of_path: dict[str, list[int]] = {}
    for pid in sorted(of_process):
        for path in of_process[pid]:
            of_path.setdefault(path, []).append(pid)
    return of_path


def diskusage(path: str) -> int:
    """
    How many bytes the files in a folder have together; each counts once, however many names it has.

    CLI Example::

        saltlite '*' file.diskusage /path/to/check
    """
    name = checked_path(path)
    try:
        if not os.path.isdir(name):
            return os.stat(name).st_size
    except OSError as error:
        raise sentence(name, "read", error) from error
    sizes: dict[tuple[int, int], int] = {}
    for folder, _folders, files in os.walk(name):
        for each in files:
            # A file may go while the folder is read, and a link may have no target.
            with contextlib.suppress(OSError):
                found = os.stat(os.path.join(folder, each))
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())


def _paths(pid: str) -> Iterator[str]:
    links = [f"/proc/{pid}/exe"]
    # Processes end while they are looked at, and those of others are closed to an ordinary user.
    with contextlib.suppress(OSError):
        links += [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    for link in links:
        with contextlib.suppress(OSError):
            path = os.readlink(link)
            # What begins otherwise is `socket:[…]`, `pipe:[…]` or `anon_inode:…`.
            if path.startswith("/") and os.path.lexists(path):
                yield path
