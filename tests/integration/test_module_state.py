"""The module `state` with a stand-in for Salt: what Salt gets and what callers get. tests/compat has the real Salt."""

from __future__ import annotations

import contextlib
import fcntl
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.modules import write

SALT = {
    "salt/__init__": "",
    "salt/exceptions": "class CommandExecutionError(Exception): pass\nclass SaltInvocationError(Exception): pass",
    "salt/config": "DEFAULT_MINION_OPTS = {'failhard': False, 'renderer': 'jinja|yaml', 'file_client': 'remote'}",
    "salt/pillar": "def get_pillar(*args, **kwargs): raise RuntimeError('no master of Salt')",
    "salt/utils/__init__": "",
    "salt/utils/dictupdate": "def merge(a, b): return {**a, **b}",
    "salt/loader": """
        import os, runpy, time
        import salt.pillar
        from salt.exceptions import CommandExecutionError, SaltInvocationError

        synced = []

        def utils(opts, context): return {}

        def minion_mods(opts, context, utils):
            event = runpy.run_path(os.path.join(opts["module_dirs"][0], "event.py"))
            root = opts["file_roots"]["base"][0]

            def apply(mods=None, **kwargs):
                print("what a state prints")
                if mods == "boom": raise CommandExecutionError("it failed")
                if mods == "wrong": raise SaltInvocationError("wrong arguments")
                if mods == "die": os._exit(3)
                for number in range(kwargs.get("states", 0)):
                    ret = {"__run_num__": number, "changes": {"x": "x" * kwargs.get("size", 1)}}
                    tag = f"salt/job/1/prog/m/{number}"
                    event["fire_master"]({"ret": ret, "len": kwargs["states"]}, tag, preload={"jid": "1"})
                while mods == "wait" and not os.path.exists(os.path.join(kwargs["where"], "go")):
                    time.sleep(0.01)
                context["retcode"] = kwargs.get("code", 0)
                pillar = salt.pillar.get_pillar(opts, {}, "m", pillar_override=kwargs.get("pillar")).compile_pillar()
                return {"kwargs": kwargs, "pillar": pillar, "files": sorted(os.listdir(root)), "synced": synced,
                        **{name: opts[name] for name in ("id", "grains", "failhard", "renderer", "file_client")}}

            return {
                "state.apply": apply,
                "state.show_top": lambda **kwargs: {1, 2},
                "state.single": lambda fun, name, **kwargs: event["send"](name, {"by": fun}),
                "saltutil.sync_all": lambda refresh: synced.append(refresh),
            }
        """,
}


class Files:
    """The client of the file server, with a folder that is there already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def envs(self) -> list[str]:
        return ["base"]

    def mirror(self, _env: str) -> str:
        return str(self.folder)


class Events:
    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.problem: Exception | None = None
        self.attempts = 0

    def send(self, tag: str, data: dict[str, Any], _timeout: float) -> None:
        self.attempts += 1
        if self.problem:
            raise self.problem
        self.sent.append((tag, data))


class Minion:
    """A minion beside which the stand-in is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        self.events = Events()
        self.grains = {"id": "m", "os": "Debian"}
        self.opts: dict[str, Any] = {
            "id": "m", "cachedir": str(folder / "cache"), "conf_file": str(folder / "minion"),
            "salt_python": sys.executable,
        }  # fmt: skip

    def call(self, fun: str, *args: Any, **kwargs: Any) -> Outcome:
        more = {"__file_client__": Files(self.files), "__events__": self.events}
        loader = Loader(build_index(search_layers(self.opts)), self.opts, self.grains, {"a": 1}, more=more)
        return call(loader, f"state.{fun}", args, kwargs, pub={"jid": "20260101000000000000"})


@pytest.fixture
def minion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Minion:
    monkeypatch.setenv("PYTHONPATH", str(write(tmp_path / "site", SALT)))
    return Minion(tmp_path)


def test_salt_has_the_options_grains_files_and_pillar_of_the_minion(minion: Minion) -> None:
    (minion.files / "a.sls").touch()
    minion.opts["state_options"] = {"failhard": True}
    found = minion.call("apply", "a", pillar={"b": 2}, test=True).value
    assert found["grains"] == {"id": "m", "os": "Debian"}
    assert found["pillar"] == {"a": 1, "b": 2}
    assert found["kwargs"].items() >= {"test": True, "__pub_jid": "20260101000000000000"}.items()
    said = {name: found[name] for name in ("id", "files", "failhard", "renderer", "file_client", "synced")}
    assert said == {
        "id": "m", "files": ["a.sls"], "failhard": True, "renderer": "jinja|yaml", "file_client": "local", "synced": [],
    }  # fmt: skip


def test_salt_does_not_have_the_grain_that_would_hide_pillar_from_its_config_get(minion: Minion) -> None:
    (minion.files / "a.sls").touch()
    minion.grains["timezone"] = "UTC"
    assert minion.call("apply", "a").value["grains"] == {"id": "m", "os": "Debian"}


def test_custom_states_of_the_tree_are_synced_by_salt_before_the_run(minion: Minion) -> None:
    (minion.files / "_states").mkdir()
    assert minion.call("apply").value["synced"] == [False]


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_return_code_is_salts(minion: Minion, code: int) -> None:
    outcome = minion.call("apply", code=code)
    assert (outcome.retcode, outcome.out) == (code, "highstate")


