"""Slots for jobs that are followed: one caller does not delay the others."""

from __future__ import annotations

import asyncio

import pytest

from saltlite.api.link import CONNECTIONS_MAX, FOLLOWED_MAX, FOLLOWED_OF_ONE, FollowSlots
from saltlite.errors import UnreachableError


async def entered(slots: FollowSlots, caller: str, leave: asyncio.Event, inside: list[str]) -> None:
    """Hold a slot until `leave`."""
    async with slots.take(caller):
        inside.append(caller)
        await leave.wait()


async def settled() -> None:
    """Let every task run as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_who_asks_for_much_waits_for_himself_and_others_do_not() -> None:
    async def story() -> list[str]:
        slots, leave, inside = FollowSlots(4, 2, 60.0), asyncio.Event(), list[str]()
        async with asyncio.TaskGroup() as group:
            for caller in ("greedy",) * 10 + ("other", "third"):
                group.create_task(entered(slots, caller, leave, inside))
            await settled()
            first = sorted(inside)
            leave.set()
        assert sorted(inside) == sorted(("greedy",) * 10 + ("other", "third"))
        return first

    assert asyncio.run(story()) == ["greedy", "greedy", "other", "third"]


def test_who_finds_no_place_in_time_is_told_the_way_out_and_leaves_none_taken() -> None:
    async def story() -> None:
        slots, leave, inside = FollowSlots(1, 1, 0.01), asyncio.Event(), list[str]()
        async with asyncio.TaskGroup() as group:
            group.create_task(entered(slots, "a", leave, inside))
            await settled()
            for caller in ("a", "b"):
                with pytest.raises(UnreachableError, match="local_async"):
                    async with slots.take(caller):
                        pass
            leave.set()
        async with slots.take("b"):
            inside.append("b")
        assert inside == ["a", "b"]

    asyncio.run(story())


def test_jobs_that_are_waited_for_leave_room_for_what_is_answered_at_once() -> None:
    assert FOLLOWED_OF_ONE < FOLLOWED_MAX < CONNECTIONS_MAX
