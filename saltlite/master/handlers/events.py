"""The event log: streams that read it by cursor, and the handlers that write to it (R13).

Each writer has tags that no other writer can use: users (`event.send`), `saltlite cloud`, runners, webhooks of the API,
and minions, below their own id.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import ALL_EVENTS, RUNNER, Action, Principal, authorize, may, sees_jobs_of_others
from saltlite.errors import ProtocolError, RefusedError, StoreError, UsageError
from saltlite.master.handlers.functions import checked_function
from saltlite.master.processes.context import Answer, Master, Watch
from saltlite.model.events import (
    SENT_BY,
    Event,
    parse_free_tag,
    parse_tag,
    tag_cloud,
    tag_hook,
    tag_of_minion,
    tag_run_new,
    tag_run_return,
    tag_turn_ended,
)
from saltlite.model.ids import MinionId, parse_jid
from saltlite.model.job import split_part
from saltlite.platform.turn_board import Marks
from saltlite.targeting.patterns import glob_pattern
from saltlite.wire import codec
from saltlite.wire.job_body import CALLS_MAX
from saltlite.wire.messages import Message, response_message

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


# -- writers


DATA_MAX = 128 * 1024
"""Characters of the data of one event: each is stored until it is pruned."""


def handle_event_send(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes an event of that `tag` with what was `said`, by whom in `_user`, and by which `runner` in `_run`."""
    tag, data = parse_free_tag(request["tag"]), request["data"]
    if len(repr(data)) > DATA_MAX:
        raise UsageError(f"the data of an event has at most {DATA_MAX} characters")
    master.refuse_when_full()
    by = {SENT_BY: parse_jid(request["runner"])} if "runner" in request else {}
    with master.store.write() as store:
        store.put_event(tag, {**data, "_user": principal.label, **by}, master.clock.wall())
    return Answer(committed=True)


WHAT_MAX = 64
MACHINE_MAX = 200

_WHAT = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)


def handle_cloud_event(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/cloud/<machine>/<what>` with what was `said`, and by whom in `_user`."""
    machine, what, data = request["machine"], request["what"], request["data"]
    if not 1 <= len(machine) <= MACHINE_MAX or not machine.isprintable() or "/" in machine or " " in machine:
        raise UsageError(f"the name of a machine has 1 to {MACHINE_MAX} printable characters, no slash and no space")
    if len(what) > WHAT_MAX or not _WHAT.fullmatch(what):
        raise UsageError(f"what happened to a machine is one word of up to {WHAT_MAX} letters, digits and hyphens")
    if len(repr(data)) > DATA_MAX:
        raise UsageError(f"the data of an event has at most {DATA_MAX} characters")
    with master.store.write() as store:
        store.put_event(tag_cloud(machine, what), {**data, "_user": principal.label}, master.clock.wall())
    return Answer(committed=True)


def handle_runner_event(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/run/<jid>/new`; with `retcode` and `duration_ms` it is `salt/run/<jid>/ret`.

    Only these two tags can be made so (R13). Arguments and returns are not in them: they may hold secrets.
    """
    jid, funs = parse_jid(request["jid"]), request["funs"]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"a runner has 1 to {CALLS_MAX} functions, not {len(funs)}")
    for fun in funs:
        if not may(principal, RUNNER, (checked_function(fun),), master.terms):
            raise RefusedError(f"{principal} may not run the runner {fun}: that takes @runner {fun}")
    data: dict[str, Any] = {"fun": ",".join(checked_function(fun) for fun in funs), "user": principal.label}
    tag = tag_run_new(jid)
    if "retcode" in request:
        tag = tag_run_return(jid)
        data.update({name: request[name] for name in ("retcode", "duration_ms") if name in request})
        data["success"] = request["retcode"] == 0
    with master.store.write() as store:
        store.put_event(tag, data, master.clock.wall())
    return Answer(committed=True)


PATH_MAX = 200

_PART = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.:@-]+"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)


def checked_path(path: str) -> str:
    """`path`, when it is that of a hook ("" is that of /hook itself); UsageError otherwise."""
    if path and (len(path) > PATH_MAX or not _PATH.fullmatch(path)):
        raise UsageError(f"the path of a hook has at most {PATH_MAX} letters, digits, _ . : @ - and single slashes")
    return path


def handle_hook(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/netapi/hook/<path>` with what was `said`, and by whom in `_user`."""
    path, data = checked_path(request["path"]), request["data"]
    authorize(principal, Action("hook", name=path), master.terms)
    if len(repr(data)) > DATA_MAX:
        raise UsageError(f"a hook says at most {DATA_MAX} characters")
    master.refuse_when_full()
    with master.store.write() as store:
        store.put_event(tag_hook(path), {**data, "_user": principal.label}, master.clock.wall())
    return Answer(committed=True)


log = logging.getLogger(__name__)

SENTENCE_MAX = 500


def answer_event(master: Master, minion: MinionId, message: Message) -> Message:
    """What to say to an `event`: "ok" when it is committed; "refused" with a sentence in `names`; "busy" for now.

    Its data is `{id, tag, data}`, the tag as the minion wrote it, and `jid`, the job that it came from, as the minion
    says. An answer that is lost with a session has the minion ask again: then the event is there twice.
    """
    try:
        tag, about = _event(minion, message)
        master.refuse_when_full()
        with master.store.write() as store:
            # A session may have ended since it asked, because its key was revoked.
            if store.holder(minion) is not None:
                store.put_event(tag, about, master.clock.wall())
    except (ProtocolError, UsageError) as error:
        return response_message(message["n"], "refused", names=[str(error)[:SENTENCE_MAX]])
    except StoreError as error:
        log.error("an event of %s cannot be kept for now: %s", minion, error)  # noqa: TRY400 - the sentence says it all
        return response_message(message["n"], "busy", names=[str(error)[:SENTENCE_MAX]])
    return response_message(message["n"], "ok")


def _event(minion: MinionId, message: Message) -> tuple[str, dict[str, Any]]:
    tag = parse_tag(tag_of_minion(minion, parse_tag(message["tag"])))
    data = codec.decode(message["data"], codec.EVENT)
    if not isinstance(data, dict):
        raise UsageError("the data of an event is a map")
    about = {"id": minion, "tag": message["tag"], "data": data}
    return tag, {**about, "jid": split_part(message["jid"])[0]} if message["jid"] else about


def tell_ended(master: Master, marks: Marks) -> bool:
    """An event for each turn that was ended and is not told yet; whether there was one. Raises StoreError, and then it
    is told later. Those of a process are told by the one that has its place, or by the first MWorker."""
    untold = marks.board.untold(marks.name)
    if not untold:
        return False
    with master.store.write() as store:
        for ended in untold:
            data = {"process": ended.process, "turn": ended.text, "held_s": round(ended.held_s, 1)}
            store.put_event(tag_turn_ended(ended.process), data, master.clock.wall())
    for ended in untold:
        marks.board.told(ended)
    return True
