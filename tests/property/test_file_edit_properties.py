"""Edits of `file` for any text: what was added is found, what is done is not done twice, and no byte is lost."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.modules import done

WORDS = st.text(st.sampled_from("ab .#*\\$é\udcff\t"), max_size=6)
ENDINGS = st.sampled_from(["\n", "\r\n"])
LINES = st.lists(WORDS, max_size=5)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def put(folder: Path, lines: list[str], ending: str, *, last: bool) -> str:
    """A file of these lines; `last`: with a line break at its end."""
    text = ending.join(lines) + (ending if last and lines else "")
    (folder / "file").write_bytes(text.encode(errors="surrogateescape"))
    return str(folder / "file")


def content(path: str) -> str:
    with open(path, "rb") as file:
        return file.read().decode(errors="surrogateescape")


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), added=st.lists(WORDS, min_size=1, max_size=3))
def test_appended_lines_are_there_and_all_else_is_as_it_was(
    folder: Path, lines: list[str], ending: str, last: bool, added: list[str]
) -> None:
    path = put(folder, lines, ending, last=last)
    before = content(path)
    done("append", path, args=added)
    after = content(path)
    assert after.startswith(before)
    assert after[len(before) :].lstrip("\r\n").split() == "\n".join(added).split()
    assert all(done("contains", path, each) for each in added)


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), added=WORDS)
def test_prepended_and_deleted_again_leaves_the_file(
    folder: Path, lines: list[str], ending: str, last: bool, added: str
) -> None:
    path = put(folder, lines, ending, last=last)
    before = content(path)
    done("prepend", path, f"only {added}")
    done("line", path, mode="delete", match=re.escape(f"only {added}"))
    assert content(path) == before


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), new=WORDS, after=st.booleans())
def test_ensuring_a_line_twice_is_ensuring_it_once(
    folder: Path, lines: list[str], ending: str, last: bool, new: str, after: bool
) -> None:
    path = put(folder, [*lines, "  anchor", *lines], ending, last=last)
    place = {"after": "anchor"} if after else {"before": "anchor"}
    done("line", path, new, mode="ensure", **place)
    once = content(path)
    assert done("line", path, new, mode="ensure", **place) is False
    assert content(path) == once


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), repl=WORDS)
def test_what_is_replaced_is_appended_at_most_once(
    folder: Path, lines: list[str], ending: str, last: bool, repl: str
) -> None:
    path = put(folder, lines, ending, last=last)
    options = {"append_if_not_found": True, "backslash_literal": True, "backup": False, "show_changes": False}
    done("replace", path, "^never$", repl, **options)
    once = content(path)
    assert done("replace", path, "^never$", repl, **options) is False
    assert content(path) == once


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), old=WORDS, new=WORDS)
def test_a_literal_replacement_is_that_of_the_text(
    folder: Path, lines: list[str], ending: str, last: bool, old: str, new: str
) -> None:
    path = put(folder, lines, ending, last=last)
    before = content(path)
    done("replace", path, re.escape(old), new, backslash_literal=True, backup=False)
    assert content(path) == before.replace(old, new)


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), block=LINES)
def test_a_block_is_put_in_once_and_what_is_around_it_stays(
    folder: Path, lines: list[str], ending: str, last: bool, block: list[str]
) -> None:
    path = put(folder, lines, ending, last=last)
    before = content(path)
    options = {"append_if_not_found": True, "append_newline": True, "backup": False, "show_changes": False}
    assert done("blockreplace", path, "<<", ">>", "\n".join(block), **options) is True
    once = content(path)
    assert once.startswith(before)
    assert done("blockreplace", path, "<<", ">>", "\n".join(block), **options) is False
    assert content(path) == once


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), mark=st.sampled_from(["#", "//", "*", "--"]))
def test_what_is_commented_and_uncommented_is_as_before(
    folder: Path, lines: list[str], ending: str, last: bool, mark: str
) -> None:
    kept = [f"k{line}" for line in lines]  # what begins with the mark loses that, too
    path = put(folder, kept, ending, last=last)
    before = content(path)
    done("comment", path, "k", mark, False)
    assert all(line.startswith(mark) for line in re.split(r"\r?\n", content(path)) if line)
    done("uncomment", path, "k", mark, False)
    assert content(path) == before


@given(lines=LINES, ending=ENDINGS, last=st.booleans(), other=LINES)
def test_a_diff_of_two_files_makes_the_one_of_the_other(
    folder: Path, lines: list[str], ending: str, last: bool, other: list[str]
) -> None:
    path = put(folder, [line.replace("\udcff", "") for line in lines], ending, last=last)
    target = folder / "target"
    target.write_text("\n".join(line.replace("\udcff", "") for line in other))
    told = done("get_diff", path, str(target))
    if not told:
        assert content(path).encode() == target.read_bytes()
        return
    (folder / "patch").write_bytes(told.encode())
    assert done("patch", path, str(folder / "patch"), options="--binary")["retcode"] == 0
    assert (Path(path).read_bytes() if os.path.exists(path) else b"") == target.read_bytes()
