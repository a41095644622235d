"""What reaches a terminal, and what does not."""

from __future__ import annotations

import io

import pytest

from saltlite.cli.console import Console
from saltlite.errors import SaltliteError
from saltlite.model.plain import printable
from tests.support.terminal import Terminal


@pytest.mark.parametrize(
    ("stdout", "environ", "colors"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (None, {"TERM": "xterm"}, False),
    ],
)
def test_only_a_terminal_that_did_not_decline_gets_colors(
    monkeypatch: pytest.MonkeyPatch, stdout: io.StringIO | None, environ: dict[str, str], colors: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert Console(None, stdout, None).wants_colors() is colors


def test_control_characters_never_reach_stderr() -> None:
    stderr = io.StringIO()
    Console(None, None, stderr).error("web1: \x1b[2Jreason\x07\r\nsecond\tline")
    assert stderr.getvalue() == "web1: ?[2Jreason??\nsecond\tline\n"


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0x85, 0x9B])
def test_every_control_character_but_the_tab_is_shown_as_a_question_mark(code: int) -> None:
    assert printable(chr(code)) == ("\t" if code == 0x09 else "?")


@pytest.mark.parametrize("code", [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_what_turns_the_direction_of_writing_is_shown_as_a_question_mark(code: int) -> None:
    assert printable(f"web1{chr(code)}\u05d0") == "web1?\u05d0"


def test_quiet_leaves_out_notes_and_keeps_errors() -> None:
    stderr = io.StringIO()
    console = Console(None, None, stderr)
    console.quiet = True
    console.note("a note")
    console.error("an error")
    assert stderr.getvalue() == "an error\n"


@pytest.mark.parametrize(
    ("answer", "agreed"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False), ("yep\n", False)],
)
def test_only_yes_agrees(answer: str, agreed: bool) -> None:
    stderr = Terminal()
    assert Console(Terminal(answer), None, stderr).ask("delete 3 keys?") is agreed
    assert stderr.getvalue() == "delete 3 keys? [y/N] "


@pytest.mark.parametrize(
    ("stdin", "stderr", "person"),
    [(Terminal(), Terminal(), True), (io.StringIO(), Terminal(), False), (Terminal(), None, False)],
)
def test_a_question_needs_a_terminal_for_both_ways(
    stdin: io.StringIO, stderr: io.StringIO | None, person: bool
) -> None:
    assert Console(stdin, None, stderr).can_ask() is person


def test_a_closed_stdout_is_told() -> None:
    with pytest.raises(SaltliteError, match="stdout is closed"):
        Console(None, None, None).data("x")
