"""Limits wrong passwords across all masters of a store.

The process that checks passwords counts those of its own master. An attacker could otherwise try as many passwords on
each master as on one. Guesses that are checked at the same moment do not see each other: each master may let through
`WRONG_AT_ONCE` of them once, and all of these count for the wait that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from saltlite.auth.logins import Logins, guess_limiter
from saltlite.errors import LoginError
from saltlite.master.store.sharing import SharedStore
from saltlite.model.dataclass import dataclass


class LoginLimiter:
    """Called before each check of a password, and after each wrong one. Times are those of the database, because the
    clocks of masters may differ. Both methods raise StoreError, and the login is then refused."""

    def __init__(self, store: SharedStore, logins: Logins) -> None:
        self._store = store
        self._logins = logins

    def refuse_guesses(self, backend: str, user: str) -> None:
        """Raises LoginError while logins with that name have to wait."""
        limiter = guess_limiter(_StoredFillTimes(self._store))
        wait_s = limiter.wait_s(self._logins.mark_of(backend, user), self._store.clock())
        if wait_s > 0:
            raise LoginError(f"too many wrong passwords for this name: try again in {wait_s:.0f} s")

    def count(self, backend: str, user: str) -> None:
        """Count a wrong password."""
        now = self._store.clock()
        with self._store.write() as writer:
            # No other writer changes the row until this transaction ends.
            times = _StoredFillTimes(self._store, lambda name, full_at: writer.put_login_full_at(name, full_at, now))
            guess_limiter(times).spend(self._logins.mark_of(backend, user), now)


@dataclass(frozen=True, slots=True)
class _StoredFillTimes:
    """Implements `saltlite.limits.FillTimes`. A key is the digest of a name."""

    store: SharedStore
    change: Callable[[str, float], None] | None = None
    """Stores a time; None where times are only read."""

    def get(self, key: Hashable) -> float:
        return self.store.login_full_at(str(key))

    def put(self, key: Hashable, full_at: float) -> None:
        if self.change is not None:
            self.change(str(key), full_at)
