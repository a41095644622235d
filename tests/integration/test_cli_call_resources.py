"""`saltlite call --resources`: functions on the resources of this machine, without master and daemon."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import run
from tests.support.modules import write

CONNECTION = """
    import os

    def init(opts):
        pass

    def initialized():
        return True

    def discover(opts):
        return __pillar__["resources"]["probe"]

    def grains():
        return {"role": "probe", "rid": __resource__["id"]}

    def shutdown(opts):
        open(os.path.join(opts["cachedir"], "shut"), "w").close()
    """
SLOT = """
    import time

    def ping():
        return True

    def who():
        print("printed")
        return dict(__resource__), __grains__["role"]

    def number(value: int):
        return value

    def text(value: str):
        return value

    def fail(code):
        __context__["retcode"] = code
        return "no"

    def hang():
        time.sleep(60)
    """
PILLAR = {"resources": {"probe": ["p1", "p2"], "twin": ["p1"], "nosuch": {}}}


class Said:
    """What the command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def value(self) -> Any:
        return json.loads(self.out)["local"]


Call = Callable[..., Said]


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    """Runs `saltlite call --resources` with these words, on a machine with three resources."""
    files = {}
    for kind in ("probe", "twin"):
        files[f"plug/resources/{kind}/__init__"] = CONNECTION.replace('["probe"]', f'["{kind}"]')
        files[f"plug/resources/{kind}/modules/test"] = SLOT if kind == "probe" else "def ping():\n    return 'twin'\n"
    write(tmp_path, {**files, "pillar/top.sls": "base:\n  '*': [all]\n", "pillar/all.sls": json.dumps(PILLAR)})
    (tmp_path / "root/var/cache/saltlite/minion").mkdir(parents=True)
    config: Mapping[str, Any] = {
        "root_dir": str(tmp_path / "root"),
        "id": "ma",
        "module_dirs": [str(tmp_path / "plug")],
        "pillar_roots": {"base": [str(tmp_path / "pillar")]},
        "resource_timeout": 0.5,
    }
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/minion").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items()))

    def run_it(*words: str) -> Said:
        out, err = io.StringIO(), io.StringIO()
        code = run(["call", "-r", "-c", str(tmp_path / "etc"), "--out", "json", *words], Console(None, out, err))
        return Said(code, out.getvalue(), err.getvalue())

    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    yield run_it
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def test_everything_here_answers_under_its_name_and_ambiguous_ids_under_their_srn(call: Call) -> None:
    said = call("test.ping")
    assert said.value == {"ma": True, "p2": True, "probe:p1": True, "twin:p1": "twin"}
    assert said.code == 0


def test_a_single_target_answers_with_its_bare_value(call: Call) -> None:
    assert call("--tgt", "p2", "test.ping").value is True


def test_a_resource_sees_its_own_id_and_grains_and_what_it_prints_is_not_in_the_way(call: Call) -> None:
    said = call("--tgt", "T@probe", "--tgt-type", "compound", "test.who")
    assert said.value == {f"p{n}": [{"id": f"p{n}", "type": "probe"}, "probe"] for n in (1, 2)}


@pytest.mark.parametrize(
    ("target", "kind", "names"),
    [
        ("role:probe", "grain", ["p2", "probe:p1", "twin:p1"]),
        ("probe:p1,ma", "list", ["ma", "p1"]),
        ("T@probe or M@ma and T@twin", "compound", ["p2", "probe:p1", "twin:p1"]),
        ("p.", "pcre", ["p2", "probe:p1", "twin:p1"]),
    ],
)
def test_every_way_of_targeting_selects_resources(call: Call, target: str, kind: str, names: list[str]) -> None:
    assert sorted(call("--tgt", target, "--tgt-type", kind, "test.ping").value) == names


def test_resources_that_lack_the_function_are_left_out_unless_they_are_named(call: Call) -> None:
    assert call("--tgt", "role:probe", "--tgt-type", "grain", "test.number", "7").value == {"p1": 7, "p2": 7}
    said = call("--tgt", "twin:p1", "test.number", "7")
    assert said.value.startswith("Function 'test.number' is not supported for resource type 'twin'")
    assert said.code == 4


def test_arguments_are_read_as_the_slot_declares_them(call: Call) -> None:
    assert [call("--tgt", "p2", f"test.{fun}", "7").value for fun in ("number", "text")] == [7, "7"]


def test_a_resource_that_hangs_is_left_behind_after_its_time(call: Call) -> None:
    said = call("--tgt", "T@probe", "--tgt-type", "compound", "test.hang")
    assert said.value == dict.fromkeys(("p1", "p2"), "it did not answer within 0.5 s")
    assert said.code == 4


def test_the_retcode_of_a_resource_is_passed_through(call: Call) -> None:
    assert call("--tgt", "p2", "--retcode-passthrough", "test.fail", "42").code == 42


def test_a_type_that_cannot_be_used_is_named_and_the_others_answer(
    call: Call, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call("--tgt", "p2", "test.ping").code == 0
    assert "No resource loader available for type 'nosuch'" in capfd.readouterr().err


def test_the_shipped_type_answers_where_a_custom_one_of_its_name_cannot_be_initialised(
    tmp_path: Path, call: Call, capfd: pytest.CaptureFixture[str]
) -> None:
    hiding = "def init(opts): raise ValueError('no route')\ndef initialized(): pass\n"
    hiding += "def discover(opts): return []\ndef grains(): return {}\n"
    pillar = json.dumps({"resources": {"dummy": {"resource_ids": ["d1"]}}})
    write(tmp_path, {"plug/resources/dummy/__init__": hiding})
    (tmp_path / "pillar/all.sls").write_text(pillar)
    assert call("--tgt", "d1", "test.ping").value is True
    assert "the shipped type takes its place: init() raised ValueError: no route" in capfd.readouterr().err


def test_types_are_shut_down_at_the_end(call: Call, tmp_path: Path) -> None:
    call("test.ping")
    assert (tmp_path / "root/var/cache/saltlite/minion/shut").exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--tgt", "nobody", "test.ping"], 3, "nothing here matches nobody"),
        (["--tgt", "and x", "--tgt-type", "compound", "test.ping"], 2, "and"),
        (["--doc", "test.ping"], 2, "--resources runs functions"),
        (["nodot"], 2, "is not a function"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(call: Call, words: list[str], code: int, text: str) -> None:
    said = call(*words)
    assert (said.code, text in said.err) == (code, True)
