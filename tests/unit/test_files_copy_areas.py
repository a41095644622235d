"""The environments of `saltlite cp`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.errors import SaltliteError, UsageError
from saltlite.files.roots import FileRoots
from saltlite.files.server import CopiedPiece, CopyAreas
from saltlite.master.store import copies
from saltlite.master.store.copies import COUNT, SharedCopies
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryInventory


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
    half = tmp_path / "copies" / f".7.{old}"
    half.mkdir()
    os.utime(half, (1000, 1000))
    os.utime(tmp_path / "copies" / old, (1000, 1000))
    (tmp_path / "copies/other").mkdir()
    areas.expire(2000)
    assert sorted(os.listdir(tmp_path / "copies")) == sorted([young, "other"])
    areas.end(young)
    CopyAreas(str(tmp_path / "never")).expire(2000)


# -- masters that share a store


class Masters:
    """Two masters, and what they share."""

    def __init__(self, folder: Path) -> None:
        self.rows = MemoryInventory()
        self.folder = folder
        self.a, self.b = (CopyAreas(str(folder / name), self.copies()) for name in "ab")
        self.roots = FileRoots({}, areas=str(folder / "b"))
        self.roots.bring = self.b.bring
        self.area = self.a.begin(os.urandom)
        self.a.put(self.area, "d/f", 0, b"ab", 0o755)
        self.a.put(self.area, "d/f", 2, b"c", 0o755)

    def copies(self, seal_key: bytes = bytes(32)) -> SharedCopies:
        return SharedCopies(self.rows, seal_key, ManualClock(wall=1000.0))

    def read(self) -> tuple[bytes, int]:
        """What a minion of the second master reads, and the mode."""
        assert self.roots.names(self.area, "", folders=False) == ["d/f"]
        file = self.roots.open(self.area, "d/f")
        assert file is not None
        try:
            return file.read(0, 100), file.mode
        finally:
            file.close()


@pytest.fixture
def masters(tmp_path: Path) -> Masters:
    return Masters(tmp_path)


def test_a_minion_of_another_master_reads_what_was_put(masters: Masters) -> None:
    assert [masters.read(), masters.read()] == [(b"abc", 0o755)] * 2
    assert os.listdir(masters.folder / "b") == [masters.area]
    masters.a.end(masters.area)
    assert masters.rows.pieces == {}


def test_an_area_that_two_processes_bring_at_once_is_there_once(masters: Masters) -> None:
    place, aside = masters.folder / "b" / masters.area, masters.folder / "aside"
    masters.b.bring(masters.area)
    place.rename(aside)
    pieces = masters.copies().pieces(masters.area)

    class Slow(SharedCopies):
        def pieces(self, area: str) -> Iterator[CopiedPiece]:
            yield from pieces
            aside.rename(place)

    CopyAreas(str(masters.folder / "b"), Slow(masters.rows, bytes(32), ManualClock())).bring(masters.area)
    assert masters.read() == (b"abc", 0o755)
    assert os.listdir(masters.folder / "b") == [masters.area]


def test_an_area_that_no_master_has_is_empty(masters: Masters) -> None:
    unknown = "copy-" + "0" * 32
    assert masters.roots.open(unknown, "d/f") is None
    assert masters.roots.names(unknown, "", folders=False) == []


def test_who_can_write_the_database_cannot_change_or_cut_off_a_file(masters: Masters) -> None:
    area, rows = masters.area, masters.rows
    whole = dict(rows.pieces)
    assert not any(b"abc" in piece.data or b"d/f" in piece.data for piece in whole.values())
    changes = [
        {(area, 0): whole[area, 0]._replace(data=b"x" * 100)},
        {(area, 0): whole[area, 0]._replace(data=b"")},
        {(area, 0): whole[area, 0]._replace(data=whole[area, 1].data)},
        {(area, COUNT): whole[area, COUNT]._replace(data=whole[area, 0].data)},
    ]
    for change in changes:
        rows.pieces = {**whole, **change}
        with pytest.raises(SaltliteError, match="was not put by a master"):
            masters.read()
    rows.pieces = {key: piece for key, piece in whole.items() if key != (area, 1)}
    with pytest.raises(SaltliteError, match="piece 1 of the files to copy is missing"):
        masters.read()
    assert os.listdir(masters.folder / "b") == []
    rows.pieces = {}
    with pytest.raises(UsageError, match="start the copy again"):
        masters.a.put(area, "d/f", 3, b"d", 0o755)


def test_the_files_of_one_copy_have_a_limit_where_masters_share_them(
    masters: Masters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "AREA_MAX", 4)
    masters.a.put(masters.area, "g", 0, b"d", 0o644)
    with pytest.raises(UsageError, match="at most 0 MiB where several masters share a database"):
        masters.a.put(masters.area, "g", 1, b"e", 0o644)
