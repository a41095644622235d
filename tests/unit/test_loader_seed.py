"""The listings of the document on writing execution modules, typed in as its reader would, where Salt is absent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.loader import Loader
from tests.support.modules import SEED, loader_over


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """The listings as modules, the package of the lumberjack as an archive."""
    for path in SEED.glob("*.py"):
        shutil.copy(path, tmp_path)
    shutil.make_archive(str(tmp_path / "lumberjack"), "zip", SEED, "lumberjack")
    return loader_over(tmp_path, grains={"os": "Debian", "id": "web1"}, opts={"cheese.allow_foreign": True})


def said(loader: Loader, fun: str, *args: Any) -> Outcome:
    return call(loader, fun, args, {})


def test_a_module_that_cannot_be_loaded_says_why(loader: Loader) -> None:
    text = "The cheese execution module cannot be loaded: enzymes unavailable."
    assert said(loader, "cheese.slice").value == f"'cheese' __virtual__ returned False: {text}"


def test_init_sees_the_configuration(loader: Loader) -> None:
    assert said(loader, "cheese_init.products").value == ["gouda"]


def test_the_function_without_its_dependency_does_not_exist(loader: Loader) -> None:
    outcome = said(loader, "cheese_depends.foo")
    assert (outcome.value, outcome.retcode) == (
        "'cheese_depends.foo' is not available. (needs dependency_that_sometimes_exists)",
        1,
    )


def test_the_fallback_stands_in_for_the_function(loader: Loader) -> None:
    text = '"dependency_that_sometimes_exists" needs to be installed for this function to exist'
    assert said(loader, "cheese_depends.bar") == Outcome(text, 0)


def test_a_raw_boolean_takes_the_function_away(loader: Loader) -> None:
    assert said(loader, "cheese_boolean.foo").value.startswith("'cheese_boolean.foo' is not available.")


def test_the_package_module_of_another_platform_is_not_loaded(loader: Loader) -> None:
    assert said(loader, "pkg.install", "vim").value == "'pkg' __virtual__ returned False"


def test_a_program_that_is_missing_keeps_the_module_away(loader: Loader) -> None:
    text = "'gitlike' __virtual__ returned False: The git execution module cannot be loaded: git unavailable."
    assert said(loader, "gitlike.clone").value == text


def test_aliases_answer_and_private_names_and_data_do_not(loader: Loader) -> None:
    assert loader.functions("aliases") == ["foo", "list", "run", "set", "spam"]
    assert (said(loader, "aliases.set").value, said(loader, "aliases.list").value) == ("set", "list")


def test_modules_call_each_other_and_print_as_they_ask(loader: Loader) -> None:
    assert said(loader, "aliases.run", "ä") == Outcome("ä".encode(), 0, "txt")


def test_the_docstring_is_there_for_sys_doc(loader: Loader) -> None:
    found = loader.describe("aliases.spam")
    assert found is not None
    assert str(found.doc).startswith("A function to make some spam with eggs!\n\nCLI Example::")


@pytest.mark.parametrize(("person", "answer"), [("Michael Palin", True), ("Eric Idle", False)])
def test_the_lumberjack_comes_out_of_his_archive(loader: Loader, person: str, answer: bool) -> None:
    assert said(loader, "lumberjack.is_ok", person) == Outcome(answer, 0)
