"""What is known of one job, and how long it makes sense to wait for more.

The rule: a minion that has acknowledged the job is waited for as long as it takes. One of which there is no
news (still queued) is waited for until nothing at all was heard about the job for the timeout; one that is
away is waited for when it was asked for. A resource is waited for as the minion that manages it. No clock
here: `now` is handed in, in seconds of any steady clock.
"""

from __future__ import annotations

from saltlite.client.values import decode_value
from saltlite.errors import RemoteProtocolError
from saltlite.model.labels import labels

TYPE_CHECKING = False  # typing costs as much start-up time as the whole client
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

QUEUED = "queued"
PLANNED = "planned"
"""Its turn in the batches of the job has not come."""
RETURNED = "returned"

# States only move to a higher rank; every state that is not listed is terminal.
_RANK = {PLANNED: 0, QUEUED: 1, "received": 2, "running": 3}
_TERMINAL_RANK = 4

_COMING = ("received", "running")

UNREADABLE_CODE = 1
"""The retcode of a return that is no value: its minion made it otherwise than saltlite does."""

FIRST_MESSAGE_S = 0.3
"""How long to wait for the stream to begin, when nothing else is worth waiting for: a job that is followed from its
middle may have ended on minions that are away now."""


class Published:
    """The master's answer to a publish: who was targeted, and what was known of them at that moment.

    A target is a minion, by its id, or a resource, by its SRN (`type:id`).
    """

    __slots__ = (
        "_names", "away", "deliver_s", "fun", "jid", "managing", "minions", "resources", "skipped", "target",
        "timeout_s", "unknown",
    )  # fmt: skip

    def __init__(self, answer: Mapping[str, Any], *, fun: str = "", target: str = "") -> None:
        """`fun` and `target` are as they were typed. Raises RemoteProtocolError for an answer without its fields."""
        self.fun = fun
        self.target = target
        try:
            self.jid: str = answer["jid"]
            self.minions: list[str] = answer["minions"]
            """The minions that are targets themselves."""
            self.resources: dict[str, list[str]] = answer["resources"]
            """The resources that are targets, by the minion that manages them."""
            self.away: dict[str, float | None] = answer["away"]
            """Minions of both kinds without a session, and when they were last seen (seconds since 1970; None is
            never)."""
            self.unknown: dict[str, str] = answer["unknown"]
            """Names of a list target that neither an accepted minion nor a resource has, and why."""
            self.skipped: list[dict[str, Any]] = answer["skipped"]
            """Resources that were left out: `count` of a `type` that has no `fun`."""
            self.timeout_s = float(answer["timeout_s"])
            """The master's own setting for how long to wait for silent minions."""
            self.deliver_s = float(answer["deliver_ms"]) / 1000
            """How long the job waits to reach a minion."""
            self.managing: dict[str, str] = {srn: owner for owner, srns in self.resources.items() for srn in srns}
            """SRN -> the minion that manages it."""
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RemoteProtocolError("bad-answer", f"to publish: {error!r}") from error
        self._names = labels(self.minions, self.managing) if self.managing else {}

    @property
    def count(self) -> int:
        """How many targets there are."""
        return len(self.minions) + len(self.managing)

    def name(self, target: str) -> str:
        """What people call a target: its id without the type, where nothing else in this job is called so."""
        return self._names.get(target, target)

    def carrier(self, target: str) -> str:
        """The minion that carries it out: itself, or the one that manages the resource."""
        return self.managing.get(target, target)

    def kept_by(self, target: str) -> str:
        """The minion that manages it; "" of a minion."""
        return self.managing.get(target, "")


class Reply:
    """What came back from one target: its last state, and the return value where there is one."""

    __slots__ = ("duration_s", "has_value", "id", "minion", "name", "reason", "retcode", "state", "value")

    def __init__(self, row: Mapping[str, Any], published: Published) -> None:
        """From one entry of `returns`. Raises RemoteProtocolError for one that the master did not make."""
        try:
            self.id: str = row["id"]
            self.name = published.name(self.id)
            """What people call it, and the key of its return."""
            self.minion = published.kept_by(self.id)
            """The minion that manages it; "" of a minion."""
            self.state: str = row["state"]
            self.retcode: int = row["retcode"]
            self.reason: str = row.get("reason") or ""
            self.duration_s: float = (row.get("duration_ms") or 0) / 1000
            """How long the function ran, by the minion's clock."""
            body = row.get("body") or b""
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError("bad-return", repr(error)) from error
        self.has_value = bool(body)
        """Whether there is a return value: a job that was killed may have none."""
        self.value: Any = self._read(body) if body else None

    def _read(self, body: bytes) -> Any:
        try:
            return decode_value(body)
        except RemoteProtocolError as error:
            # It fails for this target alone: the others' returns are shown whatever one of them sends.
            self.retcode = self.retcode or UNREADABLE_CODE
            return f"the return cannot be read: {error}"

    def failed(self) -> bool:
        """Whether the function did not come to a good end."""
        return self.state != RETURNED or self.retcode != 0


class Update:
    """What one message of the stream said that was not known: states that moved, and replies."""

    __slots__ = ("moved", "replies")

    def __init__(self, moved: list[str], replies: list[Reply]) -> None:
        self.moved = moved
        """Ids; `Progress.states` has where to."""
        self.replies = replies


class WaitPolicy:
    """How long a client waits for minions of which there is no news; all times in seconds."""

    __slots__ = ("away_quiet_s", "away_s", "timeout_s")

    def __init__(self, timeout_s: float, *, away_quiet_s: float | None = None, away_s: float | None = None) -> None:
        """`timeout_s` is without any news of the job, for minions that were connected when it was published.

        Those that were away are not waited for, but as long as there is news every `away_quiet_s`, and until
        `away_s` after the publish.
        """
        self.timeout_s = timeout_s
        self.away_quiet_s = away_quiet_s
        self.away_s = away_s


