"""What is known of a job, and how long to wait for more."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.client.connection import ANSWER_TIMEOUT_S
from saltlite.client.follower import (
    FIRST_MESSAGE_S,
    RESUME_FOR_S,
    Follower,
    Open,
    Progress,
    Published,
    Read,
    WaitPolicy,
)
from saltlite.errors import RemoteProtocolError, UnreachableError

TIMEOUT_S = 5.0
PATIENCE = WaitPolicy(TIMEOUT_S)


def progress(
    *minions: str, away: dict[str, float | None] | None = None, resources: dict[str, list[str]] | None = None
) -> Progress:
    answer: dict[str, Any] = {"jid": "2" * 20, "minions": list(minions), "resources": resources or {}, "skipped": []}
    answer |= {"away": away or {}, "unknown": {}, "timeout_s": TIMEOUT_S, "deliver_ms": 60_000}
    return Progress(Published(answer), now=100.0)


def moved(minion: str, state: str, reason: str = "", at: float = 0.0) -> dict[str, Any]:
    return {"seq": 1, "states": [{"id": minion, "state": state, "reason": reason, "at": at}], "returns": []}


def returned(
    minion: str, value: object = True, *, retcode: int = 0, state: str = "returned", reason: str = ""
) -> dict[str, Any]:
    row = {
        "id": minion,
        "state": state,
        "retcode": retcode,
        "body": msgpack.packb(value),
        "duration_ms": 1500,
        "reason": reason,
        "seq": 2,
    }
    return {"seq": 2, "states": [], "returns": [row]}


def test_a_silent_minion_is_waited_for_until_the_timeout_since_the_publish() -> None:
    job = progress("web1")
    assert [job.wait_s(PATIENCE, now=now) for now in (100.0, 103.0, 105.0, 200.0)] == [5.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize("state", ["received", "running"])
def test_a_minion_that_has_the_job_is_waited_for_without_limit(state: str) -> None:
    job = progress("web1", "web2")
    job.apply(moved("web1", state), now=101.0)
    assert job.wait_s(PATIENCE, now=9000.0) is None


def test_any_news_of_the_job_starts_the_timeout_again() -> None:
    job = progress("web1", "web2")
    job.apply(returned("web1"), now=104.0)
    assert job.wait_s(PATIENCE, now=105.0) == 4.0


def test_a_repeated_message_is_no_news() -> None:
    job = progress("web1", "web2")
    job.apply(returned("web1"), now=104.0)
    assert job.apply(returned("web1"), now=108.0).replies == []
    assert job.wait_s(PATIENCE, now=108.0) == 1.0


def test_a_minion_that_is_away_is_not_waited_for_when_the_others_are_settled() -> None:
    job = progress("web1", "web2", away={"web2": None})
    assert job.wait_s(PATIENCE, now=100.0) == TIMEOUT_S
    job.apply(returned("web1"), now=100.0)
    assert job.wait_s(PATIENCE, now=100.0) == 0.0


def test_where_all_are_away_the_stream_has_a_moment_to_say_otherwise() -> None:
    job = progress("web1", away={"web1": None})
    assert job.wait_s(PATIENCE, now=100.0) == pytest.approx(FIRST_MESSAGE_S)
    assert job.wait_s(PATIENCE, now=101.0) == 0.0
    job.apply({"seq": 0}, now=100.1)
    assert job.wait_s(PATIENCE, now=100.1) == 0.0


def test_a_timeout_that_was_asked_for_holds_for_minions_that_are_away() -> None:
    job = progress("web1", "web2", away={"web1": 1.0})
    job.apply(returned("web2"), now=104.0)
    assert job.wait_s(WaitPolicy(30.0, away_quiet_s=30.0), now=105.0) == 29.0


def test_until_the_end_of_the_delivery_time_minions_that_are_away_are_waited_for_whatever_is_heard() -> None:
    job = progress("web1", "web2", away={"web1": 1.0})
    job.apply(returned("web2"), now=150.0)
    waits = [job.wait_s(WaitPolicy(TIMEOUT_S, away_s=60.0), now=now) for now in (150.0, 159.0, 160.0)]
    assert waits == [10.0, 1.0, 0.0]


def test_a_minion_that_comes_back_with_the_job_is_waited_for_as_any_other() -> None:
    job = progress("web1", away={"web1": 1.0})
    job.apply(moved("web1", "running"), now=100.0)
    assert job.wait_s(PATIENCE, now=9000.0) is None


def test_minions_whose_batch_has_not_come_are_waited_for_unless_one_before_them_is_silent() -> None:
    job = progress("web1", "web2")
    job.apply(moved("web2", "planned"), now=100.0)
    assert job.wait_s(PATIENCE, now=101.0) == 4.0
    job.apply(returned("web1"), now=102.0)
    assert job.wait_s(PATIENCE, now=9000.0) is None
    job.apply(moved("web2", "queued"), now=9000.0)
    assert job.wait_s(PATIENCE, now=9001.0) == 4.0


def test_a_minion_that_is_away_is_passed_over_by_batches_and_not_waited_for() -> None:
    job = progress("web1", "web2", away={"web2": None})
    job.apply(moved("web2", "planned"), now=100.0)
    job.apply(returned("web1"), now=100.0)
    assert job.wait_s(PATIENCE, now=100.0) == 0.0


def test_a_job_that_the_master_calls_ended_is_not_waited_for() -> None:
    job = progress("web1")
    job.apply({"seq": 3, "end": True}, now=100.0)
    assert job.wait_s(PATIENCE, now=100.0) == 0.0


def test_a_return_whose_state_came_first_is_waited_for() -> None:
    job = progress("web1")
    job.apply(moved("web1", "returned"), now=100.0)
    assert job.wait_s(PATIENCE, now=900.0) is None
    job.apply(returned("web1"), now=900.0)
    assert job.wait_s(PATIENCE, now=901.0) == 4.0


def test_states_only_move_forward_and_the_first_end_stays() -> None:
    job = progress("web1")
    for state in ("running", "received", "queued", "planned", "timed_out", "returned", "running"):
        job.apply(moved("web1", state), now=100.0)
    assert job.states == {"web1": "timed_out"}


def test_an_update_has_what_moved_and_replies_with_value_and_duration() -> None:
    job = progress("web1", "web2")
    job.apply(moved("web2", "running"), now=100.0)
    update = job.apply(moved("web2", "received") | {"returns": returned("web1", {1: b"x"})["returns"]}, now=100.0)
    assert update.moved == ["web1"]
    assert [(reply.id, reply.value, reply.duration_s) for reply in update.replies] == [("web1", {1: b"x"}, 1.5)]


def test_a_return_is_given_out_once_even_if_one_message_has_it_twice() -> None:
    job = progress("web1")
    twice = [*returned("web1", 1)["returns"], *returned("web1", 2)["returns"]]
    replies = [*job.apply({"returns": twice}, now=100.0).replies, *job.apply(returned("web1", 3), now=101.0).replies]
    assert [(reply.id, reply.value) for reply in replies] == [("web1", 1)]


def test_a_message_that_was_not_taken_in_is_asked_for_again() -> None:
    job = progress("web1")
    with pytest.raises(RemoteProtocolError):
        job.apply({"seq": 7, "returns": [{"id": "web1"}]}, now=100.0)
    assert job.seq == 0


@pytest.mark.parametrize(
    "message",
    [
        {"returns": [{"id": "web1"}]},
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


def test_counts_are_of_every_minion_and_leave_out_what_there_is_none_of() -> None:
    job = progress("a", "b", "c", "d", "e", "f", away={"f": None})
    for message in (
        moved("a", "running"),
        moved("b", "refused"),
        moved("c", "planned"),
        returned("d", retcode=1),
        returned("e"),
    ):
        job.apply(message, now=100.0)
    assert job.counts() == {"returned": 2, "failed": 2, "running": 1, "away": 1, "planned": 1}
    assert job.awaited() == {"a", "c"}


def test_a_reply_of_a_job_that_was_killed_counts_as_failed_once() -> None:
    job = progress("a")
    job.apply(moved("a", "timed_out"), now=100.0)
    job.apply(returned("a", retcode=124, state="timed_out"), now=100.0)
    assert job.counts() == {"failed": 1}


RESOURCES = {"ma": ["dummy:d1", "dummy:d2"], "mb": ["ssh:d2"]}


def test_the_keys_of_resources_are_their_ids_and_srns_where_two_have_the_same() -> None:
    published = progress("ma", resources=RESOURCES).published
    names = {target: published.name(target) for target in ("ma", "dummy:d1", "dummy:d2", "ssh:d2", "ssh:later")}
    assert names == {one: one.removeprefix("dummy:") if one == "dummy:d1" else one for one in names}


def test_resources_are_waited_for_as_their_managing_minion_is() -> None:
    job = progress(resources=RESOURCES, away={"ma": 1000.0})
    assert (job.silent(), job.awaited(), job.counts()) == (["mb"], {"ssh:d2"}, {"silent": 1, "away": 2})
    job.apply(returned("ssh:d2"), now=101.0)
    assert job.wait_s(PATIENCE, now=102.0) == 0.0


def test_a_reply_of_a_resource_names_it_and_its_managing_minion() -> None:
    job = progress("ma", resources=RESOURCES)
    (reply,) = job.apply(returned("ssh:d2", 7), now=100.0).replies
    assert (reply.id, reply.name, reply.minion, reply.value) == ("ssh:d2", "ssh:d2", "mb", 7)
    (reply,) = job.apply(returned("dummy:d1", 7), now=100.0).replies
    assert (reply.name, reply.minion) == ("d1", "ma")


@pytest.mark.parametrize("resources", [["dummy:d1"], {"ma": 1}, None])
def test_an_answer_with_other_resources_than_lists_by_minion_is_refused(resources: Any) -> None:
    answer = {"jid": "2" * 20, "minions": [], "resources": resources, "away": {}, "unknown": {}, "skipped": []}
    with pytest.raises(RemoteProtocolError, match="bad-answer"):
        Published(answer | {"timeout_s": 1, "deliver_ms": 1})


def timeout_of(action: Open | Read | None) -> float | None:
    assert isinstance(action, Read)
    return action.timeout_s


def opened(follower: Follower, now: float) -> dict[str, Any]:
    """Perform the action, which has to be one that opens a stream; its fields."""
    action = follower.next(now)
    assert isinstance(action, Open)
    follower.opened(action)
    return action.fields


def test_a_follower_reads_until_the_waiting_is_over_and_then_what_is_stored() -> None:
    job = progress("web1")
    follower = Follower(job, PATIENCE, live=True)
    assert timeout_of(follower.next(100.0)) == TIMEOUT_S
    follower.received(None)
    assert opened(follower, 105.0) == {"jid": "2" * 20, "after": 0, "once": True}
    assert timeout_of(follower.next(105.0)) == ANSWER_TIMEOUT_S
    follower.received({"so_far": True})
    assert follower.idle
    assert follower.next(105.0) is None


def test_a_follower_waits_on_when_the_store_knows_that_a_minion_has_the_job() -> None:
    job = progress("web1")
    follower = Follower(job, PATIENCE, live=True)
    opened(follower, 105.0)
    message = moved("web1", "running") | {"so_far": True}
    follower.received(message)
    job.apply(message, now=105.0)
    assert opened(follower, 105.0) == {"jid": "2" * 20, "after": 1}
    assert timeout_of(follower.next(900.0)) is None


def test_a_follower_resumes_a_broken_stream_and_gives_up_after_a_while() -> None:
    job = progress("web1")
    job.apply(moved("web1", "running"), now=100.0)
    follower = Follower(job, PATIENCE, live=True, tick_s=0.5)
    assert timeout_of(follower.next(100.0)) == 0.5
    follower.lost()
    assert isinstance(follower.next(200.0), Open)
    follower.failed(UnreachableError("gone"), 200.0)
    assert isinstance(follower.next(201.0), Open)
    with pytest.raises(UnreachableError, match="minions keep their returns"):
        follower.failed(UnreachableError("gone"), 200.0 + RESUME_FOR_S)


def test_a_stream_that_opened_starts_the_time_to_give_up_again() -> None:
    job = progress("web1")
    job.apply(moved("web1", "running"), now=100.0)
    follower = Follower(job, PATIENCE, live=False)
    opened(follower, 100.0)
    follower.lost()
    assert isinstance(follower.next(900.0), Open)
    follower.failed(UnreachableError("gone"), 901.0)


def test_a_follower_of_an_ended_job_does_nothing() -> None:
    job = progress("web1")
    follower = Follower(job, PATIENCE, live=True)
    job.apply({**returned("web1"), "end": True}, now=101.0)
    assert follower.next(101.0) is None
    assert follower.idle


def test_a_master_that_does_not_say_what_it_has_stored_is_an_error() -> None:
    follower = Follower(progress("web1"), PATIENCE, live=False, stored=True)
    with pytest.raises(UnreachableError, match="what it has stored"):
        follower.received(None)
