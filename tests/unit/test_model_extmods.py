"""Whitelists and blacklists of plug-ins: what they let through, and what is refused before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.config.load import load_master, load_minion
from saltlite.errors import ConfigError, UsageError
from saltlite.model.files import GLOBS_MAX, MASTER_TYPES, MINION_TYPES, NAMES_SHOWN, names_text, read_filter

NAMES = ("plain", "web1", "web2.__init__", "db", "db.sub")


def chosen(kind: str, whitelist: Any = None, blacklist: Any = None, opts: dict[str, Any] | None = None) -> list[str]:
    return [
        name
        for name in NAMES
        if read_filter(opts or {}, MINION_TYPES, kind, whitelist, blacklist).chooser(kind or "modules")(name)
    ]


@pytest.mark.parametrize(
    ("whitelist", "blacklist", "names"),
    [
        (None, None, [*NAMES]),
        ({"modules": ["plain"]}, None, ["plain"]),
        ("plain,web*", None, ["plain", "web1", "web2.__init__"]),
        (["plain", "db"], None, ["plain", "db", "db.sub"]),
        ({"grains": ["plain"]}, None, [*NAMES]),
        ({}, None, [*NAMES]),
        (None, {"modules": ["db"]}, ["plain", "web1", "web2.__init__"]),
        (None, ["db.sub"], ["plain", "web1", "web2.__init__", "db"]),
        ({"modules": "web*, db"}, "web1", ["web2.__init__", "db", "db.sub"]),
        (["PLAIN"], None, []),
    ],
)
def test_lists_choose_by_globs_of_the_name_or_of_its_package(whitelist: Any, blacklist: Any, names: list[str]) -> None:
    assert chosen("modules", whitelist, blacklist) == names


def test_a_keyword_takes_the_place_of_its_option_and_of_that_alone() -> None:
    opts = {"extmod_whitelist": {"modules": ["web*"]}, "extmod_blacklist": {"modules": ["web1"]}}
    assert chosen("modules", opts=opts) == ["web2.__init__"]
    assert chosen("modules", whitelist="plain,web1", opts=opts) == ["plain"]
    assert chosen("modules", blacklist={}, opts=opts) == ["web1", "web2.__init__"]
    assert chosen("", whitelist={}, opts=opts) == ["plain", "web2.__init__", "db", "db.sub"]


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        ("modules", 5, "write a map from types"),
        ("modules", True, "write a map from types"),
        ("modules", {"modules": {"plain": 1}}, "a list of texts"),
        ("modules", {"modules": 5}, "a list of texts"),
        ("modules", [1, 2], "a list of texts"),
        ("modules", ["a", None], "a list of texts"),
        ("modules", "", "names nothing"),
        ("modules", "a,,b", "names nothing"),
        ("modules", {"modules": []}, "names nothing"),
        ("modules", {"moduls": ["plain"]}, "'moduls' is not a type .*; did you mean modules?"),
        ("modules", {"runners": ["plain"]}, "'runners' is not a type"),
        ("modules", {3: ["plain"]}, "'3' is not a type .*; there are beacons, executors, "),
        ("modules", {"grains": [[]]}, "a list of texts"),
        ("", ["plain"], "write a map from types"),
        ("", "plain", "write a map from types"),
        ("modules", ["a"] * (GLOBS_MAX + 1), f"there are {GLOBS_MAX + 1} globs for modules, and there may be"),
    ],
)
def test_what_is_no_list_of_globs_is_refused(kind: str, given: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^extmod_whitelist: .*{sentence}"):
        chosen(kind, whitelist=given)


def test_a_blacklist_may_be_empty_for_it_bars_nothing() -> None:
    assert chosen("modules", blacklist={"modules": []}) == [*NAMES]
    with pytest.raises(UsageError, match=r"^extmod_blacklist: "):
        chosen("modules", blacklist=5)


def test_many_names_are_counted() -> None:
    assert names_text(["a", "b"]) == "a, b"
    assert names_text([str(number) for number in range(NAMES_SHOWN + 3)]).endswith("9 and 3 more")


@pytest.mark.parametrize(
    ("line", "place", "sentence"),
    [
        ("extmod_whitelist: {moduls: [plain]}", "1:20", "'moduls' is not a type .*; did you mean modules?"),
        ("extmod_blacklist: {modules: 5}", "1:29", "a list of texts"),
        ("extmod_whitelist: [plain]", "1:19", "takes a map from types of plug-ins"),
        ("extmod_whitelist: {modules: []}", "1:29", "names nothing"),
        ("extmod_blacklist: {modules: {a: b}}", "1:29", "a list of texts"),
        ("extmod_empty: 1", "1:15", "true or false"),
    ],
)
def test_options_are_checked_where_they_are_written(tmp_path: Any, line: str, place: str, sentence: str) -> None:
    for name, load in (("minion", load_minion), ("master", load_master)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(line + "\n")
        with pytest.raises(ConfigError, match=f"{name}:{place}: .*{sentence}"):
            load(str(folder))


def test_options_are_read_and_each_daemon_has_its_own_types(tmp_path: Any) -> None:
    (tmp_path / "minion").write_text("extmod_whitelist: {modules: [plain, 'web*'], resources: 'a, b'}\n")
    assert load_minion(str(tmp_path)).config.extmod_whitelist == {"modules": ["plain", "web*"], "resources": ["a", "b"]}
    (tmp_path / "master").write_text("extmod_blacklist: {runners: [old]}\nextmod_empty: true\n")
    config = load_master(str(tmp_path)).config
    assert (config.extmod_blacklist, config.extmod_empty) == ({"runners": ["old"]}, True)
    (tmp_path / "minion").write_text("extmod_blacklist: {runners: [old]}\n")
    with pytest.raises(ConfigError, match="'runners' is not a type"):
        load_minion(str(tmp_path))
    assert "runners" in MASTER_TYPES
