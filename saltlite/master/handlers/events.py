"""The event log: streams that read it by cursor, and the handlers that write to it (R13).

Each writer has tags that no other writer can use: users (`event.send`), `saltlite cloud`, runners, webhooks of the API,
and minions, below their own id.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from saltlite.auth.acl import ALL_EVENTS, RUNNER, WHEEL, Action, Principal, authorize, may, sees_jobs_of_others
from saltlite.errors import DamagedError, LoginError, ProtocolError, RefusedError, StoreError, UsageError
from saltlite.master.handlers.functions import checked_function
from saltlite.master.processes.context import Answer, Master, Watch
from saltlite.master.store.ports import StoreReader
from saltlite.model.events import (
    BEACON,
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
    tag_wheel_new,
    tag_wheel_return,
)
from saltlite.model.ids import Jid, MinionId, parse_jid
from saltlite.model.job import Return, TargetOutcome, outcome_of_return, split_part
from saltlite.platform.shared_memory import Marks
from saltlite.targeting.patterns import glob_pattern
from saltlite.wire import codec
from saltlite.wire.job_body import CALLS_MAX, decode_record, shown_fun_args
from saltlite.wire.messages import Message, response_message

log = logging.getLogger(__name__)

PAGE = 500
"""Events that are read at once, and the maximum in one message of the stream."""
PAGES = 8
"""Pages read at once for a reader who wants none of their events: this takes 30 ms."""
STEPS = 1_000_000
"""Fewer pages, if matching their tags takes so many steps (`saltlite.targeting.fleet`)."""
PATTERN_MAX = 256
TOKENS_MAX = 1000
"""Tokens of one request for views."""
OWNED_MAX = 1000
"""Jobs whose owner a stream remembers."""
JOBS_KEPT = 16
"""Jobs of which a stream remembers what it adds to their events."""
MINIONS_MAX = 1000
"""Targets that the event of a new job names; `targets` is how many there are."""
RETURN_MAX = 64 * 1024
"""Bytes of a return that is sent with its event."""
ARGUMENTS_MAX = 16 * 1024
"""Characters of arguments that are sent with events."""
SIZE = 4 * 1024 * 1024
"""Characters of data that fill a message of the stream."""
DATA_MAX = 128 * 1024
"""Characters of the data of one event."""
SENTENCE_MAX = 500
WHAT_MAX = 64
MACHINE_MAX = 200
PATH_MAX = 200

_WHAT = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_PART = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.:@-]+"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)


def handle_events(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `seq`, the cursor that the stream starts from, `first`, the oldest event that there is, and `view`, as of
    `handle_event_views`.

    `after` is a cursor, `since` a wall-clock time; without either the stream starts now. Users without the right to all
    events get those of their own jobs and runners. With `returns`, events of jobs are as `ReturnsOfEvents` says. With
    `once` there is no stream: the answer has its first message, whose `seq` is the cursor to ask on from, and `last`,
    the cursor of now.
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
    everything = may(principal, RUNNER, ALL_EVENTS, master.config)
    watch = Watch(
        pattern,
        after,
        only_of=None if everything else principal,
        only_jobs=sees_jobs_of_others(principal, master.config),
        returns_for=principal if request.get("returns") else None,
    )
    first = master.store.first_seq()
    if request.get("once"):
        message = EventStream(master, watch).news() or {"seq": last, "events": []}
        return Answer({"first": first, "last": last, **message})
    return Answer({"seq": after, "first": first, "view": _view(master, principal)}, follow=watch)


def handle_event_views(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `views`: for each of `tokens` a name for the events that its holder may see now, "" for one that is not
    valid or has no right to events. Streams with the same view, pattern and `returns` have the same events, so that the
    API needs one of them. Who has a token may know this: it could open the stream."""
    tokens = request["tokens"]
    if len(tokens) > TOKENS_MAX or not all(isinstance(one, str) for one in tokens):
        raise UsageError(f"event_views takes at most {TOKENS_MAX} tokens")
    return Answer({"views": [_view_of_token(master, one) for one in tokens]})


def _view_of_token(master: Master, token: str) -> str:
    try:
        principal = master.logins.holder(master.store, token, master.clock.wall())
        authorize(principal, Action("events"), master.config)
    except (LoginError, RefusedError):
        return ""
    return _view(master, principal)


