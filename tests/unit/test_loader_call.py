"""Calling a function: whatever it does, there is an outcome."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import Layer
from tests.support.modules import loader_over, write

HEADER = "from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError\n"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Call `m.f` of a module with this source."""

    def do(source: str, *args: Any, fun: str = "m.f", pub: dict[str, Any] | None = None, **kwargs: Any) -> Outcome:
        (tmp_path / "m.py").write_text(HEADER + textwrap.dedent(source))
        loader = Loader(build_index([Layer("custom", str(tmp_path))]), {}, {}, {})
        return call(loader, fun, args, kwargs, pub=pub)

    return do


def test_a_plain_value_comes_back_with_retcode_0(run: Any) -> None:
    assert run("def f(a, b=2): return [a, b]", 1, b=3) == Outcome([1, 3], 0)


@pytest.mark.parametrize("value", [False, None, 0, {}, {"result": True}, {"result": None}])
def test_falsy_values_are_results_like_any_other(run: Any, value: Any) -> None:
    assert run(f"def f(): return {value!r}") == Outcome(value, 0)


@pytest.mark.parametrize("key", ["result", "success"])
def test_a_dict_that_says_it_failed_has_retcode_1(run: Any, key: str) -> None:
    assert run(f"def f(): return {{{key!r}: False}}").retcode == 1


def test_the_context_sets_the_retcode(run: Any) -> None:
    assert run("def f():\n    __context__['retcode'] = 42\n    return 'x'") == Outcome("x", 42)


def test_a_retcode_of_an_earlier_call_does_not_stay(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f(): __context__['retcode'] = 3\ndef g(): pass")
    loader = Loader(build_index([Layer("custom", str(tmp_path))]), {}, {}, {})
    assert [call(loader, name, (), {}).retcode for name in ("m.f", "m.g")] == [3, 0]


@pytest.mark.parametrize("value", ["'many'", "None", "[1]"])
def test_a_retcode_that_is_no_number_is_1(run: Any, value: str) -> None:
    assert run(f"def f(): __context__['retcode'] = {value}").retcode == 1


def test_the_outputter_of_the_function_is_reported(run: Any) -> None:
    assert run("__outputter__ = {'f': 'txt'}\ndef f(): return 1") == Outcome(1, 0, "txt")


def test_a_keyword_that_the_function_does_not_take_is_named(run: Any) -> None:
    text = "ERROR executing 'm.f': The following keyword arguments are not valid: c=3"
    assert run("def f(a=1): pass", c=3) == Outcome(text, 1, "nested")


def test_missing_arguments_are_reported_with_the_documentation(run: Any) -> None:
    outcome = run("def f(a):\n    '''How to call it.'''")
    assert outcome.value == "Passed invalid arguments to m.f: missing a required argument: 'a'\n\nHow to call it."
    assert outcome.retcode == 1


def test_too_many_arguments_are_reported(run: Any) -> None:
    assert run("def f(a): pass", 1, 2).value == "Passed invalid arguments to m.f: too many positional arguments"


def test_a_type_error_inside_the_function_is_not_called_wrong_arguments(run: Any) -> None:
    outcome = run("def f(a): return a + 'x'", 1)
    assert outcome.value.startswith("The minion function caused an exception: Traceback")
    assert "unsupported operand" in outcome.value


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        ("CommandExecutionError('disk is full')", "ERROR: disk is full"),
        ("SaltInvocationError('name is empty')", "ERROR executing 'm.f': name is empty"),
        ("CommandNotFoundError('apt-get')", "Command required for 'm.f' not found: apt-get"),
    ],
)
def test_errors_on_purpose_are_shown_as_sentences(run: Any, raised: str, text: str) -> None:
    assert run(f"def f(): raise {raised}") == Outcome(text, 1, "nested")


@pytest.mark.parametrize(
    "raised",
    [
        "ValueError('boom')",
        "SystemExit(0)",
        "KeyboardInterrupt",
        "GeneratorExit",
        "BaseException",
        "MemoryError",
    ],
)
def test_any_other_exception_ends_in_an_outcome_with_its_traceback(run: Any, raised: str) -> None:
    outcome = run(f"def f(): raise {raised}")
    assert (outcome.retcode, outcome.out) == (1, "nested")
    assert outcome.value.startswith("The minion function caused an exception: Traceback")
    assert raised.partition("(")[0] in outcome.value


