"""What is known of one job, how long to wait for more, and what a client does next to follow it. No IO, no clock.

The waiting rule: a minion that has acknowledged the job is waited for without limit. A silent one (still queued) is
waited for until there was no news of the job for the timeout. One that was away is waited for only when the caller asks
for it. A resource is waited for as the minion that manages it.

`Follower` yields the next action (open the stream, read from it); a transport performs it and reports the result.
`LocalClient` is the blocking transport, `saltlite.api.link` the asyncio one. `now` is in seconds of any steady clock.
"""

from __future__ import annotations

from saltlite.client.connection import ANSWER_TIMEOUT_S, decode_value
from saltlite.errors import RemoteProtocolError, UnreachableError
from saltlite.model.plain import labels

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


QUEUED = "queued"
PLANNED = "planned"
"""Its turn in the job's batches has not come."""
RETURNED = "returned"

# States only move to a higher rank; every unlisted state is terminal.
_RANK = {PLANNED: 0, QUEUED: 1, "received": 2, "running": 3}
_TERMINAL_RANK = 4

_COMING = ("received", "running")

UNREADABLE_CODE = 1
"""The retcode of a return that cannot be decoded."""

FIRST_MESSAGE_S = 0.3
"""How long to wait for the stream to begin when nothing else is worth waiting for: a job that is followed from its
middle may have ended on minions that are away now."""

RESUME_FOR_S = 15.0
"""How long to look for the master after a stream broke; a restart takes less."""

RESUME_PAUSE_S = 0.2
"""The pause between two attempts."""


class Published:
    """The master's answer to a publish: the targets, and their state at that moment.

    A target is a minion, by its id, or a resource, by its SRN (`type:id`).
    """

    __slots__ = (
        "_names", "absences", "away", "deliver_s", "fun", "jid", "managing", "minions", "missing_executors",
        "outputter", "resources", "skipped", "target", "timeout_s", "unknown",
    )  # fmt: skip

    def __init__(self, answer: Mapping[str, Any], *, fun: str = "", target: str = "") -> None:
        """`fun` and `target` are as they were typed. Raises RemoteProtocolError when the answer lacks a field."""
        self.fun = fun
        self.target = target
        try:
            self.jid: str = answer["jid"]
            self.minions: list[str] = answer["minions"]
            """Minions that are targets themselves."""
            self.resources: dict[str, list[str]] = answer["resources"]
            """Managing minion -> its resources that are targets."""
            self.away: dict[str, float | None] = answer["away"]
            """Minions of both kinds without a session -> when last seen (seconds since 1970; None is never)."""
            self.absences: dict[str, str] = answer.get("absences", {})
            """Why each of these minions has no session."""
            self.unknown: dict[str, str] = answer["unknown"]
            """Names in a list target that no accepted minion or resource has -> why."""
            self.skipped: list[dict[str, Any]] = answer["skipped"]
            """Skipped resources: `count` of a `type` that has no `fun`."""
            self.missing_executors: list[dict[str, Any]] = answer.get("missing_executors", [])
            """Requested executors that `count` of the minions do not have; `one` of them."""
            self.outputter: str = answer.get("outputter", "")
            """The outputter that all targets name for a single function, or "" (only of `publish_or_ask`)."""
            self.timeout_s = float(answer["timeout_s"])
            """The master's setting for how long to wait for silent minions."""
            self.deliver_s = float(answer["deliver_ms"]) / 1000
            """How long the job waits to reach a minion."""
            self.managing: dict[str, str] = {srn: owner for owner, srns in self.resources.items() for srn in srns}
            """SRN -> its managing minion."""
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RemoteProtocolError("bad-answer", f"to publish: {error!r}") from error
        self._names = labels(self.minions, self.managing) if self.managing else {}

    @property
    def count(self) -> int:
        """The number of targets."""
        return len(self.minions) + len(self.managing)

    def name(self, target: str) -> str:
        """The display name of a target: its id without the type, where that is unique in this job."""
        return self._names.get(target, target)

    def carrier(self, target: str) -> str:
        """The minion that runs the job for a target: itself, or the one that manages the resource."""
        return self.managing.get(target, target)

    def manager(self, target: str) -> str:
        """The minion that manages a resource; "" for a minion."""
        return self.managing.get(target, "")


