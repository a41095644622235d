"""Redaction: secrets in arguments of functions, and in events, logs and records of machines and their providers.

Secret arguments are recognised by the name of their parameter, and by their form: a login in a URL, the value of an
HTTP header in one text with its name, a private key in PEM.

For machines there are three rules, each sufficient: an event with a list of allowed fields has no others; a value under
a key with a secret name is removed at any depth; every known secret is replaced wherever it occurs, in its common
encodings. Public keys count as secrets (contract: "Writing Cloud Driver Modules").
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

HIDDEN = "***"
"""What stands where a secret was."""

_WORDS = frozenset(
    {
        "apikey", "authorization", "cookie", "credential", "credentials", "pass", "passphrase", "passwd", "password",
        "passwords", "pwd", "secret", "secrets", "token", "tokens",
    }
)  # fmt: skip
_ENDS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "_api_key", "_access_key", "private_key")
_PLACE_NAMES = (
    "_file", "_path", "_name", "_names", "_dir", "_id", "_url", "_type", "_format", "_policy", "_length", "_age",
    "_jar",
)  # fmt: skip
"""Ends of names that say where a secret is, or how it is made, and not what it is."""
_LOGIN_OR_TOKEN_IN_URL = re.compile(
    r"(?<=://)[^\s/@:'\"]*:[^\s/'\"]*(?=@)|(?:(?<=https://)|(?<=http://))[^\s/?#'\"]+(?=@)"
)
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(:\s*)(?!//)\S.*")
"""A whole text that is a header: its name, the colon, and a value."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL)


def is_secret_argument(name: str) -> bool:
    """Whether a parameter of this name takes a secret: `password`, `https_pass`, `rootPassword`, `X-Api-Key`."""
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    if plain.endswith(_PLACE_NAMES):
        return False
    return bool(_WORDS.intersection(plain.split("_"))) or f"_{plain}".endswith(_ENDS)


def without_secrets(value: Any, name: str = "") -> Any:
    """An argument as it may be shown: what has a secret's name, in maps at any depth, is replaced by HIDDEN.

    `name` is that of the parameter, or "". Whatever is neither text nor a number stays. In other texts
    logins in URLs are replaced, and in a text that is a header like `Authorization: Bearer …` its value.
    """
    if name and is_secret_argument(name) and not isinstance(value, bool | None):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: without_secrets(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    if "-----BEGIN " in value:
        value = _PRIVATE_KEY.sub(HIDDEN, value)
    if ":" not in value:
        return value
    header = _HEADER.fullmatch(value)
    if header and is_secret_argument(header[1]):
        return f"{header[1]}{header[2]}{HIDDEN}"
    return _LOGIN_OR_TOKEN_IN_URL.sub(HIDDEN, value)


SECRET_MIN = 4
"""Characters: a shorter secret is found by its key's name only, for such texts stand everywhere."""
LINE_MIN = 16
"""Characters of a line of a longer secret, such as a private key, that is a secret of its own."""

ALLOWED: Mapping[str, frozenset[str]] = {
    "creating": frozenset({"event", "name", "profile", "provider", "driver"}),
    "deploying": frozenset(
        {
            "event", "name", "profile", "provider", "driver", "deploy_method", "host", "minion_dir",
            "minion_id", "os", "port",
            "script", "ssh_host", "ssh_port", "ssh_username", "sudo", "timeout", "tty", "username", "win_installer",
        }
    ),
    "created": frozenset(
        {
            "event", "name", "profile", "provider", "driver", "id", "image", "instance_id", "private_ips", "public_ips",
            "size", "state",
        }
    ),
    "destroying": frozenset({"event", "name", "provider", "driver", "instance_id"}),
    "destroyed": frozenset({"event", "name", "provider", "driver", "instance_id"}),
}  # fmt: skip
"""The last part of a tag -> the fields that such an event may have. Other events have what the other rules leave."""

_SECRET_WORDS = frozenset(
    {
        "auth", "authorization", "cookie", "credential", "credentials", "passphrase", "passwd", "password", "passwords",
        "pass", "pem", "pwd", "secret", "secrets", "token", "tokens", "apikey", "userdata", "sdb",
    }
)  # fmt: skip
_SECRET_ENDS = ("password", "passwd", "secret", "token", "apikey", "key", "keys", "pem", "passphrase")
"""As in `rootpassword`, `minion_pem`, `accesskey`."""
KEY_FILES = ("private_key", "ssh_key_file", "ssh_keyfile", "key_filename", "ssh_private_key")
"""Keys whose value is the path of a file with a secret, and seldom the secret."""
_PLACES = ("_file", "_path", "_name", "_names", "_dir", "_id", "_url", "_type", "_format", "name")
"""Ends of keys that say where something is, or what it is called, and not what it is."""
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]*(?:KEY|CERTIFICATE)[A-Z ]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL)
_PUBLIC_KEY = re.compile(r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w+|sk-[\w@.-]+) +[A-Za-z0-9+/=]{16,}")
_LOGIN_IN_URL = re.compile(r"(?<=://)[^\s/@:'\"]*:[^\s/@'\"]*(?=@)")
_JOIN_TOKEN = re.compile(r"\bslj1\.[A-Za-z2-7]+\.[a-z0-9]+\.[a-z2-7]+")


