"""What may stand at the end of a command line."""

from __future__ import annotations

import pytest

from saltlite.cli.commands import KEY_STATES
from saltlite.cli.completion import Place, place_of, read_line
from saltlite.cli.job_options import JOB
from saltlite.cli.options import Option, Table, choice
from saltlite.model.keys import KeyState

_VERB = Table(
    "saltlite x",
    "Do x.",
    (
        Option("--minion", metavar="ID", help="m"),
        Option("--out", metavar="FORMAT", convert=choice("text", "json"), help="o"),
        Option("-c", "--config-dir", metavar="DIR", help="d"),
        Option("--fingerprint", metavar="FP", help="f"),
    ),
)


def place(*words: str) -> Place:
    return place_of(read_line(words, JOB, lambda _name: _VERB))


def offered(*words: str) -> list[str]:
    return [word for word, _ in place(*words).words]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["w"], "target"),
        (["-E", "w"], "words"),
        (["--pcre", "w"], "words"),
        (["-C", "w"], "words"),
        (["-G", "w"], "words"),
        (["match", "w"], "target"),
        (["match", "web1", "w"], "words"),
        (["cp", "w"], "target"),
        (["match", "--explain", "w"], "target"),
        (["web1", "te"], "function"),
        (["call", "te"], "function"),
        (["doc", "pkg.i"], "function"),
        (["call", "test.ping", "x"], "words"),
        (["runner", "man"], "words"),
        (["-c", "/etc", "web1", "te"], "function"),
        (["web1", "test.ping", "x"], "argument"),
        (["-c", "/e"], "folders"),
        (["--config-dir=/e"], "folders"),
        (["key", "accept", "w"], "key"),
        (["key", "accept", "web1", "w"], "key"),
        (["key", "preaccept", "w"], "key"),
        (["key", "preaccept", "web1", "A"], "words"),
        (["key", "accept", "--minion", "w"], "minion"),
        (["__key", "accept", "w"], "key"),
        (["__key", "-c", "/e", "accept", "w"], "key"),
        (["__key", "token", "c"], "words"),
        (["key", "accept", "--fingerprint", "w"], "words"),
        (["job", "kill", "2"], "jid"),
        (["job", "kill", "20260131235959123456", "2"], "words"),
        (["run", "--", "ke"], "target"),
        (["run", "ke"], "target"),
        (["run", "--", "key", "te"], "function"),
        (["demo", "--", "web1", "te"], "function"),
        (["key", "test.arg", "x"], "argument"),
        (["doctor", "test.arg", "x"], "argument"),
        (["-t", "5"], "words"),
    ],
)
def test_the_kind_of_a_place(words: list[str], kind: str) -> None:
    assert place(*words).kind == kind


def test_the_first_word_is_a_command_or_a_target() -> None:
    assert {"key", "job", "doctor", "config", "completion", "run"} <= set(offered(""))
    assert place("").kind == "target"


def test_the_hidden_command_is_offered_nowhere() -> None:
    assert not [word for word in offered("") if word.startswith("_")]


def test_a_group_goes_on_with_its_commands() -> None:
    assert {"accept", "list", "token"} <= set(offered("key", ""))
    assert offered("key", "token", "") == ["create", "list", "revoke"]


def test_options_of_a_command_are_its_own() -> None:
    assert "--minion" in offered("key", "list", "--")
    assert "--run-timeout" not in offered("key", "list", "--")
    assert "--run-timeout" in offered("web1", "--")


def test_short_names_are_offered_after_one_hyphen() -> None:
    assert "-E" in offered("-")
    assert "-E" not in offered("--")


def test_an_option_that_was_given_is_not_offered_again() -> None:
    assert "--out" not in offered("key", "list", "--out", "json", "--")


def test_values_of_a_choice_are_offered_in_both_forms() -> None:
    assert offered("key", "list", "--out", "") == ["text", "json"]
    joined = place("key", "list", "--out=j")
    assert (joined.head, joined.begun, [word for word, _ in joined.words]) == ("--out=", "j", ["text", "json"])


def test_words_that_the_usage_spells_out_are_offered() -> None:
    assert offered("config", "check", "") == ["master", "minion", "api", "cloud", "all"]
    assert offered("completion", "") == ["bash", "zsh", "fish"]
    assert offered("completion", "bash", "") == []


def test_key_states_are_those_of_the_master() -> None:
    assert set(KEY_STATES) == set(KeyState)
    assert set(offered("key", "list", "")) == set(KeyState)


def test_keys_are_asked_for_in_the_states_that_the_command_changes() -> None:
    assert place("key", "revoke", "").states == ("accepted",)
    assert "pending" in place("key", "accept", "").states


def test_a_list_is_completed_behind_its_last_comma() -> None:
    last = place("-L", "web1,we")
    assert (last.kind, last.head, last.begun) == ("target", "web1,", "we")


def test_a_compound_job_is_completed_behind_its_last_comma() -> None:
    last = place("web1", "test.ping,pkg.in")
    assert (last.kind, last.head, last.begun) == ("function", "test.ping,", "pkg.in")


def test_arguments_belong_to_the_function_whose_turn_it_is() -> None:
    assert place("w", "test.arg,pkg.install", "x").function == "test.arg"
    assert place("w", "test.arg,pkg.install", "1", ",nginx", "re").function == "pkg.install"
    begins = place("w", "test.arg,pkg.install", "1", ",re")
    assert (begins.function, begins.head, begins.begun) == ("pkg.install", ",", "re")


def test_the_value_of_an_argument_is_nobodys_business() -> None:
    assert place("w", "pkg.install", "name=ng").kind == "words"


def test_nothing_is_an_option_behind_the_two_hyphens() -> None:
    assert place("web1", "test.arg", "--", "--o").kind == "argument"


def test_what_follows_run_is_a_job_with_its_options() -> None:
    assert place("run", "--", "web1", "test.arg", "--o").kind == "options"
    assert place("run", "--", "web1", "test.arg", "--", "--o").kind == "argument"
