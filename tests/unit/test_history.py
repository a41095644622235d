"""The check of histories: each guarantee is broken on purpose, and exactly that is found.

A hand-written run of two minions keeps every promise; each test changes one thing in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.guarantees import Event, GuaranteeChecker, History, check, report

JID = "20270115080000000001"
OTHER = "20270115080000000002"

Rows = list[tuple[str, dict[str, Any]]]


def good_run() -> Rows:
    """One job on two minions, followed by one client to its end."""
    rows: Rows = [
        ("asked", {"client": "c1", "request": "r1"}),
        ("published", {"client": "c1", "request": "r1", "jid": JID, "minions": ["web1", "web2"]}),
    ]
    for number, minion in enumerate(("web1", "web2"), start=1):
        rows += [
            ("received", {"jid": JID, "minion": minion}),
            ("entered", {"jid": JID, "minion": minion, "run": minion}),
            ("left", {"jid": JID, "minion": minion, "run": minion}),
            ("spooled", {"jid": JID, "minion": minion, "digest": minion}),
            ("stored", {"jid": JID, "minion": minion, "sender": minion, "state": "returned"}),
            ("shown", {"client": "c1", "jid": JID, "minion": minion, "seq": number}),
        ]
    return [*rows, ("closed", {"client": "c1", "jid": JID, "missing": []}), ("final", final())]


def final(**changes: Any) -> dict[str, Any]:
    """What the store holds of that job at the end."""
    fields: dict[str, Any] = {
        "jid": JID,
        "request": "r1",
        "targets": {"web1": "returned", "web2": "returned"},
        "returns": {"web1": 1, "web2": 1},
        "digests": {"web1": "web1", "web2": "web2"},
    }
    return fields | changes


def history_of(rows: Rows) -> History:
    ticks = iter(range(len(rows) + 1))
    history = History(lambda: float(next(ticks)))
    for kind, fields in rows:
        history.note(kind, **fields)
    return history


def broken(rows: Rows) -> list[str]:
    """The guarantees that this run breaks."""
    return [violation.guarantee for violation in check(history_of(rows))]


def without(kind: str, minion: str = "") -> Rows:
    """The good run, less the events of that kind (of that minion)."""
    return [row for row in good_run() if row[0] != kind or (minion and row[1].get("minion") != minion)]


def with_before(kind: str, *added: tuple[str, dict[str, Any]]) -> Rows:
    """The good run, with events put in front of the first one of that kind."""
    rows = good_run()
    at = next(i for i, row in enumerate(rows) if row[0] == kind)
    return [*rows[:at], *added, *rows[at:]]


def with_final(**changes: Any) -> Rows:
    return [*without("final"), ("final", final(**changes))]


def test_a_run_that_keeps_every_promise_has_no_violation() -> None:
    assert broken(good_run()) == []


def test_a_published_job_that_the_store_does_not_have_breaks_g1() -> None:
    assert broken(without("final")) == ["G1"]


def test_a_target_that_vanished_breaks_g1() -> None:
    rows = without("final", "nobody")
    rows = [row for row in rows if row[0] in ("asked", "published")]
    assert broken([*rows, ("final", final(targets={"web1": "expired"}, returns={}))]) == ["G1"]


def test_a_request_with_two_jobs_breaks_g2() -> None:
    again = ("published", {"client": "c1", "request": "r1", "jid": OTHER, "minions": ["web1", "web2"]})
    other = ("final", final(jid=OTHER, request="r1", targets={"web1": "expired", "web2": "expired"}, returns={}))
    assert set(broken([*with_before("received", again), other])) == {"G2"}


def test_a_job_that_a_request_made_and_nobody_was_told_of_breaks_g2() -> None:
    lost = ("final", final(jid=OTHER, targets={"web1": "expired", "web2": "expired"}, returns={}))
    assert broken([*good_run(), lost]) == ["G2"]


def test_a_jid_of_two_requests_breaks_g2() -> None:
    again = ("published", {"client": "c2", "request": "r2", "jid": JID, "minions": ["web1", "web2"]})
    assert broken(with_before("received", again)) == ["G2"]


def test_a_job_that_reaches_another_minion_breaks_g3() -> None:
    assert broken(with_before("left", ("received", {"jid": JID, "minion": "db1"}))) == ["G3"]


def test_a_job_that_reaches_another_minion_before_it_was_published_breaks_g3() -> None:
    assert broken(with_before("published", ("received", {"jid": JID, "minion": "db1"}))) == ["G3"]


def test_a_job_that_no_store_ever_had_breaks_g3() -> None:
    assert broken([*good_run(), ("received", {"jid": OTHER, "minion": "web1"})]) == ["G3"]


def test_a_second_entry_breaks_g4() -> None:
    assert broken(with_before("closed", ("entered", {"jid": JID, "minion": "web1", "run": "again"}))) == ["G4"]


def test_an_entry_after_the_disk_died_is_another_life() -> None:
    again = ("entered", {"jid": JID, "minion": "web1", "run": "again"})
    assert broken(with_before("closed", ("lost_disk", {"minion": "web1"}), again)) == []


def test_a_target_that_never_ends_breaks_g5() -> None:
    rows = [row for row in good_run() if row[0] in ("asked", "published", "received")]
    assert broken([*rows, ("final", final(targets={"web1": "running", "web2": "expired"}, returns={}))]) == ["G5"]


def test_two_different_ends_break_g5() -> None:
    second = ("stored", {"jid": JID, "minion": "web1", "sender": "", "state": "lost"})
    assert broken(with_before("closed", second)) == ["G5"]


@pytest.mark.parametrize("state", ["expired", "refused"])
def test_a_job_that_ran_and_is_filed_as_one_that_did_not_breaks_g5(state: str) -> None:
    rows = [row for row in good_run() if row[0] in ("asked", "published") or row[1].get("minion") == "web1"]
    rows = [row for row in rows if row[0] not in ("spooled", "stored", "shown")]
    assert broken([*rows, ("final", final(targets={"web1": state, "web2": "expired"}, returns={}))]) == ["G5"]


def test_a_result_that_no_store_has_breaks_g6() -> None:
    rows = [row for row in good_run() if row[0] not in ("stored", "shown", "closed", "final")]
    lost = final(returns={"web1": 1}, targets={"web1": "returned", "web2": "cancelled"}, digests={"web1": "web1"})
    assert broken([*rows, ("final", lost)]) == ["G6"]


def test_a_result_that_came_back_as_another_one_breaks_g6() -> None:
    assert broken(with_final(digests={"web1": "web1", "web2": "something else"})) == ["G6"]


@pytest.mark.parametrize("excuse", ["disk", "key"])
def test_a_result_may_be_lost_with_its_disk_or_its_key(excuse: str) -> None:
    rows = [row for row in good_run() if row[0] not in ("stored", "shown", "closed", "final")]
    state = "lost" if excuse == "disk" else "revoked"
    lost = final(returns={"web1": 1}, targets={"web1": "returned", "web2": state}, digests={"web1": "web1"})
    dead: Rows = [("lost_disk", {"minion": "web2"})] if excuse == "disk" else []
    assert broken([*rows, *dead, ("final", lost)]) == []


def test_two_rows_of_one_return_break_g7() -> None:
    assert broken(with_final(returns={"web1": 2, "web2": 1})) == ["G7"]


def test_a_return_that_is_stored_twice_breaks_g7() -> None:
    again = ("stored", {"jid": JID, "minion": "web1", "sender": "web1", "state": "returned"})
    assert broken(with_before("closed", again)) == ["G7"]


def test_a_return_that_is_shown_twice_breaks_g7() -> None:
    assert broken(with_before("closed", ("shown", {"client": "c1", "jid": JID, "minion": "web1", "seq": 3}))) == ["G7"]


def test_a_return_that_a_follower_never_sees_breaks_g7() -> None:
    assert broken(without("shown", "web1")) == ["G7"]


def test_a_return_that_was_shown_and_is_gone_breaks_g7() -> None:
    rows = [row for row in without("final") if row[0] not in ("stored", "spooled")]
    assert broken([*rows, ("final", final(returns={"web1": 1}))]) == ["G7"]


def test_a_return_filed_under_another_name_breaks_g8() -> None:
    rows = good_run()
    for kind, fields in rows:
        if kind == "stored" and fields["minion"] == "web1":
            fields["sender"] = "db1"
    assert broken(rows) == ["G8"]


def test_a_return_of_a_minion_that_was_no_target_breaks_g8() -> None:
    foreign = ("stored", {"jid": JID, "minion": "db1", "sender": "db1", "state": "returned", "ret": True})
    rows = [row for row in with_before("closed", foreign) if row[0] not in ("closed", "final")]
    assert broken([*rows, ("final", final(returns={"web1": 1, "web2": 1, "db1": 1}))]) == ["G8", "G8"]


def test_a_stored_return_that_a_client_calls_missing_breaks_g9() -> None:
    rows = without("shown", "web2")
    rows = [row for row in rows if row[0] not in ("closed", "final")]
    closed = ("closed", {"client": "c1", "jid": JID, "missing": ["web2"]})
    assert broken([*rows, closed, ("final", final())]) == ["G9"]


def test_a_return_that_came_after_the_client_had_closed_may_be_missing_there() -> None:
    rows = [row for row in without("shown", "web2") if row[0] not in ("closed", "final")]
    at = next(i for i, row in enumerate(rows) if row[0] == "stored" and row[1]["minion"] == "web2")
    closed = ("closed", {"client": "c1", "jid": JID, "missing": ["web2"]})
    assert broken([*rows[:at], closed, *rows[at:], ("final", final())]) == []


def test_a_return_that_was_stored_while_the_last_answer_was_on_its_way_may_be_missing() -> None:
    rows = [row for row in without("shown", "web2") if row[0] not in ("closed", "final")]
    stored_at = next(i for i, row in enumerate(rows) if row[0] == "stored" and row[1]["minion"] == "web2")
    for asked_at, guarantees in ((stored_at - 0.5, []), (stored_at + 0.5, ["G9"])):
        closed = ("closed", {"client": "c1", "jid": JID, "missing": ["web2"], "asked_at": asked_at})
        assert broken([*rows, closed, ("final", final())]) == guarantees


def test_what_can_be_known_at_once_is_said_at_once() -> None:
    checker = GuaranteeChecker()
    entered = {"jid": JID, "minion": "web1", "run": "1"}
    assert list(checker.feed(Event(1.0, "entered", entered))) == []
    assert [violation.guarantee for violation in checker.feed(Event(2.0, "entered", entered))] == ["G4"]


def test_a_history_is_the_same_after_it_was_saved(tmp_path: Path) -> None:
    history = history_of(good_run())
    history.save(tmp_path / "history.jsonl")
    assert History.load(tmp_path / "history.jsonl").events == history.events


def test_the_report_names_the_guarantee_and_shows_the_events() -> None:
    text = report(check(history_of(without("final"))))
    assert text.startswith("G1: ")
    assert "published" in text
