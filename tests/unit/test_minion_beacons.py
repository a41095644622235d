"""Beacons: those that ship, their common settings, and what becomes of their events."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from saltlite.errors import UsageError
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.master.handlers.documents import answer
from saltlite.minion.jobs.rpc_client import event_message
from saltlite.minion.timers import beacons as timers
from saltlite.minion.timers.beacons import EVENTS_AT_ONCE, EVENTS_WAITING, EventQueue, checked, read_beacon
from saltlite.minion.timers.changes import KeptChanges
from saltlite.model.ids import MinionId
from saltlite.plugins.beacons import _logins, btmp, diskusage, inotify, load, service, wtmp
from saltlite.wire.messages import Message, response_message
from tests.support.master import MasterRig


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """`__context__` of the shipped beacons; what they call is in its own place."""
    shared: dict[str, Any] = {}
    for module in (btmp, inotify, load, service, wtmp):
        monkeypatch.setattr(module, "__context__", shared, raising=False)
    return shared


# --- those that ship


@pytest.mark.parametrize(
    ("module", "config", "words"),
    [
        (service, [{"services": {"nginx": None}}], ""),
        (service, [{"services": {}}], "needs `services`"),
        (service, [{"services": {"nginx": 1}}], "are a map"),
        (service, {"services": {}}, "list of maps"),
        (load, [{"averages": {"1m": [0.0, 2]}}], ""),
        (load, [{"averages": {"1m": [2]}}], "lowest and the highest"),
        (load, [{"averages": {"2m": [0, 1]}}], "map of 1m"),
        (diskusage, [{"/": "63%"}, {"/srv/.*": 5}], ""),
        (diskusage, [{"(": "63%"}], "no regular expression"),
        (diskusage, [{"/": "full"}], "number of percent"),
        (inotify, [{"files": {"/etc": {"mask": ["create"], "recurse": True}}}], ""),
        (inotify, [{"files": {"/etc": {"mask": ["born"]}}}], "no 'born'"),
        (inotify, [{"files": {"/etc": {"recurse": "yes"}}}], "true or false"),
        (inotify, [{"files": ["/etc"]}], "needs `files`"),
        (wtmp, [{"users": {"root": {"time_range": {"start": "8pm", "end": "6:30"}}}}], ""),
        (wtmp, [{"users": ["root"]}], "map from names"),
        (btmp, [{"defaults": {"time_range": {"start": "x", "end": "y"}}}], "times of the day"),
        (btmp, [], ""),
    ],
)
def test_a_configuration_is_checked_with_a_sentence(module: ModuleType, config: Any, words: str) -> None:
    valid, comment = module.validate(config)
    assert (valid, words in comment) == (not words, True)


def test_services_are_reported_each_time_or_when_they_change(
    context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = {"a": True, "b": True, "c": True, "d": False}
    monkeypatch.setattr(service, "__salt__", {"service.status": lambda name: running[name]}, raising=False)
    change = {"onchangeonly": True}
    config = [
        {"services": {"a": {}, "b": change, "c": {**change, "emitatstartup": False}, "d": {"is_running_state": True}}}
    ]

    def names() -> list[str]:
        return [event["tag"] for event in service.beacon(config)]

    assert names() == ["a", "b"]
    assert names() == ["a"]
    running.update(b=False, c=False, d=True)
    assert service.beacon(config)[1] == {"b": {"running": False}, "service_name": "b", "tag": "b"}
    assert names() == ["a", "d"]
    assert context


def test_a_service_that_changes_back_within_its_delay_is_reported_after_it(
    context: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now, running = [100.0], [True]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(service, "__salt__", {"service.status": lambda _name: running[0]}, raising=False)
    pid = tmp_path / "pid"
    about = {"onchangeonly": True, "delay": 10, "emitatstartup": False, "uncleanshutdown": str(pid)}
    config = [{"services": {"a": about}}]
    assert service.beacon(config) == []
    running[0] = False
    assert service.beacon(config) == []
    now[0] += 9
    assert service.beacon(config) == []
    now[0] += 1
    pid.touch()
    assert service.beacon(config)[0]["a"] == {"running": False, "uncleanshutdown": True}
    now[0] += 100
    assert service.beacon(config) == []
    assert context


def test_the_load_is_reported_beyond_its_limits_or_when_it_crosses_them(
    context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = [1.0, 1.0, 1.0]
    monkeypatch.setattr("os.getloadavg", lambda: tuple(loads))
    limits = {"averages": {"1m": [0.5, 2.0]}}
    assert load.beacon([limits]) == []
    loads[0] = 3.0
    assert load.beacon([limits]) == [{"1m": 3.0, "5m": 1.0, "15m": 1.0}]
    config: list[dict[str, Any]] = [limits, {"onchangeonly": True}, {"emitatstartup": False}]
    assert [bool(load.beacon(config)) for _ in range(2)] == [False, False]
    loads[0] = 1.0
    assert [bool(load.beacon(config)) for _ in range(2)] == [True, False]
    assert context


def test_a_file_system_is_reported_above_the_first_limit_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = {"/": {"capacity": "63%"}, "/srv/a": {"capacity": "80%"}, "/srv/b": {"capacity": "95%"}, "/x": {}}
    monkeypatch.setattr(diskusage, "__salt__", {"disk.usage": lambda: usage}, raising=False)
    config: list[dict[str, Any]] = [{"/": "63%"}, {"/srv/b": 99}, {"/srv/.*": "80"}, {"_beacon_name": "diskusage"}]
    assert diskusage.beacon(config) == [
        {"diskusage": 63.0, "mount": "/"}, {"diskusage": 80.0, "mount": "/srv/a"},
    ]  # fmt: skip


def test_inotify_reports_what_its_mask_has_and_new_folders_by_auto_add(context: dict[str, Any], tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "in").mkdir(parents=True)
    about = {"mask": ["create", "delete"], "recurse": True, "auto_add": True, "exclude": ["*.tmp", {"^.*skip": None}]}
    config: list[dict[str, Any]] = [{"files": {str(top): about}}, {"_beacon_name": "inotify"}]
    assert inotify.beacon(config) == []
    for name in ("a", "b.tmp", "skip", "in/c"):
        (top / name).touch()
    (top / "a").write_text("modified")
    (top / "new").mkdir()
    found = inotify.beacon(config)
    assert [(os.path.relpath(one["path"], top), one["change"], one["tag"]) for one in found] == [
        ("a", "IN_CREATE", str(top)), ("in/c", "IN_CREATE", str(top)), ("new", "IN_CREATE|IN_ISDIR", str(top)),
    ]  # fmt: skip
    (top / "new" / "d").touch()
    assert [os.path.relpath(one["path"], top) for one in inotify.beacon(config)] == ["new/d"]
    inotify.close(config)
    assert context == {}
    (top / "e").touch()
    assert inotify.beacon(config) == []
    inotify.close(config)


def test_inotify_watches_a_file_again_that_was_replaced(context: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.touch()
    config: list[dict[str, Any]] = [{"files": {str(file): {"mask": ["modify", "delete_self"]}}}, {"coalesce": True}]
    inotify.beacon(config)
    file.unlink()
    file.touch()
    assert [one["change"] for one in inotify.beacon(config)] == ["IN_DELETE_SELF"]
    inotify.beacon(config)
    file.write_text("x")
    file.write_text("y")
    assert [one["change"] for one in inotify.beacon(config)] == ["IN_MODIFY"]
    inotify.close(config)
    assert context == {}


RECORD = struct.Struct("hi32s4s32s256shhiii4i20x")


def login(user: str, kind: int = 7, at: int = 1_800_000_000) -> bytes:
    return RECORD.pack(kind, 99, b"pts/1", b"ts/1", user.encode(), b"host", 0, 0, 0, at, 5, 0, 0, 0, 0)


def test_logins_since_the_last_look_are_events_also_after_the_file_was_replaced(
    context: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "wtmp"
    monkeypatch.setattr(wtmp, "_FILE", str(file))
    assert wtmp.beacon([]) == []
    file.write_bytes(login("old"))
    assert wtmp.beacon([]) == []
    with file.open("ab") as end:
        end.write(login("amy") + login("", 8) + login("boot", 2) + b"torn")
    found = wtmp.beacon([])
    assert [(one["action"], one["user"], one["line"], one["PID"]) for one in found] == [
        ("login", "amy", "pts/1", 99), ("logout", "", "pts/1", 99),
    ]  # fmt: skip
    fresh = tmp_path / "fresh"
    fresh.write_bytes(login("bob"))
    fresh.rename(file)
    assert [one["user"] for one in wtmp.beacon([])] == ["bob"]
    assert wtmp.beacon([]) == []
    assert context


def test_logins_of_some_users_in_some_hours_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "btmp"
    file.touch()
    monkeypatch.setattr(btmp, "_FILE", str(file))
    seen: dict[str, Any] = {}
    hours = [{"users": {"root": {"time_range": {"start": "12am", "end": "11:59pm"}}, "amy": {}}}]
    never = [{"defaults": {"time_range": {"start": "3:00", "end": "3:00"}}}]
    for config, names in ((hours, ["root", "amy"]), (never, [])):
        seen.clear()
        _logins.added(str(file), config, seen, {7: "failed"})
        with file.open("ab") as end:
            end.write(login("root") + login("amy") + login("eve"))
        found = _logins.added(str(file), config, seen, {7: "failed"})
        assert [one["user"] for one in found] == names


# --- the minion


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("x", "list of maps"),
        ([1], "list of maps"),
        ([{"interval": 0}], "interval is a number"),
        ([{"enabled": 1}], "enabled is true or false"),
        ([{"beacon_module": "a b"}], "no beacon module"),
    ],
)
def test_wrong_common_settings_have_a_sentence(config: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_beacon("a", config)


def test_common_settings_are_not_passed_on() -> None:
    found = read_beacon("a", [{"x": 1, "interval": 5}, {"run_once": True}, {"disable_during_state_run": True}])
    assert (found.config, found.interval_s, found.run_once, found.not_during_states) == ([{"x": 1}], 5.0, True, True)
    assert read_beacon("a", {"x": 1, "beacon_module": "b"}).module == "b"


def asked(config: Any, what: str = "check", module: str = "m") -> dict[str, Any]:
    return {"t": what, "name": "n", "module": module, "config": [*config, {"_beacon_name": "n"}]}


def test_a_beacon_that_fails_or_is_not_there_says_why_and_its_events_are_plain() -> None:
    def fails(_config: Any) -> Any:
        raise ValueError("broken")

    beacons = {
        "m.beacon": lambda config: [{"tag": "t", "config": config, "value": {1, 2}}, "no event"],
        "many.beacon": lambda _config: [{}] * (EVENTS_AT_ONCE + 2),
        "none.beacon": lambda _config: None,
        "bad.beacon": fails,
        "strict.beacon": lambda _config: [],
        "strict.validate": lambda config: (False, f"got {config}"),
    }
    ((tag, data),) = checked(beacons, asked([{"x": 1}]))["events"]
    assert (tag, data["config"], sorted(data["value"])) == ("t", [{"x": 1}, {"_beacon_name": "n"}], [1, 2])
    assert checked(beacons, asked([], module="many"))["dropped"] == 2
    assert checked(beacons, asked([], module="none"))["events"] == []
    assert checked(beacons, asked([], module="bad"))["problem"] == "ValueError: broken"
    assert "is not valid: got []" in checked(beacons, asked([], module="strict"))["problem"]
    assert "no beacon zzz" in checked(beacons, asked([], module="zzz"))["problem"]
    assert checked(beacons, asked([], "close")) == {"t": "closed"}


class Later:
    """A reactor that calls when the test says so."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call_later(self, _seconds: float, callback: Any) -> None:
        self.calls.append(callback)


