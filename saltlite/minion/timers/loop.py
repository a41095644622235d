"""The timer loop of a minion: it begins the jobs of the schedule, runs beacons, and answers requests of functions.

Entries come from the configuration, the pillar and functions. Changes by functions override the others and are stored
in data_dir. The mine is an entry of its own. The wall clock may jump, so the loop reads it at least every LOOK_S.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from saltlite.errors import UsageError
from saltlite.minion.timers.beacons import Beacons
from saltlite.minion.timers.changes import KeptChanges
from saltlite.minion.timers.schedule import NEVER, DueRun, Schedule, ScheduleEntry, SkippedRun, read_entry, read_time
from saltlite.model.clock import Clock
from saltlite.platform.reactor import Reactor, Timer
from saltlite.wire.framing import IpcMessage
from saltlite.wire.job_body import FunctionCall

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""The longest time between two looks at the clock."""
FILE = "schedule"
"""In data_dir: the changes that functions made, and when entries with `catch_up` ran."""
MINE = "__mine_interval"
"""The entry that updates the mine, with Salt's name."""
MINE_SPLAY_MAX_S = 60.0
"""The largest random delay of an update of the mine, which is otherwise a tenth of `mine_interval`. So minions that
were started together do not send at once."""


class BeginJob(Protocol):
    """Begins a job of the minion; returns its jid. Raises UsageError."""

    def __call__(self, call: FunctionCall, *, origin: str, metadata: Mapping[str, Any], report: bool) -> str: ...


