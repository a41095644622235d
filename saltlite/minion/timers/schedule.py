"""Decides which jobs of a minion's schedule run when, without IO. Times are seconds since 1970.

An entry names a function and when it runs: at an interval (`seconds`, `minutes`, `hours`, `days`), at times (`when`),
by `cron`, or `once`. The pillar overrides the configuration, and changes by functions (`schedule.add` …) override both.
A time that passed more than MISSED_S ago, because the minion was down or its machine was suspended, is skipped; with
`catch_up` the job runs once later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

from saltlite.errors import UsageError, nearest
from saltlite.minion.timers.cron import Cron, When, parse_cron, parse_when
from saltlite.model.dataclass import dataclass
from saltlite.wire.job_body import FunctionCall

ENTRIES_MAX = 256
"""Entries of one schedule. Further ones are refused."""
NAME_MAX = 128
"""The longest name of an entry, in characters."""
INTERVAL_MIN_S = 1.0
INTERVAL_MAX_S = 3650 * 86_400.0
RUNNING_MAX = 16
"""The largest `maxrunning`: jobs of one entry that run at once. While so many run, a further one is skipped."""
MISSED_S = 60.0
"""A time that passed longer ago is missed."""
WHENS_MAX = 100
"""Times in one `when`."""
NEVER = float("inf")
FAR_YEAR = 9000
"""A time from this year on counts as never, because clocks do not count far beyond it."""
_REPEATED = timedelta(hours=1)
"""The local time that occurs twice when clocks are set back."""

_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
_FIELDS = frozenset(
    {
        *_UNITS, "function", "args", "kwargs", "when", "cron", "once", "once_fmt", "splay", "range", "until", "after",
        "maxrunning", "run_on_start", "jid_include", "return_job", "enabled", "metadata", "catch_up", "name",
        "skip_during_range",
    }
)  # fmt: skip
_ISO = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True, slots=True)
class Range:
    """Times of a day; `invert` for those outside. `start` may be later than `end`: the range spans midnight."""

    start: time
    end: time
    invert: bool = False

    def has(self, moment: datetime) -> bool:
        at = moment.time()
        inside = self.start <= at <= self.end if self.start <= self.end else at >= self.start or at <= self.end
        return inside is not self.invert


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """One entry. `interval_s` is 0 unless it runs at an interval."""

    name: str
    call: FunctionCall
    written: Mapping[str, Any]
    interval_s: float = 0.0
    times: tuple[Cron | When, ...] = ()
    once: datetime | None = None
    splay: tuple[float, float] = (0.0, 0.0)
    inside: Range | None = None
    """Runs only then."""
    outside: Range | None = None
    """Does not run then."""
    after: datetime | None = None
    until: datetime | None = None
    maxrunning: int = 1
    run_on_start: bool = False
    jid_include: bool = True
    """Whether `maxrunning` counts."""
    return_job: bool = True
    enabled: bool = True
    catch_up: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def allows(self, moment: datetime) -> bool:
        """Whether `after`, `until` and the ranges allow a run at that time."""
        if (self.after is not None and moment <= self.after) or (self.until is not None and moment > self.until):
            return False
        return (self.inside is None or self.inside.has(moment)) and not (
            self.outside is not None and self.outside.has(moment)
        )


def read_entry(name: str, written: Any) -> ScheduleEntry:
    """Check an entry. Raises UsageError with a sentence."""
    place = f"schedule {str(name)[:NAME_MAX]}"
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX or not name.isprintable():
        raise UsageError(f"the name of an entry of the schedule has 1 to {NAME_MAX} printable characters")
    if not isinstance(written, Mapping):
        raise UsageError(f"{place} is a map with `function` and when it runs")
    # A field that Salt adds for itself begins with an underscore.
    about = {key: value for key, value in written.items() if not str(key).startswith("_")}
    unknown = sorted(str(key) for key in about if key not in _FIELDS)
    if unknown:
        near = nearest(unknown[0], _FIELDS)
        raise UsageError(f"{place} does not take `{unknown[0][:64]}`" + (f": did you mean `{near}`?" if near else ""))
    function, args, kwargs = about.get("function"), about.get("args") or [], about.get("kwargs") or {}
    if not isinstance(function, str) or "." not in function:
        raise UsageError(f"{place}: function is written module.function, as in test.ping")
    if not isinstance(args, list) or not isinstance(kwargs, Mapping) or not all(isinstance(one, str) for one in kwargs):
        raise UsageError(f"{place}: args is a list, and kwargs a map from names")
    try:
        return ScheduleEntry(
            name, FunctionCall(function, args, dict(kwargs)), dict(written), **_times(about), **_limits(about)
        )
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _times(about: Mapping[str, Any]) -> dict[str, Any]:
    given = [one for one in ("when", "cron", "once") if about.get(one)]
    interval = sum(_number(about, unit, 0, INTERVAL_MAX_S) * seconds for unit, seconds in _UNITS.items())
    if len(given) + bool(interval) > 1:
        raise UsageError("seconds, minutes, hours and days, when, cron, and once exclude each other")
    if interval and not INTERVAL_MIN_S <= interval <= INTERVAL_MAX_S:
        raise UsageError(f"the interval is from {INTERVAL_MIN_S:g} to {INTERVAL_MAX_S:.0f} seconds")
    found: dict[str, Any] = {"interval_s": float(interval)}
    if about.get("when"):
        texts = about["when"] if isinstance(about["when"], list) else [about["when"]]
        if len(texts) > WHENS_MAX:
            raise UsageError(f"when has at most {WHENS_MAX} times")
        found["times"] = tuple(parse_when(str(text)) for text in texts)
    elif about.get("cron"):
        found["times"] = (parse_cron(str(about["cron"])),)
    elif about.get("once"):
        found["once"] = _moment(about["once"], str(about.get("once_fmt") or _ISO))
    elif not interval and not about.get("run_on_start"):
        raise UsageError("say when it runs: seconds, minutes, hours, days, when, cron or once")
    for name in ("after", "until"):
        if about.get(name):
            found[name] = _moment(about[name], _ISO)
    if about.get("range"):
        found["inside"] = _range(about["range"])
    if about.get("skip_during_range"):
        found["outside"] = _range(about["skip_during_range"])
    return found


def _limits(about: Mapping[str, Any]) -> dict[str, Any]:
    splay = about.get("splay") or 0
    if isinstance(splay, Mapping):
        low, high = _number(splay, "start", 0, INTERVAL_MAX_S), _number(splay, "end", 0, INTERVAL_MAX_S)
    else:
        low, high = 0.0, _number({"splay": splay}, "splay", 0, INTERVAL_MAX_S)
    if low > high:
        raise UsageError("splay starts after its end")
    metadata = about.get("metadata") or {}
    if not isinstance(metadata, Mapping) or not all(isinstance(one, str) for one in metadata):
        raise UsageError("metadata is a map from names")
    flags = {
        name: _flag(about, name, default=default)
        for name, default in (
            ("run_on_start", False), ("jid_include", True), ("return_job", True), ("enabled", True),
            ("catch_up", False),
        )
    }  # fmt: skip
    most = _number(about, "maxrunning", 1, RUNNING_MAX) if "maxrunning" in about else 1
    if "run_on_start" not in about:
        # As in Salt: what runs at an interval begins with the minion.
        flags["run_on_start"] = any(about.get(unit) for unit in _UNITS)
    return {**flags, "splay": (low, high), "maxrunning": int(most), "metadata": dict(metadata)}


def _number(about: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = about.get(name, 0)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    if type(value) not in (int, float) or not low <= value <= high:
        raise UsageError(f"{name} is a number from {low:g} to {high:.0f}")
    return float(value)


def _flag(about: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = about.get(name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name} is true or false")
    return value


def _moment(value: Any, form: str) -> datetime:
    """A local date and time in the form `form`, or as in `when`."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    try:
        return datetime.strptime(str(value), form)  # noqa: DTZ007 - a local time, whose zone is that of the machine
    except ValueError:
        when = parse_when(str(value))
    if when.day is None:
        raise UsageError(f"{str(value)[:80]!r} has no date: write 2026-01-31T17:00:00")
    return datetime.combine(when.day, when.at)


