"""Commands of pacman, and how their failures read: the mechanics behind `pkg` on Arch Linux.

What belongs here: running pacman on this machine or on another root, without questions, and turning its failures into
sentences; what a name and a version may be. It knows nothing of results.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Sequence

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _holders, _packages

SPELLING = _packages.Spelling(
    names=re.compile(r"[A-Za-z0-9@_+][A-Za-z0-9@._+-]*", re.ASCII),
    versions=re.compile(r"(?:[<>]=?|=)?[A-Za-z0-9][A-Za-z0-9.+:_~-]*", re.ASCII),
)
"""A version may say how the package's own has to stand to it, as in `>=1.2-1`."""

UNASKED = ("--noconfirm", "--noprogressbar")
PLAN = ("--print", "--print-format", "%n %v")
"""Options of a transaction that is to be told, and not done."""

_REASON = re.compile(r"^error: |breaks dependency|unable to satisfy dependency|in conflict|exists in filesystem")
_LOCK = re.compile(r"you can remove (/.*)$", re.MULTILINE)


def pacman(arguments: Sequence[str], root: str | None) -> subprocess.CompletedProcess[str]:
    """Run pacman. Raises CommandNotFoundError, and SaltInvocationError for what is no root."""
    return _packages.run(["pacman", *_place(root), *arguments])


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done`, unless it failed: then CommandExecutionError."""
    if done.returncode == 0:
        return done
    if "you cannot perform this operation unless you are root" in done.stderr:
        raise CommandExecutionError("Packages can be changed by root only, and this minion runs as another user.")
    lock = _LOCK.search(done.stderr) if "unable to lock database" in done.stderr else None
    if lock is not None:
        raise CommandExecutionError(_locked(lock[1]))
    lines = [line.strip() for line in f"{done.stderr}\n{done.stdout}".splitlines()]
    reasons = [line.removeprefix("error: ").removeprefix(":: ") for line in lines if _REASON.search(line)]
    raise _packages.failure(done, reasons)


def listing(arguments: Sequence[str], root: str | None) -> str:
    """What pacman lists; it fails without a word where there is nothing to list, which is an answer."""
    done = pacman(arguments, root)
    return done.stdout if done.returncode == 1 and not done.stderr else checked(done).stdout


def fetched_lists(root: str | None) -> dict[str, tuple[int, int]]:
    """Repository -> what its package list on this machine is known by; (0, 0) for one that was never fetched."""
    _place(root)  # raises for what is no root
    options = [*_configuration(root), *(["--rootdir", root] if root else [])]
    names = checked(_packages.run(["pacman-conf", *options, "--repo-list"])).stdout.split()
    folder = checked(_packages.run(["pacman-conf", *options, "DBPath"])).stdout.strip()
    found = {}
    for name in names:
        with contextlib.suppress(OSError):
            known = os.stat(os.path.join(folder, "sync", f"{name}.db"))
            found[name] = (known.st_mtime_ns, known.st_ino)
    return {name: found.get(name, (0, 0)) for name in names}


def targets(wanted: dict[str, str]) -> list[str]:
    """`name`, or `name` with what its version has to be, for what a call asks for."""
    return [
        f"{name}{version}" if version[:1] in ("<", ">", "=") else f"{name}={version}" if version else name
        for name, version in wanted.items()
    ]


def compare(first: str, second: str) -> int:
    """-1, 0 or 1 when the first version is older, equal or newer."""
    done = _packages.run(["vercmp", SPELLING.version(first), SPELLING.version(second)])
    if done.returncode:
        raise _packages.failure(done, [])
    number = int(done.stdout)
    return (number > 0) - (number < 0)


def _place(root: str | None) -> list[str]:
    """The options that have pacman work on another root, with the configuration that it has."""
    if root is None:
        return []
    place = _packages.path(root)
    if not os.path.isabs(place) or not os.path.isdir(place):
        raise SaltInvocationError(f"{root} is not the absolute path of a folder on this minion.")
    options = ["--root", place, "--cachedir", os.path.join(place, "var/cache/pacman/pkg")]
    options += ["--hookdir", os.path.join(place, "etc/pacman.d/hooks")]
    return [*options, *_configuration(place)]


def _configuration(root: str | None) -> list[str]:
    own = os.path.join(root or "/", "etc/pacman.conf")
    return ["--config", own] if root and os.path.isfile(own) else []


def _locked(path: str) -> str:
    holder = _holders.holder(path)
    way_out = "try again when that has ended"
    if not holder:
        way_out = f"no process of this machine has it open, so remove {path} if it was left behind"
    return f"The package database is locked by another package manager{holder}: {way_out}."
