"""Where plug-ins are looked for: folders, types, forms, entry points of packages."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

from saltlite.loader import failure, search_path
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import Form, Layer, dirs_option, module_files, search_layers
from tests.support.modules import loader_from, write


def paths(opts: dict[str, object], kind: str = "modules") -> list[str]:
    return [layer.path for layer in search_layers(opts, kind)]


# --- types and their order


def test_every_type_has_its_own_folders_in_the_same_order(tmp_path: Path) -> None:
    write(tmp_path, {"a/runners/x": "", "b/_runners/x": ""})
    opts: dict[str, object] = {
        "module_dirs": [f"{tmp_path}/a", f"{tmp_path}/b"],
        "extension_modules": "/ext",
        "runner_dirs": ["/one", "/two"],
    }
    found = paths(opts, "runners")
    assert found[:-1] == [f"{tmp_path}/b/_runners", f"{tmp_path}/a/runners", "/ext/runners", "/two", "/one"]
    assert found[-1].endswith("/saltlite/plugins/runners")


@pytest.mark.parametrize(
    ("kind", "option"), [("runners", "runner_dirs"), ("grains", "grains_dirs"), ("executors", "executor_dirs")]
)
def test_the_option_of_a_type_has_salts_name(kind: str, option: str) -> None:
    assert dirs_option(kind) == option


def test_the_option_of_a_type_takes_names_away(tmp_path: Path) -> None:
    write(tmp_path, {"runners/a": "def f(): pass", "runners/b": "def f(): pass"})
    opts = {"module_dirs": [str(tmp_path)], "disable_runners": ["a"]}
    layers = [layer for layer in search_layers(opts, "runners") if layer.name != "shipped"]
    assert list(Loader(build_index(layers), opts, {}, {})) == ["b.f"]


def test_a_runner_and_a_module_of_one_name_stay_apart(tmp_path: Path) -> None:
    source = "N = []\ndef f():\n    N.append(1)\n    return __name__, len(N)"
    write(tmp_path, {"runners/a": source, "modules/a": source})
    opts = {"module_dirs": [str(tmp_path)]}
    loaders = [Loader(build_index(search_layers(opts, kind)), opts, {}, {}) for kind in ("runners", "modules")]
    assert [loader["a.f"]() for loader in loaders] == [
        ("saltlite.loaded.dir0.runners.a", 1),
        ("saltlite.loaded.dir0.modules.a", 1),
    ]


# --- forms


def test_of_several_forms_of_one_name_the_first_of_the_order_counts(tmp_path: Path) -> None:
    names = ["m/__init__.py", "m.abi3.so", "m.py", "m.pyx", "m.zip"]
    expected = [Form.PACKAGE, Form.EXTENSION, Form.SOURCE, Form.CYTHON, Form.ZIP]
    write(tmp_path, dict.fromkeys(names, ""))
    found = []
    for name in names:
        found += [one.form for one in module_files(Layer("x", str(tmp_path), "modules", frozenset(Form)))]
        (tmp_path / name).unlink()
    assert found == expected


def test_a_compiled_file_without_its_source_is_no_module(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(["m.pyc", "__pycache__/m.cpython-311.pyc", "old.cpython-35m-arm.so", "a.b.py"], ""))
    assert module_files(Layer("x", str(tmp_path), "modules", frozenset(Form))) == []


@pytest.mark.parametrize(
    ("opts", "more"),
    [({}, set()), ({"enable_zip_modules": True}, {Form.ZIP}), ({"cython_enable": True}, {Form.CYTHON})],
)
def test_archives_and_cython_are_enabled_by_their_options(
    opts: dict[str, object], more: set[Form], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_path, "cython_is_installed", lambda: True)
    assert search_layers(opts)[0].forms == {Form.PACKAGE, Form.EXTENSION, Form.SOURCE} | more


def test_without_cython_its_files_are_left_out_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(search_path, "cython_is_installed", lambda: False)
    search_path._log_missing_cython.cache_clear()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert Form.CYTHON not in search_layers({"cython_enable": True})[0].forms
    assert [record.levelname for record in caplog.records if "Cython is not installed" in record.message] == ["INFO"]


# --- entry points


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on `sys.path` where packages are installed."""
    folder = tmp_path / "site"
    # It has been imported from before: Python compiles into a folder that is there, and this one's time stays.
    (folder / "__pycache__").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(site: Path, lines: str, **files: str) -> None:
    write(site, {"zz_dist-1.0.dist-info/entry_points.txt": lines})
    write(site, {name.replace("__", "/"): source for name, source in files.items()})


