"""The runner `match`, with the answers of a master that a test plays."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import run
from tests.integration.fakemaster import FakeMaster, Step


def answers(request: dict[str, Any]) -> Iterable[Step]:
    match request["verb"]:
        case "runner_event":
            return [{"ok": True}]
        case "match":
            selected = request["tgt"] == "web*" and request["tgt_type"] == "compound" and request["explain"] == "web1"
            return [{"ok": True, "explanation": {"selected": selected}}]
    return [{"ok": False, "exit": 2, "error": "there is no such thing"}]


@pytest.fixture
def ran(tmp_path: Path) -> Iterator[Any]:
    """Runs a runner: its exit code, what it returns, and the verbs that the master was asked."""
    before = logging.getLogger().handlers[:], logging.getLogger().level

    def runner(*words: str) -> tuple[int, Any, list[str]]:
        out = io.StringIO()
        with FakeMaster(tmp_path, answers) as master:
            code = run(["runner", "-c", master.config_dir, *words, "--out", "json"], Console(None, out, None))
            verbs = [request["verb"] for request in master.requests if request["verb"] != "runner_event"]
        (tmp_path / "master.ipc").unlink(missing_ok=True)
        return code, json.loads(out.getvalue()), verbs

    yield runner
    logging.getLogger().handlers[:], level = before
    logging.getLogger().setLevel(level)


def test_a_compound_target_is_asked_about_one_minion(ran: Any) -> None:
    assert ran("match.compound_matches", "web*", "web1")[:2] == (0, {"res": "web1"})
    assert ran("match.compound_matches", "web*", "db1")[:2] == (0, {"res": False})