def _rank(state: str) -> int:
    return _RANK.get(state, _TERMINAL_RANK)


class Progress:
    """One job as far as it is known. Feed it every message of the stream.

    Return values pass through and are not kept: of those that have come it knows the retcode.
    """

    def __init__(self, published: Published, *, now: float) -> None:
        self.published = published
        self.states: dict[str, str] = dict.fromkeys((*published.minions, *published.managing), QUEUED)
        """By minion id or SRN, as everything here is."""
        self.reasons: dict[str, str] = {}
        self.moved_at: dict[str, float] = {}
        """When a state was reached, in seconds since 1970 by the master's clock."""
        self.retcodes: dict[str, int] = {}
        """Of targets whose reply has come."""
        self.seq = 0
        """Where a stream that broke is taken up again."""
        self.ended = not self.states
        """The master said that nothing more can come."""
        self.published_at = now
        self._last_news = now
        self._begun = False
        self._away = {target for target in self.states if self.is_away(target)} if published.away else set()
        self._silent = self.states.keys() - self._away
        self._planned: set[str] = set()
        self._coming: set[str] = set()
        self._returned = 0
        self._failed = 0

    def is_away(self, target: str) -> bool:
        """Whether its minion was not connected when the job was published, and the job was not heard of there since."""
        return self.states[target] in (PLANNED, QUEUED) and self.published.carrier(target) in self.published.away

    def apply(self, message: Mapping[str, Any], *, now: float) -> Update:
        """Take one message of the stream; what it says that was not known before."""
        try:
            moves = [
                (row["id"], row["state"], row.get("reason") or "", row.get("at")) for row in message.get("states", ())
            ]
            returns = [Reply(row, self.published) for row in message.get("returns", ())]
            seq = max(self.seq, int(message.get("seq") or 0))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RemoteProtocolError("bad-update", repr(error)) from error
        fresh = {reply.id: reply for reply in reversed(returns) if reply.id not in self.retcodes}
        moves += [(reply.id, reply.state, reply.reason, None) for reply in fresh.values()]
        moved = [move[0] for move in moves if self._move(*move)]
        for reply in fresh.values():
            self._take_reply(reply)
        self._begun = True
        self.seq = seq
        if fresh or moved:
            self._last_news = now
        self.ended = self.ended or message.get("end") is True
        return Update(moved, [reply for reply in returns if fresh.get(reply.id) is reply])

    def _move(self, target: str, state: str, reason: str, at: float | None) -> bool:
        known = self.states.get(target)
        # QUEUED is assumed until the stream says something, and a batched job has targets that are not even that.
        to_plan = state == PLANNED and known == QUEUED and target not in self.reasons
        if known is not None and _rank(state) <= _rank(known) and not to_plan:
            return False
        self.states[target] = state
        self.reasons[target] = reason
        if at is not None:
            self.moved_at[target] = at
        for group in (self._away, self._silent, self._planned, self._coming):
            group.discard(target)
        if state in _COMING or (state == RETURNED and target not in self.retcodes):
            self._coming.add(target)
        elif self.is_away(target):
            self._away.add(target)
        elif state == PLANNED:
            self._planned.add(target)
        elif state == QUEUED:
            self._silent.add(target)
        elif state != RETURNED:
            self._failed += 1
        return True

    def _take_reply(self, reply: Reply) -> None:
        self.retcodes[reply.id] = reply.retcode
        self._coming.discard(reply.id)
        if self.states[reply.id] == RETURNED:
            self._returned += 1
            self._failed += reply.retcode != 0

    def patience_s(self, patience: WaitPolicy, *, now: float) -> float | None:
        """How long to wait for the next message: None is without limit, 0 means that it is over."""
        if self.ended:
            return 0.0
        if self._coming or (self._planned and not self._silent):
            return None
        if self._silent or not self._away:
            until = [self._last_news + patience.timeout_s]
        else:
            until = [now if self.begun_or_late(now) else self.published_at + FIRST_MESSAGE_S]
        if self._away and patience.away_quiet_s is not None:
            until.append(self._last_news + patience.away_quiet_s)
        if self._away and patience.away_s is not None:
            until.append(self.published_at + patience.away_s)
        return max(0.0, max(until) - now)

    def begun_or_late(self, now: float) -> bool:
        """Whether the stream has begun, so that the states are what the master knows; or should have."""
        return self._begun or now >= self.published_at + FIRST_MESSAGE_S

    def counts(self) -> dict[str, int]:
        """How many targets have returned, failed, have the job, are silent, away, planned: those that there are.

        Who returned a failure is in `returned` and in `failed`, who did not run it to its end in `failed` only.
        """
        found = {
            "returned": self._returned,
            "failed": self._failed,
            "running": len(self._coming),
            "silent": len(self._silent),
            "away": len(self._away),
            "planned": len(self._planned),
        }
        return {name: count for name, count in found.items() if count}

    def awaited(self) -> set[str]:
        """Targets whose minion was connected or has the job, and that did not end it."""
        return self._coming | self._silent | self._planned

    def silent(self) -> list[str]:
        """Minions that were connected and did not acknowledge the job, or their part of it, sorted."""
        return sorted({self.published.carrier(target) for target in self._silent})

    def missing(self) -> list[str]:
        """Targets whose function did not return, sorted: nothing was heard, or how the job ended instead."""
        return sorted(one for one, state in self.states.items() if state != RETURNED or one not in self.retcodes)

    def failed(self) -> list[str]:
        """Targets whose function returned and failed, sorted."""
        return sorted(one for one, code in self.retcodes.items() if code != 0 and self.states[one] == RETURNED)
