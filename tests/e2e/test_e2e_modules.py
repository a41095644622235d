"""Custom modules through master and minion: the listings of the document on them, and files that misbehave."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import MODULE_DIR, Fleet
from tests.support.modules import SEED, write

pytestmark = pytest.mark.e2e

BROKEN = {
    "bad_syntax": "def broken(:",
    "bad_exit": "import sys\nsys.exit(3)\ndef f(): pass",
    "bad_import": "import no_such_lib_zz\ndef f(): pass",
    "bad_zip.zip": "no archive",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One minion with the listings and with broken files in its module folder."""
    folder = tmp_path_factory.mktemp("modules")
    modules = write(folder / "modules", BROKEN)
    for path in SEED.glob("*.py"):
        shutil.copy(path, modules)
    shutil.make_archive(str(modules / "lumberjack"), "zip", SEED, "lumberjack")
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        fleet.start_master()
        fleet.join("a", module_dirs=[str(MODULE_DIR), str(folder)], enable_zip_modules=True)
        yield fleet
    finally:
        fleet.close()


def test_the_lumberjack_comes_out_of_his_archive(fleet: Fleet) -> None:
    said = fleet.cli("--out", "json", "a", "lumberjack.is_ok", "Michael Palin")
    assert (said.code, said.json()) == (0, {"a": True})


def test_a_missing_dependency_is_the_reason_that_the_operator_reads(fleet: Fleet) -> None:
    said = fleet.cli("a", "cheese_depends.foo")
    assert said.code == 4
    assert "'cheese_depends.foo' is not available. (needs dependency_that_sometimes_exists)" in said.out + said.err


def test_a_module_without_what_it_needs_says_so(fleet: Fleet) -> None:
    said = fleet.cli("a", "cheese.slice")
    assert "The cheese execution module cannot be loaded: enzymes unavailable." in said.out + said.err


def test_aliases_and_outputters_reach_the_command_line(fleet: Fleet) -> None:
    assert fleet.cli("--out", "json", "a", "aliases.list").json() == {"a": "list"}


@pytest.mark.parametrize("name", ["bad_syntax", "bad_exit", "bad_import", "bad_zip"])
def test_a_broken_module_is_named_with_its_reason_and_the_minion_lives(fleet: Fleet, name: str) -> None:
    said = fleet.cli("a", f"{name}.f")
    assert said.code == 4
    assert f"'{name}' could not be imported" in said.out + said.err
    assert fleet.cli("--out", "json", "a", "test.ping").json() == {"a": True}


def test_a_module_that_is_written_while_the_minion_runs_can_be_called_after_a_refresh(
    fleet: Fleet, tmp_path: Path
) -> None:
    write(tmp_path / "modules", {"there": "def f(): return 1"})
    fleet.join("late", module_dirs=[str(tmp_path)])
    assert fleet.cli("late", "fresh.f").code == 2
    write(tmp_path / "modules", {"fresh": "def f(): return 'fresh'"})
    # The first job after that looks at the folder by itself, and must not keep the news from the master.
    assert fleet.cli("--out", "json", "late", "sys.list_functions", "fresh").json() == {"late": ["fresh.f"]}
    assert fleet.cli("late", "saltutil.refresh_modules").code == 0
    said = fleet.cli("--out", "json", "late", "fresh.f")
    assert (said.code, said.err, said.json()) == (0, "", {"late": "fresh"})
