"""Chains of executors: which of them a call goes through, what each is given, and what ends in an error."""

from __future__ import annotations

import os
import pwd
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from saltlite.config.minion import MinionConfig
from saltlite.config.opts import opts_of
from saltlite.errors import UsageError
from saltlite.loader.call import Outcome, call
from saltlite.loader.executors import Executors, executor_texts, own_executors
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.model.execution import (
    EXECUTOR_NAME_MAX,
    EXECUTORS_MAX,
    OPTIONS_MAX,
    SHIPPED_EXECUTORS,
    Execution,
    checked_executors,
    checked_options,
    is_direct,
)
from tests.support.modules import write

MODULE = """
seen = []

def note(value=None):
    seen.append(value)
    return value

def count():
    return len(seen)

def items():
    yield {"a": 1}
    yield {"b": 2}

async def later():
    return "later"

def pub(**kwargs):
    return sorted(kwargs)

def code(retcode):
    __context__["retcode"] = retcode
"""

FILES = {
    "modules/m": MODULE,
    "executors/none": "def execute(opts, data, func, args, kwargs):\n    return None\n",
    "executors/wrap": "def execute(opts, data, func, args, kwargs):\n    return ['wrapped', func(*args, **kwargs)]\n",
    "executors/plain": "def execute(opts, data, func, args, kwargs):\n    return func(*args, **kwargs)\n",
    "executors/shows": """
        SAFE_OPTS = {"speed": int}
        def execute(opts, data, func, args, kwargs):
            return {"speed": opts.get("speed"), "data": {**data}}
        """,
    "executors/asks": """
        def execute(opts, data, func, args, kwargs):
            return [__opts__["id"], __grains__["os"], __salt__["m.note"]("cross"), __executors__["plain.execute"](
                opts, data, func, args, kwargs)]
        """,
    "executors/stays": """
        STAYS = True
        def execute(opts, data, func, args, kwargs):
            __context__.setdefault("entered", []).append(list(data["module_executors"]))
        def finish(opts, data):
            __context__["entered"].append("finished")
        """,
    "executors/takes": """
        def execute(opts, data, func, args, kwargs):
            return [func, args, kwargs["fun"]] if isinstance(func, str) else None
        def allow_missing_func(name):
            return name == "gone.away"
        """,
    "executors/exits": "def execute(opts, data, func, args, kwargs):\n    raise SystemExit(3)\n",
    "executors/refuses": "def __virtual__():\n    return False, 'not on a Sunday'\n",
    "executors/empty": "def other():\n    pass\n",
    "executors/mistyped": "SAFE_OPTS = ['x']\ndef execute(opts, data, func, args, kwargs):\n    return None\n",
}


class Minion:
    """A minion of these files, with options of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.opts = {**opts_of(MinionConfig(module_dirs=[str(folder)]), "web1"), "cachedir": "", **options}
        self.loader = Loader(build_index(search_layers(self.opts)), self.opts, {"os": "Debian"}, {})

    def call(
        self,
        executors: list[str],
        fun: str,
        *args: Any,
        remote: bool = False,
        threads: bool = False,
        user: str = "alice",
        **options: Any,
    ) -> Outcome:
        known = Executors(self.loader, threads=threads)
        chain = known.chain(Execution(executors, options), remote=remote, user=user)
        pub = {"jid": "20260101000000000000", "fun": fun, "arg": list(args), "user": user}
        return call(self.loader, fun, args, {}, pub=pub, chain=chain)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, FILES)


@pytest.fixture
def minion(folder: Path) -> Minion:
    return Minion(folder)


@pytest.mark.parametrize(
    ("executors", "value"),
    [
        (["none", "direct_call"], "x"),
        (["none"], None),
        (["none", "none"], None),
        (["wrap", "direct_call"], ["wrapped", "x"]),
        (["direct_call", "wrap"], "x"),
        ([], "x"),
    ],
)
def test_the_first_that_has_a_result_ends_the_chain(minion: Minion, executors: list[str], value: Any) -> None:
    outcome = minion.call(executors, "m.note", "x")
    assert (outcome.value, outcome.retcode) == (value, 0)


def test_a_chain_that_nothing_came_of_says_what_is_missing(minion: Minion) -> None:
    (said,) = minion.call(["none", "none"], "m.note", "x").warnings
    assert said.endswith("if the function was not called, direct_call is missing at the end")
    assert minion.call(["none", "direct_call"], "m.note").warnings == ()


def test_a_function_that_returns_none_under_direct_call_runs_once(minion: Minion) -> None:
    assert minion.call(["direct_call", "wrap"], "m.note").value is None
    assert minion.call([], "m.count").value == 1


def test_one_that_returns_the_none_of_the_function_passes_on(minion: Minion) -> None:
    """Salt's contract, to the letter: the next one calls it again."""
    assert minion.call(["plain", "direct_call"], "m.note").value is None
    assert minion.call([], "m.count").value == 2