def _view(master: Master, principal: Principal) -> str:
    everything = may(principal, RUNNER, ALL_EVENTS, master.config)
    of_others = sees_jobs_of_others(principal, master.config)
    if everything and of_others:
        return "all"
    # The events of runners go by the label, jobs by the uid.
    return f"{principal.owner} {everything:d}{of_others:d} {principal.label}"


class EventStream:
    """The events that one client watches, from its cursor on."""

    def __init__(self, master: Master, watch: Watch) -> None:
        self._store = master.store
        self._glob = glob_pattern(watch.pattern)
        self._after = watch.after
        self._watch = watch
        self._skipped: list[dict[str, Any]] = []
        """Events that cannot be read, for the next message."""
        self._owned: dict[str, bool] = {}
        """jid -> whether the job belongs to the user of this stream."""
        self._returns = ReturnsOfEvents(master.store)

    def may_have_news(self, jobs: Collection[Jid]) -> bool:  # noqa: ARG002 - that of Stream
        """True: every commit may have written an event."""
        return True

    def news(self) -> dict[str, Any] | None:
        """The next message of the stream; None if no new event matches.

        A message without events means that PAGES were read without a match, and there is more to read. `skipped` names
        events that cannot be read. Raises StoreError; then the next call reads the same events again.
        """
        start = self._after
        try:
            return self._read()
        except StoreError:
            self._after, self._skipped = start, []
            raise

    def _read(self) -> dict[str, Any] | None:
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
        # No match in all of these: other clients are served before this one reads on.
        return self._message([])

    def _message(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        who = self._watch.returns_for
        if who is not None and rows:
            kept = self._returns.put_into(rows, lambda jid: self._watch.only_jobs or self._is_of(jid, who))
            if kept < len(rows):
                rows = rows[:kept]
                self._after = rows[-1]["seq"]
        skipped, self._skipped = self._skipped, []
        message = {"seq": self._after, "events": rows}
        return {**message, "skipped": skipped} if skipped else message

    def _skip(self, event: Event) -> None:
        """The event cannot be read: users who may see all events learn which one, and why."""
        if self._watch.only_of is None:
            self._skipped.append({"seq": event.seq, "tag": event.tag, "reason": event.damage})

    def _matching(self, events: list[Event]) -> list[dict[str, Any]]:
        """The rows of matching events, until they fill a message; moves the cursor behind the last event read."""
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
        core, _, rest = event.tag.partition("/")
        kind, _, rest = rest.partition("/")
        if core != "salt":
            return False
        if kind == "run":
            return event.data.get("user") == who.label
        return kind == "job" and (self._watch.only_jobs or self._is_of(rest.partition("/")[0], who))

    def _is_of(self, text: str, who: Principal) -> bool:
        found = self._owned.get(text)
        if found is None:
            summary = self._store.job_summary(parse_jid(text))
            found = self._owned[text] = summary is not None and summary.uid == who.owner
            if len(self._owned) > OWNED_MAX:
                del self._owned[next(iter(self._owned))]
        return found


class ReturnsOfEvents:
    """Adds to events of jobs what Salt's events have: `fun`, `fun_args`, `success` and the return to `…/ret/…`, `arg`
    and `minions` to `…/new`. Stored events have neither arguments nor returns, so they are read from the jobs.

    The return is the field `body` of the row, as the minion encoded it. A return of more than RETURN_MAX bytes, or a
    reason why there is none, is the text `return` of the data.
    """

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._jobs: dict[str, dict[str, Any] | None] = {}

    def put_into(self, rows: list[dict[str, Any]], may_see: Callable[[str], bool]) -> int:
        """Change the rows of those jobs; how many of the rows fit into one message, at least one."""
        found: dict[int, Return] = {}
        size = 0
        for count, row in enumerate(rows):
            salt, word, jid, kind = (*row["tag"].split("/", 4), "", "", "")[:4]
            if (salt, word) != ("salt", "job") or kind not in ("new", "ret") or not may_see(jid):
                continue
            about = self._job(jid)
            if about is None:
                continue
            if kind == "new":
                row["data"] = {**row["data"], "arg": about["fun_args"], "minions": about["minions"]}
                size += about["size"]
            else:
                if row["seq"] not in found:
                    found = {ret.seq: ret for ret in self._store.returns(Jid(jid), row["seq"] - 1, PAGE, SIZE)}
                size += _add_return(row, about, found.get(row["seq"])) + len(about["fun_args"])
            if size >= SIZE:
                return count + 1
        return len(rows)

    def _job(self, jid: str) -> dict[str, Any] | None:
        """What events tell of a job, None if it is gone or damaged."""
        if jid not in self._jobs:
            try:
                self._jobs[jid] = self._read(Jid(jid))
            except (DamagedError, ProtocolError):
                self._jobs[jid] = None
            if len(self._jobs) > JOBS_KEPT:
                del self._jobs[next(iter(self._jobs))]
        return self._jobs[jid]

    def _read(self, jid: Jid) -> dict[str, Any] | None:
        job = self._store.job(jid)
        if job is None:
            return None
        targets = [*job.minions, *(srn for srns in job.resources.values() for srn in srns)]
        args = shown_fun_args(decode_record(job.body).body.calls)
        size = len(repr(args))
        if size > ARGUMENTS_MAX:
            args = [f"{size} characters of arguments: job show {jid} has them"]
        return {"fun": job.fun, "fun_args": args, "minions": targets[:MINIONS_MAX], "size": size + 16 * len(targets)}


def _add_return(row: dict[str, Any], about: Mapping[str, Any], ret: Return | None) -> int:
    """Add a return to its event; the bytes that it has."""
    data = {"cmd": "_return", **row["data"], "fun": about["fun"], "fun_args": about["fun_args"], "success": False}
    row["data"] = data
    if ret is None:
        return 0
    data["success"] = outcome_of_return(ret) is TargetOutcome.OK
    if not ret.body:
        data["return"] = ret.reason
    elif len(ret.body) > RETURN_MAX:
        data["return"] = f"the return has {len(ret.body)} bytes: the job {ret.jid} has it"
    else:
        row["body"] = ret.body
    return len(row.get("body", b""))


# -- writers


def handle_event_send(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes an event with `tag` and `data`, the user in `_user`, and the `runner` that sends it in `_run`."""
    tag, data = parse_free_tag(request["tag"]), request["data"]
    by = {SENT_BY: parse_jid(request["runner"])} if "runner" in request else {}
    _refuse_large(data)
    master.refuse_when_full()
    return _written(master, principal, tag, {**data, **by})


def handle_cloud_event(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/cloud/<machine>/<what>` with `data`, and the user in `_user`."""
    machine, what, data = request["machine"], request["what"], request["data"]
    if not 1 <= len(machine) <= MACHINE_MAX or not machine.isprintable() or "/" in machine or " " in machine:
        raise UsageError(f"the name of a machine has 1 to {MACHINE_MAX} printable characters, no slash and no space")
    if len(what) > WHAT_MAX or not _WHAT.fullmatch(what):
        raise UsageError(f"what happened to a machine is one word of up to {WHAT_MAX} letters, digits and hyphens")
    _refuse_large(data)
    return _written(master, principal, tag_cloud(machine, what), data)


def handle_runner_event(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/run/<jid>/new`, or with `retcode` and `duration_ms` `salt/run/<jid>/ret` (R13).

    Arguments and returns are not included, because they may hold secrets.
    """
    jid, funs = parse_jid(request["jid"]), request["funs"]
    if not 1 <= len(funs) <= CALLS_MAX:
        raise UsageError(f"a runner has 1 to {CALLS_MAX} functions, not {len(funs)}")
    for fun in funs:
        if not may(principal, RUNNER, (checked_function(fun),), master.config):
            raise RefusedError(f"{principal} may not run the runner {fun}: that takes @runner {fun}")
    data: dict[str, Any] = {"fun": ",".join(checked_function(fun) for fun in funs), "user": principal.label}
    tag = tag_run_new(jid)
    if "retcode" in request:
        tag = tag_run_return(jid)
        data.update({name: request[name] for name in ("retcode", "duration_ms") if name in request})
        data["success"] = request["retcode"] == 0
    with master.store.write() as store:
        store.put_event(tag, data, master.clock.wall())
    return Answer(committed=True, moved=())


def handle_wheel_event(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/wheel/<jid>/new`, or with `success` `salt/wheel/<jid>/ret`, with `return` of `data` (R13)."""
    jid, fun = parse_jid(request["jid"]), checked_function(request["fun"])
    if not may(principal, WHEEL, (fun,), master.config):
        raise RefusedError(f"{principal} may not run the wheel function {fun}: that takes @wheel {fun}")
    data: dict[str, Any] = {"fun": f"wheel.{fun}", "jid": jid, "user": principal.label}
    tag = tag_wheel_new(jid)
    if "success" in request:
        tag = tag_wheel_return(jid)
        data |= {"success": request["success"], "return": request.get("data", {}).get("return")}
    data["tag"] = f"salt/wheel/{jid}"
    _refuse_large(data)
    with master.store.write() as store:
        store.put_event(tag, data, master.clock.wall())
    return Answer(committed=True, moved=())


def checked_path(path: str) -> str:
    """`path` if it is valid for a webhook ("" for /hook itself); UsageError otherwise."""
    if path and (len(path) > PATH_MAX or not _PATH.fullmatch(path)):
        raise UsageError(f"the path of a hook has at most {PATH_MAX} letters, digits, _ . : @ - and single slashes")
    return path


def handle_hook(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Writes `salt/netapi/hook/<path>` with `data`, and the user in `_user`."""
    path, data = checked_path(request["path"]), request["data"]
    authorize(principal, Action("hook", name=path), master.config)
    _refuse_large(data)
    master.refuse_when_full()
    return _written(master, principal, tag_hook(path), data)


def _refuse_large(data: Mapping[str, Any]) -> None:
    if len(repr(data)) > DATA_MAX:
        raise UsageError(f"the data of an event has at most {DATA_MAX} characters")


def _written(master: Master, principal: Principal, tag: str, data: Mapping[str, Any]) -> Answer:
    with master.store.write() as store:
        store.put_event(tag, {**data, "_user": principal.label}, master.clock.wall())
    return Answer(committed=True, moved=())


def answer_event(master: Master, minion: MinionId, message: Message) -> Message:
    """The response to an `event`: "ok" once it is committed, "refused" with the reason in `names`, or "busy" for now.

    The data of the stored event is `{id, tag, data}`, the tag as the minion wrote it, and `jid`, the job that sent it,
    as the minion claims. If a session ends before the response arrives, the minion sends the event again, and it is
    stored twice.
    """
    try:
        tag, about = _event(minion, message)
        master.refuse_when_full()
        with master.store.write() as store:
            # The key may have been revoked since the minion sent the event.
            if store.holder(minion) is not None:
                store.put_event(tag, about, master.clock.wall())
    except (ProtocolError, UsageError) as error:
        return response_message(message["n"], "refused", names=[str(error)[:SENTENCE_MAX]])
    except StoreError as error:
        log.error("an event of %s cannot be kept for now: %s", minion, error)  # noqa: TRY400 - the message is complete
        return response_message(message["n"], "busy", names=[str(error)[:SENTENCE_MAX]])
    return response_message(message["n"], "ok")


def _event(minion: MinionId, message: Message) -> tuple[str, dict[str, Any]]:
    tag = parse_tag(tag_of_minion(minion, parse_tag(message["tag"])))
    data = codec.decode(message["data"], codec.EVENT)
    if not isinstance(data, dict | str):
        raise UsageError("the data of an event is a map or a text")
    if tag.startswith(f"{BEACON}/") and isinstance(data, dict):
        # In Salt's form, for hooks and programs that read it.
        return tag, {**data, "id": minion}
    about = {"id": minion, "tag": message["tag"], "data": data}
    return tag, {**about, "jid": split_part(message["jid"])[0]} if message["jid"] else about


def report_ended_turns(master: Master, marks: Marks) -> bool:
    """Write an event for each turn that the supervisor ended; whether there was one. Raises StoreError: then a later
    call writes them. A process's turns are reported by its replacement, or by the first MWorker."""
    turns = marks.board.untold(marks.name)
    if not turns:
        return False
    with master.store.write() as store:
        for ended in turns:
            data = {"process": ended.process, "turn": ended.text, "held_s": round(ended.held_s, 1)}
            store.put_event(tag_turn_ended(ended.process), data, master.clock.wall())
    for ended in turns:
        marks.board.mark_reported(ended)
    return True
