"""Handlers of masters that share their store: names, values and targets are the same on each of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from saltlite.errors import StoreError
from saltlite.master.handlers import mine
from saltlite.master.processes.fleet import AskingEverywhere
from saltlite.master.store.projection import Projection
from saltlite.model.events import MasterEvent, tag_master
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind
from saltlite.model.keys import KeyState
from saltlite.model.sha256 import sha256
from saltlite.resources.registry.admission import RegistrationRules
from saltlite.resources.registry.registry import Conflict, Registry
from saltlite.targeting.banks import GRAINS, Banks
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire.codec import DOCUMENT, encode
from tests.support.master import MasterRig, Shared
from tests.support.store import had_sessions, key, row

MA, MB, MC = MinionId("ma"), MinionId("mb"), MinionId("mc")


class OneOfSeveral(Shared):
    """What the MWorkers of one master share, whose store other masters have as well."""

    def __init__(self, disk: MemoryStoreDisk, folder: Path) -> None:
        super().__init__()
        self.disk = disk
        self.folder = folder
        self.opened: list[Projection] = []

    def inventory(self) -> tuple[Registry, Banks]:
        made = Projection(MemoryStore(self.disk).inventory(), {"cachedir": str(self.folder)}, bytes(32))
        self.opened.append(made)
        return made.registry, made.banks


class Turn:
    """A reactor that runs what is called soon at the end of a turn."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def end(self) -> None:
        todo, self._soon = self._soon, []
        for callback in todo:
            callback()


class Masters:
    """Two masters; `ma` has its session with a, `mb` with b, and `mc` with none."""

    def __init__(self, folder: Path, rules: RegistrationRules | None = None) -> None:
        self.disk = MemoryStoreDisk(store_id="0" * 32)
        self.turn = Turn()
        self.shared = [OneOfSeveral(self.disk, folder / name) for name in "ab"]
        self.a, self.b = (MasterRig(rules=rules, shared=shared) for shared in self.shared)
        self.a.add_keys("ma", "mb", "mc")
        with self.a.store.write() as tx:
            had_sessions(tx, [row(MA, up=True, master="a"), row(MB, up=True, master="b"), row(MC, master="b")])
        for name, rig in (("a", self.a), ("b", self.b)):
            store = MemoryStore(self.disk)
            asking = AskingEverywhere(cast("Any", self.turn), rig.link, store, rig.clock, name)
            rig.master.asking = asking

    def asked_elsewhere(self, name: str) -> list[Mapping[str, Any]]:
        self.turn.end()
        return [event.data for event in self.a.events(tag_master(name, MasterEvent.FETCH))]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Masters]]:
    opened: list[Masters] = []

    def make(rules: RegistrationRules | None = None) -> Masters:
        opened.append(Masters(tmp_path, rules))
        return opened[-1]

    yield make
    for masters in opened:
        for shared in masters.shared:
            for one in shared.opened:
                one.close()


@pytest.fixture
def masters(made: Callable[..., Masters]) -> Masters:
    return made()


def selected(rig: MasterRig, expression: str, kind: TargetKind) -> tuple[list[str], list[str]]:
    """What a target selects in a new request."""
    rig.master.begin_request()
    chosen = rig.master.resolve(Target(expression, kind))
    return sorted(chosen.minions), sorted(chosen.resources)


def test_a_target_selects_by_what_a_minion_told_another_master(masters: Masters) -> None:
    for os in ("Debian", "BSD", "Debian"):
        masters.a.grains("ma", os=os)
        assert selected(masters.b, f"os:{os}", TargetKind.GRAIN) == (["ma"], [])
    masters.a.register("ma", {"ssh": ["x"]}, grains={"ssh:x": {"rack": 7}})
    assert selected(masters.b, "rack:7", TargetKind.GRAIN) == ([], ["ssh:x"])
    assert selected(masters.b, "x", TargetKind.GLOB) == ([], ["ssh:x"])
    masters.b.grains("ma", os="BSD")
    assert selected(masters.a, "os:Debian", TargetKind.GRAIN) == ([], [])


