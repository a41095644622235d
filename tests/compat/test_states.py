"""State files of the kind that public formulas have, unchanged, by Salt's own compiler beside a minion."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fleet import Fleet

TREE = Path(__file__).parents[1] / "data" / "states"
FILES = 17
OF_THE_MACHINE = "users,cron,sysctl,hosts"
"""They are tried only, because they would change the machine of the tests."""
PYTHON = os.environ.get("SALTLITE_COMPAT_PYTHON") or sys.executable

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    served = fleet.root("master") / "srv"
    shutil.copytree(TREE, served / "salt")
    (served / "pillar").mkdir()
    pillar = {
        "root": str(fleet.folder / "changed"), "role": "web", "app": {"port": 8080}, "tls": {"cert": "secret"},
        "users": {"deploy": {"uid": 2001}},
    }  # fmt: skip
    (served / "pillar" / "top.sls").write_text("base:\n  '*': [all]\n")
    (served / "pillar" / "all.sls").write_text(yaml.safe_dump(pillar))
    try:
        fleet.start_master()
        fleet.join("web1", salt_python=PYTHON)
        yield fleet
    finally:
        fleet.close()


def states(fleet: Fleet, *words: str, code: int = 0) -> dict[str, Any]:
    said = fleet.cli("-t", "200", "--out", "json", "web1", *words)
    assert said.code == code, said
    found: dict[str, Any] = json.loads(said.out)["web1"]
    return found


def changed(run: dict[str, Any]) -> set[str]:
    return {one["__id__"] for one in run.values() if one["changes"]}


def test_state_files_of_formulas_run_unchanged_and_then_change_nothing(fleet: Fleet) -> None:
    here = fleet.folder / "changed"
    shown = states(fleet, "state.show_top")
    assert len(shown["base"]) >= FILES

    # Some states need what others would have made.
    tried = states(fleet, "state.highstate", "test=True", code=4)
    assert not here.exists()
    assert sum(one["result"] is None for one in tried.values()) >= FILES

    first = states(fleet, "state.highstate")
    assert {tag: one for tag, one in first.items() if one["result"] is False} == {}
    assert len({one["__sls__"] for one in first.values()}) >= FILES
    assert (here / "etc/motd").read_text() == "Welcome to web1\n"
    assert "worker_processes 4;\n# web1" in (here / "etc/nginx/nginx.conf").read_text()
    assert sorted(os.listdir(here / "etc/nginx/sites-enabled")) == ["api", "default"]
    assert (here / "etc/ssh/sshd_config").read_text() == "Port 2222\nPermitRootLogin no\nUseDNS no\n"
    assert json.loads((here / "srv/app/settings.json").read_text()) == {"port": 8080}
    assert (here / "srv/app").stat().st_mode & 0o777 == 0o750
    assert (here / "srv/unpacked/src/version").read_text() == "1\n"
    assert "deploy ALL" in (here / "etc/sudoers").read_text()
    assert (here / "rendered-by-python").read_text().strip() == "web1"
    assert (here / "marker").read_text().strip() == "CUSTOM"

    again = states(fleet, "state.apply")
    assert changed(again) <= {"backup-check", "backup-parallel", "backup-tries", "notify", "called", "proxy"}


def test_state_files_of_the_machine_are_tried(fleet: Fleet) -> None:
    tried = states(fleet, "state.sls", OF_THE_MACHINE, "test=True")
    assert [tag for tag, one in tried.items() if one["result"] is False] == []
    undone = {one["__id__"] for one in tried.values() if one["result"] is None}
    assert undone >= {"deploy-user", "nightly", "db1", "db2", "db3"}


def test_each_state_of_a_run_is_an_event_of_its_job(fleet: Fleet) -> None:
    states(fleet, "state.apply", "motd,cleanup")
    said = fleet.cli("events", "minion/web1/salt/job/*/prog/web1/*", "--since", "1", "--count", "1", "--out", "jsonl")
    (event,) = map(json.loads, said.out.splitlines())
    assert event["data"]["data"]["ret"]["__run_num__"] == 0
    assert event["data"]["data"]["len"] > FILES


@pytest.mark.parametrize(
    ("words", "code", "result"),
    [
        (("state.single", "test.succeed_without_changes", "name=x"), 0, True),
        (("state.single", "test.fail_without_changes", "name=x"), 4, False),
        (("state.single", "test.succeed_with_changes", "name=x", "test=True"), 0, None),
    ],
)
def test_a_single_state_has_salts_result(fleet: Fleet, words: tuple[str, ...], code: int, result: object) -> None:
    (one,) = states(fleet, *words, code=code).values()
    assert one["result"] is result


def test_what_cannot_be_compiled_says_why_with_salts_code(fleet: Fleet) -> None:
    said = fleet.cli("--retcode-passthrough", "web1", "state.sls", "nosuch")
    assert (said.code, "No matching sls found for 'nosuch' in env 'base'" in said.out) == (1, True)


def test_a_failed_state_has_salts_code_and_terse_lines(fleet: Fleet) -> None:
    words = ("--retcode-passthrough", "--state-output", "terse", "web1", "state.single", "test.nop", "name=x")
    said = fleet.cli(*words)
    assert (said.code, said.out.splitlines()[1].startswith(" Name: x - Function: test.nop - Result: Clean")) == (
        0,
        True,
    )
    assert fleet.cli(*words[:-2], "test.fail_without_changes", "name=x").code == 2


def test_pillar_of_the_command_line_goes_on_top(fleet: Fleet) -> None:
    states(fleet, "state.apply", "app", 'pillar={"app": {"port": 9090}}')
    assert json.loads((fleet.folder / "changed/srv/app/settings.json").read_text()) == {"port": 9090}


def test_functions_that_show_states_show_them(fleet: Fleet) -> None:
    assert states(fleet, "state.show_sls", "motd")
    assert states(fleet, "state.show_lowstate")
    assert states(fleet, "state.show_highstate")
    assert "nginx.sites" in states(fleet, "state.show_states")
