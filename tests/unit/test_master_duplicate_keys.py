"""Two machines with one key: who is up keeps its place while it is alive, and the other is told why it waits."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.master.protocol.effects import Effect, Presence, Send, Suspect
from saltlite.master.protocol.sessions import KEYS_MAX, PROBE_S, PROOFS, WINDOW_S, DuplicateKeys
from saltlite.model.keys import Fingerprint
from saltlite.wire import codec
from tests.support.memory_fleet import Guest, Table, of

ALIVE = {"t": "heartbeat", "running": [], "spool": 0}


def told(guest: Guest, effects: list[Effect]) -> list[dict[str, Any]]:
    """What these effects say to that guest."""
    assert guest.session is not None
    return [codec.decode(guest.session.open(send.frame)) for send in of(Send, effects) if send.route == guest.route]


def states(guest: Guest, effects: list[Effect]) -> list[str]:
    return [message["state"] for message in told(guest, effects) if message["t"] in ("welcome", "state")]


def up_and_newcomer(table: Table) -> tuple[Guest, Guest]:
    """A minion that is up, and a session of its key with another boot id that was just accepted."""
    up = table.join("web1", boot="a")
    table.take()
    return up, table.join("web1", boot="b")


def test_who_is_up_is_asked_for_a_sign_of_life_while_the_newcomer_waits() -> None:
    table = Table()
    up, newcomer = up_and_newcomer(table)
    effects = table.take()
    assert [message["t"] for message in told(up, effects)] == ["probe"]
    assert told(newcomer, effects) == []
    assert of(Presence, effects) == []


def test_a_newcomer_is_sent_away_when_the_one_that_is_up_answers_and_later_told_that_it_is_a_clone() -> None:
    table = Table()
    up = table.join("web1", boot="a")
    table.take()
    for number in range(PROOFS):
        newcomer = table.join("web1", boot=f"b{number}")
        table.take()
        up.say(ALIVE)
        effects = table.take()
        assert states(newcomer, effects) == ["duplicate_key" if number == PROOFS - 1 else "busy"]
        assert of(Presence, effects) == []
        suspects = [Suspect("web1", up.key, newcomer.address, up.address)] if number == PROOFS - 1 else []
        assert of(Suspect, effects) == suspects
    assert up.alive


def test_of_a_clone_nobody_is_told_twice_in_a_while() -> None:
    table = Table()
    up = table.join("web1", boot="a")
    for _ in range(3 * PROOFS):
        table.join("web1", boot="b")
        up.say(ALIVE)
    table.take()
    assert len(of(Suspect, table.done)) == 1


def test_a_restarted_minion_has_its_place_at_once_when_its_old_session_is_gone() -> None:
    table = Table()
    up, newcomer = up_and_newcomer(table)
    (probe,) = [send for send in of(Send, table.take()) if send.route == up.route]
    table.manager.unsent(probe, gone=True)
    effects = table.take()
    assert states(newcomer, effects) == ["accepted"]
    assert [change.up for change in of(Presence, effects)] == [False, True]


def test_a_restarted_minion_has_its_place_soon_when_its_old_session_is_silent() -> None:
    table = Table()
    up, newcomer = up_and_newcomer(table)
    table.take()
    table.wait(PROBE_S / 2)
    assert states(newcomer, table.take()) == []
    table.wait(PROBE_S)
    effects = table.take()
    assert states(newcomer, effects) == ["accepted"]
    assert states(up, effects) == ["replaced"]
    assert newcomer.alive


def test_a_minion_that_says_goodbye_leaves_its_place_to_the_newcomer() -> None:
    table = Table()
    up, newcomer = up_and_newcomer(table)
    table.take()
    up.say({"t": "bye", "reason": ""})
    assert states(newcomer, table.take()) == ["accepted"]


def test_the_same_daemon_on_a_new_connection_is_not_made_to_wait() -> None:
    table = Table()
    table.join("web1", boot="a")
    table.take()
    newer = table.join("web1", boot="a")
    assert states(newer, table.take()) == ["accepted"]


@pytest.mark.parametrize("state", ["revoked", "rejected", "deleted"])
def test_a_newcomer_that_waits_feels_a_change_of_its_key(state: str) -> None:
    table = Table()
    up, newcomer = up_and_newcomer(table)
    table.take()
    table.manager.key_changed(up.key, state, "web1")
    assert states(newcomer, table.take()) == ["busy"]
    table.wait(2 * PROBE_S)
    assert table.manager.sessions.present() == []


def test_a_third_newcomer_takes_the_turn_of_the_second() -> None:
    table = Table()
    _up, second = up_and_newcomer(table)
    table.take()
    third = Guest(table, "web1")
    third.prove(boot="c")
    assert states(second, table.take()) == ["busy"]
    third.decided("accepted")
    table.take()
    table.wait(2 * PROBE_S)
    assert states(third, table.take()) == ["accepted"]


def test_proofs_that_are_old_do_not_count_and_memory_is_bounded() -> None:
    clones, key = DuplicateKeys(), Fingerprint("k" * 40)
    assert not any(clones.proved(key, number * WINDOW_S) for number in range(10))
    for number in range(KEYS_MAX + 5):
        clones.proved(Fingerprint(str(number)), 0.0)
    assert len(clones._seen) == KEYS_MAX