def called(fun: str) -> object:
    return loader_from({})[fun]()


@pytest.mark.parametrize("group", ["salt.loader", "saltlite.loader"])
def test_a_package_offers_its_folder_of_the_type_and_is_not_imported(site: Path, group: str) -> None:
    install(
        site,
        f"[console_scripts]\nx = y:z\n\n[{group}]\nmine = zz_package\n",
        zz_package__modules__hello="def f(): return 1",
    )
    (site / "zz_package/__init__.py").write_text("raise RuntimeError")
    assert called("hello.f") == 1
    assert "zz_package" not in sys.modules


def test_a_function_offers_folders_by_type(site: Path) -> None:
    source = "import os\ndef places(): return {'modules': [os.path.dirname(__file__) + '/zz_mods'], 'grains': []}"
    install(
        site, "[salt.loader]\nmine = zz_by_type:places [extra]\n", zz_by_type=source, zz_mods__hello="def f(): return 2"
    )
    assert called("hello.f") == 2


def test_a_function_of_the_older_form_offers_a_list_for_the_type_it_is_named_after(site: Path) -> None:
    source = "import os\ndef places(): return [os.path.dirname(__file__) + '/zz_list']"
    install(site, "[salt.loader]\nmodule_dirs = zz_old:places\n", zz_old=source, zz_list__hello="def f(): return 3")
    assert not any("zz_list" in path for path in paths({}, "runners"))
    # What it imports would stay in the job server, which looks for executors and the like.
    assert "zz_old" not in sys.modules
    assert called("hello.f") == 3


def test_shipped_modules_are_asked_behind_entry_points_and_configured_folders_before(
    site: Path, tmp_path: Path
) -> None:
    install(site, "[saltlite.loader]\nmine = zz_order\n", zz_order__modules__a="", zz_order____init__="")
    names = [layer.name for layer in search_layers({"module_dirs": [str(tmp_path)]})]
    assert names == ["dir0", "mine", "shipped"]


@pytest.mark.parametrize(
    ("value", "source", "said"),
    [
        ("zz_nowhere", "", "No module named 'zz_nowhere'"),
        ("zz_broken:places", "raise RuntimeError('broken')", "RuntimeError: broken"),
        ("zz_broken:places", "import sys\nsys.exit(3)", "SystemExit: 3"),
        ("zz_broken:nothing", "", "has no attribute 'nothing'"),
        ("zz_broken:places", "def places(): return 7", "it returned a int instead of {type: [folder]}"),
        ("zz_broken", "", "zz_broken is a module; a package or a function is expected"),
        ("zz_broken:places", "def places():\n    while True: pass", "it did not end within 0.1 s"),
    ],
)
def test_a_broken_entry_point_is_logged_once_and_the_others_load(
    site: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, value: str, source: str, said: str
) -> None:
    monkeypatch.delitem(sys.modules, "zz_broken", raising=False)
    lines = f"[saltlite.loader]\nbad = {value}\ngood = zz_good\n"
    install(site, lines, zz_broken=source, zz_good__modules__hello="def f(): return 4", zz_good____init__="")
    if "while True" in source:
        # The limit is short for this entry point only: on a busy machine the others may need longer.
        with monkeypatch.context() as short:
            short.setattr(failure, "LOAD_SECONDS", 0.1)
            search_layers({})
    assert (called("hello.f"), called("hello.f")) == (4, 4)
    logged = [record.message for record in caplog.records if "Entry point bad" in record.message]
    assert len(logged) == 1
    assert said in logged[0]


def test_a_package_that_is_installed_later_is_found(site: Path) -> None:
    assert not any("zz_later" in path for path in paths({}))
    install(site, "[saltlite.loader]\nlater = zz_later\n", zz_later__modules__hello="", zz_later____init__="")
    assert any("zz_later" in path for path in paths({}))


def test_a_folder_that_this_user_may_not_read_is_named_and_the_others_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"closed/modules/a": "def f(): return 1", "open/modules/b": "def f(): return 2"})
    scandir = os.scandir

    def as_another_user(path: str) -> object:
        if path.startswith(f"{tmp_path}/closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", as_another_user)
    loader = loader_from({"module_dirs": [f"{tmp_path}/open", f"{tmp_path}/closed"]})
    assert loader["b.f"]() == 2
    assert f"The plug-ins in {tmp_path}/closed/modules are left out" in caplog.text
