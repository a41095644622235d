"""The pager: only at a terminal, only for what is longer than the screen, and never if it is switched off."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fakemaster import FakeMaster, end, published, returned
from tests.support.terminal import AtTerminal

LONG = {f"name-{number}": number for number in range(60)}


def job(_request: dict[str, Any]) -> Any:
    yield published("web1")
    yield returned(1, "web1", LONG)
    yield end(1)


def two(_request: dict[str, Any]) -> Any:
    yield published("web1", "web2")
    yield returned(1, "web1", LONG)
    yield returned(2, "web2", LONG)
    yield end(2)


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A program that says what it read."""
    program = tmp_path / "pager"
    program.write_text('#!/bin/sh\necho "paged $LESS"\ncat >"$0.read"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("answers", [job, two])
def test_returns_that_are_longer_than_the_screen_go_through_the_pager(
    tmp_path: Path, pager: Path, answers: Any
) -> None:
    with (
        FakeMaster(tmp_path, answers) as master,
        AtTerminal("-c", master.config_dir, "*", "x.y", environ={"PAGER": str(pager)}) as terminal,
    ):
        assert terminal.ended() == 0
        assert "paged FRX" in terminal.shown
        assert "name-59" not in terminal.shown
    assert "name-59" in (tmp_path / "pager.read").read_text()


@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (["--no-pager"], {}),
        ([], {"SALTLITE_PAGER": "cat"}),
        ([], {"SALTLITE_PAGER": ""}),
        ([], {"SALTLITE_PAGER": "/no/such/program"}),
        ([], {"SALTLITE_PAGER": "less '"}),
        ([], {"TERM": "dumb"}),
    ],
)
def test_it_can_be_switched_off(tmp_path: Path, pager: Path, words: list[str], environ: dict[str, str]) -> None:
    with (
        FakeMaster(tmp_path, job) as master,
        AtTerminal("-c", master.config_dir, "*", "x.y", *words, environ={"PAGER": str(pager), **environ}) as terminal,
    ):
        assert terminal.ended() == 0
        assert "paged" not in terminal.shown
        assert "name-59" in terminal.shown


def test_what_fits_on_the_screen_is_printed(pager: Path) -> None:
    with AtTerminal("version", environ={"PAGER": str(pager)}) as terminal:
        assert terminal.ended() == 0
        assert "paged" not in terminal.shown


@pytest.mark.parametrize("words", [["--help"], ["help", "guarantees"]])
def test_help_texts_are_paged(pager: Path, words: list[str]) -> None:
    with AtTerminal(*words, environ={"SALTLITE_PAGER": f"{pager} -x", "PAGER": "cat"}) as terminal:
        assert terminal.ended() == 0
        assert "paged" in terminal.shown
    with AtTerminal(*words, "--no-pager", environ={"PAGER": str(pager)}) as terminal:
        assert terminal.ended() == 0
        assert "paged" not in terminal.shown


def test_output_that_goes_elsewhere_is_not_paged(tmp_path: Path, pager: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        with AtTerminal("--help", stdout=file.fileno(), environ={"PAGER": str(pager)}) as terminal:
            assert terminal.ended() == 0
        assert "usage: saltlite" in (tmp_path / "out").read_text()


def test_a_terminal_that_a_program_made_is_not_paged(pager: Path) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        [sys.executable, "-m", "saltlite", "help", "guarantees"],
        stdin=subprocess.DEVNULL, stdout=theirs, env={**os.environ, "PAGER": str(pager), "TERM": "xterm"},
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while block := os.read(ours, 65536):
            shown += block
    os.close(ours)
    assert process.wait(60) == 0
    assert b"paged" not in shown
    assert shown.startswith(b"# ")


def test_a_pager_that_reads_only_the_beginning_is_no_error(pager: Path) -> None:
    pager.write_text("#!/bin/sh\nhead -1\n")
    with AtTerminal("help", "architecture", environ={"PAGER": str(pager)}) as terminal:
        assert terminal.ended() == 0
        assert "# Architecture" in terminal.shown
