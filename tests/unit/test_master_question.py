"""A publish that answers a question instead, where its user must consent or its arguments depend on signatures."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.client.arguments import parse_arguments
from saltlite.errors import RefusedError, SaltliteError, UncallableError
from saltlite.master.handlers.functions import AWAITED_S, FunctionSupport, depends_on_signature
from saltlite.master.handlers.minions import PresenceChange, notice
from saltlite.model.ids import MinionId
from saltlite.model.keys import fingerprint
from saltlite.model.signature import TYPES
from saltlite.platform.daemon import ManualClock
from saltlite.targeting.fleet import Selection
from saltlite.wire.job_body import FunctionCall
from tests.unit.test_master_functions import ROOT, Fleet

PING = "test.ping()"
INSTALL = "pkg.install(name:str|None=None,refresh:bool=False)"
REMOVE = "pkg.remove(name:str)!remove"
HALT = "system.halt()!reboot"
REQUEST_ID = "0" * 32


def publish(fleet: Fleet, *calls: list[Any], who: Principal = ROOT, **fields: Any) -> dict[str, Any]:
    fields = {"request_id": REQUEST_ID, "consent": [], "calls": list(calls), **fields}
    return fleet.ask("publish", who, **fields)


def test_what_needs_no_question_is_published_in_one_request() -> None:
    fleet = Fleet(a=[PING + ">txt"], b=[PING + ">txt"])
    answer = publish(fleet, ["test.ping", [], {}])
    assert (answer["minions"], answer["outputter"]) == (["a", "b"], "txt")
    assert fleet.link.published == ["test.ping"]
    again = publish(fleet, ["test.ping", [], {}])
    assert (again["jid"], again["outputter"]) == (answer["jid"], "txt")


def test_an_outputter_that_not_all_name_is_none() -> None:
    assert publish(Fleet(a=[PING + ">txt"], b=[PING]), ["test.ping", [], {}])["outputter"] == ""
    two = [["test.ping", [], {}], ["test.ping", [], {}]]
    assert publish(Fleet(a=[PING + ">txt"]), *two)["outputter"] == ""
    assert "outputter" not in Fleet(a=[PING]).ask("publish", request_id=REQUEST_ID, calls=[["test.ping", [], {}]])


def test_a_risk_without_consent_is_a_question_and_publishes_nothing() -> None:
    fleet = Fleet(a=[REMOVE, HALT], b=[REMOVE, HALT])
    calls = [["pkg.remove", ["vim"], {}], ["system.halt", [], {}]]
    for consent in ([], ["remove"], ["reboot"], ["REMOVE", "reboot"]):
        answer = publish(fleet, *calls, consent=consent)
        assert list(answer) == ["question"]
        assert answer["question"] == fleet.describe("pkg.remove", "system.halt")
    assert fleet.link.published == []
    assert publish(fleet, *calls, consent=["reboot", "remove"])["minions"] == ["a", "b"]


def test_consent_is_not_asked_to_a_call_that_no_target_can_run() -> None:
    fleet = Fleet(a=[REMOVE], b=[REMOVE])
    for call in (["pkg.remove", [], {}], ["pkg.remove", ["vim"], {"nme": 1}]):
        with pytest.raises(UncallableError, match=r"pkg\.remove.* Nothing was published\."):
            publish(fleet, call)
    assert "question" in publish(Fleet(a=[REMOVE], b=["pkg.remove()!remove"]), ["pkg.remove", [], {}])


def test_a_risk_that_one_of_many_reports_is_a_question() -> None:
    fleet = Fleet(a=[PING], b=[PING], c=[PING + "!remove"])
    assert "question" in publish(fleet, ["test.ping", [], {}])
    assert "question" not in publish(fleet, ["test.ping", [], {}], tgt="a")


def test_a_question_goes_before_subset_and_is_about_the_whole_target() -> None:
    fleet = Fleet(a=[HALT], b=[HALT], c=[HALT])
    assert publish(fleet, ["system.halt", [], {}], subset=1)["question"]["count"] == 3


@pytest.mark.parametrize(
    ("arguments", "asks"),
    [
        ([["vim"], {}], False),
        ([["vim"], {"refresh": True}], False),
        ([[None], {}], False),
        ([["vim"], {"refresh": 1}], True),
        ([[1.1], {}], True),
        ([["vim=1"], {}], True),
        ([[], {"name": 5}], True),
    ],
)
def test_words_that_signatures_could_change_are_a_question(arguments: list[Any], asks: bool) -> None:
    fleet = Fleet(a=[INSTALL], b=None)
    assert ("question" in publish(fleet, ["pkg.install", *arguments], untyped=True)) is asks
    assert fleet.link.published == ([] if asks else ["pkg.install"])


@pytest.mark.parametrize("call", [["m.f", [1.1], {}], ["m.f", ["text"], {}], ["system.halt", [], {}]])
def test_minions_that_have_just_connected_are_awaited_before_words_have_a_meaning_or_a_function_no_risk(
    call: list[Any],
) -> None:
    fleet = Fleet(a=["m.f(a)", "system.halt()"], new=None)
    fleet.master.present[MinionId("a")] = fleet.master.clock.wall()
    fleet.master.present[MinionId("new")] = fleet.master.clock.wall()
    assert publish(fleet, call, untyped=True)["question"]["awaited"] == 1
    assert fleet.describe(call[0])["awaited"] == 1
    assert "question" not in publish(fleet, call, untyped=True, tgt="a", request_id="1" * 32)
    cast("ManualClock", fleet.master.clock).advance(AWAITED_S)
    assert publish(fleet, call, untyped=True)["minions"]


def test_a_minion_that_connects_again_is_the_newest() -> None:
    fleet = Fleet(a=None, b=None)

    def connects(name: str) -> None:
        session = PresenceChange(MinionId(name), fingerprint(b"x" * 32), True, "1.2.3.4", "1", "b", "i", "", 1, 1)
        notice(fleet.master, [session], whole=False)
        cast("ManualClock", fleet.master.clock).advance(AWAITED_S)

    for name in ("a", "b", "a"):
        connects(name)
    assert list(fleet.master.present) == ["b", "a"]


def test_a_client_that_does_not_want_to_wait_for_reports_publishes() -> None:
    fleet = Fleet(new=None)
    fleet.master.present[MinionId("new")] = fleet.master.clock.wall()
    assert publish(fleet, ["m.f", [1.1], {}])["minions"] == ["new"]


def test_arguments_that_are_values_are_no_question() -> None:
    fleet = Fleet(a=["m.f(a:str)"])
    assert publish(fleet, ["m.f", [5], {}])["minions"] == ["a"]


# -- rights


def limited(fun: Any) -> tuple[Fleet, Principal]:
    fleet = Fleet(a=["m.f(a:str)", REMOVE])
    granted = Granted(publisher=read_rules({"amy": [fun]}, "publisher_acl", patterns=True))
    object.__setattr__(fleet.master.config, "granted", granted)
    return fleet, Principal("amy", 1000)


def test_arguments_are_authorised_as_they_are_when_they_are_typed() -> None:
    fleet, amy = limited({"m.f": {"args": ["v1"]}})
    # The rule is for the text "1" perhaps; only the signature says what the word is.
    assert "question" in publish(fleet, ["m.f", [1], {}], who=amy, untyped=True)
    for fields in ({}, {"untyped": True}):
        with pytest.raises(RefusedError, match="with these arguments"):
            publish(fleet, ["m.f", ["v2"], {}], who=amy, **fields)
    assert publish(fleet, ["m.f", ["v1"], {}], who=amy, untyped=True)["minions"] == ["a"]


def test_who_may_not_run_a_function_is_asked_nothing() -> None:
    fleet, amy = limited("m.f")
    with pytest.raises(RefusedError, match=r"pkg\.remove"):
        publish(fleet, ["pkg.remove", ["vim"], {}], who=amy, untyped=True)
    with pytest.raises(RefusedError):
        publish(fleet, ["m.f", ["x"], {}], who=Principal("eve", 1001))
    assert fleet.link.published == []


# -- one law: what is published without a question is what a client with the signatures would have published

_TYPE = st.lists(st.sampled_from(TYPES), unique=True, max_size=3).map("|".join)
_NAMES = ["a", "b", "c"]


@st.composite
def _signatures(draw: st.DrawFn) -> str:
    parts = []
    for name in draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=3)):
        kind = draw(_TYPE)
        parts.append(f"{name}:{kind}=None" if kind else f"{name}=None")
    if draw(st.booleans()):
        parts.append("*" + draw(st.sampled_from(["rest", "rest:str", "rest:int"])))
    if draw(st.booleans()):
        parts.append("**" + draw(st.sampled_from(["more", "more:str", "more:int"])))
    return f"m.f({','.join(parts)})"


_WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["1", "1.0", "1.5", "-3", "1e3", ".5", "true", "True", "yes", "0", "None", "null", "text", "", "'1'", "'x'",
             "a,b", "[1, 2]", "[a", "{x: 1}", "{x}", "0644", "1_000", "a=1", "b=true", "c=[1]", "a='1'", "d-e=1",
             "d.e=x", "a==b", "=", "z=1.0", "b=None", "99999999999999999999", '"q=1"'],
        ),
        st.text(max_size=4),
    ),
    max_size=4,
)  # fmt: skip


@given(st.lists(_signatures(), min_size=1, max_size=3, unique=True), _WORDS)
def test_words_mean_the_same_with_signatures_where_none_are_asked_for(signatures: list[str], words: list[str]) -> None:
    reported: dict[str, Any] = {f"m{number}": [text] for number, text in enumerate(signatures)}
    fleet = Fleet(**reported)
    minions = frozenset(MinionId(f"m{number}") for number in range(len(signatures)))
    try:
        args, kwargs = parse_arguments(words)
    except SaltliteError:
        return  # the client asks for a description first
    if not depends_on_signature(FunctionCall("m.f", args, kwargs), FunctionSupport(Selection(minions), fleet.master)):
        typed = parse_arguments(words, signatures)
        assert (typed, repr(typed)) == ((args, kwargs), repr((args, kwargs)))
