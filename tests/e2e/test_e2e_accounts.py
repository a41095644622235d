"""Users, groups, passwords and services through a master and a minion, on the machine itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fleet import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")]

USER = "slteve"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("accounts"))
    try:
        fleet.start_master()
        fleet.join("web1", smi_returns="strict")
        yield fleet
    finally:
        fleet.close()
        subprocess.run(["userdel", "-f", USER], capture_output=True, check=False)


def run(fleet: Fleet, *words: str) -> tuple[Any, int]:
    """What the minion returned, and its return code."""
    answer = fleet.cli("--out", "json-full", "web1", *words).json()["returns"]["web1"]
    return answer["return"], answer["retcode"]


def test_a_user_comes_gets_a_password_and_goes(fleet: Fleet) -> None:
    assert run(fleet, "user.add", USER, "createhome=False", "fullname=Eve E", "shell=/bin/false") == (True, 0)
    found, _ = run(fleet, "user.info", USER)
    assert (found["fullname"], found["shell"], found["groups"]) == ("Eve E", "/bin/false", [USER])
    made, _ = run(fleet, "shadow.gen_password", "s3cret phrase")
    assert run(fleet, "shadow.set_password", USER, made) == (True, 0)
    shown, _ = run(fleet, "shadow.info", USER)
    assert (shown["name"], shown["passwd"], shown["expire"]) == (USER, made, -1)
    said = fleet.cli("web1", "user.add", USER)
    assert (said.code != 0, f"user '{USER}' already exists" in said.out + said.err) == (True, True)
    assert fleet.cli("--accept-risk=remove", "web1", "user.delete", USER).code == 0
    assert run(fleet, "user.info", USER) == ({}, 0)


def test_removing_a_user_is_a_risk_that_somebody_has_to_accept(fleet: Fleet) -> None:
    said = fleet.cli("web1", "user.delete", "sltnone")
    assert (said.code != 0, "--accept-risk=remove" in said.err) == (True, True)


@pytest.mark.parametrize("name", ["a b", "-rf", "a;id", "ü", "a'b", "a\nb"])
def test_a_name_of_other_characters_is_refused(fleet: Fleet, name: str) -> None:
    with_keyword = run(fleet, "user.add", f"name={name}")
    assert ("is not the name of a user" in with_keyword[0], with_keyword[1]) == (True, 1)


def test_the_four_modules_keep_to_their_interfaces(fleet: Fleet) -> None:
    reports, _ = run(fleet, "smi.conformance", "user", "group", "shadow", "service")
    found = {
        name: (one["errors"], one["warnings"], one["counts"].get("not_implemented", 0)) for name, one in reports.items()
    }
    assert found == dict.fromkeys(("user", "group", "shadow", "service"), (0, 0, 0))
