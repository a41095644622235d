"""Manage the crontabs of users.

Jobs and variables are managed below Salt's own line in a crontab. Lines above it, and lines that are not jobs, are
preserved. A job is identified by its identifier, or by its command if it has none.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       crontab
:platform:      Linux
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _accounts, _programs

TAG = "# Lines below here are managed by Salt, do not edit"
"""Salt's own line, so that both programs can manage the same crontab."""

IDENTIFIER = "SALT_CRON_IDENTIFIER"
DISABLED = "#DISABLED#"
EMPTY = '""'
"""An empty variable in a crontab."""
TIMES = ("minute", "hour", "daymonth", "month", "dayweek")

_ENV = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


@dataclass(slots=True)
class Entry:
    """A job (`minute` … or `spec` in `values`), a variable (`name` and `value`), or other lines."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    """As they were read; empty for what is new or has changed."""

    @property
    def kind(self) -> str:
        """Its key in the result of `cron.list_tab`, or "" for other lines."""
        keys = {"minute": "crons", "spec": "special", "name": "env"}
        return next((kind for key, kind in keys.items() if key in self.values), "")

    def matches(self, cmd: str, identifier: str | None) -> bool:
        """Whether this is the job with that identifier, or with that command if it has no identifier."""
        if self.kind not in {"crons", "special"}:
            return False
        own = self.values["identifier"]
        return own == identifier if own is not None else bool(self.values["cmd"] == cmd)

    def text(self) -> list[str]:
        """Its lines."""
        if self.lines or not self.values:
            return self.lines
        if self.kind == "env":
            return [f"{self.values['name']}={self.values['value'] or EMPTY}"]
        when = [self.values[key] for key in ("spec", *TIMES) if key in self.values]
        switch = DISABLED if self.values["commented"] else ""
        return [*self._comment(), f"{switch}{' '.join(when)} {self.values['cmd']}"]

    def _comment(self) -> list[str]:
        comment, identifier = self.values["comment"], self.values["identifier"]
        if comment is None and identifier is None:
            return []
        lines = [f"# {line}".rstrip() for line in (comment or "").rstrip().split("\n")]
        return lines if identifier is None else [*lines[:-1], f"{lines[-1]} {IDENTIFIER}:{identifier}"]


@dataclass(slots=True)
class Crontab:
    """A crontab; `before` are the lines above `TAG`."""

    before: list[str]
    entries: list[Entry]

    def of_kind(self, *kinds: str) -> Iterator[Entry]:
        """The entries of these kinds, in the order of the kinds."""
        for kind in kinds:
            yield from (one for one in self.entries if one.kind == kind)

    def add(self, entry: Entry) -> None:
        """Append a job, or insert a variable above all jobs, since it applies to the lines that follow it."""
        place = len(self.entries)
        if entry.kind == "env":
            jobs = (number for number, one in enumerate(self.entries) if one.kind in {"crons", "special"})
            place = next(jobs, place)
        self.entries.insert(place, entry)

    def text(self) -> str:
        """The whole file."""
        return "".join(
            f"{line}\n" for line in [*self.before, TAG, *[line for one in self.entries for line in one.text()]]
        )


def _split(text: str) -> list[str]:
    """The lines of a text. cron splits them only at line feeds, `str.splitlines` also at characters of commands."""
    return text.removesuffix("\n").split("\n") if text else []


def _parse(text: str) -> Crontab:
    """Parse a crontab."""
    lines = _split(text)
    if TAG not in lines:
        return Crontab(lines, [])
    start = lines.index(TAG)
    return Crontab(lines[:start], list(_entries(lines[start + 1 :])))


def _entries(lines: list[str]) -> Iterator[Entry]:
    above: list[str] = []
    for line in lines:
        values = _job(line)
        if values is not None:
            yield Entry({**values, **_description(above)}, [*above, line])
            above = []
        elif line.startswith("#"):
            above.append(line)
        else:
            if above:
                yield Entry(lines=above)
                above = []
            match = _ENV.fullmatch(line)
            variable = {"name": match[1], "value": match[2]} if match else {}
            yield Entry(variable, [line])
    if above:
        yield Entry(lines=above)


def _job(line: str) -> dict[str, Any] | None:
    commented = line.startswith(DISABLED)
    line = line.removeprefix(DISABLED)
    if line.startswith("@"):
        words = line.split(None, 1)
        return {"spec": words[0], "cmd": words[1], "commented": commented} if len(words) == 2 else None
    words = line.split(None, len(TIMES))
    if line.startswith("#") or len(words) <= len(TIMES) or _ENV.fullmatch(line):
        return None
    return {**dict(zip(TIMES, words, strict=False)), "cmd": words[-1], "commented": commented}


def _description(above: list[str]) -> dict[str, str | None]:
    """The comment and the identifier of a job, from the lines above it."""
    if not above:
        return {"comment": None, "identifier": None}
    identifier: str | None = None
    texts = []
    for line in above:
        text, mark, rest = line.lstrip("# ").partition(IDENTIFIER)
        if mark and rest.startswith(":"):
            identifier = rest[1:]
        texts.append(text.rstrip() if mark else text)
    return {"comment": "\n".join(texts), "identifier": identifier}


__virtualname__ = "cron"

_RANGES = {"minute": (0, 59), "hour": (0, 23), "daymonth": (1, 28), "month": (1, 12), "dayweek": (0, 6)}
"""Ranges of `random`; every month has at least 28 days."""

_WHEN = re.compile(r"[0-9a-z*,/~-]+", re.ASCII)
_BETWEEN = re.compile(r"([0-9]+):([0-9]+)", re.ASCII)
_SPECIAL = re.compile(r"@[a-z0-9]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HEADER = "# DO NOT EDIT THIS FILE - edit the master and reinstall."
_HEADER_LINES = 3


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if shutil.which("crontab") is None:
        return False, "The cron execution module cannot be loaded: only works on machines with the program crontab."
    return __virtualname__


def raw_cron(user: str) -> str:
    """The text of a user's crontab; empty if there is none.

    CLI Example: ``saltlite '*' cron.raw_cron root``
    """
    return _read(user).encode(errors="surrogateescape").decode(errors="replace")


def list_tab(user: str) -> dict[str, list[Any]]:
    """A user's crontab: ``crons`` and ``special`` are the managed jobs, ``env`` the variables, ``pre`` the lines above.

    CLI Example::

        saltlite '*' cron.list_tab root
        saltlite '*' cron.ls root
    """
    tab = _parse(raw_cron(user))
    kinds = {kind: [dict(one.values) for one in tab.of_kind(kind)] for kind in ("crons", "special", "env")}
    return {"pre": tab.before, **kinds}


ls = list_tab


def get_entry(user: str, identifier: str | None = None, cmd: str | None = None) -> dict[str, Any] | bool:
    """One job of a user, by its identifier or by its command; False if there is none.

    CLI Example: ``saltlite '*' cron.get_entry root identifier=task1``
    """
    jobs = (one.values for one in _parse(raw_cron(user)).of_kind("crons", "special"))
    key, wanted = ("identifier", identifier) if identifier else ("cmd", cmd)
    return next((dict(one) for one in jobs if wanted and one[key] == str(wanted)), False)


def set_job(  # noqa: PLR0913, PLR0917 - the arguments are Salt's
    user: str, minute: str | int, hour: str | int, daymonth: str | int, month: str | int, dayweek: str | int, cmd: str,
    commented: bool = False, comment: str | None = None, identifier: str | None = None,
) -> str:  # fmt: skip
    """Run a command at these times: ``new``, ``updated``, or ``present`` if the job existed already.

    Times have the format of a crontab. ``random`` is chosen once, ``10:20`` is chosen once between the two numbers.
    ``commented`` keeps the job without running it.

    CLI Example::

        saltlite '*' cron.set_job root '*' '*' '*' '*' 1 /usr/local/weekly
        saltlite '*' cron.set_job root random 3 '*' '*' '*' /usr/local/nightly identifier=nightly
    """
    given = zip(TIMES, (minute, hour, daymonth, month, dayweek), strict=True)
    return _set(user, {key: _time(key, value) for key, value in given}, cmd, commented, comment, identifier)


def set_special(
    user: str, special: str, cmd: str, commented: bool = False, comment: str | None = None,
    identifier: str | None = None,
) -> str:  # fmt: skip
    """Run a command at ``@reboot``, ``@daily`` and the like: ``new``, ``updated`` or ``present``.

    CLI Example: ``saltlite '*' cron.set_special root @hourly 'echo foobar'``
    """
    if not _SPECIAL.fullmatch(str(special)):
        raise SaltInvocationError(f"{special!r} is not a time name of crontab, such as @daily.")
    return _set(user, {"spec": str(special)}, cmd, commented, comment, identifier)


def rm_job(  # noqa: PLR0913, PLR0917 - the arguments are Salt's
    user: str, cmd: str, minute: str | int | None = None, hour: str | int | None = None,
    daymonth: str | int | None = None, month: str | int | None = None, dayweek: str | int | None = None,
    identifier: str | None = None,
) -> str:  # fmt: skip
    """Remove a job of a user: ``removed``, or ``absent`` if there is none. If times are given, they must match.

    CLI Example::

        saltlite '*' cron.rm_job root /usr/local/weekly
        saltlite '*' cron.rm_job root /usr/bin/foo dayweek=1
        saltlite '*' cron.rm root /usr/local/weekly
    """
    given = dict(zip(TIMES, (minute, hour, daymonth, month, dayweek), strict=True))
    return _remove(user, "crons", cmd, identifier, {key: str(one) for key, one in given.items() if one is not None})


rm = rm_job


def rm_special(user: str, cmd: str, special: str | None = None, identifier: str | None = None) -> str:
    """Remove a job of a user that runs at ``@daily`` or the like: ``removed`` or ``absent``.

    CLI Example: ``saltlite '*' cron.rm_special root /usr/bin/foo``
    """
    return _remove(user, "special", cmd, identifier, {} if special is None else {"spec": str(special)})


def set_env(user: str, name: str, value: str | int | None = None) -> str:
    """Set a variable for the jobs of a user: ``new``, ``updated`` or ``present``.

    CLI Example: ``saltlite '*' cron.set_env root MAILTO user@example.com``
    """
    if not _VARIABLE.fullmatch(str(name)):
        raise SaltInvocationError(f"{name!r} is not the name of a variable.")
    wanted = {"name": str(name), "value": _line(value, "value of a variable")}
    tab = _parse(_read(user))
    entry = next((one for one in tab.of_kind("env") if one.values["name"] == name), None)
    if entry is not None and entry.values["value"] in {wanted["value"], wanted["value"] or EMPTY}:
        return "present"
    return _store(user, tab, entry, wanted)


def rm_env(user: str, name: str) -> str:
    """Remove a variable from the crontab of a user: ``removed`` or ``absent``.

    CLI Example: ``saltlite '*' cron.rm_env root MAILTO``
    """
    tab = _parse(_read(user))
    found = [one for one in tab.of_kind("env") if one.values["name"] == str(name)]
    return _without(user, tab, found)


def write_cron_file(user: str, path: str) -> bool:
    """Replace the crontab of a user by a file; whether crontab accepted it.

    CLI Example: ``saltlite '*' cron.write_cron_file root /srv/new_cron``
    """
    return bool(write_cron_file_verbose(user, path)["retcode"] == 0)


def write_cron_file_verbose(user: str, path: str) -> dict[str, Any]:
    """Replace the crontab of a user by a file; ``retcode``, ``stdout`` and ``stderr`` of crontab.

    CLI Example: ``saltlite '*' cron.write_cron_file_verbose root /srv/new_cron``
    """
    if not os.path.isabs(str(path)) or "\0" in str(path):
        raise SaltInvocationError(f"{path!r} is not the absolute path of a file.")
    done = _programs.run([*_crontab_of(user), str(path)])
    return {"retcode": done.retcode, "stdout": done.stdout.rstrip(), "stderr": done.stderr.rstrip()}


def _read(user: str) -> str:
    """The text of a crontab; invalid UTF-8 is kept as surrogates, which are written back unchanged."""
    done = _programs.run([*_crontab_of(user), "-l"], exact=True)
    if done.retcode and not done.stderr.lower().startswith(("no crontab", "crontab: can't open")):
        raise CommandExecutionError(f"The crontab of {user} cannot be read: {done.reason()}")
    if done.retcode or not done.stdout:
        return ""
    lines = _split(done.stdout)
    kept = lines[_HEADER_LINES:] if lines[0].startswith(_HEADER) else lines
    return "".join(f"{line}\n" for line in kept)


def _set(user: str, when: dict[str, str], cmd: Any, commented: bool, comment: Any, identifier: Any) -> str:
    command = _line(cmd, "command")
    if not command.strip():
        raise SaltInvocationError("There is no command to run: the text is empty.")
    name = None if identifier is None else _line(identifier, "identifier")
    text = None if comment is None else "\n".join(_line(line, "comment") for line in _split(str(comment)))
    tab = _parse(_read(user))
    entry = next((one for one in tab.of_kind("crons", "special") if one.matches(command, name)), None)
    old = {} if entry is None else entry.values
    wanted = {
        **{key: _chosen(key, value, str(old.get(key, "*"))) for key, value in when.items()},
        "cmd": command,
        "commented": bool(commented),
        "comment": old.get("comment") if text is None else text,
        "identifier": old.get("identifier") if name is None else name,
    }
    if wanted == old:
        return "present"
    return _store(user, tab, entry, wanted)


def _store(user: str, tab: Crontab, entry: Entry | None, wanted: dict[str, Any]) -> str:
    """Add the entry, or change its values; return "new" or "updated"."""
    if entry is None:
        tab.add(Entry(wanted))
    else:
        entry.values, entry.lines = wanted, []
    _write(user, tab)
    return "new" if entry is None else "updated"


def _remove(user: str, kind: str, cmd: Any, identifier: Any, when: dict[str, str]) -> str:
    tab = _parse(_read(user))
    name = None if identifier is None else str(identifier)
    jobs = (one for one in tab.of_kind(kind) if one.matches(str(cmd), name))
    found = [one for one in jobs if all(one.values[key] == value for key, value in when.items())]
    return _without(user, tab, found[:1])


def _without(user: str, tab: Crontab, found: list[Entry]) -> str:
    if not found:
        return "absent"
    tab.entries = [one for one in tab.entries if not any(one is gone for gone in found)]
    _write(user, tab)
    return "removed"


def _write(user: str, tab: Crontab) -> None:
    done = _programs.run([*_crontab_of(user), "-"], stdin=tab.text())
    if done.retcode:
        raise CommandExecutionError(f"The crontab of {user} was not changed: {done.reason()}")


def _crontab_of(user: Any) -> list[str]:
    name = _accounts.user_name(user)
    found = _accounts.user(name, None)
    if found is None:
        raise CommandExecutionError(f"User '{name}' does not exist")
    if found.pw_uid == os.geteuid():
        return ["crontab"]
    if os.geteuid() != 0:
        raise CommandExecutionError(
            f"Only root can manage the crontab of {name}, and this minion runs as another user."
        )
    return ["crontab", "-u", name]


def _time(key: str, given: Any) -> str:
    text = str(given).lower()
    between = _BETWEEN.fullmatch(text)
    if between is None and not _WHEN.fullmatch(text):
        raise SaltInvocationError(f"{given!r} is not a valid {key} of a crontab.")
    return text


def _chosen(key: str, value: str, old: str) -> str:
    """The time for a job; a time that was chosen before is kept."""
    between = _BETWEEN.fullmatch(value)
    if value == "random" and old != "*":
        return old
    if value != "random" and between is None:
        return value
    low, high = sorted((int(between[1]), int(between[2]))) if between else _RANGES[key]
    if old.isdecimal() and low <= int(old) <= high:
        return old
    return str(low + int.from_bytes(os.urandom(4), "big") % (high - low + 1))


def _line(given: Any, what: str) -> str:
    return _programs.value(given, what, without="")
