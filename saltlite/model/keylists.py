"""Keys as Salt's functions name and return them: lists of ids, by what became of the keys.

Rows are those of the master's verb `key_list`: id, fingerprint, state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from saltlite.errors import UsageError

LISTS = {
    "minions": "accepted",
    "minions_pre": "pending",
    "minions_rejected": "rejected",
    "minions_denied": "conflict",
    "minions_revoked": "revoked",
}
"""Salt's names of the lists of keys -> our states. The last one Salt does not have."""
LOCAL = "local"
"""The list of the master's own keys."""
LOCAL_KEY = "master.pub"

_SHORT = {
    "acc": "minions",
    "accepted": "minions",
    "pre": "minions_pre",
    "un": "minions_pre",
    "unaccepted": "minions_pre",
    "rej": "minions_rejected",
    "rejected": "minions_rejected",
    "den": "minions_denied",
    "denied": "minions_denied",
    "rev": "minions_revoked",
    "revoked": "minions_revoked",
}

Row = Mapping[str, Any]


def all_lists(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Ids by list; each list is there, and that of the master."""
    found: dict[str, list[str]] = {name: [] for name in LISTS}
    for row in rows:
        for name in _lists_of(row):
            found[name].append(row["id"])
    return {**found, LOCAL: [LOCAL_KEY]}


def some_lists(rows: Iterable[Row], match: str) -> dict[str, list[str]]:
    """The list of that name, long or short, all of them for `all`; otherwise the ids that fit the glob, by list."""
    everything = all_lists(rows)
    if match == "all":
        return everything
    name = _SHORT.get(match, match)
    return {name: everything[name]} if name in LISTS else matching(everything, match)


def matching(lists: Mapping[str, Sequence[str]], match: str) -> dict[str, list[str]]:
    """What fits the glob; lists in which nothing does are left out."""
    found = {name: [one for one in ids if fnmatchcase(one, match)] for name, ids in lists.items()}
    return {name: ids for name, ids in found.items() if ids}


def fingerprints(rows: Iterable[Row], match: str, own: str = "") -> dict[str, dict[str, str]]:
    """Fingerprints by list and id, of the ids that fit the glob. `own` is the master's; "" leaves it out."""
    found: dict[str, dict[str, str]] = {LOCAL: {LOCAL_KEY: own}} if own else {}
    for row in rows:
        for name in _lists_of(row):
            if fnmatchcase(row["id"], match):
                found.setdefault(name, {})[row["id"]] = row["fingerprint"]
    return found


def chosen(rows: Iterable[Row], match: object, states: Collection[str]) -> list[Row]:
    """The keys in these states whose ids fit the glob. Raises UsageError for what is no glob."""
    if not isinstance(match, str):
        raise UsageError("`match` is a glob on ids")
    return [row for row in rows if row["state"] in states and fnmatchcase(row["id"], match)]


def chosen_by_name(rows: Iterable[Row], match: object) -> list[Row]:
    """The keys that a map names by list and id, as `{minions_pre: [id]}`. Raises UsageError for what is none."""
    if not isinstance(match, dict) or not all(isinstance(ids, list) for ids in match.values()):
        raise UsageError("`match` is a map of lists of ids, such as {minions_pre: [web1]}")
    named = {(LISTS.get(name, name), one) for name, ids in match.items() for one in ids if isinstance(one, str)}
    return [row for row in rows if (row["state"], row["id"]) in named]


def changed(answer: Mapping[str, Any], told_as: str) -> dict[str, list[str]]:
    """What a `key_change` did, as Salt's functions return it: the ids below the list `told_as`; {} with "".

    Raises UsageError when it did nothing at all.
    """
    if answer["refused"] and not answer["changed"]:
        first = answer["refused"][0]
        raise UsageError(f"{first['id']}: {first['reason']}")
    return {told_as: sorted(row["id"] for row in answer["changed"])} if told_as else {}


def _lists_of(row: Row) -> list[str]:
    return [name for name, state in LISTS.items() if row["state"] == state]
