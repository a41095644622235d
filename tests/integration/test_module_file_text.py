"""What the editing functions of `file` make of a file, one case a file in tests/data/file/<function>.

    before     the content of the file; args, kwargs: of the call, after the path
    after      the content then, where it changed
    returns    the value, with the file's folder written as <folder>; retcode, where it is not 0
    copies     names of the copies of the old file that lie beside it then

The cases of append, blockreplace, comment_line, contains*, line, prepend, replace, search and write were compared with
Salt 3008.3. They differ from it where it forgets the line ending of the file, adds an empty line with
`line … location=end`, does not know its own indented line again, indents what goes before the first line as the last,
joins a block with the last line of a file, shows several lines as one in a diff, or fails with an exception of Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from saltlite.loader.call import Outcome
from tests.support.modules import run

CASES = Path(__file__).parents[1] / "data" / "file"
PATHS = sorted(CASES.glob("*/*.yaml"))
DRY = {
    "append", "blockreplace", "comment", "comment_line", "line", "prepend", "psed", "replace", "sed", "uncomment",
    "write",
}  # fmt: skip
"""Functions that change a file and take `test`."""


def name_of(path: Path) -> str:
    return path.relative_to(CASES).with_suffix("").as_posix()


def called(case: dict[str, Any], path: Path, folder: Path, **more: Any) -> Outcome:
    return run(path.parent.name, str(folder / "file"), *case.get("args", ()), **case.get("kwargs", {}), **more)


def plain(value: Any, folder: Path) -> Any:
    """The value as a case has it: without the folder and the number of a process."""
    if isinstance(value, str):
        return value.replace(str(folder), "<folder>")
    if isinstance(value, dict):
        return {key: plain(each, folder) for key, each in value.items() if key != "pid"}
    return value


def as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_a_call_changes_the_file_and_returns_as_the_case_says(path: Path, tmp_path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    before = as_bytes(case["before"])
    (tmp_path / "file").write_bytes(before)
    outcome = called(case, path, tmp_path)
    assert plain(outcome.value, tmp_path) == case["returns"]
    assert outcome.retcode == case.get("retcode", 0)
    assert (tmp_path / "file").read_bytes() == as_bytes(case.get("after", before))
    copies = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.name != "file"}
    assert copies == dict.fromkeys(case.get("copies", ()), before)


@pytest.mark.parametrize("path", [path for path in PATHS if path.parent.name in DRY], ids=name_of)
def test_with_test_nothing_changes_and_the_answer_is_that_of_the_change(path: Path, tmp_path: Path) -> None:
    case = yaml.safe_load(path.read_text())
    (tmp_path / "file").write_bytes(as_bytes(case["before"]))
    outcome = called(case, path, tmp_path, test=True)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == as_bytes(case["before"])
    told = plain(outcome.value, tmp_path)
    if path.parent.name == "sed" and not outcome.retcode:
        assert told["stdout"] == as_bytes(case["after"]).decode().rstrip("\n")
    elif path.parent.name in ("append", "prepend", "write"):
        assert told == case["returns"].replace("Wrote", "Would write").replace("Prepended", "Would prepend")
    else:
        assert told == case["returns"]
