"""Sessions on the master: presence, replacement, revocation (S5), jobs, returns, and links that are full."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from saltlite.master.protocol.effects import CloseConnection, MinionReport, Presence, Pull, Send
from saltlite.master.protocol.session_manager import (
    ACKNOWLEDGE_S,
    ACKNOWLEDGED_WHEN_BUSY,
    BLOCKED_RETRY_S,
    PULL_AGAIN_S,
    TICK_S,
    UNANSWERED_S,
)
from saltlite.master.protocol.sessions import DELIVERIES_MAX, HELD_MAX, RESEND_MIN_S, SILENCE_HEARTBEATS
from saltlite.model.ids import Jid
from saltlite.model.job import part_id, segment_id
from saltlite.model.minion import absence
from saltlite.wire import codec
from saltlite.wire.limits import (
    CHUNK,
    HEARTBEAT_MIN_S,
    HEARTBEATS_PER_S,
)
from saltlite.wire.messages import JIDS_MAX
from tests.support.memory_fleet import JID, JID2, MESSAGES, Guest, Table, delivery, jid, of

# -- sessions


def test_an_accepted_minion_is_announced_and_its_jobs_are_asked_for() -> None:
    table = Table()
    guest = table.join("web1")
    effects = table.take()
    assert [(up.id, up.up, up.fingerprint) for up in of(Presence, effects)] == [("web1", True, guest.key)]
    assert of(Pull, effects) == [Pull("web1", fresh=True)]


def test_a_newer_session_of_a_key_replaces_the_older_and_the_minion_never_goes_away() -> None:
    table = Table()
    older = table.join("web1")
    table.take()
    newer = table.join("web1")
    effects = table.take()
    told = [send for send in of(Send, effects) if send.route == older.route]
    assert older.session is not None
    assert [codec.decode(older.session.open(send.frame)) for send in told] == [{"t": "state", "state": "replaced"}]
    assert [up.up for up in of(Presence, effects)] == [True]
    assert newer.alive
    older.say({"t": "heartbeat", "running": [], "spool": 0})
    assert table.refused() == {"no-session": 1}


@pytest.mark.parametrize(("order", "ends"), [([3, 5], True), ([3, 4], True), ([2, 9], True), ([3, 6], False)])
def test_a_session_is_ended_when_another_master_has_a_newer_one(order: list[int], ends: bool) -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.prove(order=order)
    guest.decided("accepted")
    guest.heard()
    table.manager.replaced("web1", 3, 5)
    table.manager.replaced("web2", 3, 5)
    assert guest.heard() == ([{"t": "state", "state": "replaced"}] if ends else [])
    assert [up.up for up in of(Presence, table.done)] == ([True, False] if ends else [True])


def test_when_a_minion_was_last_heard_is_known_of_those_that_are_up() -> None:
    table = Table()
    table.join("web1")
    table.wait(7.0)
    assert table.manager.sessions.silent_s(["web1", "web2"], table.clock.monotonic()) == {"web1": 7.0}


def test_another_key_that_is_accepted_for_the_same_id_replaces_the_session_of_the_first() -> None:
    table = Table()
    older = table.join("web1")
    newer = Guest(table, "other")
    newer.name = "web1"
    newer.prove()
    newer.decided("accepted")
    table.take()
    older.say({"t": "job_state", **MESSAGES["job_state"]})
    assert of(MinionReport, table.take()) == []
    assert [up.fingerprint for up in table.manager.sessions.present()] == [newer.key]


def test_pending_is_accepted_in_its_session() -> None:
    table = Table()
    guest = table.join("web1", "pending")
    table.take()
    table.manager.key_changed(guest.key, "accepted", "web1")
    assert guest.heard() == [{"t": "state", "state": "accepted"}]
    assert of(Pull, table.done) == [Pull("web1", fresh=True)]


@pytest.mark.parametrize("state", ["rejected", "revoked", "deleted"])
@pytest.mark.parametrize("before", ["pending", "accepted"])
def test_after_a_key_was_taken_away_nothing_of_it_is_acted_on(before: str, state: str) -> None:
    """S5: from the moment that `key_changed` returns."""
    table = Table()
    guest = table.join("web1", before)
    on_its_way = guest.seal({"t": "return", **MESSAGES["return"]})
    table.take()
    table.manager.key_changed(guest.key, state, "web1")
    assert guest.heard() == [{"t": "state", "state": state}]
    guest.raw(on_its_way)
    table.manager.deliver("web1", [delivery(1, table)])
    table.manager.cancel([("web1", JID)])
    table.wait(TICK_S)
    effects = table.take()
    assert [effect for effect in effects if not isinstance(effect, Presence)] == []
    assert of(CloseConnection, table.done) == []


def test_a_silent_minion_is_away_after_two_and_a_half_beats_and_is_hung_up_on() -> None:
    table = Table()
    guest = table.join("web1")
    table.manager.deliver("web1", [])
    table.take()
    table.wait(UNANSWERED_S)
    table.take()
    table.wait(SILENCE_HEARTBEATS * HEARTBEAT_MIN_S - 1.0 - UNANSWERED_S)
    assert table.take() == []
    table.wait(1.0)
    effects = table.take()
    assert [up.up for up in of(Presence, effects)] == [False]
    assert CloseConnection(guest.number, guest.address) in effects


def ends_with(table: Table, what: str) -> list[tuple[bool, str]]:
    """A session of web1 ends in this way; whether it is up, and why not, as the store hears it."""
    guest = table.join("web1")
    table.take()
    manager, peer = table.manager, table.manager.sessions.by_id["web1"]
    match what:
        case "bye":
            guest.say({"t": "bye", "reason": "what a minion says of itself is not kept"})
        case "silence":
            table.wait(SILENCE_HEARTBEATS * HEARTBEAT_MIN_S)
        case "gone":
            manager.unsent(peer.sealed({"t": "heartbeat_ack"}), gone=True)
        case "bad frame":
            guest.say({"t": "grant", "jid": JID})
        case "full":
            for _ in range(HELD_MAX + 1):
                manager.unsent(peer.sealed({"t": "probe"}), gone=False)
        case "lease":
            manager.end_lease()
        case state:
            manager.key_changed(guest.key, state, "web1")
    return [(one.up, one.end) for one in of(Presence, table.take())]


@pytest.mark.parametrize(
    ("what", "end", "sentence"),
    [
        ("bye", "stopped", "the minion was stopped"),
        ("silence", "silent 37", "no heartbeat for 37 s"),
        ("gone", "lost", "its connection was lost"),
        ("bad frame", "broken", "it sent a frame that was refused"),
        ("full", "congested", "it took no more messages"),
        ("lease", "fenced", "its master lost the lease of the store"),
        ("rejected", "rejected", "its key was rejected"),
        ("revoked", "revoked", "its key was revoked"),
        ("deleted", "deleted", "its key was deleted or got another id"),
    ],
)
def test_why_a_session_ended_is_said_with_its_end(what: str, end: str, sentence: str) -> None:
    assert ends_with(Table(), what) == [(False, end)]
    assert absence(end) == sentence


def test_an_end_that_is_not_known_is_a_connection_that_ended() -> None:
    assert {absence(end) for end in ("", "of tomorrow", "lostt")} == {"connection ended"}


def test_a_minion_that_beats_stays() -> None:
    table = Table()
    guest = table.join("web1")
    for _ in range(20):
        table.wait(HEARTBEAT_MIN_S)
        assert guest.alive


def test_heartbeats_are_answered_together_by_the_next_tick() -> None:
    table = Table()
    guests = [table.join("web1"), table.join("web2"), table.join("gone")]
    table.take()
    for guest in guests * 3:
        guest.say({"t": "heartbeat", "running": [], "spool": 0})
    has_work = table.manager.has_work
    assert not has_work, "nothing is carried out for them before the tick"
    guests[2].say({"t": "bye", "reason": ""})
    has_work = table.manager.has_work
    assert has_work
    table.take()
    table.manager.tick()
    sent = of(Send, table.take())
    assert [send.route for send in sent] == [guests[0].route, guests[1].route]
    assert {send.message["t"] for send in sent if send.message is not None} == {"heartbeat_ack"}
    table.manager.tick()
    assert of(Send, table.take()) == []


def test_the_pace_gets_slower_with_the_number_of_minions() -> None:
    table = Table()
    table.manager.sessions.by_number = dict.fromkeys(range(HEARTBEATS_PER_S * 60))  # type: ignore[assignment]  # only counted
    assert table.manager.sessions.heartbeat_s == 60.0


def test_the_pace_is_that_of_the_whole_fleet_when_its_first_minions_connect() -> None:
    table = Table()
    table.manager.sessions.accepted_keys = HEARTBEATS_PER_S * 40
    guest = table.join("web1")
    assert guest.session is not None
    assert table.manager.sessions.by_number[guest.session.id].heartbeat_s == 40.0


def test_a_slower_pace_does_not_hide_a_dead_minion_for_several_heartbeats() -> None:
    table = Table()
    assert table.manager.sessions.silence_s == SILENCE_HEARTBEATS * HEARTBEAT_MIN_S
    table.manager.sessions.by_number = dict.fromkeys(range(HEARTBEATS_PER_S * 60))  # type: ignore[assignment]  # only counted
    assert table.manager.sessions.silence_s == 60.0 + 1.5 * HEARTBEAT_MIN_S


def test_a_connection_that_is_gone_is_noticed_by_sending() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.manager.hangup(guest.number)
    (probe,) = of(Send, table.take())
    table.manager.unsent(probe, gone=True)
    assert [up.up for up in of(Presence, table.take())] == [False]


def test_a_connection_that_the_link_refuses_only_after_its_bell_is_noticed_at_the_next_tick() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.manager.hangup(guest.number)
    table.take()
    table.wait(TICK_S)
    (probe,) = of(Send, table.take())
    table.manager.unsent(probe, gone=True)
    assert [up.up for up in of(Presence, table.take())] == [False]
    table.wait(TICK_S)
    assert of(Send, table.take()) == []


def test_leaving_tells_everybody_lame() -> None:
    table = Table()
    guest, pending = table.join("web1"), table.join("p1", "pending")
    table.take()
    table.manager.leave(500)
    sends = of(Send, table.take())
    assert {send.route for send in sends} == {guest.route, pending.route}
    assert guest.session is not None
    assert codec.decode(guest.session.open(sends[0].frame)) == {"t": "reconnect", "spread_ms": 500}


# -- jobs and returns


def test_a_job_is_sent_until_it_is_acknowledged() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.manager.deliver("web1", [delivery(1, table)])
    assert [message["t"] for message in guest.heard()] == ["job"]
    table.wait(RESEND_MIN_S)
    assert [message["deliver_ms"] for message in guest.heard()] == [58_000]
    guest.say({"t": "job_state", "jid": jid(1), "state": "received", "reason": ""})
    table.wait(RESEND_MIN_S * 2)
    assert guest.heard() == []


def test_a_job_for_somebody_who_is_away_stays_in_the_store() -> None:
    table = Table()
    table.manager.deliver("web1", [delivery(1, table)])
    assert table.take() == []


def test_more_jobs_than_fit_are_asked_for_again_once_there_is_room() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.manager.deliver("web1", [delivery(number, table) for number in range(DELIVERIES_MAX + 1)])
    sent = [message["jid"] for message in guest.heard()]
    assert len(sent) == DELIVERIES_MAX
    for number in sent:
        assert of(Pull, table.take()) == []
        guest.say({"t": "job_state", "jid": number, "state": "received", "reason": ""})
        if of(Pull, table.take()):
            break
    assert sent.index(number) == DELIVERIES_MAX // 2 - 1


def test_a_sweep_asks_only_for_those_who_are_up_and_have_nothing_under_way() -> None:
    table = Table()
    table.join("idle")
    table.join("laden")
    table.manager.deliver("idle", [])
    table.manager.deliver("laden", [delivery(1, table)])
    table.take()
    table.manager.pull(["away", "idle", "laden"])
    assert table.take() == [Pull("idle", fresh=False)]


def test_a_session_that_lasts_is_asked_anew_about_what_is_not_settled() -> None:
    table = Table()
    guest = table.join("web1")
    table.manager.deliver("web1", [])
    table.wait(UNANSWERED_S)
    table.take()
    table.done.clear()
    for _ in range(int(PULL_AGAIN_S / 10)):
        assert of(Pull, table.done) == []
        table.wait(10.0)
        assert guest.alive
    assert of(Pull, table.done) == [Pull("web1", fresh=True)]


def test_the_first_pull_of_a_session_is_asked_until_it_is_answered() -> None:
    table = Table()
    guest = table.join("web1")
    for _ in range(3):
        table.take()
        table.done.clear()
        table.wait(UNANSWERED_S)
        assert guest.alive
        assert of(Pull, table.done) == [Pull("web1", fresh=True)]


def test_what_a_fresh_pull_left_out_is_asked_about_as_soon_as_there_is_room() -> None:
    table = Table()
    guest = table.join("web1")
    table.manager.deliver("web1", [delivery(1, table), delivery(2, table)], starved=True, rest=jid(3))
    table.take()
    guest.say({"t": "job_state", "jid": jid(1), "state": "running", "reason": ""})
    assert of(Pull, table.take()) == [Pull("web1", fresh=True, since=jid(3))]
    table.manager.deliver("web1", [delivery(3, table)], rest="")
    guest.say({"t": "job_state", "jid": jid(3), "state": "running", "reason": ""})
    assert of(Pull, table.take()) == []


def test_a_minion_is_asked_anew_soon_when_nobody_answered_about_what_was_left() -> None:
    table = Table()
    guest = table.join("web1")
    table.manager.deliver("web1", [delivery(1, table)], starved=True, rest=jid(2))
    guest.say({"t": "job_state", "jid": jid(1), "state": "running", "reason": ""})
    table.take()
    table.wait(UNANSWERED_S)
    assert of(Pull, table.take()) == [Pull("web1", fresh=True)]


def test_a_fresh_pull_that_was_answered_is_not_asked_again_soon() -> None:
    table = Table()
    table.join("web1")
    table.take()
    table.manager.deliver("web1", [], rest="")
    table.wait(UNANSWERED_S)
    assert of(Pull, table.take()) == []


def test_a_new_job_is_not_pushed_into_a_session_that_the_store_may_not_know() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.manager.push("web1", [delivery(1, table)])
    assert guest.heard() == []
    table.manager.deliver("web1", [])
    table.manager.push("web1", [delivery(1, table)])
    assert [message["t"] for message in guest.heard()] == ["job"]


def test_a_job_that_comes_while_the_first_pull_is_answered_is_pulled_after_that() -> None:
    table = Table()
    table.join("web1")
    table.take()
    # The answer was read before the job was stored.
    table.manager.push("web1", [delivery(1, table)])
    table.manager.deliver("web1", [delivery(2, table)], rest="")
    assert of(Pull, table.take()) == [Pull("web1", fresh=False)]
    table.manager.deliver("web1", [delivery(1, table)], rest="")
    assert of(Pull, table.take()) == []


def test_a_session_ends_when_a_frame_of_its_minion_did_not_arrive() -> None:
    table = Table()
    guest = table.join("web1")
    guest.seal({"t": "heartbeat", "running": [], "spool": 0})
    assert not guest.alive
    assert table.manager.refused_frames == {"gap": 1}


def test_a_return_is_acknowledged_when_it_was_committed_and_not_before() -> None:
    table = Table()
    guest = table.join("web1")
    guest.say({"t": "return", **MESSAGES["return"]})
    assert [e for e in guest.heard() if e["t"] == "return_ack"] == []
    table.manager.committed(guest.key, [JID])
    table.manager.acknowledge(busy=False)
    assert guest.heard() == [{"t": "return_ack", "jids": [JID]}]


def test_a_batch_of_acknowledgements_is_cut_to_what_a_minion_takes() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    jids = [jid(number) for number in range(2 * JIDS_MAX + 1)]
    table.manager.committed(guest.key, jids)
    table.manager.acknowledge(busy=False)
    heard = guest.heard()
    assert [len(message["jids"]) for message in heard] == [JIDS_MAX, JIDS_MAX, 1]
    assert [number for message in heard for number in message["jids"]] == jids


def test_acknowledgements_let_frames_of_minions_pass() -> None:
    table = Table()
    guests = [table.join(f"web{number}") for number in range(ACKNOWLEDGED_WHEN_BUSY + 1)]
    first, *_others, last = guests
    for guest in guests:
        guest.heard()
        table.manager.committed(guest.key, [jid(1)])
    table.manager.committed(first.key, [jid(2)])
    assert table.manager.acknowledge(busy=True)
    assert first.heard() == []
    table.wait(2 * ACKNOWLEDGE_S)
    assert table.manager.acknowledge(busy=True)
    assert first.heard() == [{"t": "return_ack", "jids": [jid(1), jid(2)]}]
    assert last.heard() == []
    assert not table.manager.acknowledge(busy=False)
    assert last.heard() == [{"t": "return_ack", "jids": [jid(1)]}]


def test_a_large_return_is_granted_put_together_and_reported_once() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    body = b"r" * (CHUNK + 10)
    guest.say({"t": "return", **MESSAGES["return"], "body": b"", "size": len(body)})
    assert guest.heard() == [{"t": "grant", "jid": JID}]
    guest.say({"t": "return_chunk", "jid": JID, "offset": 0, "data": body[:CHUNK]})
    guest.say({"t": "return_chunk", "jid": JID, "offset": CHUNK, "data": body[CHUNK:]})
    (report,) = of(MinionReport, table.take())
    assert (report.message["jid"], report.body) == (JID, body)


def test_a_return_that_is_neither_whole_nor_announced_is_refused() -> None:
    table = Table()
    guest = table.join("web1")
    guest.say({"t": "return", **MESSAGES["return"], "body": b"x", "size": 2})
    assert table.refused() == {"bad-message": 1}


@pytest.mark.parametrize("body", [b"x", b""], ids=["whole", "announced"])
def test_how_a_part_for_resources_ended_has_no_body(body: bytes) -> None:
    """Else it would be stored once for each resource that has not answered."""
    table = Table()
    guest = table.join("web1")
    guest.say(
        {
            "t": "return",
            **MESSAGES["return"],
            "jid": part_id(Jid(JID), 1),
            "state": "interrupted",
            "body": body,
            "size": 1,
        }
    )
    assert table.refused() == {"bad-message": 1}
    assert of(MinionReport, table.take()) == []


@pytest.mark.parametrize(("result", "body"), [(part_id(Jid(JID), 1), b""), (segment_id(part_id(Jid(JID), 1), 0), b"x")])
def test_the_end_of_a_part_and_segments_of_it_are_reported(result: str, body: bytes) -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    said = {**MESSAGES["return"], "jid": result, "state": "interrupted", "body": body, "size": len(body)}
    guest.say({"t": "return", **said})
    (report,) = of(MinionReport, table.take())
    assert (report.message["jid"], report.body) == (result, body)


# -- a full link


def test_a_job_that_the_link_could_not_take_is_sent_again_soon() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.manager.deliver("web1", [delivery(1, table)])
    (send,) = of(Send, table.take())
    table.manager.unsent(send, gone=False)
    table.wait(BLOCKED_RETRY_S)
    assert [message["t"] for message in guest.heard()] == ["job"]


def test_what_the_link_could_not_take_is_said_later_in_order() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.manager.cancel([("web1", JID)])
    (send,) = of(Send, table.take())
    table.manager.unsent(send, gone=False)
    table.manager.cancel([("web1", JID2)])
    assert table.take() == []
    table.wait(BLOCKED_RETRY_S)
    assert [message["jid"] for message in guest.heard()] == [JID, JID2]


def test_a_minion_that_takes_nothing_is_hung_up_on_and_not_remembered() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    for number in range(HELD_MAX + 1):
        table.manager.cancel([("web1", jid(number))])
        for send in of(Send, table.take()):
            table.manager.unsent(send, gone=False)
    assert CloseConnection(guest.number, guest.address) in table.done
    table.wait(BLOCKED_RETRY_S)
    assert table.take() == []
    assert table.manager.sessions.present() == []


def test_the_session_of_a_minion_costs_at_most_2600_bytes_of_python() -> None:
    count = 100
    table = Table()

    def join(number: int) -> None:
        said = {"boot": f"{number:032x}", "incarnation": f"{number + 1:032x}", "functions": f"{number + 2:032x}"}
        guest = Guest(table, f"web{number:05d}.example.net", address=f"10.0.0.{number}")
        table.manager.connected(guest.number, guest.address)
        guest.prove(**said)
        guest.decided("accepted")
        table.manager.deliver(guest.name, [], rest="")
        table.take()
        table.done.clear()

    join(0)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, count + 1):
            join(number)
        gc.collect()
        taken, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table.manager.sessions.present()) == count + 1
    assert taken / count < 2600
