"""Tokens: what somebody holds who has logged in, and how the master knows it again.

A token is 256 bits by chance. The store has neither it nor a hash that another program could make: both the name of
its row and the seal of the row are HMACs with a key that MWorkers read before they give up root's rights. So a copy of
the store lets no one in, and a row that another process wrote into it (the link process, which may have been broken
into) is not a token. A seal binds the token to its principal and its times.
"""

from __future__ import annotations

import hmac
import re
from typing import Protocol

from saltlite.auth.acl import Principal, number_of
from saltlite.errors import LoginError
from saltlite.limits import FillTimes, RateLimiter
from saltlite.model.keys import AuthToken

SECRET_BYTES = 32
NAME_MAX = 128
"""Characters of the name of a user or a backend."""
GROUPS_MAX = 1000
TOKENS_MAX = 1000
"""Tokens of one user; a further one revokes the oldest."""
SEALED_KEPT = 256
"""Tokens of the last requests whose seals a process does not check again."""
WRONG_AT_ONCE = 10
"""Wrong guesses that one name may make at once ..."""
WRONG_EVERY_S = 6.0
"""... and then one in so many seconds."""

_TOKEN = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ID_DIGITS = 32


class TokenRows(Protocol):
    """The rows of tokens, as a store has them."""

    def auth_token(self, token_id: str) -> AuthToken | None:
        """The row of that name, None when there is none."""
        ...


class Logins:
    """Makes tokens and recognises them. `secret` is the master's: 32 bytes that no other process has."""

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, b"saltlite: tokens of logins", "sha256")
        self._sealed: dict[str, tuple[AuthToken, Principal]] = {}
        """By the name of a row: the row whose seal was right, and its principal."""

    def make(self, secret: bytes, who: Principal, now: float, lasts_s: float) -> tuple[str, AuthToken]:
        """A token of SECRET_BYTES bytes by chance: its text, which is shown once, and its row."""
        text = secret.hex()
        row = AuthToken(self.id_of(text), who.backend, who.user, tuple(sorted(who.groups)), now, now + lasts_s, "")
        return text, AuthToken(row.token_id, row.backend, row.user, row.groups, now, row.expires_at, self._seal(row))

    def id_of(self, text: str) -> str:
        """The name of the row of a token."""
        return hmac.digest(self._key, b"id:" + text.encode(), "sha256").hex()[:_ID_DIGITS]

    def holder(self, store: TokenRows, text: str, now: float) -> Principal:
        """Who holds this token. Raises LoginError for an unknown or ended one, without saying which."""
        # The row is found by a digest, so the time of the search reveals nothing of the token.
        row = store.auth_token(self.id_of(text)) if _TOKEN.fullmatch(text) else None
        principal = self._principal(row) if row is not None and now < row.expires_at else None
        if principal is None:
            raise LoginError("the token is not valid, or not any more: log in again")
        return principal

    def mark_of(self, backend: str, user: str) -> str:
        """What stands in a store for a name that somebody has tried: people type passwords as names."""
        text = f"{len(backend)}:{backend}:{user}".encode()
        return hmac.digest(self._key, b"tried:" + text, "sha256").hex()[:_ID_DIGITS]

    def _principal(self, row: AuthToken) -> Principal | None:
        """Who logged in for this row; None if the seal is wrong.

        The row is read for every request, because it may have been revoked. Its seal is checked once, as long as the
        row stays the same.
        """
        known = self._sealed.get(row.token_id)
        if known is not None and known[0] == row:
            return known[1]
        if not hmac.compare_digest(row.seal, self._seal(row)):
            return None
        if len(self._sealed) >= SEALED_KEPT:
            self._sealed.clear()
        principal = external(row.backend, row.user, row.groups)
        self._sealed[row.token_id] = row, principal
        return principal

    def _seal(self, row: AuthToken) -> str:
        parts = [row.token_id, row.backend, row.user, repr(row.created_at), repr(row.expires_at), *row.groups]
        # Each with its length, so that no two rows have one text.
        text = b"".join(len(part).to_bytes(4, "big") + part for part in (one.encode() for one in parts))
        return hmac.digest(self._key, b"row:" + text, "sha256").hex()


def external(backend: str, user: str, groups: tuple[str, ...]) -> Principal:
    """The principal of a login. Its uid is negative, and the same for the same backend and name."""
    return Principal(user, number_of(f"{len(backend)}:{backend}:{user}"), backend, frozenset(groups))


def guess_limiter(fill_times: FillTimes | None = None) -> RateLimiter:
    """Limits wrong passwords, and wrong values of pillar in targets: spend a token for each. A key is (what, name).

    The right guess is refused as well while there is none left, because an answer would tell which guess is right.
    """
    return RateLimiter(1 / WRONG_EVERY_S, WRONG_AT_ONCE, fill_times=fill_times)
