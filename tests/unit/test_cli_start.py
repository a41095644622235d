"""How the process of the command imports saltlite's own modules: as Python would, or not at all."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from saltlite.cli.start import _BYTECODE_MAX, OwnBytecode

ROOT = Path(__file__).parents[2]
NAME = "saltlite.shop"


def written(folder: Path, text: str = "VALUE = 1\n", stem: str = "shop") -> Path:
    """A module of saltlite in that folder, with its bytecode."""
    source = folder / f"{stem}.py"
    source.parent.mkdir(exist_ok=True)
    source.write_text(text)
    py_compile.compile(str(source), doraise=True)
    return source


def cached(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))


@pytest.mark.parametrize("stem", ["shop", "shop/__init__"])
def test_a_module_is_what_python_finds(tmp_path: Path, stem: str) -> None:
    written(tmp_path, stem=stem)
    found = OwnBytecode.find_spec(NAME, [str(tmp_path)])
    expected = PathFinder.find_spec(NAME, [str(tmp_path)])
    assert found is not None
    assert found.loader is not None
    assert expected is not None
    for name in ("name", "origin", "cached", "parent", "has_location", "submodule_search_locations"):
        assert getattr(found, name) == getattr(expected, name)
    module = importlib.util.module_from_spec(found)
    assert module.__loader__.get_source(NAME) == "VALUE = 1\n"  # type: ignore[union-attr]  # it has a loader
    for _ in range(2):  # the second time as by importlib.reload
        module.__dict__.pop("VALUE", None)
        found.loader.exec_module(module)
        assert module.VALUE == 1


def newer(source: Path) -> None:
    os.utime(source, (1, 1))


def longer(source: Path) -> None:
    status = source.stat()
    source.write_text("VALUE = 22\n")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))


def without_bytecode(source: Path) -> None:
    cached(source).unlink()


def of_another_version(source: Path) -> None:
    content = cached(source).read_bytes()
    cached(source).write_bytes(bytes([content[0] ^ 1]) + content[1:])


def hash_based(source: Path) -> None:
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def damaged(source: Path) -> None:
    cached(source).write_bytes(cached(source).read_bytes()[:-5])


def without_code(source: Path) -> None:
    cached(source).write_bytes(cached(source).read_bytes()[:16])


def empty(source: Path) -> None:
    cached(source).write_bytes(b"")


def large(source: Path) -> None:
    status = source.stat()
    with cached(source).open("ab") as file:
        file.write(bytes(_BYTECODE_MAX))
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))


def unreadable(source: Path) -> None:
    cached(source).unlink()
    cached(source).mkdir()


@pytest.mark.parametrize(
    "change",
    [
        newer, longer, without_bytecode, of_another_version, hash_based, damaged, without_code, empty, large,
        unreadable,
    ],
)  # fmt: skip
def test_bytecode_that_is_not_plainly_of_this_source_is_left_to_python(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    change(written(tmp_path))
    assert OwnBytecode.find_spec(NAME, [str(tmp_path)]) is None


@pytest.mark.parametrize(
    ("name", "path"), [("shop", ["{}"]), ("saltlite", None), ("saltlite_shop", ["{}"]), ("saltlite.none", ["{}"])]
)
def test_other_modules_are_left_to_python(tmp_path: Path, name: str, path: list[str] | None) -> None:
    written(tmp_path)
    written(tmp_path, stem="saltlite_shop")
    where = None if path is None else [one.format(tmp_path) for one in path]
    assert OwnBytecode.find_spec(name, where) is None


@pytest.mark.parametrize("flags", [[], ["-O"]])
def test_modules_have_the_files_that_they_have_in_an_ordinary_process(tmp_path: Path, flags: list[str]) -> None:
    shown = "(name, one.__file__, one.__cached__, one.__spec__.origin)"
    show = f"print(*sorted({shown} for name, one in sys.modules.items() if 'saltlite' in name))"
    ordinary = f"import sys; import saltlite.cli.start, saltlite.cli.main\n{show}"
    begun = (
        "import os, sys; sys.argv[1:] = ['--version']; from saltlite.cli import start\n"
        f"os._exit = lambda code: ({show}, sys.stdout.flush())\nstart.main()"
    )
    outputs = [
        subprocess.run([sys.executable, *flags, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
        for text in (ordinary, ordinary, begun)  # the first may write the bytecode
    ]
    assert outputs[2].stdout.splitlines()[1] == outputs[1].stdout.rstrip("\n")
