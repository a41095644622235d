"""What the job, event and status commands print, letter by letter."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import run
from tests.integration.fakemaster import JID, FakeMaster, Step, end, published, returned

Golden = Callable[[str, str], None]

NOW = 1_767_230_000.0
OTHER = "20260101010000000000"
THIRD = "20260101020000000000"
SECRET = "20260101030000000000"

LINES: dict[str, list[str]] = {
    "job-list": ["job", "list"],
    "job-list-json": ["job", "list", "--out", "json"],
    "job-list-jsonl": ["job", "list", "--out", "jsonl"],
    "job-list-quiet": ["job", "list", "-q"],
    "job-list-none": ["job", "list", "--user", "nobody"],
    "job-list-bad-time": ["job", "list", "--since", "noon"],
    "job-list-bad-count": ["job", "list", "-n", "0"],
    "job-list-bad-state": ["job", "list", "--state", "faild"],
    "job-list-word": ["job", "list", "web1"],
    "job-show": ["job", "show", JID],
    "job-show-json": ["job", "show", JID, "--out", "json"],
    "job-show-returns": ["job", "show", JID, "--returns"],
    "job-show-returns-json": ["job", "show", JID, "--returns", "--out", "json"],
    "job-show-resources": ["job", "show", THIRD],
    "job-show-nothing": ["job", "show"],
    "job-kill": ["job", "kill", JID],
    "job-kill-json": ["job", "kill", JID, "--out", "json"],
    "job-kill-resources": ["job", "kill", THIRD],
    "job-kill-over": ["job", "kill", OTHER],
    "job-rerun-resources-none": ["job", "rerun", THIRD, "--failed"],
    "job-rerun-none": ["job", "rerun", JID, "--missing"],
    "job-rerun-hidden": ["job", "rerun", SECRET],
    "job-show-hidden": ["job", "show", SECRET],
    "job-rerun-async": ["job", "rerun", JID, "--failed", "--async"],
    "events": ["events", "--count", "2"],
    "events-json": ["events", "salt/*", "--since", "3", "--count", "2", "--out", "json"],
    "events-jsonl": ["events", "--since", "1h", "--count", "2", "--out", "jsonl"],
    "events-data": ["events", "--since", "3", "--count", "1", "--data", "new.0=web*", "--out", "jsonl"],
    "events-bad-data": ["events", "--data", "retcode"],
    "events-gone": ["events", "--since", "1", "--count", "0"],
    "events-bad-cursor": ["events", "--since", "soon"],
    "events-two-patterns": ["events", "a/x", "b/x"],
    "status": ["status"],
    "status-json": ["status", "--out", "json"],
    "status-word": ["status", "web1"],
}

ROW = {
    "jid": JID,
    "fun": "cmd.run,test.ping",
    "tgt": "web*",
    "tgt_type": "glob",
    "user": "alice",
    "origin": "ssh 10.0.0.7, pts/3",
    "created_at": NOW - 240,
    "deliver_ms": 60_000,
    "run_ms": 30_000,
    "cancelled_at": None,
    "cancelled_by": "",
    "counts": {"returned": 2, "running": 1},
    "outcomes": {"ok": 1, "failed": 1, "open": 1},
}
LONG = {
    **ROW,
    "jid": OTHER,
    "fun": "pkg.install",
    "tgt": ",".join(f"database{n}" for n in range(20)),
    "tgt_type": "list",
    "user": "bob\x1b[31m",
    "cancelled_at": NOW - 7,
    "cancelled_by": "alice",
    "counts": {"cancelled": 20},
    "outcomes": {"missing": 20},
}


def target(name: str, state: str, outcome: str, **changes: Any) -> dict[str, Any]:
    row = {"id": name, "state": state, "outcome": outcome, "reason": "", "at": NOW - 239}
    return {**row, "retcode": None, "started_at": None, "duration_ms": None, **changes}


SHOWN = {
    **ROW,
    "module_executors": ["splay", "direct_call"],
    "executor_opts": {"splaytime": 30},
    "calls": [["cmd.run", ["ls -l /x", 5, True], {"cwd": "/tmp"}], ["test.ping", [], {}]],
    "targets": [
        target("web1", "returned", "ok", retcode=0, started_at=NOW - 240, duration_ms=1234),
        target("web10", "returned", "failed", retcode=2, started_at=NOW - 240, duration_ms=20, reason="no \x1b]0;x"),
        target("web2", "running", "open"),
    ],
}
HIDING = {
    **SHOWN,
    "jid": SECRET,
    "fun": "shadow.set_password",
    "calls": [["shadow.set_password", ["fred", "***"], {}]],
    "hides": True,
}
RESOURCES = {
    **ROW,
    "module_executors": [],
    "executor_opts": {},
    "jid": THIRD,
    "tgt": "ma or T@dummy",
    "tgt_type": "compound",
    "calls": [["test.ping", [], {}]],
    "outcomes": {"ok": 2, "missing": 1, "open": 2},
    "targets": [
        target("dummy:d1", "returned", "ok", retcode=0, minion="mb"),
        target("dummy:shared", "expired", "missing", minion="ma"),
        target("ma", "returned", "ok", retcode=0),
        target("ssh:d2", "running", "open", minion="ma"),
        target("ssh:shared", "running", "open", minion="ma"),
    ],
}
EVENTS = [
    {"seq": 4, "tag": f"salt/job/{JID}/new", "data": {"fun": "test.ping", "targets": 2}, "at": NOW - 60},
    {"seq": 7, "tag": "salt/presence/change", "data": {"new": ["web1"], "lost": []}, "at": NOW - 50},
]
MINION = {
    "id": "web1",
    "state": "up",
    "reason": "",
    "last_seen": NOW - 90_000,
    "address": "10.0.0.1",
    "version": "0.1.0",
    "resources": 0,
}
STATUS = {
    "master": {"name": "salt", "version": "0.1.0", "started_at": NOW - 7200, "mworkers": 4},
    "store": {
        "size": 5_000_000,
        "limit": 10_737_418_240,
        "seq": 4711,
        "file": 9_000_000,
        "log": 4_200_000,
        "free": 4_000_000,
        "left": 80_000_000_000,
    },
    "minions": [
        {**MINION, "resources": 24},
        {**MINION, "id": "web2", "state": "away", "reason": "no heartbeat for 52 s", "last_seen": NOW - 61},
        {
            **MINION,
            "id": "web3",
            "state": "never",
            "reason": "never connected",
            "last_seen": None,
            "address": "",
            "version": "",
        },
        {**MINION, "id": "new1", "state": "pending", "reason": "its key is pending", "version": ""},
    ],
    "counts": {"up": 1, "away": 1, "never": 1, "pending": 1},
    "conflicts": 2,
    "resources": {
        "count": 24,
        "minions": 1,
        "refused": 1,
        "incomplete": True,
        "missing": {"gate1": {"dummy": 12}},
        "types": {
            "dummy": {
                "count": 24,
                "minions": 1,
                "problems": ["gate1: nothing was found: pillar resources:dummy, which is empty"],
            }
        },
    },
    "queues": {"targets": {"queued": 2, "running": 1}, "minions_away_with_jobs": 1},
    "readers": {"returner http": {"behind": 412, "lag_s": 310.0}, "hooks": {"behind": 0, "lag_s": 0.0}},
    "unable": {"web1": ["slow"], "web2": ["slow"], "db1": ["slow", "gone"]},
    "link": {
        "sessions": 2,
        "ready": 1,
        "pending": 1,
        "deliveries": 0,
        "handshakes": 12,
        "handshakes_begun": 14,
        "handshakes_postponed": 3,
        "refused": {"bad-mac": 3, "oversize": 1},
        "mworkers": 4,
        "uncommitted": 5,
        "lag_s": 0.25,
        "skipped": 3,
    },
}
NO_RISK = {
    "count": 1,
    "resources": 0,
    "away": 0,
    "functions": {"cmd.run": {"signatures": [], "risks": [], "missing": 0}},
}


def master(request: dict[str, Any]) -> Iterable[Step]:
    match request["verb"]:
        case "job_list":
            jobs = [] if "user" in request else [ROW, LONG]
            yield {"ok": True, "jobs": jobs, "more": bool(jobs)}
        case "job_show":
            yield {"ok": True, "job": {THIRD: RESOURCES, SECRET: HIDING}.get(request["jid"], SHOWN)}
        case "follow":
            yield published("web1", "web10", "web2")
            yield returned(1, "web10", "no such file", retcode=2)
            yield returned(2, "web1", {"cmd.run": "x\ny", "test.ping": True})
            yield end(2)
        case "job_kill":
            killed = {JID: (["web1"], ["web2"]), THIRD: (["ssh:d2"], ["ssh:shared"]), OTHER: ([], [])}
            ids, away = killed[request["jid"]]
            yield {"ok": True, "ids": ids, "away": away, "cancelled": []}
        case "describe":
            yield {"ok": True, **NO_RISK}
        case "publish":
            yield published("web10", jid=OTHER)
        case "events":
            after = request.get("after", 3)
            yield {"ok": True, "seq": after, "first": 3}
            yield {"seq": 4, "events": EVENTS[:1]}
            yield {"seq": 7, "events": EVENTS[1:]}
        case "status":
            yield {"ok": True, **STATUS}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", LINES)
def test_command(name: str, golden: Golden, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(sys.stdin, sys.stdout, sys.stderr, now=lambda: NOW)
    with FakeMaster(tmp_path, master) as fake:
        code = run(["-c", fake.config_dir, *LINES[name]], console)
    out, err = capsys.readouterr()
    golden(f"command-{name}", f"exit code {code}\n--- stdout\n{out}--- stderr\n{err}")
