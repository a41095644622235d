"""Reading the master's events with a client, from a cursor on."""

from __future__ import annotations

import time

from saltlite.client.connection import ConnectionLostError
from saltlite.client.follower import RESUME_FOR_S, RESUME_PAUSE_S
from saltlite.errors import RemoteProtocolError, UnreachableError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the client
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from saltlite.client.local import LocalClient


class EventReader:
    """The master's events whose tag matches a glob, in the order of their sequence numbers."""

    def __init__(
        self, client: LocalClient, pattern: str, *, after: int | None = None, since: float | None = None
    ) -> None:
        """Begin after the cursor `after`, or at the time `since` (seconds since 1970); without either, now.

        Raises UsageError for a cursor that the master has not reached, and as `LocalClient.call` does.
        """
        self._client = client
        self._pattern = pattern
        self._read: list[dict[str, Any]] = []
        """Events that have arrived and were not returned yet, the next one last."""
        self.skipped: list[dict[str, Any]] = []
        """Events that the master could not read, as `seq`, `tag` and `reason`; whoever reports them clears the list."""
        begin = {name: value for name, value in (("after", after), ("since", since)) if value is not None}
        answer = client.call("events", pattern=pattern, **begin)
        try:
            self.seq: int = answer["seq"]
            """The cursor, from which another reader misses nothing and repeats nothing."""
            self.gone = self.seq + 1 < answer["first"]
            """Whether events after the cursor have been deleted already."""
        except (KeyError, TypeError) as error:
            raise RemoteProtocolError("bad-answer", f"to events: {error!r}") from error

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next event, as `seq`, `tag`, `data` and `at`; waits without limit.

        Raises UnreachableError when the connection broke and the master did not come back.
        """
        while (event := self.within(None)) is None:
            pass
        return event

    def within(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next event, None when none comes in that time. Raises as `__next__` does."""
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._read:
            try:
                message = self._client.receive(None if give_up_at is None else max(0.0, give_up_at - time.monotonic()))
            except ConnectionLostError:
                self._resume()
                continue
            if message is None and give_up_at is not None:
                return None
            if message is None or "events" not in message:
                raise RemoteProtocolError("bad-update", str((message or {}).get("error", "an empty message")))
            self._read = message["events"][::-1]
            self.skipped += message.get("skipped", ())
            if not message["events"] and message.get("seq", 0) > self.seq:
                self.seq = message["seq"]
        event = self._read.pop()
        self.seq = event["seq"]
        return event

    def _resume(self) -> None:
        give_up_at = time.monotonic() + RESUME_FOR_S
        while True:
            time.sleep(RESUME_PAUSE_S)
            try:
                self._client.call("events", pattern=self._pattern, after=self.seq)
            except UnreachableError as error:
                if time.monotonic() >= give_up_at:
                    raise UnreachableError(
                        f"the master went away; `--since {self.seq}` goes on from here when it is back"
                    ) from error
            else:
                return
