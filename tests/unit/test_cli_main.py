"""Which command a command line is, and which of its words are options."""

from __future__ import annotations

import re

import pytest

from saltlite.cli.commands import command_table
from saltlite.cli.job import _what_is_missing
from saltlite.cli.job_options import JOB, TARGET_AND_FUNCTION
from saltlite.cli.main import split_command
from saltlite.cli.options import HelpAsked, Parsed
from saltlite.errors import UsageError


def job(line: list[str]) -> Parsed:
    """The line as a job."""
    name, rest = split_command(line)
    assert name is None
    return JOB.parse(rest, words_before_arguments=TARGET_AND_FUNCTION)


@pytest.mark.parametrize(
    "line",
    [
        ["*", "test.ping"],
        ["key", "test.ping"],
        ["-L", "key,run", "test.ping"],
        ["key", "-t", "5", "test.ping"],
        ["--timeout=5", "demo", "test.ping"],
        ["web1", "ping"],
        ["--", "key", "list"],
        ["--help"],
    ],
)
def test_a_function_as_second_word_or_an_unknown_first_word_makes_a_job(line: list[str]) -> None:
    assert split_command(line) == (None, line)


@pytest.mark.parametrize(
    ("line", "name", "rest"),
    [
        (["key", "list"], "key list", []),
        (["key", "accept", "web1.example.org", "-y"], "key accept", ["web1.example.org", "-y"]),
        (["-c", "/etc/x.d", "key", "-y", "accept", "w*"], "key accept", ["-c", "/etc/x.d", "-y", "w*"]),
        (["key", "token", "create", "--uses", "3"], "key token create", ["--uses", "3"]),
        (["job", "kill", "1"], "job kill", ["1"]),
        (["demo", "--", "web1", "test.ping"], "demo", ["--", "web1", "test.ping"]),
        (["call", "--local", "test.ping"], "call", ["--local", "test.ping"]),
        (["doc", "pkg.install"], "doc", ["pkg.install"]),
        (["backup", "master.backup", "--encrypt"], "backup", ["master.backup", "--encrypt"]),
        (["restore", "master.backup"], "restore", ["master.backup"]),
        (["upgrade", "web1.example.org"], "upgrade", ["web1.example.org"]),
        (["-c", "/etc/x.d", "runner", "manage.up"], "runner", ["-c", "/etc/x.d", "manage.up"]),
    ],
)
def test_a_known_first_word_is_a_command(line: list[str], name: str, rest: list[str]) -> None:
    assert split_command(line) == (name, rest)


