"""Modules that are a folder, and modules that are an archive."""

from __future__ import annotations

import shutil
import sys
import traceback
import zipfile
from pathlib import Path

import pytest

from saltlite.loader import formats
from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import Layer
from tests.support.modules import loader_over, write

PARTS = {
    "m/__init__.py": "from . import sub\nfrom .deep.inner import N\ndef f(): return sub.g() + N",
    "m/sub.py": "def g():\n    from .deep import inner\n    return inner.N + 1",
    "m/deep/__init__.py": "",
    "m/deep/inner.py": "N = 5",
}


def refusal(loader: Loader, name: str) -> str:
    with pytest.raises(FunctionUnavailable) as caught:
        loader[name]
    return str(caught.value)


def zipped(folder: Path, members: dict[str, str], name: str = "m") -> Path:
    with zipfile.ZipFile(folder / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for member, text in members.items():
            made.writestr(member, text)
    return folder


# --- folders


def test_a_folder_is_a_module_whose_parts_import_each_other(tmp_path: Path) -> None:
    assert loader_over(write(tmp_path, PARTS))["m.f"]() == 11


def test_parts_see_the_dunder_names(tmp_path: Path) -> None:
    files = {
        "m/__init__.py": "from .sub import inner\ndef f(): return inner()",
        "m/sub.py": "HERE = __grains__['os']\n__salt__ = None\ndef inner(): return HERE, __salt__['other.g']()",
        "other": "def g(): return 2",
    }
    assert loader_over(write(tmp_path, files), grains={"os": "Debian"})["m.f"]() == ("Debian", 2)


def test_functions_of_parts_are_offered_only_when_listed(tmp_path: Path) -> None:
    files = {
        "plain/__init__.py": "from .sub import g\ndef f(): pass",
        "plain/sub.py": "def g(): return 1",
        "listed/__init__.py": "from .sub import g\n__all__ = ['g']",
        "listed/sub.py": "def g(): return 1",
    }
    loader = loader_over(write(tmp_path, files))
    assert list(loader) == ["listed.g", "plain.f"]
    assert (loader.functions("listed"), loader.functions("plain")) == (["g"], ["f"])


def test_the_folder_goes_before_the_file_of_that_name(tmp_path: Path) -> None:
    files = {"m/__init__.py": "def f(): return 'folder'", "m": "def f(): return 'file'"}
    assert loader_over(write(tmp_path, files))["m.f"]() == "folder"


def test_a_folder_without_init_is_no_module(tmp_path: Path) -> None:
    loader = loader_over(write(tmp_path, {"data/thing.py": "", "m": "def f(): return 1"}))
    assert loader.modules() == ["m"]


def test_a_fault_in_a_part_is_said_with_the_parts_file_and_line(tmp_path: Path) -> None:
    files = {"m/__init__.py": "from . import sub", "m/sub.py": "x = 1\nimport no_such_lib_zz"}
    assert refusal(loader_over(write(tmp_path, files)), "m.f") == (
        "'m' could not be imported: ModuleNotFoundError: No module named 'no_such_lib_zz' (m/sub.py, line 2)"
    )


def test_a_syntax_error_in_a_part_is_said_with_its_place(tmp_path: Path) -> None:
    files = {"m/__init__.py": "from . import sub", "m/sub.py": "\n\ndef broken(:"}
    assert refusal(loader_over(write(tmp_path, files)), "m.f").endswith(
        "SyntaxError: invalid syntax (m/sub.py, line 3)"
    )


def test_two_loaders_have_parts_of_their_own(tmp_path: Path) -> None:
    files = {
        "m/__init__.py": "from . import sub\ndef f(): return sub.add()",
        "m/sub.py": "N = []\ndef add():\n    N.append(1)\n    return len(N)",
    }
    folder = write(tmp_path, files)
    first, second = loader_over(folder), loader_over(folder)
    assert [first["m.f"](), first["m.f"](), second["m.f"]()] == [1, 2, 1]


def test_a_package_that_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    files = {"gone/__init__.py": "from . import sub\n1 / 0", "gone/sub.py": ""}
    refusal(loader_over(write(tmp_path, files)), "gone.f")
    assert [name for name in sys.modules if name.startswith("saltlite.loaded.layer0.modules.gone")] == []


# --- archives


def test_an_archive_is_a_module_like_the_folder_in_it(tmp_path: Path) -> None:
    assert loader_over(zipped(tmp_path, PARTS))["m.f"]() == 11


def test_without_the_option_for_archives_a_call_names_it(tmp_path: Path) -> None:
    loader = Loader(build_index([Layer("custom", str(zipped(tmp_path, PARTS)))]), {}, {}, {})
    assert refusal(loader, "m.f") == "'m.f' is not available. (needs enable_zip_modules: true in the configuration)"
    assert refusal(loader, "n.f") == "'n.f' is not available."


def test_an_archive_imports_its_parts_by_its_own_name(tmp_path: Path) -> None:
    members = {
        "m/__init__.py": "import m.deep.inner\nfrom m import sub\ndef f(): return m.deep.inner.N + sub.g()",
        "m/sub.py": "def g():\n    import m.deep.inner as inner\n    return inner.N",
        "m/deep/__init__.py": "",
        "m/deep/inner.py": "N = 5",
    }
    assert loader_over(zipped(tmp_path, members))["m.f"]() == 10


def test_nobody_else_can_import_from_an_archive(tmp_path: Path) -> None:
    members = {"zz_alone/__init__.py": "from zz_alone import sub\ndef f(): return sub.N", "zz_alone/sub.py": "N = 1"}
    path = list(sys.path)
    folder = zipped(tmp_path, members, "zz_alone")
    write(folder, {"other": "def f():\n    import zz_alone"})
    loader = loader_over(folder)
    assert loader["zz_alone.f"]() == 1
    with pytest.raises(ModuleNotFoundError):
        loader["other.f"]()
    assert sys.path == path
    assert "zz_alone" not in sys.modules


def test_an_archive_is_no_module_unless_the_option_says_so(tmp_path: Path) -> None:
    index = build_index([Layer("custom", str(zipped(tmp_path, PARTS)))])
    assert index.files == ()


def test_a_fault_in_an_archive_is_said_with_the_members_line(tmp_path: Path) -> None:
    members = {"m/__init__.py": "from m import sub", "m/sub.py": "\nraise ValueError('no')"}
    loader = loader_over(zipped(tmp_path, members))
    assert refusal(loader, "m.f") == "'m' could not be imported: ValueError: no (m.zip/m/sub.py, line 2)"


def test_a_traceback_shows_the_lines_of_an_archive(tmp_path: Path) -> None:
    loader = loader_over(zipped(tmp_path, {"m/__init__.py": "def f():\n    raise ValueError('no')  # this line"}))
    with pytest.raises(ValueError, match="no") as caught:
        loader["m.f"]()
    assert "# this line" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("member", ["../evil.py", "/etc/evil.py", "m/../../evil.py", "m\\evil.py", "C:/evil.py"])
def test_a_member_that_would_leave_the_folder_refuses_the_archive(tmp_path: Path, member: str) -> None:
    text = refusal(loader_over(zipped(tmp_path, {"m/__init__.py": "def f(): pass", member: ""})), "m.f")
    assert text == f"'m' could not be imported: the archive is unsafe: member {member!r} would leave its folder"


def test_a_member_whose_name_ends_early_refuses_the_archive(tmp_path: Path) -> None:
    zipped(tmp_path, {"m/__init__.py": "def f(): pass", "m/x.py?.py": ""})
    data = (tmp_path / "m.zip").read_bytes()
    (tmp_path / "m.zip").write_bytes(data.replace(b"m/x.py?.py", b"m/x.py\0.py"))
    assert "the archive is unsafe" in refusal(loader_over(tmp_path), "m.f")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_refuses_the_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as made:
        made.writestr("m/__init__.py", "def f(): return 1")
        made.writestr("m/__init__.py", "def f(): return 2")
    assert "it holds 'm/__init__.py' twice" in refusal(loader_over(tmp_path), "m.f")


@pytest.mark.parametrize(
    ("limit", "value", "text"),
    [
        ("ARCHIVE_BYTES_MAX", 100, "the archive is larger than 100 bytes"),
        ("MEMBERS_MAX", 2, "the archive has 4 members, a module may have 2"),
        ("TEXT_BYTES_MAX", 20, "the Python files of the archive are larger than 20 bytes"),
    ],
)
def test_an_archive_has_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, text: str
) -> None:
    monkeypatch.setattr(formats, limit, value)
    assert text in refusal(loader_over(zipped(tmp_path, PARTS)), "m.f")


