"""Authorisation (S9): for every kind of principal and every verb the decision is the table; the rest is denied."""

from __future__ import annotations

import pytest

from saltlite.core.acl import OPERATOR_VERBS, Action, Principal, authorize
from saltlite.errors import RefusedError
from saltlite.master.handlers import operator_verbs
from saltlite.model.ids import MinionId

OPERATORS = frozenset({0, 990})
PRINCIPALS = {
    "root": (Principal("root", 0), True),
    "the user of the master": (Principal("saltlite", 990), True),
    "somebody": (Principal("mallory", 1000), False),
    "somebody called root": (Principal("root", 1000), False),
    "nobody": (Principal("nobody", 65534), False),
}
UNKNOWN = ["", "Publish", "publish ", "shutdown", "__class__", "hb"]


def allowed(principal: Principal, verb: str) -> bool:
    try:
        authorize(principal, Action(verb, "test.ping", (MinionId("web1"),)), OPERATORS)
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize("kind", PRINCIPALS)
@pytest.mark.parametrize("verb", sorted(OPERATOR_VERBS))
def test_operators_may_everything_and_others_nothing(kind: str, verb: str) -> None:
    principal, expected = PRINCIPALS[kind]
    assert allowed(principal, verb) is expected


@pytest.mark.parametrize("kind", PRINCIPALS)
@pytest.mark.parametrize("verb", UNKNOWN)
def test_a_verb_that_is_not_in_the_table_is_denied_to_everybody(kind: str, verb: str) -> None:
    assert not allowed(PRINCIPALS[kind][0], verb)


def test_without_operators_even_root_is_denied() -> None:
    with pytest.raises(RefusedError):
        authorize(Principal("root", 0), Action("publish"), frozenset())


def test_the_table_has_exactly_the_verbs_that_the_master_answers() -> None:
    assert set(operator_verbs.VERBS) == OPERATOR_VERBS


def test_the_refusal_says_who_may_not_do_what_and_the_way_out() -> None:
    with pytest.raises(RefusedError, match=r"mallory \(uid 1000\) may not job kill: run it as root"):
        authorize(Principal("mallory", 1000), Action("job_kill"), OPERATORS)
