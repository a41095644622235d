"""What is not understood is an error with exit code 2, whatever the command: the master hears nothing of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS
from saltlite.cli.main import main, main_call, main_cloud, main_cp, main_key, main_run
from tests.integration.fakemaster import FakeMaster, good_job


def _words(usage: str) -> list[str]:
    """The words that a usage line asks for, as it calls them."""
    return [word for word in re.sub(r"\[.*?\]", "", usage).split() if word.isupper() or "." in word]


LINES = {
    "saltlite": ["web1", "service.stop", "x"],
    **{name: [*name.split(), *_words(usage.removeprefix("saltlite "))] for name, (usage, _) in COMMANDS.items()},
}


MISTAKES = ("--no-such-thing", "--no-such=2", "-Z", "-qZ", "\u2014no-such")


def test_an_unknown_option_is_an_error_in_front_of_the_words_and_behind_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        for (name, line), mistake in itertools.product(LINES.items(), MISTAKES):
            at = 0 if name == "saltlite" else len(name.split())
            for words in ([*line, mistake], [*line[:at], mistake, *line[at:]]):
                assert main(["-c", master.config_dir, *words]) == exitcodes.USAGE, words
                said = capsys.readouterr()
                assert "saltlite: there is no option" in said.err, words
                assert said.out == ""
    assert master.requests == []


@pytest.mark.parametrize(
    ("entry", "words", "near"),
    [
        (main_call, ["test.arg", "x", "--metdata"], "--metadata"),
        (main_run, ["test.arg", "x", "--out-idnent=2"], "--out-indent"),
        (main_cp, ["web1", "a", "/b", "--delivr-by", "5"], "--deliver-by"),
        (main_key, ["accept", "web1", "--quite"], "--quiet"),
        (main_cloud, ["-f", "show", "ec2", "image=x", "--forein"], "--foreign"),
        (main_cloud, ["-a", "stop", "web1", "--asume-yes"], "--assume-yes"),
        (main, ["web1", "service.stop", "x", "--tset"], "--test"),
        (main, ["*", "pkg.upgrade", "--subst", "2"], "--subset"),
        (main, ["--tiemout", "5", "*", "test.ping"], "--timeout"),
        (main, ["acl", "explain", "fred", "*", "pkg.install", "vim", "--gruop", "x"], "--group"),
    ],
)
def test_the_near_name_is_told(
    entry: Callable[[list[str]], int], words: list[str], near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry(words) == exitcodes.USAGE
    assert f"did you mean {near}?" in capsys.readouterr().err


def test_no_fleet_is_started_for_a_line_with_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("saltlite.cli.verbs.demo.DemoFleet", None)
    assert main(["demo", "--", "*", "pkg.upgrade", "--tset"]) == exitcodes.USAGE
    said = capsys.readouterr().err
    assert "did you mean --test?" in said
    assert "starting a master" not in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--minions", "0"], "'0' is not a whole number from 1 to 50"),
        (["--minions", "51"], "'51' is not a whole number from 1 to 50"),
        (["--dir", "/"], "/ exists; the demo makes its folder, and removes it at the end: name another"),
        (["--dir", "/proc/x"], "/proc/x cannot be made: No such file or directory"),
        (["--console", "--", "*", "test.ping"], "--console is for a fleet that stays"),
    ],
)
def test_a_demo_that_cannot_be_is_refused_with_the_reason(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *words]) == exitcodes.USAGE
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["--", "--help", "-x"], ["test.arg", ["--help", "-x"], {}]),
        (["-5", "--", "-5x"], ["test.arg", [-5, "-5x"], {}]),
        (["x", "name=--value"], ["test.arg", ["x"], {"name": "--value"}]),
    ],
)
def test_what_stands_behind_two_hyphens_reaches_the_function(
    words: list[str], call: list[object], tmp_path: Path
) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        assert main(["-c", master.config_dir, "web1", "test.arg", *words]) == exitcodes.OK
    assert master.requests[0]["calls"] == [call]