def test_events_are_sent_one_at_a_time_again_if_the_master_is_busy_and_the_oldest_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later, sent = Later(), list[tuple[Message, Any]]()
    queue = EventQueue(later, lambda message, answered: sent.append((message, answered)))  # type: ignore[arg-type]  # a stand-in
    for number in range(EVENTS_WAITING + 2):
        queue.put(f"salt/beacon/web1/a/{number}", {"n": number})
    assert len(sent) == 1
    sent.pop()[1](response_message(0, "busy"))
    assert sent == []
    later.calls.pop()()
    assert sent[0][0]["tag"] == "salt/beacon/web1/a/2"
    for _ in range(EVENTS_WAITING):
        sent.pop()[1](response_message(0, "ok"))
    assert sent == []
    assert "the oldest are dropped" in caplog.text
    queue.put("salt/beacon/web1/a", {"x": "x" * 100_000})
    assert "is not sent" in caplog.text


def test_changes_are_kept_across_restarts_and_go_before_the_configuration(tmp_path: Path) -> None:
    path = str(tmp_path / "beacons")
    changes = KeptChanges(path)
    changes.put("a", [1], persist=True)
    changes.put("b", None, persist=True)
    changes.put("c", [3], persist=False)
    configured = {"a": [0], "b": [0], "d": [0]}
    assert changes.apply(configured) == {"a": [1], "d": [0], "c": [3]}
    assert KeptChanges(path).apply(configured) == {"a": [1], "d": [0]}
    changes.save()
    changes.switch(enabled=False, persist=True)
    later = KeptChanges(path)
    assert (later.apply(configured), later.enabled) == ({"a": [1], "d": [0], "c": [3]}, False)
    later.reset()
    assert (KeptChanges(path).apply(configured), later.enabled) == (configured, True)
    unwritable = KeptChanges(str(tmp_path / "absent" / "beacons"))
    with pytest.raises(UsageError, match="cannot be stored"):
        unwritable.put("a", [1], persist=True)
    with pytest.raises(UsageError, match="cannot be stored"):
        unwritable.switch(enabled=False, persist=True)
    assert (unwritable.apply(configured), unwritable.enabled) == (configured, True)
    unwritable.reload()
    assert (unwritable.apply(configured), unwritable.enabled) == (configured, True)
    Path(path).write_text("{")
    assert KeptChanges(path).apply(configured) == configured


