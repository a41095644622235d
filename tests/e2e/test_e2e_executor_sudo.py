"""Functions that another user calls, by the real sudo: what reaches it, what comes back, and no way around it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import BIN, Fleet, wait_until
from tests.support.machine import OTHER, opening, why_not

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(why_not()), reason=why_not())]

OWN = """
def execute(opts, data, func, args, kwargs):
    return ["own", func(*args, **kwargs)]
"""

HOLD = """
import os, time

def it(secret, seconds=0):
    time.sleep(seconds)
    return [os.geteuid(), secret, __grains__["id"], __pillar__, sorted(os.environ)[:0]]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A master, and a minion whose functions `nobody` calls."""
    fleet = Fleet(tmp_path_factory.mktemp("sudo"))
    modules = Path("/tmp") / f"saltlite-test-{fleet.mark}"
    (modules / "modules").mkdir(parents=True)
    (modules / "executors").mkdir()
    (modules / "modules/hold.py").write_text(HOLD)
    (modules / "executors/own.py").write_text(OWN)
    try:
        fleet.start_master()
        fleet.through = opening()
        fleet.join(
            "s",
            sudo_user=OTHER,
            module_dirs=[str(modules)],
            executors_allowed=["direct_call", "splay", "own", "dry", "timeout", "nice"],
        )
        yield fleet
    finally:
        fleet.close()
        subprocess.run(["rm", "-r", modules], check=True)


def returned(fleet: Fleet, *words: str) -> Any:
    """What the minion returned."""
    return fleet.cli("--out", "json", *words).json()["s"]


@pytest.mark.parametrize(
    "asked",
    [
        [],
        ["--module-executors=direct_call"],
        ["--module-executors=[direct_call, splay]"],
        ["--module-executors=[timeout, direct_call]"],
        ["--module-executors=[nice, direct_call]", "--executor-opts={nice_level: 12}"],
    ],
)
def test_nobody_gets_around_a_configured_sudo(site: Fleet, asked: list[str]) -> None:
    assert returned(site, *asked, "s", "cmd.run", "id -un") == OTHER


def test_an_executor_of_ones_own_gets_the_function_as_that_user_would_call_it(site: Fleet) -> None:
    assert returned(site, "--module-executors=own", "s", "cmd.run", "id -un") == ["own", OTHER]


def test_a_caller_gives_no_other_user(site: Fleet) -> None:
    said = site.cli("--executor-opts={sudo_user: root}", "--out", "json", "s", "cmd.run", "id -un")
    assert said.code == 4
    assert "takes the option 'sudo_user' from a caller" in said.json()["s"]


def test_a_dry_call_calls_nothing_and_names_the_user(site: Fleet) -> None:
    assert returned(site, "--module-executors=dry", "s", "cmd.run", "id -un") == {
        "dry": True, "fun": "cmd.run", "args": ["id -un"], "kwargs": {}, "sudo_user": OTHER,
    }  # fmt: skip


@pytest.mark.parametrize("word", ['it\'s "x" $HOME `id`; *', "ünïcödé 🧂", "--", "-u root", ""])
def test_an_argument_arrives_as_it_was_given(site: Fleet, word: str) -> None:
    given = returned(site, "s", "hold.it", f"secret={word}")
    assert given[1] == word


def test_the_function_has_grains_and_pillar_of_the_minion(site: Fleet) -> None:
    assert returned(site, "s", "hold.it", "x")[2:4] == ["s", {}]


def test_no_command_line_and_no_environment_has_the_arguments(site: Fleet) -> None:
    jid = site.publish("s", "hold.it", "hunter2hunter2", "2")
    site.wait_state(jid, "s", "running")
    children = wait_until(_processes_of_other, "the process of the other user")
    seen = b""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            for name in ("cmdline", "environ"):
                try:
                    seen += Path(f"/proc/{entry}/{name}").read_bytes()
                except OSError:
                    continue
    assert children
    assert b"hunter2hunter2" not in seen
    site.wait_state(jid, "s", "returned")


def test_return_codes_and_errors_come_back(site: Fleet) -> None:
    assert "s: failed with retcode 42" in site.cli("--out", "json", "s", "test.retcode", "42").err
    failed = site.cli("--out", "json", "s", "test.exception", "no luck")
    assert (failed.code, "no luck" in failed.json()["s"]) == (4, True)


def test_a_kill_ends_what_the_other_user_runs(site: Fleet) -> None:
    jid = site.publish("s", "test.sleep", "600")
    site.wait_state(jid, "s", "running")
    wait_until(_processes_of_other, "the process of the other user")
    assert site.cli("job", "kill", jid).code == 0
    site.wait_state(jid, "s", "cancelled")
    wait_until(lambda: not _processes_of_other(), "no process of the other user")


def test_a_time_limit_ends_what_the_other_user_runs(site: Fleet) -> None:
    said = site.cli(
        "--module-executors=[timeout, direct_call]", "--executor-opts={call_timeout: 1}", "--out", "json",
        "s", "test.sleep", "600",
    )  # fmt: skip
    assert "took longer than 1 s" in said.json()["s"]
    wait_until(lambda: not _processes_of_other(), "no process of the other user")


def test_the_same_holds_for_call(site: Fleet) -> None:
    argv = [*opening(), BIN / "saltlite", "-c", site.folder / "s", "call", "--module-executors=direct_call"]
    done = subprocess.run(
        [*argv, "cmd.run", "id -un", "--out", "json"],
        capture_output=True, text=True, env=site.environment(), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["{", '"local":', f'"{OTHER}"', "}"]), done.stderr


def _processes_of_other() -> list[str]:
    """The processes in which the other user calls functions."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and b"stdinjob.py" in Path(f"/proc/{entry}/cmdline").read_bytes():
                found.append(entry)
        except OSError:
            continue
    return found
