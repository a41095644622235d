"""Commands of apt and dpkg, and checks of what goes into them: the mechanics behind `pkg` on Debian.

What belongs here: running apt-get, apt-cache, apt-mark and dpkg without a shell and without questions,
turning their failures into sentences, checking names and versions. It knows nothing of results.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError

OPTIONS = {
    "reinstall": "--reinstall",
    "downloadonly": "--download-only",
    "skip_verify": "--allow-unauthenticated",
    "only_upgrade": "--only-upgrade",
}
"""Keyword argument of `pkg` functions -> option of apt-get."""

# A trailing hyphen would tell apt-get to remove the package, and `?`, `~` or `^` start a search.
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*(?<!-)(?::[a-z0-9-]+)?", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~*-]*", re.ASCII)
_PLANNED = re.compile(r"^(?:Inst|Remv|Purg) (\S+)(?: \[([^\]]*)\])?(?: \((\S+))?", re.MULTILINE)
_LOCKED = re.compile(r"(?:Could not get lock|Unable to lock|locked by another process)")
_HOLDER = re.compile(r"held by process (\d+)(?: \(([^)]+)\))?|lock was (?:held|locked) by.* pid (\d+)")


def run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run one command; its output is in the C locale. Raises CommandNotFoundError."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "", "DEBIAN_FRONTEND": "noninteractive"}
    environment |= {
        "APT_LISTCHANGES_FRONTEND": "none",
        "APT_LISTBUGS_FRONTEND": "none",
    }
    try:
        return subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandNotFoundError(argv[0]) from error


def apt_get(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run apt-get without questions. Raises CommandExecutionError with its reason when it fails."""
    return checked(run(["apt-get", "-q", "-y", *arguments]))


def simulate(arguments: Sequence[str]) -> dict[str, dict[str, str]]:
    """What apt-get would change, as ``{name: {"old": version, "new": version}}``. Raises as `apt_get` does."""
    done = apt_get(["--simulate", *arguments])
    return {name: {"old": old, "new": new} for name, old, new in _PLANNED.findall(done.stdout)}


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done`, unless it failed: then CommandExecutionError."""
    if done.returncode:
        refuse_locked(done)
        raise CommandExecutionError(f"{done.args[0]} failed (return code {done.returncode}): {reason(done)}")
    return done


def refuse_locked(done: subprocess.CompletedProcess[str]) -> None:
    """Raise CommandExecutionError when another package manager, or root alone, may open the database."""
    if "Permission denied" in done.stderr and "lock" in done.stderr:
        text = "Packages can be changed by root only, and this minion runs as another user."
        raise CommandExecutionError(text)
    if not _LOCKED.search(done.stderr):
        return
    match = _HOLDER.search(done.stderr)
    holder = ""
    if match:
        holder = f" (process {match[1] or match[3]}" + (f", {match[2]})" if match[2] else ")")
    raise CommandExecutionError(
        f"The package database is locked by another package manager{holder}: try again when that has ended."
    )


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """The lines of a failed command that say why, in one line."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("E: ") for line in lines if line.startswith(("E: ", "dpkg: error"))]
    return "; ".join(errors or lines[-3:] or ["it gave no reason"])


def configuration_options(*, take_new: bool) -> list[str]:
    """How dpkg treats changed configuration files without asking: keep the local one, or take the new one."""
    kinds = ("--force-confnew",) if take_new else ("--force-confold", "--force-confdef")
    return [part for kind in kinds for part in ("-o", f"DPkg::Options::={kind}")]


def compare_versions(first: str, second: str) -> int:
    """-1, 0 or 1 when the first version is older, equal or newer. Raises SaltInvocationError."""
    for sign, result in (("lt", -1), ("eq", 0), ("gt", 1)):
        done = run(["dpkg", "--compare-versions", version(first), sign, version(second)])
        if done.returncode == 0:
            return result
    raise SaltInvocationError(f"dpkg cannot compare {first!r} with {second!r}: {done.stderr.strip()}")


def name(text: Any) -> str:
    """The package name, or SaltInvocationError."""
    if not _NAME.fullmatch(str(text)):
        raise SaltInvocationError(f"{text!r} is not the name of a package.")
    return str(text)


def version(text: Any) -> str:
    """The version or name of a release, or SaltInvocationError."""
    if not _VERSION.fullmatch(str(text)):
        raise SaltInvocationError(f"{text!r} is not a version.")
    return str(text)


def targets(one: Any, several: Any, wanted: Any = None) -> list[str]:
    """`name` or `name=version` for what a call of `pkg` asks for: `one` (or more, with commas) or a list."""
    found: list[str] = []
    asked = one if several is None else several
    for each in asked if isinstance(asked, list | tuple) else str(asked or "").split(","):
        pairs = each.items() if isinstance(each, Mapping) else ((each, wanted),)
        for each_name, each_version in pairs:
            bare = name(str(each_name).strip())
            found.append(f"{bare}={version(each_version)}" if each_version else bare)
    return found


def package_files(sources: Any) -> list[str]:
    """Absolute paths of the package files of `[{name: path}]` or `[path]`. Raises SaltInvocationError."""
    found: list[str] = []
    for each in sources:
        for path in each.values() if isinstance(each, Mapping) else (each,):
            bare = str(path).removeprefix("file://")
            if "://" in bare or not os.path.isabs(bare):
                raise SaltInvocationError(f"{path} is not the absolute path of a package file on this minion.")
            if not os.path.isfile(bare):
                raise SaltInvocationError(f"There is no package file {bare} on this minion.")
            found.append(bare)
    return found


def take(kwargs: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The keyword arguments by name, None where not given. Raises SaltInvocationError for others.

    `__pub_` names tell about the job and are dropped.
    """
    unknown = sorted(key for key in kwargs if key not in known and not key.startswith("__pub_"))
    if unknown:
        raise SaltInvocationError(f"The following keyword arguments are not valid: {', '.join(unknown)}")
    return {key: kwargs.get(key) for key in known}
