"""What minions reported to masters that share a store: its inventory, and the copies of it that each master follows."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from saltlite.errors import StoreError
from saltlite.master.store import projection as module
from saltlite.master.store.banks import LocalBanks
from saltlite.master.store.projection import Projection
from saltlite.master.store.sharing import CopyPiece, SharedInventory, SharedValue
from saltlite.resources.registry.mmap import FILE, ResourceRegistry
from saltlite.resources.registry.registry import Conflict
from saltlite.targeting.banks import GRAINS, NAMES, PILLAR
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from tests.contract.conftest import SEAL_KEY, OpenInventory, OpenMaster

VALUE = SharedValue(GRAINS, "web-1", "abc", 12.5, b"data")


@pytest.fixture
def rows(open_inventory: OpenInventory) -> SharedInventory:
    return open_inventory()


# -- the inventory


def test_each_change_of_a_value_has_the_next_number(rows: SharedInventory) -> None:
    assert rows.head() == (0, 0)
    assert [rows.put_value(VALUE), rows.put_value(VALUE._replace(bank=PILLAR))] == [1, 2]
    assert rows.put_value(VALUE._replace(data=b"", at=13.5)) == 3
    expected = [VALUE._replace(bank=PILLAR, seq=2), VALUE._replace(data=b"", at=13.5, seq=3)]
    assert rows.values(0) == expected
    assert rows.values(2) == expected[1:]
    assert rows.head().seq == 3


def test_a_deleted_value_is_a_change_until_it_is_pruned(rows: SharedInventory) -> None:
    rows.put_value(VALUE)
    assert rows.delete_value(GRAINS, "web-2", 14.0) == 0
    assert rows.delete_value(GRAINS, "web-1", 14.0) == 2
    assert rows.delete_value(GRAINS, "web-1", 15.0) == 0
    assert rows.values(0) == [SharedValue(GRAINS, "web-1", "", 14.0, None, 2)]
    rows.prune(1)
    assert len(rows.values(0)) == 1
    rows.prune(2)
    assert (rows.values(0), rows.head()) == ([], (2, 2))
    assert rows.put_value(VALUE) == 3


def test_values_are_read_in_pages_that_are_limited_by_number_and_by_bytes(rows: SharedInventory) -> None:
    for number in range(5):
        rows.put_value(VALUE._replace(key=f"web-{number}", data=b"x" * 100))
    assert [row.seq for row in rows.values(0, limit=2)] == [1, 2]
    assert [row.seq for row in rows.values(1, size=150)] == [2, 3]
    assert [row.seq for row in rows.values(4, size=1)] == [5]


def test_owners_change_together_and_only_while_no_other_master_changes_them(open_inventory: OpenInventory) -> None:
    one, other = open_inventory(), open_inventory()
    with one.registering() as commit:
        assert commit([("ssh:a", "m1"), ("ssh:b", "m1")]) == 1
    with other.registering() as commit:
        assert sorted(other.owners(0)) == [("ssh:a", "m1"), ("ssh:b", "m1")]
        assert commit([("ssh:a", None), ("ssh:c", "m2")]) == 2
    assert sorted(one.owners(1)) == [("ssh:a", None), ("ssh:c", "m2")]
    one.prune(2)
    assert sorted(other.owners(0)) == [("ssh:b", "m1"), ("ssh:c", "m2")]


def test_registering_without_a_commit_changes_nothing(rows: SharedInventory) -> None:
    with pytest.raises(StoreError, match="open already"), rows.registering():
        rows.put_value(VALUE)
    with rows.registering():
        pass
    assert (rows.head().seq, rows.owners(0), rows.values(0)) == (0, [], [])


def test_only_an_inventory_that_was_never_used_adopts_anything(open_inventory: OpenInventory) -> None:
    open_inventory().adopt([VALUE, VALUE._replace(key="web-2")], [("ssh:a", "m1")])
    other = open_inventory()
    other.adopt([VALUE._replace(key="web-3")], [("ssh:b", "m1")])
    assert ([row.key for row in other.values(0)], other.owners(0)) == (["web-1", "web-2"], [("ssh:a", "m1")])
    assert other.put_value(VALUE) == other.head().seq > 2


def test_pieces_of_copies_are_replaced_and_go_by_area_and_by_age(rows: SharedInventory) -> None:
    rows.put_pieces([CopyPiece("x", -1, 10.0, b"1"), CopyPiece("x", 0, 10.0, b"a")])
    rows.put_pieces([CopyPiece("x", -1, 20.0, b"2"), CopyPiece("y", 0, 20.0, b"")])
    assert [rows.piece("x", -1), rows.piece("x", 0), rows.piece("y", 0), rows.piece("y", 1)] == [b"2", b"a", b"", None]
    rows.expire_pieces(20.0)
    assert [rows.piece("x", -1), rows.piece("x", 0)] == [b"2", None]
    rows.delete_pieces("x")
    assert [rows.piece("x", -1), rows.piece("y", 0)] == [None, b""]
    assert rows.head().seq == 0


# -- values on all masters


def test_a_value_that_one_master_put_is_there_on_the_others(open_master: OpenMaster) -> None:
    a, b = open_master("a"), open_master("b")
    a.banks.bank(GRAINS).put("web-1", {"os": "Debian"}, "abc")
    cursor = b.banks.bank(GRAINS).changes("").cursor
    b.look_again()
    changes = b.banks.bank(GRAINS).changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"web-1"}, False)
    bank = b.banks.bank(GRAINS)
    assert (bank.get("web-1"), bank.digest("web-1"), bank.keys()) == ({"os": "Debian"}, "abc", ["web-1"])
    put_at = a.banks.bank(GRAINS).changed_at("web-1") or 0.0
    assert abs((bank.changed_at("web-1") or 0.0) - put_at) < 0.001
    assert bank.delete("web-1")
    assert not bank.delete("web-1")
    a.look_again()
    assert a.banks.bank(GRAINS).get("web-1") is None


def test_two_masters_that_put_in_turn_have_the_same(open_master: OpenMaster) -> None:
    masters = [open_master("a"), open_master("b")]
    for number in range(40):
        bank = masters[number % 2].banks.bank([GRAINS, PILLAR][number % 3 == 0])
        if number % 7 == 6:
            bank.delete(f"m{number % 5}")
        else:
            bank.put(f"m{number % 5}", {"n": number}, str(number))
    for one in masters:
        one.follow()
    a, b = (
        {name: {key: one.banks.bank(name).get(key) for key in one.banks.bank(name).keys()} for name in NAMES}  # noqa: SIM118 - a bank is not a dict
        for one in masters
    )
    assert a == b
    assert a[GRAINS]


def test_the_store_is_asked_once_in_a_request_and_sends_nothing_when_nothing_changed(
    open_master: OpenMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = open_master("a")
    a.registry.register_minion("m1", {"ssh": ["a"]})
    a.banks.bank(GRAINS).put("m1", {})
    asked: Counter[str] = Counter()
    for name in ("head", "values", "owners"):
        real = getattr(a.rows, name)
        monkeypatch.setattr(a.rows, name, lambda *args, n=name, real=real: (asked.update([n]), real(*args))[1])
    for _ in range(2):
        a.look_again()
        assert a.registry.views().owner("ssh", "a") is not None
        assert a.banks.bank(GRAINS).changes("").keys == {"m1"}
        assert a.banks.bank(GRAINS).get("m1") == {}
    assert asked == {"head": 2}


def test_a_new_master_gets_all_that_there_is(open_master: OpenMaster, tmp_path: Path) -> None:
    a = open_master("a")
    for number in range(5):
        a.banks.bank(GRAINS).put(f"m{number}", {"n": number})
    a.banks.bank(GRAINS).delete("m3")
    a.registry.register_minion("m1", {"ssh": ["a", "b"]})
    LocalBanks(str(tmp_path / "b")).bank(GRAINS).put("of-a-former-life", {})
    b = open_master("b")
    assert b.banks.bank(GRAINS).keys() == ["m0", "m1", "m2", "m4"]
    assert b.registry.get_resources_for_minion("m1") == {"ssh": ["a", "b"]}


def test_the_first_master_brings_what_it_had_alone(open_master: OpenMaster, tmp_path: Path) -> None:
    banks, registry = LocalBanks(str(tmp_path / "a")), ResourceRegistry({"cachedir": str(tmp_path / "a")})
    banks.bank(GRAINS).put("m1", {"os": "Debian"}, "abc")
    registry.register_minion("m1", {"ssh": ["a", "b"]})
    banks.close()
    registry.close()
    open_master("a")
    b = open_master("b")
    assert (b.banks.bank(GRAINS).get("m1"), b.banks.bank(GRAINS).digest("m1")) == ({"os": "Debian"}, "abc")
    assert b.registry.get_resources_for_minion("m1") == {"ssh": ["a", "b"]}


# -- seals


def test_who_reads_the_store_reads_no_value(open_master: OpenMaster) -> None:
    a = open_master("a")
    a.banks.bank(PILLAR).put("m1", {"password": "correct horse"})
    (row,) = [row for row in a.rows.values(0) if row.data is not None]
    assert (row.bank, row.key) == (PILLAR, "m1")
    assert b"horse" not in (row.data or b"")


@pytest.mark.parametrize("change", [{"key": "m2"}, {"bank": PILLAR}, {"digest": "other"}, {"data": b"short"}])
def test_a_value_that_no_master_sealed_is_ignored_until_its_minion_sends_it(
    open_master: OpenMaster, change: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = open_master("a"), open_master("b")
    a.banks.bank(GRAINS).put("m1", {"os": "Debian"}, "abc")
    (row,) = [row for row in a.rows.values(0) if row.data is not None]
    forged = row._replace(**change)  # type: ignore[arg-type]
    a.rows.put_value(forged)
    b.follow()
    assert b.banks.bank(forged.bank).get(forged.key) is None
    assert "were not put by a master" in caplog.text
    b.banks.bank(forged.bank).put(forged.key, {"os": "BSD"})
    a.follow()
    assert a.banks.bank(forged.bank).get(forged.key) == {"os": "BSD"}


def test_a_master_with_another_key_reads_nothing(open_master: OpenMaster) -> None:
    open_master("a").banks.bank(GRAINS).put("m1", {})
    assert open_master("b", seal_key=bytes(32)).banks.bank(GRAINS).get("m1") is None


@pytest.mark.parametrize("bad", [("ssh", "m1"), ("ssh:a\nb", "m1"), ("S S H:a", "m1"), ("ssh:a", "../m")])
def test_a_row_of_a_stranger_becomes_no_resource(
    open_master: OpenMaster, bad: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    a, b = open_master("a"), open_master("b")
    with a.rows.registering() as commit:
        commit([bad, ("ssh:good", "m1")])
    b.follow()
    assert b.registry.get_resources_for_minion("m1") == {"ssh": ["good"]}
    assert "is ignored" in caplog.text


# -- resources


def test_a_resource_has_one_minion_on_all_masters(open_master: OpenMaster) -> None:
    a, b = open_master("a"), open_master("b")
    assert a.registry.register("m1", {"ssh": ["x", "y"]}).put == 2
    done = b.registry.register("m2", {"ssh": ["y", "z"]})
    assert (done.put, done.refused) == (1, (("ssh:y", "m1"),))
    a.look_again()
    assert a.registry.get_managing_minions_for_srn("ssh", "z") == ["m2"]
    taken = a.registry.register("m2", {"ssh": ["y", "z"]}, conflict=Conflict.NEWEST)
    assert taken.taken == (("ssh:y", "m1"),)
    b.look_again()
    assert b.registry.get_resources_for_minion("m2") == {"ssh": ["y", "z"]}
    assert b.registry.unregister_minion("m2") == 2
    a.look_again()
    assert a.registry.resolve_bare_resource_id("z") == []
    assert a.registry.get_resource_ids_by_type("ssh") == ["x"]


def test_a_transfer_on_one_master_holds_on_the_other(open_master: OpenMaster) -> None:
    a, b = open_master("a"), open_master("b")
    a.registry.register_minion("m1", {"ssh": ["x"]})
    b.look_again()
    assert b.registry.transfer("ssh", "x", "m2") == "m1"
    a.look_again()
    assert a.registry.views().owner("ssh", "x").minion == "m2"  # type: ignore[union-attr]


# -- lost and damaged copies


def filled(open_master: OpenMaster) -> Projection:
    """A master with a value and resources."""
    a = open_master("a")
    a.banks.bank(GRAINS).put("m1", {"os": "Debian"}, "abc")
    a.banks.bank(PILLAR).put("m1", {"role": "web"})
    a.registry.register_minion("m1", {"ssh": ["a", "b"]})
    return a


def check_filled(a: Projection) -> None:
    a.look_again()
    assert a.banks.bank(GRAINS).changes("").keys >= {"m1"}
    assert (a.banks.bank(GRAINS).get("m1"), a.banks.bank(GRAINS).digest("m1")) == ({"os": "Debian"}, "abc")
    assert a.banks.bank(PILLAR).get("m1") == {"role": "web"}
    assert {"a", "b"} <= set(a.registry.get_resources_for_minion("m1")["ssh"])
    assert a.registry.get_managing_minions_for_srn("ssh", "nothing") == []


@pytest.mark.parametrize("lost", [FILE, "banks", "banks/grains", "banks/.cursor", "resources", "banks/.lock", ""])
def test_what_is_removed_under_a_master_comes_back_from_the_store(
    open_master: OpenMaster, tmp_path: Path, lost: str
) -> None:
    a, process = filled(open_master), open_master("a")
    place = tmp_path / "a" / lost
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    check_filled(a)
    open_master("b").registry.register_minion("m2", {"ssh": ["c"]})
    for one in (a, process, open_master("a")):
        check_filled(one)
        assert one.registry.get_managing_minions_for_srn("ssh", "c") == ["m2"]
        assert sorted(one.registry.views().by_minion) == ["m1", "m2"]


def test_a_damaged_value_comes_back_from_the_store(open_master: OpenMaster, tmp_path: Path) -> None:
    a = filled(open_master)
    file = tmp_path / "a/banks/grains/m1"
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    assert a.banks.bank(GRAINS).get("m1") == {"os": "Debian"}
    check_filled(a)


def test_a_damaged_registry_comes_back_from_the_store(open_master: OpenMaster, tmp_path: Path) -> None:
    a, process = filled(open_master), open_master("a")
    with (tmp_path / "a" / FILE).open("r+b") as file:
        file.seek(file.read().index(b'{"m":"m1"'))
        file.write(b"XXXX")
    assert a.registry.verify().problems
    for one in (a, process):
        check_filled(one)


def test_after_a_failover_that_lost_changes_all_is_copied_anew(tmp_path: Path) -> None:
    disk = MemoryStoreDisk()
    a = Projection(MemoryStore(disk).inventory(), {"cachedir": str(tmp_path)}, SEAL_KEY)
    a.banks.bank(GRAINS).put("m1", {"os": "Debian"}, "abc")
    sealed = disk.inventory.values(0)[0]
    a.banks.bank(GRAINS).put("m2", {})
    a.registry.register_minion("m1", {"ssh": ["a"]})
    seq = disk.inventory.head().seq
    disk.inventory.__init__()  # type: ignore[misc]
    disk.inventory.place = "promoted"
    while disk.inventory.head().seq < seq:
        disk.inventory.put_value(sealed)
    a.look_again()
    assert a.banks.bank(GRAINS).keys() == ["m1"]
    assert a.registry.get_resources_for_minion("m1") == {}


def test_who_has_not_followed_since_deletions_were_forgotten_copies_all_anew(
    open_master: OpenMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRUNE_EVERY", 1)
    monkeypatch.setattr(module, "DELETIONS_KEPT", 2)
    a, b = open_master("a"), open_master("b")
    a.banks.bank(GRAINS).put("m1", {})
    a.registry.register_minion("m1", {"ssh": ["a"]})
    b.follow()
    a.banks.bank(GRAINS).delete("m1")
    a.registry.unregister_minion("m1")
    for number in range(3):
        a.banks.bank(GRAINS).put("m2", {"n": number})
    assert [row.key for row in a.rows.values(0)] == ["m2"]
    assert a.rows.owners(0) == []
    b.look_again()
    assert b.banks.bank(GRAINS).keys() == ["m2"]
    assert b.registry.views().by_minion == {}


def test_files_of_an_earlier_start_of_the_machine_are_copied_anew(open_master: OpenMaster, tmp_path: Path) -> None:
    a = filled(open_master)
    cursor = tmp_path / "a/banks/.cursor"
    cursor.write_bytes(cursor.read_bytes().replace(a.registry._primary._file.boot.hex().encode(), b"00"))  # type: ignore[attr-defined]
    (tmp_path / "a/banks/grains/m1").unlink()
    check_filled(open_master("a"))


def test_a_full_disk_is_a_sentence_and_the_next_look_catches_up(
    open_master: OpenMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = filled(open_master), open_master("b")
    a.banks.bank(GRAINS).put("m2", {})
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda *_args, **_more: (_ for _ in ()).throw(OSError(28, "No space left")))
    b.look_again()
    with pytest.raises(StoreError, match=r"cannot be (used|written): No space left"):
        b.banks.bank(GRAINS).get("m2")
    monkeypatch.setattr(os, "replace", real)
    assert b.banks.bank(GRAINS).get("m2") == {}
