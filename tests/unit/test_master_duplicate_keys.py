"""Two machines with one key: who is up keeps its place while it is alive, and the other is told why it waits."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.master.protocol.effects import ContestOver, Effect, Presence, Send, Suspect
from saltlite.master.protocol.sessions import (
    KEYS_MAX,
    PROBE_S,
    PROOFS,
    WINDOW_S,
    DuplicateKeys,
    NewcomerElsewhere,
)
from saltlite.model.keys import Fingerprint
from saltlite.wire import codec
from tests.support.memory_fleet import Peer, SessionRig, of

ALIVE = {"t": "heartbeat", "running": [], "spool": 0}


def told(peer: Peer, effects: list[Effect]) -> list[dict[str, Any]]:
    """What these effects say to that peer."""
    assert peer.session is not None
    return [codec.decode(peer.session.open(send.frame)) for send in of(Send, effects) if send.route == peer.route]


def states(peer: Peer, effects: list[Effect]) -> list[str]:
    return [message["state"] for message in told(peer, effects) if message["t"] in ("welcome", "state")]


def up_and_newcomer(rig: SessionRig) -> tuple[Peer, Peer]:
    """A minion that is up, and a session of its key with another boot id that was just accepted."""
    up = rig.join("web1", boot="a")
    rig.take()
    return up, rig.join("web1", boot="b")


def test_who_is_up_is_asked_for_a_sign_of_life_while_the_newcomer_waits() -> None:
    rig = SessionRig()
    up, newcomer = up_and_newcomer(rig)
    effects = rig.take()
    assert [message["t"] for message in told(up, effects)] == ["probe"]
    assert told(newcomer, effects) == []
    assert of(Presence, effects) == []


def test_a_newcomer_is_sent_away_when_the_one_that_is_up_answers_and_later_told_that_it_is_a_clone() -> None:
    rig = SessionRig()
    up = rig.join("web1", boot="a")
    rig.take()
    for number in range(PROOFS):
        newcomer = rig.join("web1", boot=f"b{number}")
        rig.take()
        up.say(ALIVE)
        effects = rig.take()
        assert states(newcomer, effects) == ["duplicate_key" if number == PROOFS - 1 else "busy"]
        assert of(Presence, effects) == []
        suspects = [Suspect("web1", up.key, newcomer.address, up.address)] if number == PROOFS - 1 else []
        assert of(Suspect, effects) == suspects
    assert up.alive


def test_of_a_clone_nobody_is_told_twice_in_a_while() -> None:
    rig = SessionRig()
    up = rig.join("web1", boot="a")
    for _ in range(3 * PROOFS):
        rig.join("web1", boot="b")
        up.say(ALIVE)
    rig.take()
    assert len(of(Suspect, rig.done)) == 1


def test_a_restarted_minion_has_its_place_at_once_when_its_old_session_is_gone() -> None:
    rig = SessionRig()
    up, newcomer = up_and_newcomer(rig)
    (probe,) = [send for send in of(Send, rig.take()) if send.route == up.route]
    rig.manager.unsent(probe, gone=True)
    effects = rig.take()
    assert states(newcomer, effects) == ["accepted"]
    assert [change.up for change in of(Presence, effects)] == [False, True]


def test_a_restarted_minion_has_its_place_soon_when_its_old_session_is_silent() -> None:
    rig = SessionRig()
    up, newcomer = up_and_newcomer(rig)
    rig.take()
    rig.wait(PROBE_S / 2)
    assert states(newcomer, rig.take()) == []
    rig.wait(PROBE_S)
    effects = rig.take()
    assert states(newcomer, effects) == ["accepted"]
    assert states(up, effects) == ["replaced"]
    assert newcomer.alive


def test_a_minion_that_says_goodbye_leaves_its_place_to_the_newcomer() -> None:
    rig = SessionRig()
    up, newcomer = up_and_newcomer(rig)
    rig.take()
    up.say({"t": "bye", "reason": ""})
    assert states(newcomer, rig.take()) == ["accepted"]


def test_the_same_daemon_on_a_new_connection_is_not_made_to_wait() -> None:
    rig = SessionRig()
    rig.join("web1", boot="a")
    rig.take()
    newer = rig.join("web1", boot="a")
    assert states(newer, rig.take()) == ["accepted"]


def with_order(rig: SessionRig, order: list[int], address: str) -> Peer:
    """A session of web1 at this place of the order of the same start, accepted by an MWorker."""
    peer = Peer(rig, "web1", address=address)
    peer.prove(boot="a", order=order)
    peer.decided("accepted")
    return peer


@pytest.mark.parametrize(("order", "state"), [([7, 3], "duplicate_key"), ([7, 2], "busy"), ([6, 9], "busy")])
def test_a_machine_that_was_copied_while_it_ran_is_told_apart_by_the_order_of_its_sessions(
    order: list[int], state: str
) -> None:
    rig = SessionRig()
    up = with_order(rig, [7, 3], "10.0.0.9")
    rig.take()
    copy = with_order(rig, order, "10.0.0.77")
    assert [message["t"] for message in told(up, rig.take())] == ["probe"]
    up.say(ALIVE)
    effects = rig.take()
    assert states(copy, effects) == [state]
    assert of(Suspect, effects) == ([Suspect("web1", up.key, "10.0.0.77", "10.0.0.9")] if order == [7, 3] else [])
    assert up.alive


@pytest.mark.parametrize("order", [[7, 4], [8, 1]])
def test_a_later_session_of_the_same_start_has_its_place_at_once(order: list[int]) -> None:
    rig = SessionRig()
    up = with_order(rig, [7, 3], "10.0.0.9")
    rig.take()
    later = with_order(rig, order, "10.0.0.77")
    effects = rig.take()
    assert states(later, effects) == ["accepted"]
    assert states(up, effects) == ["replaced"]


@pytest.mark.parametrize("state", ["revoked", "rejected", "deleted"])
def test_a_newcomer_that_waits_feels_a_change_of_its_key(state: str) -> None:
    rig = SessionRig()
    up, newcomer = up_and_newcomer(rig)
    rig.take()
    rig.manager.key_changed(up.key, state, "web1")
    assert states(newcomer, rig.take()) == ["busy"]
    rig.wait(2 * PROBE_S)
    assert rig.manager.sessions.present() == []


def test_a_third_newcomer_takes_the_turn_of_the_second() -> None:
    rig = SessionRig()
    _up, second = up_and_newcomer(rig)
    rig.take()
    third = Peer(rig, "web1")
    third.prove(boot="c")
    assert states(second, rig.take()) == ["busy"]
    third.decided("accepted")
    rig.take()
    rig.wait(2 * PROBE_S)
    assert states(third, rig.take()) == ["accepted"]


def test_proofs_that_are_old_do_not_count_and_memory_is_bounded() -> None:
    clones, rig = DuplicateKeys(), SessionRig()
    rig.join("web1")
    (stays,) = rig.manager.sessions.by_id.values()
    newcomer = NewcomerElsewhere(1, "b", [1, 2], "10.0.0.1")
    assert not any(clones.proved(stays, newcomer, number * WINDOW_S) for number in range(10))
    for number in range(KEYS_MAX + 5):
        stays.fingerprint = Fingerprint(str(number))
        clones.proved(stays, newcomer, 0.0)
    assert len(clones._seen) == KEYS_MAX


# -- the newcomer is at another master


def contested(rig: SessionRig, up: Peer, question: int, **about: Any) -> None:
    """Another master asks whether the session of that peer is alive, for a newcomer there."""
    newcomer = {"boot": "elsewhere", "order": [1, 1], "address": "10.0.0.77", **about}
    rig.manager.contested(up.key, NewcomerElsewhere(question, **newcomer))


def test_another_master_is_told_that_a_session_which_answers_is_alive_and_later_that_its_newcomer_is_a_clone() -> None:
    rig = SessionRig()
    up = rig.join("web1", boot="a")
    rig.take()
    for number in range(PROOFS):
        contested(rig, up, number)
        assert [message["t"] for message in told(up, rig.take())] == ["probe"]
        up.say(ALIVE)
        effects = rig.take()
        is_last = number == PROOFS - 1
        assert of(ContestOver, effects) == [ContestOver(number, "duplicate_key" if is_last else "busy")]
        assert of(Suspect, effects) == ([Suspect("web1", up.key, "10.0.0.77", up.address)] if is_last else [])
    assert up.alive


def test_a_session_that_is_silent_ends_and_another_master_gets_its_minion() -> None:
    rig = SessionRig()
    up = rig.join("web1", boot="a")
    contested(rig, up, 1)
    contested(rig, up, 2)
    rig.take()
    rig.clock.advance(PROBE_S)
    rig.manager.tick()
    effects = rig.take()
    assert of(ContestOver, effects) == [ContestOver(1, "accepted"), ContestOver(2, "accepted")]
    assert states(up, effects) == ["replaced"]
    assert [change.up for change in of(Presence, effects)] == [False]


def test_another_master_gets_a_minion_that_has_no_session_here_or_an_earlier_one_of_the_same_start() -> None:
    rig = SessionRig()
    up = with_order(rig, [7, 3], "10.0.0.9")
    contested(rig, up, 1, boot="a", order=[7, 4])
    contested(rig, Peer(rig, "web2"), 2)
    assert of(ContestOver, rig.take()) == [ContestOver(1, "accepted"), ContestOver(2, "accepted")]
    assert up.alive


def test_another_master_does_not_get_a_machine_that_was_copied_while_it_ran() -> None:
    rig = SessionRig()
    up = with_order(rig, [7, 3], "10.0.0.9")
    rig.take()
    contested(rig, up, 1, boot="a", order=[7, 3])
    assert [message["t"] for message in told(up, rig.take())] == ["probe"]
    up.say(ALIVE)
    assert of(ContestOver, rig.take()) == [ContestOver(1, "duplicate_key")]


def test_a_minion_that_connects_again_meanwhile_is_alive() -> None:
    rig = SessionRig()
    up = rig.join("web1", boot="a")
    contested(rig, up, 1)
    rig.take()
    again = rig.join("web1", boot="a")
    assert of(ContestOver, rig.take()) == [ContestOver(1, "busy")]
    assert again.alive


@pytest.mark.parametrize(
    ("own", "other", "address", "state"),
    [
        ([7, 1], [7, 1], "10.0.0.77", "duplicate_key"),
        ([7, 1], [7, 1], "10.0.0.9", "busy"),
        ([7, 1], [7, 2], "10.0.0.77", "busy"),
        ([0, 0], [0, 0], "10.0.0.77", "busy"),
    ],
)
def test_two_machines_at_the_same_place_of_their_order_are_a_copy_at_once(
    own: list[int], other: list[int], address: str, state: str
) -> None:
    """From two addresses, and if they count at all."""
    rig = SessionRig()
    up = Peer(rig, "web1")
    up.prove(boot="a", order=own)
    up.decided("accepted")
    contested(rig, up, 1, order=other, address=address)
    up.say(ALIVE)
    assert of(ContestOver, rig.take()) == [ContestOver(1, state)]


def test_a_newcomer_that_waits_for_another_master_gets_that_verdict_and_no_other_session_does() -> None:
    rig = SessionRig()
    newcomer = Peer(rig, "web1")
    newcomer.prove(boot="b", order=[2, 3])
    rig.take()
    for boot, order in (("b", [2, 2]), ("c", [2, 3])):
        rig.manager.contest_over(newcomer.key, boot, order, "busy")
    assert newcomer.heard() == []
    rig.manager.contest_over(newcomer.key, "b", [2, 3], "busy")
    assert [message["state"] for message in newcomer.heard()] == ["busy"]


@pytest.mark.parametrize(
    ("boot", "run", "handshake", "ends"),
    [("a", 7, 2, True), ("a", 7, 1, True), ("a", 6, 9, False), ("another start", 1, 1, True)],
)
def test_a_session_ends_when_another_master_has_a_newer_one_or_one_of_another_start(
    boot: str, run: int, handshake: int, *, ends: bool
) -> None:
    """Another start may count from less, if its disk was restored: its master has got it from the owner."""
    rig = SessionRig()
    up = Peer(rig, "web1")
    up.prove(boot="a", order=[7, 1])
    up.decided("accepted")
    rig.take()
    rig.manager.replaced_elsewhere("web1", boot, run, handshake)
    assert states(up, rig.take()) == (["replaced"] if ends else [])
