"""Commands, runners and the API compare the times of a store that several masters share with its clock, not with this
machine's."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from saltlite.api.link import MasterLink
from saltlite.cli.console import Console
from saltlite.cli.main import run
from saltlite.client.local import LocalClient
from saltlite.client.runners import RunnerClient
from tests.integration.fakemaster import FakeMaster, Step, published

HERE = 1_700_000_000.0
"""What the clock of this machine shows, in the commands of a test."""
AHEAD_S = 7 * 86_400.0
THERE = HERE + AHEAD_S
KEY = {"id": "web1", "fingerprint": "F", "state": "accepted", "address": "", "changed_at": THERE, "how": "by root"}
JOB = {
    "jid": "20260131235959123456",
    "counts": {"returned": 1},
    "cancelled_at": None,
    "created_at": THERE - 120,
    "user": "root",
    "tgt": "*",
    "tgt_type": "glob",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "key_list": {"keys": [{**KEY, "first_seen": THERE - 120}]},
    "job_list": {"jobs": [{**JOB, "outcomes": {"ok": 1}, "fun": "test.ping"}], "more": False},
    "auth_token_list": {"tokens": [{"id": "t", "user": "a", "eauth": "file", "start": THERE - 120, "expire": THERE}]},
    "token_list": {
        "tokens": [{"id": "t", "id_glob": "*", "uses_left": 1, "expires_at": THERE + 120, "created_by": "root"}]
    },
}


class Masters(FakeMaster):
    """One of several masters, whose store has another time."""

    def __init__(self, folder: Path, **given: Any) -> None:
        def script(request: dict[str, Any]) -> Iterable[Step]:
            return [{"ok": True, "now": self.now, **given, **ANSWERS.get(request["verb"], {})}]

        super().__init__(folder, script)
        self.now = THERE


def typed(master: FakeMaster, *words: str) -> str:
    out = io.StringIO()
    code = run([*words, "-c", master.config_dir], Console(None, out, out, now=lambda: HERE))
    assert code == 0, out.getvalue()
    return out.getvalue()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["key", "list"], "2m ago"),
        (["job", "list"], " 2m "),
        (["auth", "token", "list"], "2m ago"),
        (["key", "token", "list"], " 2m "),
    ],
    ids=" ".join,
)
def test_a_command_says_how_long_ago_something_was_by_the_clock_of_the_store(
    words: list[str], shown: str, tmp_path: Path
) -> None:
    with Masters(tmp_path) as master:
        assert shown in typed(master, *words)
        assert "now" not in json.loads(typed(master, *words, "--out", "json"))


def test_what_a_command_shows_from_a_time_on_is_by_the_clock_of_the_store(tmp_path: Path) -> None:
    with Masters(tmp_path) as master:
        typed(master, "job", "list", "--since", "2h", "--until", "2026-01-31T10:00+00:00")
        assert master.requests[-1]["since"] == pytest.approx(THERE - 7200)
        assert master.requests[-1]["until"] == 1_769_853_600.0
        with LocalClient(master.socket_path) as client:
            assert RunnerClient(client).time() == pytest.approx(THERE, abs=60)
            assert client.another().clock() == pytest.approx(THERE, abs=60)
        master.now = None
        typed(master, "job", "list", "--since", "2h")
        assert master.requests[-1]["since"] == pytest.approx(HERE - 7200), "one master goes by the machine's"


def test_the_api_follows_the_clock_of_the_store(tmp_path: Path) -> None:
    async def asked(link: MasterLink) -> dict[str, Any]:
        answer = await link.call("token", "key_list")
        link.close()
        return answer

    with Masters(tmp_path) as master:
        link = MasterLink(master.socket_path, frozenset({os.geteuid()}))
        assert link.clock() == pytest.approx(time.time(), abs=60)
        assert "now" not in asyncio.run(asked(link))
        assert link.clock() == pytest.approx(THERE, abs=60)


def test_output_that_goes_into_a_file_has_the_same_clock(tmp_path: Path) -> None:
    answer = {**published("web1", away={"web1": THERE - 120}), "now": THERE}
    with FakeMaster(
        tmp_path, lambda _request: [answer, {"seq": 1, "states": [], "returns": [], "end": True}]
    ) as master:
        console = Console(None, io.StringIO(), err := io.StringIO(), now=lambda: HERE)
        run(["*", "test.ping", "-c", master.config_dir, "--out-file", str(tmp_path / "out")], console)
    assert "last seen 2m ago" in err.getvalue() + (tmp_path / "out").read_text()
