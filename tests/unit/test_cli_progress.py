"""The line that a person sees while a job runs."""

from __future__ import annotations

import io

import pytest

from saltlite.cli.console import Console
from saltlite.cli.following import REDRAW_S, SHOW_AFTER_S, StatusLine, status_text
from saltlite.client.follower import Progress
from tests.support.terminal import Terminal
from tests.unit.test_client_follower import moved, progress, returned


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def fifteen() -> Progress:
    job = progress(*(f"web{number}" for number in range(15)))
    for number in range(12):
        job.apply(returned(f"web{number}"), now=100.0)
    job.apply(moved("web12", "running"), now=100.0)
    job.apply(moved("web13", "running"), now=100.0)
    return job


def test_the_line_counts_and_names_those_that_remain() -> None:
    text = status_text(fifteen(), now=103.24, width=100)
    assert text == "12/15 returned · 2 running · 1 silent · 3.2 s · web12, web13, web14"


def test_more_than_five_that_remain_are_not_named() -> None:
    job = progress(*"abcdef")
    assert status_text(job, now=100.0, width=100) == "0/6 returned · 6 silent · 0.0 s"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (66, "12/15 returned · 2 running · 1 silent · 3.2 s"),
        (44, "12/15 · 2 running · 1 silent"),
        (27, "12/15 returned · 3.2 s"),
        (19, "12/15 · 3.2 s"),
        (12, "12/15"),
        (3, "12/"),
    ],
)
def test_a_narrow_terminal_gets_what_matters_most(width: int, text: str) -> None:
    assert status_text(fifteen(), now=103.24, width=width) == text


@pytest.mark.parametrize("width", range(1, 100))
def test_the_line_never_wraps(width: int) -> None:
    assert len(status_text(fifteen(), now=103.24, width=width)) <= width


def test_a_long_wait_is_told_in_minutes() -> None:
    assert status_text(progress("a"), now=100.0 + 3665.0, width=60) == "0/1 returned · 1 silent · 61 min 05 s · a"


def test_a_job_that_ends_at_once_shows_no_line() -> None:
    stderr = Terminal()
    StatusLine(Console(None, None, stderr), progress("a")).show(100.0 + SHOW_AFTER_S / 2)
    assert stderr.getvalue() == ""


def test_the_line_is_drawn_in_place_and_not_more_often_than_eyes_can_follow() -> None:
    stderr, job = Terminal(), progress("a")
    line = StatusLine(Console(None, None, stderr), job)
    for now in (101.0, 101.0 + REDRAW_S / 2, 101.0 + REDRAW_S):
        line.show(now)
    assert stderr.getvalue() == (
        "\r0/1 returned · 1 silent · 1.0 s · a\x1b[K\r0/1 returned · 1 silent · 1.1 s · a\x1b[K"
    )


def test_data_and_errors_take_the_line_away_first() -> None:
    stderr, stdout = Terminal(), io.StringIO()
    console = Console(None, stdout, stderr)
    for write in (console.data, console.error):
        console.status("3 of 4")
        write("text")
    assert stderr.getvalue() == "\r3 of 4\x1b[K\r\x1b[K\r3 of 4\x1b[K\r\x1b[Ktext\n"


@pytest.mark.parametrize("why", ["no terminal", "quiet", "dumb", ""])
def test_a_line_is_only_for_who_sees_it(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(None, None, io.StringIO() if why == "no terminal" else Terminal())
    console.quiet = why == "quiet"
    if why == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    assert console.wants_status() is (why == "")


def test_a_terminal_that_is_not_utf8_gets_commas() -> None:
    class Old(Terminal):
        encoding = "ascii"

    stderr = Old()
    Console(None, None, stderr).status("3/4 returned · 1 silent")
    assert stderr.getvalue() == "\r3/4 returned, 1 silent\x1b[K"
