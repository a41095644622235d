"""The minion's connection, row by row of its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saltlite.minion.protocol.connection import (
    BACKOFF_MAX_S,
    BACKOFF_MIN_S,
    CONNECT_TIMEOUT_S,
    ELSEWHERE_MAX_S,
    NEVER,
    REFUSED_MAX_S,
    REFUSED_MIN_S,
    SECOND_MAX_S,
    SETTLED_S,
    SILENCE_BEATS,
    SILENCE_BEATS_BESIDE,
    UNANSWERED_S,
    Changed,
    Close,
    CloseSecond,
    Deliver,
    OpenLink,
    OpenSecond,
    Phase,
)
from saltlite.model.ids import MinionId
from saltlite.wire import codec, frames
from saltlite.wire.directory import Directory, MasterEntry, signed
from saltlite.wire.limits import HANDSHAKE_TIMEOUT_S, SESSION_MAX_AGE_S
from saltlite.wire.messages import JIDS_MAX, REASON_MAX
from tests.support.keys import JOB_PRIVATE, TOKEN, seed
from tests.support.scripted import HB_S, JID, Scripted

# -- CONNECT and HANDSHAKE


def test_start_opens_the_first_master() -> None:
    it = Scripted()
    it.connection.start()
    assert it.take() == [Changed(Phase.CONNECT, ""), OpenLink("a:1")]


def test_a_link_that_does_not_come_up_in_time_is_backed_off_from() -> None:
    it = Scripted()
    it.connection.start()
    it.wait(CONNECT_TIMEOUT_S - 0.1)
    assert it.phase() is Phase.CONNECT
    it.wait(0.2)
    assert it.phase() is Phase.BACKOFF
    assert Close() in it.take()


def test_a_link_that_breaks_while_connecting_is_backed_off_from_with_its_reason() -> None:
    it = Scripted()
    it.connection.start()
    it.connection.link_down("no route to a")
    assert (it.phase(), it.why()) == (Phase.BACKOFF, "no route to a")


def test_a_master_that_hangs_up_on_the_first_frame_may_be_of_another_fleet_and_that_is_said() -> None:
    it = Scripted()
    it.connect()
    it.connection.link_down("a:1 closed the connection")
    assert it.phase() is Phase.BACKOFF
    assert it.why() == (
        "a:1 closed the connection, before it proved itself: `saltlite doctor` here says whether it is of another fleet"
    )


def test_each_try_takes_the_next_master() -> None:
    it = Scripted()
    it.connection.start()
    places = [it.connection.master]
    for _ in range(3):
        it.connection.link_down("gone")
        it.wait(it.rest_s())
        places.append(it.connection.master)
    it.take()
    assert places == ["a:1", "b:2", "c:3", "a:1"]
    assert [effect.address for effect in it.seen if isinstance(effect, OpenLink)] == ["a:1", "b:2", "c:3", "a:1"]


def test_a_master_that_is_silent_in_the_handshake_is_given_up() -> None:
    it = Scripted()
    it.connect()
    it.wait(HANDSHAKE_TIMEOUT_S + 0.1)
    assert it.phase() is Phase.BACKOFF


def test_a_second_link_up_starts_no_second_handshake() -> None:
    it = Scripted()
    it.connect()
    it.sent()
    it.connection.link_up()
    assert it.sent() == []


def test_the_token_and_the_id_are_not_said_before_the_master_has_proved_itself() -> None:
    it = Scripted()
    it.connect()
    (raw,) = it.sent()
    assert TOKEN.token_id.encode() not in raw
    assert b"web1" not in raw
    assert len(raw) == 50


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("accepted", Phase.READY),
        ("pending", Phase.PENDING),
        ("rejected", Phase.REFUSED),
        ("revoked", Phase.REFUSED),
        ("conflict", Phase.REFUSED),
        ("busy", Phase.BACKOFF),
    ],
)
def test_welcome_says_where_it_goes(state: str, phase: Phase) -> None:
    assert Scripted().welcomed(state).phase() is phase


def test_busy_makes_it_wait_as_long_as_the_master_asks_give_or_take_a_quarter() -> None:
    it = Scripted()
    it.connect()
    it.connection.frame(frames.busy(20_000))
    assert it.phase() is Phase.BACKOFF
    assert 15.0 <= it.rest_s() <= 25.0


def test_busy_cannot_keep_it_away_for_longer_than_the_longest_back_off() -> None:
    it = Scripted()
    it.connect()
    it.connection.frame(frames.busy(2**32 - 1))
    assert it.rest_s() <= BACKOFF_MAX_S * 1.25


def test_busy_counts_only_before_the_master_has_proved_itself() -> None:
    it = Scripted()
    it.prove()
    it.connection.frame(frames.busy(1))
    assert "refused" in it.why()


# -- PENDING


def test_pending_becomes_ready_in_the_same_session() -> None:
    it = Scripted().welcomed("pending")
    it.say({"t": "state", "state": "accepted"})
    assert it.phase() is Phase.READY
    assert it.connection.send({"t": "bye", "reason": ""})


def test_pending_sends_nothing_for_jobs_and_gets_nothing() -> None:
    it = Scripted().welcomed("pending")
    assert not it.connection.send({"t": "bye", "reason": ""})
    it.say({"t": "cancel", "jid": JID})
    assert it.phase() is Phase.BACKOFF
    assert not [effect for effect in it.take() if isinstance(effect, Deliver)]


@pytest.mark.parametrize("before", ["pending", "accepted"])
@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("rejected", Phase.REFUSED),
        ("revoked", Phase.REFUSED),
        ("conflict", Phase.REFUSED),
        ("deleted", Phase.BACKOFF),
        ("replaced", Phase.BACKOFF),
    ],
)
def test_state_ends_the_session(before: str, state: str, phase: Phase) -> None:
    it = Scripted().welcomed(before)
    it.say({"t": "state", "state": state})
    assert it.phase() is phase
    assert Close() in it.take()


def test_after_a_deletion_it_comes_back_soon() -> None:
    it = Scripted().welcomed()
    it.say({"t": "state", "state": "deleted"})
    assert it.rest_s() <= 3 * BACKOFF_MIN_S


def test_after_a_refusal_it_comes_again_soon_and_then_about_once_a_minute() -> None:
    it = Scripted().welcomed()
    it.say({"t": "state", "state": "revoked"})
    waits = []
    for _ in range(20):
        waits.append(it.rest_s())
        it.wait(it.rest_s())
        assert it.phase() is Phase.CONNECT
        it.welcomed("revoked")
    assert waits[0] <= 3 * REFUSED_MIN_S
    assert all(REFUSED_MIN_S <= wait_s <= REFUSED_MAX_S for wait_s in waits)
    assert max(waits[10:]) == REFUSED_MAX_S
    # An accepted key begins anew.
    it.wait(it.rest_s())
    it.welcomed("accepted")
    it.say({"t": "state", "state": "conflict"})
    assert it.rest_s() <= 3 * REFUSED_MIN_S


# -- READY


@pytest.mark.parametrize(
    "message",
    [
        {"t": "job", "jid": JID, "resources": [], "body": b"b", "sig": b"s" * 64, "proof": [], "deliver_ms": 1},
        {"t": "cancel", "jid": JID},
        {"t": "return_ack", "jids": [JID]},
        {"t": "grant", "jid": JID},
        {"t": "fetch", "what": "functions"},
    ],
)
def test_what_concerns_jobs_is_handed_on(message: dict[str, Any]) -> None:
    it = Scripted().welcomed()
    it.take()
    it.say(message)
    assert it.take() == [Deliver(message)]


@pytest.mark.parametrize(
    "message",
    [
        {"t": "welcome", "state": "accepted", "heartbeat_ms": 15_000},
        {"t": "state", "state": "pending"},
        {"t": "heartbeat", "running": [], "spool": 0},
        {"t": "publish"},
        {"t": "heartbeat_ack", "extra": 1},
        {},
    ],
)
def test_what_the_table_does_not_have_costs_the_session(message: dict[str, Any]) -> None:
    it = Scripted().welcomed()
    it.take()
    it.say(message)
    assert it.phase() is Phase.BACKOFF
    assert not [effect for effect in it.take() if isinstance(effect, Deliver)]


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x02", b"\x01\x04" + b"\0" * 40, b"\x02\x04" + b"\0" * 40, frames.query(), b"\xff" * 600],
)
def test_garbage_costs_the_session_and_nothing_else(raw: bytes) -> None:
    it = Scripted().welcomed()
    it.connection.frame(raw)
    assert it.phase() is Phase.BACKOFF
    it.wait(it.rest_s())
    it.welcomed()
    assert it.phase() is Phase.READY


def test_a_beat_before_the_welcome_is_taken_for_what_it_is() -> None:
    it = Scripted()
    it.prove()
    it.say({"t": "heartbeat_ack"})
    assert it.phase() is Phase.HANDSHAKE
    it.say({"t": "welcome", "state": "accepted", "heartbeat_ms": 15_000})
    assert it.phase() is Phase.READY


def test_a_frame_that_comes_twice_is_not_acted_on_twice() -> None:
    it = Scripted().welcomed()
    it.take()
    assert it.session is not None
    raw = it.session.seal(codec.encode({"t": "cancel", "jid": JID}))
    it.connection.frame(raw)
    it.connection.frame(raw)
    assert [effect for effect in it.take() if isinstance(effect, Deliver)] == [Deliver({"t": "cancel", "jid": JID})]
    assert it.phase() is Phase.BACKOFF


def test_it_beats_within_the_pace_that_it_was_told() -> None:
    it = Scripted().welcomed()
    it.take()
    it.connection.running, it.connection.spooled = [JID] * 300, 7
    for _ in range(3):
        assert it.rest_s() <= HB_S
        it.wait(it.rest_s())
        assert it.heard() == [{"t": "heartbeat", "running": [JID] * JIDS_MAX, "spool": 7}]
        it.say({"t": "heartbeat_ack"})


def test_a_silent_master_is_left_after_two_and_a_half_beats() -> None:
    it = Scripted().welcomed()
    started = it.clock.monotonic()
    while it.phase() is Phase.READY:
        it.wait(it.rest_s())
    assert it.clock.monotonic() - started == pytest.approx(SILENCE_BEATS * HB_S)


def test_a_lame_master_is_left_for_a_time_within_its_spread() -> None:
    it = Scripted().welcomed()
    it.say({"t": "reconnect", "spread_ms": 30_000})
    assert it.phase() is Phase.BACKOFF
    assert 0.0 <= it.rest_s() <= 30.0


def test_a_session_ends_of_age_and_comes_back_within_a_second_to_the_same_master() -> None:
    it = Scripted().welcomed()
    started = it.clock.monotonic()
    while it.phase() is Phase.READY:
        it.say({"t": "heartbeat_ack"})
        it.wait(it.rest_s())
    age = it.clock.monotonic() - started
    assert 0.75 * SESSION_MAX_AGE_S <= age <= 1.25 * SESSION_MAX_AGE_S
    assert it.rest_s() <= 1.0
    it.wait(it.rest_s())
    assert it.connection.master == "a:1"


# -- the directory of masters, and a second connection beside the session

FLEET_OF_THREE = tuple(MasterEntry(name, f"{name}.example:4515", 100, True) for name in ("m1", "m2", "m3"))
"""The scripted master is m1."""


def directory_message(*masters: MasterEntry, key: bytes = JOB_PRIVATE, number: int = 0) -> dict[str, Any]:
    content, signature = signed(key, masters, number)
    return {"t": "directory", "content": content, "sig": signature}


def with_directory() -> Scripted:
    it = Scripted().welcomed()
    it.say(directory_message(*FLEET_OF_THREE))
    it.take()
    it.seen.clear()
    return it


def seconds_of(it: Scripted) -> list[str]:
    """The masters that it wanted to try beside its session since it was asked last."""
    return [effect.address for effect in it.take() if isinstance(effect, OpenSecond)]


def ranked(*names: str) -> list[str]:
    known = Directory(FLEET_OF_THREE).ranked(MinionId("web1"))
    return [one.address for one in known if one.name in names]


def test_a_minion_begins_at_its_home_and_ends_with_its_configuration() -> None:
    it = Scripted(known=Directory(FLEET_OF_THREE))
    it.connection.start()
    tried = [it.connection.master]
    for _ in range(6):
        it.connection.link_down("gone")
        it.wait(it.rest_s())
        tried.append(it.connection.master)
    assert tried == [*ranked("m1", "m2", "m3"), "a:1", "b:2", "c:3", ranked("m1", "m2", "m3")[0]]


def test_a_directory_is_passed_to_the_job_server_and_used_when_the_master_is_lost() -> None:
    it = Scripted().welcomed()
    message = directory_message(*FLEET_OF_THREE)
    it.say(message)
    assert Deliver(message) in it.take()
    it.connection.link_down("gone")
    it.wait(it.rest_s())
    # The one after m1, which is a:1 in the configuration.
    order = ranked("m1", "m2", "m3")
    assert it.connection.master == (*order, "a:1")[order.index("m1.example:4515") + 1]


def test_a_directory_that_the_connected_master_did_not_sign_ends_the_session() -> None:
    it = Scripted().welcomed()
    it.say(directory_message(*FLEET_OF_THREE, key=seed("the link process, taken over")))
    assert it.phase() is Phase.BACKOFF
    assert not any(isinstance(effect, Deliver) for effect in it.take())


def test_an_earlier_directory_that_the_link_process_sends_again_brings_no_removed_master_back() -> None:
    it = Scripted().welcomed()
    it.say(directory_message(*FLEET_OF_THREE[:2], number=2000))
    it.say(directory_message(*FLEET_OF_THREE, number=1000))
    it.say(directory_message(*FLEET_OF_THREE))
    it.take()
    assert it.phase() is Phase.READY
    it.say({"t": "move", "to": "m3", "spread_ms": 0})
    it.wait(SECOND_MAX_S + 0.1)
    assert seconds_of(it) == []


def test_a_minion_moves_at_its_moment_to_the_named_master_and_keeps_its_session() -> None:
    it = with_directory()
    it.say({"t": "move", "to": "m3", "spread_ms": 2000})
    assert seconds_of(it) == []
    assert 0.0 < it.rest_s() <= 2.0
    it.wait(it.rest_s())
    assert seconds_of(it) == ["m3.example:4515"]
    assert (it.phase(), it.connection.beside("m3.example:4515").master) == (Phase.READY, "")
    it.connection.second_failed()
    it.wait(SECOND_MAX_S + 0.1)
    # Not even to a third one: the master asks again.
    assert seconds_of(it) == []


def test_a_minion_that_is_to_go_anywhere_tries_the_others_in_turn_until_one_accepts_it() -> None:
    it = with_directory()
    it.say({"t": "move", "to": "", "spread_ms": 0})
    tried: list[str] = []
    for _ in range(3):
        it.wait(SECOND_MAX_S + 0.1)
        tried += seconds_of(it)
        it.connection.second_failed()
    others = ranked("m2", "m3")
    assert tried == [*others, others[0]]


def test_a_busy_master_is_tried_beside_the_session_when_it_has_said_to_come() -> None:
    it = with_directory()
    it.say({"t": "move", "to": "", "spread_ms": 0})
    it.wait(0.1)
    assert len(seconds_of(it)) == 1
    it.connection.second_failed(it.clock.monotonic() + 25.0)
    it.wait(24.9)
    assert seconds_of(it) == []
    it.wait(0.2)
    assert len(seconds_of(it)) == 1


@pytest.mark.parametrize("to", ["m9", "evil.example:4515"])
def test_a_minion_moves_to_no_master_that_is_not_in_its_directory(to: str) -> None:
    it = with_directory()
    it.say({"t": "move", "to": to, "spread_ms": 0})
    it.wait(SECOND_MAX_S + 0.1)
    assert seconds_of(it) == []


def test_behind_one_address_a_minion_is_moved_to_whichever_master_answers_there() -> None:
    it = Scripted().welcomed()
    it.say(directory_message())
    it.say({"t": "move", "to": "", "spread_ms": 0})
    it.wait(0.1)
    assert seconds_of(it) == ["b:2"]


def test_a_master_that_answers_no_heartbeat_is_left_beside_the_session() -> None:
    it = with_directory()
    waited = 0.0
    while not (found := seconds_of(it)):
        rest = it.rest_s()
        waited += rest
        it.wait(rest)
        assert it.phase() is Phase.READY
    assert found == ranked("m2", "m3")[:1]
    assert UNANSWERED_S <= waited < SILENCE_BEATS * HB_S
    it.say({"t": "heartbeat_ack"})
    assert CloseSecond() in it.take()
    it.connection.second_failed()
    it.wait(SECOND_MAX_S)
    assert seconds_of(it) == []


def test_a_session_outlives_a_silence_in_which_no_other_master_accepts_the_minion() -> None:
    it = with_directory()
    heard, tried = it.clock.monotonic(), 0
    while it.phase() is Phase.READY:
        it.wait(it.rest_s())
        if seconds_of(it):
            tried += 1
            it.connection.second_failed()
    assert tried > 1
    assert it.clock.monotonic() - heard == pytest.approx(SILENCE_BEATS_BESIDE * HB_S)


def test_a_minion_that_knows_one_master_waits_until_it_is_silent() -> None:
    it = Scripted().welcomed()
    while it.phase() is Phase.READY:
        it.wait(it.rest_s())
        assert seconds_of(it) == []


def test_a_session_that_is_lost_ends_the_attempt_that_waits_for_its_moment() -> None:
    it = with_directory()
    it.say({"t": "move", "to": "", "spread_ms": 2000})
    it.take()
    it.connection.link_down("gone")
    assert CloseSecond() in it.take()
    assert it.phase() is Phase.BACKOFF


def under_way() -> Scripted:
    """A minion that connects to another master, as it was asked to."""
    it = with_directory()
    it.say({"t": "move", "to": "", "spread_ms": 0})
    it.wait(0.1)
    assert len(seconds_of(it)) == 1
    return it


ENDINGS: dict[str, Callable[[Scripted], None]] = {
    "replaced": lambda it: it.say({"t": "state", "state": "replaced"}),
    "reconnect": lambda it: it.say({"t": "reconnect", "spread_ms": 3000}),
    "lost": lambda it: it.connection.link_down("gone"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_session_that_ends_while_another_master_takes_the_minion_over_does_not_end_that(how: str) -> None:
    it = under_way()
    ENDINGS[how](it)
    it.connection.link_down("gone")
    it.connection.frame(b"a frame of the ended session")
    assert (it.take(), it.phase(), it.rest_s()) == ([], Phase.READY, NEVER)
    assert not it.connection.send({"t": "job_state", "jid": JID, "state": "running", "reason": ""})
    it.connection.second_failed()
    assert CloseSecond() in it.take()
    assert it.phase() is Phase.BACKOFF
    assert it.rest_s() <= 3.0


def test_a_minion_that_is_asked_again_goes_on_with_the_connection_that_it_makes() -> None:
    it = under_way()
    it.say({"t": "move", "to": "", "spread_ms": 0})
    assert it.take() == []
    it.say({"t": "move", "to": "m3", "spread_ms": 0})
    assert CloseSecond() in it.take()
    it.wait(0.1)
    assert seconds_of(it) == ["m3.example:4515"]


def test_the_second_connection_counts_on_in_the_order_of_handshakes() -> None:
    it = with_directory()
    second = it.connection.beside("m2.example:4515")
    assert next(second._handshakes) == 2
    assert next(it.connection._handshakes) == 3


def test_close_says_good_bye_in_no_more_words_than_the_table_allows() -> None:
    it = Scripted().welcomed()
    it.take()
    it.connection.close("x" * 1000)
    assert it.heard() == [{"t": "bye", "reason": "x" * REASON_MAX}]


# -- BACKOFF


def test_the_back_off_grows_has_jitter_and_has_an_end() -> None:
    it = Scripted()
    it.connection.start()
    waits = []
    for _ in range(200):
        it.connection.link_down("gone")
        waits.append(it.rest_s())
        it.wait(it.rest_s())
    assert all(BACKOFF_MIN_S <= wait <= BACKOFF_MAX_S + 1e-9 for wait in waits)
    assert waits[0] <= 3 * BACKOFF_MIN_S
    assert max(waits) == pytest.approx(BACKOFF_MAX_S)


def test_minions_that_lose_their_master_together_do_not_come_back_together() -> None:
    firsts = set()
    for number in range(50):
        it = Scripted()
        for _ in range(number):
            it.clock.uniform(0, 1)
        it.connection.start()
        it.connection.link_down("gone")
        firsts.add(round(it.rest_s(), 2))
    assert len(firsts) > 20


def test_the_back_off_starts_over_after_a_minute_of_ready() -> None:
    it = Scripted()
    it.connection.start()
    for _ in range(30):
        it.connection.link_down("gone")
        it.wait(it.rest_s())
    it.connection.link_down("gone")
    assert it.rest_s() > 3 * BACKOFF_MIN_S
    it.wait(it.rest_s())
    it.welcomed()
    for _ in range(5):
        it.clock.advance(SETTLED_S / 4)
        it.say({"t": "heartbeat_ack"})
    it.connection.link_down("gone")
    assert it.rest_s() <= 3 * BACKOFF_MIN_S


@pytest.mark.parametrize("knows_others", [True, False])
def test_a_minion_that_waited_long_for_its_master_goes_to_another_one_soon_when_it_is_lost(knows_others: bool) -> None:
    waits = []
    for number in range(20):
        it = Scripted()
        for _ in range(number):
            it.clock.uniform(0, 1)
        it.connection.start()
        for _ in range(30):
            it.connection.link_down("gone")
            it.wait(it.rest_s())
        it.welcomed()
        if knows_others:
            it.say(directory_message(*FLEET_OF_THREE))
        it.connection.link_down("gone")
        waits.append(it.rest_s())
    assert (max(waits) <= ELSEWHERE_MAX_S) is knows_others


@pytest.mark.parametrize("state", ["busy", "revoked"])
def test_frames_of_a_session_that_is_over_are_ignored(state: str) -> None:
    it = Scripted().welcomed(state)
    phase, deadline = it.phase(), it.connection.deadline()
    it.take()
    it.say({"t": "heartbeat_ack"})
    it.connection.frame(frames.busy(1))
    it.connection.link_down("gone")
    assert (it.phase(), it.connection.deadline(), it.take()) == (phase, deadline, [])


def test_who_is_asked_for_a_sign_of_life_gives_it_at_once() -> None:
    scripted = Scripted().welcomed()
    scripted.take()
    scripted.say({"t": "probe"})
    assert [message["t"] for message in scripted.heard()] == ["heartbeat"]