def test_the_beacons_of_the_loader_are_those_that_ship_and_files_of_the_users(tmp_path: Path) -> None:
    folder = tmp_path / "_beacons"
    folder.mkdir()
    (folder / "own.py").write_text("def beacon(config):\n    return [{'opt': __opts__['id']}]\n")
    opts = {"id": "web1", "module_dirs": [str(tmp_path)], "salt_compat": "off"}
    minion = Loader(build_index(search_layers(opts)), opts, {}, {})
    loader = minion.of_type(timers.KIND, build_index(search_layers(opts, timers.KIND)))
    found = {name.partition(".")[0] for name in loader if name.endswith(".beacon")}
    assert found == {"btmp", "diskusage", "inotify", "load", "own", "service", "wtmp"}
    assert checked(loader, asked([], module="own"))["events"] == [["", {"opt": "web1"}]]


# --- the master


@pytest.mark.parametrize(
    ("tag", "stored"),
    [
        ("salt/beacon/web1/load/", "salt/beacon/web1/load/"),
        ("salt/beacon/web2/load/", "minion/web1/salt/beacon/web2/load/"),
        ("salt/beacon/web12/load/", "minion/web1/salt/beacon/web12/load/"),
        ("salt/beacons/web1/x", "minion/web1/salt/beacons/web1/x"),
        ("/salt/beacon/web1/x", "minion/web1/salt/beacon/web1/x"),
    ],
)
def test_a_minion_writes_events_of_beacons_below_its_own_id_only(tag: str, stored: str) -> None:
    rig, said = MasterRig("web1"), list[Message]()
    message = {**event_message(tag, {"x": 1, "id": "web2"}, ""), "n": 1}
    answer(rig.master, rig.documents, MinionId("web1"), message, said.append)
    (event,) = rig.store.events()
    assert (said[0]["state"], event.tag, event.data["id"]) == ("ok", stored, "web1")
    if stored == tag:
        assert event.data["x"] == 1
