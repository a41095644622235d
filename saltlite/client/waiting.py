"""What is known of one job, and how long it makes sense to wait for more.

The rule: a minion that has acknowledged the job is waited for as long as it takes. One of which there is no
news (still queued) is waited for until nothing at all was heard about the job for the timeout. No clock here:
`now` is handed in, in seconds of any steady clock.
"""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import RemoteProtocolError

TYPE_CHECKING = False  # typing costs as much start-up time as the whole client
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

QUEUED = "queued"
RETURNED = "returned"

# States only move to a higher rank; every state that is not listed is terminal.
_RANK = {QUEUED: 0, "received": 1, "running": 2}
_TERMINAL_RANK = 3


class Published:
    """The master's answer to a publish: who was targeted, and what was known of them at that moment."""

    __slots__ = ("away", "jid", "minions", "timeout_s", "unknown")

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """Raises RemoteProtocolError for an answer without the promised fields."""
        try:
            self.jid: str = answer["jid"]
            self.minions: list[str] = answer["minions"]
            self.away: dict[str, float | None] = answer["away"]
            """Targets without a session, and when they were last seen (seconds since 1970; None is never)."""
            self.unknown: dict[str, str] = answer["unknown"]
            """Names of a list target that no accepted minion has, and why."""
            self.timeout_s = float(answer["timeout_s"])
            """The master's own setting for how long to wait for silent minions."""
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteProtocolError("bad-answer", f"to publish: {error!r}") from error


class Reply:
    """What came back from one minion: its last state, and the return value where there is one."""

    __slots__ = ("has_value", "id", "reason", "retcode", "state", "value")

    def __init__(self, row: Mapping[str, Any]) -> None:
        """From one entry of `returns`. Raises RemoteProtocolError for one that cannot be read."""
        try:
            self.id: str = row["id"]
            self.state: str = row["state"]
            self.retcode: int = row["retcode"]
            self.reason: str = row.get("reason") or ""
            body = row.get("body") or b""
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError("bad-return", repr(error)) from error
        self.has_value = bool(body)
        """Whether there is a return value: a job that was killed may have none."""
        self.value: Any = _decode_body(self.id, body) if body else None

    def failed(self) -> bool:
        """Whether the function did not come to a good end."""
        return self.state != RETURNED or self.retcode != 0


def _rank(state: str) -> int:
    return _RANK.get(state, _TERMINAL_RANK)


def _decode_body(minion: str, body: bytes) -> Any:
    try:
        return msgpack.unpackb(body, strict_map_key=False, unicode_errors="replace", ext_hook=_no_extension)
    except (ValueError, TypeError) as error:  # TypeError: a list as the key of a map
        raise RemoteProtocolError("bad-return", f"the return of {minion} cannot be decoded: {error}") from error


def _no_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"msgpack extension type {code}")


class Progress:
    """One job as far as it is known. Feed it every message of the stream."""

    def __init__(self, published: Published, *, now: float) -> None:
        self.published = published
        self.states: dict[str, str] = dict.fromkeys(published.minions, QUEUED)
        self.reasons: dict[str, str] = {}
        self.replies: dict[str, Reply] = {}
        self.seq = 0
        """Where a stream that broke is taken up again."""
        self.ended = not published.minions
        """The master said that nothing more can come."""
        self.published_at = now
        self._last_news = now

    def apply(self, message: Mapping[str, Any], *, now: float) -> list[Reply]:
        """Take one message of the stream; the replies in it that were not known before."""
        try:
            moves = [(row["id"], row["state"], row.get("reason") or "") for row in message.get("states", ())]
            returns = [Reply(row) for row in message.get("returns", ())]
            self.seq = max(self.seq, int(message.get("seq") or 0))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RemoteProtocolError("bad-update", repr(error)) from error
        fresh = [reply for reply in returns if reply.id not in self.replies]
        moves += [(reply.id, reply.state, reply.reason) for reply in fresh]
        moved = [self._move(*move) for move in moves]
        self.replies.update((reply.id, reply) for reply in fresh)
        if fresh or any(moved):
            self._last_news = now
        self.ended = self.ended or message.get("end") is True
        return fresh

    def _move(self, minion: str, state: str, reason: str) -> bool:
        known = self.states.get(minion)
        if known is not None and _rank(state) <= _rank(known):
            return False
        self.states[minion] = state
        self.reasons[minion] = reason
        return True

    def patience_s(self, timeout_s: float, *, now: float) -> float | None:
        """How long to wait for the next message: None is without limit, 0 means that it is over."""
        if self.ended:
            return 0.0
        if any(self._is_coming(minion, state) for minion, state in self.states.items()):
            return None
        return max(0.0, self._last_news + timeout_s - now)

    def _is_coming(self, minion: str, state: str) -> bool:
        return state in ("received", "running") or (state == RETURNED and minion not in self.replies)

    def missing(self) -> list[str]:
        """Targets whose function did not return, sorted: nothing was heard, or how the job ended instead."""
        return sorted(m for m, state in self.states.items() if state != RETURNED or m not in self.replies)
