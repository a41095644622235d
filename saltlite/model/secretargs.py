"""Which arguments of functions nobody may read again: judged by the name of the parameter that takes them.

Three kinds of secrets are known by what they look like: the login in an URL, the value of a header of HTTP that stands
in one text with its name, and a private key as PEM has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
_PLACES = (
    "_file", "_path", "_name", "_names", "_dir", "_id", "_url", "_type", "_format", "_policy", "_length", "_age",
    "_jar",
)  # fmt: skip
"""Ends of names that say where a secret is, or how it is made, and not what it is."""
_LOGIN_IN_URL = re.compile(r"(?<=://)[^\s/@:'\"]*:[^\s/'\"]*(?=@)|(?:(?<=https://)|(?<=http://))[^\s/?#'\"]+(?=@)")
_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(:\s*)(?!//)\S.*")
"""A whole text that is a header: its name, the colon, and a value."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [^-]*-----|\Z)", re.DOTALL)


def is_secret_argument(name: str) -> bool:
    """Whether a parameter of this name takes a secret: `password`, `https_pass`, `rootPassword`, `X-Api-Key`."""
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    if plain.endswith(_PLACES):
        return False
    return bool(_WORDS.intersection(plain.split("_"))) or f"_{plain}".endswith(_ENDS)


def without_secrets(value: Any, name: str = "") -> Any:
    """An argument as it may be shown: what has a secret's name, in maps at any depth, is replaced by HIDDEN.

    `name` is that of the parameter, or "". What is no text and no number says nothing, and stays. In other texts
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
    return _LOGIN_IN_URL.sub(HIDDEN, value)
