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
from tests.support.memory_fleet import JID, JID2, MESSAGES, Peer, SessionRig, delivery, jid, of

# -- sessions


def test_an_accepted_minion_is_announced_and_its_jobs_are_asked_for() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    effects = rig.take()
    assert [(up.id, up.up, up.fingerprint) for up in of(Presence, effects)] == [("web1", True, peer.key)]
    assert of(Pull, effects) == [Pull("web1", fresh=True)]


def test_a_newer_session_of_a_key_replaces_the_older_and_the_minion_never_goes_away() -> None:
    rig = SessionRig()
    older = rig.join("web1")
    rig.take()
    newer = rig.join("web1")
    effects = rig.take()
    told = [send for send in of(Send, effects) if send.route == older.route]
    assert older.session is not None
    assert [codec.decode(older.session.open(send.frame)) for send in told] == [{"t": "state", "state": "replaced"}]
    assert [up.up for up in of(Presence, effects)] == [True]
    assert newer.alive
    older.say({"t": "heartbeat", "running": [], "spool": 0})
    assert rig.refused() == {"no-session": 1}


@pytest.mark.parametrize(("order", "ends"), [([3, 5], True), ([3, 4], True), ([2, 9], True), ([3, 6], False)])
def test_a_session_is_ended_when_another_master_has_a_newer_one(order: list[int], ends: bool) -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove(order=order)
    peer.decided("accepted")
    peer.heard()
    rig.manager.replaced("web1", 3, 5)
    rig.manager.replaced("web2", 3, 5)
    assert peer.heard() == ([{"t": "state", "state": "replaced"}] if ends else [])
    assert [up.up for up in of(Presence, rig.done)] == ([True, False] if ends else [True])


def test_when_a_minion_was_last_heard_is_known_of_those_that_are_up() -> None:
    rig = SessionRig()
    rig.join("web1")
    rig.wait(7.0)
    assert rig.manager.sessions.silent_s(["web1", "web2"], rig.clock.monotonic()) == {"web1": 7.0}


def test_another_key_that_is_accepted_for_the_same_id_replaces_the_session_of_the_first() -> None:
    rig = SessionRig()
    older = rig.join("web1")
    newer = Peer(rig, "other")
    newer.name = "web1"
    newer.prove()
    newer.decided("accepted")
    rig.take()
    older.say({"t": "job_state", **MESSAGES["job_state"]})
    assert of(MinionReport, rig.take()) == []
    assert [up.fingerprint for up in rig.manager.sessions.present()] == [newer.key]


def test_pending_is_accepted_in_its_session() -> None:
    rig = SessionRig()
    peer = rig.join("web1", "pending")
    rig.take()
    rig.manager.key_changed(peer.key, "accepted", "web1")
    assert peer.heard() == [{"t": "state", "state": "accepted"}]
    assert of(Pull, rig.done) == [Pull("web1", fresh=True)]


@pytest.mark.parametrize("state", ["rejected", "revoked", "deleted"])
@pytest.mark.parametrize("before", ["pending", "accepted"])
def test_after_a_key_was_taken_away_nothing_of_it_is_acted_on(before: str, state: str) -> None:
    """S5: from the moment that `key_changed` returns."""
    rig = SessionRig()
    peer = rig.join("web1", before)
    on_its_way = peer.seal({"t": "return", **MESSAGES["return"]})
    rig.take()
    rig.manager.key_changed(peer.key, state, "web1")
    assert peer.heard() == [{"t": "state", "state": state}]
    peer.raw(on_its_way)
    rig.manager.deliver("web1", [delivery(1, rig)])
    rig.manager.cancel([("web1", JID)])
    rig.wait(TICK_S)
    effects = rig.take()
    assert [effect for effect in effects if not isinstance(effect, Presence)] == []
    assert of(CloseConnection, rig.done) == []


