"""Returns that are too large to travel: cut at the source, recognisable, and kept whole."""

from __future__ import annotations

import errno
import hashlib
import stat
from pathlib import Path
from typing import Any

import pytest

from saltlite.config.load import load_minion
from saltlite.errors import ConfigError
from saltlite.loader.encode import decode_return
from saltlite.minion.jobs.returns import OversizedReturns, Returns
from saltlite.model.job import HEADER_BYTES, digest_of
from saltlite.testing.disk import MemoryDisk
from saltlite.wire.limits import RETURN_MAX

JID = "20260131235959123456"
LIMIT = 64 * 1024


def returns(folder: Path, kept_max: int = 10**6) -> Returns:
    return Returns("web1", LIMIT, str(folder / "kept"), kept_max)


def kept(folder: Path, jid: str = JID) -> Any:
    """The whole return as it was kept, its checksum verified."""
    data = (folder / "kept" / f"{jid}.kept").read_bytes()
    whole = data[HEADER_BYTES:]
    assert hashlib.sha256(whole).digest() == digest_of(data[:HEADER_BYTES])
    return decode_return(whole)


@pytest.mark.parametrize("value", [True, "x" * 1000, b"\xff", {"a": [1, 2]}, None, "x" * (LIMIT - 10)])
def test_what_fits_travels_as_it_is_and_nothing_is_kept(tmp_path: Path, value: Any) -> None:
    sealed = returns(tmp_path).seal(JID, value)
    assert (decode_return(sealed.body), sealed.note) == (value, "")
    assert not (tmp_path / "kept").exists()


def test_of_a_large_text_the_first_part_travels_and_its_last_line_says_what_is_missing(tmp_path: Path) -> None:
    text = "é" * LIMIT
    sealed = returns(tmp_path).seal(JID, text)
    head, _, line = decode_return(sealed.body).rstrip("\n").rpartition("\n")
    assert len(sealed.body) <= LIMIT < len(sealed.body) + 16 * 1024
    assert text.startswith(head)
    missing = 2 * LIMIT - len(head.encode())
    assert line == f"[{missing} of {2 * LIMIT} bytes are missing here; all of it: saltlite job fetch {JID} web1]"
    assert sealed.note == f"truncated: {2 * LIMIT} bytes; all of it: saltlite job fetch {JID} web1"
    assert kept(tmp_path) == text


def test_large_bytes_stay_bytes(tmp_path: Path) -> None:
    sealed = returns(tmp_path).seal(JID, b"\xff" * (2 * LIMIT))
    body = decode_return(sealed.body)
    assert isinstance(body, bytes)
    assert body.startswith(b"\xff" * 50_000)
    assert body.endswith(f"saltlite job fetch {JID} web1]\n".encode())
    assert kept(tmp_path) == b"\xff" * (2 * LIMIT)


@pytest.mark.parametrize("value", [{"a": "x" * LIMIT, "b": 1}, ["x" * 100] * 1000])
def test_any_other_large_value_is_a_map_that_programs_recognise(tmp_path: Path, value: Any) -> None:
    sealed = returns(tmp_path).seal(JID, value)
    said = decode_return(sealed.body)
    assert len(sealed.body) <= LIMIT
    assert set(said) == {"$truncated", "head"}
    assert said["$truncated"] == {"bytes": len(_encoded(tmp_path)), "kept": True}
    assert type(said["head"]) is type(value)
    assert kept(tmp_path) == value


def _encoded(folder: Path) -> bytes:
    return (folder / "kept" / f"{JID}.kept").read_bytes()[HEADER_BYTES:]


def test_what_is_larger_than_may_be_kept_says_that_it_was_not(tmp_path: Path) -> None:
    sealed = returns(tmp_path, kept_max=2 * LIMIT).seal(JID, ["x" * 100] * 5000)
    assert decode_return(sealed.body)["$truncated"]["kept"] is False
    assert sealed.note.endswith("; the minion did not keep the rest")
    assert list(tmp_path.rglob("*.kept")) == []


def test_a_minion_that_keeps_nothing_still_says_what_is_missing(tmp_path: Path) -> None:
    sealed = returns(tmp_path, kept_max=0).seal(JID, "x" * (2 * LIMIT))
    assert "the minion did not keep the rest" in decode_return(sealed.body)[-100:]


def test_a_text_that_lies_about_itself_ends_no_job(tmp_path: Path) -> None:
    class Odd(str):
        def encode(self, *_: Any, **__: Any) -> bytes:
            raise RuntimeError

    assert returns(tmp_path).seal(JID, Odd("x" * (2 * LIMIT))).note.startswith("truncated:")


def test_a_list_with_more_items_than_may_travel_is_cut_however_small_they_are(tmp_path: Path) -> None:
    plenty = Returns("web1", 16 * 1024 * 1024, str(tmp_path / "kept"), 64 * 1024 * 1024)
    sealed = plenty.seal(JID, [0] * 1_000_002)
    assert decode_return(sealed.body)["$truncated"] == {"bytes": 1_000_007, "kept": True}
    assert len(kept(tmp_path)) == 1_000_002


def test_kept_returns_are_private_and_the_oldest_makes_room(tmp_path: Path) -> None:
    keeper = returns(tmp_path, kept_max=3 * LIMIT)
    jids = [f"{int(JID) + number}" for number in range(3)]
    for jid in jids:
        keeper.seal(jid, "x" * (LIMIT + 1000))
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == [f"{jid}.kept" for jid in jids[1:]]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "kept").iterdir()} == {0o600}


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_disk_that_does_not_take_it_keeps_nothing_and_leaves_nothing(operation: str) -> None:
    def before(name: str) -> None:
        if name == operation:
            raise OSError(errno.ENOSPC, "No space left on device")

    disk = MemoryDisk(before=before)
    assert not OversizedReturns(disk.folder("/kept"), 10**6).keep(JID, b"x" * 1000)
    disk.before = lambda _: None
    assert disk.folder("/kept").names() == []


@pytest.mark.parametrize(
    ("written", "accepted"), [(65_535, False), (65_536, True), (RETURN_MAX, True), (RETURN_MAX + 1, False)]
)
def test_the_limit_of_returns_leaves_room_for_its_notices_and_is_no_larger_than_the_wires(
    tmp_path: Path, written: int, accepted: bool
) -> None:
    (tmp_path / "minion").write_text(f"return_max: {written}\n")
    if accepted:
        assert load_minion(str(tmp_path)).config.return_max == written
    else:
        with pytest.raises(ConfigError, match="return_max"):
            load_minion(str(tmp_path))
