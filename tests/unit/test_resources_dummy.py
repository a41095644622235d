"""The resource type `dummy`: ids, states and the troubles that its pillar asks for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError
from tests.support.modules import TypeHere

DummyMaker = Callable[..., TypeHere]


@pytest.fixture
def dummy(tmp_path: Path) -> DummyMaker:
    return lambda **pillar: TypeHere("dummy", tmp_path, pillar)


def failures(type_: TypeHere, resource_id: str, calls: int) -> list[bool]:
    found = []
    for _ in range(calls):
        try:
            type_.on(resource_id)("test.ping")
        except CommandExecutionError:
            found.append(True)
        else:
            found.append(False)
    return found


def test_named_and_counted_ids_are_discovered_once_each(dummy: DummyMaker) -> None:
    found = dummy(resource_ids=["web-1", "d2"], count=3, prefix="d").ids()
    assert found == ["web-1", "d2", "d1", "d3"]


def test_a_pillar_without_dummies_has_none(tmp_path: Path) -> None:
    assert TypeHere("dummy", tmp_path, None).ids() == []


def test_a_replaced_pillar_is_read_again(dummy: DummyMaker) -> None:
    type_ = dummy(count=1)
    type_.has_pillar({"resources": {"dummy": {"count": 2}}})
    assert type_.ids() == ["dummy-1", "dummy-2"]


def test_ids_come_from_the_key_that_the_minion_is_configured_with(tmp_path: Path) -> None:
    type_ = TypeHere("dummy", tmp_path, {}, {"resource_pillar_key": "devices"})
    type_.has_pillar({"devices": {"dummy": {"resource_ids": ["d1"]}}})
    assert type_.ids() == ["d1"]


@pytest.mark.parametrize(
    ("pillar", "named"),
    [
        ({"cuont": 3}, "'cuont'"),
        ({"count": -1}, "count"),
        ({"count": 1_000_001}, "1e\\+06"),
        ({"failure_rate": 1.5}, "failure_rate"),
        ({"latency": "soon"}, "latency"),
        ({"latency": 86_401}, "86400"),
        ({"hang": "web-1"}, "hang"),
        ({"resource_ids": {"web-1": {}}}, "resource_ids"),
    ],
)
def test_a_pillar_that_cannot_be_used_is_refused_by_name(dummy: DummyMaker, pillar: dict[str, Any], named: str) -> None:
    with pytest.raises(CommandExecutionError, match=named):
        dummy(**pillar)


def test_grains_are_those_of_the_resource(dummy: DummyMaker) -> None:
    type_ = dummy(count=2)
    type_.refresh("dummy-2")
    assert type_.on("dummy-2")("grains.items") == {
        "dummy_grain_1": "one",
        "dummy_grain_2": "two",
        "dummy_grain_3": "three",
        "resource_id": "dummy-2",
    }
    assert type_.on("dummy-2")("grains.item", "resource_id", "nothing", default="-") == {
        "resource_id": "dummy-2",
        "nothing": "-",
    }


def test_services_begin_as_documented_and_can_be_changed(dummy: DummyMaker) -> None:
    on = dummy(count=1).on("dummy-1")
    assert [name for name in on("service.get_all") if on("service.status", name)] == ["apache", "ntp"]
    assert on("service.start", "samba") is True
    assert on("service.stop", "ntp") is True
    assert [name for name in on("service.get_all") if on("service.status", name)] == ["apache", "samba"]
    with pytest.raises(CommandExecutionError, match="no service 'nginx'"):
        on("service.restart", "nginx")


def test_packages_begin_as_documented_and_changes_are_told(dummy: DummyMaker) -> None:
    on = dummy(count=1).on("dummy-1")
    assert on("pkg.list_pkgs") == {"coreutils": "1.0", "apache": "2.4", "tinc": "1.4", "redbull": "999.99"}
    assert on("pkg.install", "vim", version="9.1") == {"vim": {"old": "", "new": "9.1"}}
    assert on("pkg.install", "vim", version="9.1") == {}
    assert on("pkg.remove", "tinc") == {"tinc": {"old": "1.4", "new": ""}}
    assert on("pkg.upgrade")["apache"] == {"old": "2.4", "new": "3.4"}
    assert on("pkg.version", "vim", "tinc") == {"vim": "10.1", "tinc": ""}


def test_states_outlive_the_process_and_belong_to_one_resource(tmp_path: Path) -> None:
    TypeHere("dummy", tmp_path, {"count": 2}).on("dummy-1")("service.stop", "apache")
    later = TypeHere("dummy", tmp_path, {"count": 2})
    assert later.on("dummy-1")("service.status", "apache") is False
    assert later.on("dummy-2")("service.status", "apache") is True


@pytest.mark.parametrize("own_id", ["a:b", "../../etc", "..", "ä" * 120, "%2E", "a b"])
def test_any_id_has_one_file_in_the_folder_of_the_type(tmp_path: Path, own_id: str) -> None:
    on = TypeHere("dummy", tmp_path, {}).on(own_id)
    on("service.stop", "apache")
    assert on("service.status", "apache") is False
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.parent for path in files] == [tmp_path / "dummy-resources"]


def test_ids_that_differ_behind_the_length_of_a_file_name_have_states_of_their_own(tmp_path: Path) -> None:
    type_ = TypeHere("dummy", tmp_path, {})
    type_.on("x" * 220 + "1")("service.stop", "apache")
    assert type_.on("x" * 220 + "2")("service.status", "apache") is True


def test_a_rate_of_one_fails_every_call_and_none_fails_none(dummy: DummyMaker) -> None:
    assert failures(dummy(failure_rate=1), "d1", 5) == [True] * 5
    assert failures(dummy(failure_rate=0), "d1", 5) == [False] * 5


def test_the_same_calls_fail_again(dummy: DummyMaker) -> None:
    first = failures(dummy(failure_rate=0.3), "d1", 200)
    assert first == failures(dummy(failure_rate=0.3), "d1", 200)
    assert 30 < sum(first) < 90
    assert first != failures(dummy(failure_rate=0.3), "d2", 200)


def test_every_slot_pays_the_latency(dummy: DummyMaker) -> None:
    on = dummy(latency=0.03).on("d1")
    for call in (("test.ping",), ("test.echo", "x"), ("service.status", "ntp"), ("pkg.list_pkgs",)):
        began = time.monotonic()
        on(*call)
        assert time.monotonic() - began >= 0.03


def test_a_resource_that_hangs_does_not_answer_and_others_do(dummy: DummyMaker) -> None:
    type_ = dummy(hang=["d1"])
    thread = threading.Thread(target=type_.on("d1"), args=("test.ping",), daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert type_.on("d2")("test.ping") is True


def test_fail_raises_its_message_and_arg_shows_what_arrived(dummy: DummyMaker) -> None:
    on = dummy(count=1).on("dummy-1")
    with pytest.raises(CommandExecutionError, match="out of paper"):
        on("test.fail", "out of paper")
    assert on("test.arg", 1, "a b", x=[2], __pub_jid="j") == {"args": [1, "a b"], "kwargs": {"x": [2]}}


def test_a_ping_costs_little_enough_for_load_tests(dummy: DummyMaker) -> None:
    on = dummy(count=1, failure_rate=0).on("dummy-1")
    began = time.process_time()
    for _ in range(2000):
        on("test.ping")
    assert (time.process_time() - began) / 2000 < 100e-6


def test_after_shutdown_the_type_is_not_initialized(dummy: DummyMaker) -> None:
    type_ = dummy(count=1)
    assert type_.type.initialized() is True
    type_.type.shutdown()
    assert type_.type.initialized() is False
