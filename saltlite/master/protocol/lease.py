"""What the membership process of a master knows of its lease: states without IO."""

from __future__ import annotations

from enum import Enum


class LinkState(Enum):
    """What the link process may have: sessions of an earlier start of this master, and a lease to act on sessions.

    Both are assumed until the link process has said otherwise. Sessions of an earlier start end before the link process
    gets a lease for this start, and a lease ends before this start says that it has none.
    """

    UNKNOWN = "unknown"
    """The store has not been asked what an earlier process of this start left."""
    STALE = "stale"
    """Sessions of an earlier start, no lease."""
    STALE_LEASED = "stale and leased"
    CURRENT = "current"
    """Sessions of this start only, no lease."""
    LEASED = "leased"
    """Sessions of this start only, and a lease."""

    @property
    def is_stale(self) -> bool:
        """Whether there may be sessions of an earlier start."""
        return self in (LinkState.STALE, LinkState.STALE_LEASED)

    @property
    def has_lease(self) -> bool:
        """Whether there may be a lease."""
        return self in (LinkState.STALE_LEASED, LinkState.LEASED)

    def after_grant(self) -> LinkState:
        """The state when a lease has been sent to the link process."""
        return {LinkState.STALE: LinkState.STALE_LEASED, LinkState.CURRENT: LinkState.LEASED}.get(self, self)

    def after_lease(self) -> LinkState:
        """The state when the lease has ended."""
        return {LinkState.STALE_LEASED: LinkState.STALE, LinkState.LEASED: LinkState.CURRENT}.get(self, self)

    def after_reset(self) -> LinkState:
        """The state when the sessions of earlier starts have ended."""
        return {LinkState.STALE: LinkState.CURRENT, LinkState.STALE_LEASED: LinkState.LEASED}.get(self, self)

    def after_restart(self) -> LinkState:
        """The state when this master has begun another start."""
        return {LinkState.CURRENT: LinkState.STALE, LinkState.LEASED: LinkState.STALE_LEASED}.get(self, self)


class Draining(Enum):
    """Whether this master takes no new sessions."""

    NO = "no"
    YES = "yes"
    AGAIN = "again"
    """It was draining when it was fenced. The store knows only that it was fenced, so it is told once this start is
    up."""

    def after_renewal(self, *, is_stored: bool) -> Draining:
        """The state after a renewal; `is_stored`: whether the store says that this master is draining."""
        if is_stored:
            return Draining.YES
        return Draining.AGAIN if self is Draining.AGAIN else Draining.NO

    def after_restart(self) -> Draining:
        """The state when this master has begun another start."""
        return Draining.NO if self is Draining.NO else Draining.AGAIN
