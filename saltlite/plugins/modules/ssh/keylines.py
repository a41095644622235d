"""Lines of keys, as sshd(8) describes them: options, type, key, comment."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

_TYPE = re.compile(r"(?:(?:sk-)?ssh-|(?:sk-)?ecdsa-|rsa-sha2-)[a-z0-9@.-]+")

_SHORT = {
    "ssh-rsa": {"r", "rsa"},
    "ssh-dss": {"d", "dsa", "dss"},
    "ecdsa-sha2-nistp256": {"e", "ecdsa"},
    "ssh-ed25519": {"ed25519"},
}


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key that may log in."""

    options: list[str]
    enc: str
    key: str
    comment: str

    def text(self) -> str:
        """The line, with its end."""
        options = ",".join(self.options) + " " if self.options else ""
        return f"{options}{self.enc} {self.key} {self.comment}".rstrip() + "\n"


def parse(line: str) -> KeyLine | None:
    """The key of a line; None for comments and whatever else is no key."""
    rest = line.strip()
    if not rest or rest.startswith("#"):
        return None
    first, more = _cut(rest)
    options: list[str] = []
    if not _TYPE.fullmatch(first):
        options = _options(first)
        first, more = _cut(more)
    words = more.split()
    if not _TYPE.fullmatch(first) or not words:
        return None
    return KeyLine(options, first, words[0], " ".join(words[1:]))


def _cut(text: str) -> tuple[str, str]:
    """The first word, in which white space between quotation marks is no end, and what follows it."""
    text = text.lstrip()
    quoted = False
    for place, character in enumerate(text):
        if character == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        elif character in " \t" and not quoted:
            return text[:place], text[place:].lstrip()
    return text, ""


def _options(text: str) -> list[str]:
    found, quoted, start = [], False, 0
    for place, character in enumerate(text):
        if character == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        elif character == "," and not quoted:
            found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]]


def refined(enc: Any) -> str:
    """The type of a key by its full name. Raises CommandExecutionError."""
    text = str(enc)
    for name, short in _SHORT.items():
        if text in short:
            return name
    if _TYPE.fullmatch(text):
        return text
    raise CommandExecutionError(f"Incorrect encryption key type '{text}'.")


def fingerprint(key: str, hash_type: str | None) -> str | None:
    """The digest of a key, as hexadecimal digits with colons; None for what is no key."""
    kind = (hash_type or "sha256").lower()
    if kind not in hashlib.algorithms_guaranteed or kind.startswith("shake"):
        raise CommandExecutionError(f"The fingerprint_hash_type {hash_type} is not supported.")
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not raw:
        return None
    return hashlib.new(kind, raw, usedforsecurity=False).digest().hex(":")


def same_fingerprint(one: str, other: str) -> bool:
    """Whether they are the same; the first may be written as OpenSSH does, `SHA256:…`."""
    if one.startswith("SHA256:"):
        try:
            return base64.b64decode(one[7:] + "=" * (-len(one[7:]) % 4)).hex(":") == other
        except (binascii.Error, ValueError):
            return False
    return one.removeprefix("MD5:").lower() == other


def type_in(key: str) -> str | None:
    """The type that a key says itself; None for what is no key."""
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return None
    name = raw[4 : 4 + int.from_bytes(raw[:4], "big")].decode("ascii", "replace")
    return name if _TYPE.fullmatch(name) else None


def one_line(value: Any, what: str) -> str:
    """A text that adds no line of its own. Raises SaltInvocationError."""
    text = "" if value is None else str(value)
    if any(character in text for character in "\0\n\r"):
        raise SaltInvocationError(f"{what} is one line.")
    return text
