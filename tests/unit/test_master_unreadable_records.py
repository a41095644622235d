"""Records that cannot be read, in a real store and a real bank: readers leave them out, name them, and go on."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.api.feeds import events_in as shown_by_the_api
from saltlite.client.connection import decode_message
from saltlite.errors import DamagedError
from saltlite.hooks import read_hooks
from saltlite.master.handlers.delivery import handle_pull
from saltlite.master.handlers.events import EventStream
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Follow, Watch
from saltlite.master.processes.hooks import Hooks
from saltlite.master.processes.returner import Returner, Subscription
from saltlite.master.store import banks
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState
from saltlite.platform.files import CursorFile
from saltlite.wire.framing import pack
from tests.fuzz.readers import read_everywhere
from tests.fuzz.site import JID, ROOT, Site
from tests.support.store import NOW, job

JID2 = job(2).jid
UNREADABLE = {
    "no msgpack": b"\xc1",
    "empty": b"",
    "cut": b"\x82\xa1a\x01",
    "no map": msgpack.packb([1]),
    "a key that is none": msgpack.packb({None: 1}),
    "a key of bytes": msgpack.packb({b"k": 1}),
    "text that is no UTF-8": b"\x81\xa1a\xa1\xff",
    "too deep": msgpack.packb({"a": 1}).replace(b"\x01", b"\x91" * 400 + b"\x01"),
    "an extension": msgpack.packb({"a": msgpack.ExtType(5, b"x")}),
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


def damage(site: Site, sql: str, *values: Any) -> None:
    """Change the file behind the store's back."""
    connection = sqlite3.connect(site.folder / "store")
    try:
        with connection:
            connection.execute(sql, values)
    finally:
        connection.close()


def three_events(site: Site) -> list[int]:
    """Events of which the one in the middle is to be damaged; their numbers."""
    with site.store.write() as tx:
        return [tx.put_event(f"app/{number}", {"n": number}, NOW) for number in range(3)]


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_events_go_on_behind_one_that_cannot_be_read_and_name_it(site: Site, data: bytes) -> None:
    first, bad, last = three_events(site)
    damage(site, "UPDATE events SET data = ? WHERE seq = ?", data, bad)
    stream = EventStream(site.master, Watch("*", first - 1))
    news = stream.news()
    assert news is not None
    message = decode_message(pack(news))
    assert [event["seq"] for event in message["events"]] == [first, last]
    assert [(one["seq"], one["tag"]) for one in message["skipped"]] == [(bad, "app/1")]
    assert message["skipped"][0]["reason"]
    assert message["seq"] == last
    assert stream.news() is None
    read_everywhere(message["events"])
    assert [event.seq for event in shown_by_the_api(message)] == [first, last]


@pytest.mark.parametrize("column", ["tag", "at"])
def test_events_go_on_behind_a_row_with_other_damage(site: Site, column: str) -> None:
    first, bad, last = three_events(site)
    damage(site, f"UPDATE events SET {column} = CAST(x'ff00' AS BLOB) WHERE seq = ?", bad)  # noqa: S608 - constants
    news = EventStream(site.master, Watch("*", first - 1)).news()
    assert news is not None
    assert [event["seq"] for event in news["events"]] == [first, last]
    assert [one["seq"] for one in news["skipped"]] == [bad]


def test_text_that_is_no_utf8_hides_no_other_row(site: Site) -> None:
    first, bad, last = three_events(site)
    damage(site, "UPDATE events SET tag = CAST(x'61ff' AS TEXT) WHERE seq = ?", bad)
    assert [event.seq for event in site.store.events(first - 1)] == [first, bad, last]


def test_a_page_of_nothing_but_unreadable_events_stops_nobody(site: Site) -> None:
    first, _, last = three_events(site)
    damage(site, "UPDATE events SET data = x'c1'")
    news = EventStream(site.master, Watch("*", first - 1)).news()
    assert news is not None
    assert news["events"] == []
    assert news["seq"] == last
    assert len(news["skipped"]) == 3


def test_a_returner_drops_and_tells_what_cannot_be_read_and_delivers_the_rest(site: Site, tmp_path: Path) -> None:
    cursor = CursorFile(str(tmp_path / "one.json"))
    cursor.write({"seq": site.store.last_seq()})
    first, bad, last = three_events(site)
    damage(site, "UPDATE events SET data = x'c1' WHERE seq = ?", bad)
    taken: list[int] = []
    functions = {"one.event_return": lambda events: taken.extend(event["seq"] for event in events)}
    waited: list[float] = []
    returner = Returner(
        site.store, site.clock, functions, Subscription("one", events=True), cursor, pause=waited.append
    )
    assert returner.step()
    assert taken == [first, last]
    assert cursor.read()["seq"] == last
    assert waited == []
    (told,) = [event for event in site.store.events(last) if event.tag == "salt/returner/one/dropped"]
    assert f"event {bad} (app/1)" in told.data["reason"]


@pytest.mark.parametrize("sql", ["body = x'c1'", "tgt_type = 'of another version'", "minions = x'c1'"])
def test_a_returner_gets_past_a_job_that_cannot_be_read(site: Site, tmp_path: Path, sql: str) -> None:
    cursor = CursorFile(str(tmp_path / "one.json"))
    cursor.write({"seq": 0})
    damage(site, f"UPDATE jobs SET {sql}")  # noqa: S608 - constants
    waited: list[float] = []
    returner = Returner(
        site.store, site.clock, {"one.returner": lambda _ret: None}, Subscription("one", every_return=True), cursor,
        pause=waited.append,
    )  # fmt: skip
    last = site.store.last_seq()
    assert returner.step()
    assert waited == [], "it tries again and again"
    assert cursor.read()["seq"] == last