class TimerLoop:
    """`begin` begins a job. Nothing runs before `open`."""

    def __init__(
        self,
        reactor: Reactor,
        clock: Clock,
        begin: BeginJob,
        beacons: Beacons,
        data_dir: str,
        opts: Mapping[str, Any],
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._begin = begin
        self._beacons = beacons
        beacons.changed = self._arm
        self._opts = opts
        self._pillar: Mapping[str, Any] = {}
        self._has_pillar = False
        self._changes = KeptChanges(os.path.join(data_dir, FILE))
        self._schedule = Schedule(clock.uniform, last=self._changes.more.get("last"))
        self._running: dict[str, str] = {}
        """jid -> entry."""
        self._open = False
        self._timer: Timer | None = None

    # -- what happens

    def open(self) -> None:
        """Jobs can run: begin with the schedule."""
        self._open = True
        self._configure(starting=True)

    def pillar_is(self, pillar: Mapping[str, Any]) -> None:
        """Use this pillar from now on."""
        self._pillar = pillar
        self._has_pillar = True
        self._configure()

    def ended(self, jid: str) -> None:
        """A job has ended, or will not run."""
        name = self._running.pop(jid, None)
        if name is not None:
            self._schedule.ended(name)

    def _configure(self, *, starting: bool = False) -> dict[str, str]:
        """Apply the present entries. Returns name -> error message of wrong entries."""
        if not self._open:
            return {}
        wanted = self._wanted()
        self._schedule.enabled = self._changes.enabled
        problems = self._schedule.replace(wanted, self._clock.wall(), starting=starting, whole=self._has_pillar)
        for sentence in problems.values():
            log.error("an entry of the schedule is not used: %s", sentence)
        kept = self._changes.more.get("last", {})
        if any(entry.catch_up and name not in kept for name, entry in self._schedule.entries().items()):
            self._keep_last()
        self._beacons.configure()
        self._arm()
        return problems

    def _wanted(self) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        for source in (self._opts, self._pillar):
            jobs = source.get("schedule") or {}
            if not isinstance(jobs, Mapping):
                log.error("the schedule of the pillar is not used: it is a map from names to entries")
                continue
            wanted |= {str(name): about for name, about in jobs.items()}
        # Salt keeps the switch for the whole schedule among the entries.
        self._changes.configured = bool(wanted.pop("enabled", True))
        wanted.update(self._mine())
        return self._changes.apply(wanted)

    def _mine(self) -> dict[str, Any]:
        functions = self._opts.get("mine_functions") or self._pillar.get("mine_functions")
        if not functions or not self._opts.get("mine_enabled", True):
            return {}
        interval = float(self._opts["mine_interval"])
        splay = min(MINE_SPLAY_MAX_S, interval / 10)
        report = bool(self._opts.get("mine_return_job", False))
        return {MINE: {"function": "mine.update", "seconds": interval, "splay": splay, "return_job": report}}

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        wait_s = min(
            self._schedule.next_time() - self._clock.wall(), self._beacons.next_time() - self._clock.monotonic()
        )
        if wait_s != NEVER:
            self._timer = self._reactor.call_later(min(max(0.0, wait_s), LOOK_S), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._carry_out(self._schedule.due(self._clock.wall()))
        self._beacons.due()
        self._arm()

    def _carry_out(self, found: list[DueRun | SkippedRun]) -> None:
        for one in found:
            if isinstance(one, SkippedRun):
                log.warning("schedule %s does not run: %s", one.name, one.why)
                continue
            try:
                self._start(one.entry)
            except UsageError as error:
                log.error("schedule %s does not run: %s", one.entry.name, error)  # noqa: TRY400 - a sentence

    def _start(self, entry: ScheduleEntry) -> None:
        """Begin a job of the entry. Raises UsageError."""
        try:
            jid = self._begin(
                entry.call, origin=f"schedule {entry.name}", metadata=entry.metadata, report=entry.return_job
            )
        except UsageError:
            self._schedule.ended(entry.name)
            raise
        self._running[jid] = entry.name
        if entry.catch_up:
            self._keep_last()

    def _keep_last(self) -> None:
        self._changes.more["last"] = dict(self._schedule.last)
        try:
            self._changes.write()
        except UsageError as error:
            log.warning("a restart may repeat jobs of the schedule: %s", error)

    # -- what functions ask

    def answer(self, about: str, operation: str, fields: dict[str, Any]) -> IpcMessage:
        """Carry out an operation on the schedule or the beacons. Raises UsageError."""
        if about == "beacons":
            return self._beacons.answer(operation, fields)
        if about != "schedule":
            raise UsageError(f"this minion has no {about[:40]}")
        handlers: dict[str, Callable[..., IpcMessage]] = {
            "list": self._list, "set": self._set, "delete": self._delete, "enable": self._enable, "run": self._run_now,
            "save": self._save, "reload": self._reload, "next": self._next, "move": self._move,
        }  # fmt: skip
        handler = handlers.get(operation)
        if handler is None:
            raise UsageError(f"there is no operation {operation[:40]!r} of the schedule")
        if not self._open:
            raise UsageError("the schedule has not begun yet: try again in a moment")
        try:
            return handler(**fields)
        except TypeError:
            raise UsageError(f"{operation} of the schedule does not take these fields") from None

    def _list(self) -> IpcMessage:
        own = {name: "function" for name, about in self._changes.entries.items() if about is not None}
        pillar = self._pillar.get("schedule") or {}
        jobs = {name: {**entry.written, "enabled": entry.enabled} for name, entry in self._schedule.entries().items()}
        sources = {name: own.get(name) or ("pillar" if name in pillar else "opts") for name in jobs}
        return {"jobs": jobs, "enabled": self._changes.enabled, "sources": sources}

    def _set(self, name: str, job: dict[str, Any], *, persist: bool = True) -> IpcMessage:
        read_entry(name, job)
        self._change(name, job, persist=persist)
        return {}

    def _delete(self, name: str, *, persist: bool = True) -> IpcMessage:
        self._known(name)
        self._change(name, None, persist=persist)
        return {}

    def _enable(self, *, enabled: bool, persist: bool = True) -> IpcMessage:
        self._changes.switch(enabled=enabled, persist=persist)
        self._configure()
        return {}

    def _run_now(self, name: str) -> IpcMessage:
        self._known(name)
        found = self._schedule.run_now(name, self._clock.wall())
        if not found or isinstance(found[0], SkippedRun):
            why = found[0].why if found and isinstance(found[0], SkippedRun) else "jobs of it still run"
            raise UsageError(f"the job {name} does not run: {why}")
        try:
            self._start(found[0].entry)
        except UsageError as error:
            raise UsageError(f"the job {name} does not run: {error}") from error
        return {}

    def _save(self) -> IpcMessage:
        self._changes.save()
        return {}

    def _reload(self) -> IpcMessage:
        self._changes.reload()
        self._configure()
        return {}

    def _next(self, name: str) -> IpcMessage:
        self._known(name)
        at = self._schedule.next_of(name)
        return {"next": "" if at == NEVER else self._schedule.shown(at)}

    def _move(self, name: str, moment: str, to: str = "") -> IpcMessage:
        self._known(name)
        now = self._clock.wall()
        if to:
            self._schedule.postpone(name, read_time(moment), read_time(to), now)
        else:
            self._schedule.skip(name, read_time(moment), now)
        self._arm()
        return {}

    def _known(self, name: str) -> None:
        if name not in self._schedule.entries():
            raise UsageError(f"Job {str(name)[:80]} does not exist.")

    def _change(self, name: str, job: dict[str, Any] | None, *, persist: bool) -> None:
        """Change an entry, and keep the change only after it is in use. Raises UsageError."""
        before = dict(self._changes.entries)
        try:
            self._changes.put(name, job, persist=False)
            problem = self._configure().get(name, "")
            if not problem:
                self._changes.put(name, job, persist=persist)
        except Exception:
            self._go_back(before)
            raise
        if problem:
            self._go_back(before)
            raise UsageError(problem)

    def _go_back(self, before: dict[str, Any]) -> None:
        self._changes.entries = before
        self._configure()
