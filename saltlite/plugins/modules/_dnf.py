"""Commands of dnf5, dnf and yum, and what they print: the mechanics behind `pkg` on RedHat.

What belongs here: finding the program, running it without questions in a root folder, its options, turning its failures
into sentences and its tables into values. It knows nothing of results of `pkg`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _packages, _rpm

PROGRAMS = ("dnf5", "dnf", "yum")
"""The first that is installed is taken."""

REPOSITORY_KEYS = ("fromrepo", "repo", "enablerepo", "disablerepo", "disableexcludes", "setopt", "root", "installroot")
"""Keyword arguments that every function which asks repositories has."""

# An install may also ask for a group, or for what a package provides: a path or a capability such as perl(Foo).
TARGETS = _packages.Spelling(re.compile(r"(?:@|/)?[A-Za-z0-9_][A-Za-z0-9_.+~^%{}():/@-]*", re.ASCII), _rpm.VERSIONS)

_REPOSITORY = re.compile(r"[A-Za-z0-9_*?][A-Za-z0-9_.:*?+-]*", re.ASCII)
_SETTING = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_.:*-]*=[^\x00-\x1f]*", re.ASCII)
_HEADING = re.compile(r"^[A-Z][A-Za-z ]*$")
_NOISE = (
    "Unable to detect release version",
    "Last metadata expiration check",
    "Operation aborted",
    "Failed loading plug",
)
_REASON = re.compile(
    r"^(?:Error|Errors|Problem|No match|No package|No groups?|Failed|Unable|Unknown|You|Cannot|Could)\b"
)
_LOCKED = re.compile(r"lock (?:files? )?(?:is |was )?held|is locked by|transaction lock|already locked|\.pid is locked")
_PLAN_HEADING = re.compile(r"^(?P<what>Install|Upgrad|Updat|Remov|Downgrad|Reinstall|Eras)\w*\b.*:$")
_PLAN_ROW = re.compile(r"^ (\S+) +(\S+) +(\S+) +(\S+) +(\S.*)$")
_LOCK_EXIT = 200
"""What dnf returns when another program holds its lock. Contract: dnf(8), exit codes."""


class Available(NamedTuple):
    """One row of a list of packages; `repo` is where it is, or was, taken from."""

    name: str
    version: str
    repo: str
    installed: bool


def program() -> str:
    """The name of the package manager. Raises CommandNotFoundError."""
    found = next((name for name in PROGRAMS if shutil.which(name)), None)
    if found is None:
        raise CommandNotFoundError("dnf (neither dnf5, nor dnf, nor yum is installed on this minion)")
    return found


def root_of(given: Mapping[str, Any]) -> str:
    """The root folder of the keyword arguments, or an empty text."""
    return _rpm.root_folder(given.get("root"), given.get("installroot"))


def options(given: Mapping[str, Any]) -> list[str]:
    """Options for the keyword arguments REPOSITORY_KEYS. Raises SaltInvocationError for what is no repository."""
    root = root_of(given)
    found = [f"--installroot={root}"] if root else []
    only = given.get("fromrepo") or given.get("repo")
    if only:
        found += ["--disablerepo=*", *(f"--enablerepo={repository(each)}" for each in _listed(only))]
    else:
        found += [f"--disablerepo={repository(each)}" for each in _listed(given.get("disablerepo"))]
        found += [f"--enablerepo={repository(each)}" for each in _listed(given.get("enablerepo"))]
    if given.get("disableexcludes"):
        found.append(f"--disableexcludes={repository(given['disableexcludes'])}")
    for setting in _listed(given.get("setopt")):
        if not _SETTING.fullmatch(setting):
            raise SaltInvocationError(f"{setting!r} is not a setting: option=value is.")
        found.append(f"--setopt={setting}")
    return found


def repository(text: Any) -> str:
    """The id of a repository, or a glob of such, or SaltInvocationError."""
    if not _REPOSITORY.fullmatch(str(text)):
        raise SaltInvocationError(f"{text!r} is not the id of a repository.")
    return str(text)


def _listed(given: Any) -> list[str]:
    found = given if isinstance(given, list | tuple) else str(given or "").split(",")
    return [str(each).strip() for each in found if str(each).strip()]


def listing(what: str) -> list[str]:
    """The command that lists `available`, `updates` or `upgrades`."""
    return ["list", what] if program() == "yum" else ["list", f"--{what}"]


def run(
    given: Mapping[str, Any], command: Sequence[str], names: Sequence[str] = (), *, quiet: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run one command with the options for the keyword arguments; without `quiet` it says what it plans.

    Raises CommandExecutionError when another program holds the lock.
    """
    tool = program()
    # It would wait for the lock as long as another program holds it.
    argv = [tool, *(["-q"] if quiet else []), "--setopt=exit_on_lock=1", *options(given), *command]
    done = _packages.run([*argv, *(["--"] if names and tool != "dnf5" else []), *names])
    if done.returncode == _LOCK_EXIT or (done.returncode and _LOCKED.search(done.stderr)):
        holder = re.search(r"(?:pid|PID|process|locked by)[ :]+(\d+)", done.stderr)
        who = f" (process {holder[1]})" if holder else ""
        raise CommandExecutionError(
            f"The package database is locked by another package manager{who}: try again when that has ended."
        )
    return done


