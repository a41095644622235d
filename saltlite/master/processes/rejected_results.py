"""What was left out of results, as it spoke of what its minion was not given: gathered, and told in moderation (G8).

A minion can say a thousand such things a second, in any job's name. So all of them count, and a minion is told of once
in TELL_S, with how many there were.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from saltlite.model.ids import Jid, MinionId, TargetId

TELL_S = 60.0
"""One MWorker tells of one minion so often at most."""

SHOWN = 5
"""SRNs that are named."""


@dataclass(slots=True)
class Refused:
    """What was left out of what one minion said; `jid` and `reason` are of the first."""

    jid: Jid
    reason: str
    count: int = 0
    srns: list[TargetId] = field(default_factory=list)

    def add(self, count: int, srns: list[TargetId]) -> None:
        """So many more, with some of the resources that they were said of."""
        self.count += count
        self.srns += srns[: max(0, SHOWN - len(self.srns))]

    def event(self, minion: MinionId) -> dict[str, Any]:
        """The data of its event."""
        return {
            "id": minion,
            "act": "return",
            "jid": self.jid,
            "count": self.count,
            "srns": self.srns,
            "reason": self.reason,
        }


class RejectedResults:
    """What one MWorker has left out and not told yet, by minion. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._untold: dict[MinionId, Refused] = {}
        self._told_at: dict[MinionId, float] = {}

    def add(self, minion: MinionId, refused: Refused) -> None:
        """Something more of what that minion said."""
        known = self._untold.setdefault(minion, Refused(refused.jid, refused.reason))
        known.add(refused.count, refused.srns)

    def due(self, now: float) -> list[tuple[MinionId, Refused]]:
        """What may be told now."""
        self._told_at = {minion: at for minion, at in self._told_at.items() if now - at < TELL_S}
        return [(minion, refused) for minion, refused in self._untold.items() if minion not in self._told_at]

    def told(self, minion: MinionId, now: float) -> None:
        """All of it was told."""
        del self._untold[minion]
        self._told_at[minion] = now