class Reply:
    """What one target answered: its last state, and the return value if there is one."""

    __slots__ = ("duration_s", "has_value", "id", "minion", "name", "reason", "retcode", "state", "value")

    def __init__(self, row: Mapping[str, Any], published: Published) -> None:
        """From one entry of `returns`. Raises RemoteProtocolError when it is malformed."""
        try:
            self.id: str = row["id"]
            self.name = published.name(self.id)
            """The display name, and the key of its return."""
            self.minion = published.manager(self.id)
            """The managing minion; "" for a minion."""
            self.state: str = row["state"]
            self.retcode: int = row["retcode"]
            self.reason: str = row.get("reason") or ""
            self.duration_s: float = (row.get("duration_ms") or 0) / 1000
            """How long the function ran, by the minion's clock."""
            body = row.get("body") or b""
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError("bad-return", repr(error)) from error
        self.has_value = bool(body)
        """False for most jobs that were killed."""
        self.value: Any = None
        if body:
            self.value, self.retcode = value_of(body, self.retcode)

    def failed(self) -> bool:
        """Whether the function failed or did not end normally."""
        return self.state != RETURNED or self.retcode != 0


def value_of(body: bytes, retcode: int) -> tuple[Any, int]:
    """The value of a return, and its return code. One that cannot be read fails for its target alone, so that it does
    not hide the others."""
    try:
        return decode_value(body), retcode
    except RemoteProtocolError as error:
        return f"the return cannot be read: {error}", retcode or UNREADABLE_CODE


class Update:
    """The news in one message of the stream: targets whose state changed, and replies."""

    __slots__ = ("moved", "replies")

    def __init__(self, moved: list[str], replies: list[Reply]) -> None:
        self.moved = moved
        """Ids; `Progress.states` has their states."""
        self.replies = replies


class WaitPolicy:
    """How long a client waits for silent minions; all times in seconds."""

    __slots__ = ("away_quiet_s", "away_s", "timeout_s")

    def __init__(self, timeout_s: float, *, away_quiet_s: float | None = None, away_s: float | None = None) -> None:
        """`timeout_s`: how long without any news of the job, for minions that were connected at the publish.

        Minions that were away are waited for while there is news at least every `away_quiet_s`, and until `away_s`
        after the publish; by default not at all.
        """
        self.timeout_s = timeout_s
        self.away_quiet_s = away_quiet_s
        self.away_s = away_s


def _rank(state: str) -> int:
    return _RANK.get(state, _TERMINAL_RANK)


class Progress:
    """The state of one job, from the messages of its stream. It stores the retcode of a return, not its value."""

    def __init__(self, published: Published, *, now: float) -> None:
        self.published = published
        self.states: dict[str, str] = dict.fromkeys((*published.minions, *published.managing), QUEUED)
        """By minion id or SRN, as all mappings here."""
        self.reasons: dict[str, str] = {}
        self.moved_at: dict[str, float] = {}
        """When the state was reached, in seconds since 1970 by the master's clock."""
        self.retcodes: dict[str, int] = {}
        """Of targets that have replied."""
        self.seq = 0
        """The cursor from which a broken stream is resumed."""
        self.ended = not self.states
        """Whether the master said that nothing more can come."""
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
        """Whether its minion was not connected at the publish and has not acknowledged the job since."""
        return self.states[target] in (PLANNED, QUEUED) and self.published.carrier(target) in self.published.away

    def apply(self, message: Mapping[str, Any], *, now: float) -> Update:
        """Take one message of the stream; the news in it. Raises RemoteProtocolError."""
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
        # QUEUED is assumed until the stream says something; a target of a batched job may still be planned.
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

    def wait_s(self, policy: WaitPolicy, *, now: float) -> float | None:
        """How long to wait for the next message; None is without limit, 0 ends the waiting."""
        if self.ended:
            return 0.0
        if self._coming or (self._planned and not self._silent):
            return None
        if self._silent or not self._away:
            until = [self._last_news + policy.timeout_s]
        else:
            until = [now if self.begun_or_late(now) else self.published_at + FIRST_MESSAGE_S]
        if self._away and policy.away_quiet_s is not None:
            until.append(self._last_news + policy.away_quiet_s)
        if self._away and policy.away_s is not None:
            until.append(self.published_at + policy.away_s)
        return max(0.0, max(until) - now)

    def begun_or_late(self, now: float) -> bool:
        """Whether the stream has begun, so that the states are the master's, or should have begun by now."""
        return self._begun or now >= self.published_at + FIRST_MESSAGE_S

    def counts(self) -> dict[str, int]:
        """The numbers of targets that returned, failed, run, are silent, away or planned, without zeros.

        A target that returned a failure counts as `returned` and `failed`; one that did not finish only as `failed`.
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
        """Unfinished targets whose minion was connected or has the job."""
        return self._coming | self._silent | self._planned

    def silent(self) -> list[str]:
        """Connected minions that did not acknowledge the job or their part of it, sorted."""
        return sorted({self.published.carrier(target) for target in self._silent})

    def missing(self) -> list[str]:
        """Targets whose function did not return, sorted."""
        return sorted(one for one, state in self.states.items() if state != RETURNED or one not in self.retcodes)

    def failed(self) -> list[str]:
        """Targets whose function returned and failed, sorted."""
        return sorted(one for one, code in self.retcodes.items() if code != 0 and self.states[one] == RETURNED)


class Open:
    """An action: send the verb `follow` with these fields on a connection without a stream."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields


