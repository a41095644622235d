"""Keys of minions: states, fingerprints, join tokens, and key lists as Salt's functions return them; login tokens.

The states of one key:

    (unknown) -> pending | accepted | conflict
    pending   -> accepted | rejected
    accepted  -> revoked
    rejected  -> accepted            by an operator who changed their mind
    conflict  -> accepted | rejected only after the holder of the id is revoked or deleted

Any state ends by `delete`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NewType

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId
from saltlite.model.sha256 import sha256

Fingerprint = NewType("Fingerprint", str)
"""Forty base32 letters in eight groups of five: the first 200 bits of SHA-256 over a public key."""

FINGERPRINT_BYTES = 25
_FINGERPRINT = re.compile(r"[A-Z2-7]{40}", re.ASCII)
_HEX_FINGERPRINT = re.compile(rf"[0-9a-fA-F]{{2}}(?::[0-9a-fA-F]{{2}}){{{FINGERPRINT_BYTES - 1}}}", re.ASCII)


class KeyState(StrEnum):
    """What the master thinks of a minion's key."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    REVOKED = "revoked"
    CONFLICT = "conflict"


TRANSITIONS: dict[KeyState, frozenset[KeyState]] = {
    KeyState.PENDING: frozenset({KeyState.ACCEPTED, KeyState.REJECTED}),
    KeyState.ACCEPTED: frozenset({KeyState.REVOKED}),
    KeyState.REJECTED: frozenset({KeyState.ACCEPTED}),
    KeyState.REVOKED: frozenset(),
    KeyState.CONFLICT: frozenset({KeyState.ACCEPTED, KeyState.REJECTED}),
}


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One minion key as the store holds it. Times are wall-clock seconds since 1970."""

    id: MinionId
    fingerprint: Fingerprint
    public: bytes
    state: KeyState
    address: str
    first_seen: float
    changed_at: float
    epoch: int
    how: str = ""
    """Why it has this state: `token k3f9…`, `preaccepted`, `operator root`, `first contact` …"""


def fingerprint_bytes(public: bytes) -> bytes:
    """The 25 bytes that a fingerprint spells: what the wire carries and minions pin."""
    return sha256(public)[:FINGERPRINT_BYTES]


def fingerprint(public: bytes) -> Fingerprint:
    """The fingerprint of a public key, as people compare it: `ABCDE-FGHIJ-…`, eight groups."""
    return format_fingerprint(fingerprint_bytes(public))


_X25519 = bytes.fromhex("302a300506032b656e032100")
"""What precedes the 32 bytes of an X25519 key in its standard form (RFC 8410)."""


def public_pem(public: bytes) -> str:
    """The public key of a minion in PEM, which ends with a newline."""
    text = base64.b64encode(_X25519 + public).decode("ascii")
    return f"-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n"


def format_fingerprint(raw: bytes) -> Fingerprint:
    """Spell the 25 bytes of a fingerprint."""
    text = base64.b32encode(raw).decode("ascii")
    return Fingerprint("-".join(text[i : i + 5] for i in range(0, 40, 5)))


def hex_fingerprint(text: Fingerprint) -> str:
    """The same fingerprint as Salt and its clients spell theirs: `3f:0a:…`, 25 bytes."""
    return unspell_fingerprint(text).hex(":")


def parse_fingerprint(text: object) -> Fingerprint:
    """The fingerprint in `text`; case, hyphens, spaces and a leading `SHA256:` do not matter.

    Raises UsageError when it is neither forty base32 letters nor as `hex_fingerprint` spells it.
    """
    if _HEX_FINGERPRINT.fullmatch(written := str(text).strip()):
        return format_fingerprint(bytes.fromhex(written.replace(":", "")))
    bare = str(text).strip().removeprefix("SHA256:").replace("-", "").replace(" ", "").upper()
    if not _FINGERPRINT.fullmatch(bare):
        raise UsageError(
            f"{str(text)[:60]!r} is not a fingerprint: it has eight groups of five letters, "
            "as `saltlite key finger` prints them"
        )
    return format_fingerprint(base64.b32decode(bare))


def unspell_fingerprint(text: Fingerprint) -> bytes:
    """The 25 bytes behind a fingerprint that parse_fingerprint made."""
    return base64.b32decode(text.replace("-", ""))


@dataclass(frozen=True, slots=True)
class JoinToken:
    """`slj1.<fleet fingerprint>.<token id>.<secret>`: pins the fleet and authorises one join.

    The secret is never stored and never sent: the master keeps `saltlite.wire.signatures.token_public()`, and minions
    send a proof. The text form must not be logged.
    """

    fleet: Fingerprint
    token_id: str
    secret: str

    def text(self) -> str:
        """The token as it is handed to a minion."""
        return f"slj1.{self.fleet.replace('-', '')}.{self.token_id}.{self.secret}"

    def __repr__(self) -> str:
        return f"JoinToken({self.token_id}, secret hidden)"


_TOKEN = re.compile(r"slj1\.([A-Z2-7]{40})\.([a-z0-9]{8})\.([a-z2-7]{32})", re.ASCII)


def parse_token(text: str) -> JoinToken:
    """The join token in `text`. Raises UsageError without repeating the text, which is a secret."""
    match = _TOKEN.fullmatch(text.strip())
    if not match:
        raise UsageError(
            "the join token is not one: it starts with slj1. and is printed by `saltlite key token create`"
        )
    return JoinToken(parse_fingerprint(match[1]), match[2], match[3])


# -- Key lists in Salt's form: their rows are those of the master's verb `key_list` (id, fingerprint, state)


LISTS = {
    "minions": "accepted",
    "minions_pre": "pending",
    "minions_rejected": "rejected",
    "minions_denied": "conflict",
    "minions_revoked": "revoked",
}
"""Salt's names of the lists of keys -> our states. The last one Salt does not have."""
REVOKED = "minions_revoked"
LOCAL = "local"
"""The list of the master's own keys."""
LOCAL_KEY = "master.pub"

