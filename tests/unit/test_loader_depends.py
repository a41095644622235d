"""`@depends` in a module that is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.loader import Loader
from tests.support.modules import loader_over, write

HEADER = "from saltlite.decorators import depends\n"


@pytest.fixture
def make(tmp_path: Path) -> Any:
    def build(**files: str) -> Loader:
        return loader_over(write(tmp_path, {name: HEADER + source for name, source in files.items()}))

    return build


def refusal(loader: Loader, name: str) -> str:
    with pytest.raises(FunctionUnavailable) as caught:
        loader[name]
    return str(caught.value)


@pytest.mark.parametrize("virtual", ["", "__virtualname__ = 'cheese'\ndef __virtual__(): return True\n"])
def test_a_missing_dependency_takes_the_function_away_under_every_name(make: Any, virtual: str) -> None:
    loader = make(m=virtual + "@depends('nope')\ndef f(): pass\n\ndef g(): return 1")
    name = "cheese" if virtual else "m"
    assert refusal(loader, f"{name}.f") == f"'{name}.f' is not available. (needs nope)"
    assert list(loader) == [f"{name}.g"]


@pytest.mark.parametrize("condition", ["False", "lambda: False", "lambda: True", "print", "None"])
def test_what_is_no_name_and_no_true_condition_takes_the_function_away(make: Any, condition: str) -> None:
    loader = make(m=f"@depends({condition})\ndef f(): pass\n\n@depends(True)\ndef g(): return 1")
    assert refusal(loader, "m.f") == "'m.f' is not available. (needs a condition that does not hold here)"
    assert loader["m.g"]() == 1


def test_a_name_that_the_module_sets_further_down_counts(make: Any) -> None:
    assert make(m="@depends('late')\ndef f(): return 1\nlate = True")["m.f"]() == 1


def test_a_version_is_asked_of_the_library_in_the_module(make: Any) -> None:
    source = "class lib:\n    __version__ = '1.5'\n@depends('lib', version='{}')\ndef f(): return 1"
    assert make(m=source.format("1.2"))["m.f"]() == 1


def test_the_fallback_answers_under_the_alias(make: Any) -> None:
    source = """__func_alias__ = {"list_": "list"}
def _instead(): return "instead"
@depends("nope", fallback_function=_instead)
def list_(): return "real"
"""
    loader = make(m=source)
    assert loader["m.list"]() == "instead"
    assert refusal(loader, "m.list_") == "'m.list_' is not available."


def test_of_two_definitions_with_one_name_the_last_counts(make: Any) -> None:
    assert make(m="@depends('nope')\ndef f(): return 1\ndef f(): return 2")["m.f"]() == 2


def test_every_depends_on_a_function_must_hold(make: Any) -> None:
    source = "here = 1\n@depends('here')\n@depends('nope')\n@depends('here')\ndef f(): pass"
    assert refusal(make(m=source), "m.f").endswith("(needs nope)")


def test_another_decorator_around_it_changes_nothing(make: Any) -> None:
    source = "from saltlite.decorators import memoize\n@memoize\n@depends('nope')\ndef f(): pass"
    assert refusal(make(m=source), "m.f").endswith("(needs nope)")


def test_a_command_runs_once_and_only_for_its_own_function(make: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    source = f"@depends('sh -c \"echo x >> {trace}\"', retcode=0)\ndef f(): return 1\ndef g(): return 2"
    loader = make(m=source)
    assert loader["m.g"]() == 2
    assert not trace.exists()
    assert (loader["m.f"](), loader["m.f"]()) == (1, 1)
    assert trace.read_text() == "x\n"


def test_what_was_taken_away_is_not_listed(make: Any) -> None:
    assert make(m="@depends('nope')\ndef f(): pass\ndef g(): pass").functions("m") == ["g"]


def test_what_a_forced_provider_lacks_is_not_listed(tmp_path: Path) -> None:
    write(tmp_path, {"brie": HEADER + "@depends('nope')\ndef f(): pass\ndef g(): pass"})
    loader = loader_over(tmp_path, opts={"providers": {"cheese": "brie"}})
    assert loader.functions("cheese") == ["g"]


def test_the_function_of_a_lower_layer_fills_the_place(tmp_path: Path) -> None:
    high = write(
        tmp_path / "high", {"mine": HEADER + "def __virtual__(): return 'cheese'\n@depends(0)\ndef f(): return 1"}
    )
    low = write(tmp_path / "low", {"cheese": "def f(): return 2"})
    assert loader_over(high, low)["cheese.f"]() == 2
