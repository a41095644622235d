"""Commands of apk, its database, and how its failures read: the mechanics behind `pkg` on Alpine Linux.

What belongs here: running apk on this machine or on another root, turning its failures into sentences, reading what is
installed from its database; what a name and a version may be. It knows nothing of results.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _holders, _packages

SPELLING = _packages.Spelling(
    names=re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*(?:@[A-Za-z0-9._-]+)?", re.ASCII),
    versions=re.compile(r"(?:[<>]=?|[=~])?[0-9][A-Za-z0-9._~-]*", re.ASCII),
)
"""A version may say how the package's own has to stand to it; a name may have the tag of a repository behind it."""

_DATABASES = ("lib/apk/db", "usr/lib/apk/db")
"""Where apk 2, and apk 3 on a system with one `/usr`, keeps what is installed, below the root."""

_STEP = re.compile(
    r"^\(\s*\d+/\d+\) (?P<verb>\w+) (?P<name>[^\s@]+)(?:@\S+)? \((?P<old>[^\s)]+)(?: -> (?P<new>[^\s)]+))?\)",
    re.MULTILINE,
)
_COMPARED = {"<": -1, "=": 0, ">": 1}


class Installed(NamedTuple):
    """What the database has of one package; paths begin with a slash."""

    name: str
    version: str
    files: list[str]


def apk(arguments: Sequence[str], root: str | None) -> subprocess.CompletedProcess[str]:
    """Run apk. Raises CommandNotFoundError, SaltInvocationError for no root, and CommandExecutionError if it fails."""
    place = ["--root", _folder(root)] if root is not None else []
    done = _packages.run(["apk", "--no-progress", *place, *arguments])
    if done.returncode == 0:
        return done
    said = f"{done.stderr}\n{done.stdout}"
    if "database" in said and ("lock" in said or "open" in said):
        if "Permission denied" in said:
            raise CommandExecutionError("Packages can be changed by root only, and this minion runs as another user.")
        if "temporarily unavailable" in said:
            holder = next(filter(None, (_holders.holder(f"{folder}/lock") for folder in _databases(root))), "")
            raise CommandExecutionError(
                f"The package database is locked by another package manager{holder}: try again when that has ended."
            )
    raise _packages.failure(done, _reasons(said))


def steps(output: str) -> _packages.Changes:
    """What a transaction does, or would do, by what it prints of each step."""
    found: _packages.Changes = {}
    for verb, name, old, new in _STEP.findall(output):
        if verb == "Purging":
            found[name] = {"old": old, "new": ""}
        elif verb == "Installing":
            found[name] = {"old": "", "new": old}
        elif new and new != old:
            found[name] = {"old": old, "new": new}
    return found


def targets(wanted: dict[str, str]) -> list[str]:
    """`name`, or `name` with what its version has to be, for what a call asks for."""
    return [
        f"{name}{version}" if version[:1] in ("<", ">", "=", "~") else f"{name}={version}" if version else name
        for name, version in wanted.items()
    ]


def compare(first: str, second: str) -> int:
    """-1, 0 or 1 when the first version is older, equal or newer."""
    sign = apk(["version", "-t", SPELLING.version(first), SPELLING.version(second)], None).stdout.strip()
    if sign not in _COMPARED:
        raise SaltInvocationError(f"apk cannot compare {first!r} with {second!r}.")
    return _COMPARED[sign]


def installed(root: str | None) -> Iterator[Installed]:
    """What is installed. Raises CommandExecutionError for a database that is not there or cannot be read."""
    folders = _databases(root)
    path = next((f"{folder}/installed" for folder in folders if os.path.isfile(f"{folder}/installed")), "")
    try:
        with open(path or f"{folders[0]}/installed", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError as error:
        raise CommandExecutionError(f"The apk database cannot be read: {error.strerror} ({error.filename}).") from error
    for record in text.split("\n\n"):
        name = version = folder = ""
        files: list[str] = []
        for line in record.splitlines():
            key, _, value = line.partition(":")
            if key == "P":
                name = value
            elif key == "V":
                version = value
            elif key == "F":
                folder = f"/{value}" if value else ""
            elif key == "R":
                files.append(f"{folder}/{value}")
        if name:
            yield Installed(name, version, files)


def _databases(root: str | None) -> list[str]:
    above = "" if root is None else _folder(root).rstrip("/")
    return [f"{above}/{folder}" for folder in _DATABASES]


def _folder(root: str) -> str:
    place = _packages.path(root)
    if not os.path.isabs(place) or not os.path.isdir(place):
        raise SaltInvocationError(f"{root} is not the absolute path of a folder on this minion.")
    return place


def _reasons(said: str) -> list[str]:
    """Sentences that begin with ERROR, and the indented lines that belong to them."""
    found: list[str] = []
    for line in said.splitlines():
        if line.startswith("ERROR: "):
            found.append(line.removeprefix("ERROR: "))
        elif found and line.startswith(" "):
            found[-1] += f" {line.strip()}"
    return found
