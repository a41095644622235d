"""The small file that tells people where a minion's connection is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from saltlite.minion.processes.identity import NAME, TEXT_MAX, Status, read_status, write_status


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    write_status(str(tmp_path), Status("connect", "", 1.0))
    write_status(str(tmp_path), Status("pending", "the key waits", 2.5))
    assert read_status(str(tmp_path)) == Status("pending", "the key waits", 2.5)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_long_texts_are_cut_so_that_the_file_can_be_read(tmp_path: Path) -> None:
    write_status(str(tmp_path), Status("p" * 100_000, "\u20ac" * 100_000, 1.0))
    assert read_status(str(tmp_path)) == Status("p" * TEXT_MAX, "\u20ac" * TEXT_MAX, 1.0)


def test_a_folder_that_cannot_be_written_costs_the_file_only(tmp_path: Path) -> None:
    write_status(str(tmp_path / "gone"), Status("ready", "", 1.0))
    assert read_status(str(tmp_path / "gone")) is None


@pytest.mark.parametrize("content", ["", "no json", "[]", "{}", '{"phase": "x"}', '{"phase":1,"reason":2,"at":"x"}'])
def test_a_file_that_says_nothing_is_none(content: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(content)
    assert read_status(str(tmp_path)) is None
