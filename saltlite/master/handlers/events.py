"""The event log by cursor: every event once, in the order of its sequence number, from wherever a reader stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import ALL_EVENTS, Action, Principal, authorize, may, sees_jobs_of_others
from saltlite.auth.rules import RUNNER
from saltlite.errors import UsageError
from saltlite.master.processes.context import Answer, Master, Watch
from saltlite.model.events import Event
from saltlite.model.ids import parse_jid
from saltlite.targeting.patterns import glob_pattern

PAGE = 500
"""Events that are read at once; so many at most are in one message of the stream."""
PAGES = 8
"""Pages that are read in one go for a reader who wants none of their events: what takes 30 ms."""
STEPS = 1_000_000
"""Or less pages, when to compare their tags with the glob takes so many steps (`saltlite.targeting.budget`)."""
PATTERN_MAX = 256
OWNED_MAX = 1000
"""Jobs of which a stream remembers whose they are."""
SIZE = 4 * 1024 * 1024
"""A message of the stream is closed when its events have so many characters of data."""


def handle_events(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `seq`, the cursor that the stream starts from, and `first`, the oldest event that there is.

    `after` is a cursor, `since` a wall-clock time; without either the stream has what comes from now on.
    Who has no right to all events is told of his own jobs and runners.
    """
    authorize(principal, Action("events"), master.terms)
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
    everything = may(principal, RUNNER, ALL_EVENTS, master.terms)
    watch = Watch(pattern, after, None if everything else principal, sees_jobs_of_others(principal, master.terms))
    return Answer({"seq": after, "first": master.store.first_seq()}, follow=watch)


class EventStream:
    """One client that watches events: where it stands, and what is new."""

    def __init__(self, master: Master, watch: Watch) -> None:
        self._store = master.store
        self._glob = glob_pattern(watch.pattern)
        self._after = watch.after
        self._watch = watch
        self._skipped: list[dict[str, Any]] = []
        """Events that cannot be read, and were not told of yet."""
        self._owned: dict[str, bool] = {}
        """Whether a job, by its jid, is of whose events these are."""

    def news(self) -> dict[str, Any] | None:
        """The next message of the stream; None when nothing that matches is new.

        It has no events when PAGES were read without a match: then there is more to read. `skipped` names events that
        cannot be read.
        """
        spent = 0.0
        for _ in range(PAGES):
            if spent > STEPS:
                break
            events = self._store.events(self._after, PAGE)
            if not events:
                return None
            spent += sum(len(event.tag) for event in events) * self._glob.rate
            rows = self._matching(events)
            if rows or self._skipped:
                return self._message(rows)
        # Nothing for this reader in all of them: others want to be served before it goes on.
        return self._message([])

    def _message(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        skipped, self._skipped = self._skipped, []
        message = {"seq": self._after, "events": rows}
        return {**message, "skipped": skipped} if skipped else message

    def _skip(self, event: Event) -> None:
        """Nobody can read it: whoever may see all events is told which one, and why."""
        if self._watch.only_of is None:
            self._skipped.append({"seq": event.seq, "tag": event.tag, "reason": event.damage})

    def _matching(self, events: list[Event]) -> list[dict[str, Any]]:
        """The rows of those that match, until they fill a message; the cursor stands behind the last that was read."""
        rows: list[dict[str, Any]] = []
        size = 0
        for event in events:
            self._after = event.seq
            if event.damage:
                self._skip(event)
            elif self._glob.native(event.tag) and self._is_shown(event):
                rows.append({"seq": event.seq, "tag": event.tag, "data": event.data, "at": event.at})
                size += len(repr(event.data))
                if size >= SIZE:
                    break
        return rows

    def _is_shown(self, event: Event) -> bool:
        who = self._watch.only_of
        if who is None:
            return True
        kind, _, rest = event.tag.removeprefix("salt/").partition("/")
        if kind == "run":
            return event.data.get("user") == who.label
        return kind == "job" and (self._watch.only_jobs or self._is_of(rest.partition("/")[0], who))

    def _is_of(self, text: str, who: Principal) -> bool:
        found = self._owned.get(text)
        if found is None:
            summary = self._store.job_summary(parse_jid(text))
            found = self._owned[text] = summary is not None and summary.uid == who.uid
            if len(self._owned) > OWNED_MAX:
                del self._owned[next(iter(self._owned))]
        return found
