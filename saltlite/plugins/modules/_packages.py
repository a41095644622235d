"""Functions shared by the providers of `pkg`, which each drive one package manager.

They read the arguments of a call (names, versions, package files) and refuse names that a program could take for
something else, select installed packages, compare them before and after a change, and run a package manager without a
shell and without prompts. Nothing here depends on one package manager.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError

Changes = dict[str, dict[str, str]]
"""`{name: {"old": version, "new": version}}`, an empty string where it was or is not installed."""

REASON_LINES = 3
"""Lines of a failed command's output that stand in the error, where none of them says that it is the reason."""


class Spelling(NamedTuple):
    """How names and versions are written for one package manager; both patterns have to match the whole text.

    Neither may let through a text that starts with a hyphen, or one with white space, control characters or NUL.
    """

    names: re.Pattern[str]
    versions: re.Pattern[str]

    def name(self, text: Any) -> str:
        """The package name, or SaltInvocationError."""
        if not self.names.fullmatch(str(text)):
            raise SaltInvocationError(f"{text!r} is not the name of a package.")
        return str(text)

    def version(self, text: Any) -> str:
        """The version, or SaltInvocationError."""
        if not self.versions.fullmatch(str(text)):
            raise SaltInvocationError(f"{text!r} is not a version.")
        return str(text)

    def wanted(self, one: Any, several: Any = None, version: Any = None) -> dict[str, str]:
        """`{name: version}` for what a call asks for, an empty string for any version.

        `one` is a name, or several with commas; `several` a list of names and of `{name: version}`, which is taken
        instead where it is given. `version` holds for `one`. Raises SaltInvocationError for what is no name or no
        version, and for two versions of one package.
        """
        asked = one if several is None else several
        if asked is None:
            return {}
        if isinstance(asked, Mapping):
            asked = [asked]
        found: dict[str, str] = {}
        for each in asked if isinstance(asked, list | tuple) else str(asked).split(","):
            pairs = each.items() if isinstance(each, Mapping) else ((each, version if several is None else None),)
            for each_name, each_version in pairs:
                bare = self.name(str(each_name).strip())
                exact = "" if each_version in (None, "") else self.version(each_version)
                if found.setdefault(bare, exact) != exact:
                    raise SaltInvocationError(f"{bare} is asked for in two versions.")
        return found


