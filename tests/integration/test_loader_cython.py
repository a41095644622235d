"""Cython modules, with the real Cython and C compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saltlite.loader import formats
from saltlite.loader.call import call
from saltlite.loader.loader import Loader
from tests.support.modules import loader_over, write

SOURCE = '''
HERE = __grains__["os"]
__func_alias__ = {"double_": "double"}

cdef int twice(int value):
    return 2 * value

def double_(int value):
    """Twice the value."""
    return twice(value)

def where():
    return HERE, __salt__["other.g"]()

def _private():
    pass
'''


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """A loader over a module with that text; each test has a name for it of its own."""

    def build(name: str, source: str = SOURCE, **opts: Any) -> Loader:
        write(tmp_path / "modules", {f"{name}.pyx": source, "other": "def g(): return 'g'"})
        given = {"cachedir": str(tmp_path / "cache"), **opts}
        return loader_over(tmp_path / "modules", opts=given, grains={"os": "Debian"})

    return build


def test_a_cython_module_is_compiled_and_called_like_any_other(make: Any) -> None:
    loader = make("cy_works")
    assert (call(loader, "cy_works.double", (4,), {}).value, loader["cy_works.where"]()) == (8, ("Debian", "g"))
    assert [name for name in loader if name.startswith("cy_works")] == ["cy_works.double", "cy_works.where"]


def test_arguments_that_do_not_fit_are_said_as_for_any_other(make: Any) -> None:
    text = call(make("cy_args"), "cy_args.double", (1, 2), {}).value
    assert text.startswith("Passed invalid arguments to cy_args.double: too many positional arguments")


def test_what_was_compiled_is_kept_private_and_used_again(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("cy_kept")["cy_kept.double"]
    folder = tmp_path / "cache" / "cython"
    (library,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, library.name.startswith("cy_kept-")) == (0o700, True)
    monkeypatch.setattr(formats, "_run", lambda *_: pytest.fail("compiled again"))
    assert make("cy_kept")["cy_kept.double"](3) == 6


def test_a_second_loader_sets_its_own_names(make: Any, tmp_path: Path) -> None:
    make("cy_twice")["cy_twice.double"]
    write(tmp_path / "modules", {"other": "def g(): return 'second'"})
    second = loader_over(tmp_path / "modules", opts={"cachedir": str(tmp_path / "cache")}, grains={"os": "Debian"})
    assert second["cy_twice.where"]()[1] == "second"


@pytest.mark.parametrize(
    ("source", "said"),
    [("def broken(:", "Cython failed:"), ("cdef extern from 'nowhere_zz.h':\n    int x\ndef f(): return x", "failed:")],
)
def test_a_module_that_does_not_compile_says_so(make: Any, source: str, said: str) -> None:
    text = call(make("cy_bad", source), "cy_bad.f", (), {}).value
    assert text.startswith("'cy_bad' could not be imported: ")
    assert said in text


def test_a_module_that_does_not_compile_is_compiled_again_when_it_has_changed(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call(make("cy_again", "def broken(:"), "cy_again.f", (), {}).value
    monkeypatch.setattr(formats, "_compile", lambda *_: pytest.fail("it is compiled again"))
    assert call(make("cy_again", "def broken(:"), "cy_again.f", (), {}).value == first
    monkeypatch.undo()
    assert call(make("cy_again", "cdef int x = 3\ndef f(): return x"), "cy_again.f", (), {}).value == 3


def test_what_is_missing_on_the_machine_is_looked_for_again(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "cython_is_installed", lambda: False)
    assert "Cython is not installed here" in call(make("cy_later"), "cy_later.double", (1,), {}).value
    monkeypatch.undo()
    assert call(make("cy_later"), "cy_later.double", (1,), {}).value == 2


DOCUMENTED = '''
"""Counts things.

:maturity: new
"""

cdef int one = 1

def count(things, int least=0, *more, sep=None, **others):
    """
    Count them.

        as here
    """
    return one
'''


def test_its_functions_are_described(make: Any) -> None:
    loader = make("cy_doc", DOCUMENTED)
    found = loader.describe("cy_doc.count")
    assert found is not None
    assert found.doc == "Count them.\n\n    as here"
    assert (found.args, found.defaults) == (("things", "least", "sep"), (0, None))
    assert (found.varargs, found.kwargs) == ("more", "others")
    assert loader.module_doc("cy_doc") == "Counts things.\n\n:maturity: new"
    assert loader.describe("cy_doc.none") is None


def test_a_compiler_that_does_not_end_is_ended(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert formats.COMPILE_SECONDS == 120
    monkeypatch.setattr(formats, "COMPILE_SECONDS", 0.01)
    text = call(make("cy_slow"), "cy_slow.double", (1,), {}).value
    assert text == "'cy_slow' could not be imported: Cython did not end within 0.01 s"


def test_a_folder_that_others_may_enter_is_not_used(make: Any, tmp_path: Path) -> None:
    (tmp_path / "cache" / "cython").mkdir(parents=True)
    (tmp_path / "cache" / "cython").chmod(0o755)
    text = call(make("cy_open"), "cy_open.double", (1,), {}).value
    assert text.endswith("must be a folder of this user that no one else may enter (mode 0700)")


def test_without_a_place_for_what_is_compiled_the_module_says_so(make: Any) -> None:
    text = call(make("cy_place", cachedir=""), "cy_place.double", (1,), {}).value
    assert text == "'cy_place' could not be imported: Cython modules need the option cachedir, for what is compiled"


def test_a_library_that_was_compiled_elsewhere_is_a_module_too(make: Any, tmp_path: Path) -> None:
    make("cy_lib")["cy_lib.double"]
    (library,) = (tmp_path / "cache" / "cython").iterdir()
    suffix = library.name[library.name.index(".") :]
    folder = tmp_path / "libraries"
    folder.mkdir()
    library.rename(folder / f"cy_lib{suffix}")
    loader = loader_over(folder, grains={"os": "Debian"})
    assert loader["cy_lib.double"](2) == 4
