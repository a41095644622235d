"""Outputs of a job by group, and jobs by hour, as /fleet answers them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from saltlite.api import endpoint, fleet, runner_calls
from saltlite.api.endpoint import SharedAnswers
from saltlite.api.fleet import (
    GROUPS_MAX,
    HOUR_S,
    HOURS,
    IDS_LEAST,
    IDS_MAX,
    VALUE_LEAST,
    VALUE_MAX,
    jobs_by_hour,
)
from saltlite.api.runner_calls import FollowedCall, FollowedCalls
from saltlite.errors import LoginError, UnreachableError


def grouped(returned: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return fleet.grouped(([name], row) for name, row in returned.items())


def row(ret: Any, retcode: int = 0) -> dict[str, Any]:
    return {"ret": ret, "retcode": retcode, "success": retcode == 0}


def test_equal_outputs_are_one_group_and_the_largest_comes_first() -> None:
    found = grouped({"c": row({"x": 1, "y": 2}), "a": row("no", 1), "b": row({"y": 2, "x": 1}), "d": row("no")})
    assert [(one["count"], one["ids"], one["retcode"], one["success"]) for one in found["groups"]] == [
        (2, ["b", "c"], 0, True),
        (1, ["a"], 1, False),
        (1, ["d"], 0, True),
    ]
    assert found["more"] == 0


def test_true_and_one_are_different_outputs() -> None:
    assert len(grouped({"a": row(True), "b": row(1), "c": row("1")})["groups"]) == 3


def test_a_map_with_numbers_and_texts_as_keys_hides_no_other_output() -> None:
    found = grouped({"a": row({80: "http", "x": 1}), "b": row({80: "http", "x": 1}), "c": row(None)})
    assert [one["ids"] for one in found["groups"]] == [["a", "b"], ["c"]]


def test_a_failure_stands_apart_from_a_success_with_the_same_output() -> None:
    found = grouped({"a": row(1), "b": {**row(1), "success": False}})
    assert [(one["ids"], one["success"]) for one in found["groups"]] == [(["a"], True), (["b"], False)]


def test_a_long_output_is_cut_and_says_so() -> None:
    [group] = grouped({"a": row("x" * (VALUE_MAX + 1))})["groups"]
    assert group["cut"]
    assert len(group["value"]) == VALUE_MAX
    [group] = grouped({"a": row("short")})["groups"]
    assert (group["cut"], group["value"]) == (False, "short")


def test_an_answer_names_so_many_groups_and_targets() -> None:
    found = grouped({f"m{number}": row(number) for number in range(GROUPS_MAX + 5)})
    assert (len(found["groups"]), found["more"]) == (GROUPS_MAX, 5)
    [group] = grouped({f"m{number}": row(1) for number in range(IDS_MAX + 5)})["groups"]
    assert (group["count"], len(group["ids"])) == (IDS_MAX + 5, IDS_MAX)


def test_an_answer_is_small_for_ten_thousand_targets_with_large_outputs() -> None:
    returned = {f"machine-{number:05d}.example.com": row("x" * 5000 + str(number % 150)) for number in range(10_000)}
    found = grouped(returned)
    assert len(json.dumps(found)) < 200_000
    first, *_, last = found["groups"]
    assert (first["count"], len(first["ids"]), first["cut"]) == (67, 67, False)
    assert (last["count"], len(last["ids"]), last["cut"], len(last["value"])) == (67, IDS_LEAST, True, VALUE_LEAST)
    assert found["more"] == 50


def test_jobs_are_counted_by_hour_and_result() -> None:
    now = 1_000 * HOUR_S + 60.0

    def job(hours_ago: int, **outcomes: int) -> dict[str, Any]:
        return {"created_at": now - hours_ago * HOUR_S, "outcomes": outcomes}

    jobs = [job(0, ok=2), job(0, ok=1, failed=1), job(1, missing=1), job(1, open=1), job(HOURS - 1, ok=1), job(HOURS)]
    rows = jobs_by_hour(jobs, now)
    assert len(rows) == HOURS
    assert rows[-1] == {"at": 1_000 * HOUR_S, "ok": 1, "bad": 1, "open": 0}
    assert rows[-2] == {"at": 999 * HOUR_S, "ok": 0, "bad": 1, "open": 1}
    assert (rows[0]["ok"], sum(one["ok"] for one in rows)) == (1, 2)


def test_callers_with_one_view_share_an_answer_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def story() -> None:
        shared = SharedAnswers()

        async def answer(who: str) -> str:
            asked.append(who)
            await asyncio.sleep(0)
            if who.startswith("wrong"):
                raise LoginError("the token is not valid")
            return who

        async def get(view: str, who: str) -> str:
            return str(await shared.get(view, lambda: answer(who)))

        assert await asyncio.gather(*(get("all", who) for who in "abc")) == ["a", "a", "a"]
        assert [await get("all", "d"), await get("fred 1", "e"), await get("", "f"), await get("", "g")] == list("aefg")
        # The error of one caller is not that of another.
        found = await asyncio.gather(*(get("other", who) for who in ("wrong", "h")), return_exceptions=True)
        assert isinstance(found[0], LoginError)
        assert found[1] == "h"
        monkeypatch.setattr(endpoint, "SHARED_S", 0.0)
        assert await get("all", "i") == "i"

    asyncio.run(story())
    assert asked == ["a", "e", "f", "g", "wrong", "h", "i"]


def test_returns_of_runners_are_kept_until_newer_ones_need_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_calls, "CALLS_KEPT", 3)
    monkeypatch.setattr(runner_calls, "RETURNS_KEPT", 100)
    calls = FollowedCalls()

    async def work(value: Any) -> dict[str, Any]:
        if isinstance(value, Exception):
            raise value
        return {"value": value, "retcode": 0}

    async def follow(jid: str, value: Any) -> None:
        running = asyncio.ensure_future(work(value))
        calls.follow(FollowedCall(jid, "test.arg", "file:x", 1.0), running)
        await asyncio.wait([running])
        await asyncio.sleep(0)

    async def followed() -> None:
        for number in range(4):
            await follow(f"{number}", number)
        assert [one.jid for one in calls.of("file:x")] == ["3", "2", "1"]
        await follow("4", "x" * 90)
        await follow("5", UnreachableError("the master is away"))
        assert [(one.jid, one.retcode, one.text) for one in calls.of("file:x")] == [("5", 1, '"the master is away"')]
        assert calls.of("file:y") == []

    asyncio.run(followed())
