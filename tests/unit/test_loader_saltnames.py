"""Names of Salt in plug-in files."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest

import saltlite.decorators
import saltlite.errors
import saltlite.salt.utils.path
from saltlite.loader.loader import Loader
from saltlite.loader.salt_names import ELSEWHERE, HOME
from saltlite.loader.search_path import salt_is_installed
from tests.support.modules import loader_from, loader_over, write


def loader_with(folder: Path, source: str) -> Loader:
    return loader_over(write(folder, {"m": source}))


@pytest.fixture
def real_salt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Salt that is installed."""
    write(tmp_path / "site", {"salt/__init__.py": "REAL = True", "salt/exceptions.py": "class SaltException: REAL = 1"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    forget_salt()
    yield
    forget_salt()


def forget_salt() -> None:
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


SERVED = [
    "salt",
    *sorted(f"salt{name.removeprefix(HOME)}" for _, name, _ in walk_packages(saltlite.salt.__path__, f"{HOME}.")),
]


@pytest.mark.parametrize("name", [*SERVED, *ELSEWHERE])
def test_every_module_is_served_under_salts_name(tmp_path: Path, name: str) -> None:
    ours = ELSEWHERE.get(name, HOME + name.removeprefix("salt"))
    loader = loader_with(tmp_path, f"import {name}\nimport {name} as found\ndef f(): return found")
    assert loader["m.f"]() is importlib.import_module(ours)
    spec = importlib.import_module(ours).__spec__
    assert spec is not None
    assert spec.name == ours


def test_a_module_that_is_not_imported_is_found_through_its_package(tmp_path: Path) -> None:
    loader = loader_with(tmp_path, "import salt.utils.files\ndef f(): return salt.utils.path.which")
    assert loader["m.f"]() is saltlite.salt.utils.path.which


def test_the_functions_that_ship_are_found_by_salts_file_names(tmp_path: Path) -> None:
    loader = loader_with(tmp_path, "import salt.modules.cmdmod\ndef f(): return salt.modules.cmdmod.run('echo hello')")
    assert loader["m.f"]() == "hello"


def test_a_function_may_import_when_it_is_called(tmp_path: Path) -> None:
    source = "def f():\n    from salt.exceptions import CommandExecutionError\n    return CommandExecutionError"
    assert loader_with(tmp_path, source)["m.f"]() is saltlite.errors.CommandExecutionError


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("import salt.runner", "saltlite has no salt.runner: it talks to Salt's own daemons"),
        ("from salt import minion", "saltlite has no salt.minion: it talks to Salt's own daemons"),
        (
            "import salt.client.ssh",
            "saltlite has no salt.client.ssh: hosts without a minion are resources of the type ssh",
        ),
        ("from salt.exceptions import NoSuchZz", "saltlite has no salt.exceptions.NoSuchZz"),
        ("import salt.utils.zz", "saltlite has no salt.utils.zz"),
        ("import salt.modules.zz", "saltlite has no salt.modules.zz"),
    ],
)
def test_what_is_absent_is_an_import_error_that_says_so(tmp_path: Path, statement: str, sentence: str) -> None:
    loader = loader_with(
        tmp_path, f"try:\n    {statement}\nexcept ImportError as e:\n    TEXT = str(e)\ndef f(): return TEXT"
    )
    assert loader["m.f"]() == f"{sentence}; install Salt beside saltlite, or do without it"


def test_an_attribute_that_is_absent_says_so(tmp_path: Path) -> None:
    loader = loader_with(tmp_path, "import salt.utils.path\ndef f(): return salt.utils.path.zz")
    with pytest.raises(AttributeError, match=r"^saltlite has no salt.utils.path.zz; install Salt"):
        loader["m.f"]()


