"""Tokens of people and programs, as SQLite keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from saltlite.master.store.sqlite.connection import Values
from saltlite.master.store.sqlite.history import Queries
from saltlite.master.store.sqlite.transaction import Transaction
from saltlite.model.authtoken import AuthToken

_TOKENS = "SELECT token_id, backend, user, groups, created_at, expires_at, seal FROM auth_tokens"
_PUT = (
    "INSERT INTO auth_tokens (token_id, backend, user, groups, created_at, expires_at, seal)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_TOO_MANY = (
    "DELETE FROM auth_tokens WHERE backend = ? AND user = ? AND token_id NOT IN (SELECT token_id FROM auth_tokens"
    " WHERE backend = ? AND user = ? ORDER BY created_at DESC, token_id LIMIT ?)"
)


class AuthTokenReader:
    """The part of `saltlite.master.store.ports.StoreReader` about these."""

    _queries: Queries

    def auth_token(self, token_id: str) -> AuthToken | None:
        rows = self._queries.rows(f"{_TOKENS} WHERE token_id = ?", (token_id,))
        return _token(rows[0]) if rows else None

    def auth_tokens(self) -> list[AuthToken]:
        return [_token(row) for row in self._queries.rows(f"{_TOKENS} ORDER BY created_at, token_id")]


def put_auth_token(transaction: Transaction, token: AuthToken, most: int) -> None:
    """Insert it, and forget the oldest of that user above `most`."""
    groups = json.dumps(token.groups)
    row: Values = (
        token.token_id,
        token.backend,
        token.user,
        groups,
        token.created_at,
        token.expires_at,
        token.seal,
    )
    transaction.run(_PUT, row)
    who = (token.backend, token.user)
    transaction.run(_TOO_MANY, (*who, *who, most))


def delete_auth_token(transaction: Transaction, token_id: str) -> bool:
    """Whether there was one."""
    return transaction.run("DELETE FROM auth_tokens WHERE token_id = ?", (token_id,)) == 1


def expire_auth_tokens(transaction: Transaction, now: float) -> None:
    """Forget those that expired at `now` or before."""
    transaction.run("DELETE FROM auth_tokens WHERE expires_at <= ?", (now,))


def _token(row: Sequence[Any]) -> AuthToken:
    token_id, backend, user, groups, created_at, expires_at, seal = row
    return AuthToken(token_id, backend, user, tuple(json.loads(groups)), created_at, expires_at, seal)
