"""The environments of `saltlite cp`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from saltlite.errors import UsageError
from saltlite.files.server import CopyAreas


@pytest.fixture
def areas(tmp_path: Path) -> CopyAreas:
    return CopyAreas(str(tmp_path / "copies"))


def test_pieces_become_files_with_the_mode_that_was_said_and_no_more(areas: CopyAreas, tmp_path: Path) -> None:
    area = areas.begin(os.urandom)
    areas.put(area, "d/f", 0, b"ab", 0o6755)
    areas.put(area, "d/f", 2, b"c", 0o6755)
    place = tmp_path / "copies" / area / "d/f"
    assert (place.read_bytes(), place.stat().st_mode & 0o7777) == (b"abc", 0o755)


@pytest.mark.parametrize("path", ["../x", "/x", "", "a/../../x"])
def test_a_path_that_leads_out_is_refused(areas: CopyAreas, path: str) -> None:
    area = areas.begin(os.urandom)
    with pytest.raises(UsageError):
        areas.put(area, path, 0, b"x", 0o644)


@pytest.mark.parametrize("area", ["..", "", "copy-" + "0" * 32, "copy-../../x"])
def test_an_area_that_was_not_begun_cannot_be_used(areas: CopyAreas, area: str) -> None:
    areas.begin(os.urandom)
    with pytest.raises(UsageError):
        areas.put(area, "x", 0, b"", 0o644)
    with pytest.raises(UsageError):
        areas.end(area)


def test_areas_that_nobody_ended_go_when_their_time_is_over(areas: CopyAreas, tmp_path: Path) -> None:
    old, young = areas.begin(os.urandom), areas.begin(os.urandom)
    areas.put(old, "f", 0, b"x", 0o644)
    os.utime(tmp_path / "copies" / old, (1000, 1000))
    (tmp_path / "copies/other").mkdir()
    areas.expire(2000)
    assert sorted(os.listdir(tmp_path / "copies")) == sorted([young, "other"])
    areas.end(young)
    CopyAreas(str(tmp_path / "never")).expire(2000)
