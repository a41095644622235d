"""The process of one returner: it follows the event log by cursor and passes returns and events to the plug-in.

The store is the queue, so a returner that is slow, or whose server is away, delays nothing else and loses nothing
until `keep_jobs` or `store_max` delete what it has not processed. What was deleted, what the returner refuses for
good, and what its process died of repeatedly is counted, logged, and an event. Delivery is at least once: the cursor is
written after the returner has returned.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from saltlite.config.opts import opts_of
from saltlite.errors import (
    CursorLostError,
    DamagedError,
    ProtocolError,
    RefusedError,
    RemoteProtocolError,
    SaltInvocationError,
    SaltliteError,
    StartupError,
)
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.master.processes.store_opening import clock_of
from saltlite.master.store.ports import Store
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.events import Event, count_after, tag_returner
from saltlite.model.ids import Jid
from saltlite.model.job import Job
from saltlite.platform.files import EventLogCursor
from saltlite.platform.privileges import drop_to, require_trusted
from saltlite.wire import codec
from saltlite.wire.job_body import decode_record, shown_fun_args

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig

log = logging.getLogger(__name__)

PAGE = 200
"""Events per read, and so the most that one call gets."""
BATCH_BYTES = 8 * 1024 * 1024
"""Bytes of returns after which a call gets no further one."""
LOOK_S = 0.2
"""The interval of reading the event log when idle."""
AGAIN_S, AGAIN_MAX_S = 1.0, 60.0
"""The first and the longest pause before a retry; each is twice the one before."""
WANTED_MAX = 10_000
"""Remembered jobs that named this returner (--return)."""
JOBS_KEPT = 16
DEATHS_ALONE, DEATHS_MAX = 3, 6
"""After so many deaths of its process without progress, it gets single events; after more, that event is dropped."""
UNREADABLE_CODE = 1
"""The retcode of an unreadable return without one."""
OWN = "salt/returner/"

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one returner gets. `tags` and `not_tags` are globs of event tags; no `tags` means all."""

    name: str
    every_return: bool = False
    events: bool = False
    tags: Sequence[str] = ()
    not_tags: Sequence[str] = ()

    def event(self, tag: str) -> bool:
        """Whether it gets an event. Events about returners are excluded, because they would cause more."""
        if not self.events or tag.startswith(OWN) or any(fnmatchcase(tag, glob) for glob in self.not_tags):
            return False
        return not self.tags or any(fnmatchcase(tag, glob) for glob in self.tags)


@dataclass(slots=True)
class _Batch:
    rets: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0