def test_hooks_fire_for_what_comes_behind_an_event_that_cannot_be_read(site: Site, tmp_path: Path) -> None:
    hook = {"event": "app/*", "as": "root", "job": {"tgt": "web1", "fun": "test.ping", "arg": ["{n}"]}}
    hooks = read_hooks({"one": hook})
    cursor = CursorFile(str(tmp_path / "hooks.json"))
    cursor.write({"seq": site.store.last_seq()})
    _first, bad, last = three_events(site)
    damage(site, "UPDATE events SET data = x'c1' WHERE seq = ?", bad)

    class Later:
        def call_later(self, _delay_s: float, _work: Any) -> None:
            pass

    process = Hooks(cast("Any", Later()), site.master, hooks, cursor, runners=None, wake_up=lambda: None)
    process.look()
    told = [event.data for event in site.store.events(last) if event.tag.startswith("salt/hook/one/")]
    assert [about["tag"] for about in told] == ["app/0", "app/2"]
    assert cursor.read()["seq"] >= last


@pytest.mark.parametrize(
    "sql", ["tgt_type = 'of another version'", "minions = x'c1'", "body = x'c1'", "created_at = 'never'"]
)
def test_a_job_that_cannot_be_read_hides_no_other(site: Site, sql: str, caplog: pytest.LogCaptureFixture) -> None:
    damage(site, f"UPDATE jobs SET {sql} WHERE jid = ?", JID)  # noqa: S608 - constants
    for whole in (False, True):
        answer = handle_request(site.master, ROOT, {"v": 1, "verb": "job_list", "whole": whole})
        listed = decode_message(pack(answer.fields))["jobs"]
        assert JID2 in [row["jid"] for row in listed]
    rows = {row["jid"]: row for row in listed}
    with caplog.at_level(logging.ERROR):
        handle_pull(site.master, {"id": "web2", "session": None, "since": ""})
        handle_pull(site.master, {"id": "web1", "session": None, "since": ""})
    if sql.startswith("body"):
        assert rows[JID]["calls"] == [["test.ping", [], {}]]
        assert rows[JID]["unreadable"]


def test_states_of_another_version_cost_the_rows_that_have_them(site: Site) -> None:
    damage(site, "UPDATE job_targets SET state = 'teleported', outcome = 77 WHERE jid = ? AND target = 'web1'", JID)
    assert [row.id for row in site.store.targets(JID)] == ["web2"]
    assert [row.id for row in site.store.target_details(JID)] == ["web2"]
    assert handle_request(site.master, ROOT, {"v": 1, "verb": "job_show", "jid": JID}).fields["job"]["targets"]


@pytest.mark.parametrize("sql", ["state = 'teleported'", "retcode = 'none'", "body = 5", "duration_ms = 'long'"])
def test_a_return_that_is_damaged_is_told_of_as_one(site: Site, sql: str) -> None:
    damage(site, f"UPDATE returns SET {sql} WHERE jid = ?", JID)  # noqa: S608 - constants
    follower = JobFollower(site.master, Follow(JID, 0, once=True))
    news = follower.news()
    assert news is not None
    (one,) = site.store.returns(JID)
    assert one.retcode == 1
    assert "damaged" in one.reason


def test_keys_minions_and_functions_of_another_version_hide_no_other(site: Site) -> None:
    damage(site, "UPDATE keys SET state = 'teleported' WHERE id = 'new1'")
    damage(site, "INSERT INTO functions VALUES ('d', 1, x'c1')")
    assert {key.id for key in site.store.keys(frozenset(KeyState))} == {"web1", "web2", "db1"}
    assert site.store.functions("d") is None


def test_one_job_asked_for_by_its_name_is_an_error_with_its_name(site: Site) -> None:
    damage(site, "UPDATE jobs SET tgt_type = 'of another version' WHERE jid = ?", JID)
    with pytest.raises(DamagedError, match=JID):
        site.store.job(JID)


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_grains_that_cannot_be_read_are_those_of_one_minion(
    site: Site, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = next(path for path in (site.folder / "cache/banks/grains").iterdir() if "web2" in path.name)
    path.write_bytes(banks.entry(value, "d" * 32))
    with caplog.at_level(logging.ERROR):
        assert site.banks.bank("grains").get("web2") is None
        assert site.banks.bank("grains").get("web2") is None
    assert len([record for record in caplog.records if "'web2'" in record.getMessage()]) == 1
    request = {"v": 1, "verb": "match", "tgt": "G@os:Debian", "tgt_type": "compound"}
    answer = decode_message(pack(handle_request(site.master, ROOT, request).fields))
    assert "web1" in str(answer)
    assert "web2" not in str(answer)
    cached = {"v": 1, "verb": "cached", "bank": "grains", "tgt": "*", "tgt_type": "glob"}
    rows = decode_message(pack(handle_request(site.master, ROOT, cached).fields))
    assert "Debian" in str(rows)


def test_resource_grains_of_another_shape_select_nothing_and_break_no_target(site: Site) -> None:
    site.banks.bank("resource_grains").put("web1", {"dummy:a": {"grains": {"os": "x"}}, "dummy:b": 5})
    request = {"v": 1, "verb": "match", "tgt": "G@os:x", "tgt_type": "compound"}
    assert "dummy:a" in str(handle_request(site.master, ROOT, request).fields)
    assert MinionId("web1") in site.store.accepted_ids()