@pytest.mark.parametrize(
    ("fun", "value"),
    [
        ("m.items", {"a": 1, "b": 2}),
        ("m.later", "later"),
        ("m.pub", ["__pub_arg", "__pub_fun", "__pub_jid", "__pub_user"]),
    ],
)
def test_an_executor_gets_what_the_function_returns_in_the_end(minion: Minion, fun: str, value: Any) -> None:
    assert minion.call(["wrap"], fun).value == ["wrapped", value]


def test_a_return_code_that_the_function_sets_counts(minion: Minion) -> None:
    assert minion.call(["none", "direct_call"], "m.code", 42).retcode == 42


def test_what_an_executor_knows_of_the_call(minion: Minion) -> None:
    shown = minion.call(["shows"], "m.note", "x", speed=3).value
    assert shown["speed"] == 3
    assert shown["data"] == {
        "fun": "m.note", "arg": ["x"], "jid": "20260101000000000000", "user": "alice", "id": "web1", "ret": "",
        "tgt": "web1", "tgt_type": "list", "module_executors": ["shows"], "executor_opts": {"speed": 3},
    }  # fmt: skip


def test_an_executor_reaches_minion_modules_and_other_executors(minion: Minion) -> None:
    assert minion.call(["asks"], "m.note", "x").value == ["web1", "Debian", "cross", "x"]


@pytest.mark.parametrize(
    ("executors", "text"),
    [
        (["nope"], "Executor 'nope' is not available"),
        (["refuses"], "Executor 'refuses' is not available: 'refuses' __virtual__ returned False: not on a Sunday"),
        (["empty"], "Executor 'empty' is not available: it has no function execute"),
        (["mistyped"], "Executor 'mistyped' is not available: its SAFE_OPTS must map names to types"),
        (
            ["sudo"],
            "Executor 'sudo' is not available: 'sudo' __virtual__ returned False: option sudo_user of this minion",
        ),
    ],
)
@pytest.mark.parametrize("before", [[], ["stays"]])
def test_one_that_is_not_there_is_an_error_and_nothing_is_entered(
    minion: Minion, before: list[str], executors: list[str], text: str
) -> None:
    outcome = minion.call([*before, *executors, "direct_call"], "m.note")
    assert outcome.retcode == 1
    assert outcome.value.startswith(f"ERROR executing 'm.note': {text}")
    assert "entered" not in minion.loader.context
    assert minion.call([], "m.count").value == 0


def test_one_that_ends_the_process_ends_the_call_only(minion: Minion) -> None:
    outcome = minion.call(["exits"], "m.note")
    assert outcome.retcode == 1
    assert outcome.value.startswith("The minion function caused an exception: ")


def test_wrong_arguments_are_told_before_anything_is_entered(minion: Minion) -> None:
    assert minion.call(["stays", "direct_call"], "m.count", 1).value.startswith("Passed invalid arguments to m.count")
    assert "entered" not in minion.loader.context


# --- functions that are not there


def test_one_that_takes_a_missing_function_gets_its_name(minion: Minion) -> None:
    assert minion.call(["direct_call", "takes"], "gone.away", 1).value == ["gone.away", [1], "gone.away"]


def test_without_one_that_takes_it_a_missing_function_is_what_it_ever_was(minion: Minion) -> None:
    for executors in (["takes", "direct_call"], ["direct_call", "none"]):
        outcome = minion.call(executors, "gone.astray")
        assert (outcome.value, outcome.retcode) == ("'gone.astray' is not available.", 1)


