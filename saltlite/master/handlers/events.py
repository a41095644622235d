"""The event log by cursor: every event once, in the order of its sequence number, from wherever a reader stopped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from typing import Any

from saltlite.core.acl import Action, Principal, authorize
from saltlite.errors import UsageError
from saltlite.master.context import Answer, Master, Watch
from saltlite.model.events import Event

PAGE = 500
"""Events that are read at once; so many at most are in one message of the stream."""
PAGES = 8
"""Pages that are read in one go for a reader who wants none of their events: what takes 30 ms."""
PATTERN_MAX = 256
SIZE = 4 * 1024 * 1024
"""A message of the stream is closed when its events have so many characters of data."""


def handle_events(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `seq`, the cursor that the stream starts from, and `first`, the oldest event that there is.

    `after` is a cursor, `since` a wall-clock time; without either the stream has what comes from now on.
    """
    authorize(principal, Action("events"), master.terms.operators)
    pattern = request["pattern"]
    if not 1 <= len(pattern) <= PATTERN_MAX:
        raise UsageError(f"the pattern of events has 1 to {PATTERN_MAX} characters")
    last = master.store.last_seq()
    after = last
    if "after" in request:
        after = request["after"]
        if not 0 <= after <= last:
            raise UsageError(f"there is no event {after} yet: the last one is {last}")
    elif "since" in request:
        after = master.store.seq_before(request["since"])
    return Answer({"seq": after, "first": master.store.first_seq()}, follow=Watch(pattern, after))


class EventStream:
    """One client that watches events: where it stands, and what is new."""

    def __init__(self, master: Master, watch: Watch) -> None:
        self._store = master.store
        self._matches = re.compile(translate(watch.pattern)).match
        self._after = watch.after

    def news(self) -> dict[str, Any] | None:
        """The next message of the stream; None when nothing that matches is new.

        It has no events when PAGES were read without a match: then there is more to read.
        """
        for _ in range(PAGES):
            events = self._store.events(self._after, PAGE)
            if not events:
                return None
            rows = self._matching(events)
            if rows:
                return {"seq": self._after, "events": rows}
        # Nothing for this reader in all of them: others want to be served before it goes on.
        return {"seq": self._after, "events": []}

    def _matching(self, events: list[Event]) -> list[dict[str, Any]]:
        """The rows of those that match, until they fill a message; the cursor stands behind the last that was read."""
        rows: list[dict[str, Any]] = []
        size = 0
        for event in events:
            self._after = event.seq
            if self._matches(event.tag):
                rows.append({"seq": event.seq, "tag": event.tag, "data": event.data, "at": event.at})
                size += len(repr(event.data))
                if size >= SIZE:
                    break
        return rows
