"""Groups of packages as dnf5, dnf and yum print them: the mechanics behind `pkg.group_list` and `pkg.group_info`."""

from __future__ import annotations

import re
from typing import Any

from saltlite.errors import SaltInvocationError

KINDS = ("mandatory", "optional", "default", "conditional")

_LISTS = {
    "installed groups:": "installed",
    "available groups:": "available",
    "installed environment groups:": "installed environments",
    "available environment groups:": "available environments",
    "available language groups:": "available languages",
}
_LANGUAGE = re.compile(r"(.+) \[(.+)\]")
_NAME = re.compile(r"[^\s\x00-\x1f@-][^\x00-\x1f]*")
_TABLE_ROW = re.compile(r"^(\S+) .*\b(yes|no)$")
_MEMBERS = re.compile(r"^\s*(mandatory|optional|default|conditional) (?:groups|packages)\s*:\s*(\S.*)?$", re.IGNORECASE)
_FIELD = re.compile(r"^\s*([A-Za-z][A-Za-z -]*?)\s*:\s*(.*)$")
_CONTINUED = re.compile(r"^\s+(?::\s*)?[-+=]?\s*(\S.*)$")


def checked_name(name: Any) -> str:
    """The name or id of a group, or SaltInvocationError."""
    text = str(name).removeprefix("@")
    if not _NAME.fullmatch(text):
        raise SaltInvocationError(f"{name!r} is not the name of a group.")
    return text


def read_groups(text: str) -> dict[str, Any]:
    """What `pkg.group_list` gives, from lists with headings (yum, dnf) or a table with a column `Installed` (dnf5)."""
    found: dict[str, Any] = {key: [] for key in _LISTS.values()}
    found["available languages"] = {}
    under = ""
    for line in text.splitlines():
        under_now = _LISTS.get(line.strip().lower())
        row = _TABLE_ROW.match(line)
        if under_now is not None:
            under = under_now
        elif under and line[:1].isspace() and line.strip():
            language = _LANGUAGE.match(line.strip())
            if under != "available languages":
                found[under].append(line.strip())
            elif language:
                found[under][line.strip()] = {"name": language[1], "language": language[2]}
        elif row:
            found["installed" if row[2] == "yes" else "available"].append(row[1])
    return found


def read_group(text: str) -> dict[str, Any]:
    """What `pkg.group_info` gives; `group` and `id` are None where the text has no group."""
    fields: dict[str, str] = {}
    members: dict[str, list[str]] = {kind: [] for kind in KINDS}
    kind = ""
    for line in text.splitlines():
        heading, field, more = _MEMBERS.match(line), _FIELD.match(line), _CONTINUED.match(line)
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