def test_a_resource_of_a_minion_of_another_master_stays_with_it(masters: Masters) -> None:
    masters.a.register("ma", {"ssh": ["x", "y"]})
    said = masters.b.register("mb", {"ssh": ["y", "z"]})
    assert said["names"] == ["ssh:y is managed by ma, and stays so"]
    assert masters.b.owned("mb") == {"ssh": ["z"]}
    masters.a.give_up("ma", {"ssh": ["x"]})
    assert masters.asked_elsewhere("a") == [{"by": "a", "minions": ["mb"], "what": "resources"}]
    assert masters.b.register("mb", {"ssh": ["y", "z"]})["names"] == []
    masters.a.master.begin_request()
    assert masters.a.owned("mb") == {"ssh": ["y", "z"]}


def test_where_the_newest_wins_a_former_minion_of_another_master_does_not_take_it_back(
    made: Callable[..., Masters],
) -> None:
    masters = made(RegistrationRules(conflict=Conflict.NEWEST))
    masters.a.register("ma", {"ssh": ["x"]}, grains={"ssh:x": {"of": "ma"}})
    masters.b.register("mb", {"ssh": ["x"]}, grains={"ssh:x": {"of": "mb"}})
    assert masters.a.register("ma", {"ssh": ["x"]})["names"] == ["ssh:x is managed by mb, and stays so"]
    assert selected(masters.a, "of:mb", TargetKind.GRAIN) == ([], ["ssh:x"])


def test_no_key_is_accepted_under_the_name_of_a_resource_that_another_master_registered(masters: Masters) -> None:
    masters.b.master.begin_request()
    assert masters.b.owned("ma") == {}
    masters.a.register("ma", {"ssh": ["md"]})
    masters.b.add_keys("md", state=KeyState.PENDING)
    answer = masters.b.ask("key_change", action="accept", fingerprints=[str(key(MinionId("md")).fingerprint)])
    (refused,) = answer.fields["refused"]
    assert "a resource has this id: ssh:md (of ma)" in refused["reason"]


def test_the_mine_of_a_minion_that_moved_is_not_lost(masters: Masters) -> None:
    for rig, name in ((masters.a, "one"), (masters.b, "two"), (masters.a, "three")):
        rig.master.begin_request()
        data = encode({"n": name}, DOCUMENT)
        mine.put(rig.master, MA, {"offers": {name: [sha256(data), "", "glob"]}, "values": {name: data}, "clear": False})
    for rig in (masters.a, masters.b):
        answer = rig.ask("mine_get", tgt="ma", tgt_type="glob", functions=["one", "two", "three"])
        assert {name: list(found) for name, found in answer.fields["values"].items()} == {
            "one": ["ma"],
            "two": ["ma"],
            "three": ["ma"],
        }


def test_a_cleared_cache_is_asked_for_where_the_sessions_are(masters: Masters) -> None:
    for minion in (MA, MB, MC):
        masters.a.grains(minion, os="Debian")
    assert masters.b.ask("cache_clear", tgt="*", tgt_type="glob", banks=["grains"]).fields == {"cleared": 3}
    assert masters.b.link.wanted == [("ma", "grains"), ("mb", "grains"), ("mc", "grains")]
    assert masters.asked_elsewhere("b") == [{"by": "b", "minions": ["ma"], "what": "grains"}]
    assert selected(masters.a, "os:Debian", TargetKind.GRAIN) == ([], [])


def test_a_key_that_is_deleted_on_one_master_takes_its_resources_from_all(masters: Masters) -> None:
    masters.a.register("ma", {"ssh": ["x"]})
    masters.a.grains("ma", os="Debian")
    masters.b.ask("key_change", action="delete", fingerprints=[str(key(MA).fingerprint)])
    masters.a.master.begin_request()
    assert masters.a.owned("ma") == {}
    assert masters.a.master.banks.bank(GRAINS).get("ma") is None


def test_without_the_database_no_target_is_resolved(masters: Masters, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise StoreError("the database cannot be reached")

    masters.a.grains("ma", os="Debian")
    monkeypatch.setattr(masters.disk.inventory, "head", away)
    with pytest.raises(StoreError, match="cannot be reached"):
        selected(masters.b, "os:Debian", TargetKind.GRAIN)


def test_who_cannot_be_asked_elsewhere_is_named_in_the_log(
    masters: Masters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_args: object) -> None:
        raise StoreError("the database cannot be reached")

    monkeypatch.setattr(MemoryStore, "minions", away)
    masters.b.master.asking.fetch("ma", "grains")
    assert masters.asked_elsewhere("b") == []
    assert "minions of other masters are not asked for their grains: the database" in caplog.text
