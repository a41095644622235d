"""The verbs `minions` and `key_list`: a page of the fleet or of its keys, narrowed and sorted, and what it reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest

from saltlite.errors import UsageError
from saltlite.master.handlers.keys import handle_decide
from saltlite.master.handlers.minions import FIGURES_KEPT_S
from saltlite.master.processes.context import LISTS_IDLE_S
from saltlite.master.store.ports import MinionRow
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState
from saltlite.model.minion import ABSENCES, KEY_ORDERS, KEY_STATES, ORDERS, STATES, natural
from tests.support.keys import NOW
from tests.support.master import MasterRig
from tests.support.store import had_sessions, key, row

FLEET = 60
SEEN = 50
"""Of these, so many had a session."""


@pytest.fixture(scope="module")
def rig() -> MasterRig:
    """Minions web0 to web59 in no order of anything else."""
    rig = MasterRig(*(f"web{number}" for number in range(FLEET)))
    rows = []
    for number in range(SEEN):
        made = row(MinionId(f"web{number}"), NOW + number * 7 % 13, version=f"1.{number % 12}")
        rows.append(made)
        if number % 3:
            rig.master.present[made.id] = NOW
    with rig.store.write() as tx:
        had_sessions(tx, rows)
    for number in (3, 30, 31):
        rig.register(f"web{number}", {"ssh": [f"host{number}-{one}" for one in range(number)]})
    return rig


def listed(rig: MasterRig, **fields: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = rig.ask("minions", **fields).fields["minions"]
    return rows


def value_of(one: dict[str, Any], field: str) -> Any:
    return (one[field] or 0) if field in ("last_seen", "resources") else natural(one[field])


@pytest.mark.parametrize("state", [None, *STATES])
@pytest.mark.parametrize("order", [*ORDERS, *(f"-{name}" for name in ORDERS)])
def test_a_list_is_narrowed_and_sorted_by_every_field(rig: MasterRig, order: str, state: str | None) -> None:
    name = order.removeprefix("-")
    narrowed = {} if state is None else {"state": state}
    found = listed(rig, sort=order, tgt="web*", **narrowed)
    expected = [one for one in listed(rig) if state in (None, one["state"])]
    expected.sort(key=lambda one: natural(one["id"]), reverse=order == "-id")
    expected.sort(key=lambda one: value_of(one, name), reverse=order != name)
    assert found == expected
    answer = rig.ask("minions", sort=order, offset=2, limit=3, **narrowed).fields
    assert (answer["minions"], answer["total"]) == (expected[2:5], len(expected))


def test_the_order_follows_new_keys(rig: MasterRig) -> None:
    before = [one["id"] for one in listed(rig, sort="id")]
    rig.add_keys("web5b")
    after = [one["id"] for one in listed(rig, sort="id")]
    assert after == [*before[:6], "web5b", *before[6:]]


@pytest.mark.parametrize("fields", [{"sort": "id"}, {"sort": "-resources"}, {"state": "up"}, {"tgt": "web1*"}])
def test_a_page_reads_its_own_rows_only(
    rig: MasterRig, fields: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Collection[MinionId] | None] = []
    minions = rig.store.minions

    def noted(among: Collection[MinionId] | None = None) -> list[MinionRow]:
        read.append(among)
        return minions(among)

    monkeypatch.setattr(rig.store, "minions", noted)
    rows = listed(rig, offset=2, limit=3, **fields)
    assert read == [[one["id"] for one in rows]]


def test_the_reason_of_an_absence_is_in_each_row_for_those_who_may_know_it() -> None:
    rig = MasterRig("up1", "away1", "away2", "never1")
    with rig.store.write() as tx:
        had_sessions(tx, [row(MinionId(name), NOW) for name in ("up1", "away1")])
        had_sessions(tx, [row(MinionId("away2"), NOW, end_reason="silent 50")])
    rig.master.present[MinionId("up1")] = NOW

    def reasons() -> dict[str, str]:
        return {one["id"]: one["reason"] for one in listed(rig)}

    expected = {"up1": "", "away1": ABSENCES["away"], "away2": "no heartbeat for 50 s", "never1": ABSENCES["never"]}
    assert reasons() == expected
    for name, state in (("up1", KeyState.CONFLICT), ("away2", KeyState.CONFLICT), ("never1", KeyState.PENDING)):
        with rig.store.write() as tx:
            tx.put_key(key(MinionId(name), state, n=1))
            tx.put_event("salt/auth", {}, NOW)
    away2, never1 = "no heartbeat for 50 s; another key in conflict", "never connected; another key is pending"
    assert reasons() == {**expected, "away2": away2, "never1": never1}


def test_a_machine_that_comes_with_another_id_is_the_reason_why_the_first_one_is_absent() -> None:
    rig = MasterRig("web1", "web2")
    known = key(MinionId("web1"))
    with rig.store.write() as tx:
        tx.put_key(known)
        had_sessions(tx, [row(MinionId("web1"), NOW, end_reason="stopped"), row(MinionId("web2"), NOW)])

    def presents(public: bytes, name: str) -> None:
        hello = {"id": name, "token": b""}
        handle_decide(rig.master, {"session": 1, "public": public, "address": "10.0.0.9", "hello": hello})

    def reasons() -> list[str]:
        return [one["reason"] for one in listed(rig)]

    presents(b"a stranger's key".ljust(32), "web2")
    assert reasons()[1] == "connection ended; another key in conflict"
    presents(known.public, "web9")
    assert reasons()[0] == "its machine has the id web9 now and was refused"


class Reads:
    """Counts how often the rows of minions and keys are read."""

    def __init__(self, rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("minion_values", "key_rows"):
            monkeypatch.setattr(rig.store, name, self._counted(getattr(rig.store, name)))

    def _counted(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.count += 1
            return read(*args)

        return counted


@pytest.mark.parametrize(
    ("verb", "fields", "tag"),
    [
        ("minions", {"sort": "-last_seen"}, "salt/presence/change"),
        ("minions", {"sort": "version"}, "salt/presence/change"),
        ("minions", {"sort": "id", "state": "away"}, "salt/presence/change"),
        ("key_list", {"limit": 3}, "salt/key"),
        ("key_list", {"sort": "address"}, "salt/auth"),
    ],
)
def test_rows_are_sorted_once_after_a_change(
    verb: str, fields: dict[str, Any], tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = MasterRig("web1", "web2")
    reads = Reads(rig, monkeypatch)

    def reads_again() -> bool:
        before = reads.count
        assert rig.ask(verb, **fields).fields["total"] >= 0
        return reads.count > before

    assert reads_again()
    assert not reads_again()
    rig.event("salt/job/20260101000000000000/new")
    assert not reads_again(), "events about something else change nothing"
    rig.event(tag)
    assert reads_again()
    rig.add_keys("web3")
    assert reads_again(), "the accepted keys have changed"
    rig.event("some/thing")
    rig.event("some/thing")
    with rig.store.write() as tx:
        tx.prune_events(10)
    rig.event("some/thing")
    assert reads_again(), "an event of a change may be among those that were pruned"
    rig.clock.advance(LISTS_IDLE_S)
    assert reads_again(), "lists that nobody asks for take no memory"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [({"sort": "height"}, "sorted by id, state"), ({"sort": "-"}, "sorted by"), ({"state": "dead"}, "is up, away")],
)
def test_an_unknown_order_or_state_is_refused(rig: MasterRig, fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        listed(rig, **fields)


def test_the_brief_status_counts_what_the_whole_one_lists(rig: MasterRig) -> None:
    whole = rig.ask("status").question
    brief = rig.ask("status", brief=True).question
    assert whole is not None
    assert brief is not None
    rows, counted = whole.fields(None), brief.fields(None)
    minions = rows.pop("minions")
    assert rows == counted
    for state in STATES:
        assert counted["counts"][state] == sum(one["state"] == state for one in minions)
    assert counted["versions"] == Counter(one["version"] for one in minions if one["version"])


def test_the_figures_of_a_brief_status_are_shared_for_a_moment_and_pending_keys_are_not() -> None:
    rig = MasterRig("web1")

    def counts(**fields: Any) -> dict[str, int]:
        question = rig.ask("status", **fields).question
        assert question is not None
        found: dict[str, int] = question.fields(None)["counts"]
        return found

    assert counts(brief=True)["never"] == 1
    rig.add_keys("web2")
    rig.add_keys("web3", state=KeyState.PENDING)
    assert counts(brief=True) == {"up": 0, "away": 0, "never": 1, "pending": 1}
    assert counts()["never"] == 2
    rig.add_keys("web4")
    rig.clock.advance(FIGURES_KEPT_S)
    assert counts(brief=True)["never"] == 3


# -- keys


@pytest.fixture(scope="module")
def keys() -> MasterRig:
    """Keys of web0 to web29, six in each state, in no order of anything else."""
    rig = MasterRig()
    states = [KeyState(name) for name in KEY_STATES]
    with rig.store.write() as tx:
        for number in range(30):
            changes: dict[str, Any] = {"address": f"10.0.0.{number % 4}", "first_seen": NOW + number * 7 % 11}
            tx.put_key(key(MinionId(f"web{number}"), states[number * 3 % 5], **changes))
    return rig


@pytest.mark.parametrize("state", ["", *KEY_STATES])
@pytest.mark.parametrize("order", [*KEY_ORDERS, *(f"-{name}" for name in KEY_ORDERS)])
def test_keys_are_narrowed_and_sorted_by_every_field(keys: MasterRig, order: str, state: str) -> None:
    name = order.removeprefix("-")
    expected = [one for one in keys.ask("key_list").fields["keys"] if state in ("", one["state"])]
    expected.sort(key=lambda one: natural(one["id"]), reverse=order == "-id")
    if name != "id":
        expected.sort(
            key=lambda one: KEY_STATES.index(one["state"]) if name == "state" else one[name], reverse=order != name
        )
    answer = keys.ask("key_list", sort=order, state=state, offset=2, limit=3).fields
    assert (answer["keys"], answer["total"]) == (expected[2:5], len(expected))
    assert answer["counts"] == dict.fromkeys(KEY_STATES, 6)


def test_keys_are_found_by_a_part_of_the_id_or_the_beginning_of_the_fingerprint(keys: MasterRig) -> None:
    found = keys.ask("key_list", search="b7").fields["keys"]
    assert [one["id"] for one in found] == ["web7"]
    assert keys.ask("key_list", search=found[0]["fingerprint"][:9].lower()).fields["keys"] == found


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [({"sort": "height"}, "sorted by state, id"), ({"state": "lost"}, "a key is pending, conflict")],
)
def test_an_unknown_order_or_state_of_keys_is_refused(keys: MasterRig, fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        keys.ask("key_list", **fields)
