"""Which command a command line is, and which of its words are options."""

from __future__ import annotations

import pytest

from saltlite.cli.calls import _what_is_missing
from saltlite.cli.commands import command_table
from saltlite.cli.grammar import split_command
from saltlite.cli.joboptions import JOB, TARGET_AND_FUNCTION
from saltlite.cli.options import HelpAsked, Parsed
from saltlite.errors import UsageError


def job(line: list[str]) -> Parsed:
    """The line as a job."""
    name, rest = split_command(line)
    assert name is None
    return JOB.parse(rest, words_before_free=TARGET_AND_FUNCTION)


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
        (["key"], "needs one of accept, delete, finger, list, preaccept, reject, revoke, token"),
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


@pytest.mark.parametrize("words", [["-la", "/tmp"], ["--color"], ["-x5", "-"], ["-t5"], ["--name=x"]])
def test_behind_the_function_unknown_options_belong_to_it(words: list[str]) -> None:
    assert job(["*", "cmd.run", *words]).words == ["*", "cmd.run", *words]


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
        (["*", "test.ping", "--out", "../x"], "no outputter can be called .* there are nested, json, yaml, txt"),
    ],
)
def test_a_wrong_option_is_named_with_the_way_out(line: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        job(line)


def test_help_wins_over_what_stands_behind_it() -> None:
    with pytest.raises(HelpAsked, match=r"^usage: saltlite \[options\] TARGET"):
        job(["--help", "--no-such-option"])


def test_where_the_options_of_a_command_are_listed_can_be_typed() -> None:
    with pytest.raises(UsageError, match="there is no option --zzz; `saltlite lint --help` lists them"):
        command_table("lint").parse(["a.py", "--zzz"])


@pytest.mark.parametrize(
    ("words", "meant"), [(["stauts"], "status"), (["jobs", "list"], "job"), (["keys"], "key"), (["help"], "--help")]
)
def test_a_command_that_is_mistyped_is_guessed(words: list[str], meant: str) -> None:
    assert _what_is_missing(words).endswith(f"; did you mean saltlite {meant}?")
    assert "did you mean" not in _what_is_missing(["*"])
