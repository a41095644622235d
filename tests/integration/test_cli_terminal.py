"""A person at a terminal: progress, grouped answers, and Ctrl-C, which asks what is meant."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli import exitcodes
from tests.integration.fakemaster import JID, FakeMaster, Step, end, fixed, published, returned, state
from tests.support.terminal import AtTerminal

QUESTION = "[d]etach  [k]ill on 2 minions  [w]ait"


class Job:
    """A master whose job runs until `go_on` is set, or it is killed; then the stream says how it ended."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.killed = threading.Event()

    def __call__(self, request: dict[str, Any]) -> Iterable[Step]:
        if request["verb"] == "job_kill":
            self.killed.set()
            yield {"ok": True, "ids": ["web2", "web3"], "away": []}
            return
        yield published("web1", "web2", "web3")
        if request["verb"] == "publish":
            yield returned(1, "web1", True)
            yield {"seq": 1, "states": [{"id": m, "state": "running", "reason": ""} for m in ("web2", "web3")]}
            if not self.killed.is_set():
                yield self.go_on
        yield from self._ends()

    def _ends(self) -> Iterator[Step]:
        if self.killed.is_set():
            yield state(2, "web2", "cancelled", "cancelled by root")
            yield state(3, "web3", "cancelled", "cancelled by root")
        else:
            yield self.go_on
            yield returned(2, "web2", True)
            yield returned(3, "web3", True)
        yield end(3)


def at(master: FakeMaster, *words: str, **how: Any) -> AtTerminal:
    """A command line at a terminal."""
    return AtTerminal("-c", master.config_dir, *words, **how)


def at_question(master: FakeMaster) -> AtTerminal:
    """A command line that was interrupted while two of three minions run the job."""
    terminal = at(master, "*", "test.sleep", "30")
    terminal.wait_for("1/3 returned · 2 running")
    terminal.type("\x03")
    terminal.wait_for(QUESTION)
    return terminal


@pytest.mark.parametrize("keys", ["d", "D", "\x03", "\x04", "xyzd"])
def test_detaching_leaves_the_job_and_says_how_to_see_and_to_end_it(tmp_path: Path, keys: str) -> None:
    with FakeMaster(tmp_path, Job()) as master, at_question(master) as terminal:
        terminal.type(keys)
        assert terminal.ended() == exitcodes.INTERRUPTED
    assert f"saltlite job watch {JID}" in terminal.shown
    assert f"saltlite job kill {JID}" in terminal.shown
    assert "\u2713 web1" in terminal.shown
    assert "Traceback" not in terminal.shown
    assert [request["verb"] for request in master.requests] == ["publish"]


def test_killing_asks_the_master_and_waits_for_what_becomes_of_it(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, Job()) as master, at_question(master) as terminal:
        terminal.type("k")
        assert terminal.ended() == exitcodes.FAILED
    assert "asked 2 minions to kill job" in terminal.shown
    assert "web3: cancelled by root" in terminal.shown
    assert [request["verb"] for request in master.requests] == ["publish", "job_kill", "follow"]


def test_waiting_goes_on_where_it_was_and_can_be_interrupted_again(tmp_path: Path) -> None:
    job = Job()
    with FakeMaster(tmp_path, job) as master, at_question(master) as terminal:
        terminal.type("w")
        terminal.wait_for("running", times=terminal.shown.count("running") + 1)
        terminal.type("\x03")
        terminal.wait_for(QUESTION, times=2)
        terminal.type("w")
        job.go_on.set()
        assert terminal.ended() == exitcodes.OK
    assert "\u2713 3 minions  web[1-3]" in terminal.shown
    assert master.requests[1]["after"] == 1


def test_the_terminal_is_as_before_after_the_question(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, Job()) as master, at(master, "*", "test.sleep") as terminal:
        terminal.wait_for("1/3 returned")
        before = terminal.modes()
        terminal.type("\x03")
        terminal.wait_for(QUESTION)
        terminal.wait_until(lambda: terminal.modes() != before)
        terminal.type("\x03")
        terminal.wait_for("interrupted: job")
        assert terminal.modes() == before


def test_a_reader_of_the_output_gets_no_question_for_it_was_interrupted_too(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, Job()) as master:
        read_end, write_end = os.pipe()
        with at(master, "*", "test.sleep", "30", stdout=write_end) as terminal:
            terminal.wait_for("1/3 returned")
            terminal.type("\x03")
            assert terminal.ended() == exitcodes.INTERRUPTED
        os.close(write_end)
        os.close(read_end)
    assert "[d]etach" not in terminal.shown


@pytest.mark.parametrize("columns", [20, 40, 200])
def test_progress_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    script = fixed(published(*(f"web{n}" for n in range(200))), returned(1, "web1", True), threading.Event())
    line = ("*", "test.ping", "-t", "0.6")
    with FakeMaster(tmp_path, script) as master, at(master, *line, columns=columns) as terminal:
        terminal.ended()
    drawn = re.findall(r"\r([^\r\x1b]+)\x1b\[K", terminal.shown)
    assert drawn
    assert max(map(len, drawn)) < columns
    assert all(text.startswith("1/200") for text in drawn)


def test_progress_is_gone_when_the_answers_are_printed(tmp_path: Path) -> None:
    go_on = threading.Event()
    script = fixed(published("web1", "web2"), go_on, returned(1, "web1", 1), returned(2, "web2", 1), end(2))
    with FakeMaster(tmp_path, script) as master, at(master, "*", "test.ping") as terminal:
        terminal.wait_for("0/2 returned")
        go_on.set()
        assert terminal.ended() == exitcodes.OK
    before, _, after = terminal.shown.partition("\x1b[32m\u2713")
    assert before.endswith("\r\x1b[K")
    assert "\r\x1b[K" not in after


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_who_declines_colours_gets_none(tmp_path: Path, environ: dict[str, str]) -> None:
    script = fixed(published("web1", "web2"), returned(1, "web1", 1), returned(2, "web2", 1), end(2))
    with FakeMaster(tmp_path, script) as master, at(master, "*", "test.ping", environ=environ) as terminal:
        assert terminal.ended() == exitcodes.OK
    assert "\x1b[" not in terminal.shown.replace("\x1b[K", "" if "NO_COLOR" in environ else "\x1b[K")
    assert "\u2713 2 minions  web[1-2]" in terminal.shown


def test_an_explicit_format_is_the_same_on_a_terminal_as_elsewhere(tmp_path: Path) -> None:
    script = fixed(published("web1", "web2"), returned(1, "web1", 1), returned(2, "web2", 1), end(2))
    with FakeMaster(tmp_path, script) as master, at(master, "*", "test.ping", "--out", "txt") as terminal:
        assert terminal.ended() == exitcodes.OK
    assert terminal.shown == "web1: 1\r\nweb2: 1\r\n"


def test_an_interrupt_by_signal_is_asked_about_as_well(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, Job()) as master, at(master, "*", "test.sleep", "30") as terminal:
        terminal.wait_for("1/3 returned")
        terminal.signal(signal.SIGINT)
        terminal.wait_for(QUESTION)
        terminal.type("d")
        assert terminal.ended() == exitcodes.INTERRUPTED
