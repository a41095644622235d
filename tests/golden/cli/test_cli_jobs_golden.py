"""What a job prints, letter by letter: flags x targets x outputs, on a terminal and not, and the shape of the JSON."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import run
from saltlite.cli.output import STREAMS
from tests.integration.fakemaster import FakeMaster, Step, end, fixed, published, returned, state
from tests.support.terminal import Terminal

Golden = Callable[[str, str], None]

NOW = 1_000_000.0
FORMATS = ("nested", "json", "yaml", "txt", "raw", "quiet", *STREAMS)
OUTPUTS = ("default", "terminal", *FORMATS)

PACKAGES = {"nginx": "1.26", "raw": b"\xff", "list": [1, None, 2.5]}

TARGETS: dict[str, tuple[list[str], list[Step]]] = {
    "one": (["web1"], [published("web1"), returned(1, "web1", PACKAGES), end(1)]),
    "equal": (
        ["*"],
        [
            published(*(f"web{number:02}" for number in range(1, 12)), "db1"),
            *(returned(number, f"web{number:02}", True) for number in range(1, 10)),
            returned(10, "web10", "no\nreally", retcode=2),
            returned(11, "web11", "no\nreally", retcode=2),
            returned(12, "db1", PACKAGES),
            end(12),
        ],
    ),
    "mixed": (
        ["*"],
        [
            published(*"abcdefghij", away={"h": None, "i": NOW - 240}),
            state(1, "a", "refused", "the signature of the job is wrong"),
            state(2, "e", "running"),
            state(3, "j", "planned"),
            returned(4, "f", "yes"),
            returned(5, "g", "ERROR: no", retcode=1),
            state(6, "b", "timed_out", "killed: it reached its run time limit"),
            state(7, "e", "interrupted", "its process ended by signal 9"),
            {"seq": 8, "states": [{"id": "d", "state": "running", "reason": "", "at": NOW - 12}], "returns": []},
            end(8),
        ],
    ),
    "names": (
        ["-L", "web1,web2,web3"],
        [
            published("web1", unknown={"web2": "its key is pending: saltlite key accept web2", "web3": "no key"}),
            returned(1, "web1", True),
            end(1),
        ],
    ),
    "resources": (
        ["-C", "* and not web1"],
        [
            published(
                "ma",
                resources={
                    "ma": ["dummy:d1", "dummy:shared", *(f"dummy:x{number:02}" for number in range(11))],
                    "mb": ["ssh:shared", "ssh:s1"],
                    "mc": ["ssh:t1"],
                },
                away={"mb": NOW - 3},
                skipped=[
                    {"type": "probe", "fun": "cmd.run", "count": 8},
                    {"type": "api", "fun": "cmd.run", "count": 1},
                ],
            ),
            returned(1, "ma", True),
            returned(2, "dummy:d1", True),
            returned(3, "dummy:shared", "ERROR: no", retcode=1),
            state(4, "ssh:t1", "refused", "this minion does not manage it"),
            end(4),
        ],
    ),
    "away": (["web*"], [published("web1", "web2", away={"web1": NOW - 86400, "web2": None}), {"seq": 0}]),
}

FLAGS: dict[str, list[str]] = {
    "told": ["-v", "--show-jid", "--summary"],
    "quiet": ["-q"],
    "async": ["--async"],
    "no-color": ["--no-color"],
    "static": ["--static"],
}


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same clock and terminal everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def session(folder: Path, target: str, out: str, flags: list[str]) -> str:
    """What one command line says, with what depends on the machine's speed taken out."""
    words, script = TARGETS[target]
    stdout = Terminal() if out == "terminal" else io.StringIO()
    stderr = io.StringIO()
    asked = [] if out in ("default", "terminal") else ["--out", out]
    folder.mkdir()
    with FakeMaster(folder, fixed(*script)) as master:
        master.heard = {"c": 3.0}
        console = Console(None, stdout, stderr, now=lambda: NOW)
        code = run(["-c", master.config_dir, *words, "cmd.run", "x", *flags, *asked], console)
    said = re.sub(r"within [0-9.]+s", "within Ts", stderr.getvalue())
    said = re.sub(r"\([0-9.]+ s\)", "(T s)", said)
    shown = re.sub(r"within [0-9.]+s", "within Ts", stdout.getvalue()).replace("\x1b", "<ESC>")
    return f"===== {out}: exit code {code}\n--- stdout\n{shown}--- stderr\n{said}"


@pytest.mark.parametrize("target", TARGETS)
def test_targets(target: str, golden: Golden, tmp_path: Path) -> None:
    golden(f"target-{target}", "".join(session(tmp_path / out, target, out, []) for out in OUTPUTS))


@pytest.mark.parametrize("flag", FLAGS)
def test_flags(flag: str, golden: Golden, tmp_path: Path) -> None:
    golden(f"flag-{flag}", "".join(session(tmp_path / out, "mixed", out, FLAGS[flag]) for out in OUTPUTS))


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is as the schema says; of JSON Schema this knows what our file uses."""
    names = schema.get("type", [])
    kinds: dict[str, Any] = {
        "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
        "null": type(None),
    }  # fmt: skip
    if names and not any(isinstance(value, kinds[name]) for name in ([names] if isinstance(names, str) else names)):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if not isinstance(value, dict):
        return all(fits(item, schema.get("items", {})) for item in value) if isinstance(value, list) else True
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    if not set(schema.get("required", [])) <= set(value):
        return False
    return all(others is not False and fits(item, known.get(key, others)) for key, item in value.items())


@pytest.mark.parametrize("target", TARGETS)
def test_the_full_document_is_as_its_schema_says(target: str, tmp_path: Path) -> None:
    schema = json.loads((Path(__file__).parent / "json-full.schema.json").read_text(encoding="utf-8"))
    shown = session(tmp_path / "x", target, "json-full", [])
    document = json.loads(shown.partition("--- stdout\n")[2].partition("--- stderr\n")[0])
    assert fits(document, schema)
    for key in document:
        assert not fits({name: value for name, value in document.items() if name != key}, schema)
