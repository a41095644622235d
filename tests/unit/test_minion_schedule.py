"""The schedule of a minion: when entries run, and what does not, by a clock that the tests own."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from saltlite.errors import UsageError
from saltlite.minion.timers.changes import KeptChanges
from saltlite.minion.timers.cron import parse_cron, parse_when
from saltlite.minion.timers.loop import FILE, TimerLoop
from saltlite.minion.timers.schedule import (
    ENTRIES_MAX,
    MISSED_S,
    NEVER,
    RUNNING_MAX,
    DueRun,
    Schedule,
    SkippedRun,
    read_entry,
    read_time,
)
from saltlite.platform.daemon import ManualClock

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday
BERLIN = ZoneInfo("Europe/Berlin")


def local(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- cron and when


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("* * * * *", ["2026-03-02T12:01", "2026-03-02T12:02"]),
        ("*/20 * * * *", ["2026-03-02T12:20", "2026-03-02T12:40"]),
        ("5-59/30 1,13 * * *", ["2026-03-02T13:05", "2026-03-02T13:35"]),
        ("0 2 * * mon-fri", ["2026-03-03T02:00", "2026-03-04T02:00"]),
        ("0 2 * * 7", ["2026-03-08T02:00", "2026-03-15T02:00"]),
        ("0 0 13 * fri", ["2026-03-06T00:00", "2026-03-13T00:00"]),
        ("0 0 13 * *", ["2026-03-13T00:00", "2026-04-13T00:00"]),
        ("0 0 29 feb *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("@daily", ["2026-03-03T00:00", "2026-03-04T00:00"]),
        ("0 0 31 * *", ["2026-03-31T00:00", "2026-05-31T00:00"]),
    ],
)
def test_a_cron_expression_names_its_next_times(expression: str, found: list[str]) -> None:
    times = parse_cron(expression).after(local("2026-03-02T12:00"))
    assert [next(times).isoformat(timespec="minutes") for _ in found] == found


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *", "5-1 * * * *",
     "x * * * *", "1,,2 * * * *", "* * 31 2 *", "1/ * * * *", "٣ * * * *", "-1 * * * *"],
)  # fmt: skip
def test_what_is_no_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(UsageError):
        parse_cron(expression)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5:00pm", ["2026-03-02T17:00", "2026-03-03T17:00"]),
        ("11:30", ["2026-03-03T11:30"]),
        ("12am", ["2026-03-03T00:00"]),
        ("Monday 5pm", ["2026-03-02T17:00", "2026-03-09T17:00"]),
        ("wed 08:00", ["2026-03-04T08:00"]),
        ("2026-04-01 7:30", ["2026-04-01T07:30"]),
        ("4/1/2026 5:00pm", ["2026-04-01T17:00"]),
        ("2026-04-01T17:00:00", ["2026-04-01T17:00"]),
        ("2020-01-01 12:00", []),
    ],
)
def test_when_is_a_time_of_each_day_of_a_weekday_or_of_one_date(text: str, found: list[str]) -> None:
    times = parse_when(text).after(local("2026-03-02T12:00"))
    assert [next(times).isoformat(timespec="minutes") for _ in found] == found
    if "-" in text or "/" in text:
        assert next(times, None) is None


@pytest.mark.parametrize("text", ["", "5", "25:00", "13pm", "noon", "xyz 5pm", "2026-02-30 5pm", "12:60", "5:00 pm x"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        parse_when(text)


# --- entries


class Clock:
    """A schedule in UTC, whose time the test moves. Splay is always the latest."""

    def __init__(self, tz: Any = UTC, last: dict[str, float] | None = None) -> None:
        self.now = START.timestamp()
        self.schedule = Schedule(lambda _low, high: high, tz=tz, last=last)

    def use(self, *, starting: bool = False, **entries: Any) -> dict[str, str]:
        wanted = {name: {"function": "test.ping", **about} for name, about in entries.items()}
        return self.schedule.replace(wanted, self.now, starting=starting)

    def at(self, text: str) -> list[str]:
        """Move to a time of that day, or a date; the entries that run then, and in brackets those that do not."""
        moment = local(text if "T" in text else f"2026-03-02T{text}")
        self.now = moment.replace(tzinfo=UTC).timestamp()
        return [one.entry.name if isinstance(one, DueRun) else f"({one.name})" for one in self.schedule.due(self.now)]

    def next(self, name: str = "a") -> str:
        at = self.schedule.next_of(name)
        return "" if at == NEVER else self.schedule.shown(at)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_an_interval_counts_from_the_start_and_run_on_start_runs_at_once(clock: Clock) -> None:
    clock.use(starting=True, a={"minutes": 1, "seconds": 30}, b={"seconds": 90, "run_on_start": False})
    assert clock.at("12:00") == ["a"]
    clock.schedule.ended("a")
    assert clock.at("12:01:29") == []
    assert clock.at("12:01:30") == ["a", "b"]
    for name in "ab":
        clock.schedule.ended(name)
    assert clock.at("12:03:00") == ["a", "b"]


def test_an_unchanged_entry_keeps_its_time_and_a_changed_one_begins_anew(clock: Clock) -> None:
    clock.use(a={"seconds": 90}, b={"seconds": 90})
    clock.at("12:01")
    clock.use(a={"seconds": 90}, b={"seconds": 91})
    assert (clock.next("a"), clock.next("b")) == ("2026-03-02T12:01:30", "2026-03-02T12:02:31")


def test_an_interval_does_not_drift_with_late_looks_or_splay(clock: Clock) -> None:
    clock.use(a={"seconds": 60, "splay": 7, "jid_include": False})
    assert clock.next() == "2026-03-02T12:01:07"
    assert clock.at("12:01:10") == ["a"]
    assert clock.next() == "2026-03-02T12:02:07"


def test_splay_may_have_a_start_and_an_end(clock: Clock) -> None:
    clock.use(a={"cron": "0 13 * * *", "splay": {"start": 10, "end": 15}})
    assert clock.next() == "2026-03-02T13:00:15"
    assert clock.at("13:00:14") == []
    assert clock.at("13:00:15") == ["a"]
    assert clock.next() == "2026-03-03T13:00:15"


def test_when_cron_and_once_run_at_their_times(clock: Clock) -> None:
    clock.use(a={"when": ["5:00pm", "Tuesday 9:00"]}, b={"cron": "0 17 * * *"}, c={"once": "2026-03-02T17:00:00"})
    assert clock.at("17:00") == ["a", "b", "c"]
    for name in "abc":
        clock.schedule.ended(name)
    assert (clock.next("a"), clock.next("c")) == ("2026-03-03T09:00:00", "")
    assert clock.schedule.next_time() == datetime(2026, 3, 3, 9, tzinfo=UTC).timestamp()


def test_a_range_after_and_until_limit_when_an_entry_runs(clock: Clock) -> None:
    day = {"start": "8:00am", "end": "12:10"}
    clock.use(
        a={"minutes": 5, "range": day},
        b={"minutes": 5, "range": {**day, "invert": True}},
        c={"minutes": 5, "skip_during_range": day},
        d={"minutes": 5, "after": "2026-03-02T12:12:00", "until": "2026-03-02T12:16:00"},
        e={"minutes": 5, "range": {"start": "23:00", "end": "12:06"}},
    )
    assert clock.at("12:05") == ["a", "e"]
    for name in "ae":
        clock.schedule.ended(name)
    assert clock.at("12:10") == ["a"]
    assert clock.at("12:15") == ["b", "c", "d"]


def test_an_entry_whose_jobs_still_run_is_skipped_and_named_once(clock: Clock) -> None:
    clock.use(a={"seconds": 10}, b={"seconds": 10, "maxrunning": 2}, c={"seconds": 10, "jid_include": False})
    assert clock.at("12:00:10") == ["a", "b", "c"]
    assert clock.at("12:00:20") == ["(a)", "b", "c"]
    assert clock.at("12:00:30") == ["(b)", "c"]
    clock.schedule.ended("a")
    assert clock.at("12:00:40") == ["a", "c"]
    assert clock.at("12:00:50") == ["(a)", "c"]


def test_a_missed_time_is_skipped_or_made_up_for_once(clock: Clock) -> None:
    clock.use(a={"cron": "0 13 * * *"}, b={"cron": "*/10 13 * * *", "catch_up": True}, c={"hours": 1})
    later = local("2026-03-02T13:30").replace(tzinfo=UTC).timestamp() + MISSED_S
    assert clock.at("13:31:00") == ["(a)", "b", "(c)"]
    assert later == clock.now
    assert clock.next("b") == "2026-03-02T13:40:00"


@pytest.mark.parametrize(
    ("about", "found"),
    [
        ({"cron": "0 2 * * *", "catch_up": True}, ["a"]),
        ({"cron": "0 2 * * *"}, []),
        ({"hours": 1, "run_on_start": False, "catch_up": True}, ["a"]),
        ({"hours": 24, "run_on_start": False, "catch_up": True}, []),
    ],
)
def test_after_a_restart_an_entry_makes_up_for_what_it_missed(about: dict[str, Any], found: list[str]) -> None:
    last = local("2026-03-01T20:00").replace(tzinfo=UTC).timestamp()
    clock = Clock(last={"a": last, "gone": last})
    clock.use(starting=True, a=about)
    assert clock.at("12:00:00") == found
    assert "gone" not in clock.schedule.last


def test_a_time_can_be_skipped_or_postponed(clock: Clock) -> None:
    clock.use(a={"cron": "0 13 * * *"}, b={"cron": "0 13 * * *"}, c={"hours": 1})
    clock.schedule.skip("a", local("2026-03-02T13:00"), clock.now)
    clock.schedule.postpone("b", local("2026-03-02T13:00"), read_time("2026-03-02T15:00:00"), clock.now)
    clock.schedule.skip("c", local("2026-03-02T13:00"), clock.now)
    assert (clock.next("a"), clock.next("b"), clock.next("c")) == (
        "2026-03-03T13:00:00", "2026-03-02T15:00:00", "2026-03-02T14:00:00",
    )  # fmt: skip
    assert clock.at("13:00") == []
    assert clock.at("15:00") == ["b", "(c)"]
    assert clock.next("b") == "2026-03-03T13:00:00"
    assert (clock.schedule._skips["b"], clock.schedule._skips["c"]) == (set(), set())
    clock.use()
    assert clock.schedule._skips == {}


def test_a_clock_that_is_put_back_does_not_stall_intervals(clock: Clock) -> None:
    clock.use(a={"hours": 1}, b={"cron": "0 13 * * *"})
    assert clock.at("2026-03-01T12:00") == []
    assert (clock.next("a"), clock.next("b")) == ("2026-03-01T13:00:00", "2026-03-02T13:00:00")


def test_a_date_that_no_clock_reaches_never_comes(clock: Clock) -> None:
    far = "9999-12-31T23:59:59"
    assert clock.use(a={"once": far}, b={"when": far}, c={"hours": 1, "until": far}) == {}
    assert (clock.next("a"), clock.next("b"), clock.next("c")) == ("", "", "2026-03-02T13:00:00")


def test_what_is_disabled_does_not_run(clock: Clock) -> None:
    clock.use(a={"seconds": 10}, b={"seconds": 10, "enabled": False})
    assert clock.at("12:00:10") == ["a"]
    assert clock.next("b") == ""
    clock.schedule.enabled = False
    assert (clock.at("12:00:20"), clock.schedule.next_time()) == ([], NEVER)
    assert isinstance(clock.schedule.run_now("b", clock.now)[0], DueRun)
    assert isinstance(clock.schedule.run_now("b", clock.now)[0], SkippedRun)


def test_a_local_time_that_comes_twice_runs_once_and_one_that_does_not_come_runs_after_it() -> None:
    clock = Clock(BERLIN)
    clock.now = datetime(2026, 10, 24, 23, 0, tzinfo=UTC).timestamp()
    clock.use(a={"cron": "30 2 * * *"})
    first = clock.schedule.next_of("a")
    assert [one for one in clock.schedule.due(first) if isinstance(one, DueRun)]
    assert clock.schedule.next_of("a") - first > 86_000
    clock.now = datetime(2026, 3, 28, 23, 0, tzinfo=UTC).timestamp()
    clock.use(b={"cron": "30 2 * * *"})
    assert clock.schedule.next_of("b") == datetime(2026, 3, 29, 1, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("change", [datetime(2026, 10, 25, 1, tzinfo=UTC), datetime(2026, 3, 29, 1, tzinfo=UTC)])
def test_what_runs_in_each_hour_runs_through_when_clocks_change(change: datetime) -> None:
    clock = Clock(BERLIN)
    clock.now = change.timestamp() - 4200
    clock.use(a={"cron": "*/10 * * * *", "jid_include": False})
    found = [clock.now]
    for _ in range(15):
        found.append(clock.schedule.next_of("a"))
        assert len(clock.schedule.due(found[-1])) == 1
    assert [later - before for before, later in pairwise(found)] == [600] * 15


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({}, "say when it runs"),
        ({"seconds": 5, "cron": "* * * * *"}, "exclude each other"),
        ({"when": "5pm", "once": "2026-03-02T17:00:00"}, "exclude each other"),
        ({"seconds": 0.5}, "the interval is from 1"),
        ({"seconds": "x"}, "seconds is a number"),
        ({"seconds": -1}, "seconds is a number"),
        ({"cron": "x"}, "is not a cron expression"),
        ({"when": "x"}, "is not a time"),
        ({"when": ["5pm"] * 101}, "at most 100 times"),
        ({"once": "5pm"}, "has no date"),
        ({"seconds": 5, "maxrunning": RUNNING_MAX + 1}, "maxrunning is a number from 1 to 16"),
        ({"seconds": 5, "splay": {"start": 5, "end": 1}}, "splay starts after its end"),
        ({"seconds": 5, "range": "8-17"}, "a range is a map"),
        ({"seconds": 5, "range": {"start": "Monday 8:00", "end": "17:00"}}, "times of a day"),
        ({"seconds": 5, "enabled": "yes"}, "enabled is true or false"),
        ({"seconds": 5, "args": "x"}, "args is a list"),
        ({"seconds": 5, "metadata": ["x"]}, "metadata is a map"),
        ({"seconds": 5, "jobs": 1}, "does not take `jobs`"),
        ({"second": 5}, "does not take `second`: did you mean `seconds`?"),
        ({"seconds": 5, "function": "ping"}, "module.function"),
        ("test.ping", "is a map"),
    ],
)
def test_a_wrong_entry_is_named_with_its_reason(about: Any, words: str) -> None:
    with pytest.raises(UsageError, match=r"schedule a") as caught:
        read_entry("a", {"function": "test.ping", **about} if isinstance(about, dict) else about)
    assert words in str(caught.value)


def test_a_wrong_entry_does_not_stop_the_others_and_a_schedule_has_so_many(clock: Clock) -> None:
    assert list(clock.use(a={}, b={"seconds": 5})) == ["a"]
    assert list(clock.schedule.entries()) == ["b"]
    many: dict[str, Any] = {f"e{number}": {"seconds": 5} for number in range(ENTRIES_MAX + 1)}
    problems = clock.use(**many)
    assert problems == {
        f"e{ENTRIES_MAX}": f"a schedule has at most {ENTRIES_MAX} entries, and e{ENTRIES_MAX} is beyond them"
    }


# --- the loop


class Loop:
    """A timer loop without beacons, whose jobs do not end; `why` is why none begins."""

    def __init__(self, folder: Path, pillar: dict[str, Any] | None = None, **schedule: Any) -> None:
        timer = SimpleNamespace(cancel=lambda: None)
        reactor = SimpleNamespace(call_later=lambda _seconds, _callback: timer)
        beacons = SimpleNamespace(configure=lambda: None, next_time=lambda: NEVER)
        clock = ManualClock(wall=START.timestamp())
        self.why = ""
        self.loop = TimerLoop(
            cast("Any", reactor), clock, self._begin, cast("Any", beacons), str(folder), {"schedule": schedule}
        )
        if pillar is not None:
            self.loop.pillar_is({"schedule": pillar})
        self.loop.open()

    def _begin(self, *_: Any, **__: Any) -> str:
        if self.why:
            raise UsageError(self.why)
        return "20260302120000000000"

    def ask(self, operation: str, **fields: Any) -> Any:
        return self.loop.answer("schedule", operation, fields)


HOURLY = {"function": "test.ping", "hours": 1}


@pytest.mark.parametrize("pillar", [None, {"enabled": False}])
def test_enabled_in_the_configuration_or_the_pillar_stops_everything_until_a_function_enables_it(
    pillar: dict[str, Any] | None, tmp_path: Path
) -> None:
    loop = Loop(tmp_path, pillar, a=HOURLY, enabled=pillar is not None)
    assert (loop.ask("list")["enabled"], loop.ask("next", name="a")) == (False, {"next": ""})
    loop.ask("enable", enabled=True)
    assert (loop.ask("list")["enabled"], bool(loop.ask("next", name="a")["next"])) == (True, True)


def test_a_job_that_cannot_begin_is_named_to_who_runs_it(tmp_path: Path) -> None:
    loop = Loop(tmp_path, a={**HOURLY, "run_on_start": False})
    loop.why = "the disk is full"
    with pytest.raises(UsageError, match="the job a does not run: the disk is full"):
        loop.ask("run", name="a")
    loop.why = ""
    loop.ask("run", name="a")


def test_a_change_that_is_not_used_or_not_stored_is_undone(tmp_path: Path) -> None:
    loop = Loop(tmp_path, **{f"e{number}": HOURLY for number in range(ENTRIES_MAX)})
    with pytest.raises(UsageError, match="at most 256 entries"):
        loop.ask("set", name="a", job=HOURLY)
    assert KeptChanges(str(tmp_path / FILE)).entries == {}
    unwritable = Loop(tmp_path / "absent")
    with pytest.raises(UsageError, match="cannot be stored"):
        unwritable.ask("set", name="a", job=HOURLY)
    assert unwritable.ask("list")["jobs"] == {}


def test_the_times_for_catch_up_are_kept_from_the_first_sight_and_until_a_pillar_lacks_the_entry(
    tmp_path: Path,
) -> None:
    changes = KeptChanges(str(tmp_path / FILE))
    changes.more["last"] = {"of_pillar": 1.0}
    changes.write()
    loop = Loop(tmp_path, a={"function": "test.ping", "cron": "0 2 * * *", "catch_up": True})
    kept = KeptChanges(str(tmp_path / FILE)).more["last"]
    assert kept == {"of_pillar": 1.0, "a": START.timestamp()}
    loop.loop.pillar_is({})
    assert set(loop.loop._schedule.last) == {"a"}
