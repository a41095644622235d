"""Paths that the functions of `file` take: nasty names, special files, missing files, what is no path."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.modules import done, refusal, run

NAMES = {
    "spaces": "a b  c",
    "quotes": 'it\'s "so"',
    "shell": "x; touch owned; $(touch owned) `touch owned`",
    "hyphen": "-rf",
    "line break": "a\nb",
    "unicode": "größe-漢字",
    "no UTF-8": "caf\udce9",
    "glob": "a[*]?",
    "backslash": "a\\nb",
    "percent": "%s%n{0}",
}
CONTENT = "alpha\nbeta\n"

WRITING: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "append": (["x"], {}),
    "blockreplace": ([], {"content": "x\n", "append_if_not_found": True}),
    "comment": (["^beta"], {}),
    "comment_line": (["^beta"], {}),
    "line": (["x"], {"mode": "ensure", "after": "beta"}),
    "prepend": (["x"], {}),
    "psed": (["beta", "x"], {}),
    "replace": (["beta", "x"], {}),
    "sed": (["beta", "x"], {}),
    "seek_write": (["x", 1], {}),
    "truncate": ([1], {}),
    "uncomment": (["beta"], {}),
    "write": (["x"], {}),
}
READING: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "contains": (["beta"], {}),
    "contains_glob": (["*beta*"], {}),
    "contains_regex": (["beta"], {}),
    "grep": (["beta"], {}),
    "read": ([], {}),
    "search": (["beta"], {}),
    "sed_contains": (["beta"], {}),
    "seek_read": ([4, 6], {}),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("function", WRITING)
def test_a_file_of_any_name_is_changed_and_nothing_else(function: str, name: str, tmp_path: Path) -> None:
    path = os.path.join(tmp_path, name)
    plain = tmp_path / "plain"
    before = "#beta\n" if function == "uncomment" else CONTENT
    for each in (path, plain):
        with open(each, "w") as file:
            file.write(before)
    args, kwargs = WRITING[function]
    done(function, str(plain), *args, **kwargs)
    done(function, path, *args, **kwargs)
    with open(path) as file:
        assert file.read() == plain.read_text() != before
    assert set(os.listdir(tmp_path)) <= {name, f"{name}.bak", "plain", "plain.bak"}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("function", READING)
def test_a_file_of_any_name_is_read(function: str, name: str, tmp_path: Path) -> None:
    path = os.path.join(tmp_path, name)
    with open(path, "w") as file:
        file.write(CONTENT)
    args, kwargs = READING[function]
    answer = done(function, path, *args, **kwargs)
    found = answer["stdout"] if isinstance(answer, dict) else answer
    assert found in (True, "beta", b"beta", CONTENT)


@pytest.mark.parametrize("function", [*WRITING, *READING])
@pytest.mark.parametrize("path", ["", "/tmp/a\0b", None, 5], ids=repr)
def test_what_is_no_path_is_refused_with_a_sentence(function: str, path: Any) -> None:
    args, kwargs = {**WRITING, **READING}[function]
    assert "is not the path of a file" in refusal(function, path, *args, **kwargs)


def special(tmp_path: Path, kind: str) -> str:
    place = tmp_path / kind
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    else:
        place.symlink_to("/dev/null")
    return str(place)


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "device"])
@pytest.mark.parametrize("function", [*WRITING, *(each for each in READING if each != "grep")])
def test_special_files_are_refused_at_once(function: str, kind: str, tmp_path: Path) -> None:
    args, kwargs = {**WRITING, **READING}[function]
    sentence = refusal(function, special(tmp_path, kind), *args, **kwargs)
    assert re.search(r"is a (folder|named pipe|socket|device), not a regular file\.$", sentence)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_grep_waits_for_no_special_file(kind: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(CONTENT)
    assert "not a regular file" in refusal("grep", special(tmp_path, kind), "beta")
    assert done("grep", str(tmp_path / "*"), "beta", "-h")["stdout"] == "beta"


MISSING = {"contains": False, "contains_glob": False, "contains_regex": False, "sed": False, "sed_contains": False}


@pytest.mark.parametrize("function", [*WRITING, *READING])
def test_a_missing_file_is_made_or_said(function: str, tmp_path: Path) -> None:
    args, kwargs = {**WRITING, **READING}[function]
    outcome = run(function, str(tmp_path / "none"), *args, **kwargs)
    if function in ("write", "prepend"):
        assert (tmp_path / "none").read_text() == "x\n"
    elif function in MISSING:
        assert (outcome.value, outcome.retcode) == (False, 0)
    else:
        assert outcome.retcode != 0
        assert re.search("no file|not found|not exist|No such file", str(outcome.value))
        assert os.listdir(tmp_path) == []


def test_what_may_be_missing_is_no_error_when_so_asked(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    assert done("replace", none, "a", "b", ignore_if_missing=True) is False
    assert done("search", none, "a", ignore_if_missing=True) is False
    assert done("line", none, "a", mode="ensure", after="b", quiet=True) is False
