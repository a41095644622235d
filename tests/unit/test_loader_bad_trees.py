"""Trees of modules with bad input: each bad file is named, and everything else goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from saltlite.errors import SaltliteError
from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import TypeUnavailableError, find_type, load_type
from saltlite.loader.scan import MODULE_BYTES_MAX
from saltlite.loader.search_path import search_layers
from tests.support.modules import write

GOOD = 'def f():\n    """Work."""\n    return "good"\n'


def loader_of(folder: Path) -> Loader:
    opts = {"extension_modules": str(folder), "cachedir": str(folder / "cache")}
    return Loader(build_index(search_layers(opts)), opts, {"os": "Debian"}, {})


def check_that_the_rest_works(loader: Loader) -> None:
    assert call(loader, "good.f", [], {}).value == "good"
    assert call(loader, "test.ping", [], {}).value is True
    described = loader.describe("good.f")
    assert described is not None
    assert described.doc == "Work."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("from salt.utils import to_str\n\ndef f(): pass\n", "ImportError: saltlite has no salt.utils.to_str; install"),
        ("import salt.utils.removed\n\ndef f(): pass\n", "ModuleNotFoundError: saltlite has no salt.utils.removed;"),
        ('def f():\n    print "x"\n', "SyntaxError: Missing parentheses in call to 'print'"),
        ("__virtualname__ = 'x'\ndef __virtual__(): return salt.utils.which('x')\ndef f(): pass\n", "NameError"),
        ("def f():\n    return (", "SyntaxError: '(' was never closed"),
        ("\0\0\0", "SyntaxError: source code string cannot contain null bytes"),
    ],
    ids=["removed_name", "removed_module", "python2", "removed_global", "half_a_file", "nulls"],
)
def test_a_module_for_another_salt_and_half_a_file_are_named(tmp_path: Path, text: str, sentence: str) -> None:
    write(tmp_path, {"modules/good": GOOD})
    (tmp_path / "modules/bad.py").write_text(text)
    loader = loader_of(tmp_path)
    assert sentence in loader.not_loaded()["bad"]
    assert sentence in call(loader, "bad.f", [], {}).value
    check_that_the_rest_works(loader)


def test_what_a_sync_left_halfway_is_no_module_and_costs_none(tmp_path: Path) -> None:
    write(tmp_path, {"modules/good": GOOD, "modules/leftover/part": "def f(): pass\n"})
    (tmp_path / "modules/dangling.py").symlink_to(tmp_path / "removed.py")
    (tmp_path / "modules/.good.py.tmp").write_text("def f(): return 'temporary'\n")
    (tmp_path / "modules/empty.py").touch()
    loader = loader_of(tmp_path)
    for name in ("leftover", "dangling", "empty"):
        assert call(loader, f"{name}.f", [], {}).value == f"'{name}.f' is not available."
    check_that_the_rest_works(loader)


def test_modules_that_need_each_other_while_they_load_are_named(tmp_path: Path) -> None:
    one = 'X = __salt__["{}.f"]()\n\ndef f():\n    return X\n'
    write(tmp_path, {"modules/good": GOOD, "modules/egg": one.format("hen"), "modules/hen": one.format("egg")})
    loader = loader_of(tmp_path)
    said = call(loader, "egg.f", [], {}).value
    assert "'hen' could not be imported" in said
    assert "'egg' was not loaded: it was asked for while it was being loaded" in said
    check_that_the_rest_works(loader)


def test_modules_that_import_each_other_in_a_package_work(tmp_path: Path) -> None:
    package = {
        "modules/pair/__init__": "from .one import f\n\n__all__ = ['f']\n",
        "modules/pair/one": "from . import two\n\ndef f():\n    return two.g()\n\ndef h():\n    return 'h'\n",
        "modules/pair/two": "from . import one\n\ndef g():\n    return one.h()\n",
    }
    write(tmp_path, {"modules/good": GOOD, **package})
    loader = loader_of(tmp_path)
    assert call(loader, "pair.f", [], {}).value == "h"
    check_that_the_rest_works(loader)


def test_a_docstring_of_ten_megabytes_is_named_and_one_that_fits_is_shown(tmp_path: Path) -> None:
    write(tmp_path, {"modules/good": GOOD})
    for name, size in (("huge", 10_000_000), ("large", MODULE_BYTES_MAX - 1000)):
        (tmp_path / f"modules/{name}.py").write_text(f'def f():\n    """{"x" * size}"""\n    return 1\n')
    loader = loader_of(tmp_path)
    assert "the file is larger than a module may be" in loader.not_loaded()["huge"]
    assert call(loader, "large.f", [], {}).value == 1
    described = loader.describe("large.f")
    assert described is not None
    assert len(described.doc or "") == MODULE_BYTES_MAX - 1000
    check_that_the_rest_works(loader)


REPLACES = """
import sys
import types

import salt.utils.platform

salt.utils.platform.is_linux = lambda: "replaced"
sys.modules["salt.utils.platform"] = types.ModuleType("salt.utils.platform")

def f():
    return 1
"""
USES = "import salt.utils.platform\n\ndef f():\n    return salt.utils.platform.is_linux()\n"


def test_a_module_that_replaces_a_part_of_salts_library_is_named_and_others_have_the_original(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"modules/good": GOOD, "modules/vandal": REPLACES, "modules/user": USES})
    loader = loader_of(tmp_path)
    assert call(loader, "vandal.f", [], {}).value == 1
    assert call(loader, "user.f", [], {}).value is True
    assert any("vandal.py replaced" in message and "salt.utils.platform" in message for message in caplog.messages)
    check_that_the_rest_works(loader)


def test_modules_with_the_names_of_libraries_and_of_ours_hide_nothing_that_is_imported(tmp_path: Path) -> None:
    library = "import json\nimport os\n\ndef f():\n    return json.dumps(os.sep)\n"
    named = {f"modules/{name}": "def f():\n    return 'mine'\n" for name in ("json", "os", "salt", "saltlite", "yaml")}
    write(tmp_path, {"modules/good": GOOD, "modules/user": library, **named})
    loader = loader_of(tmp_path)
    assert [call(loader, f"{name}.f", [], {}).value for name in ("json", "os", "salt", "saltlite", "yaml")] == [
        "mine"
    ] * 5
    assert call(loader, "user.f", [], {}).value == '"/"'
    assert call(loader, "cmd.run_all", ["true"], {}).value["retcode"] == 0
    check_that_the_rest_works(loader)


def test_a_resource_type_without_init_is_named_and_others_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"modules/good": GOOD, "resources/bare/__init__": "def discover(opts):\n    return []\n"})
    opts = {"extension_modules": str(tmp_path), "cachedir": str(tmp_path / "cache")}
    minion = loader_of(tmp_path)
    with pytest.raises(
        TypeUnavailableError, match=r"its connection module lacks init\(\), initialized\(\), grains\(\)"
    ):
        load_type(find_type("bare", opts), opts, {}, {}, minion=minion)
    with caplog.at_level(logging.ERROR):
        loaded = load_type(find_type("dummy", opts), opts, {}, {"resources": {"dummy": {"count": 1}}}, minion=minion)
    loaded.init()
    assert loaded.discover() == ["dummy-1"]
    assert issubclass(TypeUnavailableError, SaltliteError)
