"""The process of hooks over a master without processes: under whose name, how often, and how long afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from saltlite.auth.acl import Granted, read_rules
from saltlite.errors import StoreError
from saltlite.hooks import read_hooks
from saltlite.master.processes.hooks import AGAIN_S, LIMITED_S, LOOK_S, STALE_S, Hooks
from saltlite.platform.files import CursorFile
from saltlite.platform.logs import DEFECT
from tests.support.keys import NOW
from tests.support.master import MasterRig

FRED = {"fred": [{"web*": ["test.ping"]}]}


class Turns:
    """A reactor whose only timer is called by the test."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.later.append((seconds, call))


class Site:
    """A master with these hooks."""

    def __init__(self, folder: Path, realm: str = "", **hooks: Any) -> None:
        granted = Granted(
            read_rules({"root": ["test.ping"]}, "publisher_acl"),
            external={"file": read_rules(FRED, "external_auth.file")},
        )
        self.rig = MasterRig("web1", "db1", granted=granted, realm=realm)
        self.cursor = CursorFile(str(folder / "hooks.json"))
        self.written = hooks
        self.turns = Turns()
        self.begin()

    def begin(self, runners: Any = None) -> None:
        """The process starts."""
        self.hooks = Hooks(
            cast("Any", self.turns),
            self.rig.master,
            read_hooks(self.written),
            self.cursor,
            runners=runners,
            wake_up=lambda: None,
        )

    def say(self, tag: str, **data: Any) -> None:
        with self.rig.store.write() as store:
            store.put_event(tag, data, self.rig.clock.wall())

    def look(self) -> list[tuple[str, Any]]:
        """Fire; what was told of hooks until now."""
        self.hooks.look()
        told = [event for event in self.rig.store.events() if event.tag.startswith("salt/hook/")]
        return [(event.tag.removeprefix("salt/hook/"), event.data) for event in told]

    def jobs(self) -> list[tuple[str, tuple[str, ...]]]:
        jobs = {job.jid: job for job, _parts in self.rig.link.published}  # a repeated request sends its job again
        return [(job.user, job.minions) for job in jobs.values()]


def hook(tgt: str = "{host}", **fields: Any) -> dict[str, Any]:
    return {"event": "app/*", "as": "file:fred", "job": {"tgt": tgt, "fun": "test.ping"}, **fields}


def test_a_hook_may_what_its_user_may_at_that_moment_and_no_more(tmp_path: Path) -> None:
    site = Site(tmp_path, h=hook())
    for host in ("web1", "db1", "nobody"):
        site.say("app/x", host=host)
    told = site.look()
    assert [tag for tag, _data in told] == ["h/fired", "h/refused", "h/refused"]
    assert "only on web*" in told[1][1]["reason"]
    assert site.jobs() == [("file:fred", ("web1",))]


def test_a_process_that_died_behind_the_publish_begins_no_second_job(tmp_path: Path) -> None:
    site = Site(tmp_path, h=hook())
    before = site.cursor.read()
    site.say("app/x", host="web1")
    (first,) = site.look()
    site.cursor.write(before)
    site.begin()
    again = site.look()
    assert [data["jid"] for _tag, data in again] == [first[1]["jid"]] * 2
    assert len(site.jobs()) == 1


@pytest.mark.parametrize(("realm", "jobs"), [("m1", 1), ("", 2)])
def test_another_master_where_the_user_has_another_uid_begins_no_second_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, realm: str, jobs: int
) -> None:
    """Without a realm uids are the same on all masters: this one is another person."""
    site = Site(tmp_path, realm=realm, h=hook(**{"as": "root"}))
    before = site.cursor.read()
    site.say("app/x", host="web1")
    site.look()
    site.cursor.write(before)
    monkeypatch.setattr("saltlite.master.processes.hooks.uid_of", lambda _user: 1017)
    site.begin()
    assert [tag for tag, _data in site.look()] == ["h/fired", "h/fired"]
    assert len(site.jobs()) == jobs


def test_events_of_before_the_hook_and_events_that_are_old_begin_nothing(tmp_path: Path) -> None:
    old = Site(tmp_path)
    old.say("app/x", host="web1")
    old.cursor.write({})
    old.written = {"h": hook()}
    old.begin()
    assert old.look() == []
    old.say("app/x", host="web1")
    old.rig.clock.advance(STALE_S + 1.0)
    assert [tag for tag, _data in old.look()] == ["h/stale"]
    assert old.jobs() == []


def test_above_its_rate_a_hook_is_held_back_and_told_of_once_a_minute(tmp_path: Path) -> None:
    site = Site(tmp_path, h=hook(rate=1))
    for _ in range(4):
        site.say("app/x", host="web1")
    assert [tag for tag, _data in site.look()] == ["h/fired", "h/limited"]
    site.rig.clock.advance(LIMITED_S)
    for _ in range(2):
        site.say("app/x", host="web1")
    tag, data = site.look()[-1]
    assert (tag, data["count"]) == ("h/limited", 3)
    assert len(site.jobs()) == 2


def test_a_user_that_there_is_not_and_a_runner_without_a_starter_are_told(tmp_path: Path) -> None:
    runner = {"event": "app/*", "as": "root", "runner": {"fun": "manage.up"}}
    site = Site(tmp_path, a={**hook("web1"), "as": "nobody-has-this-name"}, b=runner)
    site.say("app/x")
    assert [(tag, data["reason"]) for tag, data in site.look()] == [
        ("a/refused", "there is no user 'nobody-has-this-name' on this machine"),
        ("b/refused", "this process runs no runners"),
    ]


def test_a_store_that_fails_is_asked_again_and_no_event_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, h=hook())
    site.say("app/x", host="web1")

    def broken(*_args: Any) -> Any:
        raise StoreError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(site.rig.store, "events", broken)
        site.hooks.look()
    assert [tag for tag, _data in site.look()] == ["h/fired"]
    assert [seconds for seconds, _call in site.turns.later] == [AGAIN_S, LOOK_S]
    assert site.rig.clock.wall() == NOW


def test_a_runner_is_not_begun_again_when_the_store_fails_behind_its_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, h={"event": "app/*", "as": "root", "runner": {"fun": "manage.up"}})
    begun: list[str] = []

    class Begun:
        def run(self, _hook: Any, _wanted: Any, jid: str, _ended: Any) -> None:
            begun.append(jid)

    def broken(*_args: Any) -> Any:
        raise StoreError("no disk")

    site.begin(Begun())
    site.say("app/x")
    with monkeypatch.context() as patch:
        patch.setattr(site.hooks, "_record_event", broken)
        site.hooks.look()
    site.look()
    assert len(begun) == 1


def test_a_hook_that_meets_a_defect_is_refused_and_the_others_fire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = Site(tmp_path, bad=hook(), good=hook("web1"))
    fire = site.hooks._fire

    def fails(one: Any, event: Any, depth: int) -> Any:
        if one.name == "bad":
            raise TypeError("sesame")
        return fire(one, event, depth)

    monkeypatch.setattr(site.hooks, "_fire", fails)
    site.say("app/x", host="web1")
    told = site.look()
    assert [tag for tag, _data in told] == ["bad/refused", "good/fired"]
    assert told[0][1]["reason"] == DEFECT
    assert "hook bad met a defect of saltlite" in caplog.text
    assert site.look() == told, "the cursor stands behind it"
