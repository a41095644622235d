"""The grains that come with a registration: which are kept, and that others do not wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.master.handlers import registration
from saltlite.resources.registry import admission
from saltlite.targeting.banks import RESOURCE_GRAINS
from saltlite.wire.codec import CONTAINERS_MAX
from tests.support.master import MasterRig

DUMMIES = {"dummy": ["d1", "d2"]}
PING = "test.ping()"


@pytest.fixture
def rig() -> MasterRig:
    return MasterRig("ma", "mb", "mc")


def test_grains_of_what_is_not_in_the_registration_are_not_kept(rig: MasterRig) -> None:
    said = rig.register("ma", DUMMIES, grains={"dummy:d1": {}, "dummy:d9": {"a": 1}, "../../x": {"a": 1}})
    assert said["state"] == "ok"
    assert said["names"] == [
        "'../../x' has grains and is not registered",
        "'dummy:d9' has grains and is not registered",
    ]
    assert list(rig.ask("resource_list_grains").fields["resources"]) == ["dummy:d1"]


def test_grains_of_a_resource_of_another_minion_are_not_kept(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"of": "ma"}})
    rig.register("mb", {"dummy": ["d1"]}, grains={"dummy:d1": {"of": "mb"}})
    assert rig.ask("resource_grains", type="dummy", id="d1").fields["grains"] == {"of": "ma"}


def test_grains_that_could_not_be_collected_stay_and_are_marked_stale(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}, "dummy:d2": {"n": 2}})
    rig.clock.advance(100.0)
    rig.register("ma", DUMMIES, grains={"dummy:d2": {"n": 3}}, stale=["dummy:d1"])
    rows = rig.ask("resource_list_grains").fields["resources"]
    assert rows["dummy:d1"]["stale_since"] == rig.clock.wall()
    assert rows["dummy:d2"]["stale_since"] is None
    assert rig.ask("resource_grains", type="dummy", id="d1").fields["grains"] == {"n": 1}


def test_too_large_grains_of_one_resource_are_withheld_alone(rig: MasterRig) -> None:
    grains = {"dummy:d1": {"a": "x" * 65_536}, "dummy:d2": {"a": "x"}}
    said = rig.register("ma", DUMMIES, grains=grains)
    assert said["names"][0].startswith("the grains of dummy:d1 were not kept: ")
    assert list(rig.ask("resource_list_grains").fields["resources"]) == ["dummy:d2"]
    assert rig.owned("ma") == DUMMIES


def test_too_deep_grains_of_one_resource_are_withheld_alone(rig: MasterRig) -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    said = rig.register("ma", DUMMIES, grains={"dummy:d1": {"a": deep}, "dummy:d2": {"a": [1]}})
    (reason,) = said["names"]
    assert reason.startswith("the grains of dummy:d1 were not kept: ")
    assert list(rig.ask("resource_list_grains").fields["resources"]) == ["dummy:d2"]


def test_grains_whose_names_are_no_text_are_withheld_alone(rig: MasterRig) -> None:
    said = rig.register("ma", DUMMIES, grains={"dummy:d1": {5: 1}, "dummy:d2": {"a": 1}})
    assert said["names"] == ["the grains of dummy:d1 were not kept: they have names that are not text"]


LIMITS: dict[str, tuple[str, int, dict[str, Any], str]] = {
    "names of one": ("RESOURCE_KEYS_MAX", 2, {"a": 1, "b": 2, "c": 3}, "they have 3 names, and there may be 2"),
    "values of one": ("LEAVES_MAX", 2, {"a": [1, {"b": [], "c": 3}]}, "they have 3 values, and there may be 2"),
    "names of all": ("KEY_NAMES_MAX", 1, {"b": 1}, "those of all its resources have more than 1 different names"),
    "values of all": ("RESOURCE_LEAVES_MAX", 2, {"a": [1, 2]}, "those of all its resources have more than 2 values"),
    "bytes of all": (
        "RESOURCE_GRAINS_TOTAL_MAX",
        10,
        {"a": "x" * 10},
        "those of all its resources have more than 10 bytes",
    ),
}


@pytest.mark.parametrize(("limit", "most", "grains", "reason"), LIMITS.values(), ids=LIMITS.keys())
def test_grains_beyond_a_limit_are_refused_by_the_name_of_their_resource_and_the_old_ones_stay(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, grains: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(registration, limit, most)
    rig.register("ma", DUMMIES, grains={"dummy:d2": {"a": 0}})
    said = rig.register("ma", DUMMIES, grains={"dummy:d1": {"a": 1}, "dummy:d2": grains})
    assert said["names"] == [f"the grains of dummy:d2 were not kept: {reason}"]
    rows = rig.ask("resource_list_grains").fields["resources"]
    assert {srn: row["stale_since"] is not None for srn, row in rows.items()} == {"dummy:d1": False, "dummy:d2": True}
    assert rig.owned("ma") == DUMMIES


def test_grains_that_were_refused_leave_the_old_ones_marked_stale(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}})
    said = rig.register("ma", DUMMIES, grains={"dummy:d1": {str(n): n for n in range(257)}})
    assert said["names"] == ["the grains of dummy:d1 were not kept: they have 257 names, and there may be 256"]
    found = rig.ask("resource_grains", type="dummy", id="d1").fields
    assert (found["grains"], found["stale_since"]) == ({"n": 1}, rig.clock.wall())


def test_more_maps_than_the_largest_registration_needs_are_not_read(rig: MasterRig) -> None:
    rig.register("ma", DUMMIES)
    data = msgpack.packb({"resources": {}, "grains": {"x:y": {str(n): {} for n in range(CONTAINERS_MAX)}}})
    said = rig.send("ma", "resources", data)
    assert said["state"] == "refused"
    assert "too many maps and arrays" in said["names"][0]
    assert rig.owned("ma") == DUMMIES


def test_functions_beyond_a_size_refuse_the_registration(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "FUNCTIONS_BYTES_MAX", 20)
    said = rig.register("ma", DUMMIES, functions={"dummy": [PING, "test.echo(text)"]})
    assert said["names"] == ["its functions have 26 bytes, and there may be 20"]


def test_no_grains_are_read_or_written_while_others_wait_for_the_store(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    inside: list[bool] = []
    write, bank = rig.store.write, rig.master.banks.bank

    @contextmanager
    def noted_write() -> Iterator[Any]:
        with write() as store:
            inside.append(True)
            yield store
            inside.pop()

    class Noted:
        """The bank of grains, which notes whether the store is being written when it is used."""

        def __getattr__(self, name: str) -> Any:
            if name in ("get", "put"):
                seen.append(bool(inside))
            return getattr(bank(RESOURCE_GRAINS), name)

    monkeypatch.setattr(rig.store, "write", noted_write)
    monkeypatch.setattr(rig.master.banks, "bank", lambda name: Noted() if name == RESOURCE_GRAINS else bank(name))
    rig.register("ma", DUMMIES, grains={"dummy:d1": {"n": 1}})
    assert seen == [False, False]
