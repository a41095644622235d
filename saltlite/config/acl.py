"""Kinds of the options that grant rights. They are checked when they are read, so that a mistake has its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from saltlite.auth.rules import read_blacklist, read_rules
from saltlite.config.kinds import MisfitError
from saltlite.config.written import Map, Written, value_of
from saltlite.errors import UsageError
from saltlite.hooks import read_hooks


@dataclass(frozen=True, slots=True)
class Grants:
    """A map from users to lists of rules; of backends to such maps with `by_backend`."""

    by_backend: bool = False

    def wants(self) -> str:
        users = "a map from users (or group%) to lists of functions, targets with functions, and rights such as @jobs"
        return f"a map from backends to such: {users}" if self.by_backend else users

    def read(self, written: Written) -> dict[str, Any]:
        if not isinstance(written, Map):
            raise MisfitError(written)
        if not self.by_backend:
            _checked(written, lambda value: read_rules(value, "publisher_acl", patterns=True))
        for key, value in written.pairs if self.by_backend else ():
            _checked(value, lambda users, backend=key.text: read_rules(users, f"external_auth.{backend}"))  # type: ignore[misc]  # the default binds the name of this turn
        return _plain(written)

    def spell(self, value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Forbidden:
    """`{users: [...], modules: [...]}`."""

    def wants(self) -> str:
        return "a map of `users` and `modules`, lists of names or patterns"

    def read(self, written: Written) -> dict[str, Any]:
        if not isinstance(written, Map):
            raise MisfitError(written)
        _checked(written, read_blacklist)
        return _plain(written)

    def spell(self, value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class HooksKind:
    """A map from names to hooks."""

    def wants(self) -> str:
        return "a map from names to hooks: maps of `event`, `as`, `job` or `runner` ..."

    def read(self, written: Written) -> dict[str, Any]:
        if not isinstance(written, Map):
            raise MisfitError(written)
        _checked(written, read_hooks)
        return _plain(written)

    def spell(self, value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False)


def _plain(written: Map) -> dict[str, Any]:
    return {key.text: value_of(value) for key, value in written.pairs}


def _checked(written: Written, read: Callable[[Any], object]) -> None:
    try:
        read(_plain(written) if isinstance(written, Map) else value_of(written))
    except UsageError as error:
        raise MisfitError(written, str(error)) from error
