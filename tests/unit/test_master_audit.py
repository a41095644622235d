"""The audit log: what is in it, that its changes show, and that it stays within its bounds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.master.handlers.operator_verbs import AUDITED, VERBS
from saltlite.master.processes import audit
from saltlite.master.processes.audit import AuditTrail, chains, entries_of, segments, verify

CHAIN = "m.MWorker-0"
ROOM = audit.SEGMENTS * audit.SEGMENT_MIN


class Clock:
    now = 1000.0

    def wall(self) -> float:
        self.now += 1.0
        return self.now


def trail(folder: Path, room: int = ROOM) -> AuditTrail:
    return AuditTrail(str(folder), CHAIN, room, Clock().wall)


def entries(folder: Path) -> list[dict[str, Any]]:
    return [entry for _, path in segments(str(folder), CHAIN) for entry in entries_of(path)]


def problems(folder: Path, heads: dict[int, str] | None = None) -> tuple[str, ...]:
    return verify(str(folder), CHAIN, heads or {}).problems


def filled(folder: Path, count: int = 5) -> Path:
    """A chain in one file; its path."""
    written = trail(folder)
    for number in range(count):
        written.record("ada (uid 1000)", "publish", {"jid": str(number)})
    written.close()
    ((_, path),) = segments(str(folder), CHAIN)
    return Path(path)


def test_entries_have_their_number_time_user_and_details(tmp_path: Path) -> None:
    path = filled(tmp_path)
    first = entries(tmp_path)[0]
    digest = first.pop("hash")
    assert first == {"n": 1, "at": 1001.0, "who": "ada (uid 1000)", "did": "publish", "jid": "0"}
    assert len(digest) == 64
    assert verify(str(tmp_path), CHAIN, {}) == audit.Verified(CHAIN, 1, 5, ())
    assert path.stat().st_mode & 0o777 == 0o600
    assert chains(str(tmp_path)) == [CHAIN]


def test_the_next_process_continues_the_chain(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with path.open("a") as file:
        file.write('{"n":6,"at"')  # the process was killed while it wrote
    again = trail(tmp_path)
    again.record("ada", "login", {})
    assert [entry["n"] for entry in entries(tmp_path)] == [1, 2, 3, 4, 5, 6]
    assert problems(tmp_path) == ()


def altered(lines: list[str]) -> list[str]:
    return [*lines[:2], lines[2].replace("ada", "eve"), *lines[3:]]


def altered_with_its_hash(lines: list[str]) -> list[str]:
    entry = {**json.loads(lines[2]), "who": "eve"}
    before = json.loads(lines[1])["hash"]
    entry["hash"] = audit.entry_hash(before, {name: entry[name] for name in entry if name != "hash"})
    return [*lines[:2], json.dumps(entry, separators=(",", ":")), *lines[3:]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (altered, ":3: this entry, or the one before it, was altered"),
        (altered_with_its_hash, ":4: this entry, or the one before it, was altered"),
        (lambda lines: [*lines[:2], *lines[3:]], ":3: entry 3 is missing"),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], ":3: entry 3 is missing"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], ":1: entry 1 is missing"),
        (lambda lines: lines[1:], ":1: entry 1 is missing"),
        (lambda lines: [*lines, "no entry"], ":6: this is no entry of an audit log"),
        (lambda lines: lines[:3], "the store knows entry 5; the files end with 3"),
        (lambda _lines: [], "the store knows entry 5; the files end with 0"),
    ],
)
def test_a_change_shows(tmp_path: Path, change: Callable[[list[str]], list[str]], words: str) -> None:
    path = filled(tmp_path)
    heads = {5: entries(tmp_path)[4]["hash"]}
    assert problems(tmp_path, heads) == ()
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    assert any(words in problem for problem in problems(tmp_path, heads))


def test_a_chain_that_was_made_anew_is_not_that_of_the_store(tmp_path: Path) -> None:
    path = filled(tmp_path)
    head = {3: entries(tmp_path)[2]["hash"]}
    path.unlink()
    forged = trail(tmp_path)
    for _ in range(5):
        forged.record("eve", "publish", {})
    assert problems(tmp_path) == ()
    assert any("the store knows entry 3 with another content" in one for one in problems(tmp_path, head))


def test_the_files_stay_within_their_room_and_the_rest_can_be_verified(tmp_path: Path) -> None:
    written = trail(tmp_path)
    for number in range(3000):
        written.record("ada", "publish", {"jid": str(number), "calls": "x" * 200})
    found = segments(str(tmp_path), CHAIN)
    assert len(found) == audit.SEGMENTS
    assert sum(os.path.getsize(path) for _, path in found) <= ROOM * 1.05
    assert found[0][0] > 1
    removed = [entry for entry in entries(tmp_path) if entry["did"] == audit.REMOVED]
    assert removed[-1]["last"] == found[0][0] - 1
    assert problems(tmp_path) == ()
    # An old file that no entry says was removed.
    os.unlink(found[0][1])
    assert any(f"entries before {found[1][0]} are missing" in one for one in problems(tmp_path))


def test_the_first_entry_that_is_left_is_verified_too(tmp_path: Path) -> None:
    written = trail(tmp_path)
    for number in range(3000):
        written.record("ada", "publish", {"jid": str(number), "calls": "x" * 200})
    path = Path(segments(str(tmp_path), CHAIN)[0][1])
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first.replace('"who":"', '"who":"eve '), *rest, ""]))
    assert any(":1: this entry was altered" in one for one in problems(tmp_path))


def test_a_file_that_is_missing_in_the_middle_shows(tmp_path: Path) -> None:
    written = trail(tmp_path)
    for _ in range(1500):
        written.record("ada", "publish", {"calls": "x" * 200})
    os.unlink(segments(str(tmp_path), CHAIN)[2][1])
    assert any("is missing" in one for one in problems(tmp_path))


def test_a_long_entry_is_shortened(tmp_path: Path) -> None:
    written = trail(tmp_path)
    written.record("ada", "publish", {"jid": "1", "calls": "x" * audit.ENTRY_MAX})
    (entry,) = entries(tmp_path)
    assert (entry["jid"], entry["shortened"], "calls" in entry) == ("1", True, False)
    assert problems(tmp_path) == ()


def test_the_same_refusal_again_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    written = AuditTrail(str(tmp_path), CHAIN, ROOM, clock.wall)
    for number in range(20):
        written.refused("eve", "publish", f"not allowed {number}", {"fun": f"cmd.run{number}"})
    written.refused("eve", "login", "wrong password", {})
    written.refused("ada", "publish", "not allowed", {})
    clock.now += audit.REPEAT_S
    written.refused("eve", "publish", "not allowed at last", {"fun": "cmd.run"})
    assert [(entry["refused"], entry.get("again")) for entry in entries(tmp_path)] == [
        ("not allowed 0", None), ("wrong password", None), ("not allowed", None), ("not allowed at last", 19),
    ]  # fmt: skip


def test_a_head_is_told_once(tmp_path: Path) -> None:
    written = trail(tmp_path)
    assert written.new_head() is None
    written.record("ada", "login", {})
    head = written.new_head()
    assert head == audit.AuditHead(CHAIN, 1, entries(tmp_path)[0]["hash"])
    assert written.new_head() is None


def test_a_full_disk_costs_the_entry_and_not_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = trail(tmp_path)
    written.record("ada", "login", {})
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:10]))
    written.record("ada", "publish", {})
    monkeypatch.setattr(os, "write", real)
    written.record("ada", "logout", {})
    assert [entry["did"] for entry in entries(tmp_path)] == ["login", "logout"]
    assert problems(tmp_path) == ()
    assert "the audit log cannot be written" in caplog.text


def test_no_entry_is_lost_while_the_next_file_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SEGMENT_MIN", 1)
    written, real = trail(tmp_path, room=audit.SEGMENTS * 400), os.open

    def full(path: str, *how: Any) -> int:
        raise OSError(28, f"No space left on device: {path}")

    monkeypatch.setattr(os, "open", full)
    for number in range(8):
        written.record("ada", "publish", {"jid": str(number)})
    assert len(segments(str(tmp_path), CHAIN)) == 1
    monkeypatch.setattr(os, "open", real)
    written.record("ada", "publish", {"jid": "8"})
    written.record("ada", "publish", {"jid": "9"})
    assert [entry["jid"] for entry in entries(tmp_path)] == [str(number) for number in range(10)]
    assert len(segments(str(tmp_path), CHAIN)) > 1
    assert problems(tmp_path) == ()


def test_audited_requests_and_their_fields_exist() -> None:
    for name, fields in AUDITED.items():
        assert set(fields) <= {*VERBS[name].needs, *VERBS[name].takes}, name


def test_without_room_nothing_is_written(tmp_path: Path) -> None:
    trail(tmp_path, room=0).record("ada", "publish", {})
    assert os.listdir(tmp_path) == []
