"""The decorators of plug-in files, called as plain Python."""

from __future__ import annotations

import inspect
import logging
from typing import Any

import pytest

from saltlite import decorators
from saltlite.decorators import (
    NOTES_MAX,
    allow_one_of,
    collecting,
    depends,
    ensure_unicode_args,
    ignores_kwargs,
    is_deprecated,
    memoize,
    note,
    require_one_of,
    requirements_of,
    same_parameters,
    timing,
    which,
    which_bin,
    with_deprecated,
)
from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError


class Lib:
    """A library as a module has it in its globals."""

    def __init__(self, version: str | None) -> None:
        if version is not None:
            self.__version__ = version


def lacking(*dependencies: Any, space: dict[str, Any] | None = None, **given: Any) -> str:
    @depends(*dependencies, **given)
    def function() -> None: ...

    return "; ".join(filter(None, (one.missing(space or {}) for one in requirements_of(function))))


# --- depends


@pytest.mark.parametrize(
    ("installed", "wanted", "enough"),
    [
        ("1.2", "1.2", True),
        ("1.10", "1.9", True),
        ("1.2", "1.10", False),
        ("1.2.0", "1.2", True),
        ("1.2rc1", "1.2", False),
        ("1.2", "1.2rc1", True),
        ("1.2.post1", "1.2", True),
        ("2.0+local.5", "2.0", True),
        ("1.2.dev3", "1.2", False),
    ],
)
def test_versions_are_compared_as_versions(installed: str, wanted: str, enough: bool) -> None:
    assert (lacking("lib", version=wanted, space={"lib": Lib(installed)}) == "") is enough


def test_the_reason_names_the_version_that_is_wanted_and_the_one_that_is_here() -> None:
    assert lacking("lib", version="2", space={"lib": Lib("1.5")}) == "lib >= 2, here is 1.5"
    assert lacking("lib", version="2") == "lib >= 2"
    assert lacking("lib", version="2", space={"lib": Lib(None)}) == "lib >= 2, and lib does not say its version"


@pytest.mark.parametrize(
    ("dependencies", "space", "reason"),
    [
        (("a", "b"), {"a": 1, "b": 1}, ""),
        (("a", "b"), {"a": 1}, "b"),
        (("a",), {"a": None}, "a"),
        ((True,), {}, ""),
        ((True, False), {}, "a condition that does not hold here"),
    ],
)
def test_all_names_and_conditions_must_hold(dependencies: tuple[Any, ...], space: dict[str, Any], reason: str) -> None:
    assert lacking(*dependencies, space=space) == reason


def test_a_name_that_is_local_where_it_is_decorated_counts() -> None:
    here = object()

    @depends("here")
    def function() -> object:
        return here

    assert requirements_of(function)[0].missing({}) == ""


@pytest.mark.parametrize(
    ("command", "given", "reason"),
    [
        ("true", {"retcode": 0}, ""),
        ("false", {"retcode": 0}, "'false' to return 0, it returns 1"),
        ("sh -c 'exit 3'", {"retcode": 3}, ""),
        ("false", {"nonzero_retcode": True}, ""),
        ("true", {"nonzero_retcode": True}, "'true' to fail, it returns 0"),
        ("true", {"nonzero_retcode": False}, ""),
        ("false", {"nonzero_retcode": False}, "'false' to succeed, it returns 1"),
        ("/no/such/program", {"retcode": 0}, "'/no/such/program' to return 0, it returns nothing, because it cannot"),
        ("'unclosed", {"retcode": 0}, '"\'unclosed" to return 0, it returns nothing'),
    ],
)
def test_a_command_is_judged_by_its_return_code(command: str, given: dict[str, Any], reason: str) -> None:
    found = lacking(command, **given)
    assert found.startswith(reason) if reason else found == ""


def test_a_command_is_run_without_a_shell() -> None:
    assert lacking("true && false", retcode=0) == ""  # `true` with two arguments


def test_a_command_that_does_not_end_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decorators.COMMAND_SECONDS == 10
    monkeypatch.setattr(decorators, "COMMAND_SECONDS", 0.05)
    assert lacking("sleep 60", retcode=0) == "'sleep 60' to end within 0.05 s"


def test_depending_on_nothing_is_an_error() -> None:
    with pytest.raises(TypeError, match="at least one"):
        depends()


def test_what_cannot_carry_the_mark_cannot_be_decorated() -> None:
    with pytest.raises(TypeError, match="cannot decorate a builtin_function_or_method"):
        depends(True)(len)


# --- the others


def test_memoize_calls_once_for_the_same_arguments() -> None:
    calls: list[Any] = []

    @memoize
    def function(value: Any, *, key: Any = None) -> int:
        calls.append(value)
        return len(calls)

    assert [function(1), function(1), function(True), function(1, key=2), function([1]), function([1])] == [
        1, 1, 2, 3, 4, 5,
    ]  # fmt: skip