def test_a_member_that_unpacks_to_more_than_it_announces_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped(tmp_path, {"m/__init__.py": "#" * 5000})
    data = (tmp_path / "m.zip").read_bytes()
    size = (5000).to_bytes(4, "little")
    (tmp_path / "m.zip").write_bytes(data.replace(size, (1000).to_bytes(4, "little")))
    monkeypatch.setattr(formats, "TEXT_BYTES_MAX", 2000)
    assert "the archive" in refusal(loader_over(tmp_path), "m.f")


def test_an_archive_without_the_folder_of_its_name_says_so(tmp_path: Path) -> None:
    text = refusal(loader_over(zipped(tmp_path, {"other/__init__.py": ""})), "m.f")
    assert text.endswith("the archive holds no m/__init__.py: a zip module is one folder with its own name")


def test_a_file_that_is_no_archive_says_so_and_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(b"PK\x03\x04 not really")
    loader = loader_over(write(tmp_path, {"good": "def f(): return 1"}))
    assert "'m' could not be imported: the archive cannot be read" in refusal(loader, "m.f")
    assert loader["good.f"]() == 1


def test_an_archive_cut_off_in_the_middle_is_refused(tmp_path: Path) -> None:
    zipped(tmp_path, PARTS)
    data = (tmp_path / "m.zip").read_bytes()
    (tmp_path / "m.zip").write_bytes(data[: len(data) // 2])
    assert "the archive cannot be read" in refusal(loader_over(tmp_path), "m.f")


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    zipped(tmp_path, {"m/__init__.py": "def f(): pass"})
    data = bytearray((tmp_path / "m.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "m.zip").write_bytes(data)
    assert "the archive is encrypted" in refusal(loader_over(tmp_path), "m.f")


def test_a_changed_archive_is_indexed_again(tmp_path: Path) -> None:
    index = build_index(loader_over(zipped(tmp_path, {"m/__init__.py": "def f(): pass"})).index.layers)
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    zipped(tmp_path, {"m/__init__.py": "def another(): pass"})
    assert build_index(index.layers, index).function_names() == ["m.another"]
