"""Functions shared by the providers of `pkg`, which each drive one package manager.

They read the arguments of a call (names, versions, package files) and refuse names that a program could take for
something else, select installed packages, compare them before and after a change, and run a package manager without a
shell and without prompts. Nothing here depends on one package manager.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError, invalid_keywords

Changes = dict[str, dict[str, str]]
"""`{name: {"old": version, "new": version}}`, an empty string where it was or is not installed."""

REASON_LINES = 3
"""How many lines of a failed command's output an error quotes if none of them is marked as the reason."""


class NameRules(NamedTuple):
    """The syntax of package names and versions for one package manager; each pattern must match the whole string.

    No pattern may accept a leading hyphen, white space, control characters or NUL.
    """

    names: re.Pattern[str]
    versions: re.Pattern[str]

    def name(self, text: Any) -> str:
        """The package name. Raises SaltInvocationError if it is invalid."""
        if not self.names.fullmatch(str(text)):
            raise SaltInvocationError(f"{text!r} is not the name of a package.")
        return str(text)

    def version(self, text: Any) -> str:
        """The version. Raises SaltInvocationError if it is invalid."""
        if not self.versions.fullmatch(str(text)):
            raise SaltInvocationError(f"{text!r} is not a version.")
        return str(text)

    def requested(self, one: Any, several: Any = None, version: Any = None) -> dict[str, str]:
        """The requested packages as `{name: version}`, with an empty string for any version.

        `one` is a name or several separated by commas, with the common `version`. `several` is a list of names and of
        `{name: version}`, and replaces `one`. Raises SaltInvocationError for an invalid name or version, and for two
        versions of one package.
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
    """The keyword arguments by name, None if not given. Raises SaltInvocationError for unknown ones.

    `__pub_` names describe the job and are dropped.
    """
    unknown = sorted(key for key in kwargs if key not in known and not key.startswith("__pub_"))
    if unknown:
        raise SaltInvocationError(invalid_keywords(unknown, known))
    return {key: kwargs.get(key) for key in known}


def require_target(name: Any, pkgs: Any, sources: Any) -> None:
    """Raises SaltInvocationError if an install names nothing; an empty list of packages is nothing to do."""
    if name in (None, "") and pkgs is None and sources is None:
        raise SaltInvocationError("there is nothing to install: give a name, pkgs or sources")


def path(text: Any) -> str:
    """A path that can be passed to a program. Raises SaltInvocationError if it is invalid."""
    found = str(text)
    if not found or found.startswith("-") or any(ord(character) < 32 for character in found):
        raise SaltInvocationError(f"{text!r} is not the name of a package or file.")
    return found


def sources_of(sources: Any) -> list[Any]:
    """The list in `sources`, which may also be one as text: `[{"name": /path}]`. Raises SaltInvocationError."""
    if isinstance(sources, str) and sources.lstrip().startswith(("[", "{")):
        import yaml  # most callers have a list

        try:
            sources = yaml.safe_load(sources)
        except yaml.YAMLError as error:
            raise SaltInvocationError(f"Sources are not a list: {' '.join(str(error).split())}.") from error
    return list(sources) if isinstance(sources, list | tuple) else [sources]


def package_files(sources: Any, fetch: Callable[[str], Any] | None = None) -> list[str]:
    """Absolute paths of the package files in `[{name: path}]` or `[path]`, or this as text. Raises SaltInvocationError.

    `fetch` downloads a URL and returns its local path; without it URLs are refused.
    """
    found: list[str] = []
    for each in sources_of(sources):
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


def words(given: Any) -> list[str]:
    """The items of a list or of a comma-separated string, without empty ones; none for None."""
    items = given if isinstance(given, list | tuple) else str(given or "").split(",")
    return [str(item).strip() for item in items if str(item).strip()]


def root_folder(root: Any) -> str:
    """The absolute path of another root folder. Raises SaltInvocationError if there is no such folder."""
    folder = path(root)
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        raise SaltInvocationError(f"{root} is not the absolute path of a folder on this minion.")
    return folder


def is_glob(name: str) -> bool:
    """Whether the name is a glob."""
    return any(character in name for character in "*?[")


def listed(found: Mapping[str, Iterable[str]], versions_as_list: bool) -> dict[str, Any]:
    """The result of `pkg.list_pkgs` for `{name: versions}`: sorted lists, or comma-separated strings."""
    lists = {name: sorted(set(versions)) for name, versions in found.items()}
    return dict(lists) if versions_as_list else {name: ",".join(versions) for name, versions in lists.items()}


def select(installed: Mapping[str, Any], names: Sequence[Any]) -> dict[str, Any]:
    """The installed packages that match one of the names or globs; all of them if there are no names."""
    return {name: version for name, version in installed.items() if matches(name, names)}


def matches(name: str, patterns: Sequence[Any]) -> bool:
    """Whether one of the names or globs matches; True if there are none."""
    return not patterns or any(fnmatch.fnmatchcase(name, str(pattern)) for pattern in patterns)


def versions(installed: Mapping[str, Any], names: Sequence[Any]) -> Any:
    """The result of `pkg.version`: a string for one name, a dict for several or for a glob; an empty string for no
    package.
    """
    found: dict[str, Any] = {}
    for name in map(str, names):
        matching = fnmatch.filter(installed, name) if is_glob(name) else []
        found.update({each: installed[each] for each in matching} or {name: installed.get(name, "")})
    return single(names, found)


def single(names: Sequence[Any], found: Mapping[str, Any]) -> Any:
    """The only value for one name that is not a glob, an empty string for no names, otherwise the dict."""
    if not names:
        return ""
    if len(names) == 1 and not is_glob(str(names[0])):
        return next(iter(found.values()), "")
    return dict(found)


def offers(
    rows: Iterable[tuple[str, str, str]], order: Callable[[str, str], int], *, by_repository: Any = False
) -> dict[str, Any]:
    """`{name: [versions]}`, newest first, for rows of repository, name and version.

    `order` compares two versions. With `by_repository` the result is `{repository: {name: [versions]}}`.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for repository, name, version in rows:
        found.setdefault(repository if by_repository else "", {}).setdefault(name, set()).add(version)
    key = functools.cmp_to_key(order)
    listed = {
        repository: {name: sorted(versions, key=key, reverse=True) for name, versions in names.items()}
        for repository, names in found.items()
    }
    return dict(listed) if by_repository else listed.get("", {})