def test_values_that_no_message_has_are_made_plain(minion: Minion) -> None:
    assert minion.call("show_top").value == [1, 2]


@pytest.mark.parametrize(
    ("mods", "words"),
    [
        ("boom", "ERROR: it failed"),
        ("wrong", "ERROR executing 'state.apply': wrong arguments"),
        ("die", "Salt's state compiler ended with the status 3"),
    ],
)
def test_an_error_of_salt_is_a_sentence(minion: Minion, mods: str, words: str) -> None:
    outcome = minion.call("apply", mods)
    assert (outcome.retcode, words in outcome.value) == (1, True), outcome.value


def test_an_interpreter_without_salt_or_that_is_none_is_named(minion: Minion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    assert f"{sys.executable} has no Salt" in minion.call("apply").value
    minion.opts["salt_python"] = "/nonexistent/python"
    assert "/nonexistent/python (option salt_python) cannot be started" in minion.call("apply").value


def test_without_salt_the_module_is_not_there(tmp_path: Path) -> None:
    loader = Loader(build_index(search_layers({"id": "m"})), {"id": "m"}, {}, {})
    assert "saltlite has no states without Salt installed beside" in call(loader, "state.apply", (), {}).value
    assert "loads where Salt is installed beside" in call(loader, "alternatives.auto", ("editor",), {}).value
    assert "state.apply" not in loader


def test_salts_files_send_events_through_the_minion(minion: Minion) -> None:
    assert minion.call("single", "f", "app/done").value is True
    assert minion.events.sent == [("app/done", {"by": "f"})]


def test_each_state_is_an_event(minion: Minion) -> None:
    minion.call("apply", states=3)
    assert [tag for tag, _ in minion.events.sent] == [f"salt/job/1/prog/m/{number}" for number in range(3)]
    assert minion.events.sent[1][1] == {"ret": {"__run_num__": 1, "changes": {"x": "x"}}, "len": 3}


def test_states_that_end_faster_than_events_may_be_sent_share_events_that_are_not_too_large(minion: Minion) -> None:
    minion.call("apply", states=300, size=400)
    told = [ret for _, data in minion.events.sent for ret in (*data.get("earlier", ()), data["ret"])]
    assert [ret["__run_num__"] for ret in told] == list(range(300))
    assert 41 <= len(minion.events.sent) < 80
    assert max(len(str(data)) for _, data in minion.events.sent) < 32 * 1024


def test_a_state_that_is_too_large_for_an_event_says_what_it_lacks(minion: Minion) -> None:
    minion.call("apply", states=1, size=50_000)
    assert minion.events.sent[0][1]["ret"] == {"__run_num__": 0, "shortened": ["changes"]}


@pytest.mark.parametrize(
    ("problem", "attempts"), [(CommandExecutionError("no master"), 1), (SaltInvocationError("refused"), 3)]
)
def test_a_run_goes_on_when_its_events_cannot_be_sent_and_does_not_wait_for_a_master_again(
    minion: Minion, problem: Exception, attempts: int
) -> None:
    minion.events.problem = problem
    assert minion.call("apply", states=3).retcode == 0
    assert minion.events.attempts == attempts


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)


def is_locked(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class Running:
    """A run that lasts until `end`."""

    def __init__(self, minion: Minion) -> None:
        self._minion = minion
        self._thread = threading.Thread(
            target=minion.call, args=("apply", "wait"), kwargs={"where": str(minion.folder), "states": 1}
        )
        self._thread.start()
        wait_for(lambda: minion.events.sent)

    def end(self) -> None:
        (self._minion.folder / "go").touch()
        self._thread.join()


def test_one_run_at_a_time_changes_the_minion(minion: Minion) -> None:
    running = Running(minion)
    try:
        refused = minion.call("apply")
        assert refused.retcode == 1
        (sentence,) = refused.value
        assert sentence.startswith('The function "state.apply" is running as PID ')
        assert sentence.endswith("was started at 2026, Jan 01 00:00:00.000000 with jid 20260101000000000000")
        assert minion.call("running").value == [sentence]
        assert minion.call("apply", queue=0).value == [sentence]
        assert minion.call("apply", concurrent=True).retcode == 0
        assert minion.call("running", concurrent=True).value == []
    finally:
        running.end()
    assert minion.call("running").value == []
    assert minion.call("apply").retcode == 0


@pytest.mark.parametrize("queue", [True, 1])
def test_a_run_that_is_queued_waits_for_its_turn(minion: Minion, queue: bool | int) -> None:
    running = Running(minion)
    found: list[Outcome] = []
    waiting = threading.Thread(target=lambda: found.append(minion.call("apply", queue=queue)))
    waiting.start()
    try:
        if queue is not True:
            wait_for(lambda: is_locked(minion.folder / "cache" / "states.lock.0"))
            assert "is running as PID" in minion.call("apply", queue=1).value[0]
        assert found == []
    finally:
        running.end()
        waiting.join()
    assert [outcome.retcode for outcome in found] == [0]


def test_a_queue_that_is_no_number_is_refused(minion: Minion) -> None:
    assert "queue is True, False or the number of runs that may wait" in minion.call("apply", queue="x").value
