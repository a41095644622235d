"""Packages whose functions stand in files beside their `__init__.py`: what is known of them, and what they offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.index import ModuleFile, build_index, refreshed_index
from saltlite.loader.loader import Loader, read_documents
from saltlite.loader.search_path import Layer

MAIN = '''"""Texts."""
__all__ = ["turn", "list_", "stop"]
__func_alias__ = {"list_": "list"}
__risk__ = {"turn": "turn"}
from .part import hidden, list_, stop, turn
'''

PART = '''"""A part."""
from typing import TypedDict, Unpack

__risk__ = {"stop": "stop", "hidden": "hide"}


class Options(TypedDict, total=False):
    loud: bool


def turn(text: str, **options: Unpack[Options]) -> str:
    """Turn it."""
    return _turned(text)


def _turned(text):
    return text[::-1] + __opts__["id"]


def list_() -> list:
    """All of it."""
    return []


def stop(name: str = "x") -> None:
    """End it."""


def hidden() -> None: ...


def unnamed() -> None: ...
'''


def package(folder: Path, main: str = MAIN, **parts: str) -> Path:
    (folder / "texts").mkdir(parents=True, exist_ok=True)
    (folder / "texts/__init__.py").write_text(main)
    for name, text in (parts or {"part": PART}).items():
        (folder / f"texts/{name}.py").write_text(text)
    return folder


def indexed(folder: Path) -> ModuleFile:
    return build_index([Layer("own", str(folder))]).files[0]


def test_what_is_listed_is_offered_with_signature_and_risk(tmp_path: Path) -> None:
    file = indexed(package(tmp_path))
    assert dict(zip(file.functions, file.texts, strict=True)) == {
        "list": "list()",
        "stop": "stop(name:str='x')!stop",
        "turn": "turn(text:str,*,loud:bool=...)!turn",
    }


def test_the_text_promises_what_the_loaded_module_has(tmp_path: Path) -> None:
    index = build_index([Layer("own", str(package(tmp_path)))])
    loader = Loader(index, {"id": "web1"}, {}, {})
    assert loader.functions("texts") == list(index.files[0].functions)
    assert loader["texts.turn"]("ab") == "baweb1"


def test_docstrings_of_the_parts_are_found_without_running_them(tmp_path: Path) -> None:
    package(tmp_path, part=PART + "raise SystemExit('it was run')\n")
    described = read_documents(indexed(tmp_path)).functions
    assert (described["turn"].doc, described["list"].doc) == ("Turn it.", "All of it.")


def test_without_a_list_functions_of_parts_are_not_promised(tmp_path: Path) -> None:
    assert indexed(package(tmp_path, main="from .part import turn\ndef own(): pass\n")).functions == ("own",)


def test_another_name_for_a_function_of_a_part(tmp_path: Path) -> None:
    file = indexed(package(tmp_path, main="__all__ = ['flip']\nfrom .part import turn as flip\n"))
    assert file.texts == ("flip(text:str,*,loud:bool=...)",)


def test_a_fault_in_a_part_names_its_file_and_line(tmp_path: Path) -> None:
    failure = indexed(package(tmp_path, part="def turn(:\n")).failure
    assert failure is not None
    assert "part.py, line 1" in failure.sentence("texts")


@pytest.mark.parametrize("main", ["__all__ = ['f']\nfrom .gone import f\n", "__all__ = ['f']\nfrom . import f\n"])
def test_what_no_text_tells_is_promised_by_name_alone(tmp_path: Path, main: str) -> None:
    assert indexed(package(tmp_path, main=main)).texts == ("f",)


def test_a_change_of_a_part_is_a_change_of_the_module(tmp_path: Path) -> None:
    index = build_index([Layer("own", str(package(tmp_path)))])
    assert refreshed_index(index) is index
    (tmp_path / "texts/part.py").write_text(PART.replace("name: str", "name: int"))
    seen: Any = refreshed_index(index).files[0]
    assert "stop(name:int='x')!stop" in seen.texts


def test_submodules_see_the_dunder_names_that_are_provided_later(tmp_path: Path) -> None:
    package(
        tmp_path, main="__all__ = ['mark']\nfrom .part import mark\n", part="def mark(text): return text + __dunder__\n"
    )
    loader = Loader(build_index([Layer("own", str(tmp_path))]), {"id": "web1"}, {}, {}, more={"__dunder__": ""})
    assert loader["texts.mark"]("a") == "a"
    loader.provide("__dunder__", "!")
    assert loader["texts.mark"]("a") == "a!"


def test_a_submodule_that_cannot_be_loaded_fails_its_module(tmp_path: Path) -> None:
    package(tmp_path, main="__all__ = ['f']\nfrom .part import f\n", part="raise ValueError('no')\ndef f(): pass\n")
    loader = Loader(build_index([Layer("own", str(tmp_path))]), {}, {}, {})
    with pytest.raises(KeyError, match=r"ValueError: no \(texts/part\.py, line 1\)"):
        loader["texts.f"]
