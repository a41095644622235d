"""What the master says of functions, and which calls it refuses before anything is published."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.functions import SIGNATURES_MAX
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.handlers.results import Reported, TransientStates, store_reports
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.store.ports import FunctionSet, MinionRow
from saltlite.model.ids import Jid, MinionId
from saltlite.model.keys import KeyRecord, KeyState, fingerprint
from saltlite.model.signature import by_name
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.job_body import CALLS_MAX, FunctionCall, decode_body
from saltlite.wire.messages import functions_digest, functions_message
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import had_sessions

ROOT = Principal("root", 0)


class Link:
    """A link process that is told of jobs."""

    def __init__(self) -> None:
        self.published: list[str] = []

    def publish(self, job: Any, _proofs: Any) -> None:
        self.published.append(job.fun)


class Fleet:
    """A master with minions, each with the texts that it reported; None for one that never did."""

    def __init__(self, *, whole: bool = True, **minions: Sequence[str] | None) -> None:
        self.link = Link()
        config = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({0}))
        identity = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        self.master = Master(
            MemoryStore(), ManualClock(wall=NOW), identity, config, cast("Any", self.link), *inventory()
        )
        self._requests = itertools.count()
        with self.master.store.write() as store:
            for name, texts in minions.items():
                minion, public = MinionId(name), name.encode().ljust(32, b".")
                key = fingerprint(public)
                store.put_key(KeyRecord(minion, key, public, KeyState.ACCEPTED, "1.2.3.4", NOW, NOW, 1))
                digest = "" if texts is None else functions_digest(texts, whole=whole)
                if texts is not None:
                    store.put_functions(FunctionSet(digest, by_name(texts), whole=whole))
                had_sessions(store, [MinionRow(minion, key, "1.2.3.4", "1", "b", "i", digest, up=True, last_seen=NOW)])

    def ask(self, verb: str, principal: Principal = ROOT, **fields: Any) -> dict[str, Any]:
        request = {"v": 1, "verb": verb, "tgt": "*", "tgt_type": "glob", **fields}
        return handle_request(self.master, principal, request).fields

    def describe(self, *funs: str) -> dict[str, Any]:
        return self.ask("describe", funs=list(funs))

    def publish(self, *calls: tuple[str, list[Any], dict[str, Any]], tgt: str = "*") -> str:
        """Why it was refused, "" if it was published."""
        request_id = f"{next(self._requests):032x}"
        try:
            self.ask("publish", tgt=tgt, request_id=request_id, calls=[list(call) for call in calls])
        except UsageError as error:
            return str(error)
        return "" if self.link.published else "not told to the link process"


INSTALL = "pkg.install(name:str|None=None,refresh:bool=False)"
REMOVE = "pkg.remove(name:str)!remove"


def test_a_function_is_described_by_what_the_targeted_minions_reported() -> None:
    fleet = Fleet(a=[INSTALL, REMOVE], b=[INSTALL, REMOVE], c=[REMOVE], new=None)
    fleet.master.present[MinionId("a")] = NOW
    assert fleet.describe("pkg.install", "pkg.remove") == {
        "count": 4,
        "resources": 0,
        "away": 3,
        "awaited": 0,
        "functions": {
            "pkg.install": {
                "signatures": [INSTALL],
                "takers": [{"minions": 2, "of": 2, "one": "a"}],
                "risks": [],
                "missing": 1,
                "unknown": 1,
            },
            "pkg.remove": {
                "signatures": [REMOVE],
                "takers": [{"minions": 3, "of": 3, "one": "a"}],
                "risks": [{"risk": "remove", "minions": 3, "of": 3, "one": "a"}],
                "missing": 0,
                "unknown": 1,
            },
        },
    }


def test_only_targeted_minions_count() -> None:
    fleet = Fleet(a=[INSTALL], b=["pkg.install()"])
    answer = fleet.ask("describe", tgt="b", funs=["pkg.install"])
    assert answer["functions"]["pkg.install"]["signatures"] == ["pkg.install()"]


def test_different_signatures_and_risks_are_all_told() -> None:
    fleet = Fleet(a=["m.f(a)!x"], b=["m.f(b)!y"], c=["m.f!z"])
    known = fleet.describe("m.f")["functions"]["m.f"]
    assert set(known["signatures"]) == {"m.f(a)!x", "m.f(b)!y"}
    assert {risk["risk"] for risk in known["risks"]} == {"x", "y", "z"}
    assert known["unknown"] == 1


def test_what_one_minion_says_of_a_function_is_told_as_its_word() -> None:
    honest: dict[str, Any] = {f"web{number}": ["m.f(a)"] for number in range(50)}
    known = Fleet(**honest, evil1=["m.f(b)!x"]).describe("m.f")["functions"]["m.f"]
    assert known["risks"] == [{"risk": "x", "minions": 1, "of": 51, "one": "evil1"}]
    takers = dict(zip(known["signatures"], known["takers"], strict=True))
    assert takers["m.f(a)"] == {"minions": 50, "of": 51, "one": "web0"}
    assert takers["m.f(b)!x"]["one"] == "evil1"


def test_minions_that_did_not_name_all_their_functions_may_have_any() -> None:
    known = Fleet(whole=False, a=[INSTALL]).describe("m.f")["functions"]["m.f"]
    assert (known["missing"], known["unknown"]) == (0, 1)


def test_an_answer_holds_so_many_signatures_and_counts_the_rest_as_unknown() -> None:
    minions = {f"m{number}": [f"m.f(p{number})"] for number in range(SIGNATURES_MAX + 2)}
    known = Fleet(whole=True, **minions).describe("m.f")["functions"]["m.f"]
    assert (len(known["signatures"]), known["unknown"]) == (SIGNATURES_MAX, 2)


@pytest.mark.parametrize("funs", [[], ["a.b"] * (CALLS_MAX + 1), ["a"], ["a.b,c.d"], [7]])
def test_describe_takes_the_functions_of_one_job(funs: list[Any]) -> None:
    with pytest.raises(UsageError):
        Fleet(a=[]).ask("describe", funs=funs)


def test_describe_is_for_operators() -> None:
    with pytest.raises(RefusedError):
        Fleet(a=[]).ask("describe", Principal("guest", 1000), funs=["a.b"])


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ([], {"refesh": True}, "pkg.install has no argument 'refesh' (did you mean 'refresh'?): pkg.install("),
        (["vim", False, 1], {}, "pkg.install takes at most 2 positional arguments, not 3"),
        (["vim"], {"name": "nano"}, "pkg.install is given 'name' twice"),
    ],
)
def test_a_call_that_no_minion_can_take_is_refused_with_its_signature(
    args: list[Any], kwargs: dict[str, Any], reason: str
) -> None:
    refusal = Fleet(a=[INSTALL], b=[INSTALL]).publish(("pkg.install", args, kwargs))
    assert reason in refusal
    assert refusal.endswith("pkg.install(name: str | None = None, refresh: bool = False). Nothing was published.")


def test_a_missing_argument_is_named() -> None:
    assert "pkg.remove needs 'name'" in Fleet(a=[REMOVE]).publish(("pkg.remove", [], {}))


def test_a_function_that_nobody_has_is_refused_with_the_near_name() -> None:
    refusal = Fleet(a=[INSTALL]).publish(("pkg.instal", [], {}))
    assert refusal == (
        "none of the targeted minions has 'pkg.instal'; did you mean pkg.install? Nothing was published."
    )


def test_the_misfit_is_told_rather_than_that_some_lack_the_function() -> None:
    refusal = Fleet(a=[], b=[REMOVE]).publish(("pkg.remove", [], {}))
    assert refusal.startswith("pkg.remove needs 'name'")


@pytest.mark.parametrize(
    "other",
    [
        ["m.f(a,b)"],
        ["m.f(*args)"],
        ["m.f"],
        ["m.f!risk"],
        None,
    ],
)
def test_a_call_that_one_minion_may_take_is_published(other: list[str] | None) -> None:
    assert Fleet(a=["m.f(a)"], b=other).publish(("m.f", [1, 2], {})) == ""


def test_a_call_is_judged_by_the_targeted_minions_only() -> None:
    fleet = Fleet(a=["m.f(a)"], b=["m.f(a,b)"])
    assert "takes at most 1" in fleet.publish(("m.f", [1, 2], {}), tgt="a")
    assert fleet.publish(("m.f", [1, 2], {}), tgt="b") == ""


def test_one_misfit_refuses_the_whole_compound_job() -> None:
    fleet = Fleet(a=["m.f(a)", "m.g()"])
    assert "m.g takes no positional argument" in fleet.publish(("m.f", [1], {}), ("m.g", [1], {}))
    assert fleet.link.published == []
    assert fleet.publish(("m.f", [1], {}), ("m.g", [], {})) == ""


def test_functions_beyond_what_a_minion_could_report_are_not_refused() -> None:
    assert Fleet(whole=False, a=["m.f(a)"]).publish(("m.g", [1], {})) == ""


def test_functions_that_a_minion_reports_anew_take_the_place_of_its_earlier_ones() -> None:
    fleet = Fleet(a=["m.f(a)"], b=["m.f(a)"])
    message = functions_message(["m.f(a,b)", "m.g()"], whole=True)
    key = fingerprint(b"a".ljust(32, b"."))
    store_reports(fleet.master, [Reported(MinionId("a"), key, dict(message), None)], TransientStates())
    known = fleet.describe("m.f", "m.g")["functions"]
    assert set(known["m.f"]["signatures"]) == {"m.f(a)", "m.f(a,b)"}
    assert known["m.g"]["missing"] == 1


SHADOW = "shadow.set_password(name:str,password:str)"


def look(fleet: Fleet, verb: str, **fields: Any) -> dict[str, Any]:
    return handle_request(fleet.master, ROOT, {"v": 1, "verb": verb, **fields}).fields


def shown(fleet: Fleet, *call: Any) -> tuple[list[Any], bool]:
    """A call as `job show` has it, and whether it says that something is hidden."""
    assert fleet.publish(cast("Any", call)) == ""
    row = look(fleet, "job_list", limit=1, whole=True)["jobs"][0]
    job = look(fleet, "job_show", jid=row["jid"])["job"]
    assert row["calls"] == job["calls"]
    return job["calls"][0][1:], "hides" in job


def test_an_argument_whose_parameter_is_for_a_secret_is_shown_to_nobody() -> None:
    fleet = Fleet(a=[SHADOW], b=["shadow.set_password(*args)"], c=None)
    by_place = shown(fleet, "shadow.set_password", ["fred", "hunter2"], {})
    assert by_place == ([["fred", "***"], {}], True)
    assert shown(fleet, "shadow.set_password", ["fred"], {"password": "hunter2"}) == (
        [["fred"], {"password": "***"}],
        True,
    )
    assert shown(fleet, "shadow.set_password", ["fred"], {}) == ([["fred"], {}], False)


def test_what_runs_has_the_secret() -> None:
    fleet = Fleet(a=[SHADOW])
    shown(fleet, "shadow.set_password", ["fred", "hunter2"], {})
    job = fleet.master.store.job(Jid(look(fleet, "job_list")["jobs"][0]["jid"]))
    assert job is not None
    assert decode_body(job.body).calls == (FunctionCall("shadow.set_password", ["fred", "hunter2"], {}, [1]),)


def test_a_signature_that_nobody_reported_hides_by_the_names_of_keywords_alone() -> None:
    fleet = Fleet(a=None)
    assert shown(fleet, "m.f", ["hunter2"], {"https_pass": "x"}) == ([["hunter2"], {"https_pass": "***"}], True)


def test_one_minion_of_several_hides_nothing_by_what_it_says_of_a_function() -> None:
    honest = ["cmd.run(cmd:str)"]
    fleet = Fleet(web1=honest, web2=honest, evil=["cmd.run(password)"])
    assert shown(fleet, "cmd.run", ["rm -r /x"], {}) == ([["rm -r /x"], {}], False)