class Read:
    """An action: read the next message of the stream, for at most `timeout_s` seconds (None: without limit)."""

    __slots__ = ("timeout_s",)

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s


_LIVE, _STORED = "live", "stored"


class Follower:
    """Decides, without IO, what a client does next to follow one job.

    Perform what `next()` returns and report `opened`, `received`, `lost` or `failed`, until it returns None. Pass each
    message to `progress.apply` before the next step. A stream that breaks is resumed at its cursor. Before the waiting
    ends, the follower reads what the master has stored meanwhile (G9), and waits on if that is a reason to.
    """

    def __init__(
        self, progress: Progress, policy: WaitPolicy, *, tick_s: float | None = None, stored: bool = False, live: bool
    ) -> None:
        """`live`: the connection carries the job's stream already; `stored`: it carries what is stored, and then ends.

        With `tick_s` a read returns after that many seconds without a message.
        """
        self._progress = progress
        self._policy = policy
        self._tick_s = tick_s
        self._stream = _STORED if stored else _LIVE if live else ""
        self._read_store = False
        self._give_up_at: float | None = None

    @property
    def idle(self) -> bool:
        """Whether the connection carries nothing more, so that it can take another request."""
        return not self._stream or (self._stream == _LIVE and self._progress.ended)

    def next(self, now: float) -> Open | Read | None:
        """The next action; None when every target is settled or the waiting is over."""
        if self._stream == _STORED:
            return Read(ANSWER_TIMEOUT_S)
        if self._progress.ended:
            return None
        wait_s = self._progress.wait_s(self._policy, now=now)
        if wait_s == 0.0:
            return None if self._read_store else self._open(now, once=True)
        self._read_store = False
        if not self._stream:
            return self._open(now)
        waits = [seconds for seconds in (wait_s, self._tick_s) if seconds is not None]
        return Read(min(waits, default=None))

    def _open(self, now: float, **how: bool) -> Open:
        if self._give_up_at is None:
            self._give_up_at = now + RESUME_FOR_S
        return Open({"jid": self._progress.published.jid, "after": self._progress.seq, **how})

    def opened(self, action: Open) -> None:
        """The master accepted the request of this action."""
        self._stream = _STORED if action.fields.get("once") else _LIVE
        self._give_up_at = None

    def received(self, message: Mapping[str, Any] | None) -> None:
        """A read has returned this message, or None at its timeout. Raises UnreachableError."""
        if self._stream != _STORED:
            return
        if message is None:
            raise UnreachableError(f"the master did not say in {ANSWER_TIMEOUT_S:g}s what it has stored")
        if message.get("so_far") or message.get("end"):
            self._stream, self._read_store = "", True

    def lost(self) -> None:
        """The connection ended while it carried the stream."""
        self._stream = ""

    def failed(self, error: UnreachableError, now: float) -> None:
        """The stream could not be opened; try again after RESUME_PAUSE_S. Raises UnreachableError to give up."""
        self.lost()
        if self._give_up_at is not None and now >= self._give_up_at:
            jid = self._progress.published.jid
            raise UnreachableError(
                f"the master went away while job {jid} was followed; the job goes on, and minions keep their returns "
                f"until a master has them. See it with `saltlite job watch {jid}`: here when the master is back, or "
                "now on another master that shares its store"
            ) from error
