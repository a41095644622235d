"""Lowstates: what they mean, and which are refused before anything is asked of the master."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.api.clients import LOWSTATES_MAX, call_of, read_login, read_lowstate, read_lowstates
from saltlite.config.api import CLIENTS
from saltlite.errors import UsageError


def fields(**given: Any) -> dict[str, Any]:
    """The publish that a lowstate of a local client becomes."""
    low = read_lowstate({"client": "local", "tgt": "*", "fun": "test.arg", **given}, CLIENTS)
    return low.job("here").fields()


def test_arguments_are_read_as_words_of_a_command_line() -> None:
    assert fields(arg=["5", "text", "b=1", "[1, two]", {"a": 1}, "0644", ""], kwarg={"c": "5"})["calls"] == [
        ["test.arg", [5, "text", [1, "two"], {"a": 1}, "0644", ""], {"b": 1, "c": "5"}]
    ]


def test_one_argument_needs_no_list() -> None:
    assert fields(arg="one")["calls"] == [["test.arg", ["one"], {}]]


def test_several_functions_have_a_list_of_arguments_each() -> None:
    assert fields(fun=["test.arg", "test.ping"], arg=[[1], []])["calls"] == [
        ["test.arg", [1], {}],
        ["test.ping", [], {}],
    ]


def test_expr_form_is_the_old_name_of_tgt_type() -> None:
    assert fields(expr_form="pcre")["tgt_type"] == "pcre"


def test_a_list_of_ids_is_a_list_target() -> None:
    assert (fields(tgt=["a", "b"])["tgt"], fields(tgt=["a", "b"])["tgt_type"]) == ("a,b", "list")


def test_executors_of_the_seed_are_passed_on() -> None:
    found = fields(module_executors=["splay", "direct_call"], executor_opts={"splaytime": 10})
    assert (found["module_executors"], found["executor_opts"]) == (["splay", "direct_call"], {"splaytime": 10})


@pytest.mark.parametrize(
    ("batch", "size", "percent"), [("50%", 50, True), (2, 2, False), ("3", 3, False), (None, 10, True)]
)
def test_a_batch_is_a_number_or_a_percentage(batch: object, size: int, percent: bool) -> None:
    found = fields(client="local_batch", batch=batch)["batch"]
    assert (found["size"], found["percent"]) == (size, percent)


def test_a_subset_is_three_unless_it_says_otherwise() -> None:
    assert (fields(client="local_subset")["subset"], fields(client="local_subset", sub=2)["subset"]) == (3, 2)


@pytest.mark.parametrize("client", ["local", "local_async", "local_subset"])
def test_a_batch_goes_to_no_client_at_once(client: str) -> None:
    found = fields(client=client, batch=2, batch_wait=1.5, failhard=True)["batch"]
    assert found == {"size": 2, "percent": False, "wait_ms": 1500, "failhard": True}


def test_a_subset_is_taken_of_every_client() -> None:
    assert fields(client="local_async", subset=2)["subset"] == 2
    assert "subset" not in fields(client="local")


def test_a_map_with_the_mark_holds_keyword_arguments() -> None:
    assert fields(arg=[1, {"__kwarg__": True, "b": "2"}], kwarg={"c": 3})["calls"] == [
        ["test.arg", [1], {"b": "2", "c": 3}]
    ]
    assert fields(arg=[{"__kwarg__": 1}])["calls"] == [["test.arg", [{"__kwarg__": 1}], {}]]


@pytest.mark.parametrize("returner", ["json_file", ["json_file", "http"]])
def test_a_returner_is_named_to_the_master(returner: object) -> None:
    assert fields(ret=returner)["ret"] == returner


@pytest.mark.parametrize("nothing", ["", [], None])
def test_an_empty_returner_is_none(nothing: object) -> None:
    assert "ret" not in fields(ret=nothing)


def test_metadata_stay_with_the_job() -> None:
    assert fields(metadata={"ticket": 5})["metadata"] == {"ticket": 5}
    assert "metadata" not in fields(metadata={})


def test_the_wait_for_find_job_is_of_no_effect() -> None:
    assert fields(gather_job_timeout=10) == fields()


@pytest.mark.parametrize(("written", "meant"), [(None, None), (5, 5.0), ("5", 5.0), (0.5, 0.5), ("1.5", 1.5)])
def test_a_timeout_is_in_seconds(written: object, meant: float | None) -> None:
    row = {"client": "local", "tgt": "*", "fun": "test.ping", "timeout": written}
    assert read_lowstate(row, CLIENTS).timeout_s == meant


@pytest.mark.parametrize(("written", "meant"), [(True, True), ("true", True), ("False", False), (None, False)])
def test_full_return_is_a_flag_of_a_form_too(written: object, meant: bool) -> None:
    row = {"client": "local", "tgt": "*", "fun": "test.ping", "full_return": written}
    assert read_lowstate(row, CLIENTS).full_return is meant


def test_fields_of_a_runner_are_its_keyword_arguments() -> None:
    low = read_lowstate({"client": "runner", "fun": "jobs.lookup_jid", "jid": "1", "arg": ["a=2"]}, CLIENTS)
    assert call_of(low) == ([], {"a": 2, "jid": "1"})


@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        {},
        {"client": "destroy", "fun": "test.ping"},
        {"client": "ssh", "tgt": "*", "fun": "test.ping"},
        {"client": "local", "fun": "test.ping"},
        {"client": "local", "tgt": "", "fun": "test.ping"},
        {"client": "local", "tgt": 1, "fun": "test.ping"},
        {"client": "local", "tgt": ["a", 1], "fun": "test.ping"},
        {"client": "local", "tgt": ["a"], "tgt_type": "glob", "fun": "test.ping"},
        {"client": "local", "tgt": "*", "fun": []},
        {"client": "local", "tgt": "*", "fun": ["test.ping", 1]},
        {"client": "local", "tgt": "*", "fun": "test.ping", "raw_shell": "x"},
        {"client": "local", "tgt": "*", "fun": "test.ping", "timeout": -1},
        {"client": "local", "tgt": "*", "fun": "test.ping", "timeout": "x"},
        {"client": "local", "tgt": "*", "fun": "test.ping", "kwarg": []},
        {"client": "local", "tgt": "*", "fun": "test.ping", "full_return": 2},
        {"client": "local_batch", "tgt": "*", "fun": "test.ping", "batch": "x"},
        {"client": "local_subset", "tgt": "*", "fun": "test.ping", "subset": 0},
        {"client": "local", "tgt": "*", "fun": "test.ping", "batch": "0"},
        {"client": "local", "tgt": "*", "fun": "test.ping", "metadata": ["x"]},
        {"client": "local", "tgt": "*", "fun": "test.ping", "metadata": {1: 2}},
        {"client": "local", "tgt": "*", "fun": "test.ping", "failhard": True},
        {"client": "local", "tgt": "*", "fun": "test.ping", "gather_job_timeout": "soon"},
        {"client": "local", "tgt": "*", "fun": "test.ping", "arg": [{"__kwarg__": True, 1: 2}]},
    ],
)
def test_what_is_no_lowstate_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        read_lowstate(wrong, CLIENTS).job("here")


def test_a_client_that_is_not_enabled_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="netapi_enable_clients"):
        read_lowstate({"client": "wheel", "fun": "key.list_all"}, ["local"])


def test_one_request_has_a_bounded_number_of_lowstates() -> None:
    assert len(read_lowstates([{}] * LOWSTATES_MAX)) == LOWSTATES_MAX
    with pytest.raises(UsageError):
        read_lowstates([{}] * (LOWSTATES_MAX + 1))


@pytest.mark.parametrize("wrong", [None, [], {"eauth": "file"}, {"eauth": "file", "username": 1, "password": "x"}])
def test_what_is_no_login_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        read_login(wrong)


def test_neither_a_token_nor_a_password_is_in_what_a_lowstate_looks_like() -> None:
    row = {"client": "local", "tgt": "*", "fun": "a.b", "eauth": "pam", "username": "u", "password": "hidden-word"}
    assert "hidden-word" not in repr(read_lowstate(row, CLIENTS))
