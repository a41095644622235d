"""What the master tells of the files that it serves, and to whom."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers import files as served
from saltlite.master.handlers.operator_verbs import handle_request
from tests.support.files import MemoryFileRoots
from tests.support.master import MasterRig

LISTERS = ("envs", "file_list", "dir_list", "empty_dir_list", "symlink_list")
AREA = "copy-0123456789abcdef0123456789abcdef"


class Roots(MemoryFileRoots):
    def links(self, env: str) -> dict[str, str]:
        return {"l": "a"} if env == "base" else {}


def rig() -> MasterRig:
    """Each runner is granted to a user of its name."""
    rules = {name: [{"@runner": [f"fileserver.{name}"]}] for name in LISTERS}
    place = MasterRig(granted=Granted(publisher=read_rules(rules, "publisher_acl")))
    files = {"base": {"a": b"", "d/b": b"", "d/e/c": b""}, "dev": {"x": b""}, AREA: {"secret": b""}}
    place.master.files = Roots(files)
    return place


def told(place: MasterRig, act: str, **fields: Any) -> dict[str, str]:
    found: dict[str, str] = place.ask("file_list", operation=act, **fields).fields["names"]
    return found


def test_environments_files_folders_and_links_are_told() -> None:
    place = rig()
    assert list(told(place, "files", env="base")) == ["a", "d/b", "d/e/c"]
    assert list(told(place, "folders", env="base")) == ["d", "d/e"]
    assert told(place, "links", env="base") == {"l": "a"}
    assert told(place, "files", env="none") == {}
    assert "dev" in told(place, "envs")


def test_what_is_on_its_way_to_minions_is_told_to_nobody() -> None:
    place = rig()
    assert [told(place, act, env=AREA) for act in ("files", "folders", "links")] == [{}, {}, {}]


@pytest.mark.parametrize(("limit", "most"), [("NAMES_MAX", 1), ("BYTES_MAX", 1)])
def test_an_answer_is_limited_and_the_rest_comes_behind_its_last(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(served, limit, most)
    place, found, after = rig(), [], ""
    while True:
        said = place.ask("file_list", operation="files", env="base", after=after).fields
        assert len(said["names"]) == 1
        found += said["names"]
        after = found[-1]
        if not said["more"]:
            break
    assert found == ["a", "d/b", "d/e/c"]


@pytest.mark.parametrize(
    ("act", "who"),
    [
        ("envs", {"envs"}),
        ("files", {"file_list", "empty_dir_list"}),
        ("folders", {"dir_list", "empty_dir_list"}),
        ("links", {"symlink_list"}),
    ],
)
def test_a_right_to_one_list_is_none_to_another(act: str, who: set[str]) -> None:
    def may(user: str) -> bool:
        try:
            handle_request(
                rig().master, Principal(user, 1000), {"v": 1, "verb": "file_list", "operation": act, "env": "base"}
            )
        except RefusedError:
            return False
        return True

    assert {user for user in (*LISTERS, "fred") if may(user)} == who


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "nosuch"},
        {"operation": "files", "env": "../x"},
        {"operation": "files", "env": "base", "after": "../x"},
    ],
)
def test_nonsense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        rig().ask("file_list", **fields)