def test_memoize_passes_on_the_functions_own_error_and_calls_it_once() -> None:
    calls = []

    @memoize
    def function() -> None:
        calls.append(1)
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        function()
    assert calls == [1]


def test_ignores_kwargs_drops_the_names_and_no_other() -> None:
    @ignores_kwargs("test", "saltenv")
    def function(value: int, **rest: Any) -> Any:
        return value, rest

    assert function(1, test=True, saltenv="base", other=2) == (1, {"other": 2})


def test_timing_logs_for_debugging_and_returns_the_value(caplog: pytest.LogCaptureFixture) -> None:
    @timing
    def function() -> int:
        return 7

    with caplog.at_level(logging.DEBUG):
        assert function() == 7
    assert "Function function took" in caplog.text


@pytest.mark.parametrize("decorator", [allow_one_of, require_one_of])
def test_one_of_several_arguments_may_be_given(decorator: Any) -> None:
    def either(name: str | None = None, group: str | None = None, **rest: Any) -> Any:
        return name or group

    function = decorator("name", "group")(either)
    assert (function("a"), function(group="b")) == ("a", "b")
    with pytest.raises(SaltInvocationError, match="Only one of the following is allowed: name, group"):
        function("a", group="b")


def test_require_one_of_wants_one() -> None:
    @require_one_of("name", "group")
    def function(**rest: Any) -> Any:
        return rest

    assert function(group=1) == {"group": 1}
    with pytest.raises(SaltInvocationError, match="One of the following is required: name, group"):
        function()


def test_bytes_reach_the_function_as_text() -> None:
    @ensure_unicode_args
    def function(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert function(b"a\xc3\xa4", 1, k=b"x", bad=b"\xff") == (("aä", 1), {"k": "x", "bad": b"\xff"})


def test_a_missing_program_is_said_when_the_function_is_called() -> None:
    @which("no-such-program-zz")
    def one() -> None: ...

    @which_bin(["no-such-program-zz", "nor-this"])
    def several() -> None: ...

    with pytest.raises(CommandNotFoundError, match="The 'no-such-program-zz' binary was not found"):
        one()
    with pytest.raises(CommandNotFoundError, match=r"None of provided binaries\(no-such-program-zz, nor-this\)"):
        several()


def test_a_program_that_is_there_lets_the_function_run() -> None:
    @which_bin(["no-such-program-zz", "sh"])
    @which("sh")
    def function() -> int:
        return 1

    assert function() == 1


def test_a_deprecated_function_tells_its_caller() -> None:
    module = {"__name__": "saltlite.loaded.x.modules.m", "__func_alias__": {"list_": "list"}}

    @is_deprecated(module, "4.0", with_successor="m.show")
    def list_() -> int:
        return 1

    with collecting() as notes:
        assert (list_(), list_()) == (1, 1)
    assert list(notes) == [
        'The function "m.list" is deprecated and will expire in version "4.0". Use successor "m.show" instead.'
    ]


@pytest.mark.parametrize(
    ("policy", "opts", "answer"),
    [
        (with_deprecated.OPT_OUT, {}, "new"),
        (with_deprecated.OPT_OUT, {"use_deprecated": ["pkg.f"]}, "old"),
        (with_deprecated.OPT_IN, {}, "old"),
        (with_deprecated.OPT_IN, {"use_superseded": ["pkg.f"]}, "new"),
    ],
)
def test_the_configuration_chooses_between_old_and_new(policy: int, opts: dict[str, Any], answer: str) -> None:
    module: dict[str, Any] = {"__virtualname__": "pkg", "__opts__": opts, "_f": lambda: "old"}

    @with_deprecated(module, "4.0", policy=policy)
    def f() -> str:
        return "new"

    with collecting() as notes:
        assert f() == answer
    assert bool(notes) is (answer == "old")


def test_an_old_function_that_is_not_there_is_a_sentence() -> None:
    @with_deprecated({"__virtualname__": "pkg", "__opts__": {"use_deprecated": ["pkg.f"]}}, "4.0", with_name="old_f")
    def f() -> None: ...

    with pytest.raises(CommandExecutionError, match=r'asks for the old "pkg\.f", and its module has none'):
        f()


def test_notes_are_limited_and_outside_of_a_call_they_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with collecting() as notes:
        for number in range(NOTES_MAX + 5):
            note(f"sentence {number}")
    assert len(notes) == NOTES_MAX
    note("nobody collects this")
    assert "nobody collects this" in caplog.text


def test_a_function_with_the_parameters_of_another_is_called_as_the_other_and_does_its_own() -> None:
    def model(name: str, count: int = 1, *, test: bool = False) -> list[str]:
        return [name] * count

    @same_parameters(model)
    def shorter(*args: Any, **kwargs: Any) -> int:
        return len(model(*args, **kwargs))

    assert inspect.signature(shorter).parameters == inspect.signature(model).parameters
    assert shorter("a", count=3) == 3
