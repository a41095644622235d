"""Runs zypper for `zypperpkg` without prompts in a root folder, and parses its XML; failures become errors."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages, _rpm

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


# A name may have a kind as its prefix. A leading hyphen, tilde or exclamation mark would remove the package.
TARGETS = _packages.NameRules(
    re.compile(r"(?:(?:package|pattern|patch|product|srcpackage):|/)?[A-Za-z0-9_][A-Za-z0-9_.+~^%{}():/-]*", re.ASCII),
    _rpm.VERSIONS,
)

_REPOSITORY = r"[A-Za-z0-9_][A-Za-z0-9_.:+@()-]*"

_SUCCESS = (0, 100, 101, 102, 103)
"""Exit codes of success: done, updates or security updates are there, reboot or restart needed. Contract: zypper(8)."""

_LOCKED = 7
_NO_ROOT = 5
_CUT_REASON = r"^ Solution 1:"


class Answer:
    """The XML output of zypper, and the ended process."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        from xml.etree import ElementTree

        self.done = done
        try:
            self.xml: Element = ElementTree.fromstring(done.stdout)  # noqa: S314 - from the program on this machine
        except ElementTree.ParseError:
            self.xml = ElementTree.Element("stream")

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of all elements with this tag."""
        return [dict(element.attrib) for element in self.xml.iter(tag)]

    def problems(self) -> list[str]:
        """Its error messages."""
        found = [(each.text or "").strip() for each in self.xml.iter("message") if each.get("type") == "error"]
        for prompt in self.xml.iter("prompt"):
            text = (prompt.findtext("description") or "").strip()
            if text.startswith("Problem"):
                found.append(" ".join(re.split(_CUT_REASON, text, flags=re.MULTILINE)[0].split()))
        return [text for text in found if text]

    def checked(self, *also: int) -> Answer:
        """This answer. Raises CommandExecutionError if zypper failed; `also` are additional exit codes of success."""
        if self.done.returncode not in (*_SUCCESS, *also):
            raise self.failed()
        return self

    def planned(self) -> dict[str, str]:
        """The planned changes: `{name: new version}`, with an empty string for removed packages."""
        found: dict[str, str] = {}
        for part in self.xml.iterfind("install-summary/*"):
            for row in part.iter("solvable"):
                if row.get("type", "package") == "package":
                    found[str(row.get("name"))] = "" if part.tag == "to-remove" else str(row.get("edition"))
        return found

    def failed(self) -> CommandExecutionError:
        """The error for a failed command."""
        if self.done.returncode == _LOCKED:
            holder = re.search(r"pid (\d+) \(([^)]*)\)", self.done.stdout)
            who = f" (process {holder[1]}, {os.path.basename(holder[2])})" if holder else ""
            return _packages.database_locked(who)
        if self.done.returncode == _NO_ROOT:
            return _packages.not_root()
        return _packages.failure(self.done, self.problems()[: _packages.REASON_LINES])


def run(root: str | None, command: Sequence[str], names: Sequence[str] = (), *, fetch: bool = False) -> Answer:
    """Run one command. Without `fetch` it uses the package lists as they are."""
    return Answer(_packages.run(_argv(root, ["--xmlout"], command, names, fetch)))


def text(root: str | None, command: Sequence[str], names: Sequence[str] = ()) -> str:
    """The output of a command that prints no XML. Raises CommandExecutionError."""
    done = _packages.run(_argv(root, [], command, names, fetch=False))
    if done.returncode not in _SUCCESS:
        raise Answer(done).failed()
    return done.stdout


def _argv(
    root: str | None, form: Sequence[str], command: Sequence[str], names: Sequence[str], fetch: bool
) -> list[str]:
    folder = _rpm.root_folder(root)
    options = [*(["--root", folder] if folder else []), *([] if fetch else ["--no-refresh"]), *form]
    return ["zypper", "--non-interactive", *options, *command, *(["--"] if names else []), *names]


def repositories(given: Any) -> list[str]:
    """The aliases in a list or a comma-separated string. Raises SaltInvocationError for an invalid alias."""
    found = _packages.words(given)
    for alias in found:
        if not re.fullmatch(_REPOSITORY, alias, re.ASCII):
            raise SaltInvocationError(f"{alias!r} is not the alias of a repository.")
    return found