def change(given: Mapping[str, Any], command: Sequence[str], names: Sequence[str] = ()) -> None:
    """Run a command that changes packages. Raises CommandExecutionError with its reason when it fails."""
    checked(run(given, ["-y", *command], names))


def plan(given: Mapping[str, Any], native: str, command: Sequence[str], names: Sequence[str] = ()) -> dict[str, str]:
    """What a command would bring: `{name: version}`, an empty version where it would remove the package.

    Raises CommandExecutionError when it could not do it.
    """
    done = run(given, ["--assumeno", *command], names, quiet=False)
    found = read_plan(done.stdout, native)
    if done.returncode and not found:
        checked(done)
    return found


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done`, unless it failed: then CommandExecutionError."""
    if done.returncode:
        raise failed(done)
    return done


def failed(done: subprocess.CompletedProcess[str]) -> CommandExecutionError:
    """The error for a command that failed, with its own reason."""
    words = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines()]
    words = list(dict.fromkeys(line for line in words if line and not line.startswith(_NOISE)))
    first = next((number for number, line in enumerate(words) if _REASON.match(line)), 0)
    reasons = [line.removeprefix("Error: ") for line in words[first:] if line != "Error:"]
    return _packages.failure(done, reasons[: _packages.REASON_LINES])


def no_match(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a list failed only because nothing was to be listed."""
    return bool(re.search(r"No matching [Pp]ackages", done.stderr + done.stdout))


def read_list(text: str, native: str) -> Iterator[Available]:
    """The rows of `list` and `check-update`: three columns below headings; a long row goes on in the next line."""
    installed, row = False, ""
    for line in text.splitlines():
        if _HEADING.match(line.strip()):
            installed, row = line.lower().startswith("installed"), ""
            if line.lower().startswith("obsoleting"):
                return  # what follows are the packages that the ones above take the place of
            continue
        row = f"{row} {line.strip()}" if row and line.startswith((" ", "\t")) else line.strip()
        columns = row.split()
        if len(columns) == 3 and "." in columns[0]:
            bare, _, arch = columns[0].rpartition(".")
            name = _rpm.shown_name(bare, arch, native)
            yield Available(name, columns[1], columns[2].lstrip("@"), installed or columns[2].startswith("@"))
            row = ""
        elif len(columns) > 3:
            row = ""


def read_advisories(text: str) -> dict[str, dict[str, Any]]:
    """`{id: {"installed": bool, "summary": [packages]}}`; installed when all its packages are.

    dnf and yum put an `i` before what is installed and give id, kind and package; dnf5 has a table with a heading,
    where the package is the fourth column.
    """
    found: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        here = line.startswith("i ")
        columns = line[2:].split() if here else line.split()
        if len(columns) < 3 or columns[0] in ("Name", "Updates") or "-" not in columns[0]:
            continue
        package = columns[2] if len(columns) == 3 else columns[3]
        row = found.setdefault(columns[0], {"installed": True, "summary": []})
        row["summary"].append(package)
        row["installed"] = row["installed"] and here
    return found


def read_plan(text: str, native: str) -> dict[str, str]:
    """The table that is shown before a transaction: `{name: new version}`, an empty text for what is removed."""
    found: dict[str, str] = {}
    what = ""
    row = ""
    for line in text.splitlines():
        if line.startswith("Transaction Summary"):
            break
        if line.endswith(":") and not line.startswith(" "):
            heading = _PLAN_HEADING.match(line)
            what, row = heading["what"] if heading else "", ""
            continue
        if not line.startswith(" ") or not what:
            continue
        row = f"{row} {line.strip()}" if row else line
        match = _PLAN_ROW.match(row)
        if match and not row.lstrip().startswith("replacing"):
            name, arch, version = match[1], match[2], match[3]
            shown = _rpm.shown_name(name, arch, native)
            if what in ("Remov", "Eras"):
                found.setdefault(shown, "")
            else:
                found[shown] = version.removeprefix("0:")
        if match or len(row.split()) > 4 or row.lstrip().startswith("replacing"):
            row = ""
    return found
