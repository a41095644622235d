"""What every registry must do: over its file, over rows in memory, and over a file that follows a store which masters
share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.errors import StoreError, UsageError
from saltlite.master.store.projection import Projection
from saltlite.resources.registry.mmap import ResourceRegistry
from saltlite.resources.registry.registry import Conflict, MemoryPrimary, MemoryRows, Registry
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from tests.contract.conftest import SEAL_KEY

OpenRegistry = Callable[[], Registry]


@pytest.fixture(params=["memory", "file", "shared"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenRegistry]:
    """Opens the same registry again and again, as several MWorkers or a restarted master do."""
    opened: list[Registry] = []
    rows = MemoryRows()

    disk = MemoryStoreDisk()

    def open_one() -> Registry:
        opts = {"cachedir": str(tmp_path)}
        if request.param == "memory":
            opened.append(Registry(MemoryPrimary(rows)))
        elif request.param == "file":
            opened.append(ResourceRegistry(opts))
        else:
            opened.append(Projection(MemoryStore(disk).inventory(), opts, SEAL_KEY).registry)
        return opened[-1]

    yield open_one
    for registry in opened:
        registry.close()


@pytest.fixture
def registry(reopen: OpenRegistry) -> Registry:
    return reopen()


def test_what_was_registered_is_found_by_srn_by_type_and_by_minion(registry: Registry) -> None:
    assert registry.register_minion("m1", {"dummy": ["b", "a"], "ssh": ["web-1"]}) == (3, 0)
    assert registry.get_managing_minions_for_srn("dummy", "a") == ["m1"]
    assert registry.get_managing_minions_by_type("dummy") == {"minions": ["m1"], "missing": []}
    assert registry.get_resources_for_minion("m1") == {"dummy": ["a", "b"], "ssh": ["web-1"]}
    assert registry.get_resource_ids_by_type("dummy") == ["a", "b"]
    assert registry.has_srn("ssh", "web-1")
    assert registry.has_resource("m1", "ssh", "web-1")
    assert registry.has_resource_type("m1", "ssh")


def test_an_empty_registry_answers_every_question_with_nothing(registry: Registry) -> None:
    assert registry.get_managing_minions_for_srn("dummy", "a") == []
    assert registry.get_managing_minions_by_type("dummy") == {"minions": [], "missing": []}
    assert registry.get_resources_for_minion("m1") == {}
    assert registry.get_resource_ids_by_type("dummy") == []
    assert registry.resolve_bare_resource_id("a") == []
    assert not registry.has_srn("dummy", "a")
    assert not registry.has_resource("m1", "dummy", "a")
    assert not registry.has_resource_type("m1", "dummy")


def test_what_a_smaller_registration_leaves_out_is_gone_from_every_view(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["a", "b", "c"]})
    assert registry.register_minion("m1", {"dummy": ["a", "c"]}) == (0, 1)
    assert not registry.has_srn("dummy", "b")
    assert registry.get_resources_for_minion("m1") == {"dummy": ["a", "c"]}
    assert registry.get_resource_ids_by_type("dummy") == ["a", "c"]
    assert registry.resolve_bare_resource_id("b") == []


def test_a_type_that_a_registration_leaves_out_is_released(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["a"], "ssh": ["x", "y"]})
    assert registry.register_minion("m1", {"dummy": ["a"]}) == (0, 2)
    assert not registry.has_resource_type("m1", "ssh")


def test_an_empty_registration_releases_everything(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["a", "b"]})
    assert registry.register_minion("m1", {}) == (0, 2)
    assert registry.get_managing_minions_by_type("dummy")["minions"] == []


def test_a_thousand_rows_that_are_right_already_are_not_written_again(registry: Registry) -> None:
    ids = [f"r{number}" for number in range(1000)]
    registry.register_minion("m1", {"dummy": ids})
    before = registry.generation(), registry.content_version(), registry.stats()["primary"]["records"]
    assert registry.register_minion("m1", {"dummy": ids}) == (0, 0)
    assert (registry.generation(), registry.content_version(), registry.stats()["primary"]["records"]) == before


def test_an_id_that_is_named_twice_is_one_row(registry: Registry) -> None:
    assert registry.register_minion("m1", {"dummy": ["a", "a"]}) == (1, 0)


def test_a_bare_id_of_two_types_has_two_owners(registry: Registry) -> None:
    registry.register_minion("m1", {"ssh": ["web-01"]})
    registry.register_minion("m2", {"vm": ["web-01"]})
    assert registry.get_managing_minions_for_srn("ssh", "web-01") == ["m1"]
    assert registry.get_managing_minions_for_srn("vm", "web-01") == ["m2"]
    assert registry.resolve_bare_resource_id("web-01") == [("ssh", "web-01"), ("vm", "web-01")]
    registry.unregister_minion("m1")
    assert registry.resolve_bare_resource_id("web-01") == [("vm", "web-01")]


def test_long_ids_that_differ_in_their_last_byte_only_are_two_resources(registry: Registry) -> None:
    long = "esxi-host-in-datacenter-frankfurt-rack-0042-cluster-production-example-net-" + "x" * 150
    registry.register_minion("m1", {"ssh": [long + "a"]})
    registry.register_minion("m2", {"ssh": [long + "b"]})
    assert registry.get_managing_minions_for_srn("ssh", long + "a") == ["m1"]
    assert registry.get_managing_minions_for_srn("ssh", long + "b") == ["m2"]
    assert registry.get_resource_ids_by_type("ssh") == [long + "a", long + "b"]
    assert not registry.has_srn("ssh", long)


def test_an_id_may_have_colons_and_letters_of_any_script(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["fe80::1", "größe-東京"]})
    assert registry.get_resources_for_minion("m1") == {"dummy": ["fe80::1", "größe-東京"]}
    assert registry.has_srn("dummy", "fe80::1")


def test_a_type_with_a_colon_is_not_found_through_an_id_with_one(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["a:b"]})
    assert not registry.has_srn("dummy:a", "b")


def test_an_id_that_is_no_text_of_utf8_is_nobodys(registry: Registry) -> None:
    assert not registry.has_srn("dummy", "\ud800")


def test_the_newest_registration_takes_a_resource_where_that_is_the_policy(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["a", "b"]})
    done = registry.register("m2", {"dummy": ["a"]}, conflict=Conflict.NEWEST)
    assert (done.put, done.deleted, done.refused) == (1, 0, ())
    assert registry.get_resources_for_minion("m1") == {"dummy": ["b"]}
    assert registry.get_resources_for_minion("m2") == {"dummy": ["a"]}


def test_a_resource_of_another_minion_stays_there_and_its_owner_is_named(registry: Registry) -> None:
    registry.register("m1", {"dummy": ["a"]})
    done = registry.register("m2", {"dummy": ["a", "b"]})
    assert (done.put, done.refused) == (1, (("dummy:a", "m1"),))
    assert registry.get_managing_minions_for_srn("dummy", "a") == ["m1"]
    assert registry.get_resources_for_minion("m2") == {"dummy": ["b"]}


def test_releasing_a_resource_that_was_taken_meanwhile_leaves_it_with_its_new_owner(reopen: OpenRegistry) -> None:
    first, second = reopen(), reopen()
    first.register_minion("m1", {"dummy": ["x", "y"]})
    assert first.get_resources_for_minion("m1") == {"dummy": ["x", "y"]}
    second.register_minion("m2", {"dummy": ["x"]})
    assert first.register_minion("m1", {"dummy": ["y"]}) == (0, 0)
    assert first.get_managing_minions_for_srn("dummy", "x") == ["m2"]
    assert second.get_managing_minions_for_srn("dummy", "x") == ["m2"]


def test_unregistering_a_minion_releases_what_is_its_own_only(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["a", "b"], "ssh": ["c"]})
    registry.register_minion("m2", {"dummy": ["d"]})
    assert registry.unregister_minion("m1") == 3
    assert registry.unregister_minion("m1") == 0
    assert registry.get_resource_ids_by_type("dummy") == ["d"]


def test_a_transfer_gives_a_resource_to_another_minion(registry: Registry) -> None:
    registry.register("m1", {"dummy": ["a"]})
    assert registry.transfer("dummy", "a", "m2") == "m1"
    assert registry.get_managing_minions_for_srn("dummy", "a") == ["m2"]
    assert registry.get_managing_minions_by_type("dummy")["minions"] == ["m2"]


def test_a_transfer_of_what_nobody_manages_changes_nothing(registry: Registry) -> None:
    assert registry.transfer("dummy", "a", "m2") is None
    assert not registry.has_srn("dummy", "a")


def test_a_transfer_does_not_hide_what_others_did_before_it(reopen: OpenRegistry) -> None:
    first, second = reopen(), reopen()
    first.register("m1", {"dummy": ["a"]})
    assert first.get_resource_ids_by_type("dummy") == ["a"]
    second.register("m2", {"dummy": ["b"]})
    first.transfer("dummy", "a", "m3")
    assert first.get_resource_ids_by_type("dummy") == ["a", "b"]
    assert first.get_managing_minions_by_type("dummy")["minions"] == ["m2", "m3"]


def test_a_resource_can_go_and_come_back(registry: Registry) -> None:
    for _ in range(3):
        registry.register_minion("m1", {"dummy": ["a"]})
        registry.register_minion("m1", {})
    registry.register_minion("m2", {"dummy": ["a"]})
    assert registry.get_managing_minions_for_srn("dummy", "a") == ["m2"]
    assert registry.get_resource_ids_by_type("dummy") == ["a"]
    assert registry.stats()["primary"]["rows"] == 1


def test_what_one_process_registers_the_others_see_at_their_next_question(reopen: OpenRegistry) -> None:
    writer, reader = reopen(), reopen()
    for number in range(50):
        writer.register_minion(f"m{number}", {"dummy": [f"r{number}"]})
        assert reader.has_srn("dummy", f"r{number}")
        assert reader.get_resources_for_minion(f"m{number}") == {"dummy": [f"r{number}"]}
        assert reader.resolve_bare_resource_id(f"r{number}") == [("dummy", f"r{number}")]


def test_both_of_two_writers_see_what_the_other_one_wrote(reopen: OpenRegistry) -> None:
    left, right = reopen(), reopen()
    for number in range(20):
        left.register_minion("m1", {"dummy": [f"l{number}"]})
        right.register_minion("m2", {"dummy": [f"r{number}"]})
    assert left.get_resource_ids_by_type("dummy") == right.get_resource_ids_by_type("dummy") == ["l19", "r19"]


def test_a_new_process_finds_everything(reopen: OpenRegistry) -> None:
    first = reopen()
    first.register_minion("m1", {"dummy": [f"r{number}" for number in range(200)]})
    first.register_minion("m1", {"dummy": [f"r{number}" for number in range(100)]})
    first.close()
    again = reopen()
    assert len(again.get_resource_ids_by_type("dummy")) == 100
    assert again.has_srn("dummy", "r99")
    assert not again.has_srn("dummy", "r100")


def test_compaction_keeps_every_row_and_drops_what_nobody_needs(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(300)]})
    registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(0, 300, 2)]})
    registry.register_minion("m2", {"dummy": [f"r{number}" for number in range(0, 300, 4)]})
    wanted = registry.get_resources_for_minion("m1"), registry.get_resources_for_minion("m2")
    before, after = registry.compact()
    assert (before, after) == (525, 150)
    assert (registry.get_resources_for_minion("m1"), registry.get_resources_for_minion("m2")) == wanted
    assert registry.has_srn("dummy", "r2")
    assert not registry.has_srn("dummy", "r1")


def test_a_reader_goes_on_through_the_compactions_of_another(reopen: OpenRegistry) -> None:
    writer, reader = reopen(), reopen()
    for number in range(10):
        writer.register_minion("m1", {"dummy": [f"r{number}", "always"]})
        assert reader.get_resources_for_minion("m1") == {"dummy": ["always", f"r{number}"]}
        writer.compact()
        writer.register_minion("m2", {"dummy": [f"after{number}"]})
        assert reader.get_resource_ids_by_type("dummy") == [f"after{number}", "always", f"r{number}"]
        assert reader.has_srn("dummy", f"after{number}")
        assert not reader.has_srn("dummy", f"r{number - 1}")


def test_a_reader_that_slept_through_several_compactions_is_right_again(reopen: OpenRegistry) -> None:
    writer, reader = reopen(), reopen()
    writer.register_minion("m1", {"dummy": ["gone", "stays"]})
    assert reader.get_resource_ids_by_type("dummy") == ["gone", "stays"]
    writer.register_minion("m1", {"dummy": ["stays"]})
    writer.compact()
    writer.register_minion("m2", {"dummy": ["came"]})
    writer.compact()
    assert reader.get_resource_ids_by_type("dummy") == ["came", "stays"]
    assert reader.resolve_bare_resource_id("gone") == []


def test_a_write_through_a_map_from_before_a_compaction_lands_in_the_new_file(reopen: OpenRegistry) -> None:
    first, second = reopen(), reopen()
    second.register_minion("m2", {"dummy": ["old"]})
    first.compact()
    second.register_minion("m2", {"dummy": ["old", "new"]})
    assert first.get_resources_for_minion("m2") == {"dummy": ["new", "old"]}


@pytest.mark.parametrize(
    "bare_id", ["", "a/b", "..", "a b", "x*", "a\nb", "nul\0", "and", "(", "a,b", "[x]", "a\\b", "é" * 200]
)
def test_an_id_that_cannot_be_one_refuses_the_whole_registration(registry: Registry, bare_id: str) -> None:
    registry.register_minion("m1", {"dummy": ["a"]})
    with pytest.raises(UsageError, match="is not a resource id"):
        registry.register_minion("m1", {"dummy": ["b", bare_id]})
    assert registry.get_resources_for_minion("m1") == {"dummy": ["a"]}


@pytest.mark.parametrize(
    "resources", [{"dummy": [5]}, {"dummy": [None]}, {"dummy": "abc"}, {"dummy": 7}, {"dummy": [[]]}]
)
def test_what_is_no_list_of_texts_is_refused(registry: Registry, resources: dict[str, list[str]]) -> None:
    with pytest.raises(UsageError):
        registry.register_minion("m1", resources)
    assert registry.get_resources_for_minion("m1") == {}


@pytest.mark.parametrize("kind", ["", "a:b", "9a", "a-b", "ä", "x" * 65])
def test_a_type_that_cannot_be_one_is_refused(registry: Registry, kind: str) -> None:
    with pytest.raises(UsageError, match="is not a resource type"):
        registry.register_minion("m1", {kind: ["a"]})


def test_a_minion_id_that_cannot_be_one_is_refused(registry: Registry) -> None:
    with pytest.raises(UsageError, match="is not a minion id"):
        registry.register_minion("../m", {"dummy": ["a"]})


def test_every_change_makes_another_content_version(registry: Registry) -> None:
    seen = {registry.content_version()}
    for number in range(20):
        registry.register_minion("m1", {"dummy": [f"r{number}"]})
        seen.add(registry.content_version())
    registry.compact()
    seen.add(registry.content_version())
    assert len(seen) == 22


def test_the_generation_counts_commits_and_survives_a_compaction(registry: Registry) -> None:
    before = registry.generation()
    done = registry.register("m1", {"dummy": ["a"]})
    assert done.generation == before + 1
    registry.compact()
    assert registry.generation() == before + 1
    assert registry.register("m1", {"dummy": ["b"]}).generation == before + 2


def test_stats_tell_what_is_there(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": ["a", "b"], "ssh": ["c"]})
    registry.register_minion("m2", {"dummy": ["d"]})
    found = registry.stats()
    assert (found["primary"]["rows"], found["primary"]["incomplete"]) == (4, False)
    assert (found["derived_by_type_count"], found["derived_by_minion_count"]) == (2, 2)
    assert found["derived_version"] == registry.content_version()


def test_a_registry_that_is_whole_verifies(registry: Registry) -> None:
    registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(50)]})
    registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(25)]})
    found = registry.verify()
    assert (found.rows, found.problems) == (25, ())


def test_a_registry_that_was_closed_says_so(registry: Registry) -> None:
    registry.close()
    registry.close()
    with pytest.raises(StoreError, match="was closed"):
        registry.has_srn("dummy", "a")
    with pytest.raises(StoreError, match="was closed"):
        registry.register_minion("m1", {"dummy": ["a"]})
