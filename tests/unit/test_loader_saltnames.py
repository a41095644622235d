"""Names of Salt in plug-in files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import saltlite.decorators
import saltlite.errors
from saltlite.loader.loader import Loader
from saltlite.loader.module_builder import SALT_NAMES
from saltlite.loader.search_path import salt_is_installed
from tests.support.modules import loader_over, write


def loader_with(folder: Path, source: str) -> Loader:
    return loader_over(write(folder, {"m": source}))


@pytest.fixture
def real_salt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Salt that is installed."""
    write(tmp_path / "site", {"salt/__init__.py": "REAL = True", "salt/exceptions.py": "class SaltException: REAL = 1"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    for name in [name for name in sys.modules if name == "salt" or name.startswith("salt.")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("statement", "expression"),
    [
        ("from salt.utils.decorators import depends", "depends"),
        ("import salt.utils.decorators", "salt.utils.decorators.depends"),
        ("import salt.utils.decorators as deco", "deco.depends"),
        ("from salt.utils import decorators", "decorators.depends"),
        ("from salt import utils\nimport salt.utils.decorators", "utils.decorators.depends"),
        ("from salt.utils.decorators import *", "depends"),
    ],
)
def test_every_way_to_import_gives_our_own(tmp_path: Path, statement: str, expression: str) -> None:
    loader = loader_with(tmp_path, f"{statement}\ndef f(): return {expression}")
    assert loader["m.f"]() is saltlite.decorators.depends


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in SALT_NAMES.items() for name in names])
def test_every_name_of_the_table_is_there(tmp_path: Path, module: str, name: str) -> None:
    place, _, attribute = SALT_NAMES[module][name].partition(":")
    loader = loader_with(tmp_path, f"from {module} import {name} as found\ndef f(): return found")
    assert loader["m.f"]() is getattr(importlib.import_module(place), attribute)


def test_a_function_may_import_when_it_is_called(tmp_path: Path) -> None:
    source = "def f():\n    from salt.exceptions import CommandExecutionError\n    return CommandExecutionError"
    assert loader_with(tmp_path, source)["m.f"]() is saltlite.errors.CommandExecutionError


@pytest.mark.parametrize(
    ("statement", "name"),
    [("import salt.client", "salt.client"), ("from salt.exceptions import NoSuchZz", "salt.exceptions.NoSuchZz")],
)
def test_what_we_lack_is_an_import_error_that_says_so(tmp_path: Path, statement: str, name: str) -> None:
    loader = loader_with(
        tmp_path, f"try:\n    {statement}\nexcept ImportError as e:\n    TEXT = str(e)\ndef f(): return TEXT"
    )
    assert loader["m.f"]() == f"No module named {name!r}: saltlite has no stand-in for it"


def test_an_attribute_that_we_lack_says_so(tmp_path: Path) -> None:
    loader = loader_with(tmp_path, "import salt.utils.path\ndef f(): return salt.utils.path.sanitize_win_path")
    with pytest.raises(AttributeError, match="saltlite has no salt"):
        loader["m.f"]()


def test_nobody_else_finds_them(tmp_path: Path) -> None:
    loader_with(tmp_path, "import salt.utils.path\nimport salt.exceptions\ndef f(): pass")["m.f"]
    assert [name for name in sys.modules if name == "salt" or name.startswith("salt.")] == []
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("salt")


@pytest.mark.usefixtures("real_salt")
def test_a_salt_that_is_installed_goes_first(tmp_path: Path) -> None:
    source = "import salt\nfrom salt.exceptions import SaltException\ndef f(): return salt.REAL, SaltException.REAL"
    assert loader_with(tmp_path, source)["m.f"]() == (True, 1)


@pytest.mark.usefixtures("real_salt")
def test_beside_an_installed_salt_nothing_of_ours_stands_in(tmp_path: Path) -> None:
    loader = loader_with(tmp_path, "from salt.utils.decorators import depends\ndef f(): pass")
    assert "m.f" not in loader


def test_a_folder_that_is_merely_called_salt_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "srv", {"salt/top.sls": ""})
    monkeypatch.syspath_prepend(str(tmp_path / "srv"))
    assert not salt_is_installed()


def test_a_salt_that_is_imported_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "salt", ModuleType("salt"))
    assert salt_is_installed()


def test_errors_under_salts_names_end_a_call_as_our_own_do(tmp_path: Path) -> None:
    from saltlite.loader.call import call

    source = "from salt.exceptions import CommandExecutionError\ndef f(): raise CommandExecutionError('no')"
    assert call(loader_with(tmp_path, source), "m.f", (), {}).value == "ERROR: no"
