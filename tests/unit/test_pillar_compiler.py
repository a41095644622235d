"""Which files a minion's pillar is made of, how they are merged, and what becomes of mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from saltlite.errors import RenderError
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import ERRORS, INCLUDED_MAX, RENDERED_MAX, MemoryPillarFiles, merged, names_of, pillar_of

GRAINS = {"os": "Debian", "roles": ["web", "cache"], "ipv4": ["192.0.2.7"], "id": "somebody-else"}


def pillar(top: Any, files: Mapping[str, Any], *, minion: str = "web1", **envs: Mapping[str, Any]) -> dict[Any, Any]:
    everything = {"base": {"top.sls": top, **files}, **envs}
    return pillar_of(MemoryPillarFiles(everything), MinionId(minion), GRAINS, {"webs": "web*", "old": ["db1"]})


@pytest.mark.parametrize(
    ("expression", "match", "is_given"),
    [
        ("*", None, True),
        ("web*", None, True),
        ("web1", "glob", True),
        ("db*", None, False),
        ("web1,db1", "list", True),
        ("db1,db2", "list", False),
        ("web[0-9]", "pcre", True),
        ("os:Debian", "grain", True),
        ("os:Debian", "grains", True),
        ("os:Fedora", "grain", False),
        ("roles:web", "grain", True),
        ("os:Deb.*", "grain_pcre", True),
        ("id:somebody-else", "grain", False),
        ("192.0.2.0/24", "ipcidr", True),
        ("198.51.100.0/24", "ipcidr", False),
        ("webs", "nodegroup", True),
        ("old", "nodegroup", False),
        ("G@os:Debian and not db*", "compound", True),
        ("G@os:Debian and web*", None, True),
        ("E@db.* or L@web2", None, False),
    ],
)
def test_a_target_of_the_top_file_gives_its_files_to_the_minions_that_it_selects(
    expression: str, match: str | None, is_given: bool
) -> None:
    listed: list[Any] = ["one"] if match is None else [{"match": match}, "one"]
    found = pillar({"base": {expression: listed}}, {"one.sls": {"key": 1}})
    assert found == ({"key": 1} if is_given else {})


def test_files_are_merged_in_the_order_of_the_top_file() -> None:
    found = pillar(
        {"base": {"*": ["a", "b"], "web1": ["c"]}},
        {
            "a.sls": {"users": {"ann": {"uid": 1}}, "list": [1, 2], "word": "a"},
            "b.sls": {"users": {"bob": {"uid": 2}}, "list": [3], "word": "b"},
            "c.sls": {"users": {"ann": {"gid": 9}}},
        },
    )
    assert found == {"users": {"ann": {"uid": 1, "gid": 9}, "bob": {"uid": 2}}, "list": [3], "word": "b"}


def test_merging_changes_neither_of_the_two() -> None:
    first, later = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merged(first, later) == {"a": {"b": 1, "c": 2}}
    assert (first, later) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_dots_are_folders_and_a_folder_has_its_init() -> None:
    files = {"a/b.sls": {"file": 1}, "a/c/init.sls": {"folder": 2}}
    assert pillar({"base": {"*": ["a.b", "a.c"]}}, files) == {"file": 1, "folder": 2}


def test_a_pattern_stands_for_all_files_that_it_fits() -> None:
    files = {"app/one.sls": {"one": 1}, "app/two/init.sls": {"two": 2}, "other.sls": {"no": 3}}
    assert pillar({"base": {"*": ["app.*"]}}, files) == {"one": 1, "two": 2}


def test_what_a_file_says_wins_over_what_it_includes() -> None:
    files = {"a.sls": {"include": ["b"], "x": "a", "m": {"a": 1}}, "b.sls": {"x": "b", "y": "b", "m": {"b": 1}}}
    assert pillar({"base": {"*": ["a"]}}, files) == {"x": "a", "y": "b", "m": {"a": 1, "b": 1}}


def test_an_included_file_is_put_below_a_key_and_given_defaults() -> None:
    files = {
        "a.sls": {"include": [{"users": {"key": "all:users", "defaults": {"shell": "/bin/zsh"}}}]},
        "users.sls": lambda seen: {"ann": seen["shell"], "from": seen["grains"]["id"]},
    }
    assert pillar({"base": {"*": ["a"]}}, files) == {"all": {"users": {"ann": "/bin/zsh", "from": "web1"}}}


@pytest.mark.parametrize(
    ("path", "included", "named"),
    [
        ("a/b.sls", ".c", "a/c.sls"),
        ("a/b/init.sls", ".c", "a/b/c.sls"),
        ("a/b.sls", "..c", "c.sls"),
        ("a/b.sls", "c.d", "c/d.sls"),
    ],
)
def test_an_include_with_leading_dots_is_relative(path: str, included: str, named: str) -> None:
    assert pillar({"base": {"*": ["a.b"]}}, {path: {"include": [included]}, named: {"found": 1}}) == {"found": 1}


def test_files_that_include_each_other_are_each_taken_once() -> None:
    files = {"a.sls": {"include": ["b"], "a": 1}, "b.sls": {"include": ["a"], "b": 2}}
    assert pillar({"base": {"*": ["a"]}}, files) == {"a": 1, "b": 2}


@pytest.mark.parametrize("included", [".", "..b", "b.", "b..", ".."])
def test_dots_too_many_are_no_other_name_of_the_same_file(included: str) -> None:
    files = _Counted({"top.sls": {"base": {"*": ["b"]}}, "b/init.sls": {"include": [included], "key": 1}})
    found = pillar_of(files, MinionId("web1"), GRAINS, {})
    assert found["key"] == 1
    assert files.rendered == 2, "the file was taken again and again"


class _Counted(MemoryPillarFiles):
    """Files of which it is known how many were rendered. Like a disk, it takes two slashes for one."""

    def __init__(self, files: Mapping[str, Any]) -> None:
        super().__init__({"base": files})
        self.rendered = 0

    def has(self, env: str, path: str) -> bool:
        return super().has(env, _as_on_a_disk(path))

    def render(self, env: str, path: str, context: Mapping[str, Any]) -> Any:
        self.rendered += 1
        return super().render(env, _as_on_a_disk(path), context)


def _as_on_a_disk(path: str) -> str:
    return "/".join(filter(None, path.split("/")))


def test_files_that_include_more_and_more_end_at_a_limit() -> None:
    """Each file includes two of the next level: 2^20 without the limit."""
    files = {f"l{level}.sls": {"include": [f"l{level + 1}", f"l{level + 1}"]} for level in range(20)}
    found = pillar({"base": {"*": ["l0"]}}, {**files, "l20.sls": {"x": 1}})
    assert f"more than {RENDERED_MAX} files" in found[ERRORS][0]


def test_a_chain_of_includes_ends_at_a_limit_and_keeps_what_is_before_it() -> None:
    files = {f"l{level}.sls": {"include": [f"l{level + 1}"], f"k{level}": 1} for level in range(500)}
    found = pillar({"base": {"*": ["l0"]}}, {**files, "l500.sls": {"x": 1}})
    assert f"through more than {INCLUDED_MAX} files" in found[ERRORS][0]
    assert found["k0"] == found[f"k{INCLUDED_MAX - 1}"] == 1
    assert "x" not in found


def test_environments_have_files_of_their_own() -> None:
    found = pillar(
        {"base": {"*": ["a"]}, "dev": {"*": ["a"]}, "prod": {"*": ["a"]}},
        {"a.sls": {"base": 1}},
        dev={"a.sls": {"dev": 2}},
        prod={"top.sls": {"prod": {"db*": ["a"]}}, "a.sls": {"prod": 3}},
    )
    assert found == {"base": 1, "dev": 2}


def test_without_a_top_file_there_is_no_pillar() -> None:
    assert pillar_of(MemoryPillarFiles({"base": {"a.sls": {"x": 1}}}), MinionId("web1"), {}, {}) == {}


def test_templates_see_the_minion_and_the_pillar_until_then() -> None:
    files = {
        "a.sls": {"first": 1},
        "b.sls": lambda seen: {name: seen[name] for name in ("pillar", "opts", "saltenv", "sls")},
    }
    found = pillar({"base": {"*": ["a", "b"]}}, files)
    assert found == {"first": 1, "pillar": {"first": 1}, "opts": {"id": "web1"}, "saltenv": "base", "sls": "b"}


def fails(_seen: Mapping[str, Any]) -> Any:
    raise RenderError("b.sls:3: it is broken")


@pytest.mark.parametrize(
    ("top", "files", "sentence"),
    [
        ({"base": {"*": ["a", "gone"]}}, {}, "Specified SLS 'gone' in environment 'base' is not available"),
        ({"base": {"*": ["b", "a"]}}, {"b.sls": fails}, "Rendering SLS 'b' failed: b.sls:3: it is broken"),
        ({"base": {"*": ["b", "a"]}}, {"b.sls": ["x"]}, "b.sls is not a map"),
        ({"base": {"*": ["b", "a"]}}, {"b.sls": {"include": "x"}}, "b.sls has an include that is not a list"),
        ({"base": {"*": ["b", "a"]}}, {"b.sls": {"include": ["gone"]}}, "It is included by 'b'."),
        ({"base": {"*": ["b", "a"]}}, {"b.sls": {"include": [{"a": {"x": 1}}]}}, "something else than defaults"),
        ({"base": {"*": ["b", "a"]}}, {"b.sls": {"include": ["...x"]}}, "above the root"),
        ({"base": {"web1": "a", "*": ["a"]}}, {}, "has no list of files"),
        ({"base": {"N@gone": ["a"], "*": ["a"]}}, {}, "Rendering the top file of environment 'base' failed"),
        ({"base": {"*": ["a"], "web1": [{"match": "magic"}]}}, {}, "has a match that is not known"),
        ({"base": {"*": ["a"], "web1 and": ["a"]}}, {}, "Rendering the top file of environment 'base' failed"),
        ({"base": {"*": ["a"], "web1": [7]}}, {}, "lists something"),
    ],
)
def test_a_mistake_costs_itself_and_is_told(top: Any, files: Mapping[str, Any], sentence: str) -> None:
    found = pillar(top, {"a.sls": {"good": 1}, **files})
    assert found["good"] == 1
    assert any(sentence in error for error in found[ERRORS])


def test_a_missing_file_that_may_be_missing_is_no_mistake() -> None:
    assert pillar({"base": {"*": [{"ignore_missing": True}, "gone"]}}, {}) == {}


def test_no_file_can_hide_or_make_up_mistakes() -> None:
    assert pillar({"base": {"*": ["a"]}}, {"a.sls": {ERRORS: ["not so"], "x": 1}}) == {"x": 1}


def test_the_names_of_the_top_file_are_told_with_its_mistakes() -> None:
    files = MemoryPillarFiles({"base": {"top.sls": {"base": {"*": ["a", "b"], "db*": ["c"]}}}})
    assert names_of(files, MinionId("web1"), {}, {}) == ({"base": ["a", "b"]}, [])
    names, mistakes = names_of(MemoryPillarFiles({"base": {"top.sls": []}}), MinionId("web1"), {}, {})
    assert names == {}
    assert "a top file is a map" in mistakes[0]