# --- what callers may


def test_a_caller_gets_what_is_allowed_and_what_is_configured(folder: Path) -> None:
    minion = Minion(folder, module_executors=["wrap"], executors_allowed=["none"])
    assert minion.call(["none", "wrap"], "m.note", "x", remote=True).value == ["wrapped", "x"]
    refused = minion.call(["none", "plain"], "m.note", "x", remote=True, user="pam:alice")
    assert refused.value.endswith("'plain' may not be requested here: option executors_allowed of this minion has none")
    assert minion.call(["plain"], "m.note", "x", remote=False).value == "x"


def test_an_operator_is_told_the_line_that_allows_an_executor_that_is_there(folder: Path) -> None:
    minion = Minion(folder, executors_allowed=["none"])
    line = "has none; this line in its configuration allows it: executors_allowed: [none, plain]"
    assert minion.call(["plain"], "m.note", remote=True, user="root").value.endswith(line)
    assert minion.call(["plain"], "m.note", remote=True, user="pam:root").value.endswith("of this minion has none")
    assert minion.call(["nope"], "m.note", remote=True, user="root").value.endswith("of this minion has none")


def test_a_chain_that_names_an_absent_executor_is_mended_by_the_user_of_the_machine_alone(folder: Path) -> None:
    minion = Minion(folder, module_executors=["stays", "nope", "direct_call"])
    outcome = minion.call(["direct_call"], "m.note", "x", remote=True)
    assert outcome.retcode == 1
    assert "Executor 'nope' is not available: module_executors of this minion names it" in outcome.value
    assert "`saltlite call --module-executors=direct_call FUNCTION` works all the same" in outcome.value
    assert minion.call([], "m.note", "x").retcode == 1
    assert minion.call(["direct_call"], "m.note", "x").value == "x"
    assert minion.loader.context["entered"] == [["stays", "direct_call"], "finished"]


def test_a_minion_reports_its_own_executors_and_those_that_it_lacks(folder: Path, tmp_path: Path) -> None:
    (folder / "executors/broken.py").write_text("def execute(\n")
    opts = Minion(folder, module_executors=["plain", "nope", "broken", "sudo", "direct_call"]).opts
    own = own_executors(opts)
    texts = executor_texts(opts, own)
    assert "executors.plain?" in texts
    assert not any("direct_call" in text or text == "executors.broken?" for text in texts)
    assert texts[-3:] == ["module_executors.nope?", "module_executors.broken?", "module_executors.sudo?"]
    assert "module_executors.sudo?" not in executor_texts({**opts, "sudo_user": "me"}, own)
    assert own_executors(opts, own) is own
    assert own_executors({**opts, "module_dirs": [str(tmp_path / "none")]}) is None


def test_one_that_stays_is_not_left_out_by_a_caller(folder: Path) -> None:
    minion = Minion(folder, module_executors=["stays", "wrap"], executors_allowed=["direct_call"])
    assert minion.call(["direct_call"], "m.note", "x", remote=True).value == "x"
    assert minion.loader.context["entered"] == [["stays", "direct_call"], "finished"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"speed": "3"}, "the option 'speed' of an executor takes int, not '3'"),
        ({"speed": True}, "the option 'speed' of an executor takes int, not True"),
        ({"sudo_user": "root"}, "none of the executors shows takes the option 'sudo_user' from a caller"),
    ],
)
def test_options_of_callers_are_declared_and_typed(minion: Minion, options: dict[str, Any], text: str) -> None:
    assert minion.call(["shows"], "m.note", **options).value.startswith(f"ERROR executing 'm.note': {text}")


def test_options_for_no_executor_are_refused(minion: Minion) -> None:
    assert (
        "none of the executors direct_call takes the option 'splaytime'" in minion.call([], "m.note", splaytime=3).value
    )


SALTS_SUDO = """
def execute(opts, data, func, args, kwargs):
    raise RuntimeError("it calls a program that comes here again, as the sudo of Salt")
"""


