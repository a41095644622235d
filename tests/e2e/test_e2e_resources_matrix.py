"""Whatever a target says, three sets are one: who is waited for, who executes, and who has returned."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from saltlite.model.plain import labels
from tests.support.fleet import Fleet, Said
from tests.support.resource_fleet import DUMMIES, DUMMIES_OF_MA, EVERYTHING, MINIONS, PROBES, Site

pytestmark = pytest.mark.e2e

NOTHING_MATCHED = 3
SHARED = ("dummy:shared", "probe:shared")

COMPOUND = {
    "T@dummy": DUMMIES,
    "T@dummy:dummy-01": ["dummy:dummy-01"],
    "T@dummy:": DUMMIES,
    "T@nosuch": [],
    "T@dummy:typo": [],
    "T@dummy:*": DUMMIES,
    "M@ma": ["ma"],
    "M@m*": MINIONS,
    "M@ma and T@dummy": DUMMIES_OF_MA,
    "T@dummy and not M@ma": ["dummy:dummy-11", "dummy:shared"],
    "T@dummy or T@probe": [*DUMMIES, *PROBES],
    "T@probe and G@role:probe": PROBES,
    "G@role:probe and not T@probe:p1": ["probe:p2", "probe:shared"],
    "* and T@dummy": DUMMIES,
    "T@dummy or mc": [*DUMMIES, "mc"],
    "T@dummy and G@site:lab": [],
    "mc or dummy-01": ["mc", "dummy:dummy-01"],
    "dummy-01": ["dummy:dummy-01"],
    "L@dummy-01,mc": ["dummy:dummy-01", "mc"],
    "not mc": ["ma", "mb"],
    "mc": ["mc"],
    "G@site:lab": MINIONS,
    "( T@dummy:dummy-01 or T@probe:p1 ) and not L@p1": ["dummy:dummy-01"],
    "N@ng_res": ["dummy:dummy-01"],
    "N@mixed and not mc": ["mb", "probe:p1", "probe:p2"],
    "G@who:mc and not S@203.0.113.0/24": ["mc"],  # a network that no test adds to this machine
    "I@role:mb-*": ["mb"],
    "E@^dummy-0": ["dummy:dummy-01", "dummy:dummy-02"],
    "T@dummy:web*": ["dummy:web-9"],
    "not T@dummy": MINIONS,
}

OTHERS = [
    ("", "*", EVERYTHING),
    ("", "m*", EVERYTHING),
    ("", "mc*", ["mc"]),
    ("", "mb*", ["mb", "dummy:dummy-11", "dummy:shared"]),
    ("", "ma", ["ma"]),
    ("", "dummy-01", ["dummy:dummy-01"]),
    ("", "shared", SHARED),
    ("", "probe:shared", ["probe:shared"]),
    ("", "web*", []),
    ("", "dummy-0?", []),
    ("-E", "mc", ["mc"]),
    ("-E", "^mc$", ["mc"]),
    ("-E", "dummy-0.", ["dummy:dummy-01", "dummy:dummy-02"]),
    ("-S", "127.0.0.1", MINIONS),
    ("-I", "role:ma-db", ["ma"]),
    ("-J", "role:m[bc]", ["mb", "mc"]),
    ("-G", "role:probe", PROBES),
    ("-G", "site:lab", MINIONS),
    ("-P", "rid:p[12]", ["probe:p1", "probe:p2"]),
    ("-N", "ng_res", ["dummy:dummy-01"]),
    ("-N", "edge", ["mb", "mc"]),
    ("-L", "mc,dummy-01,shared", ["mc", "dummy:dummy-01", *SHARED]),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    fleet = Fleet(tmp_path_factory.mktemp("matrix"))
    try:
        yield Site(fleet, *MINIONS)
    finally:
        fleet.close()


def check(site: Site, option: str, target: str, wanted: list[str]) -> None:
    """Run on that target; who is in the store, in the trace and in the output."""
    trace = site.trace()
    said = site.fleet.cli(
        *([option] if option else []), "--show-jid", "--out", "json", target, "trace.mark", str(trace)
    )
    if not wanted:
        assert (said.code, trace.read_text()) == (NOTHING_MATCHED, ""), said
        return
    assert said.code == 0, said
    executed = trace.read_text().split()
    waited_for = site.fleet.states(jid_of(said))
    assert sorted(executed) == sorted(waited_for) == sorted(wanted)
    names = labels([name for name in wanted if ":" not in name], [name for name in wanted if ":" in name])
    assert said.json() == {label: name for name, label in names.items()}


def jid_of(said: Said) -> str:
    found = re.search(r"\b\d{20}\b", said.err)
    assert found, said
    return found[0]


@pytest.mark.parametrize(("expression", "wanted"), COMPOUND.items(), ids=COMPOUND)
def test_a_compound_target_runs_on_whom_it_waits_for(site: Site, expression: str, wanted: list[str]) -> None:
    check(site, "-C", expression, list(wanted))


@pytest.mark.parametrize(("option", "target", "wanted"), OTHERS, ids=[f"{row[0]} {row[1]}".strip() for row in OTHERS])
def test_a_target_of_one_kind_runs_on_whom_it_waits_for(
    site: Site, option: str, target: str, wanted: list[str]
) -> None:
    check(site, option, target, list(wanted))
