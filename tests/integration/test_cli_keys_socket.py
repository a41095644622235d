"""The verbs `saltlite key ...` and `saltlite job kill` against a scripted master on a real Unix socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli import exitcodes
from saltlite.cli.main import main, main_key
from tests.integration.fakemaster import JID, FakeMaster, Step, fixed

ROOT = Path(__file__).resolve().parents[2]
FP = [f"{letter * 5}" + "-AAAAA" * 7 for letter in "ABCDE"]


def key(number: int, minion: str, state: str) -> dict[str, Any]:
    return {
        "id": minion,
        "fingerprint": FP[number],
        "state": state,
        "address": "10.0.0.1",
        "first_seen": 0.0,
        "changed_at": 0.0,
        "how": "",
    }


KEYS = [
    key(0, "db1", "accepted"),
    key(1, "web1", "pending"),
    key(2, "web2", "pending"),
    key(3, "web3", "rejected"),
    key(4, "web4", "conflict"),
]


def key_master(request: dict[str, Any]) -> Iterable[Step]:
    if request["verb"] == "key_list":
        yield {"ok": True, "keys": KEYS}
    elif request["verb"] == "key_change":
        rows = [row for row in KEYS if row["fingerprint"] in request["fingerprints"]]
        changed = [{"id": row["id"], "fingerprint": row["fingerprint"], "state": "accepted"} for row in rows]
        yield {"ok": True, "changed": changed, "refused": []}


@pytest.mark.parametrize(
    ("line", "action", "numbers"),
    [
        (["accept", "web*"], "accept", [1, 2]),
        (["accept", "web3"], "accept", [3]),
        (["accept", "web1", "web4"], "accept", [1, 4]),
        (["accept", "web1", "--fingerprint", FP[1].lower()], "accept", [1]),
        (["reject", "*"], "reject", [1, 2, 4]),
        (["revoke", "db1"], "revoke", [0]),
        (["delete", "*"], "delete", [0, 1, 2, 3, 4]),
    ],
)
def test_a_key_verb_changes_exactly_the_fingerprints_that_match(
    tmp_path: Path, line: list[str], action: str, numbers: list[int]
) -> None:
    with FakeMaster(tmp_path, key_master) as master:
        assert main_key(["-c", master.config_dir, *line, "-y"]) == 0
    asked = [request for request in master.requests if request["verb"] == "key_change"]
    assert [(request["action"], request["fingerprints"]) for request in asked] == [(action, [FP[n] for n in numbers])]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (["accept", "zz"], 3, "'zz' matches no key to accept;"),
        (["accept", "db1"], 3, "'db1' matches no key to accept (accepted)"),
        (["revoke", "web*"], 3, "(conflict, pending, rejected)"),
        (["accept", "web1", "zz"], 3, "'zz'"),
        (["accept", "web1", "--fingerprint", FP[2]], 6, "find out why first"),
        (["accept", "web1", "--fingerprint", "AB"], 2, "not a fingerprint"),
    ],
)
def test_keys_that_are_not_what_was_meant_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: list[str], code: int, said: str
) -> None:
    with FakeMaster(tmp_path, key_master) as master:
        assert main_key(["-c", master.config_dir, *line, "-y"]) == code
    assert said in capsys.readouterr().err
    assert [request["verb"] for request in master.requests if request["verb"] != "key_list"] == []


def test_two_keys_of_one_id_are_never_accepted_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = fixed({"ok": True, "keys": [key(0, "web1", "pending"), key(1, "web1", "conflict")]})
    with FakeMaster(tmp_path, script) as master:
        assert main_key(["-c", master.config_dir, "accept", "web1", "-y"]) == exitcodes.USAGE
    assert "choose one with --fingerprint" in capsys.readouterr().err
    assert [request["verb"] for request in master.requests] == ["key_list"]


def test_without_a_terminal_a_change_needs_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeMaster(tmp_path, key_master) as master:
        assert main_key(["-c", master.config_dir, "accept", "web*"]) == exitcodes.USAGE
    assert "would accept 2 keys, and there is no terminal to ask at" in capsys.readouterr().err
    assert [request["verb"] for request in master.requests] == ["key_list"]


@pytest.mark.parametrize(("answer", "code", "verbs"), [("y", 0, 2), ("n", 130, 1), ("", 130, 1)])
def test_on_a_terminal_the_keys_are_shown_and_asked_about(tmp_path: Path, answer: str, code: int, verbs: int) -> None:
    ours, theirs = os.openpty()
    with FakeMaster(tmp_path, key_master) as master:
        process = subprocess.Popen(
            [sys.executable, "-m", "saltlite", "-c", master.config_dir, "key", "accept", "web1"],
            stdin=theirs,
            stderr=theirs,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
        )
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        assert process.wait(60) == code
    os.close(ours)
    assert FP[1].encode() in shown
    assert b"accept 1 key?" in shown
    assert len(master.requests) == verbs


def test_a_key_that_the_master_refuses_to_change_is_told_and_makes_exit_code_six(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(request: dict[str, Any]) -> Iterable[Step]:
        if request["verb"] == "key_list":
            yield {"ok": True, "keys": KEYS}
        refused = [{"id": "web4", "fingerprint": FP[4], "reason": "db1 holds this id"}]
        yield {"ok": True, "changed": [], "refused": refused}

    with FakeMaster(tmp_path, script) as master:
        assert main_key(["-c", master.config_dir, "accept", "web4", "-y", "--out", "json"]) == exitcodes.REFUSED
    out, err = capsys.readouterr()
    assert (json.loads(out)["refused"][0]["id"], err) == ("web4", "web4: db1 holds this id\n")


@pytest.mark.parametrize(("states", "ids"), [([], 5), (["pending"], 2), (["revoked"], 0), (["pending", "conflict"], 3)])
def test_key_list_shows_the_states_that_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], states: list[str], ids: int
) -> None:
    with FakeMaster(tmp_path, key_master) as master:
        assert main_key(["-c", master.config_dir, "list", *states, "--out", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["keys"]) == ids


def test_a_preaccept_sends_the_fingerprint_as_it_is_spelt(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, fixed({"ok": True})) as master:
        spelt = FP[0].replace("-", "").lower()
        assert main_key(["-c", master.config_dir, "preaccept", "web9", spelt]) == 0
    assert master.requests == [{"v": 1, "verb": "key_preaccept", "id": "web9", "fingerprint": FP[0]}]


def test_a_token_is_the_only_thing_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, fixed({"ok": True, "token": "slj1.X"})) as master:
        line = ["token", "create", "--uses", "3", "--expires", "2h", "--id", "web*"]
        assert main_key(["-c", master.config_dir, *line]) == 0
    assert capsys.readouterr().out == "slj1.X\n"
    wanted = {"v": 1, "verb": "token_create", "uses": 3, "expires_s": 7200.0, "id_glob": "web*"}
    assert master.requests == [wanted]


@pytest.mark.parametrize("uses", ["0", "-1", "x", "1000001", "9" * 5000])
def test_a_token_for_no_sensible_number_of_minions_is_refused(tmp_path: Path, uses: str) -> None:
    assert main_key(["-c", str(tmp_path), "token", "create", "--uses", uses]) == exitcodes.USAGE


def test_job_kill_says_of_each_minion_what_it_means_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, fixed({"ok": True, "ids": ["b"], "away": ["a"], "cancelled": ["c"]})) as master:
        assert main(["-c", master.config_dir, "job", "kill", JID]) == 0
    told = [
        "a: not connected; the kill reaches it when it is back",
        "b: asked to kill it",
        "c: never received it, and will not",
    ]
    assert capsys.readouterr().out.splitlines() == told
    assert master.requests == [{"v": 1, "verb": "job_kill", "jid": JID}]


def test_a_job_that_has_ended_everywhere_cannot_be_killed(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, fixed({"ok": True, "ids": [], "away": [], "cancelled": []})) as master:
        assert main(["-c", master.config_dir, "job", "kill", JID]) == exitcodes.NOTHING_MATCHED
