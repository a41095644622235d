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
from saltlite.errors import SaltInvocationError
from saltlite.plugins.runners import match
from tests.integration.fakemaster import FakeMaster, Step

SELECTING = ("web*", "G@a:* or G@id:/", "not G@id:/", "I@b:c")
"""Targets that select web1."""


def answers(request: dict[str, Any]) -> Iterable[Step]:
    match request["verb"]:
        case "runner_event":
            return [{"ok": True}]
        case "match":
            assert request["tgt_type"] == "compound"
            return [{"ok": True, "minions": ["web1"] if request["tgt"] in SELECTING else []}]
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


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("G@a:* or I@b:c*", "web1"),
        ("G@a:* or J@b:.*", "web1"),
        ("J@b:c", "web1"),
        ("not I|@b|[c]", "web1"),
        ("I@b:c*", False),
    ],
)
def test_a_pillar_is_compared_with_whole_values_only(ran: Any, expression: str, result: Any) -> None:
    assert ran("match.compound_matches", expression, "web1")[1] == {"res": result}


@pytest.mark.parametrize("minion", ["../../etc/shadow", "my/minion", "nosuch"])
def test_what_is_no_minion_is_not_selected(ran: Any, minion: str) -> None:
    assert ran("match.compound_matches", "web*", minion)[:2] == (0, {"res": False})


@pytest.mark.parametrize(
    ("word", "exact"),
    [
        ("N@plain", "N@plain"),
        ("N@nosuch", "N@nosuch"),
        ("N@loop", "N@loop"),
        ("N@wide", "( G@id:/ or web1 )"),
        ("N@whole", "( I@b:c )"),
        ("N@inside", "( db* and ( G@id:/ or web1 ) )"),
    ],
)
def test_a_nodegroup_compares_whole_values_too(monkeypatch: pytest.MonkeyPatch, word: str, exact: str) -> None:
    groups: dict[str, Any] = {
        "plain": ["web1", "web2"], "loop": "N@loop", "wide": "I@b:c* or web1", "whole": ["J@b:c"],
        "inside": "db* and N@wide", "spaces": ["I@b:c d"],
    }  # fmt: skip
    monkeypatch.setattr(match, "__opts__", {"nodegroups": groups}, raising=False)
    assert match._exact(word) == exact
    with pytest.raises(SaltInvocationError, match="spaces has a word with spaces"):
        match._exact("N@spaces")