class Returner:
    """`pause` waits; `functions` are the loader's."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        functions: Functions,
        wanted: Subscription,
        cursor: EventLogCursor,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._functions = functions
        self._wanted = wanted
        self._cursor = cursor
        self._pause = pause
        self._again_s = 0.0
        self._jobs: dict[Jid, Job | None] = {}
        kept = cursor.read() or {}
        # A new returner begins with new events, not with a week of old returns.
        self._after = int(kept.get("seq", store.last_seq()))
        self._named: dict[str, None] = dict.fromkeys(kept.get("jobs", ()))
        self._deaths = int(kept.get("starts", 0))
        if self._deaths >= DEATHS_MAX:
            self._drop_fatal_event()
        self._save(starts=self._deaths + 1)

    def run(self) -> None:
        """Run until SystemExit: a planned stop, which does not count as a death. Raises CursorLostError."""
        try:
            while True:
                if not self.step():
                    self._pause(LOOK_S)
        except SystemExit:
            self._save()

    def step(self) -> bool:
        """Deliver the next events; whether there were any. Pauses after an error."""
        try:
            self._notice_gap()
            events = self._store.events(self._after, PAGE if self._deaths < DEATHS_ALONE else 1)
            if not events:
                return False
            batch, last = self._gather(events)
            if batch.rets:
                self._offer("returner", "return_many", batch.rets)
            if batch.events:
                self._offer("event_return", "event_return", batch.events)
            self._after, self._deaths = last, 0
            self._save()
        except CursorLostError:
            raise
        except SaltliteError as error:
            self._again_s = min(AGAIN_MAX_S, self._again_s * 2 or AGAIN_S)
            log.warning(
                "returner %s is at event %d of %d and tries again in %g s: %s",
                self._wanted.name,
                self._after,
                self._store.last_seq(),
                self._again_s,
                error,
            )
            self._pause(self._again_s)
            return True
        self._again_s = 0.0
        return True

    # -- what there is

    def _notice_gap(self) -> None:
        first = self._store.first_seq()
        if 0 < self._after + 1 < first:
            # This is a lower bound: the number of events before the promotion of a standby is unknown.
            count = count_after(self._after, first - 1)
            self._record_event("lost", {"count": count, "reason": "deleted before they were delivered"})
            self._after = first - 1
            self._save()

    def _drop_fatal_event(self) -> None:
        """Drop the event that killed the process too often."""
        doomed = self._store.events(self._after, 1)
        self._deaths = 0
        if doomed:
            reason = f"its process died of event {doomed[0].seq} ({doomed[0].tag}) {DEATHS_MAX} times"
            self._record_event("dropped", {"count": 1, "reason": reason})
            self._after = doomed[0].seq

    def _gather(self, events: Sequence[Event]) -> tuple[_Batch, int]:
        batch = _Batch()
        for event in events:
            if event.damage:
                self._skip(event, event.damage)
                continue
            self._note(event)
            if self._wanted.event(event.tag):
                batch.events.append({"tag": event.tag, "data": event.data, "at": event.at, "seq": event.seq})
            try:
                ret = self._return_of(event)
            except (ProtocolError, DamagedError) as error:
                self._skip(event, str(error))
                continue
            if ret is not None:
                batch.rets.append(ret[0])
                batch.size += ret[1]
            if batch.size >= BATCH_BYTES:
                return batch, event.seq
        return batch, events[-1].seq

    def _skip(self, event: Event, why: str) -> None:
        """Skip an unreadable event: it is counted and reported."""
        reason = f"event {event.seq} ({event.tag}) cannot be read: {why}"
        self._record_event("dropped", {"count": 1, "reason": reason[:500]})

    def _note(self, event: Event) -> None:
        """Remember the job if it named this returner."""
        named = event.data.get("returners", ())
        if event.tag.startswith("salt/job/") and isinstance(named, list) and self._wanted.name in named:
            self._named[event.tag.split("/")[2]] = None
            if len(self._named) > WANTED_MAX:
                del self._named[next(iter(self._named))]

    def _return_of(self, event: Event) -> tuple[dict[str, Any], int] | None:
        parts = event.tag.split("/", 4)
        if parts[:2] != ["salt", "job"] or len(parts) < 5 or parts[3] != "ret":
            return None
        jid = Jid(parts[2])
        if not self._wanted.every_return and jid not in self._named:
            return None
        found = [ret for ret in self._store.returns(jid, event.seq - 1, 1) if ret.seq == event.seq]
        job = self._job(jid)
        if not found or job is None:
            return None
        ret = found[0]
        value, readable = _value(ret.body)
        about = {
            "jid": jid,
            "id": ret.id,
            "fun": job.fun,
            "fun_args": shown_fun_args(decode_record(job.body).body.calls),
            "return": value,
            "retcode": ret.retcode if readable else ret.retcode or UNREADABLE_CODE,
            "success": readable and str(ret.state) == "returned" and ret.retcode == 0,
            "state": str(ret.state),
            "user": job.user,
            "tgt": job.target.expression,
            "tgt_type": str(job.target.kind),
            "duration_ms": ret.duration_ms,
            "at": event.at,
        }
        return about, len(ret.body)

    def _job(self, jid: Jid) -> Job | None:
        if jid not in self._jobs:
            if len(self._jobs) >= JOBS_KEPT:
                del self._jobs[next(iter(self._jobs))]
            self._jobs[jid] = self._store.job(jid)
        return self._jobs[jid]

    # -- handing on

    def _offer(self, alone: str, together: str, records: Sequence[dict[str, Any]]) -> None:
        """Call the returner. Raises SaltliteError for a retry."""
        many = f"{self._wanted.name}.{together}"
        if together == alone or many in self._functions:
            try:
                self._call(many, records)
            except SaltInvocationError as error:
                if len(records) == 1:
                    self._drop(error)
                    return
                for record in records:
                    self._offer(alone, together, [record])
            return
        for record in records:
            try:
                self._call(f"{self._wanted.name}.{alone}", record)
            except SaltInvocationError as error:
                self._drop(error)

    def _call(self, name: str, what: Any) -> None:
        try:
            self._functions[name](what)
        except SaltliteError:
            raise
        except Exception as error:
            # A plug-in may raise anything, and its events must not be lost.
            raise SaltliteError(f"it raised {type(error).__name__}: {error}") from error

    def _drop(self, error: SaltInvocationError) -> None:
        self._record_event("dropped", {"count": 1, "reason": str(error)[:500]})

    def _record_event(self, what: str, data: Mapping[str, Any]) -> None:
        log.error("returner %s: %d %s: %s", self._wanted.name, data["count"], what, data["reason"])
        with self._store.write() as store:
            store.put_event(tag_returner(self._wanted.name, what), data, self._clock.wall())

    def _save(self, *, starts: int = 0) -> None:
        self._cursor.write({"seq": self._after, "jobs": list(self._named), "starts": starts})


def _value(body: bytes) -> tuple[Any, bool]:
    """The value of a return, and whether it is readable: the store has its bytes as the minion sent them."""
    try:
        return (codec.decode(body, codec.RETURN) if body else None), True
    except RemoteProtocolError as error:
        return f"the return cannot be read: {error}", False


RETURNERS = "returners"


def run_returner(
    config: MasterConfig,
    name: str,
    cursor_in: Callable[[Store], EventLogCursor],
    open_store: Callable[[], Store],
    ready: Callable[[], None],
) -> None:
    """Run the process of a returner until SIGTERM. `cursor_in` makes its cursor.

    Raises StartupError when there is no such returner, and StoreError.
    """
    functions = _loaded(config, name)
    drop_to(config.user)
    # At any moment: what was not delivered is delivered again.
    signal.signal(signal.SIGTERM, lambda _signum, _frame: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wanted = Subscription(
        name,
        every_return=name in config.master_returners,
        events=name in config.event_return,
        tags=config.event_return_whitelist,
        not_tags=config.event_return_blacklist,
    )
    store = open_store()
    cursor = cursor_in(store)
    ready()
    while True:
        while cursor.read() is None:
            time.sleep(AGAIN_S)
        try:
            Returner(store, clock_of(config, store), functions, wanted, cursor).run()
        except CursorLostError:
            log.warning("another master serves the returner %s now", name)
        else:
            return


def _loaded(config: MasterConfig, name: str) -> Mapping[str, Callable[..., Any]]:
    """Its functions, loaded while the process can still read their files."""
    opts = opts_of(config, "master")
    try:
        require_trusted([*config.module_dirs, *config.returner_dirs, config.extension_modules])
    except RefusedError as error:
        raise StartupError(f"no returner can be loaded: {error}") from error
    loader = Loader(build_index(search_layers(opts, RETURNERS)), opts, {}, {})
    needs = [f"{name}.event_return"] if name in config.event_return else []
    if name not in config.event_return or name in config.master_returners:
        needs.append(f"{name}.returner")
    for function in needs:
        if function not in loader:
            reason = loader.not_loaded().get(name, "no file among the folders of returners has that function")
            raise StartupError(f"the configuration names the returner {name!r}, which lacks {function}: {reason}")
    return loader
