"""Who may say what to the master when (R1, R2), and that a bad frame costs its own session only (R9)."""

from __future__ import annotations

import pytest

from saltlite.master.protocol.effects import CloseConnection, MinionReport
from saltlite.wire.messages import VERBS, Sender, functions_digest, functions_message
from tests.support.memory_fleet import MESSAGES, Peer, SessionRig, of

# -- who may say what: R1


def test_the_messages_of_this_test_are_the_verbs_of_the_table() -> None:
    assert set(MESSAGES) == set(VERBS)


@pytest.mark.parametrize("state", ["deciding", "pending", "accepted"])
@pytest.mark.parametrize("verb", [*sorted(VERBS), "publish", "key_change", "__class__", ""])
def test_every_verb_in_every_state_is_taken_exactly_when_the_table_says_so(verb: str, state: str) -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    if state != "deciding":
        peer.decided(state)
    rig.take()
    peer.say({"t": verb, **MESSAGES.get(verb, {})})
    row = VERBS.get(verb)
    allowed = row is not None and row.sender is Sender.MINION and (row.before_accept or state == "accepted")
    # A part that was not granted is refused for that reason, which comes after the table.
    expected = "bad-part" if verb == "return_chunk" and allowed else None
    if not allowed:
        expected = "not-accepted" if row is not None and row.sender is Sender.MINION else "unknown-verb"
    assert dict(rig.refused()) == ({expected: 1} if expected else {})
    reported = bool(of(MinionReport, rig.take()))
    assert reported is (allowed and verb in {"job_state", "return", "functions", "digest"})


@pytest.mark.parametrize("verb", ["heartbeat", "job_state", "return", "functions", "return_chunk", "bye"])
def test_a_field_too_many_or_too_few_costs_the_session(verb: str) -> None:
    for change in ("more", "less"):
        message = {"t": verb, **MESSAGES[verb]}
        if change == "more":
            message["id"] = "web2"
        else:
            message.popitem()
        rig = SessionRig()
        peer = rig.join("web1")
        rig.take()
        peer.say(message)
        assert rig.refused() == {"bad-message": 1}
        assert of(MinionReport, rig.take()) == []


def test_what_is_reported_is_filed_under_the_session_and_nothing_else() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    peer.say({"t": "return", **MESSAGES["return"]})
    (report,) = of(MinionReport, rig.take())
    assert (report.id, report.fingerprint, report.body) == ("web1", peer.key, b"\xc0")


@pytest.mark.parametrize(
    ("functions", "whole"),
    [(["a.b"], False), (["a.b(c,d)"], False), ([], False), (["a.b(c)"], False), (["a.b(c)"], True)],
)
def test_a_false_digest_of_functions_is_refused_because_other_minions_share_digests(
    functions: list[str], *, whole: bool
) -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    digest = functions_digest(["a.b(c)"], whole=whole)
    peer.say({"t": "functions", "digest": digest, "functions": functions, "whole": not whole})
    assert rig.refused() == {"bad-message": 1}
    assert of(MinionReport, rig.take()) == []


def test_functions_that_changed_during_a_session_are_what_presence_says_from_then_on() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    message = functions_message(["a.b(c)"], whole=True)
    peer.say(message)
    assert [one.functions for one in rig.manager.sessions.present()] == [message["digest"]]


# -- bad frames in a session


def test_a_bad_frame_ends_its_own_session_and_no_other() -> None:
    rig = SessionRig()
    bad, good = rig.join("bad"), rig.join("good")
    raw = bytearray(bad.seal({"t": "heartbeat_ack"}))
    raw[-1] ^= 1
    bad.raw(bytes(raw))
    assert CloseConnection(bad.number, bad.address) in rig.take()
    assert [up.id for up in rig.manager.sessions.present()] == ["good"]
    assert good.alive


def test_a_replayed_frame_is_not_acted_on() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    raw = peer.seal({"t": "job_state", **MESSAGES["job_state"]})
    peer.raw(raw)
    peer.raw(raw)
    assert len(of(MinionReport, rig.take())) == 1
    assert rig.refused() == {"replay": 1}


def test_nobody_can_speak_or_do_harm_in_the_session_of_another() -> None:
    rig = SessionRig()
    victim, thief = rig.join("web1"), rig.join("thief")
    rig.take()
    stolen = victim.seal({"t": "heartbeat", "running": [], "spool": 0})
    rig.manager.frame(thief.route, -1, "", stolen)
    assert rig.refused() == {"no-session": 1}
    assert rig.take() == []
    victim.raw(stolen)
    assert victim.alive
    assert thief.alive


def test_a_truncated_data_frame_is_counted_and_harms_nobody() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    peer.raw(b"\x02\x04" + b"\0" * 10)
    assert rig.refused() == {"truncated": 1}
    assert peer.alive
