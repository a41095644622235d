"""Who may little, asking in every way that there is: no lowstate is worth more than the rights of its caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.served import serve
from tests.support.api import Api
from tests.support.fleet import Fleet

pytestmark = pytest.mark.e2e

CLIENTS = ["local", "local_async", "local_batch", "local_subset"]
FUNCTIONS = [
    "test.ping",
    "test.echo",
    "cmd.run",
    "saltutil.running",
    "grains.items",
    "test.ping,cmd.run",
    " cmd.run",
    "sys.doc",
]
TARGETS = [
    "a",
    "b",
    "*",
    "a,b",
    "a or b",
    "a or L@b",
    "* and not a",
    "E@.*",
    "[ab]",
    "b or a",
    "not b",
    "G@id:b",
    "id:b",
    ".*",
]
KINDS = ["glob", "list", "pcre", "compound", "grain", "grain_pcre", "pillar", "nodegroup", "ipcidr", "range", None]
OTHERS = [
    *({"client": "runner", "fun": fun} for fun in ("salt.execute", "manage.up", "jobs.list_jobs", "no.such")),
    *({"client": "runner_async", "fun": fun} for fun in ("salt.execute", "jobs.lookup_jid")),
    *({"client": "wheel", "fun": fun} for fun in ("key.list_all", "key.token_create")),
]
MARKED = {"__kwarg__": True, "fun": "cmd.run", "tgt": "b"}

functions: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(FUNCTIONS),
    st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=3),
    st.just([["cmd.run"]]),
    st.just({"cmd.run": []}),
)
arguments: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.sampled_from(["id", "fun=cmd.run", ["id"], [["id"], ["id"]], [[], ["id"], []], [MARKED], {"fun": "cmd.run"}]),
)
cores = st.fixed_dictionaries(
    {
        "client": st.sampled_from(CLIENTS),
        "fun": functions,
        "tgt": st.one_of(st.sampled_from(TARGETS), st.lists(st.sampled_from(["a", "b", "*", "a,b"]), max_size=3)),
    },
    optional={"tgt_type": st.sampled_from(KINDS), "arg": arguments},
)
EXTRAS: list[dict[str, Any]] = [
    {"expr_form": "list"},
    {"kwarg": {"tgt": "b", "fun": "cmd.run"}},
    {"kwarg": {"__kwarg__": True}},
    {"batch": 1},
    {"batch": "50%", "batch_wait": 0.01},
    {"subset": 1},
    {"full_return": True},
    {"timeout": 1},
    {"ret": "json_file"},
    {"module_executors": ["sudo"]},
    {"module_executors": "[direct_call]"},
    {"executor_opts": {"sudo_user": "root"}},
    {"token": "0" * 64},
    {"username": "admin"},
    {"user": "root"},
    {"jid": "20260101000000000000"},
]
lowstates = st.builds(dict.__or__, cores, st.one_of(st.just({}), st.sampled_from(EXTRAS)))
fields = st.fixed_dictionaries(
    {},
    optional={
        "arg": st.just([]),
        "full_return": st.booleans(),
    },
)
others = st.builds(dict.__or__, st.sampled_from(OTHERS), fields)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet of `a`, on which `fred` may run test functions, and `b`, on which he may nothing."""
    with serve(tmp_path_factory.mktemp("widening"), requests_per_address=10_000) as both:
        yield both


@pytest.fixture(scope="module")
def fred(served: tuple[Fleet, str]) -> Api:
    """The API on his behalf."""
    return Api(served[1]).log_in("fred")


def test_no_lowstate_is_worth_more_than_the_rights_of_its_caller(served: tuple[Fleet, str], fred: Api) -> None:
    done: list[int] = []

    @settings(max_examples=800, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(lowstates, min_size=1, max_size=2), st.sampled_from(["/", "/minions", "/run"]))
    def ask(rows: list[dict[str, Any]], path: str) -> None:
        if path == "/run":
            rows = [{**row, "token": fred.token} for row in rows]
        answer = fred.post(path, rows)
        assert answer.status in (200, 202, 400, 401, 403), answer
        if answer.status in (200, 202):
            done.append(answer.status)
            # A text is an error, as in Salt's answers.
            for returned in (one for one in answer.json()["return"] if isinstance(one, dict)):
                assert {"a"} >= set(returned.get("minions", returned)), (rows, answer)

    ask()
    assert len(done) > 20, "hardly anything was allowed: this shows nothing"
    admin = Api(served[1]).log_in("admin")
    own = {jid: row for jid, row in admin.get("/jobs").json()["return"][0].items() if row["User"] == "file:fred"}
    assert {fun.partition(".")[0] for row in own.values() for fun in row["Function"].split(",")} == {"test"}
    assert {tuple(admin.get(f"/jobs/{jid}").json()["info"][0]["Minions"]) for jid in own} == {("a",)}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(others)
def test_no_runner_and_no_wheel_function_is_open_to_who_was_granted_none(fred: Api, row: dict[str, Any]) -> None:
    assert fred.post("/", row).status == 403
