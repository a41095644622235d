"""Runs dnf5, dnf or yum for `yumpkg`, and parses what they print.

It chooses the program, builds options, runs it without prompts in a root folder, and turns failures into errors.
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
TARGETS = _packages.NameRules(re.compile(r"(?:@|/)?[A-Za-z0-9_][A-Za-z0-9_.+~^%{}():/@-]*", re.ASCII), _rpm.VERSIONS)

_REPOSITORY = r"[A-Za-z0-9_*?][A-Za-z0-9_.:*?+-]*"
_SETTING = r"[A-Za-z0-9_*][A-Za-z0-9_.:*-]*=[^\x00-\x1f]*"
_HEADING = re.compile(r"^[A-Z][A-Za-z ]*$")
_NOISE = (
    "Unable to detect release version",
    "Last metadata expiration check",
    "Operation aborted",
    "Failed loading plug",
)
_REASON = r"^(?:Error|Errors|Problem|No match|No package|No groups?|Failed|Unable|Unknown|You|Cannot|Could)\b"
_LOCKED = r"lock (?:files? )?(?:is |was )?held|is locked by|transaction lock|already locked|\.pid is locked"
_PLAN_HEADING = r"^(?P<what>Install|Upgrad|Updat|Remov|Downgrad|Reinstall|Eras)\w*\b.*:$"
_PLAN_ROW = r"^ (\S+) +(\S+) +(\S+) +(\S+) +(\S.*)$"
_LOCK_EXIT = 200
"""What dnf returns when another program holds its lock. Contract: dnf(8), exit codes."""


class Available(NamedTuple):
    """A row of a package list; `repo` is the repository that the package comes from."""

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
    """The root folder in the keyword arguments, or an empty string."""
    return _rpm.root_folder(given.get("root"), given.get("installroot"))


def options(given: Mapping[str, Any]) -> list[str]:
    """Options for the keyword arguments REPOSITORY_KEYS. Raises SaltInvocationError for an invalid repository."""
    root = root_of(given)
    found = [f"--installroot={root}"] if root else []
    only = given.get("fromrepo") or given.get("repo")
    if only:
        found += ["--disablerepo=*", *(f"--enablerepo={repository(each)}" for each in _packages.words(only))]
    else:
        found += [f"--disablerepo={repository(each)}" for each in _packages.words(given.get("disablerepo"))]
        found += [f"--enablerepo={repository(each)}" for each in _packages.words(given.get("enablerepo"))]
    if given.get("disableexcludes"):
        found.append(f"--disableexcludes={repository(given['disableexcludes'])}")
    for setting in _packages.words(given.get("setopt")):
        if not re.fullmatch(_SETTING, setting, re.ASCII):
            raise SaltInvocationError(f"{setting!r} is not a setting: option=value is.")
        found.append(f"--setopt={setting}")
    return found


def repository(text: Any) -> str:
    """The id of a repository, or a glob. Raises SaltInvocationError if it is invalid."""
    if not re.fullmatch(_REPOSITORY, str(text), re.ASCII):
        raise SaltInvocationError(f"{text!r} is not the id of a repository.")
    return str(text)


def listing(what: str) -> list[str]:
    """The command that lists `available`, `updates` or `upgrades`."""
    return ["list", what] if program() == "yum" else ["list", f"--{what}"]


def run(
    given: Mapping[str, Any], command: Sequence[str], names: Sequence[str] = (), *, quiet: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run one command with the options for the keyword arguments; without `quiet` it prints its plan.

    Raises CommandExecutionError if another program holds the lock.
    """
    tool = program()
    # By default it would wait until another program releases the lock.
    argv = [tool, *(["-q"] if quiet else []), "--setopt=exit_on_lock=1", *options(given), *command]
    done = _packages.run([*argv, *(["--"] if names and tool != "dnf5" else []), *names])
    if done.returncode == _LOCK_EXIT or (done.returncode and re.search(_LOCKED, done.stderr)):
        holder = re.search(r"(?:pid|PID|process|locked by)[ :]+(\d+)", done.stderr)
        raise _packages.database_locked(f" (process {holder[1]})" if holder else "")
    return done


def change(given: Mapping[str, Any], command: Sequence[str], names: Sequence[str] = ()) -> None:
    """Run a command that changes packages. Raises CommandExecutionError with its reason if it fails."""
    checked(run(given, ["-y", *command], names))


def plan(given: Mapping[str, Any], native: str, command: Sequence[str], names: Sequence[str] = ()) -> dict[str, str]:
    """What a command would install: `{name: version}`, with an empty version for packages that it would remove.

    Raises CommandExecutionError if the command is not possible.
    """
    done = run(given, ["--assumeno", *command], names, quiet=False)
    found = read_plan(done.stdout, native)
    if done.returncode and not found:
        checked(done)
    return found


def checked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """`done` if it succeeded; otherwise raises CommandExecutionError."""
    if done.returncode:
        raise failed(done)
    return done


