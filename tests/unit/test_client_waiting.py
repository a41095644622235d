"""What is known of a job, how long to wait for more, and what is told at the end."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.cli.outcome import exit_code, missing_lines, open_minions
from saltlite.client.waiting import Progress, Published
from saltlite.errors import RemoteProtocolError

TIMEOUT_S = 5.0


def progress(*minions: str, away: dict[str, float | None] | None = None) -> Progress:
    answer = {"jid": "2" * 20, "minions": list(minions), "away": away or {}, "unknown": {}, "timeout_s": TIMEOUT_S}
    return Progress(Published(answer), now=100.0)


def moved(minion: str, state: str, reason: str = "") -> dict[str, Any]:
    return {"seq": 1, "states": [{"id": minion, "state": state, "reason": reason}], "returns": []}


def returned(minion: str, value: object = True, *, retcode: int = 0, state: str = "returned") -> dict[str, Any]:
    row = {
        "id": minion,
        "state": state,
        "retcode": retcode,
        "body": msgpack.packb(value),
        "reason": "",
        "seq": 2,
    }
    return {"seq": 2, "states": [], "returns": [row]}


def test_a_silent_minion_is_waited_for_until_the_timeout_since_the_publish() -> None:
    job = progress("web1")
    assert [job.patience_s(TIMEOUT_S, now=now) for now in (100.0, 103.0, 105.0, 200.0)] == [
        5.0,
        2.0,
        0.0,
        0.0,
    ]


@pytest.mark.parametrize("state", ["received", "running"])
def test_a_minion_that_has_the_job_is_waited_for_without_limit(state: str) -> None:
    job = progress("web1", "web2")
    job.apply(moved("web1", state), now=101.0)
    assert job.patience_s(TIMEOUT_S, now=9000.0) is None


def test_any_news_of_the_job_starts_the_timeout_again() -> None:
    job = progress("web1", "web2")
    job.apply(returned("web1"), now=104.0)
    assert job.patience_s(TIMEOUT_S, now=105.0) == 4.0


def test_a_repeated_message_is_no_news() -> None:
    job = progress("web1", "web2")
    job.apply(returned("web1"), now=104.0)
    assert job.apply(returned("web1"), now=108.0) == []
    assert job.patience_s(TIMEOUT_S, now=108.0) == 1.0


def test_a_job_that_the_master_calls_ended_is_not_waited_for() -> None:
    job = progress("web1")
    job.apply({"seq": 3, "end": True}, now=100.0)
    assert job.patience_s(TIMEOUT_S, now=100.0) == 0.0


def test_a_return_whose_state_came_first_is_waited_for() -> None:
    job = progress("web1")
    job.apply(moved("web1", "returned"), now=100.0)
    assert job.patience_s(TIMEOUT_S, now=900.0) is None


def test_states_only_move_forward_and_the_first_end_stays() -> None:
    job = progress("web1")
    for state in ("running", "received", "queued", "timed_out", "returned", "running"):
        job.apply(moved("web1", state), now=100.0)
    assert job.states == {"web1": "timed_out"}


def test_a_return_is_given_out_once_with_its_value() -> None:
    job = progress("web1")
    replies = [*job.apply(returned("web1", {1: b"x"}), now=100.0), *job.apply(returned("web1", 2), now=101.0)]
    assert [(reply.id, reply.value) for reply in replies] == [("web1", {1: b"x"})]


@pytest.mark.parametrize(
    "message",
    [
        {"returns": [{"id": "web1"}]},
        {"returns": [{"id": "web1", "state": "returned", "retcode": 0, "body": b"\xc1"}]},
        {"returns": [{"id": "web1", "state": "returned", "retcode": 0, "body": b"\xd4\x05\x00"}]},
        {"returns": [{"id": "web1", "state": "returned", "retcode": 0, "body": b"\x81\x90\x00"}]},
        {"states": [{"state": "running"}]},
        {"states": 3},
        {"seq": "x"},
    ],
)
def test_a_message_that_breaks_the_protocol_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match="bad-"):
        progress("web1").apply(message, now=100.0)


def test_an_answer_to_publish_without_its_fields_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="bad-answer"):
        Published({"jid": "1"})


@pytest.mark.parametrize(
    ("state", "code", "line"),
    [
        ("queued", 5, "web1: did not acknowledge the job within 5s"),
        ("received", 5, "web1: has the job and did not start it yet: why"),
        ("running", 5, "web1: still running: why"),
        ("refused", 6, "web1: refused the job: why"),
        ("expired", 5, "web1: not reached before the delivery time was over: why"),
        ("cancelled", 4, "web1: why"),
        ("timed_out", 4, "web1: why"),
        ("interrupted", 4, "web1: why"),
        ("lost", 5, "web1: why"),
        ("revoked", 5, "web1: why"),
        ("returned", 5, "web1: returned, but the master does not have the return"),
    ],
)
def test_every_state_that_is_no_return_is_told_and_has_its_exit_code(state: str, code: int, line: str) -> None:
    job = progress("web1")
    job.apply(moved("web1", state, "why"), now=100.0)
    assert (exit_code(job), missing_lines(job, waited_s=5.2, now=0.0)) == (code, [line])


def test_a_listed_name_that_no_minion_has_is_told_and_counts_as_missing() -> None:
    unknown = {"gone": "its key is pending"}
    answer = {"jid": "2" * 20, "minions": ["web1"], "away": {}, "timeout_s": 5.0, "unknown": unknown}
    job = Progress(Published(answer), now=100.0)
    job.apply(moved("web1", "cancelled", "why"), now=100.0)
    assert missing_lines(job, waited_s=5.0, now=0.0) == ["gone: its key is pending", "web1: why"]
    assert exit_code(job) == 4


def test_a_minion_without_a_session_is_told_apart_from_a_silent_one() -> None:
    job = progress("web1", "web2", "web3", away={"web1": 1000.0, "web2": None})
    assert missing_lines(job, waited_s=5.0, now=1250.0) == [
        "web1: not connected (last seen 4m ago)",
        "web2: never connected",
        "web3: did not acknowledge the job within 5s",
    ]


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([returned("a"), returned("b")], 0),
        ([returned("a"), returned("b", retcode=2)], 4),
        ([returned("a")], 5),
        ([returned("a", retcode=1)], 4),
        ([returned("a", retcode=1), moved("b", "refused")], 6),
        ([moved("a", "refused")], 6),
        ([returned("a"), returned("b", retcode=137, state="timed_out")], 4),
    ],
)
def test_of_several_exit_codes_the_worst_is_told(messages: list[dict[str, Any]], code: int) -> None:
    job = progress("a", "b")
    for message in messages:
        job.apply(message, now=100.0)
    assert exit_code(job) == code


def test_only_minions_that_may_still_run_the_job_are_open() -> None:
    job = progress("a", "b", "c")
    job.apply(moved("b", "expired"), now=100.0)
    job.apply(returned("c"), now=100.0)
    assert open_minions(job) == ["a"]
