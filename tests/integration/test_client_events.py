"""The client's event reader against a scripted master: broken connections, bad answers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from saltlite.client import events
from saltlite.client.events import EventReader
from saltlite.client.local import LocalClient
from saltlite.errors import RemoteProtocolError, UnreachableError, UsageError
from tests.integration.fakemaster import DROP, FakeMaster, Step, fixed


def event(seq: int) -> dict[str, Any]:
    return {"seq": seq, "tag": f"tag/{seq}", "data": {}, "at": 0.0}


def test_a_broken_stream_is_taken_up_behind_the_last_event_that_was_read(tmp_path: Path) -> None:
    def log_of_six(request: dict[str, Any]) -> Iterable[Step]:
        """Two events a message, and then the connection ends."""
        after = request.get("after", 0)
        yield {"ok": True, "seq": after, "first": 1}
        yield {"seq": after + 2, "events": [event(after + 1), event(after + 2)]}
        yield DROP

    with FakeMaster(tmp_path, log_of_six) as master, LocalClient(master.socket_path) as client:
        reader = EventReader(client, "tag/*", after=0)
        assert [one["seq"] for one in islice(reader, 6)] == [1, 2, 3, 4, 5, 6]
    assert [request["after"] for request in master.requests] == [0, 2, 4]
    assert {request["pattern"] for request in master.requests} == {"tag/*"}


def test_a_stream_that_broke_before_its_first_event_goes_on_where_it_was_to_begin(tmp_path: Path) -> None:
    answers: list[list[Step]] = [
        [{"ok": True, "seq": 9, "first": 1}, DROP],
        [{"ok": True, "seq": 9, "first": 1}, {"seq": 10, "events": [event(10)]}],
    ]
    with FakeMaster(tmp_path, lambda _request: answers.pop(0)) as master, LocalClient(master.socket_path) as client:
        assert next(EventReader(client, "*"))["seq"] == 10
    assert [request.get("after") for request in master.requests] == [None, 9]


def test_a_master_that_does_not_come_back_is_told_with_the_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RESUME_FOR_S", 0.0)
    answers: list[list[Step]] = [[{"ok": True, "seq": 4, "first": 1}, DROP], [DROP]]
    with FakeMaster(tmp_path, lambda _request: answers.pop(0)) as master, LocalClient(master.socket_path) as client:
        reader = EventReader(client, "*")
        with pytest.raises(UnreachableError, match="--since 4"):
            next(reader)


def test_a_reader_knows_that_events_behind_its_cursor_are_gone(tmp_path: Path) -> None:
    script = fixed({"ok": True, "seq": 4, "first": 6})
    with FakeMaster(tmp_path, script) as master, LocalClient(master.socket_path) as client:
        assert EventReader(client, "*", after=4).gone
    assert master.requests == [{"v": 1, "verb": "events", "pattern": "*", "after": 4}]


def test_a_cursor_that_the_master_refuses_is_a_usage_error(tmp_path: Path) -> None:
    script = fixed({"ok": False, "exit": 2, "error": "there is no event 99 yet: the last one is 3"})
    with (
        FakeMaster(tmp_path, script) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(UsageError, match="no event 99"),
    ):
        EventReader(client, "*", after=99)


@pytest.mark.parametrize("message", [{}, {"ok": False, "exit": 1, "error": "the store could not read"}])
def test_a_stream_that_says_something_else_ends(tmp_path: Path, message: dict[str, Any]) -> None:
    script = fixed({"ok": True, "seq": 0, "first": 0}, message)
    with (
        FakeMaster(tmp_path, script) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(RemoteProtocolError),
    ):
        next(EventReader(client, "*"))