def test_a_silent_minion_is_away_after_two_and_a_half_beats_and_is_hung_up_on() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.manager.deliver("web1", [])
    rig.take()
    rig.wait(UNANSWERED_S)
    rig.take()
    rig.wait(SILENCE_HEARTBEATS * HEARTBEAT_MIN_S - 1.0 - UNANSWERED_S)
    assert rig.take() == []
    rig.wait(1.0)
    effects = rig.take()
    assert [up.up for up in of(Presence, effects)] == [False]
    assert CloseConnection(peer.number, peer.address) in effects


def ends_with(rig: SessionRig, what: str) -> list[tuple[bool, str]]:
    """A session of web1 ends in this way; whether it is up, and why not, as the store hears it."""
    peer = rig.join("web1")
    rig.take()
    manager, session = rig.manager, rig.manager.sessions.by_id["web1"]
    match what:
        case "bye":
            peer.say({"t": "bye", "reason": "what a minion says of itself is not kept"})
        case "silence":
            rig.wait(SILENCE_HEARTBEATS * HEARTBEAT_MIN_S)
        case "gone":
            manager.unsent(session.sealed({"t": "heartbeat_ack"}), gone=True)
        case "bad frame":
            peer.say({"t": "grant", "jid": JID})
        case "full":
            for _ in range(HELD_MAX + 1):
                manager.unsent(session.sealed({"t": "probe"}), gone=False)
        case "lease":
            manager.end_lease()
        case state:
            manager.key_changed(peer.key, state, "web1")
    return [(one.up, one.end) for one in of(Presence, rig.take())]


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
    assert ends_with(SessionRig(), what) == [(False, end)]
    assert absence(end) == sentence


def test_an_end_that_is_not_known_is_a_connection_that_ended() -> None:
    assert {absence(end) for end in ("", "of tomorrow", "lostt")} == {"connection ended"}


def test_a_minion_that_beats_stays() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    for _ in range(20):
        rig.wait(HEARTBEAT_MIN_S)
        assert peer.alive


def test_heartbeats_are_answered_together_by_the_next_tick() -> None:
    rig = SessionRig()
    peers = [rig.join("web1"), rig.join("web2"), rig.join("gone")]
    rig.take()
    for peer in peers * 3:
        peer.say({"t": "heartbeat", "running": [], "spool": 0})
    has_work = rig.manager.has_work
    assert not has_work, "nothing is carried out for them before the tick"
    peers[2].say({"t": "bye", "reason": ""})
    has_work = rig.manager.has_work
    assert has_work
    rig.take()
    rig.manager.tick()
    sent = of(Send, rig.take())
    assert [send.route for send in sent] == [peers[0].route, peers[1].route]
    assert {send.message["t"] for send in sent if send.message is not None} == {"heartbeat_ack"}
    rig.manager.tick()
    assert of(Send, rig.take()) == []


def test_the_pace_gets_slower_with_the_number_of_minions() -> None:
    rig = SessionRig()
    rig.manager.sessions.by_number = dict.fromkeys(range(HEARTBEATS_PER_S * 60))  # type: ignore[assignment]  # only counted
    assert rig.manager.sessions.heartbeat_s == 60.0


def test_the_pace_is_that_of_the_whole_fleet_when_its_first_minions_connect() -> None:
    rig = SessionRig()
    rig.manager.sessions.accepted_keys = HEARTBEATS_PER_S * 40
    peer = rig.join("web1")
    assert peer.session is not None
    assert rig.manager.sessions.by_number[peer.session.id].heartbeat_s == 40.0


def test_a_slower_pace_does_not_hide_a_dead_minion_for_several_heartbeats() -> None:
    rig = SessionRig()
    assert rig.manager.sessions.silence_s == SILENCE_HEARTBEATS * HEARTBEAT_MIN_S
    rig.manager.sessions.by_number = dict.fromkeys(range(HEARTBEATS_PER_S * 60))  # type: ignore[assignment]  # only counted
    assert rig.manager.sessions.silence_s == 60.0 + 1.5 * HEARTBEAT_MIN_S


