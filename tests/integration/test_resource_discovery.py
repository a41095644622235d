"""Which resources a minion finds and registers, with which grains, and what it reports about each type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from saltlite.loader.encode import decode_return
from saltlite.minion.jobs.job_process import JobSpec
from saltlite.minion.resources import discovery, server
from saltlite.model.resourcelook import bits_of
from saltlite.platform.reactor import Timer
from tests.support.modules import write
from tests.support.resource_server import CONNECTION, FILES, JID, MakeResourceRig


def test_what_is_found_is_registered_with_grains_and_what_the_slots_take(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    assert rig.found(["p2", "p1"])["resources"] == {"probe": ["p1", "p2"]}
    said = rig.until_grains("p1", "p2")
    assert said["grains"]["probe:p1"] == {"rid": "p1", "role": "probe"}
    assert said["stale"] == []
    assert "test.sleep(seconds)" in said["functions"]["probe"]


def test_ids_come_from_discover_alone_and_follow_it(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    assert rig.found(["d1"])["resources"] == {"probe": ["d1"]}
    assert rig.found(["d1", "d3"])["resources"] == {"probe": ["d1", "d3"]}
    assert rig.found(["d1"])["resources"] == {"probe": ["d1"]}
    assert rig.inventories == [{"probe": ["d1"]}, {"probe": ["d1", "d3"]}, {"probe": ["d1"]}]


def test_the_pillar_key_is_the_one_of_the_configuration(make_rig: MakeResourceRig) -> None:
    rig = make_rig(pillar_key="things")
    rig.server.pillar_is({"things": {"probe": {}}, "resources": {"probe": {"ids": ["p1"]}}})
    rig.until(lambda: rig.registered)
    assert rig.registered[-1]["resources"] == {"probe": ["p1"]}


def test_an_empty_pillar_key_is_the_default_one_and_a_warning(make_rig: MakeResourceRig, log_file: Path) -> None:
    assert make_rig(pillar_key="").found(["p1"])["resources"] == {"probe": ["p1"]}
    assert "option resource_pillar_key is empty, and resources is used" in log_file.read_text()


def test_the_same_pillar_again_is_no_reason_to_look(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1"])
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1"]}}})
    rig.values(["p1"], "test.ping")
    assert rig.count("grains") == 1


def test_a_look_that_is_asked_for_finds_what_has_changed_outside(make_rig: MakeResourceRig) -> None:
    changing = CONNECTION.replace(
        'return __pillar__["resources"]["probe"]["ids"]', "return os.listdir(opts['cachedir'])"
    )
    rig = make_rig({**FILES, "resources/probe/__init__": changing})
    rig.found([])
    (rig.folder / "cache/new").touch()
    over: list[bool] = []
    rig.server.looked(lambda: over.append(True))
    rig.until(lambda: over)
    assert "new" in rig.registered[-1]["resources"]["probe"]


def test_without_the_key_there_are_no_resources_any_more(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["d1"])
    rig.server.pillar_is({})
    rig.until(lambda: rig.registered[-1]["resources"] == {})
    rig.until(lambda: rig.count("shutdowns") == 1)


def test_grains_that_cannot_be_collected_are_named_and_the_others_are_there(
    make_rig: MakeResourceRig, log_file: Path
) -> None:
    rig = make_rig()
    assert rig.found(["p1", "bad"])["resources"] == {"probe": ["bad", "p1"]}
    assert rig.until_grains("p1")["stale"] == ["probe:bad"]
    why = "the grains of probe:bad could not be collected: ValueError: no grains here"
    rig.until(lambda: why in log_file.read_text())


def test_what_cannot_be_an_id_is_left_out(make_rig: MakeResourceRig, log_file: Path) -> None:
    said = make_rig().found(["p1", "a/b", "..", "a b", "x*", 5, "p1"])  # type: ignore[list-item]
    assert said["resources"] == {"probe": ["p1"]}
    assert "resource type probe: ids are skipped: 'a/b' is not a resource id" in log_file.read_text()


def test_init_that_fails_is_what_the_resources_answer(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    assert rig.found(["p1"], init_fails=True)["resources"] == {"probe": ["p1"]}
    assert rig.values(["p1"], "test.ping") == {
        "p1": "Resource type 'probe' is not initialised: init() raised ValueError: no route"
    }


def test_resources_that_the_master_withholds_are_not_in_the_inventory(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2", "p3"])
    assert rig.inventories[-1] == {"probe": ["p1", "p2", "p3"]}
    rig.server.registered(bits_of([True, False, True]))
    assert rig.inventories[-1] == {"probe": ["p2"]}
    rig.found(["p1", "p2", "p3", "p4"])
    assert rig.inventories[-1] == {"probe": ["p2", "p4"]}
    # The whole registration was refused: what the master took before is left.
    rig.server.registered(None)
    assert rig.inventories[-1] == {"probe": ["p2"]}
    rig.server.registered(b"")
    assert rig.inventories[-1] == {"probe": ["p1", "p2", "p3", "p4"]}


HIDING = """
    def init(opts):
        raise ConnectionError("no route to the controller")
    def initialized(): return True
    def discover(opts): return []
    def grains(): return {}