def _range(value: Any) -> Range:
    if not isinstance(value, Mapping) or not {"start", "end"} <= set(value) <= {"start", "end", "invert"}:
        raise UsageError("a range is a map of start and end, times of a day, and of invert")
    start, end = parse_when(str(value["start"])), parse_when(str(value["end"]))
    if start.day or end.day or start.weekday is not None or end.weekday is not None:
        raise UsageError("start and end of a range are times of a day, as in 8:00am")
    return Range(start.at, end.at, invert=_flag(value, "invert", default=False))


@dataclass(slots=True)
class _State:
    """When an entry runs next: `nominal` without splay."""

    entry: ScheduleEntry
    nominal: float = NEVER
    next_at: float = NEVER
    running: int = 0
    skipped: int = 0
    """Runs that `maxrunning` has prevented in a row."""


@dataclass(frozen=True, slots=True)
class DueRun:
    """A job to begin now."""

    entry: ScheduleEntry


@dataclass(frozen=True, slots=True)
class SkippedRun:
    """A run that does not take place, and why."""

    name: str
    why: str


class Schedule:
    """All entries. `uniform(low, high)` returns a random number; `tz` is the zone of local times, None for that of the
    machine. `last` remembers when each entry ran, for `catch_up` after a restart."""

    def __init__(
        self,
        uniform: Callable[[float, float], float],
        *,
        tz: tzinfo | None = None,
        last: Mapping[str, float] | None = None,
    ) -> None:
        self.enabled = True
        self.last = dict(last or {})
        self._uniform = uniform
        self._tz = tz
        self._states: dict[str, _State] = {}
        self._skips: dict[str, set[datetime]] = {}
        self._extra: dict[str, set[datetime]] = {}

    def replace(
        self, written: Mapping[str, Any], now: float, *, starting: bool = False, whole: bool = True
    ) -> dict[str, str]:
        """Use these entries; unchanged ones keep their next time. Returns name -> sentence for those that are wrong.

        `starting`: the minion has just started, which is when `run_on_start` counts. Without `whole`, further entries
        may follow, and `last` keeps their times.
        """
        problems: dict[str, str] = {}
        states: dict[str, _State] = {}
        for name, about in written.items():
            known = self._states.get(name)
            if known is not None and known.entry.written == about:
                states[name] = known
                continue
            if len(states) >= ENTRIES_MAX:
                problems[str(name)] = f"a schedule has at most {ENTRIES_MAX} entries, and {name} is beyond them"
                continue
            try:
                entry = read_entry(name, about)
            except UsageError as error:
                problems[str(name)] = str(error)
                continue
            states[name] = state = _State(entry, running=known.running if known is not None else 0)
            self._plan_first(state, now, starting=starting)
        self._states = states
        if whole:
            kept: tuple[dict[str, Any], ...] = (self.last, self._skips, self._extra)
            for by_name in kept:
                for name in by_name.keys() - states.keys():
                    del by_name[name]
        return problems

    def entries(self) -> dict[str, ScheduleEntry]:
        """All entries by name."""
        return {name: state.entry for name, state in self._states.items()}

    def next_time(self) -> float:
        """When the next run is due; infinity for never."""
        if not self.enabled:
            return NEVER
        return min((state.next_at for state in self._states.values() if state.entry.enabled), default=NEVER)

    def next_of(self, name: str) -> float:
        """When that entry runs next; infinity for never."""
        state = self._states.get(name)
        if state is None or not self.enabled or not state.entry.enabled:
            return NEVER
        return state.next_at

    def due(self, now: float) -> list[DueRun | SkippedRun]:
        """What runs now, and what does not although its time has come."""
        found: list[DueRun | SkippedRun] = []
        for state in self._states.values() if self.enabled else ():
            self._plan_after_setback(state, now)
            if not state.entry.enabled or state.next_at > now:
                continue
            late_s, entry = now - state.next_at, state.entry
            self._plan(state, now)
            if late_s > MISSED_S and not entry.catch_up:
                found.append(
                    SkippedRun(entry.name, f"its time passed {late_s:.0f} s ago, while the minion did not run")
                )
            elif not entry.allows(self._local(now)):
                continue
            else:
                found += self._run(state, now)
        return found

    def run_now(self, name: str, now: float) -> list[DueRun | SkippedRun]:
        """Run an entry now, regardless of its times."""
        return self._run(self._states[name], now)

    def ended(self, name: str) -> None:
        """A job of that entry has ended, or could not begin."""
        state = self._states.get(name)
        if state is not None:
            state.running = max(0, state.running - 1)

    def skip(self, name: str, moment: datetime, now: float) -> None:
        """Do not run the entry at that local time."""
        self._skips.setdefault(name, set()).add(moment)
        self._plan(self._states[name], now)

    def postpone(self, name: str, moment: datetime, to: datetime, now: float) -> None:
        """Run the entry at the local time `to` instead of `moment`."""
        self._extra.setdefault(name, set()).add(to)
        self.skip(name, moment, now)

    def _run(self, state: _State, now: float) -> list[DueRun | SkippedRun]:
        entry = state.entry
        if entry.jid_include and state.running >= entry.maxrunning:
            state.skipped += 1
            # Logged once, because a job that never ends would fill the log.
            why = f"{state.running} of its jobs still run, and maxrunning allows no more"
            return [SkippedRun(entry.name, why)] if state.skipped == 1 else []
        state.running += 1
        state.skipped = 0
        self.last[entry.name] = now
        return [DueRun(entry)]

    # -- times

    def _plan_first(self, state: _State, now: float, *, starting: bool) -> None:
        entry, last = state.entry, self.last.get(state.entry.name)
        if entry.catch_up and last is None:
            # A time that was missed before the first run is caught up, too.
            self.last[entry.name] = now
        if starting and entry.run_on_start:
            state.nominal = now
        elif entry.catch_up and last is not None and last <= now:
            # One run catches up on everything that was missed since then.
            self._plan(state, last)
            state.nominal = max(now, state.nominal)
        else:
            self._plan(state, now)
            return
        state.next_at = state.nominal + self._splay(entry)

    def _plan_after_setback(self, state: _State, now: float) -> None:
        """Restart an interval when the clock was set back, because it would otherwise be longer."""
        interval_s = state.entry.interval_s
        if interval_s and state.nominal > now + interval_s and not self._skips.get(state.entry.name):
            self._plan(state, now)

    def _plan(self, state: _State, now: float) -> None:
        """Set the next time behind `now`."""
        entry = state.entry
        skips, extra = self._skips.get(entry.name, set()), self._extra.get(entry.name, set())
        moment = self._local(now)
        for moments in (skips, extra):
            moments.difference_update([one for one in moments if one <= moment])
        candidates = [self._wall(one) for one in extra]
        if entry.interval_s:
            # Counted from the last time, so that splay and a slow start do not add up.
            base = state.nominal if state.nominal <= now else now
            nominal = base + entry.interval_s
            nominal = nominal if nominal > now else now + entry.interval_s
            while self._local(nominal).replace(microsecond=0) in skips:
                nominal += entry.interval_s
            candidates.append(nominal)
        for one in entry.times:
            candidates.append(self._first(one.after(moment), skips, now))
            if isinstance(one, Cron) and one.each_hour:
                again = (at.replace(fold=1) for at in one.after(moment - _REPEATED))
                candidates.append(self._first(again, skips, now))
        if entry.once is not None and entry.once > moment and entry.once not in skips:
            candidates.append(self._wall(entry.once))
        state.nominal = min(candidates, default=NEVER)
        state.next_at = state.nominal + self._splay(entry)

    def _first(self, moments: Iterator[datetime], skips: set[datetime], now: float) -> float:
        # When clocks are put back a local time comes twice: the second, which has `fold`, counts only for what runs in
        # each hour. A second one that does not exist is read as an earlier time.
        for moment in moments:
            at = self._wall(moment)
            if moment not in skips and at > now and (not moment.fold or self._local(at) == moment):
                return at
        return NEVER

    def _splay(self, entry: ScheduleEntry) -> float:
        low, high = entry.splay
        return self._uniform(low, high) if high else 0.0

    def _local(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, self._tz).replace(tzinfo=None)

    def _wall(self, moment: datetime) -> float:
        return NEVER if moment.year >= FAR_YEAR else moment.replace(tzinfo=self._tz).timestamp()

    def shown(self, at: float) -> str:
        """A time in the form of `show_next_fire_time`."""
        return self._local(at).strftime(_ISO)


def read_time(text: str) -> datetime:
    """A local time in the form of `show_next_fire_time`. Raises UsageError."""
    return _moment(text, _ISO)
