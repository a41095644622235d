"""Streams of jobs and events whose store fails at one of its reads: they go on where they stood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import StoreError
from saltlite.master.handlers.events import EventStream
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.processes.context import Follow, Watch
from saltlite.model.ids import Jid
from saltlite.model.job import Batch, TargetState
from tests.support.master import MasterRig
from tests.support.store import WEB1, WEB2, commit, job, move, publish, ret

Stream = JobFollower | EventStream
OWNER = Principal("fred", 1000)


class FailingOnce:
    """The store's reads, of which the one with this number fails once."""

    def __init__(self, store: Any, number: int) -> None:
        self._store = store
        self._left = number
        self.failed = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def read(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.failed = True
                raise StoreError("the database cannot be reached")
            return getattr(self._store, name)(*args, **more)

        return read


def of_job(rig: MasterRig, jid: Jid) -> Stream:
    return JobFollower(rig.master, Follow(jid, 0))


def of_events(rig: MasterRig, _jid: Jid) -> Stream:
    return EventStream(rig.master, Watch("*", 0, only_of=OWNER, returns_for=OWNER))


def seen(make: Callable[[MasterRig, Jid], Stream], number: int) -> tuple[list[Any], bool]:
    """What a stream shows of two returned targets of which one was planned; and whether read `number` failed."""
    rig = MasterRig("web1", "web2")
    publish(rig.store, one := job(1, (WEB1, WEB2), batch=Batch(1), uid=OWNER.uid))
    rig.master.store = store = FailingOnce(rig.store, number)
    stream = make(rig, one.jid)
    shown = _looks(stream)
    move(rig.store, one, WEB1, TargetState.QUEUED)
    commit(rig.store, ret(one, WEB1), ret(one, WEB2))
    return shown + _looks(stream), store.failed


def _looks(stream: Stream) -> list[Any]:
    rows: list[Any] = []
    for _ in range(3):
        try:
            news = stream.news()
        except StoreError:
            continue
        for row in (news or {}).get("returns", ()):
            rows.append((row["id"], row["seq"]))
        for row in (news or {}).get("states", ()):
            rows.append((row["id"], row["state"]))
        for row in (news or {}).get("events", ()):
            rows.append((row["tag"], row["seq"]))
    return rows


@pytest.mark.parametrize("make", [of_job, of_events])
def test_a_stream_shows_everything_once_whichever_read_fails(make: Callable[[MasterRig, Jid], Stream]) -> None:
    expected, _ = seen(make, 0)
    assert len(expected) > 2
    numbers = 0
    while (outcome := seen(make, numbers + 1))[1]:
        assert outcome[0] == expected
        numbers += 1
    assert numbers > 3