def test_a_connection_that_is_gone_is_noticed_by_sending() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    rig.manager.hangup(peer.number)
    (probe,) = of(Send, rig.take())
    rig.manager.unsent(probe, gone=True)
    assert [up.up for up in of(Presence, rig.take())] == [False]


def test_a_connection_that_the_link_refuses_only_after_its_bell_is_noticed_at_the_next_tick() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    rig.manager.hangup(peer.number)
    rig.take()
    rig.wait(TICK_S)
    (probe,) = of(Send, rig.take())
    rig.manager.unsent(probe, gone=True)
    assert [up.up for up in of(Presence, rig.take())] == [False]
    rig.wait(TICK_S)
    assert of(Send, rig.take()) == []


def test_leaving_tells_everybody_lame() -> None:
    rig = SessionRig()
    peer, pending = rig.join("web1"), rig.join("p1", "pending")
    rig.take()
    rig.manager.leave(500)
    sends = of(Send, rig.take())
    assert {send.route for send in sends} == {peer.route, pending.route}
    assert peer.session is not None
    assert codec.decode(peer.session.open(sends[0].frame)) == {"t": "reconnect", "spread_ms": 500}


# -- jobs and returns


def test_a_job_is_sent_until_it_is_acknowledged() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    rig.manager.deliver("web1", [delivery(1, rig)])
    assert [message["t"] for message in peer.heard()] == ["job"]
    rig.wait(RESEND_MIN_S)
    assert [message["deliver_ms"] for message in peer.heard()] == [58_000]
    peer.say({"t": "job_state", "jid": jid(1), "state": "received", "reason": ""})
    rig.wait(RESEND_MIN_S * 2)
    assert peer.heard() == []


def test_a_job_for_somebody_who_is_away_stays_in_the_store() -> None:
    rig = SessionRig()
    rig.manager.deliver("web1", [delivery(1, rig)])
    assert rig.take() == []


def test_more_jobs_than_fit_are_asked_for_again_once_there_is_room() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    rig.manager.deliver("web1", [delivery(number, rig) for number in range(DELIVERIES_MAX + 1)])
    sent = [message["jid"] for message in peer.heard()]
    assert len(sent) == DELIVERIES_MAX
    for number in sent:
        assert of(Pull, rig.take()) == []
        peer.say({"t": "job_state", "jid": number, "state": "received", "reason": ""})
        if of(Pull, rig.take()):
            break
    assert sent.index(number) == DELIVERIES_MAX // 2 - 1


def test_a_sweep_asks_only_for_those_who_are_up_and_have_nothing_under_way() -> None:
    rig = SessionRig()
    rig.join("idle")
    rig.join("laden")
    rig.manager.deliver("idle", [])
    rig.manager.deliver("laden", [delivery(1, rig)])
    rig.take()
    rig.manager.pull(["away", "idle", "laden"])
    assert rig.take() == [Pull("idle", fresh=False)]


def test_a_session_that_lasts_is_asked_anew_about_what_is_not_settled() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.manager.deliver("web1", [])
    rig.wait(UNANSWERED_S)
    rig.take()
    rig.done.clear()
    for _ in range(int(PULL_AGAIN_S / 10)):
        assert of(Pull, rig.done) == []
        rig.wait(10.0)
        assert peer.alive
    assert of(Pull, rig.done) == [Pull("web1", fresh=True)]


def test_the_first_pull_of_a_session_is_asked_until_it_is_answered() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    for _ in range(3):
        rig.take()
        rig.done.clear()
        rig.wait(UNANSWERED_S)
        assert peer.alive
        assert of(Pull, rig.done) == [Pull("web1", fresh=True)]


