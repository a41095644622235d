"""The search path and the index over it."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from saltlite.loader.index import Index, build_index, refreshed_index
from saltlite.loader.search_path import Layer, search_layers


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for stem, source in files.items():
        (folder / f"{stem}.py").write_text(source)
    return folder


def index_of(*folders: Path) -> Index:
    return build_index([Layer(f"layer{number}", str(folder)) for number, folder in enumerate(folders)])


def test_the_last_module_dir_is_asked_first_and_the_shipped_modules_last(tmp_path: Path) -> None:
    (tmp_path / "a/modules").mkdir(parents=True)
    opts = {"module_dirs": [f"{tmp_path}/a", f"{tmp_path}/b"], "extension_modules": f"{tmp_path}/ext"}
    layers = search_layers(opts)
    assert [layer.path for layer in layers[:-1]] == [
        f"{tmp_path}/b/_modules",
        f"{tmp_path}/a/modules",
        f"{tmp_path}/ext/modules",
    ]
    assert layers[-1].path.endswith("saltlite/plugins/modules")


def test_a_module_dir_offers_modules_and_else_underscore_modules(tmp_path: Path) -> None:
    write(tmp_path / "modules", one="def f(): pass")
    write(tmp_path / "_modules", two="def f(): pass")
    index = build_index(search_layers({"module_dirs": [str(tmp_path)]}))
    assert index.file("one") is not None
    assert index.file("two") is None


def test_indexing_runs_no_code_of_the_files(tmp_path: Path) -> None:
    folder = write(tmp_path, evil=f"open({str(tmp_path / 'ran')!r}, 'w')")
    index_of(folder)
    assert not (tmp_path / "ran").exists()


def test_module_folders_never_get_onto_the_import_path(tmp_path: Path) -> None:
    before = list(sys.path)
    index_of(write(tmp_path, json="def f(): pass"))
    assert sys.path == before


def test_the_same_file_name_in_a_higher_layer_hides_the_lower_one(tmp_path: Path) -> None:
    index = index_of(write(tmp_path / "high", m="def new(): pass"), write(tmp_path / "low", m="def old(): pass"))
    assert [file.functions for file in index.claimants("m")] == [("new",)]


def test_claimants_come_by_layer_then_the_file_of_that_name_then_by_file_name(tmp_path: Path) -> None:
    gate = "def __virtual__(): return 'pkg'"
    index = index_of(
        write(tmp_path / "high", zzz=gate),
        write(tmp_path / "low", bbb=gate, aaa=gate, pkg="def f(): pass"),
    )
    assert [file.stem for file in index.claimants("pkg")] == ["zzz", "pkg", "aaa", "bbb"]


def test_private_files_folders_and_other_endings_are_no_modules(tmp_path: Path) -> None:
    write(tmp_path, _hidden="def f(): pass", seen="def f(): pass")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "text.txt").write_text("def f(): pass")
    os.symlink(tmp_path / "nowhere.py", tmp_path / "dangling.py")
    assert [file.stem for file in index_of(tmp_path).files] == ["seen"]


def test_a_file_with_a_syntax_error_is_recorded_with_its_line(tmp_path: Path) -> None:
    file = index_of(write(tmp_path, bad="x = 1\ndef broken(:\n")).file("bad")
    assert file is not None
    assert file.failure is not None
    assert (file.failure.line, file.failure.reason) == (2, "SyntaxError: invalid syntax (bad.py, line 2)")


def test_the_names_are_whole_unless_a_file_is_broken_or_computes_its_name(tmp_path: Path) -> None:
    good = "def f(): pass"
    assert index_of(write(tmp_path / "good", a=good)).whole
    assert not index_of(write(tmp_path / "broken", a=good, b="def broken(:")).whole
    assert not index_of(write(tmp_path / "computed", a="N = 'x'\ndef __virtual__(): return N")).whole


def test_a_refresh_without_changes_returns_the_same_index(tmp_path: Path) -> None:
    index = index_of(write(tmp_path, a="def f(): pass"))
    assert build_index(index.layers, index) is index


def test_a_refresh_sees_changed_new_and_removed_files(tmp_path: Path) -> None:
    index = index_of(write(tmp_path, a="def f(): pass", b="def f(): pass"))
    write(tmp_path, a="def other(): pass", c="def g(): pass")
    (tmp_path / "b.py").unlink()
    refreshed = build_index(index.layers, index)
    assert refreshed.function_names() == ["a.other", "c.g"]


def test_a_refresh_reads_only_what_changed(tmp_path: Path) -> None:
    index = index_of(write(tmp_path, a="def f(): pass", b="def g(): pass"))
    before = (tmp_path / "a.py").stat()
    write(tmp_path, a="def x(): pass", b="def changed(): pass")
    os.utime(tmp_path / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))  # looks unchanged, so it is not read
    assert build_index(index.layers, index).function_names() == ["a.f", "b.changed"]


def test_the_index_survives_pickling(tmp_path: Path) -> None:
    index = index_of(write(tmp_path, a="def __virtual__(): return 'pkg'\ndef f(): pass"))
    copy: Index = pickle.loads(pickle.dumps(index))  # noqa: S301 - our own bytes
    assert (copy.files, copy.claimants("pkg")) == (index.files, index.claimants("pkg"))


def test_a_missing_folder_is_an_empty_layer(tmp_path: Path) -> None:
    assert index_of(tmp_path / "nowhere").files == ()


def test_a_refreshed_index_sees_what_was_written_and_believes_what_is_installed(tmp_path: Path) -> None:
    written, installed = tmp_path / "written", tmp_path / "installed"
    for folder in (written, installed):
        folder.mkdir()
    layers = [Layer("written", str(written)), Layer("installed", str(installed), installed=True)]
    before = build_index(layers)
    (installed / "later.py").write_text("def f():\n    return 1\n")
    assert refreshed_index(before) is before
    (written / "fresh.py").write_text("def f():\n    return 1\n")
    after = refreshed_index(before)
    assert after.file("fresh") is not None
    assert refreshed_index(after) is after
    (written / "fresh.py").unlink()
    assert refreshed_index(after).file("fresh") is None
