"""External pillars: what plug-ins are given, how their data is merged, and what becomes of those that fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from saltlite.config.external_pillars import read_external
from saltlite.errors import UsageError
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import ERRORS, MemoryPillarFiles
from saltlite.pillar.evaluation import EvaluationRequest, evaluated
from saltlite.pillar.external import ExternalPillars
from saltlite.wire.codec import decode_document
from tests.support.modules import write

FILES = MemoryPillarFiles(
    {"base": {"top.sls": {"base": {"*": ["a"]}}, "a.sls": lambda seen: {"a": 1, "users": {"ann": seen["pillar"]}}}}
)
GIVEN = "def ext_pillar(minion_id, pillar, *args, **kwargs):\n    return {'given': [minion_id, list(args), kwargs]}\n"


def whole(folder: Path, *listed: dict[str, Any], first: bool = False, more: Any = (), **files: str) -> dict[str, Any]:
    """The pillar of web1 with these external pillars, whose files are `files`."""
    write(folder, files)
    return made_by(pillars(folder, *listed, first=first), more)


def pillars(folder: Path, *listed: dict[str, Any], first: bool = False) -> ExternalPillars:
    return ExternalPillars({"ext_pillar": list(listed), "ext_pillar_first": first, "pillar_dirs": [str(folder)]})


def made_by(external: ExternalPillars, more: Any = ()) -> dict[str, Any]:
    wanted = EvaluationRequest("minion web1", MinionId("web1"), {"os": "Debian", "id": "forged"}, external=more)
    made = evaluated(FILES, {}, wanted, external)
    assert made.problem == ""
    found: dict[str, Any] = decode_document(made.data)
    assert list(made.errors) == found.get(ERRORS, [])
    return found


@pytest.mark.parametrize(
    ("arguments", "args", "kwargs"),
    [("x", ["x"], {}), (7, [7], {}), (["x", 2], ["x", 2], {}), ({"k": "v"}, [], {"k": "v"}), ([], [], {})],
)
def test_arguments_are_given_as_salt_gives_them(tmp_path: Path, arguments: Any, args: Any, kwargs: Any) -> None:
    assert whole(tmp_path, {"given": arguments}, given=GIVEN)["given"] == ["web1", args, kwargs]


def test_a_plugin_sees_the_minion_and_the_pillar_so_far_and_the_modules(tmp_path: Path) -> None:
    source = (
        "def ext_pillar(minion_id, pillar):\n"
        "    pillar['a'] = 2\n"
        "    return {'saw': [__grains__['os'], __grains__['id'], __opts__['id'], __salt__['test.echo']('x'),\n"
        "                    __pillar__.get('first'), pillar.get('first')]}\n"
    )
    found = whole(tmp_path, {"one": []}, {"two": []}, one="def ext_pillar(m, p): return {'first': 1}", two=source)
    assert found == {"a": 1, "users": {"ann": {}}, "first": 1, "saw": ["Debian", "web1", "web1", "x", 1, 1]}


def test_maps_are_merged_and_the_later_value_counts(tmp_path: Path) -> None:
    bob = "def ext_pillar(m, p): return {'users': {'bob': 2}, 'a': 'later'}"
    assert whole(tmp_path, {"bob": []}, bob=bob) == {"a": "later", "users": {"ann": {}, "bob": 2}}
    first = whole(tmp_path, {"bob": []}, first=True, bob=bob)
    assert first == {"a": 1, "users": {"ann": {"users": {"bob": 2}, "a": "later"}, "bob": 2}}


def test_a_value_that_contains_itself_costs_its_own_place_only(tmp_path: Path) -> None:
    source = (
        "def ext_pillar(m, p):\n    found = {'port': 80}\n    found['whole'] = found\n    return {'found': found}\n"
    )
    found = whole(tmp_path, {"cycle": []}, cycle=source)
    assert (found["a"], found["found"]["port"]) == (1, 80)
    assert found["found"]["whole"] == "[a value that contains itself]"


def test_the_options_may_be_returned_and_others_run_after_it(tmp_path: Path) -> None:
    source = "def ext_pillar(m, p): return {'options': __opts__}"
    found = whole(tmp_path, {"all": []}, {"given": []}, all=source, given=GIVEN)
    assert (found["options"]["id"], found["given"][0]) == ("web1", "web1")
    assert "options" not in found["options"].get("pillar", {})


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("def ext_pillar(m, p): raise ValueError('password=sesame')", "it raised ValueError; see the master's log"),
        ("import nowhere_at_all", "is unavailable: 'bad' could not be imported"),
        ("def __virtual__(): return False, 'no driver'\ndef ext_pillar(m, p): pass", "no driver"),
        ("def ext_pillar(m, p): return [1]", "it returned a list instead of a map"),
        ("def other(): pass", "interface bad is unavailable"),
        ("def ext_pillar(m): pass", "it raised TypeError"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_one_that_fails_costs_its_own_data_only_and_tells_no_secret(
    tmp_path: Path, source: str, sentence: str, first: bool
) -> None:
    found = whole(tmp_path, {"bad": []}, {"given": []}, first=first, bad=source, given=GIVEN)
    (mistake,) = found[ERRORS]
    assert mistake.startswith("Failed to load ext_pillar bad: ")
    assert sentence in mistake
    assert "sesame" not in mistake
    assert (found["a"], found["given"][0]) == (1, "web1")


@pytest.mark.parametrize("first", [False, True])
def test_one_that_takes_too_much_memory_ends_the_evaluation(tmp_path: Path, first: bool) -> None:
    write(tmp_path, {"fat": "def ext_pillar(m, p): raise MemoryError"})
    with pytest.raises(MemoryError):
        made_by(pillars(tmp_path, {"fat": []}, first=first))


def test_a_plugin_that_changes_is_loaded_again(tmp_path: Path) -> None:
    external = pillars(tmp_path, {"new": []})
    assert "there is no such file" in made_by(external)[ERRORS][0]
    for number in (1, 2):
        write(tmp_path, {"new": f"def ext_pillar(m, p): return {{'number': {number}}}"})
        os.utime(tmp_path / "new.py", ns=(number, number))
        assert made_by(external)["number"] == number


def test_a_further_one_is_run_behind_those_of_the_configuration(tmp_path: Path) -> None:
    found = whole(tmp_path, {"given": "a"}, more=[["given", {"k": 1}]], given=GIVEN)
    assert found["given"] == ["web1", [], {"k": 1}]


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ({"cmd_yaml": "echo 'y: {id: %s}'"}, {"y": {"id": "web1"}}),
        ({"cmd_json": "echo '{\"j\": [1]}'"}, {"j": [1]}),
        ({"cmd_yaml": "true"}, {}),
    ],
)
def test_what_a_command_prints_is_merged(tmp_path: Path, listed: dict[str, str], found: dict[str, Any]) -> None:
    assert whole(tmp_path, listed) == {"a": 1, "users": {"ann": {}}, **found}


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        ({"cmd_yaml": "echo y: 1; exit 3"}, "its command failed (return code 3)"),
        ({"cmd_json": "no-such-program-at-all"}, "its command failed (return code 127)"),
        ({"cmd_yaml": "echo 'a: ['"}, "the output of its command"),
        ({"cmd_json": "echo '{'"}, "is no JSON"),
        ({"cmd_json": "echo 7"}, "it returned a int instead of a map"),
    ],
)
def test_a_command_that_fails_is_named(tmp_path: Path, listed: dict[str, str], sentence: str) -> None:
    assert sentence in whole(tmp_path, listed)[ERRORS][0]


@pytest.mark.parametrize("written", [{"cmd_yaml": "x"}, ["cmd_yaml"], [{"a": 1, "b": 2}], [{}], "x"])
def test_a_value_of_the_option_that_is_none_is_refused(written: Any) -> None:
    with pytest.raises(UsageError, match="ext_pillar is a list of maps"):
        read_external(written)