def compare(order: Callable[[str, str], int], first: Any, second: Any, ignore_epoch: bool = False) -> int:
    """The result of `pkg.version_cmp`: -1, 0 or 1 by `order`, with `ignore_epoch` without the epochs."""
    one, other = str(first), str(second)
    if ignore_epoch:
        one, other = one.rpartition(":")[2], other.rpartition(":")[2]
    return order(one, other)


def file_list(by_package: Mapping[str, Any]) -> dict[str, Any]:
    """The result of `pkg.file_list` for that of `pkg.file_dict`."""
    files = {path for paths in by_package["packages"].values() for path in paths}
    return {"errors": by_package["errors"], "files": sorted(files)}


def group_difference(groups: Mapping[str, Iterable[str]], installed: Mapping[str, Any]) -> dict[str, Any]:
    """The result of `pkg.group_diff` for `{kind: names}`."""
    return {
        kind: {
            "installed": [name for name in names if name in installed],
            "not installed": [name for name in names if name not in installed],
        }
        for kind, names in groups.items()
    }


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """The changes between two lists of installed packages."""
    return {
        name: {"old": before.get(name, ""), "new": after.get(name, "")}
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }


def changed(listing: Callable[[], Mapping[str, Any]], act: Callable[[], Any]) -> Changes:
    """What `act` changed. If it fails, the error is raised again with the names that had changed by then."""
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
    """The attributes of each package that `attr` (a list or comma-separated string) selects; all of them for None."""
    if not attr:
        return {name: dict(row) for name, row in rows.items()}
    return {name: {key: row[key] for key in words(attr) if key in row} for name, row in rows.items()}


def run(argv: Sequence[str], env: Mapping[str, str] | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one command in the C locale with `text` as its input.

    Raises CommandNotFoundError, and CommandExecutionError if it cannot be started.
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
    """The error for arguments that are too long, contain NUL, or are not valid UTF-8."""
    reason = error.strerror if isinstance(error, OSError) else "an argument is no text of UTF-8 without NUL"
    return CommandExecutionError(f"{program} cannot be started: {reason}.")


def failure(done: subprocess.CompletedProcess[str], reasons: Sequence[str]) -> CommandExecutionError:
    """The error for a failed command, with the given `reasons` or else the last lines of its output."""
    lines = [line.strip() for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
    words = "; ".join(reasons or lines[-REASON_LINES:] or ["it gave no reason"])
    return CommandExecutionError(f"{os.path.basename(done.args[0])} failed (return code {done.returncode}): {words}")


def database_locked(holder: str = "") -> CommandExecutionError:
    """The error if another package manager holds the lock; `holder` is a suffix such as ` (process 12)`."""
    return CommandExecutionError(
        f"The package database is locked by another package manager{holder}: try again when that has ended."
    )


def not_root() -> CommandExecutionError:
    """The error if the minion may not change packages."""
    return CommandExecutionError("Packages can be changed by root only, and this minion runs as another user.")


def hold_report(name: str, old: str, new: str, problem: str = "", *, test: bool = False) -> dict[str, Any]:
    """The entry of one package in the result of `pkg.hold` and `pkg.unhold`; `old` and `new` are its states, such as
    `hold`.

    `problem` says why it failed. With `test` nothing was done, and the result is None.
    """
    if problem:
        return {"name": name, "changes": {}, "result": False, "comment": problem}
    if old == new:
        return {"name": name, "changes": {}, "result": True, "comment": f"Package {name} is already so."}
    change = "being held" if new == "hold" else "no longer held"
    comment = f"Package {name} {'would be' if test else 'is'} {change}."
    return {"name": name, "changes": {"old": old, "new": new}, "result": None if test else True, "comment": comment}


def lock_holder(path: str) -> str:
    """The process that has the file open, as a suffix such as ` (process 12, name)`; an empty string if none is found.

    Only root can examine the processes of other users.
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


# Code of programs and libraries. Deleted files elsewhere are temporary files of a program.
_REPLACED = re.compile(r" r-xp .* (?:/usr|/opt|/lib\w*|/s?bin)/.* \(deleted\)$", re.MULTILINE)
_SERVICE = re.compile(r"/([^/\n]+)\.service$", re.MULTILINE)


def services_running_replaced_files(procfs: str = "/proc") -> list[str]:
    """Systemd services whose processes run programs or libraries that an upgrade has replaced, sorted.

    Processes that cannot be examined are skipped.
    """
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