def test_what_a_fresh_pull_left_out_is_asked_about_as_soon_as_there_is_room() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.manager.deliver("web1", [delivery(1, rig), delivery(2, rig)], starved=True, rest=jid(3))
    rig.take()
    peer.say({"t": "job_state", "jid": jid(1), "state": "running", "reason": ""})
    assert of(Pull, rig.take()) == [Pull("web1", fresh=True, since=jid(3))]
    rig.manager.deliver("web1", [delivery(3, rig)], rest="")
    peer.say({"t": "job_state", "jid": jid(3), "state": "running", "reason": ""})
    assert of(Pull, rig.take()) == []


def test_a_minion_is_asked_anew_soon_when_nobody_answered_about_what_was_left() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.manager.deliver("web1", [delivery(1, rig)], starved=True, rest=jid(2))
    peer.say({"t": "job_state", "jid": jid(1), "state": "running", "reason": ""})
    rig.take()
    rig.wait(UNANSWERED_S)
    assert of(Pull, rig.take()) == [Pull("web1", fresh=True)]


def test_a_fresh_pull_that_was_answered_is_not_asked_again_soon() -> None:
    rig = SessionRig()
    rig.join("web1")
    rig.take()
    rig.manager.deliver("web1", [], rest="")
    rig.wait(UNANSWERED_S)
    assert of(Pull, rig.take()) == []


def test_a_new_job_is_not_pushed_into_a_session_that_the_store_may_not_know() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    rig.manager.push("web1", [delivery(1, rig)])
    assert peer.heard() == []
    rig.manager.deliver("web1", [])
    rig.manager.push("web1", [delivery(1, rig)])
    assert [message["t"] for message in peer.heard()] == ["job"]


def test_a_job_that_comes_while_the_first_pull_is_answered_is_pulled_after_that() -> None:
    rig = SessionRig()
    rig.join("web1")
    rig.take()
    # The answer was read before the job was stored.
    rig.manager.push("web1", [delivery(1, rig)])
    rig.manager.deliver("web1", [delivery(2, rig)], rest="")
    assert of(Pull, rig.take()) == [Pull("web1", fresh=False)]
    rig.manager.deliver("web1", [delivery(1, rig)], rest="")
    assert of(Pull, rig.take()) == []


def test_a_session_ends_when_a_frame_of_its_minion_did_not_arrive() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    peer.seal({"t": "heartbeat", "running": [], "spool": 0})
    assert not peer.alive
    assert rig.manager.refused_frames == {"gap": 1}


def test_a_return_is_acknowledged_when_it_was_committed_and_not_before() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    peer.say({"t": "return", **MESSAGES["return"]})
    assert [e for e in peer.heard() if e["t"] == "return_ack"] == []
    rig.manager.committed(peer.key, [JID])
    rig.manager.acknowledge(busy=False)
    assert peer.heard() == [{"t": "return_ack", "jids": [JID]}]


def test_a_batch_of_acknowledgements_is_cut_to_what_a_minion_takes() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    jids = [jid(number) for number in range(2 * JIDS_MAX + 1)]
    rig.manager.committed(peer.key, jids)
    rig.manager.acknowledge(busy=False)
    heard = peer.heard()
    assert [len(message["jids"]) for message in heard] == [JIDS_MAX, JIDS_MAX, 1]
    assert [number for message in heard for number in message["jids"]] == jids


def test_acknowledgements_let_frames_of_minions_pass() -> None:
    rig = SessionRig()
    peers = [rig.join(f"web{number}") for number in range(ACKNOWLEDGED_WHEN_BUSY + 1)]
    first, *_others, last = peers
    for peer in peers:
        peer.heard()
        rig.manager.committed(peer.key, [jid(1)])
    rig.manager.committed(first.key, [jid(2)])
    assert rig.manager.acknowledge(busy=True)
    assert first.heard() == []
    rig.wait(2 * ACKNOWLEDGE_S)
    assert rig.manager.acknowledge(busy=True)
    assert first.heard() == [{"t": "return_ack", "jids": [jid(1), jid(2)]}]
    assert last.heard() == []
    assert not rig.manager.acknowledge(busy=False)
    assert last.heard() == [{"t": "return_ack", "jids": [jid(1)]}]