def test_in_a_process_of_sudo_user_the_function_is_called_directly(folder: Path) -> None:
    write(folder, {"executors/sudo": SALTS_SUDO})
    me = pwd.getpwuid(os.geteuid()).pw_name
    for executors in ([], ["sudo"], ["wrap", "sudo"]):
        value = Minion(folder, sudo_user=me).call(executors, "m.note", "x").value
        assert value == (["wrapped", "x"] if "wrap" in executors else "x")
    assert "comes here again" in Minion(folder, sudo_user="nobody").call([], "m.note", "x").value


# --- resources


@pytest.mark.parametrize(
    "name",
    ["nice", pytest.param("sudo", marks=pytest.mark.skipif(not shutil.which("sudo"), reason="there is no sudo"))],
)
def test_what_is_for_a_process_is_refused_for_resources(folder: Path, name: str) -> None:
    minion = Minion(folder, sudo_user="nobody" if name == "sudo" else "")
    text = minion.call([name, "direct_call"], "m.note", threads=True).value
    assert f"Executor '{name}' is not for resources" in text


def test_waiting_and_limits_are_left_to_the_process_of_a_type(minion: Minion) -> None:
    chain = Executors(minion.loader, threads=True).chain(
        Execution(["splay", "timeout", "direct_call"], {"splaytime": 100, "call_timeout": 7}), remote=False
    )
    assert chain.limit() == 7.0
    assert {chain.delay(f"dummy:d{n}") for n in range(5)} == {chain.delay(f"dummy:d{n}") for n in range(5)}
    began = time.monotonic()
    assert (
        call(minion.loader, "m.note", ["x"], {}, pub={"jid": "1", "fun": "m.note", "user": "u"}, chain=chain).value
        == "x"
    )
    assert time.monotonic() - began < 5.0


# --- names and options


def test_a_single_name_is_a_list_of_one_and_nothing_is_the_default() -> None:
    assert checked_executors("splay") == ["splay"]
    assert checked_executors([]) == checked_executors(None) == checked_executors("") == []


@pytest.mark.parametrize("value", [{"a": "b"}, 5, [5], True, [["splay"]], 1.5])
def test_what_is_no_list_of_names_is_told_in_salts_words(value: Any) -> None:
    with pytest.raises(UsageError, match=r"Wrong executors specification: .* String or non-empty list expected"):
        checked_executors(value)


def test_the_limits_of_names_and_options_hold() -> None:
    assert len(checked_executors(["x" * EXECUTOR_NAME_MAX] * EXECUTORS_MAX)) == EXECUTORS_MAX
    for names in (["x"] * (EXECUTORS_MAX + 1), ["x" * (EXECUTOR_NAME_MAX + 1)], ["a.b"], ["../a"], [""], ["é"]):
        with pytest.raises(UsageError):
            checked_executors(names)
    assert len(checked_options({f"o{n}": n for n in range(OPTIONS_MAX)})) == OPTIONS_MAX
    for options in ({f"o{n}": n for n in range(OPTIONS_MAX + 1)}, ["x"], {1: 2}, {"": 1}, "x"):
        with pytest.raises(UsageError):
            checked_options(options)


@pytest.mark.parametrize(
    ("opts", "asked", "direct"),
    [
        ({}, Execution(), True),
        ({"module_executors": ["direct_call"]}, Execution(["direct_call"]), True),
        ({"module_executors": ["audit", "direct_call"]}, Execution(["direct_call"]), False),
        ({"sudo_user": "nobody"}, Execution(), False),
        ({}, Execution(["splay"]), False),
        ({}, Execution([], {"splaytime": 3}), False),
    ],
)
def test_the_default_needs_no_executor(opts: dict[str, Any], asked: Execution, direct: bool) -> None:
    assert is_direct(opts, asked) is direct


@pytest.mark.skipif(not shutil.which("sudo"), reason="there is no sudo")
def test_secrets_are_known_by_their_parameters_where_another_user_runs_the_function(folder: Path) -> None:
    audit = folder / "audit"
    minion = Minion(folder, sudo_user="nobody", audit_file=str(audit), audit_arguments=True)
    minion.call(["audit"], "shadow.gen_password", "hunter2")
    assert "hunter2" not in audit.read_text()


def test_what_the_master_knows_of_is_what_ships() -> None:
    shipped = Path(__file__).parents[2] / "saltlite/plugins/executors"
    assert {file.stem for file in shipped.glob("[!_]*.py")} == SHIPPED_EXECUTORS
