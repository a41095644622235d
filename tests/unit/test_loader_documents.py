"""Documents of modules that are remembered on disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader import loader
from saltlite.loader.index import ModuleFile, build_index, cached_index
from saltlite.loader.loader import Documents, Loader, cached_documents, read_documents
from saltlite.loader.search_path import Layer, search_layers

TEXT = '''"""About m."""
def f(a, b=(1, [2]), *rest, c=None, d=2**0, e={1, 2}, g="(1,)", i={"k": b"v"}, j=-1.5, **more):
    """About f, ü."""
def none(): pass
def large(a=18446744073709551616, b=True, c=[]): pass
def endless(a=1e999, b=None): pass
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "m.py").write_text(TEXT, encoding="utf-8")
    return tmp_path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read, and not remembered."""
    stems: list[str] = []

    def noted(file: ModuleFile) -> Documents:
        stems.append(file.stem)
        return read_documents(file)

    monkeypatch.setattr(loader, "read_documents", noted)
    return stems


def indexed(folder: Path) -> ModuleFile:
    found = build_index([Layer("custom", str(folder / "modules"))]).file("m")
    assert found is not None
    return found


def remembered(folder: Path) -> Documents:
    return cached_documents(indexed(folder), str(folder / "cache"), "modules")


def kept(folder: Path) -> Path:
    return folder / "cache" / "index" / "modules.docs" / "m"


def test_what_is_remembered_is_what_the_file_says(folder: Path, read: list[str]) -> None:
    first, second = remembered(folder), remembered(folder)
    assert read == ["m"]
    assert repr(second) == repr(first) == repr(read_documents(indexed(folder)))
    assert second.functions["f"].defaults is not None
    assert second.functions["f"].defaults[0] == (1, [2])


@pytest.mark.parametrize("text", ["def f(): pass\n", TEXT.replace("About f", "Above f")])
def test_a_file_that_changed_is_read_again(folder: Path, read: list[str], text: str) -> None:
    remembered(folder)
    (folder / "modules" / "m.py").write_text(text, encoding="utf-8")
    os.utime(folder / "modules" / "m.py", (1, 1))
    assert remembered(folder) == read_documents(indexed(folder))
    assert read == ["m", "m"]


def test_one_cut_off_anywhere_is_ignored(folder: Path) -> None:
    whole = remembered(folder)
    data = kept(folder).read_bytes()
    for length in range(0, len(data), 7):
        kept(folder).write_bytes(data[:length])
        assert repr(remembered(folder)) == repr(whole)


def test_it_belongs_to_its_user_alone_and_one_that_others_can_write_is_not_used(folder: Path, read: list[str]) -> None:
    remembered(folder)
    assert (kept(folder).stat().st_mode & 0o777, kept(folder).parent.stat().st_mode & 0o777) == (0o600, 0o700)
    kept(folder).chmod(0o666)
    remembered(folder)
    assert read == ["m", "m"]


def test_without_a_folder_of_ones_own_nothing_is_written(folder: Path, read: list[str]) -> None:
    for cachedir in ("", str(folder / "none")):
        assert cached_documents(indexed(folder), cachedir, "modules").doc == "About m."
    assert sorted(os.listdir(folder)) == ["cache", "modules"]


def test_a_docstring_that_is_no_text_is_not_remembered(folder: Path) -> None:
    (folder / "modules" / "m.py").write_text('"""\\ud800"""\n', encoding="utf-8")
    assert remembered(folder).doc == remembered(folder).doc == "\ud800"
    assert not kept(folder).exists()


@pytest.mark.parametrize("fun", ["sys.doc", "sys.argspec", "sys.list_functions"])
def test_asking_for_all_that_ships_imports_only_what_has_to_look_at_the_machine(tmp_path: Path, fun: str) -> None:
    index = cached_index(search_layers({}), str(tmp_path))
    loader = Loader(index, {"cachedir": str(tmp_path)}, {"os_family": "Debian", "kernel": "Linux"}, {})
    for name in [name for name in sys.modules if name.startswith("saltlite.loaded.")]:
        del sys.modules[name]
    found: Any = loader[fun]()
    begin = "saltlite.loaded.shipped.modules."
    loaded = {name.removeprefix(begin).split(".")[0] for name in sys.modules if name.startswith(begin)} - {"sysmod"}
    asked = {file.stem for file in index.files if file.checked}
    assert (len(found) > 400, loaded - asked) == (True, set())
