"""`saltlite audit` on the files of a master that does not run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from saltlite.cli.main import main
from saltlite.cli.verbs import audit as verb
from saltlite.master.processes.audit import AuditTrail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the configuration; two MWorkers have written entries in turns."""
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    audit = tmp_path / "var/lib/saltlite/master/audit"
    audit.mkdir(parents=True)
    times = iter(range(1, 100))
    first, second = (AuditTrail(str(audit), f"m.MWorker-{n}", 2**20, lambda: float(next(times))) for n in (0, 1))
    first.record("ada (uid 1000)", "publish", {"jid": "1", "calls": [["test.ping", [], {}]]})
    second.record("pam:eve", "login", {})
    first.refused("pam:eve", "publish", "eve may not run cmd.run", {"fun": "cmd.run"})
    second.record("ada (uid 1000)", "key_change", {"action": "revoke"})
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> list[str]:
    assert main(["audit", "list", "-c", str(folder), "--out", "json", *words]) == 0
    return [entry["did"] for entry in json.loads(capsys.readouterr().out)["entries"]]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), ["publish", "login", "publish", "key_change"]),
        (("--who", "ada*"), ["publish", "key_change"]),
        (("--did", "key_*"), ["key_change"]),
        (("--refused",), ["publish"]),
        (("--limit", "2"), ["publish", "key_change"]),
        (("--since", "1h"), []),
    ],
)
def test_entries_of_all_processes_are_listed_by_time(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], found: list[str]
) -> None:
    assert listed(capsys, folder, *words) == found


def test_a_line_says_who_did_what_and_why_it_was_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "list", "-c", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith('  ada (uid 1000)  publish  {"calls": [["test.ping", [], {}]], "jid": "1"}')
    assert lines[2].endswith('  pam:eve  publish  {"fun": "cmd.run"}  refused: eve may not run cmd.run')


def test_verify_says_what_is_wrong_with_its_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "verify", "-c", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.out == "m.MWorker-0: entries 1 to 2\nm.MWorker-1: entries 1 to 2\nno problem\n"
    assert "not compared with the store" in said.err
    path = folder / "var/lib/saltlite/master/audit/m.MWorker-0.000000000001.log"
    path.write_text(path.read_text().replace("ada", "eve"))
    assert main(["audit", "verify", "-c", str(folder)]) == 4
    assert "was altered" in capsys.readouterr().out


def test_a_chain_that_only_the_store_knows_was_removed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = {"m.MWorker-0": {2: "x"}, "m.MWorker-7": {9: "y"}, "other.MWorker-0": {9: "z"}}
    monkeypatch.setattr(verb, "_heads", lambda _parsed: heads)
    assert main(["audit", "verify", "-c", str(folder)]) == 4
    text = capsys.readouterr().out
    assert "the store knows entry 2 with another content" in text
    assert "m.MWorker-7: the store knows entry 9; the files end with 0" in text
    assert "other.MWorker" not in text
    for name in os.listdir(folder / "var/lib/saltlite/master/audit"):
        os.unlink(folder / "var/lib/saltlite/master/audit" / name)
    assert main(["audit", "verify", "-c", str(folder)]) == 4


def test_without_a_log_there_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    assert main(["audit", "list", "-c", str(tmp_path)]) == 2
    assert "there is no audit log" in capsys.readouterr().err
