"""The runner `jobs`, over a master that a test plays."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import CommandExecutionError
from tests.support.api import JID, Client, run


def job(number: int, fun: str = "test.ping", tgt: str = "*", **more: Any) -> dict[str, Any]:
    jid = f"{20260131000000000000 + number}"
    row = {"jid": jid, "fun": fun, "tgt": tgt, "tgt_type": "glob", "user": "root", "created_at": 0.0}
    return {**row, "calls": [[fun, [], {}]], **more}


def pages(*jobs: dict[str, Any]) -> Client:
    def page(limit: int, whole: bool, before: str = "9", fun: str = "", **_filter: Any) -> dict[str, Any]:
        rest = [one for one in jobs if one["jid"] < before and fun in ("", one["fun"])]
        return {"jobs": rest[:limit], "more": len(rest) > limit}

    return Client(job_list=page)


MIXED = pages(
    job(5, "saltutil.find_job", "web1"),
    job(4, "pkg.install", "web*", metadata={"ticket": 4711}),
    job(3, "service.restart", "db1"),
    job(2, "pkg.remove", "web2", metadata={"ticket": 1, "who": "ann"}),
    job(1, "test.ping,pkg.remove"),
)


def test_jobs_are_listed_over_several_pages_up_to_the_limit() -> None:
    jobs = [job(number) for number in range(1200, 0, -1)]
    client = pages(*jobs)
    assert len(run(client, "jobs.list_jobs").value) == 1200
    assert len(run(client, "jobs.list_jobs", limit=700).value) == 700
    assert list(run(client, "jobs.list_jobs", limit=1).value) == [jobs[0]["jid"]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "54321"),
        ({"search_function": "pkg.remove"}, "2"),
        ({"search_function": "pkg.*,service.*"}, "4321"),
        ({"search_function": ["saltutil.*", "test.*"]}, "51"),
        ({"search_target": "web*"}, "542"),
        ({"search_target": ["db1", "web2"]}, "32"),
        ({"search_metadata": {"ticket": 4711}}, "4"),
        ({"search_metadata": {"ticket": 4711, "who": "ann"}}, "42"),
        ({"search_metadata": {"who": "bob"}}, ""),
        ({"search_target": "web*", "search_metadata": {"ticket": 1}}, "2"),
        ({"search_target": "web*", "limit": 2}, "54"),
    ],
    ids=str,
)
def test_jobs_are_found_by_function_target_and_metadata(wanted: dict[str, Any], found: str) -> None:
    assert [jid[-1] for jid in run(MIXED, "jobs.list_jobs", **wanted).value] == list(found)


def test_a_row_of_a_job_has_what_salt_tells_of_it() -> None:
    said = job(1, calls=[["test.ping", [1], {"a": 2}]], metadata={"ticket": 7})
    (row,) = run(pages(said), "jobs.list_jobs").value.values()
    assert row.pop("StartTime").endswith(":00.000000")
    assert row == {
        "Function": "test.ping",
        "Arguments": [1, {"__kwarg__": True, "a": 2}],
        "Target": "*",
        "Target-type": "glob",
        "User": "root",
        "Metadata": {"ticket": 7},
    }


def test_the_arguments_of_several_functions_are_a_list_each() -> None:
    said = job(1, calls=[["test.ping", [], {}], ["test.arg", [1], {}]])
    (row,) = run(pages(said), "jobs.list_jobs").value.values()
    assert row["Arguments"] == [[], [1]]


def test_jobs_that_look_for_jobs_are_left_out_by_the_filter() -> None:
    assert [jid[-1] for jid in run(MIXED, "jobs.list_jobs_filter", 2).value] == ["4", "3"]
    assert [jid[-1] for jid in run(MIXED, "jobs.list_jobs_filter", 2, filter_find_job=False).value] == ["5", "4"]


@pytest.mark.parametrize("start", ["2026-01-31", "2026, Jan 31", "2026, Jan 31 00:00", "2026, Jan 31 00:00:00.000000"])
def test_jobs_are_asked_for_by_function_and_time(start: str) -> None:
    client = Client(job_list={"jobs": [], "more": False})
    run(client, "jobs.list_jobs", search_function="pkg.*", start_time=start, end_time="2026-02-01T12:00")
    ((_verb, asked),) = client.asked
    assert asked["fun"] == "pkg.*"
    assert asked["until"] - asked["since"] == 36 * 3600


@pytest.mark.parametrize(
    ("fun", "given", "text"),
    [
        ("list_jobs", {"start_time": "soon"}, "'soon' is not a time: write it 2026-01-31"),
        ("list_jobs", {"search_metadata": "ticket"}, "Metadata to search for is a map"),
        ("last_run", {"metadata": ["ticket"]}, "Metadata to search for is a map"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(fun: str, given: dict[str, Any], text: str) -> None:
    outcome = run(Client(), f"jobs.{fun}", **given)
    assert outcome.retcode == 1
    assert text in outcome.value


TARGETS = [
    {"id": "web1", "state": "returned", "outcome": "ok"},
    {"id": "web2", "state": "returned", "outcome": "failed"},
    {"id": "web3", "state": "expired", "outcome": "missing"},
    {"id": "ssh:gate", "minion": "web1", "state": "returned", "outcome": "ok"},
    {"id": "ssh:web1", "minion": "web1", "state": "running", "outcome": "open"},
]
"""The id of the last resource is that of a minion, too."""


def stored(fun: str = "test.ping", signature: str = "") -> Client:
    def describe(**_asked: Any) -> dict[str, Any]:
        if not signature:
            raise CommandExecutionError("fred may not describe")
        return {"functions": {fun: {"signatures": [signature]}}}

    shown = {"job": {**job(0, fun), "jid": JID, "targets": TARGETS}}
    returns = {JID: {"web1": True, "web2": False, "gate": 1}}
    listed = {"jobs": [shown["job"]], "more": False}
    return Client(job_show=shown, returns=returns, describe=describe, job_list=listed)


def test_what_a_job_returned_is_looked_up_with_those_that_are_missing() -> None:
    returned = {"web1": True, "web2": False, "gate": 1}
    missing = dict.fromkeys(("web3", "ssh:web1"), "Minion did not return")
    assert run(stored(), "jobs.lookup_jid", JID).value == returned
    assert run(stored(), "jobs.lookup_jid", JID, missing=True).value == {**returned, **missing}
    assert run(stored(), "jobs.lookup_jid", JID, returned=False, missing=True).value == missing


def test_returns_are_printed_as_their_function_wants_it() -> None:
    client = stored("pkg.list", "pkg.list()>table")
    assert run(client, "jobs.lookup_jid", JID).value["outputter"] == "table"
    assert run(stored("pkg.list", "pkg.list()"), "jobs.lookup_jid", JID).value.keys() == {"web1", "web2", "gate"}


def test_one_job_is_shown_with_its_minions_and_results() -> None:
    said = run(stored(), "jobs.list_job", JID).value
    assert (said["jid"], said["Function"], said["Arguments"]) == (JID, "test.ping", [])
    assert said["Minions"] == ["gate", "ssh:web1", "web1", "web2", "web3"]
    assert said["Result"]["gate"] == {"return": 1, "retcode": 0, "success": True}
    del said["jid"]
    assert run(stored(), "jobs.print_job", JID).value == {JID: said}
    assert run(stored(), "jobs.last_run").value == {JID: said}


def test_there_is_no_last_run_of_what_never_ran() -> None:
    assert run(MIXED, "jobs.last_run", function="nosuch.*").value is False


def test_a_job_came_to_a_good_end_where_it_returned_without_an_error() -> None:
    good = {"web1": True, "web2": False, "web3": False, "gate": True, "ssh:web1": False}
    assert run(stored(), "jobs.exit_success", JID).value == good


def test_open_jobs_say_how_far_each_minion_is() -> None:
    (told,) = run(stored(), "jobs.active").value.values()
    assert told["Running"] == [{"ssh:web1": "running"}]
    assert (told["Returned"], told["Function"]) == (["web1", "web2", "ssh:gate"], "test.ping")


def test_a_list_comes_with_the_outputter_that_is_asked_for() -> None:
    value = run(MIXED, "jobs.list_jobs", outputter="pprint", limit=1).value
    assert value["outputter"] == "pprint"
    assert [jid[-1] for jid in value["data"]] == ["5"]
