"""The master's side before a key is decided about: what strangers may do, and what floods cost."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.master.protocol.effects import CloseConnection, Decide, MinionReport, Send
from saltlite.master.protocol.session_manager import DECIDING_MAX, DECISION_S
from saltlite.master.protocol.sessions import PENDING_SESSIONS
from saltlite.wire import frames
from saltlite.wire.limits import (
    HANDSHAKE_TIMEOUT_S,
    OPEN_HANDSHAKES,
    OPEN_HANDSHAKES_PER_ADDRESS,
)
from saltlite.wire.noise import Handshake, Role, private_key, public_of
from tests.support.keys import FLEET, FLEET_PUBLIC
from tests.support.memory_fleet import JID, Peer, SessionRig, of

# -- strangers


def test_a_good_handshake_asks_an_mworker_about_exactly_the_key_that_was_proved() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    (ask,) = of(Decide, rig.take())
    assert (ask.public, ask.address, ask.hello["id"]) == (public_of(peer.private), peer.address, "web1")


def test_query_is_answered_with_the_fleet_key() -> None:
    peer = Peer(SessionRig(), "web1")
    peer.raw(frames.query())
    assert [send.frame for send in peer.mine()] == [frames.fleet(FLEET_PUBLIC)]


BAD_BEFORE_AUTH = {
    "truncated": b"",
    "version": b"\x01\x01",
    "unknown-frame": b"\x02\x09",
    "oversize": b"\x02\x01" + b"x" * 600,
    "bad-mac": b"\x02\x01" + b"x" * 48,
    "unexpected-frame": frames.busy(1),
}


@pytest.mark.parametrize("reason", BAD_BEFORE_AUTH)
def test_a_stranger_that_breaks_the_protocol_is_counted_and_hung_up_on(reason: str) -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.raw(BAD_BEFORE_AUTH[reason])
    assert rig.take() == [CloseConnection(peer.number, peer.address)]
    assert rig.refused() == {reason: 1}


@pytest.mark.parametrize("frame", [frames.reply(b"r" * 100), frames.fleet(FLEET_PUBLIC)])
def test_frames_of_a_master_are_refused_from_minions(frame: bytes) -> None:
    rig = SessionRig()
    Peer(rig, "web1").raw(frame)
    assert rig.refused() == {"unexpected-frame": 1}


def test_a_hello_for_another_fleet_costs_no_handshake() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    handshake = Handshake(Role.INITIATOR, private_key(peer.private), frames.prologue(b"o" * 25), b"e" * 32)
    peer.raw(frames.hello(handshake.write(b""), b"o" * 25))
    assert of(Send, rig.take()) == []
    assert rig.refused() == {"bad-mac": 1}


def test_a_hello_with_a_weak_key_is_refused_and_leaves_nothing() -> None:
    rig = SessionRig()
    for number in range(OPEN_HANDSHAKES_PER_ADDRESS * 2):
        peer = Peer(rig, f"m{number}")
        peer.raw(frames.hello(b"\0" * 32, FLEET))
    assert rig.refused() == {"bad-handshake": OPEN_HANDSHAKES_PER_ADDRESS * 2}
    assert frames.parse(Peer(rig, "web1").hello()).__class__ is frames.ReplyFrame


def test_a_second_hello_ends_the_handshake() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.hello()
    assert peer.hello() == b""
    assert rig.refused() == {"second-hello": 1}


def test_a_hello_on_a_connection_with_a_session_is_refused_and_hung_up_on() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    peer.raw(frames.hello(b"\x09" + b"\0" * 31, FLEET))
    assert rig.take() == [CloseConnection(peer.number, peer.address)]
    assert rig.refused() == {"second-hello": 1}


def test_auth_without_hello_and_auth_twice_are_refused() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.raw(frames.auth(b"a" * 100))
    peer.prove()
    peer.raw(frames.auth(b"a" * 100))
    assert rig.refused() == {"unexpected-frame": 2}
    assert len(of(Decide, rig.take())) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "../x"},
        {"id": "web 1"},
        {"id": ["web1"]},
        {"version": 1},
        {"version": "\x1b[2J"},
        {"token": b"t" * 73},
        {"functions": b"f"},
    ],
)
def test_auth_that_the_table_does_not_describe_reaches_nobody(changed: dict[str, Any]) -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    answer = frames.parse(peer.hello())
    assert isinstance(answer, frames.ReplyFrame)
    peer.handshake.read(answer.message)
    peer.raw(peer.auth(**changed))
    assert of(Decide, rig.take()) == []
    assert rig.refused() == {"bad-message": 1}


def test_a_minion_of_the_next_version_may_report_more_and_the_rest_is_not_looked_at() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    answer = frames.parse(peer.hello())
    assert isinstance(answer, frames.ReplyFrame)
    peer.handshake.read(answer.message)
    peer.raw(peer.auth(extra=[1]))
    (decide,) = of(Decide, rig.take())
    assert "extra" not in decide.hello


def test_an_auth_with_a_changed_byte_reaches_nobody() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    answer = frames.parse(peer.hello())
    assert isinstance(answer, frames.ReplyFrame)
    peer.handshake.read(answer.message)
    raw = bytearray(peer.auth())
    raw[10] ^= 1
    peer.raw(bytes(raw))
    assert of(Decide, rig.take()) == []
    assert rig.refused() == {"bad-handshake": 1}


def test_a_handshake_that_takes_too_long_is_forgotten_and_hung_up_on() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.hello()
    rig.wait(HANDSHAKE_TIMEOUT_S)
    assert CloseConnection(peer.number, peer.address) in rig.take()
    peer.raw(frames.auth(b"a" * 100))
    assert rig.refused() == {"unexpected-frame": 1}


def test_one_address_gets_busy_above_its_open_handshakes() -> None:
    rig = SessionRig(per_address=OPEN_HANDSHAKES_PER_ADDRESS)
    for number in range(OPEN_HANDSHAKES_PER_ADDRESS):
        rig.clock.advance(0.1)
        assert isinstance(frames.parse(Peer(rig, f"m{number}").hello()), frames.ReplyFrame)
    rig.clock.advance(0.1)
    assert isinstance(frames.parse(Peer(rig, "late").hello()), frames.BusyFrame)
    assert isinstance(frames.parse(Peer(rig, "web1", address="10.0.0.10").hello()), frames.ReplyFrame)


def test_query_above_the_rate_of_an_address_is_answered_with_busy() -> None:
    peer = Peer(SessionRig(per_address=1.0), "web1")
    peer.raw(frames.query())
    peer.raw(frames.query())
    assert isinstance(frames.parse(peer.mine()[1].frame), frames.BusyFrame)


def test_all_addresses_together_have_a_limit_of_open_handshakes_and_begun_ones_go_on() -> None:
    rig = SessionRig()
    first = Peer(rig, "first", address="10.9.9.9")
    answer = frames.parse(first.hello())
    assert isinstance(answer, frames.ReplyFrame)
    for number in range(OPEN_HANDSHAKES - 1):
        rig.clock.advance(0.002)
        Peer(rig, f"m{number}", address=f"10.1.{number // 256}.{number % 256}").hello()
    late = Peer(rig, "late", address="10.8.8.8")
    assert isinstance(frames.parse(late.hello()), frames.BusyFrame)
    first.handshake.read(answer.message)
    first.raw(first.auth())
    assert len(of(Decide, rig.take())) == 1


# -- deciding


def test_before_the_verdict_a_minion_may_beat_and_say_good_bye_and_nothing_else() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    rig.take()
    assert peer.alive
    peer.say({"t": "job_state", "jid": JID, "state": "received", "reason": ""})
    effects = rig.take()
    assert of(MinionReport, effects) == []
    assert CloseConnection(peer.number, peer.address) in effects
    assert rig.refused() == {"not-accepted": 1}


@pytest.mark.parametrize("state", ["rejected", "revoked", "conflict", "busy"])
def test_a_refused_key_is_told_so_and_its_session_is_gone(state: str) -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    rig.take()
    peer.decided(state)
    assert peer.heard() == [{"t": "welcome", "state": state, "heartbeat_ms": 15_000}]
    peer.say({"t": "heartbeat", "running": [], "spool": 0})
    assert rig.refused() == {"no-session": 1}
    assert of(CloseConnection, rig.done) == []


def test_a_verdict_for_a_session_that_is_gone_changes_nothing() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    peer.say({"t": "bye", "reason": ""})
    rig.take()
    peer.decided("accepted")
    assert rig.take() == []
    assert rig.manager.sessions.present() == []


def test_a_second_verdict_changes_nothing() -> None:
    rig = SessionRig()
    peer = rig.join("web1", "pending")
    peer.decided("accepted")
    assert rig.manager.sessions.present() == []


def test_a_verdict_that_does_not_come_sends_the_minion_away_even_if_it_beats() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    for _ in range(int(DECISION_S / 5)):
        assert peer.alive
        rig.wait(5.0)
    assert peer.heard()[-1]["state"] == "busy"


@pytest.mark.parametrize("state", ["accepted", "revoked", "deleted"])
def test_a_key_that_changes_while_it_is_decided_about_is_decided_about_anew(state: str) -> None:
    """The verdict under way may have been read before the change: it must not win (S5)."""
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    rig.take()
    rig.manager.key_changed(peer.key, state, "web1")
    assert [message["state"] for message in peer.heard()] == ["busy"]
    peer.decided("accepted")
    assert rig.manager.sessions.present() == []


def test_a_key_is_decided_about_in_one_session_at_a_time() -> None:
    rig = SessionRig()
    older = Peer(rig, "web1")
    older.prove()
    newer = Peer(rig, "web1")
    newer.prove()
    older.decided("accepted")
    assert rig.manager.sessions.present() == []
    newer.decided("accepted")
    assert [up.id for up in rig.manager.sessions.present()] == ["web1"]


def test_sessions_that_wait_for_a_verdict_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DECIDING_MAX == OPEN_HANDSHAKES
    monkeypatch.setattr("saltlite.master.protocol.session_manager.DECIDING_MAX", 3)
    rig = SessionRig()
    for number in range(3):
        Peer(rig, f"m{number}").prove()
    late = Peer(rig, "late")
    late.prove()
    assert [message["state"] for message in late.heard()] == ["busy"]
    assert [ask.hello["id"] for ask in of(Decide, rig.done)] == ["m0", "m1", "m2"]


def test_pending_sessions_have_a_limit_and_a_place_that_is_left_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert PENDING_SESSIONS == 1000
    monkeypatch.setattr("saltlite.master.protocol.sessions.PENDING_SESSIONS", 2)
    rig = SessionRig()
    accepted = rig.join("web1")
    first = rig.join("p1", "pending")
    rig.join("p2", "pending")
    late = Peer(rig, "p3")
    late.prove()
    rig.take()
    late.decided("pending")
    assert late.heard()[0]["state"] == "busy"
    assert accepted.alive
    first.say({"t": "bye", "reason": ""})
    assert rig.join("p3", "pending").alive


def test_a_pending_key_may_come_again_when_all_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.master.protocol.sessions.PENDING_SESSIONS", 1)
    rig = SessionRig()
    older = rig.join("p1", "pending")
    rig.take()
    assert rig.join("p1", "pending").alive
    assert rig.refused() == {}
    older.say({"t": "heartbeat", "running": [], "spool": 0})
    assert rig.refused() == {"no-session": 1}
