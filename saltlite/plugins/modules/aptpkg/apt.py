"""Runs apt-get, apt-cache, apt-mark and dpkg for `aptpkg`: without a shell and without prompts.

It checks names and versions, turns failures into errors, and finds the folders that apt is configured to use.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules import _packages

OPTIONS = {
    "reinstall": "--reinstall",
    "downloadonly": "--download-only",
    "skip_verify": "--allow-unauthenticated",
    "only_upgrade": "--only-upgrade",
}
"""Keyword argument of `pkg` functions -> option of apt-get."""

NAME_RULES = _packages.NameRules(
    # A trailing hyphen would remove the package, and `?`, `~` or `^` would start a search.
    names=re.compile(r"[a-z0-9][a-z0-9+.-]*(?<!-)(?::[a-z0-9-]+)?", re.ASCII),
    versions=re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~*-]*", re.ASCII),
)

_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "APT_LISTBUGS_FRONTEND": "none",
}
_PLANNED = r"^(?:Inst|Remv|Purg) (\S+)(?: \[([^\]]*)\])?(?: \((\S+))?"
_LOCKED = r"(?:Could not get lock|Unable to lock|locked by another process)"
_HOLDER = r"held by process (\d+)(?: \(([^)]+)\))?|lock was (?:held|locked) by.* pid (\d+)"


class Places(NamedTuple):
    """The files and folders that apt is configured to use."""

    lists: str
    archives: str
    source_list: str
    source_parts: str
    trusted: str
    trusted_file: str


def run(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one command without prompts, in the C locale, with `text` as its input. Raises CommandNotFoundError."""
    return _packages.run(argv, _ENVIRONMENT, text)


def apt_get(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run apt-get without prompts. Raises CommandExecutionError with its reason if it fails."""
    return checked(run(["apt-get", "-q", "-y", *arguments]))


def simulate(arguments: Sequence[str]) -> _packages.Changes:
    """What apt-get would change, as ``{name: {"old": version, "new": version}}``. Raises as `apt_get`."""
    done = apt_get(["--simulate", *arguments])
    return {name: {"old": old, "new": new} for name, old, new in re.findall(_PLANNED, done.stdout, re.MULTILINE)}


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done` if it succeeded; otherwise raises CommandExecutionError."""
    if done.returncode:
        refuse_locked(done)
        raise _packages.failure(done, _errors(done))
    return done


def refuse_locked(done: subprocess.CompletedProcess[str]) -> None:
    """Raise CommandExecutionError if the database is locked, or the minion may not open it."""
    if "Permission denied" in done.stderr and "lock" in done.stderr:
        raise _packages.not_root()
    if not re.search(_LOCKED, done.stderr):
        return
    match = re.search(_HOLDER, done.stderr)
    holder = ""
    if match:
        holder = f" (process {match[1] or match[3]}" + (f", {match[2]})" if match[2] else ")")
    raise _packages.database_locked(holder)


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """The reason in the output of a failed command, in one line."""
    return "; ".join(_errors(done)) or done.stderr.strip().replace("\n", "; ") or "it gave no reason"


def places() -> Places:
    """The files and folders of apt. Raises CommandExecutionError if its configuration is invalid."""
    asked = {
        "lists": "Dir::State::lists/d",
        "archives": "Dir::Cache::archives/d",
        "source_list": "Dir::Etc::sourcelist/f",
        "source_parts": "Dir::Etc::sourceparts/d",
        "trusted": "Dir::Etc::trustedparts/d",
        "trusted_file": "Dir::Etc::trusted/f",
    }
    words = [word for pair in asked.items() for word in pair]
    done = checked(run(["apt-config", "shell", *words]))
    values = dict(word.partition("=")[::2] for word in shlex.split(done.stdout))
    return Places(**{name: values.get(name, "") for name in asked})


def configuration_options(*, take_new: bool) -> list[str]:
    """Options for changed configuration files: keep the local version, or take the new one."""
    kinds = ("--force-confnew",) if take_new else ("--force-confold", "--force-confdef")
    return [part for kind in kinds for part in ("-o", f"DPkg::Options::={kind}")]


def compare_versions(first: str, second: str) -> int:
    """-1, 0 or 1 if the first version is older, equal or newer. Raises SaltInvocationError."""
    one, other = NAME_RULES.version(first), NAME_RULES.version(second)
    for sign, result in (("lt", -1), ("eq", 0), ("gt", 1)):
        done = run(["dpkg", "--compare-versions", one, sign, other])
        if done.returncode == 0:
            return result
    raise SaltInvocationError(f"dpkg cannot compare {first!r} with {second!r}: {done.stderr.strip()}")


def targets(one: Any, several: Any, version: Any = None) -> list[str]:
    """The arguments `name` or `name=version` for the requested packages; see `NameRules.requested`."""
    wanted = NAME_RULES.requested(one, several, version)
    return [f"{name}={exact}" if exact else name for name, exact in wanted.items()]


def _errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    lines = [line.strip() for line in done.stderr.splitlines()]
    return [line.removeprefix("E: ") for line in lines if line.startswith(("E: ", "dpkg: error"))]
