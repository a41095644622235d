"""What `saltlite` prints, letter by letter: help texts, outputters, the sentences on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli import commands
from saltlite.cli.console import Console
from saltlite.cli.main import main, main_key, run
from saltlite.cli.output import SHIPPED, OutputStyle, Outputters, render
from tests.integration.fakemaster import FakeMaster, Step, end, fixed, published, returned, state

Golden = Callable[[str, str], None]

RETURNS: dict[str, Any] = {
    "db1": {
        "pkgs": {"nginx": "1.26", "zlib": ["1.3", "1.3.1"]},
        "empty": {},
        "none": None,
        "list": [{"a": 1}, [2, [3]]],
    },
    "web1": True,
    "web2": "two\n  lines, one with \x1b[31mred\x1b[0m\tand a tab",
    "web3": ["a", 1, 2.5, None, "x\ny", b"\x00\xff"],
    "web4": "caf\u00e9 \u65e5\u672c",
    "web5": {},
    "web6": "",
}

GROUPS = ["", "config", "key", "key token", "job"]
DOCUMENTED = [name for name in commands.COMMANDS if name != "demo"]  # the demo has its own help


@pytest.mark.parametrize("words", [*GROUPS, *DOCUMENTED])
def test_help(words: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    golden("-".join(["help", *words.split()]), text)


def test_help_of_saltlite_key(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_key(["--help"]) == 0
    golden("help-saltlite-key", capsys.readouterr().out)


@pytest.mark.parametrize("out", SHIPPED)
def test_outputter(out: str, golden: Golden) -> None:
    golden(f"out-{out}", render(out, RETURNS))


def test_colors(golden: Golden) -> None:
    outputters, colors = Outputters(dict), OutputStyle(color=True)
    text = outputters.render("nested", {"db1": RETURNS["db1"]}, colors, retcode=1)
    text += outputters.render("nested", {"web1": RETURNS["web1"]}, colors)
    golden("out-nested-colors", text.replace("\x1b", "<ESC>"))


ANSWERS: dict[str, list[Step]] = {
    "refused": [{"ok": False, "exit": 6, "error": "user bob may not run cmd.run on web1"}],
    "nothing-matched": [{"ok": False, "exit": 3, "error": "no accepted minion matches 'zz*'"}],
    "silent": [published("a", "b", away={"b": None}, deliver_ms=0), threading.Event()],
    "ended-badly": [
        published("a", "b", "c", "d", "e", "f", "g"),
        state(1, "a", "refused", "the signature of the job is wrong"),
        state(2, "b", "timed_out", "30s"),
        state(3, "c", "interrupted", "signal 9"),
        state(4, "d", "cancelled"),
        state(5, "e", "expired"),
        state(6, "f", "lost"),
        returned(7, "g", "ERROR: no", retcode=1),
        end(7),
    ],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_job(name: str, golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, fixed(*ANSWERS[name])) as master:
        code = main(["-c", master.config_dir, "*", "cmd.run", "x", "-t", "1", "--out", "txt"])
    out, err = capsys.readouterr()
    golden(f"job-{name}", f"exit code {code}\n--- stdout\n{out}--- stderr\n{err}")


LINES: dict[str, list[str]] = {
    "no-function": ["*"],
    "no-option": ["*", "--tiemout", "5", "test.ping"],
    "no-command": ["key", "acept", "web1"],
    "no-format": ["*", "test.ping", "--out", "jsn"],
    "bad-time": ["*", "test.ping", "-t", "soon"],
    "no-terminal": ["key", "accept", "web1"],
    "no-key": ["key", "accept", "zz"],
    "bad-jid": ["job", "kill", "1"],
    "key-list": ["key", "list"],
    "key-list-json": ["key", "list", "pending", "--out", "json"],
    "key-finger": ["key", "finger"],
    "key-finger-minion": ["key", "finger", "web*"],
    "key-accept": ["key", "accept", "web1", "-y"],
}

NOW = 1_000_000.0
FP = "ABCDE" + "-AAAAA" * 7


MATCHES: dict[str, list[str]] = {
    "match": ["-C", "* and not web9"],
    "match-json": ["*", "--out", "json"],
    "match-none": ["-G", "os:Debain"],
    "match-list": ["-L", "ma,zz"],
    "match-explain": ["-C", "N@all and T@dummy:d*", "--explain", "d01"],
    "match-explain-not": ["web*", "--explain", "ma"],
    "match-explain-json": ["web*", "--explain", "ma", "--out", "json"],
    "match-two": ["web1", "web2"],
    "match-two-ways": ["-G", "-L", "os:Debian"],
}


def matched(request: dict[str, Any]) -> Iterable[Step]:
    """What a target selects: nothing for a grain, else two minions and resources of theirs."""
    resources = {"ma": ["dummy:d01", "dummy:d02", "ssh:x"], "mb": ["dummy:d03"]}
    fields: dict[str, Any] = {"minions": ["ma", "web1", "web2"], "resources": resources, "away": ["mb"], "unknown": []}
    if request["tgt_type"] == "grain":
        fields |= {"minions": [], "resources": {}, "away": []}
    if request["tgt_type"] == "list":
        fields |= {"minions": ["ma"], "resources": {}, "away": [], "unknown": ["zz"]}
    if "explain" in request:
        plain = {"number": 0, "column": 0, "group": ""}
        of_glob = [plain | {"word": "web*", "true": False, "why": "its id matches 'web*'"}]
        of_words = [
            {"word": "m*", "number": 1, "column": 1, "group": "all", "true": True, "why": "its minion matches 'm*'"},
            {"word": "T@dummy:d*", "number": 3, "column": 11, "group": "", "true": True, "why": "its type is 'dummy'"},
        ]
        compound = request["tgt_type"] == "compound"
        fields["explanation"] = {
            "id": "dummy:d01" if compound else "ma",
            "owner": "ma" if compound else None,
            "read_as": "m* and T@dummy:d*" if compound else "web*",
            "selected": compound,
            "verdict": "selected" if compound else "not selected: the target is false for it",
            "terms": of_words if compound else of_glob,
        }
    yield {"ok": True, **fields}


@pytest.mark.parametrize("name", MATCHES)
def test_match(name: str, golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeMaster(tmp_path, matched) as master:
        code = main(["-c", master.config_dir, "match", *MATCHES[name]])
    out, err = capsys.readouterr()
    golden(f"command-{name}", f"exit code {code}\n--- stdout\n{out}--- stderr\n{err}")


def keys(request: dict[str, Any]) -> Iterable[Step]:
    times = {"first_seen": NOW - 240, "changed_at": NOW - 7, "address": "10.0.0.7"}
    waiting = {"id": "web1", "fingerprint": FP, "state": "pending", "how": "first contact"}
    holder = {"id": "database12", "fingerprint": FP[::-1], "state": "accepted", "how": "token k3f9"}
    changed = {"id": "web1", "fingerprint": FP, "state": "accepted"}
    yield {
        "ok": True,
        "keys": [holder | times, waiting | times],
        "fleet": FP,
        "master": {"name": "salt", "fingerprint": FP[::-1], "not_after": 1_800_000_000},
        "changed": [changed],
        "refused": [],
    }


@pytest.mark.parametrize("name", LINES)
def test_command(name: str, golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(sys.stdin, sys.stdout, sys.stderr, now=lambda: NOW)
    with FakeMaster(tmp_path, keys) as master:
        code = run(["-c", master.config_dir, *LINES[name]], console)
    out, err = capsys.readouterr()
    golden(f"command-{name}", f"exit code {code}\n--- stdout\n{out}--- stderr\n{err}")
