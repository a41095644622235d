"""What `sys` tells of modules, functions and runners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.modules import write

SHOP = '''
"""Sells cheese,
also on Sundays.

A second paragraph.

:maintainer:  Anne Author <anne@example.com>, Ben Both
:maturity:    new
:depends:     cheddar, brie,
              a fridge
:platform:    linux
:other:       not looked at
"""

__func_alias__ = {"list_": "list"}


def list_(kind, amount=1, *more, ripe: bool = True, **others):
    """What there is."""


def _hidden():
    """Nobody sees this."""
'''


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """All that ships, with a module, a runner, and a module that refuses to load."""
    files = {
        "modules/shop": SHOP,
        "modules/never": 'def __virtual__():\n    return False, "there is no such shop"\n\n\ndef f():\n    pass\n',
        "runners/tour": 'def start(where):\n    """Go there."""\n',
    }
    opts = {"extension_modules": str(write(tmp_path, files))}
    return Loader(build_index(search_layers(opts)), opts, {"os_family": "Debian"}, {})


def told(loader: Loader, fun: str, *args: Any) -> Any:
    """What a function returns when it succeeds."""
    outcome = call(loader, fun, args, {})
    assert outcome.retcode == 0, outcome.value
    return outcome.value


def test_a_module_says_what_it_is(loader: Loader, tmp_path: Path) -> None:
    assert told(loader, "sys.module_info", "shop") == {
        "shop": {
            "summary": "Sells cheese, also on Sundays.",
            "maintainer": ["Anne Author <anne@example.com>", "Ben Both"],
            "maturity": "new",
            "depends": ["cheddar", "brie", "a fridge"],
            "platform": ["linux"],
            "functions": ["list"],
            "file": str(tmp_path / "modules/shop.py"),
        }
    }


def test_the_functions_for_resources_are_listed_and_documented(loader: Loader) -> None:
    listed = told(loader, "sys.list_functions", "resources.dummy")
    assert {"resources.dummy.test.ping", "resources.dummy.pkg.install", "resources.dummy.grains.items"} <= set(listed)
    assert told(loader, "sys.list_functions", "resources.dummy.grains") == [
        "resources.dummy.grains.get", "resources.dummy.grains.item", "resources.dummy.grains.items",
        "resources.dummy.grains.ls",
    ]  # fmt: skip
    (name,) = told(loader, "sys.list_functions", "resources.dummy.grains.it*s")
    assert name == "resources.dummy.grains.items"
    assert told(loader, "sys.doc", name)[name].startswith("All grains.")
    assert told(loader, "sys.list_functions", "resources.none.test") == []
    (dummy,) = told(loader, "sys.providers", "resources.dummy")["resources.dummy"]
    assert (dummy["file"], dummy["layer"], dummy["chosen"]) == ("dummy", "shipped", True)


def test_every_shipped_module_has_its_fields_read(loader: Loader) -> None:
    shipped = told(loader, "sys.module_info")
    del shipped["shop"]
    lacking = [name for name, info in shipped.items() if not {"maintainer", "maturity", "platform"} <= set(info)]
    assert lacking == []


def test_keyword_only_arguments_are_listed_with_their_defaults(loader: Loader) -> None:
    assert told(loader, "sys.argspec", "shop.list") == {
        "shop.list": {"args": ["kind", "amount", "ripe"], "defaults": [1, True], "varargs": True, "kwargs": True}
    }


def test_only_the_name_that_callers_type_is_listed(loader: Loader) -> None:
    assert told(loader, "sys.list_functions", "shop") == ["shop.list"]


def test_files_that_offer_nothing_are_listed_with_their_reason(loader: Loader) -> None:
    assert told(loader, "sys.not_loaded")["never"] == "'never' __virtual__ returned False: there is no such shop"
    assert "never" not in told(loader, "sys.list_modules")


def test_runners_of_this_machine_are_listed_and_documented(loader: Loader) -> None:
    assert {"jobs", "manage", "salt", "tour"} <= set(told(loader, "sys.list_runners"))
    assert told(loader, "sys.list_runners", "to*") == ["tour"]
    assert told(loader, "sys.list_runner_functions", "tour", "manage.u*") == ["manage.up", "tour.start"]
    assert told(loader, "sys.runner_doc", "tour") == {"tour.start": "Go there."}
    assert told(loader, "sys.runner_argspec", "tour.start") == {
        "tour.start": {"args": ["where"], "defaults": None, "varargs": None, "kwargs": None}
    }


def test_runners_are_no_functions_of_a_minion(loader: Loader) -> None:
    assert call(loader, "tour.start", ["x"], {}).value == "'tour.start' is not available."


def test_a_module_that_changed_is_there_at_the_next_job_and_reload_says_so(tmp_path: Path, loader: Loader) -> None:
    write(tmp_path, {"modules/late": "def f():\n    return 1\n"})
    assert told(loader, "sys.reload_modules") is True
    later = Loader(build_index(search_layers(loader.opts), loader.index), loader.opts, {}, {})
    assert told(later, "late.f") == 1