@pytest.mark.parametrize("minion", ["key", "call", "doc"])
def test_run_makes_a_job_for_a_minion_that_is_called_like_a_command(minion: str) -> None:
    assert job(["run", "-t", "5", "--", minion, "test.ping"]).words == [minion, "test.ping"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["key"], "needs one of accept, delete, finger, fleet, list, preaccept, reject, rename, revoke, token"),
        (["key", "token"], "needs one of create"),
        (["key", "lst"], "there is no command `saltlite key lst`"),
        (["job", "lst"], "there is no command `saltlite job lst`"),
    ],
)
def test_an_incomplete_command_is_told_what_can_follow(line: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        split_command(line)


@pytest.mark.parametrize(
    "line",
    [
        ["-t", "5", "-E", "web.*", "test.arg", "a"],
        ["web.*", "-t5", "--pcre", "test.arg", "a"],
        ["web.*", "test.arg", "a", "--timeout=5", "-E"],
        ["-Et5", "web.*", "test.arg", "a"],
    ],
)
def test_options_stand_before_or_behind_the_target(line: list[str]) -> None:
    parsed = job(line)
    assert (parsed.words, parsed.options) == (["web.*", "test.arg", "a"], {"timeout": 5.0, "pcre": True})


@pytest.mark.parametrize(
    "words", [["-5"], ["-1.5"], ["-.5"], ["-1e3"], ["-"], ["name=--value"], ["name=-x"], ["--", "--color", "-la", "--"]]
)
def test_behind_the_function_these_are_its_arguments(words: list[str]) -> None:
    parsed = job(["*", "cmd.run", *words])
    assert (parsed.words, parsed.options) == (["*", "cmd.run", *(words[1:] if words[0] == "--" else words)], {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["x", "--tset"],
            "no option --tset; did you mean --test? To pass it to cmd.run as an argument, write it after",
        ),
        (["--subst", "2"], "no option --subst; did you mean --subset?"),
        (["--subse=2"], "no option --subse=2; did you mean --subset?"),
        (["ls", "-x"], "no option -x; `saltlite --help` lists them. To pass it to cmd.run"),
        (["du", "-s"], "-s has no effect here. To pass it to cmd.run as an argument, write it after `--`"),
        (["ps", "-p", "1"], "-p has no effect here. To pass it to cmd.run as an argument, write it after `--`"),
        (["df", "-H"], "--hosts is refused: rosters do not exist here"),
        (["-la", "/tmp"], "--log-level: 'a' is not known; use one of quiet, critical"),
        (["-qx"], "no option -x, as in -qx;"),
        (["-x5"], "no option -x, as in -x5;"),
        (["-async"], "no option -async; did you mean --async?"),
        (["-test"], "no option -test; did you mean --test?"),
        (["\u2013test"], "no option \u2013test; did you mean --test?"),
        (["\u2014", "x", "\u2014test"], "no option \u2014test; did you mean --test?"),
        (["-5d"], "no option -5, as in -5d;"),
        (["-1_000"], "no option -1, as in -1_000;"),
        (["-inf"], "no option -i, as in -inf;"),
        (["--5"], "no option --5;"),
        (["---"], "no option ---;"),
    ],
)
def test_behind_the_function_a_word_with_a_hyphen_that_is_no_option_is_an_error(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        job(["*", "cmd.run", *words])


@pytest.mark.parametrize("words", [["-qt5"], ["-t5", "-q"], ["--timeout=5", "-q"], ["-q", "-t", "5"]])
def test_behind_the_function_options_are_written_as_in_front_of_it(words: list[str]) -> None:
    assert job(["*", "cmd.run", "ls", *words]).options == {"timeout": 5.0, "quiet": True}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--out-file", "--test"],
            "--out-file needs a value, and --test looks like an option; if it is the value: --out-f",
        ),
        (["--return", "--test"], "--return needs a value, and --test looks like an option"),
        (["--out-file", "-q"], "--out-file needs a value, and -q looks like an option"),
        (["--out-file", "--", "x"], "--out-file needs a value: --out-file PATH"),
    ],
)
def test_the_next_option_is_not_the_value_of_one_that_lacks_it(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        job(["*", "service.stop", "x", *words])


def test_a_value_may_begin_with_a_hyphen() -> None:
    options = job(["*", "test.ping", "--out-file=--test", "--out-indent", "-1"]).options
    assert (options["out_file"], options["out_indent"]) == ("--test", -1)


@pytest.mark.parametrize("line", [["-5", "test.ping"], ["*", "-5", "test.ping"]])
def test_a_negative_number_is_an_argument_and_nothing_else(line: list[str]) -> None:
    with pytest.raises(UsageError, match="there is no option -5"):
        job(line)


def test_behind_run_and_two_hyphens_stands_a_job_with_its_options() -> None:
    parsed = job(["run", "--", "call", "cmd.run", "ls", "-t5", "--", "-l"])
    assert (parsed.words, parsed.options) == (["call", "cmd.run", "ls", "-l"], {"timeout": 5.0})
    with pytest.raises(UsageError, match="there is no option --tset; did you mean --test"):
        job(["run", "--", "key", "service.stop", "x", "--tset"])


def test_behind_two_hyphens_nothing_is_an_option() -> None:
    parsed = job(["*", "cmd.run", "--", "-t", "5", "--help", "--"])
    assert (parsed.words, parsed.options) == (["*", "cmd.run", "-t", "5", "--help", "--"], {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--tiemout", "5", "*", "test.ping"], "no option --tiemout; did you mean --timeout"),
        (["-Z", "*", "test.ping"], "no option -Z"),
        (["-qZ", "*", "test.ping"], "no option -Z"),
        (["*", "-t"], "--timeout needs a value: --timeout TIME"),
        (["*", "test.ping", "-t", "soon"], "--timeout: 'soon' is not a duration"),
        (["*", "test.ping", "--static=1"], "--static takes no value"),
        (["*", "test.ping", "--out", "../x"], "cannot be the name of an outputter: there are nested, json, yaml, txt"),
    ],
)
def test_a_wrong_option_is_named_with_the_way_out(line: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        job(line)


def test_help_wins_over_what_stands_behind_it() -> None:
    with pytest.raises(HelpAsked, match=r"\nusage: saltlite \[options\] TARGET"):
        job(["--help", "--no-such-option"])


def test_where_the_options_of_a_command_are_listed_can_be_typed() -> None:
    with pytest.raises(UsageError, match="there is no option --zzz; `saltlite lint --help` lists them"):
        command_table("lint").parse(["a.py", "--zzz"])


@pytest.mark.parametrize(
    ("words", "meant"), [(["stauts"], "status"), (["jobs", "list"], "job list"), (["keys"], "key"), (["hlep"], "help")]
)
def test_a_command_that_is_mistyped_is_guessed(words: list[str], meant: str) -> None:
    assert _what_is_missing(words).endswith(f"; did you mean saltlite {meant}?")
    assert "did you mean" not in _what_is_missing(["*"])
