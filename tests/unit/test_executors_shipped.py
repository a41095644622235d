"""The executors that ship, one by one; `sudo` has tests of its own with a real second user."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.config.minion import MinionConfig
from saltlite.config.opts import opts_of
from saltlite.decorators import collecting
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.model.execution import RETURNED_NONE, CallEnded

DATA = {
    "id": "web1", "jid": "20260101000000000000", "user": "alice", "fun": "m.f", "arg": [],
    "module_executors": ["x"], "executor_opts": {},
}  # fmt: skip


def executor(name: str, **options: Any) -> tuple[Callable[..., Any], dict[str, Any], Loader]:
    opts = {**opts_of(MinionConfig(), "web1"), **options}
    loader = Loader(build_index(search_layers(opts, "executors")), opts, {}, {})
    return loader[f"{name}.execute"], opts, loader


def in_child(what: Callable[[], None]) -> int:
    """Run it in a process of its own, whose limits then are nobody else's; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            what()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the last frame of a process
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_direct_call_calls_and_marks_a_none() -> None:
    execute, opts, _loader = executor("direct_call")
    assert execute(opts, DATA, lambda a, b: a + b, [1], {"b": 2}) == 3
    assert execute(opts, DATA, lambda: None, [], {}) is RETURNED_NONE
    assert execute(opts, DATA, "m.missing", [], {}) is None


def test_a_delay_is_a_share_of_splaytime_that_follows_from_the_id() -> None:
    _execute, opts, loader = executor("splay", splaytime=100.0)
    delay = loader["splay.delay"]
    delays = [delay(opts, {**DATA, "id": f"web{n}"}) for n in range(400)]
    assert delays == [delay(opts, {**DATA, "id": f"web{n}"}) for n in range(400)]
    assert all(0 <= one < 100 for one in delays)
    # Spread evenly: no quarter has less than half of its share.
    assert all(sum(low <= one < low + 25 for one in delays) > 50 for low in (0, 25, 50, 75))


@pytest.mark.parametrize("splaytime", [0, -1, float("nan"), float("inf")])
def test_a_splaytime_that_is_no_time_is_told(splaytime: float) -> None:
    _execute, opts, loader = executor("splay")
    with pytest.raises(SaltInvocationError, match="splaytime is a number of seconds above 0"):
        loader["splay.delay"]({**opts, "splaytime": splaytime}, {**DATA, "executor_opts": {"splaytime": splaytime}})


def test_a_caller_is_held_to_splay_max_and_the_configuration_is_not() -> None:
    _execute, opts, loader = executor("splay", splaytime=5000.0, splay_max=60.0)
    assert loader["splay.delay"](opts, DATA) > 0
    with pytest.raises(SaltInvocationError, match="may be 60 s at most here"):
        loader["splay.delay"]({**opts, "splaytime": 61}, {**DATA, "executor_opts": {"splaytime": 61}})


def test_splay_waits_once_a_job_and_says_how_long() -> None:
    execute, opts, _loader = executor("splay", splaytime=0.01)
    with collecting() as notes:
        assert execute(opts, DATA, None, [], {}) is None
        assert execute(opts, DATA, None, [], {}) is None
    assert list(notes) == ["splay: the call was delayed by 0.0 s"]


def test_a_function_that_swallows_the_end_of_its_time_is_ended_again() -> None:
    execute, opts, loader = executor("timeout", call_timeout=0.05)

    def stubborn() -> None:
        try:
            while True:
                pass
        except BaseException:  # noqa: BLE001 - as some functions do
            while True:
                pass

    try:
        assert execute(opts, DATA, stubborn, [], {}) is None
        with pytest.raises(CallEnded, match=r"m\.f was ended, because it took longer than 0\.05 s"):
            stubborn()
    finally:
        loader["timeout.finish"](opts, DATA)


def test_a_caller_asks_for_less_time_than_is_configured_and_not_for_more() -> None:
    _execute, opts, loader = executor("timeout", call_timeout=5.0)
    limit = loader["timeout.limit"]
    assert limit(opts, DATA) == 5.0
    assert limit({**opts, "call_timeout": 2}, {**DATA, "executor_opts": {"call_timeout": 2}}) == 2.0
    for more in (6, 0):
        with pytest.raises(SaltInvocationError, match="call_timeout may be 5 s at most here"):
            limit({**opts, "call_timeout": more}, {**DATA, "executor_opts": {"call_timeout": more}})


def test_nice_lowers_priority_and_limits_memory() -> None:
    execute, opts, _loader = executor("nice", nice_level=15, nice_memory=2**33)

    def look() -> None:
        assert execute(opts, DATA, None, [], {}) is None
        assert os.getpriority(os.PRIO_PROCESS, 0) == 15
        assert resource.getrlimit(resource.RLIMIT_AS) == (2**33, 2**33)

    assert in_child(look) == 0


def test_a_caller_asks_for_less_priority_and_not_for_more() -> None:
    execute, opts, _loader = executor("nice", nice_level=10)
    for level in (9, 20):
        with pytest.raises(SaltInvocationError, match="nice_level is from 10"):
            execute({**opts, "nice_level": level}, DATA, None, [], {})


def test_audit_writes_names_and_numbers_and_values_only_where_wanted(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    execute, opts, _loader = executor("audit", audit_file=str(path))
    assert execute(opts, DATA, print, ["a"], {"password": "p"}) is None
    execute({**opts, "audit_arguments": True}, DATA, print, ["a"], {"k": 1})
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["args"], first["kwargs"], first["user"]) == (1, ["password"], "alice")
    assert (second["args"], second["kwargs"]) == (["a"], {"k": 1})
    assert path.stat().st_mode & 0o777 == 0o600


def _set_password(_name: str, password: str, **_more: Any) -> bool:
    return bool(password)


def test_what_is_named_like_a_secret_is_neither_written_down_nor_told(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    execute, opts, _loader = executor("audit", audit_file=str(path), audit_arguments=True)
    execute(opts, DATA, _set_password, ["fred", "hunter2"], {"api_key": "hunter2", "n": 1})
    execute(opts, {**DATA, "arg": [{"__kwarg__": True, "token": "hunter2"}]}, "m.missing", [], {})
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["args"], first["kwargs"]) == (["fred", "***"], {"api_key": "***", "n": 1})
    assert second["args"] == [{"__kwarg__": True, "token": "***"}]
    execute, opts, _loader = executor("dry")
    told = execute(opts, DATA, _set_password, ["fred", "hunter2"], {"api_key": "hunter2"})
    assert (told["args"], told["kwargs"]) == (["fred", "***"], {"api_key": "***"})


@pytest.mark.parametrize("path", ["", "/nowhere/audit", "link"])
def test_what_cannot_be_written_down_is_not_called(tmp_path: Path, path: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    execute, opts, _loader = executor("audit", audit_file=str(tmp_path / path) if path == "link" else path)
    with pytest.raises(CommandExecutionError):
        execute(opts, DATA, print, [], {})
    assert not (tmp_path / "elsewhere").exists()


def test_dry_tells_and_does_not_call() -> None:
    execute, opts, _loader = executor("dry")
    called: list[int] = []
    assert execute(opts, DATA, called.append, [1], {}) == {"dry": True, "fun": "m.f", "args": [1], "kwargs": {}}
    assert called == []