def test_the_traceback_starts_in_the_module(run: Any) -> None:
    assert "loader/call.py" not in run("def f(): raise ValueError").value


def test_endless_recursion_ends_in_an_outcome(run: Any) -> None:
    assert "RecursionError" in run("def f(): return f()").value


def test_an_exception_that_cannot_describe_itself_ends_in_an_outcome(run: Any) -> None:
    source = """
        class Odd(CommandExecutionError):
            def __str__(self): raise ValueError
        def f(): raise Odd()
        """
    assert run(source) == Outcome("ERROR: Odd", 1, "nested")


@pytest.mark.parametrize(
    "source",
    [
        "raise KeyboardInterrupt",
        "def __virtual__(): raise KeyboardInterrupt('x')",
        "def __init__(opts): raise KeyboardInterrupt()",
    ],
)
def test_a_module_that_raises_an_interrupt_while_it_loads_is_left_out_like_any_broken_one(
    run: Any, source: str
) -> None:
    outcome = run(f"{source}\ndef f(): pass")
    assert outcome.retcode == 1
    assert outcome.value.startswith("'m' ")
    assert "KeyboardInterrupt" in outcome.value or "Exception raised when processing __virtual__" in outcome.value


def test_ctrl_c_while_a_module_loads_interrupts_the_program(tmp_path: Path) -> None:
    source = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\ndef f(): pass"
    write(tmp_path, {"m": source})
    with pytest.raises(KeyboardInterrupt):
        loader_over(tmp_path)["m.f"]


def test_a_missing_function_carries_its_suggestion_as_a_warning(run: Any) -> None:
    outcome = run("def ping(): pass", fun="m.pong")
    assert outcome == Outcome("'m.pong' is not available.", 1, "nested", ("Did you mean m.ping?",))


def test_a_missing_cross_call_is_an_error_with_its_reason(run: Any) -> None:
    assert run("def f(): return __salt__['no.such']()").value == "ERROR: 'no.such' is not available."


def test_a_generator_of_dicts_becomes_one_dict(run: Any) -> None:
    assert run("def f():\n    yield {'a': 1}\n    yield {'b': 2}").value == {"a": 1, "b": 2}


def test_a_generator_of_anything_becomes_a_list(run: Any) -> None:
    assert run("def f():\n    yield {'a': 1}\n    yield 2").value == [{"a": 1}, 2]


def test_a_generator_that_fails_half_way_reports_its_error(run: Any) -> None:
    assert run("def f():\n    yield 1\n    raise CommandExecutionError('half')").value == "ERROR: half"


def test_an_async_function_runs(run: Any) -> None:
    source = "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7"
    assert run(source) == Outcome(7, 0)


def test_an_async_generator_runs(run: Any) -> None:
    assert run("async def f():\n    yield 1\n    yield 2").value == [1, 2]


def test_data_of_the_job_go_to_functions_with_any_keyword(run: Any) -> None:
    assert run("def f(**kwargs): return kwargs", x=1, pub={"jid": "j", "user": "u"}).value == {
        "x": 1,
        "__pub_jid": "j",
        "__pub_user": "u",
    }


@pytest.mark.parametrize("said", ["typing.Unpack[Keys]", "'typing.Unpack[Keys]'"])
def test_a_function_that_names_its_keywords_gets_no_others(run: Any, said: str) -> None:
    keys = "import typing\nclass Keys(typing.TypedDict, total=False):\n    x: int\n"
    source = f"{keys}def f(**kwargs: {said}): return kwargs"
    assert run(source, x=1, pub={"jid": "j", "user": "u"}).value == {"x": 1}


def test_a_caller_cannot_forge_data_of_the_job(run: Any) -> None:
    outcome = run("def f(**kwargs): return kwargs", __pub_user="root")
    assert outcome.retcode == 1
    assert "__pub_user cannot be given" in outcome.value


def test_data_of_the_job_do_not_disturb_other_functions(run: Any) -> None:
    assert run("def f(a): return a", 1, pub={"jid": "j"}).value == 1
