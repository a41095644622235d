"""Which arguments of functions nobody may read again: judged by the name of the parameter that takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"
"""What stands where a secret was."""

_WORDS = frozenset(
    {
        "credential", "credentials", "passphrase", "passwd", "password", "passwords", "pass", "pwd", "secret",
        "secrets", "token", "tokens", "apikey",
    }
)  # fmt: skip
_ENDS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "_api_key", "_access_key", "private_key")
_PLACES = ("_file", "_path", "_name", "_names", "_dir", "_id", "_url", "_type", "_format", "_policy", "_length", "_age")
"""Ends of names that say where a secret is, or how it is made, and not what it is."""


def is_secret_argument(name: str) -> bool:
    """Whether a parameter of this name takes a secret: `password`, `https_pass`, `rootPassword`, `api_key`."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if plain.endswith(_PLACES):
        return False
    return bool(_WORDS.intersection(plain.split("_"))) or f"_{plain}".endswith(_ENDS)


def without_secrets(value: Any, name: str = "") -> Any:
    """An argument as it may be shown: what has a secret's name, in maps at any depth, is replaced by HIDDEN.

    `name` is that of the parameter, or "". What is no text and no number says nothing, and stays.
    """
    if name and is_secret_argument(name) and not isinstance(value, bool | None):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: without_secrets(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in value]
    return value
