"""Salt's own modules, all of them, under the loader of saltlite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("SALTLITE_COMPAT_PYTHON") or sys.executable

LOAD_S = 1.0
FILES = 250
FUNCTIONS = 1200

NOT_HERE = {"apache.version", "cron.list_tab", "iptables.version", "kmod.lsmod", "timezone.get_zone", "ufw.version"}
"""Calls that need a program which the machine may not have."""


def run(program: str) -> Any:
    path = os.pathsep.join([str(ROOT), str(ROOT / "daemons")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [PYTHON, "-m", program], cwd="/", env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def survey() -> dict[str, Any]:
    # At the first run Python compiles the files, as an installation does; the faster run is the one less disturbed.
    first, found = run("tests.compat.survey"), run("tests.compat.survey")
    return {**found, "load_s": min(first["load_s"], found["load_s"])}


def test_all_files_load_without_a_fault(survey: dict[str, Any]) -> None:
    assert survey["without_fault"] == survey["files"] >= FILES


def test_they_have_as_many_functions_as_under_salts_own_loader(survey: dict[str, Any]) -> None:
    assert survey["functions_of_all"] >= max(FUNCTIONS, survey["functions_by_salts_loader"])
    # Salt's loader takes its own module `ethtool` for the library of that name, and so offers what cannot work.
    assert {fun.partition(".")[0] for fun in survey["only_by_salts_loader"]} <= {"ethtool"}


def test_they_load_in_a_second_of_cpu(survey: dict[str, Any]) -> None:
    assert survey["load_s"] <= LOAD_S


def test_our_library_gives_what_salts_gives() -> None:
    assert run("tests.compat.library") == []


@pytest.mark.timeout(300)
def test_calls_through_a_minion_return_and_its_job_server_does_not_grow() -> None:
    figures = run("tests.compat.calls")
    rows = {row["call"].split()[0]: row for row in figures["rows"]}
    faults = {fun: row for fun, row in rows.items() if "Traceback" in row["return"]}
    assert faults == {}
    failed = {fun for fun, row in rows.items() if row["retcode"]}
    assert failed <= NOT_HERE | {"service.get_all"}
    assert abs(figures["auto"]["job_server_mib"] - figures["off"]["job_server_mib"]) < 0.2
    assert not figures["auto"]["salt_in_job_server"]


def test_salts_own_beacons_run_unmodified_behind_those_that_ship() -> None:
    found = run("tests.compat.beacons")
    assert {"memusage", "swapusage", "status", "ps", "sh"} <= set(found["beacons"])
    assert found["service_is_ours"]
    ((tag, data),) = found["memusage"]["events"]
    assert (tag, 0 < data["memusage"] < 100) == ("", True)
    assert "list" in found["invalid"]["problem"]


def test_salts_own_external_pillars_run_unmodified() -> None:
    assert run("tests.compat.external") == [{"motd": "b'hello'", "stacked": "web1", "a": 1}, []]


def test_salts_own_resource_types_work_unmodified_as_custom_ones() -> None:
    dummy, ssh = run("tests.compat.opts_and_types")["types"]
    assert dummy == {"type": "dummy", "instead_of": "", "faults": {}, "ids": ["d1", "d2"], "ping": True, "missing": []}
    # Nothing listens at its port.
    assert ssh == {"type": "ssh", "instead_of": "", "faults": {}, "ids": ["w1"], "ping": False, "missing": []}


def test_the_defaults_that_files_see_are_salts() -> None:
    assert run("tests.compat.opts_and_types")["differ"] == {}


def test_errors_have_salts_texts_attributes_and_families() -> None:
    assert run("tests.compat.errors") == {"differ": [], "families": []}


def test_calls_between_modules_take_the_keywords_that_salts_functions_take() -> None:
    found = run("tests.compat.keywords")
    assert found["compared"] > 700
    assert (found["differ"], found["stale"]) == ([], [])


@pytest.mark.timeout(300)
def test_everyday_calls_give_what_salts_give() -> None:
    found = run("tests.compat.everyday")
    assert (found["calls"], found["differ"]) == (60, [])
