"""A login that is kept: what the master's store knows of the token that somebody got for a name and a password."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuthToken:
    """One row. The token itself is nowhere; times are wall-clock seconds since 1970."""

    token_id: str
    """Made of the token with the master's key; it names the token to people who may revoke it."""
    backend: str
    user: str
    groups: tuple[str, ...]
    """What the backend said of the user's groups at login."""
    created_at: float
    expires_at: float
    seal: str
    """Made of all of the above with the master's key: a row that something else wrote is no token."""
