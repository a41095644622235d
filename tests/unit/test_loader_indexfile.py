"""What a process remembers of the module files for the next one."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from saltlite.loader import index
from saltlite.loader.index import Index, cached_index, index_beside
from saltlite.loader.scan import parse_module
from saltlite.loader.search_path import PLAIN_FORMS, Form, Layer
from tests.support.modules import write

Remember = Callable[[], Index]

FILES = {
    "a": "__virtualname__ = 'pkg'\ndef __virtual__(): return True\ndef f(x: int, *, y=1): pass",
    "b/__init__.py": "__replace__ = True\ndef g(): pass",
    "broken": "\n\ndef broken(:",
}


@pytest.fixture
def remember(tmp_path: Path) -> Remember:
    """The index over FILES, as each start of a process makes it."""
    folder = write(tmp_path / "modules", FILES)
    layers = [Layer("custom", str(folder), forms=PLAIN_FORMS | {Form.ZIP})]
    return lambda: cached_index(layers, str(tmp_path / "cache"))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Stems of the files that were read since."""
    stems: list[str] = []

    def noted(source: bytes, path: str) -> ast.Module:
        stems.append(os.path.relpath(path, tmp_path / "modules").partition("/")[0].removesuffix(".py"))
        return parse_module(source, path)

    monkeypatch.setattr("saltlite.loader.index.parse_module", noted)
    return stems


def kept(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "index" / "modules"


def test_the_next_process_reads_no_file_and_knows_the_same(remember: Remember, read: list[str]) -> None:
    first = remember()
    assert sorted(read) == ["a", "b", "broken"]
    read.clear()
    second = remember()
    assert (second.files, second.layers, read) == (first.files, first.layers, [])


def test_a_reader_beside_it_reads_what_changed_and_writes_nothing(
    remember: Remember, read: list[str], tmp_path: Path
) -> None:
    layers, cachedir = remember().layers, str(tmp_path / "cache")
    before = kept(tmp_path).read_bytes()
    read.clear()
    write(tmp_path / "modules", {"a": "def changed(): pass"})
    assert index_beside(layers, cachedir).function_names() == ["a.changed", "b.g"]
    assert (read, kept(tmp_path).read_bytes()) == (["a"], before)
    assert index_beside(layers, str(tmp_path / "nowhere")).function_names() == ["a.changed", "b.g"]
    assert not (tmp_path / "nowhere").exists()


def test_only_what_changed_is_read(remember: Remember, read: list[str], tmp_path: Path) -> None:
    remember()
    read.clear()
    write(tmp_path / "modules", {"a": "def changed(): pass", "new": "def n(): pass"})
    (tmp_path / "modules" / "broken.py").unlink()
    assert remember().function_names() == ["a.changed", "b.g", "new.n"]
    assert sorted(read) == ["a", "new"]


def test_what_changed_is_remembered_too(remember: Remember, read: list[str], tmp_path: Path) -> None:
    remember()
    write(tmp_path / "modules", {"a": "def changed(): pass"})
    remember()
    read.clear()
    assert "a.changed" in remember().function_names()
    assert read == []


def test_it_belongs_to_its_user_alone(remember: Remember, tmp_path: Path) -> None:
    remember()
    modes = [kept(tmp_path).stat().st_mode & 0o777, kept(tmp_path).parent.stat().st_mode & 0o777]
    assert modes == [0o600, 0o700]
    assert os.listdir(kept(tmp_path).parent) == ["modules"]


def test_one_that_others_can_write_is_not_used(remember: Remember, read: list[str], tmp_path: Path) -> None:
    remember()
    kept(tmp_path).chmod(0o666)
    read.clear()
    remember()
    assert len(read) == 3


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\xfd", b"\x93\x01\x02\x03", b"\xc0", b"\x91" * 5000])
def test_a_damaged_one_is_ignored_and_written_again(
    remember: Remember, read: list[str], tmp_path: Path, data: bytes
) -> None:
    whole = remember()
    kept(tmp_path).write_bytes(data)
    assert remember().files == whole.files
    read.clear()
    remember()
    assert read == []


def test_one_cut_off_anywhere_is_ignored(remember: Remember, tmp_path: Path) -> None:
    whole = remember()
    data = kept(tmp_path).read_bytes()
    for length in range(0, len(data), 7):
        kept(tmp_path).write_bytes(data[:length])
        assert remember().files == whole.files


def test_one_of_another_version_is_ignored(
    remember: Remember, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember()
    read.clear()
    monkeypatch.setattr("saltlite.__version__", "99")
    remember()
    assert len(read) == 3


def test_one_that_is_too_large_is_not_read(
    remember: Remember, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert index.INDEX_BYTES_MAX == 64 * 1024 * 1024
    remember()
    read.clear()
    monkeypatch.setattr(index, "INDEX_BYTES_MAX", 10)
    remember()
    assert len(read) == 3


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_time(tmp_path: Path) -> None:
    write(tmp_path, {"modules/a": "def f(): pass"})
    (tmp_path / "cache").write_text("a file, no folder")
    index = cached_index([Layer("custom", str(tmp_path / "modules"))], str(tmp_path / "cache"))
    assert index.function_names() == ["a.f"]