def test_a_large_return_is_granted_put_together_and_reported_once() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    body = b"r" * (CHUNK + 10)
    peer.say({"t": "return", **MESSAGES["return"], "body": b"", "size": len(body)})
    assert peer.heard() == [{"t": "grant", "jid": JID}]
    peer.say({"t": "return_chunk", "jid": JID, "offset": 0, "data": body[:CHUNK]})
    peer.say({"t": "return_chunk", "jid": JID, "offset": CHUNK, "data": body[CHUNK:]})
    (report,) = of(MinionReport, rig.take())
    assert (report.message["jid"], report.body) == (JID, body)


def test_a_return_that_is_neither_whole_nor_announced_is_refused() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    peer.say({"t": "return", **MESSAGES["return"], "body": b"x", "size": 2})
    assert rig.refused() == {"bad-message": 1}


@pytest.mark.parametrize("body", [b"x", b""], ids=["whole", "announced"])
def test_how_a_part_for_resources_ended_has_no_body(body: bytes) -> None:
    """Else it would be stored once for each resource that has not answered."""
    rig = SessionRig()
    peer = rig.join("web1")
    peer.say(
        {
            "t": "return",
            **MESSAGES["return"],
            "jid": part_id(Jid(JID), 1),
            "state": "interrupted",
            "body": body,
            "size": 1,
        }
    )
    assert rig.refused() == {"bad-message": 1}
    assert of(MinionReport, rig.take()) == []


@pytest.mark.parametrize(("result", "body"), [(part_id(Jid(JID), 1), b""), (segment_id(part_id(Jid(JID), 1), 0), b"x")])
def test_the_end_of_a_part_and_segments_of_it_are_reported(result: str, body: bytes) -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    said = {**MESSAGES["return"], "jid": result, "state": "interrupted", "body": body, "size": len(body)}
    peer.say({"t": "return", **said})
    (report,) = of(MinionReport, rig.take())
    assert (report.message["jid"], report.body) == (result, body)


# -- a full link


def test_a_job_that_the_link_could_not_take_is_sent_again_soon() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    rig.manager.deliver("web1", [delivery(1, rig)])
    (send,) = of(Send, rig.take())
    rig.manager.unsent(send, gone=False)
    rig.wait(BLOCKED_RETRY_S)
    assert [message["t"] for message in peer.heard()] == ["job"]


def test_what_the_link_could_not_take_is_said_later_in_order() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    rig.manager.cancel([("web1", JID)])
    (send,) = of(Send, rig.take())
    rig.manager.unsent(send, gone=False)
    rig.manager.cancel([("web1", JID2)])
    assert rig.take() == []
    rig.wait(BLOCKED_RETRY_S)
    assert [message["jid"] for message in peer.heard()] == [JID, JID2]


def test_a_minion_that_takes_nothing_is_hung_up_on_and_not_remembered() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    for number in range(HELD_MAX + 1):
        rig.manager.cancel([("web1", jid(number))])
        for send in of(Send, rig.take()):
            rig.manager.unsent(send, gone=False)
    assert CloseConnection(peer.number, peer.address) in rig.done
    rig.wait(BLOCKED_RETRY_S)
    assert rig.take() == []
    assert rig.manager.sessions.present() == []


def test_the_session_of_a_minion_costs_at_most_2600_bytes_of_python() -> None:
    count = 100
    rig = SessionRig()

    def join(number: int) -> None:
        said = {"boot": f"{number:032x}", "incarnation": f"{number + 1:032x}", "functions": f"{number + 2:032x}"}
        peer = Peer(rig, f"web{number:05d}.example.net", address=f"10.0.0.{number}")
        rig.manager.connected(peer.number, peer.address)
        peer.prove(**said)
        peer.decided("accepted")
        rig.manager.deliver(peer.name, [], rest="")
        rig.take()
        rig.done.clear()

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
    assert len(rig.manager.sessions.present()) == count + 1
    assert taken / count < 2600