def failed(done: subprocess.CompletedProcess[str]) -> CommandExecutionError:
    """The error for a failed command, with its own reason."""
    words = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines()]
    words = list(dict.fromkeys(line for line in words if line and not line.startswith(_NOISE)))
    first = next((number for number, line in enumerate(words) if re.match(_REASON, line)), 0)
    reasons = [line.removeprefix("Error: ") for line in words[first:] if line != "Error:"]
    return _packages.failure(done, reasons[: _packages.REASON_LINES])


def available(
    given: Mapping[str, Any], command: Sequence[str], native: str, names: Sequence[str] = ()
) -> list[Available]:
    """The packages in the output of a list command that are not installed. Raises CommandExecutionError."""
    done = run(given, command, names)
    if done.returncode and not re.search(r"No matching [Pp]ackages", done.stderr + done.stdout):
        raise failed(done)
    return [row for row in read_list(done.stdout, native) if not row.installed]


def read_list(text: str, native: str) -> Iterator[Available]:
    """The rows of `list` and `check-update`: three columns below headings; long rows continue in the next line."""
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
    """`{id: {"installed": bool, "summary": [packages]}}`; an advisory is installed if all its packages are.

    dnf and yum print id, kind and package, with an `i` before installed ones; dnf5 prints a table with a heading, in
    which the package is the fourth column.
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
    """The table before a transaction: `{name: new version}`, with an empty string for removed packages."""
    found: dict[str, str] = {}
    what = ""
    row = ""
    for line in text.splitlines():
        if line.startswith("Transaction Summary"):
            break
        if line.endswith(":") and not line.startswith(" "):
            heading = re.match(_PLAN_HEADING, line)
            what, row = heading["what"] if heading else "", ""
            continue
        if not line.startswith(" ") or not what:
            continue
        row = f"{row} {line.strip()}" if row else line
        match = re.match(_PLAN_ROW, row)
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


# --- groups


KINDS = ("mandatory", "optional", "default", "conditional")

_LISTS = {
    "installed groups:": "installed",
    "available groups:": "available",
    "installed environment groups:": "installed environments",
    "available environment groups:": "available environments",
    "available language groups:": "available languages",
}
_LANGUAGE = r"(.+) \[(.+)\]"
_NAME = r"[^\s\x00-\x1f@-][^\x00-\x1f]*"
_TABLE_ROW = r"^(\S+) .*\b(yes|no)$"
_MEMBERS = r"^\s*(mandatory|optional|default|conditional) (?:groups|packages)\s*:\s*(\S.*)?$"
_FIELD = r"^\s*([A-Za-z][A-Za-z -]*?)\s*:\s*(.*)$"
_CONTINUED = r"^\s+(?::\s*)?[-+=]?\s*(\S.*)$"


def checked_group(name: Any) -> str:
    """The name or id of a group. Raises SaltInvocationError if it is invalid."""
    text = str(name).removeprefix("@")
    if not re.fullmatch(_NAME, text):
        raise SaltInvocationError(f"{name!r} is not the name of a group.")
    return text


def read_groups(text: str) -> dict[str, Any]:
    """The result of `pkg.group_list`: dnf and yum print lists with headings, dnf5 a table with an Installed column."""
    found: dict[str, Any] = {key: [] for key in _LISTS.values()}
    found["available languages"] = {}
    under = ""
    for line in text.splitlines():
        under_now = _LISTS.get(line.strip().lower())
        row = re.match(_TABLE_ROW, line)
        if under_now is not None:
            under = under_now
        elif under and line[:1].isspace() and line.strip():
            language = re.match(_LANGUAGE, line.strip())
            if under != "available languages":
                found[under].append(line.strip())
            elif language:
                found[under][line.strip()] = {"name": language[1], "language": language[2]}
        elif row:
            found["installed" if row[2] == "yes" else "available"].append(row[1])
    return found


def read_group(text: str) -> dict[str, Any]:
    """The result of `pkg.group_info`; `group` and `id` are None if the text contains no group."""
    fields: dict[str, str] = {}
    members: dict[str, list[str]] = {kind: [] for kind in KINDS}
    kind = ""
    for line in text.splitlines():
        heading, field, more = (
            re.match(_MEMBERS, line, re.IGNORECASE),
            re.match(_FIELD, line),
            re.match(_CONTINUED, line),
        )
        if heading:
            kind = heading[1].lower()
            if heading[2]:
                members[kind].append(heading[2].strip())
        elif field:
            key = field[1].lower()
            kind = "" if key not in fields else kind
            fields.setdefault(key, field[2].strip())
        elif kind and more:
            members[kind].append(more[1].strip())
    environment = fields.get("environment group") or fields.get("environment-group")
    found: dict[str, Any] = {name: sorted(set(several)) for name, several in members.items()}
    found["type"] = "environment group" if environment else "package group"
    found["group"] = environment or fields.get("group") or fields.get("name")
    found["id"] = fields.get("environment-id") or fields.get("group-id") or fields.get("id")
    found["description"] = fields.get("description", "")
    return found