def take(kwargs: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The keyword arguments by name, None where not given. Raises SaltInvocationError for others.

    `__pub_` names tell about the job and are dropped.
    """
    unknown = sorted(key for key in kwargs if key not in known and not key.startswith("__pub_"))
    if unknown:
        raise SaltInvocationError(f"The following keyword arguments are not valid: {', '.join(unknown)}")
    return {key: kwargs.get(key) for key in known}


def path(text: Any) -> str:
    """A path as it can be given to a program, or SaltInvocationError."""
    found = str(text)
    if not found or found.startswith("-") or any(ord(character) < 32 for character in found):
        raise SaltInvocationError(f"{text!r} is not the name of a package or file.")
    return found


def package_files(sources: Any, fetch: Callable[[str], Any] | None = None) -> list[str]:
    """Absolute paths of the package files of `[{name: path}]` or `[path]`. Raises SaltInvocationError.

    `fetch` brings a URL to this minion and gives the path; without it URLs are refused.
    """
    found: list[str] = []
    for each in sources if isinstance(sources, list | tuple) else [sources]:
        for source in each.values() if isinstance(each, Mapping) else (each,):
            bare = path(str(source).removeprefix("file://"))
            if "://" in bare and fetch is not None:
                bare = str(fetch(bare) or "")
            if "://" in bare or not os.path.isabs(bare):
                raise SaltInvocationError(f"{source} is not the absolute path of a package file on this minion.")
            if not os.path.isfile(bare):
                raise SaltInvocationError(f"There is no package file {bare} on this minion.")
            found.append(bare)
    return found


def is_glob(name: str) -> bool:
    """Whether the name is a pattern."""
    return any(character in name for character in "*?[")


def listed(found: Mapping[str, Iterable[str]], versions_as_list: bool) -> dict[str, Any]:
    """`{name: versions}` as `pkg.list_pkgs` gives it: sorted lists, or texts with commas."""
    lists = {name: sorted(set(versions)) for name, versions in found.items()}
    return dict(lists) if versions_as_list else {name: ",".join(versions) for name, versions in lists.items()}


def select(installed: Mapping[str, Any], names: Sequence[Any]) -> dict[str, Any]:
    """The installed packages that one of the names means, which may be globs; all for no names."""
    if not names:
        return dict(installed)
    wanted = [str(name) for name in names]
    return {
        name: version for name, version in installed.items() if any(fnmatch.fnmatchcase(name, each) for each in wanted)
    }


def versions(installed: Mapping[str, Any], names: Sequence[Any]) -> Any:
    """What `pkg.version` gives: a version for one name, a dict for several or for a glob; an empty string for none."""
    found: dict[str, Any] = {}
    for name in map(str, names):
        matching = fnmatch.filter(installed, name) if is_glob(name) else []
        found.update({each: installed[each] for each in matching} or {name: installed.get(name, "")})
    return single(names, found)


def single(names: Sequence[Any], found: Mapping[str, Any]) -> Any:
    """The only value for one name that is no glob, an empty string for no names, otherwise the dict."""
    if not names:
        return ""
    if len(names) == 1 and not is_glob(str(names[0])):
        return next(iter(found.values()), "")
    return dict(found)


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """What changed between two lists of installed packages."""
    return {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def changed(listing: Callable[[], Mapping[str, Any]], act: Callable[[], Any]) -> Changes:
    """What `act` changed. A failure of it is raised again, and tells what had changed until then."""
    before = listing()
    failure: CommandExecutionError | None = None
    try:
        act()
    except CommandExecutionError as error:
        failure = error
    changes = difference(before, listing())
    if failure is not None:
        done = f" Changed before it failed: {', '.join(changes)}." if changes else ""
        raise CommandExecutionError(f"{failure}{done}") from failure
    return changes


def some_attributes(rows: Mapping[str, Mapping[str, Any]], attr: Any) -> dict[str, dict[str, Any]]:
    """The attributes that `attr` names (a list, or a comma-separated string) of each package; all for None."""
    if not attr:
        return {name: dict(row) for name, row in rows.items()}
    kept = [key.strip() for key in attr.split(",")] if isinstance(attr, str) else [str(key) for key in attr]
    return {name: {key: row[key] for key in kept if key in row} for name, row in rows.items()}


def run(argv: Sequence[str], env: Mapping[str, str] | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one command that reads `text`; its output is in the C locale.

    Raises CommandNotFoundError, and CommandExecutionError when it cannot be started.
    """
    try:
        return subprocess.run(
            list(argv),
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "", **(env or {})},
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandNotFoundError(f"{argv[0]} (there is no such program on this minion)") from error
    except (OSError, ValueError) as error:
        raise cannot_be_started(argv[0], error) from error


def cannot_be_started(program: str, error: OSError | ValueError) -> CommandExecutionError:
    """The error for arguments that no program takes: too long ones, and those with NUL or halves of characters."""
    reason = error.strerror if isinstance(error, OSError) else "an argument is no text of UTF-8 without NUL"
    return CommandExecutionError(f"{program} cannot be started: {reason}.")


def failure(done: subprocess.CompletedProcess[str], reasons: Sequence[str]) -> CommandExecutionError:
    """The error for a command that failed: `reasons`, or its last words where there are none."""
    lines = [line.strip() for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
    words = "; ".join(reasons or lines[-REASON_LINES:] or ["it gave no reason"])
    return CommandExecutionError(f"{os.path.basename(done.args[0])} failed (return code {done.returncode}): {words}")


def mark_report(name: str, old: str, new: str, problem: str = "", *, test: bool = False) -> dict[str, Any]:
    """One package's part of what `pkg.hold` and `pkg.unhold` give: `hold`, or another word, before and after.

    `problem` says why it failed; with `test` nothing was done, and the result is None.
    """
    if problem:
        return {"name": name, "changes": {}, "result": False, "comment": problem}
    if old == new:
        return {"name": name, "changes": {}, "result": True, "comment": f"Package {name} is already so."}
    change = "being held" if new == "hold" else "no longer held"
    comment = f"Package {name} {'would be' if test else 'is'} {change}."
    return {"name": name, "changes": {"old": old, "new": new}, "result": None if test else True, "comment": comment}


def process_holding(path: str) -> str:
    """The process that has the file open, as it stands behind a word: ` (process 12, name)`; an empty string for none.

    Processes of other users can be looked at by root only.
    """
    wanted = os.path.realpath(path)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{number}") == wanted:
                    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
                        return f" (process {pid}, {stream.read().strip()})"
        except OSError:
            continue  # it has ended meanwhile, or is not ours to look at
    return ""


# Code of a program or library; a deleted file elsewhere is no upgrade but something that a program made for itself.
_REPLACED = re.compile(r" r-xp .* (?:/usr|/opt|/lib\w*|/s?bin)/.* \(deleted\)$", re.MULTILINE)
_SERVICE = re.compile(r"/([^/\n]+)\.service$", re.MULTILINE)


def services_running_replaced_files(procfs: str = "/proc") -> list[str]:
    """Names of the systemd services with such processes, sorted. Processes that may not be looked at are skipped."""
    found = set()
    for pid in filter(str.isdigit, os.listdir(procfs)):
        if _REPLACED.search(_proc_text(f"{procfs}/{pid}/maps")):
            match = _SERVICE.search(_proc_text(f"{procfs}/{pid}/cgroup"))
            if match and not match[1].startswith("user@"):
                found.add(match[1])
    return sorted(found)


def _proc_text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()
    return ""
