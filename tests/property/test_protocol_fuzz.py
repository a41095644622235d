"""No input crashes a process (S8): whatever a peer sends, it costs at most the peer's own session (R9)."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.master.protocol.effects import CloseConnection, Decide, MinionReport
from saltlite.minion.protocol.effects import Fork, ReceivedPart
from saltlite.wire import frames, job_body
from saltlite.wire.messages import VERBS
from tests.support.job_machine import Server, jid, parcel
from tests.support.keys import JOB_PRIVATE
from tests.support.memory_fleet import MESSAGES, Peer, SessionRig, of
from tests.support.scripted import Scripted

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
    st.sampled_from([jid(), "accepted", "returned", "web1", "heartbeat"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.one_of(st.text(max_size=10), st.integers(0, 9)), inner, max_size=5),
    ),
    max_leaves=20,
)
raw_frames = st.one_of(
    st.binary(max_size=700),
    st.builds(lambda kind, body: bytes((2, kind)) + body, st.integers(0, 8), st.binary(max_size=600)),
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """A message of the table with some of its fields replaced, missing or added."""
    verb = draw(st.sampled_from(sorted(VERBS)))
    message = {"t": verb, **MESSAGES[verb]}
    for name in draw(st.lists(st.sampled_from([*sorted(message), "more"]), max_size=3)):
        if draw(st.booleans()):
            message[name] = draw(values)
        else:
            message.pop(name, None)
    return message


def sealed(peer: Peer, value: object) -> bytes:
    assert peer.session is not None
    return peer.session.seal(msgpack.packb(value))


@settings(deadline=None, max_examples=200)
@given(sent=st.lists(raw_frames, max_size=8))
def test_no_bytes_of_a_stranger_crash_the_session_manager_or_reach_anybody(sent: list[bytes]) -> None:
    rig = SessionRig()
    other = rig.join("other")
    rig.take()
    stranger = Peer(rig, "stranger")
    for raw in sent:
        stranger.raw(raw)
    effects = rig.take()
    assert of(Decide, effects) == of(MinionReport, effects) == []
    assert all(
        hung_up == CloseConnection(stranger.number, stranger.address) for hung_up in of(CloseConnection, effects)
    )
    assert other.alive


@settings(deadline=None, max_examples=300)
@given(sent=st.lists(st.one_of(messages(), values), max_size=8), state=st.sampled_from(["accepted", "pending"]))
def test_no_message_of_a_minion_crashes_the_session_manager_or_harms_another(sent: list[object], state: str) -> None:
    rig = SessionRig()
    other = rig.join("other")
    peer = rig.join("web1", state)
    rig.take()
    for value in sent:
        peer.raw(sealed(peer, value))
    for report in of(MinionReport, rig.take()):
        assert (report.id, state) == ("web1", "accepted")
    rig.wait(1.0)
    assert other.alive


@settings(deadline=None)
@given(said=values)
def test_no_introduction_crashes_the_session_manager(said: object) -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    answer = frames.parse(peer.hello())
    assert isinstance(answer, frames.ReplyFrame)
    peer.handshake.read(answer.message)
    peer.raw(frames.auth(peer.handshake.write(msgpack.packb(said)[:300])))
    assert of(Decide, rig.take()) == []


@settings(deadline=None, max_examples=200)
@given(sent=st.lists(st.one_of(messages(), values), max_size=6))
def test_no_message_of_a_master_crashes_the_connection(sent: list[object]) -> None:
    it = Scripted().welcomed()
    session = it.session
    assert session is not None
    for value in sent:
        it.connection.frame(session.seal(msgpack.packb(value)))
    it.wait(it.rest_s())


@settings(deadline=None, max_examples=200)
@given(sent=st.lists(raw_frames, max_size=6))
def test_no_bytes_of_whoever_answers_crash_the_connection_or_make_it_say_who_it_is(sent: list[bytes]) -> None:
    it = Scripted()
    it.connect()
    for raw in sent:
        it.connection.frame(raw)
        # HELLO and QUERY at most: nothing that names the minion.
        assert all(len(frame) <= 50 for frame in it.sent())
    it.wait(it.rest_s())


@settings(deadline=None, max_examples=200)
@given(body=st.one_of(st.binary(max_size=100), values.map(msgpack.packb)), deliver_ms=st.integers(0, 2**53))
def test_no_job_body_crashes_the_job_server_even_when_a_master_signed_it(body: bytes, deliver_ms: int) -> None:
    it = Server()
    signature = job_body.sign(JOB_PRIVATE, body)
    it.jobs.received(ReceivedPart(jid(), body, signature, [], deliver_ms))
    assert of(Fork, it.take()) == []
    it.jobs.received(parcel())
    assert len(of(Fork, it.take())) == 1
