"""Targets by values of pillar, of users who may not see pillars: guesses are paced as those of passwords are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.auth.logins import WRONG_AT_ONCE, WRONG_EVERY_S, guess_limiter
from saltlite.errors import NoTargetError, RefusedError, UsageError
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Answer
from saltlite.model.job import Target, TargetKind
from saltlite.platform.shared_memory import ROWS_OF_KEY, SharedFillTimes
from saltlite.targeting import wrong_pillar_values
from saltlite.targeting.banks import PILLAR
from tests.support.master import ROOT, MasterRig

FRED = Principal("fred", 1000)
GINA = Principal("gina", 1001)
PUBLISHER = {"fred": ["test.*"], "gina": ["test.ping", {"@runner": ["resource.match"]}]}
PING = ["test.ping", [], {}]


class PillarRig(MasterRig):
    """A master whose pillars have pins."""

    def __init__(self) -> None:
        granted = Granted(publisher=read_rules(PUBLISHER, "publisher_acl"))
        super().__init__("web1", "web2", "db1", granted=granted, nodegroups={"nobody": "I@pin:9999"})
        bank = self.master.banks.bank(PILLAR)
        bank.put("web1", {"pin": "1111", "role": "web"})
        bank.put("web2", {"pin": "2222", "role": "web"})
        bank.put("db1", {"pin": "3333", "role": "db"})

    def by(self, who: Principal, verb: str, **fields: Any) -> Answer:
        return handle_request(self.master, who, {"v": 1, "verb": verb, **fields})


@pytest.fixture
def rig() -> PillarRig:
    return PillarRig()


def guessed(rig: PillarRig, who: Principal, expression: str, verb: str = "describe", **fields: Any) -> str:
    """The sentence with which a target that asks for pillar is refused, "" when it is not."""
    more: dict[str, dict[str, Any]] = {
        "describe": {"funs": ["test.ping"]},
        "match": {},
        "acl_explain": {"user": who.label, "fun": "test.ping"},
    }
    if verb == "acl_explain":
        fields = {"args": [], "kwargs": {}, **fields}
    try:
        rig.by(who, verb, tgt=expression, tgt_type="compound", **more.get(verb, {}), **fields)
    except RefusedError as error:
        return str(error)
    except NoTargetError:
        pass
    return ""


WRONG_VALUES = [
    "I@pin:{}",
    "web1 and I@pin:{}",
    "I@pin:{} and web1",
    "web1 and not I@pin:{}",
    "not I@pin:{} and web1",
    "web1 or I@pin:{}",
    "not ( web* or I@pin:{} )",
]
"""None of these has a right value when no minion that it is asked of has it."""


@pytest.mark.parametrize("target", WRONG_VALUES)
def test_wrong_values_of_pillar_are_paced_as_wrong_passwords_are(rig: PillarRig, target: str) -> None:
    for number in range(WRONG_AT_ONCE):
        assert "wrong values" not in guessed(rig, GINA, target.format(f"9{number:03d}"))
    wait = f"gina .* has named too many wrong values of pillar: try again in {WRONG_EVERY_S:.0f} s"
    assert re.search(wait, guessed(rig, GINA, target.format("9999")))
    # The right one is refused as well: else the refusals would tell it. Others, and other targets, are not concerned.
    assert re.search(wait, guessed(rig, GINA, "I@pin:1111"))
    assert "wrong values" not in guessed(rig, FRED, "I@pin:9999")
    assert "wrong values" not in guessed(rig, GINA, "web1")
    rig.clock.advance(WRONG_EVERY_S)
    assert "wrong values" not in guessed(rig, GINA, "I@pin:1111")


@pytest.mark.parametrize("target", ["I@pin:1111", "web1 and I@pin:1111", "* and not I@role:db", "I@role:web and web2"])
def test_right_values_never_wait(rig: PillarRig, target: str) -> None:
    for _ in range(3 * WRONG_AT_ONCE):
        assert "wrong values" not in guessed(rig, GINA, target)


def test_a_value_that_another_minion_has_is_wrong_for_this_one(rig: PillarRig) -> None:
    for _ in range(WRONG_AT_ONCE):
        guessed(rig, GINA, "web1 and I@pin:2222")
    assert "too many wrong values" in guessed(rig, GINA, "web1 and I@pin:2222")


def test_who_may_see_pillars_is_not_paced(rig: PillarRig) -> None:
    for _ in range(3 * WRONG_AT_ONCE):
        assert not guessed(rig, ROOT, "I@pin:9999")


def test_values_of_nodegroups_are_no_guesses(rig: PillarRig) -> None:
    for _ in range(3 * WRONG_AT_ONCE):
        assert "wrong values" not in guessed(rig, GINA, "N@nobody or web1")


def test_many_guesses_in_one_target_are_refused_before_they_are_looked_at(rig: PillarRig) -> None:
    many = " or ".join(f"I@pin:{number:04d}" for number in range(1111, 1111 + WRONG_AT_ONCE + 1))
    assert "may target by 10 values of pillar at once, and not by 11" in guessed(rig, GINA, many)
    assert not guessed(rig, ROOT, many)


@pytest.mark.parametrize("verb", ["describe", "publish", "acl_explain", "match"])
def test_each_verb_with_a_target_counts(rig: PillarRig, verb: str) -> None:
    for number in range(WRONG_AT_ONCE):
        fields = {"request_id": f"{number:032x}", "calls": [PING]} if verb == "publish" else {}
        guessed(rig, GINA, "I@pin:9999", verb, **fields)
    assert "too many wrong values" in guessed(rig, GINA, "I@pin:9999")


def test_an_explanation_counts_what_is_wrong_of_whom_it_is_for(rig: PillarRig) -> None:
    """db1 has the value, so the target selects somebody; that web1 has it not is told, too."""
    target = Target("I@pin:3333", TargetKind.COMPOUND)
    assert wrong_pillar_values(target, rig.master.fleet) == 0
    assert wrong_pillar_values(target, rig.master.fleet, "web1") == 1
    assert wrong_pillar_values(target, rig.master.fleet, "db1") == 0


def test_a_target_that_is_given_up_counts_as_wrong(rig: PillarRig) -> None:
    """Whether the second term was looked at tells whether the first is true."""
    for _ in range(WRONG_AT_ONCE):
        with pytest.raises(UsageError):
            rig.by(GINA, "describe", tgt="I@pin:9999 and E@(a", tgt_type="compound", funs=["test.ping"])
    assert "too many wrong values" in guessed(rig, GINA, "I@pin:9999")


def test_an_explanation_that_is_asked_for_counts(rig: PillarRig) -> None:
    for _ in range(WRONG_AT_ONCE):
        guessed(rig, GINA, "I@pin:3333", "match", explain="web1")
    assert "too many wrong values" in guessed(rig, GINA, "I@pin:3333", "match", explain="web1")


def test_mworkers_count_together() -> None:
    fill_times, gina = SharedFillTimes(), ("pillar", "gina")
    one, two = guess_limiter(fill_times), guess_limiter(fill_times)
    one.spend(gina, 100.0, WRONG_AT_ONCE - 1)
    assert two.wait_s(gina, 100.0) == 0.0
    two.spend(gina, 100.0)
    assert one.wait_s(gina, 100.0) == pytest.approx(WRONG_EVERY_S)
    assert one.wait_s(("pillar", "fred"), 100.0) == one.wait_s(("file", "gina"), 100.0) == 0.0


def test_keys_that_share_a_row_are_told_apart_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.platform.shared_memory.ROWS", ROWS_OF_KEY)
    fill_times = SharedFillTimes()
    keys = [("pillar", f"user{number}") for number in range(ROWS_OF_KEY + 1)]
    for number, key in enumerate(keys):
        fill_times.put(key, 100.0 + number)
    assert [fill_times.get(key) for key in keys] == [0.0, *(101.0 + number for number in range(ROWS_OF_KEY))]