def test_a_library_that_a_file_imports_finds_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = "from salt.utils.platform import is_linux\nENCODING = __salt_system_encoding__"
    write(tmp_path / "site", {"zz_library": library})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    loader = loader_with(tmp_path, "import zz_library\ndef f(): return zz_library.is_linux(), zz_library.ENCODING")
    assert loader["m.f"]() == (True, "utf-8")


def test_a_process_without_users_files_does_not_serve_them() -> None:
    program = (
        "from saltlite.loader.loader import Loader; from saltlite.loader.index import build_index; "
        "from saltlite.loader.search_path import search_layers; "
        "Loader(build_index(search_layers({})), {}, {}, {})['test.ping'](); import salt"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'salt'"


def test_what_a_file_replaces_is_restored_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = """
        import sys
        import salt.utils.platform
        import salt.utils.files
        salt.utils.platform.is_windows = lambda: True
        sys.modules["salt.utils.files"] = sys
        def f(): pass
        """
    loader = loader_over(
        write(
            tmp_path,
            {
                "bad": source,
                "good": """
        import salt.utils.files
        from salt.utils.platform import is_windows
        def f(): return is_windows(), salt.utils.files.VALID_PROTOS[0]
        """,
            },
        )
    )
    loader["bad.f"]()
    assert loader["good.f"]() == (False, "salt")
    # In the order in which the process has imported them.
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"{tmp_path}/bad.py replaced salt.utils.platform.is_windows; other files get saltlite's again.",
        f"{tmp_path}/bad.py replaced the module salt.utils.files in sys.modules; other files get saltlite's again.",
    ]


def test_a_package_that_is_not_salt_cannot_hide_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = dict.fromkeys(("salt/__init__", "salt/utils/__init__", "salt/utils/platform"), "MINE = 1")
    write(tmp_path / "site", {**files, "salt/utils/ours": "from salt.utils.platform import is_linux\nMINE = 2"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    source = "import salt.utils.platform\nimport salt.utils.ours\n"
    loader = loader_with(
        tmp_path / "modules", f"{source}def f(): return salt.utils.platform.is_linux(), salt.utils.ours.MINE"
    )
    assert loader["m.f"]() == (True, 2)
    assert caplog.records[0].getMessage().startswith(f"The package salt in {tmp_path}/site/salt is not Salt, because")


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


def test_an_old_finder_of_modules_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not salt_is_installed()


def test_a_salt_that_is_imported_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "salt", ModuleType("salt"))
    assert salt_is_installed()


def test_errors_under_salts_names_end_a_call_as_our_own_do(tmp_path: Path) -> None:
    from saltlite.loader.call import call

    source = "from salt.exceptions import CommandExecutionError\ndef f(): raise CommandExecutionError('no')"
    assert call(loader_with(tmp_path, source), "m.f", (), {}).value == "ERROR: no"


def test_utils_have_salts_functions_behind_the_plugins(tmp_path: Path) -> None:
    write(tmp_path / "_utils", {"path": "def which(exe): return 'own ' + exe"})
    source = """
        def f():
            names = [name in __utils__ for name in ("files.fopen", "files.zz", "zz.fopen", "path.which")]
            return names, __utils__["path.which"]("sh"), __utils__["path.join"]("a", "b")
        """
    write(tmp_path / "_modules", {"m": source})
    loader = loader_from({"module_dirs": [str(tmp_path)]})
    assert loader["m.f"]() == ([True, False, False, True], "own sh", "a/b")


def test_loggers_take_salts_argument_for_tracebacks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = """
        import logging
        log = logging.getLogger(__name__)
        def f():
            try:
                1 / 0
            except ZeroDivisionError as exc:
                log.error("it failed", exc_info_on_loglevel=logging.DEBUG)
        """
    loader = loader_with(tmp_path, source)
    caplog.set_level("INFO")
    loader["m.f"]()
    caplog.set_level("DEBUG")
    loader["m.f"]()
    assert [bool(record.exc_info) for record in caplog.records] == [False, True]
    assert caplog.records[0].funcName == "f"
