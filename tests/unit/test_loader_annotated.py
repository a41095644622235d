"""Lists and maps in the place of text: a sentence, and the function is not entered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import SHIPPED, Layer

FILE = """
from __future__ import annotations
def f(name: str, count: int | None = None, *more: str, pkgs: list | None = None, loose=None, **kwargs: str):
    return [name, count, *more]
"""


def run(folder: Path, layer: str, *args: Any, **kwargs: Any) -> Any:
    (folder / "m.py").write_text(FILE)
    return call(Loader(build_index([Layer(layer, str(folder))]), {}, {}, {}), "m.f", args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        ((["a"],), {}, "'name' takes text, and was given a list"),
        (({"a": 1},), {}, "'name' takes text, and was given a map"),
        (("a", [1]), {}, "'count' takes a number, and was given a list"),
        (("a", 1, "b", ["c"]), {}, "'more' takes text, and was given a list"),
        ((), {"name": ("a",)}, "'name' takes text, and was given a list"),
    ],
)
def test_a_list_where_text_is_meant_is_refused(
    tmp_path: Path, args: tuple[Any, ...], kwargs: dict[str, Any], sentence: str
) -> None:
    outcome = run(tmp_path, SHIPPED, *args, **kwargs)
    assert (outcome.value, outcome.retcode) == (f"ERROR executing 'm.f': {sentence}.", 1)


@pytest.mark.parametrize("kwargs", [{"pkgs": ["a"]}, {"loose": {"a": 1}}, {"other": [1]}])
def test_what_takes_lists_or_says_nothing_gets_them(tmp_path: Path, kwargs: dict[str, Any]) -> None:
    assert run(tmp_path, SHIPPED, 5, None, **kwargs).value == [5, None]


def test_files_of_others_may_take_more_than_they_say(tmp_path: Path) -> None:
    assert run(tmp_path, "own", ["a"]).value == [["a"], None]