class Secrets:
    """Secret texts, growing as they become known."""

    def __init__(self, is_there: Callable[[str], bool] = lambda _path: False) -> None:
        """`is_there` says whether a path exists: an existing path is not a secret, whatever its key says."""
        self._is_there = is_there
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, secret: object) -> None:
        """Let this text, and its longer lines, appear nowhere from now on."""
        text = str(secret)
        for one in (text, *text.splitlines()):
            wanted = one.strip()
            if len(wanted) >= (SECRET_MIN if one is text else LINE_MIN) and not wanted.startswith("-----"):
                self._known.update(form for form in _forms(wanted) if len(form) >= SECRET_MIN)
        self._pattern = None

    def add_from(self, settings: object) -> None:
        """Let what stands under secret keys of these settings, at any depth, appear nowhere from now on."""
        for value in secret_values(settings, self._is_there):
            self.add(value)

    def text(self, content: str) -> str:
        """The text without secrets."""
        if self._pattern is None and self._known:
            longest_first = sorted(self._known, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        for pattern in (self._pattern, _KEY_BLOCK, _PUBLIC_KEY, _JOIN_TOKEN, _LOGIN_IN_URL):
            if pattern is not None:
                content = pattern.sub(HIDDEN, content)
        return content

    def value(self, content: Any) -> Any:
        """Data without secrets: keys that name one are removed, and known ones replaced in all texts and keys."""
        match content:
            case str():
                return self.text(content)
            case bytes():
                return self.text(content.decode("utf-8", "replace"))
            case Mapping():
                return {
                    self.text(str(key)): self.value(value)
                    for key, value in content.items()
                    if not is_secret_name(str(key))
                }
            case list() | tuple() | set() | frozenset():
                return [self.value(one) for one in content]
            case bool() | None:
                return content
            case int() | float():
                return HIDDEN if str(content) in self._known else content
            case _:
                return self.text(str(content))

    def event(self, what: str, content: Mapping[str, Any], more: Collection[str] = ()) -> dict[str, Any]:
        """The data of an event whose tag ends with `what`; `more` are fields that it may have besides."""
        fields = dict(content)
        if what in ALLOWED:
            allowed = ALLOWED[what].union(more)
            fields = {key: value for key, value in content.items() if key in allowed}
            inner = content.get("kwargs")
            if isinstance(inner, Mapping):  # so drivers hand over what they deploy with
                fields["kwargs"] = {key: value for key, value in inner.items() if key in allowed}
        redacted: dict[str, Any] = self.value(fields)
        return redacted


def is_secret_name(name: str) -> bool:
    """Whether a key of this name holds a secret."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    plain = re.sub(r"[^a-z0-9]+", "_", spaced).strip("_")
    words = plain.split("_")
    if _SECRET_WORDS.intersection(words) and not _is_place(plain, words):
        return True
    if plain in ("user_data", "pub_key", "public_key", "private_key", "script_env"):
        return True
    return words[-1].endswith(_SECRET_ENDS) and words[-1] not in ("monkey",)


def _is_place(plain: str, words: list[str]) -> bool:
    """`secret_name`, `auth_type`, and private addresses."""
    return plain.endswith(_PLACES) or words[-1] in ("ip", "ips", "address", "addresses", "network", "networks", "dns")


def secret_values(settings: object, is_there: Callable[[str], bool], *, under: str = "") -> Iterator[object]:
    """What stands under secret keys at any depth, paths apart: those of key files, and those where something is.

    `under` is the nearest key above that is secret: everything below it is.
    """
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            yield from secret_values(value, is_there, under=str(key) if is_secret_name(str(key)) else under)
    elif isinstance(settings, list | tuple | set | frozenset):
        for value in settings:
            yield from secret_values(value, is_there, under=under)
    elif (
        under and settings is not None and not isinstance(settings, bool) and not _is_a_path(settings, under, is_there)
    ):
        yield settings


def _is_a_path(value: object, under: str, is_there: Callable[[str], bool]) -> bool:
    """Where a key is, stands in many a message; what is in it becomes a secret when it is read.

    Many a password looks like a path, so looks are not enough.
    """
    could_be = isinstance(value, str) and bool(re.fullmatch(r"[/~][\w./ @+-]*", value)) and "/" in value
    return could_be and (under in KEY_FILES or is_there(str(value)))


def _forms(text: str) -> set[str]:
    """The text as it looks in URLs, JSON, Python, shells and base64."""
    import urllib.parse  # noqa: PLC0415 - every job process has this file in memory, and few look for secrets

    return {
        text,
        urllib.parse.quote(text, safe=""),
        urllib.parse.quote_plus(text),
        json.dumps(text)[1:-1],
        repr(text)[1:-1],
        text.replace("'", "'\"'\"'"),
        base64.b64encode(text.encode()).decode("ascii").rstrip("="),
    }