"""


def test_a_custom_type_whose_init_fails_leaves_the_resources_to_the_shipped_type(
    make_rig: MakeResourceRig, log_file: Path
) -> None:
    rig = make_rig({"resources/dummy/__init__": HIDING, "resources/dummy/modules/extra": "def f(): return 1\n"})
    rig.server.pillar_is({"resources": {"dummy": {"resource_ids": ["d1", "d2"]}}})
    rig.until(lambda: rig.registered and rig.registered[-1]["resources"])
    assert rig.registered[-1]["resources"] == {"dummy": ["d1", "d2"]}
    report = rig.registered[-1]["reports"]["dummy"]
    assert (report["loaded"], report["initialised"], report["found"]) == (True, True, 2)
    why = "the shipped type takes its place: init() raised ConnectionError: no route to the controller"
    assert why in report["error"]
    assert why in log_file.read_text()
    part = rig.begin(["d1"], "test.ping", kind="dummy")
    rig.until(lambda: part in rig.done)
    assert [decode_return(row.body) for row in rig.rows(part).values()] == [True]


def test_a_type_that_does_not_load_takes_no_other_with_it(make_rig: MakeResourceRig, log_file: Path) -> None:
    rig = make_rig({**FILES, "resources/broken/__init__": "raise ValueError('no')\n"})
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1"]}, "broken": {}, "nosuch": {}, "not a type": {}}})
    rig.until(lambda: rig.registered)
    assert rig.registered[-1]["resources"] == {"probe": ["p1"]}
    text = log_file.read_text()
    assert "No resource loader available for type 'nosuch': there is no nosuch/__init__.py" in text
    assert "No resource loader available for type 'broken': 'broken' could not be imported: ValueError: no" in text
    assert "'not a type' is not a resource type" in text


def test_a_type_without_files_is_tried_less_and_less_often_and_said_once(
    make_rig: MakeResourceRig, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "AGAIN_S", 0.05)
    monkeypatch.setattr(server, "AGAIN_MAX_S", 0.2)
    rig = make_rig()
    waits: list[float] = []
    call_later = rig.reactor.call_later

    def noted(seconds: float, call: Callable[[], None]) -> Timer:
        if call.__qualname__.startswith("TypeSupervisor._found_ids"):
            waits.append(seconds)
        return call_later(seconds, call)

    monkeypatch.setattr(rig.reactor, "call_later", noted)
    rig.server.pillar_is({"resources": {"nosuch": {}}})
    rig.until(lambda: len(waits) == 4)
    assert waits == [0.05, 0.1, 0.2, 0.2]
    assert log_file.read_text().count("No resource loader available for type 'nosuch'") == 1
    over: list[bool] = []
    rig.server.refresh(lambda: over.append(True))
    rig.until(lambda: over)
    assert waits[-1] == 0.05


def test_a_look_finds_new_files_of_the_type(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1"])
    write(rig.folder, {"resources/probe/modules/more": "def f():\n    return 'more'\n"})
    over: list[bool] = []
    rig.server.refresh(lambda: over.append(True))
    rig.until(lambda: over)
    assert rig.values(["p1"], "more.f") == {"p1": "more"}
    assert "more.f" in " ".join(rig.registered[-1]["functions"]["probe"])


def test_ids_are_registered_before_slow_grains_are_there(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    slow = rig.hold("slow")
    assert rig.found(["p1", "slow"])["resources"] == {"probe": ["p1", "slow"]}
    assert rig.until_grains("p1")["stale"] == ["probe:slow"]
    slow.unlink()
    assert rig.until_grains("p1", "slow")["stale"] == []


def test_grains_are_registered_while_those_of_another_resource_hang(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    late, _hung = rig.hold("late"), rig.hold("hung")
    rig.found(["p1", "late", "hung"])
    rig.until_grains("p1")
    late.unlink()
    assert rig.until_grains("p1", "late")["stale"] == ["probe:hung"]


def test_a_look_does_not_wait_for_grains_that_hang_and_asks_nobody_twice(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.hold("hung")
    rig.found(["p1", "hung"])
    rig.until(lambda: rig.count("grains") == 2)
    for number in range(2):
        rig.until_grains("p1")  # who has answered can be asked again
        over: list[bool] = []
        rig.server.refresh(lambda over=over: over.append(True))  # type: ignore[misc]  # a default binds the name
        rig.until(lambda over=over: over)  # type: ignore[misc]  # as above
        assert rig.registered[-1]["resources"] == {"probe": ["hung", "p1"]}
        rig.until(lambda number=number: rig.count("grains") == 3 + number)  # type: ignore[misc]  # as above


def test_grains_of_a_type_have_a_limit_together_and_those_beyond_it_are_left_out(
    make_rig: MakeResourceRig, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One resource has {"rid": "pN", "role": "probe"}, which are 19 bytes.
    monkeypatch.setattr(discovery, "RESOURCE_GRAINS_TOTAL_MAX", 40)
    rig = make_rig()
    rig.found(["p1", "p2", "p3"])
    rig.until(lambda: "the grains of 1 resources are skipped (probe:p" in log_file.read_text())
    rig.until(lambda: len(rig.registered[-1]["grains"]) == 2)
    said = rig.registered[-1]
    assert set(said["grains"]) | set(said["stale"]) == {"probe:p1", "probe:p2", "probe:p3"}
    assert len(said["stale"]) == 1


def test_each_type_is_told_of_loaded_or_why_not_found_and_what_was_before(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2"])
    first = rig.registered[-1]
    told = first["reports"]["probe"]
    assert (told["loaded"], told["initialised"], told["found"], told["was"], told["error"]) == (True, True, 2, None, "")
    rig.server.pillar_is({"resources": {"probe": {"ids": []}, "nosuch": {}}})
    rig.until(lambda: "nosuch" in rig.registered[-1]["reports"] and rig.registered[-1]["reports"]["probe"]["was"] == 2)
    told = rig.registered[-1]["reports"]
    assert (told["probe"]["found"], told["probe"]["looked_at"]) == (0, "pillar resources:probe, which has the keys ids")
    assert told["probe"]["look"] not in ("", first["reports"]["probe"]["look"])
    assert (told["nosuch"]["loaded"], told["nosuch"]["found"], told["nosuch"]["look"]) == (False, None, "")
    assert "there is no nosuch/__init__.py" in told["nosuch"]["error"]
    assert rig.registered[-1]["look"] not in ("", first["look"])


def test_a_type_that_cannot_be_initialised_or_looked_at_says_why(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.server.pillar_is({"resources": {"probe": {}}, "init_fails": True})
    rig.until(lambda: rig.registered and rig.registered[-1]["reports"])
    told = rig.registered[-1]["reports"]["probe"]
    assert (told["loaded"], told["initialised"], told["found"], told["look"]) == (True, False, None, "")
    assert told["error"] == "discover() raised KeyError: 'ids'"
    # It can be looked at now, and still not be called.
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1"]}}, "init_fails": True})
    rig.until(lambda: rig.registered[-1]["reports"]["probe"]["found"] == 1)
    told = rig.registered[-1]["reports"]["probe"]
    assert (told["initialised"], "init() raised ValueError: no route" in told["error"]) == (False, True)


def test_the_minion_looks_again_when_the_master_wants_to_be_sure_and_once_for_several_times(
    make_rig: MakeResourceRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_AGAIN_S", 0.2)
    rig = make_rig()
    rig.found(["p1"])

    def looks() -> int:
        """What one look found may be registered in two parts."""
        return len({one["reports"]["probe"]["look"] for one in rig.registered})

    assert looks() == 1
    for _ in range(3):
        rig.server.look_again()
    rig.until(lambda: looks() == 2)
    rig.run(["p1"], "test.sleep", 0.6)
    assert looks() == 2


def test_a_minion_without_types_says_the_same_after_each_start(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.server.pillar_is({"nothing": "here"})
    rig.until(lambda: rig.registered)
    assert (rig.registered[-1]["look"], rig.registered[-1]["reports"]) == ("", {})
    assert rig.server.looked_at() == "pillar resources is not there"
    rig.server.pillar_is({"resources": {}})
    assert rig.server.looked_at() == "pillar resources declares no resource types"


def test_a_custom_type_that_does_not_load_leaves_the_shipped_types_resources_reachable(
    make_rig: MakeResourceRig,
) -> None:
    rig = make_rig({"resources/dummy/__init__": "import no_such_library"})
    rig.server.pillar_is({"resources": {"dummy": {"resource_ids": ["d1"]}}})
    rig.until(lambda: rig.registered and rig.registered[-1]["resources"] == {"dummy": ["d1"]})
    report = rig.server.reports()["dummy"]
    assert (report.loaded, report.initialised, report.found) == (True, True, 1)
    assert "no_such_library" in report.problem()
    call = JobSpec(f"{JID}-1", [("test.ping", [], {})], "root")
    rig.server.begin(call, ["dummy:d1"])
    rig.server.go(call.jid)
    rig.until(lambda: call.jid in rig.done)
    assert decode_return(rig.rows(call.jid)["d1"].body) is True
