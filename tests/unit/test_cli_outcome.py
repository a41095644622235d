"""What is told at the end of a job: the exit code, who did not return and why, counts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from saltlite.cli.outcome import (
    LINES_MAX,
    Known,
    amount,
    exit_code,
    failures,
    lines,
    local_time,
    missing,
    notes,
    open_targets,
    summary,
)
from saltlite.client.follower import Progress, Published
from tests.unit.test_client_follower import moved, progress, returned


def reasons(job: Progress, known: Known) -> list[str]:
    return [f"{one.name}: {one.reason}" for one in missing(job, known)]


@pytest.mark.parametrize(
    ("state", "code", "line"),
    [
        ("planned", 5, "web1: its turn in the batches has not come: why"),
        ("received", 5, "web1: has the job and did not start it yet: why"),
        ("running", 5, "web1: has the job, running for 12s: why"),
        ("refused", 6, "web1: refused the job: why"),
        ("expired", 5, "web1: not reached before the delivery time was over: why"),
        ("cancelled", 4, "web1: why"),
        ("timed_out", 4, "web1: why"),
        ("interrupted", 4, "web1: why"),
        ("lost", 5, "web1: why"),
        ("revoked", 5, "web1: why"),
        ("returned", 5, "web1: returned, but the master does not have the return"),
        ("of_tomorrow", 5, "web1: of_tomorrow: why"),
    ],
)
def test_every_state_that_is_no_return_is_told_and_has_its_exit_code(state: str, code: int, line: str) -> None:
    job = progress("web1")
    job.apply(moved("web1", state, "why", at=1000.0), now=100.0)
    assert (exit_code(job), reasons(job, Known(now=1012.5, waited_s=5.2))) == (code, [line])


@pytest.mark.parametrize(
    ("seen_ago", "why", "line"),
    [
        ({}, "", "web1: did not acknowledge the job within 5s"),
        ({"web1": 12.4}, "", "web1: did not acknowledge the job within 5s (last seen 12s ago)"),
        ({"web1": None}, "", "web1: did not acknowledge the job within 5s (its connection is gone)"),
        (
            {"web1": None},
            "no heartbeat for 50 s",
            "web1: did not acknowledge the job within 5s (not connected any more: no heartbeat for 50 s)",
        ),
    ],
)
def test_a_silent_minion_is_told_with_when_it_was_heard_of(
    seen_ago: dict[str, float | None], why: str, line: str
) -> None:
    job = progress("web1")
    known = Known(now=0.0, waited_s=5.2, seen_ago=seen_ago, absences={"web1": why} if why else {})
    assert (exit_code(job), reasons(job, known)) == (5, [line])


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("received", "has the job and did not start it yet, and is not connected any more: its connection was lost"),
        ("running", "has the job, running for 12s, and is not connected any more: its connection was lost"),
    ],
)
def test_a_minion_that_went_away_with_the_job_is_told_with_why(state: str, line: str) -> None:
    job = progress("web1", "web2")
    for name in ("web1", "web2"):
        job.apply(moved(name, state, "", at=1000.0), now=100.0)
    seen_ago, absences = {"web1": None, "web2": 3.0}, {"web1": "its connection was lost"}
    known = Known(now=1012.5, waited_s=5.2, seen_ago=seen_ago, absences=absences)
    assert reasons(job, known) == [f"web1: {line}", f"web2: {line.partition(', and is')[0]}"]


def test_a_minion_without_a_session_is_told_apart_from_a_silent_one() -> None:
    job = progress("web1", "web2", "web3", away={"web1": 1000.0, "web2": None})
    assert reasons(job, Known(now=1250.0, waited_s=5.0)) == [
        "web1: not connected (last seen 4m ago)",
        "web2: never connected",
        "web3: did not acknowledge the job within 5s",
    ]


def test_a_minion_without_a_session_is_told_with_why_it_has_none() -> None:
    job = progress("web1", "web2", resources={"ma": ["ssh:d1"]}, away={"web1": 1000.0, "web2": None, "ma": 1000.0})
    job.published.absences = {
        "web1": "no heartbeat for 50 s",
        "web2": "never connected",
        "ma": "the minion was stopped",
    }
    assert reasons(job, Known(now=1250.0, waited_s=5.0)) == [
        "d1: its managing minion ma is not connected: the minion was stopped (last seen 4m ago)",
        "web1: not connected: no heartbeat for 50 s (last seen 4m ago)",
        "web2: never connected",
    ]


def test_a_name_that_is_no_accepted_minion_is_told_and_counts_as_missing() -> None:
    answer: dict[str, Any] = {"jid": "20260131235959123456", "minions": ["web1"], "away": {}, "timeout_s": 5.0}
    answer |= {"unknown": {"gone": "its key is pending"}, "deliver_ms": 0, "resources": {}, "skipped": []}
    job = Progress(Published(answer), now=100.0)
    job.apply(returned("web1"), now=100.0)
    told = missing(job, Known(now=0.0, waited_s=5.0))
    assert [(one.id, one.state, one.reason) for one in told] == [("gone", "unknown", "its key is pending")]
    assert (exit_code(job), summary(job, len(told))) == (
        5,
        {"targeted": 2, "resources": 0, "returned": 1, "failed": 0, "missing": 1},
    )


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([returned("a"), returned("b")], 0),
        ([returned("a"), returned("b", retcode=2)], 4),
        ([returned("a")], 5),
        ([returned("a", retcode=1)], 4),
        ([returned("a", retcode=1), moved("b", "refused")], 6),
        ([moved("a", "refused")], 6),
        ([returned("a"), returned("b", retcode=137, state="timed_out")], 4),
    ],
)
def test_of_several_exit_codes_the_worst_is_told(messages: list[dict[str, Any]], code: int) -> None:
    job = progress("a", "b")
    for message in messages:
        job.apply(message, now=100.0)
    assert exit_code(job) == code


def test_only_targets_that_may_still_run_the_job_are_open() -> None:
    job = progress("a", "b", "c")
    job.apply(moved("b", "expired"), now=100.0)
    job.apply(returned("c"), now=100.0)
    assert open_targets(job) == ["a"]


def test_minions_that_failed_are_told_with_their_retcodes() -> None:
    job = progress("a", "b", "c")
    for message in (returned("c", retcode=2), returned("a", retcode=1), returned("b")):
        job.apply(message, now=100.0)
    assert failures(job) == [("a", "failed with retcode 1"), ("c", "failed with retcode 2")]


def test_last_seen_is_what_the_master_said() -> None:
    job = progress("a", "b", "c", away={"a": 900.0})
    told = missing(job, Known(now=1000.0, waited_s=5.0, seen_ago={"b": 30.0}))
    assert {one.id: one.last_seen for one in told} == {"a": 900.0, "b": 970.0, "c": None}


def test_the_hint_is_a_command_for_this_job() -> None:
    job = progress("a", "b")
    job.apply(moved("b", "expired"), now=100.0)
    assert [one.hint for one in missing(job, Known(now=0.0, waited_s=5.0))] == [
        f"saltlite job watch {'2' * 20}",
        f"saltlite job rerun {'2' * 20} --missing",
    ]


def test_many_minions_with_one_reason_are_one_line() -> None:
    few = [(f"web{number}", "silent") for number in range(LINES_MAX)]
    assert lines([*few, ("db1", "refused")]) == [*(f"{name}: silent" for name, _ in few), "db1: refused"]
    assert lines([*few, ("web10", "silent"), ("db1", "refused")]) == [
        "db1: refused",
        "11 minions: silent: web[0-10]",
    ]


def test_many_minions_that_were_seen_at_different_times_are_one_line() -> None:
    away = "not connected (last seen {} ago); the job waits for it until 12:04:31 (--deliver-by)"
    rows = [(f"web{n:02}", away.format(ago)) for n, ago in enumerate([*["3d"] * 4, *["9m"] * 4, "2h", "45s", "1d"])]
    assert lines([("db1", "refused"), *rows]) == [
        "db1: refused",
        f"11 minions: {away.format('45s to 3d')}: web[00-10]",
    ]
    # A minion's own words are not taken for a time.
    odd = [(f"web{n}", f"refused: last seen {'x' * n} ago") for n in range(LINES_MAX + 1)]
    assert lines(odd) == [f"{name}: {sentence}" for name, sentence in odd]


def test_a_moment_has_its_date_only_on_another_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert local_time(3600.0, 7200.0) == "01:00:00"
        assert local_time(3600.0 + 86400, 7200.0) == "1970-01-02 01:00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_minions_said_beside_their_returns_is_told_of_those_that_returned() -> None:
    job = progress("web1", "web2", "web3")
    job.apply(returned("web1", reason="it will go away"), now=100.0)
    job.apply(returned("web2"), now=100.0)
    job.apply(moved("web3", "refused", "no"), now=100.0)
    assert notes(job) == [("web1", "it will go away")]


RESOURCES = {"ma": ["dummy:d1", "dummy:d2"], "mb": ["ssh:d2"]}


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("planned", "d1: its turn in the batches has not come: why"),
        ("received", "d1: its managing minion ma has the job and did not start it yet: why"),
        ("running", "d1: its managing minion ma has the job, running for 12s: why"),
        ("refused", "d1: its managing minion ma refused the job: why"),
        ("expired", "d1: its managing minion ma was not reached before the delivery time was over: why"),
        ("timed_out", "d1: why"),
        ("lost", "d1: managed by ma: why"),
        ("revoked", "d1: managed by ma: why"),
    ],
)
def test_of_a_resource_it_is_told_what_its_managing_minion_does(state: str, line: str) -> None:
    job = progress(resources={"ma": ["dummy:d1"]})
    job.apply(moved("dummy:d1", state, "why", at=1000.0), now=100.0)
    assert reasons(job, Known(now=1012.5, waited_s=5.2)) == [line]


def test_a_resource_is_away_and_silent_as_its_managing_minion_is() -> None:
    job = progress("mb", resources={**RESOURCES, "mc": ["ssh:x"]}, away={"ma": 1000.0, "mc": None})
    assert reasons(job, Known(now=1003.0, waited_s=5.0, seen_ago={"mb": 1.0})) == [
        "d1: its managing minion ma is not connected (last seen 3s ago)",
        "dummy:d2: its managing minion ma is not connected (last seen 3s ago)",
        "mb: did not acknowledge the job within 5s (last seen 1s ago)",
        "ssh:d2: its managing minion mb did not acknowledge the job within 5s (last seen 1s ago)",
        "x: its managing minion mc never connected",
    ]


def test_resources_that_failed_or_had_a_word_to_say_are_told_as_people_call_them() -> None:
    job = progress("ma", resources=RESOURCES)
    job.apply(returned("ssh:d2", retcode=2), now=100.0)
    job.apply(returned("dummy:d1", reason="it is deprecated"), now=100.0)
    assert (failures(job), notes(job)) == ([("ssh:d2", "failed with retcode 2")], [("d1", "it is deprecated")])


def test_counts_tell_minions_from_resources() -> None:
    job = progress("ma", resources=RESOURCES)
    assert (amount(job, list(job.states)), amount(job, ["ssh:d2"]), amount(job, ["ma"])) == (
        "4 targets: 1 minion, 3 resources",
        "1 resource",
        "1 minion",
    )