SHORT_NAMES = {
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


def fits(minion: str, match: str) -> bool:
    """Whether the id fits the glob, or one of several globs with commas between."""
    return any(fnmatchcase(minion, glob) for glob in match.split(","))


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
    name = SHORT_NAMES.get(match, match)
    return {name: everything[name]} if name in LISTS else matching(everything, match)


def matching(lists: Mapping[str, Sequence[str]], match: str) -> dict[str, list[str]]:
    """The keys that match the globs, without empty lists."""
    found = {name: [one for one in ids if fits(one, match)] for name, ids in lists.items()}
    return {name: ids for name, ids in found.items() if ids}


def fingerprints(rows: Iterable[Row], match: str, own: str = "") -> dict[str, dict[str, str]]:
    """Fingerprints by list and id, of the ids that fit the globs. `own` is the master's; "" leaves it out."""
    local = {LOCAL: {LOCAL_KEY: own}} if own else {}
    return {**local, **by_id(rows, match, "fingerprint")}


def by_id(rows: Iterable[Row], match: str, field: str) -> dict[str, dict[str, str]]:
    """One field of each row by list and id, of the ids that fit the globs."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        for name in _lists_of(row):
            if fits(row["id"], match):
                found.setdefault(name, {})[row["id"]] = row[field]
    return found


def chosen(rows: Iterable[Row], match: object, states: Collection[str]) -> list[Row]:
    """The keys in these states whose ids fit the globs. Raises UsageError for an invalid glob."""
    if not isinstance(match, str):
        raise UsageError("`match` is a glob on ids")
    return [row for row in rows if row["state"] in states and fits(row["id"], match)]


def chosen_by_name(rows: Iterable[Row], match: object) -> list[Row]:
    """The keys that a map names by list and id, as `{minions_pre: [id]}`. Raises UsageError for anything else."""
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


# -- Login tokens


@dataclass(frozen=True, slots=True)
class AuthToken:
    """One row. The token itself is nowhere; times are wall-clock seconds since 1970."""

    token_id: str
    """Made of the token with the master's key; it names the token to people who may revoke it."""
    backend: str
    user: str
    groups: tuple[str, ...]
    """The user's groups, from the backend, at login."""
    created_at: float
    expires_at: float
    seal: str
    """Made of all of the above with the master's key: a row that something else wrote is not a token."""
