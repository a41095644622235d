"""The master's side: who may say what when, what floods and bad frames cost, and that nobody pays for another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from saltlite.adapters.clock import ManualClock
from saltlite.core.hub import (
    BLOCKED_RETRY_S,
    DECIDING_MAX,
    DECISION_S,
    HELD_MAX,
    PENDING_SESSIONS,
    PULL_AGAIN_S,
    SILENCE_BEATS,
    TICK_S,
    Decide,
    Effect,
    HangUp,
    Hub,
    Presence,
    Pull,
    Report,
    Send,
)
from saltlite.core.outbox import PARCELS_MAX, RESEND_MIN_S, Parcel
from saltlite.model.keys import fingerprint
from saltlite.wire import codec, frames
from saltlite.wire.limits import (
    CHUNK,
    HANDSHAKE_TIMEOUT_S,
    HEARTBEAT_MIN_S,
    HEARTBEATS_PER_S,
    OPEN_HANDSHAKES,
    OPEN_HANDSHAKES_PER_ADDRESS,
)
from saltlite.wire.messages import JIDS_MAX, VERBS, Sender, functions_digest
from saltlite.wire.noise import Handshake, Role, public_of
from saltlite.wire.session import Session
from tests.core_fleet import FLEET, FLEET_PUBLIC, NOW, make_hub, seed

JID = "20270115080000000000"
JID2 = "20270115080000000001"


def jid(number: int) -> str:
    return f"{int(JID) + number:020d}"


class Table:
    """A hub, and what it wanted."""

    def __init__(self, *, per_address: float = 100_000.0) -> None:
        self.clock = ManualClock(seed=5, wall=NOW)
        self.hub: Hub = make_hub(self.clock, per_address=per_address)
        self.done: list[Effect] = []
        self.guests = 0

    def take(self) -> list[Effect]:
        effects = self.hub.take()
        self.done += effects
        return effects

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.hub.tick()

    def refused(self) -> Mapping[str, int]:
        return self.hub.refused_frames

    def join(self, name: str, state: str = "accepted") -> Guest:
        """A guest whose key was decided about."""
        guest = Guest(self, name)
        guest.prove()
        guest.decided(state)
        return guest


class Guest:
    """A minion's end of one connection, that may say anything."""

    def __init__(self, table: Table, name: str, *, address: str = "10.0.0.9") -> None:
        self.table = table
        self.name = name
        table.guests += 1
        self.number = table.guests
        self.route = b"\0" + self.number.to_bytes(4, "big")
        self.address = address
        self.private = seed(f"key of {name}")
        self.key = fingerprint(public_of(self.private))
        self.session: Session | None = None

    def raw(self, frame: bytes) -> None:
        is_data = frame.startswith(b"\x01\x04")
        number, address = (-1, "") if is_data else (self.number, self.address)
        self.table.hub.frame(self.route, number, address, frame)

    def hello(self) -> bytes:
        """Send HELLO; the frame that comes back, b"" for none."""
        entropy = self.table.clock.entropy(32)
        self.handshake = Handshake(Role.INITIATOR, self.private, frames.prologue(FLEET), entropy)
        self.raw(frames.hello(self.handshake.write(b""), FLEET))
        return next((effect.frame for effect in self.mine()), b"")

    def auth(self, **changed: Any) -> bytes:
        """The AUTH frame, after a HELLO that was answered."""
        said = {
            "id": self.name,
            "boot": "b",
            "incarnation": "i",
            "version": "1",
            "functions": "",
            "token": "",
            **changed,
        }
        return frames.auth(self.handshake.write(codec.encode(said)))

    def prove(self) -> None:
        answer = frames.parse(self.hello())
        assert isinstance(answer, frames.Reply)
        self.handshake.read(answer.message)
        self.raw(self.auth())
        self.session = Session(self.handshake)

    def decided(self, state: str) -> None:
        assert self.session is not None
        self.table.hub.decided(self.session.id, state, self.name)

    def seal(self, message: Mapping[str, Any]) -> bytes:
        assert self.session is not None
        return self.session.seal(codec.encode(message))

    def say(self, message: Mapping[str, Any]) -> None:
        self.raw(self.seal(message))

    def mine(self) -> list[Send]:
        return [e for e in self.table.take() if isinstance(e, Send) and e.route == self.route]

    def heard(self) -> list[Any]:
        """What the hub said to this guest since anything was taken last."""
        assert self.session is not None
        return [codec.decode(self.session.open(send.frame)) for send in self.mine()]

    @property
    def alive(self) -> bool:
        """Whether the hub still answers in this session."""
        self.table.take()
        self.say({"t": "hb", "running": [], "spool": 0})
        return self.heard() == [{"t": "beat"}]


def of(kind: type[Any], effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def parcel(number: int, table: Table, size: int = 10) -> Parcel:
    return Parcel(jid(number), b"b" * size, b"s" * 64, [], table.clock.monotonic() + 60.0)


# -- strangers


def test_a_good_handshake_asks_an_mworker_about_exactly_the_key_that_was_proved() -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.prove()
    (ask,) = of(Decide, table.take())
    assert (ask.public, ask.address, ask.said["id"]) == (public_of(guest.private), guest.address, "web1")


def test_query_is_answered_with_the_fleet_key() -> None:
    guest = Guest(Table(), "web1")
    guest.raw(frames.query())
    assert [send.frame for send in guest.mine()] == [frames.fleet(FLEET_PUBLIC)]


BAD_BEFORE_AUTH = {
    "truncated": b"",
    "version": b"\x02\x01",
    "unknown-frame": b"\x01\x09",
    "oversize": b"\x01\x01" + b"x" * 600,
    "bad-mac": b"\x01\x01" + b"x" * 48,
    "unexpected-frame": frames.busy(1),
}


@pytest.mark.parametrize("reason", BAD_BEFORE_AUTH)
def test_a_stranger_that_breaks_the_protocol_is_counted_and_hung_up_on(reason: str) -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.raw(BAD_BEFORE_AUTH[reason])
    assert table.take() == [HangUp(guest.number, guest.address)]
    assert table.refused() == {reason: 1}


@pytest.mark.parametrize("frame", [frames.reply(b"r" * 100), frames.fleet(FLEET_PUBLIC)])
def test_frames_of_a_master_are_refused_from_minions(frame: bytes) -> None:
    table = Table()
    Guest(table, "web1").raw(frame)
    assert table.refused() == {"unexpected-frame": 1}


def test_a_hello_for_another_fleet_costs_no_handshake() -> None:
    table = Table()
    guest = Guest(table, "web1")
    handshake = Handshake(Role.INITIATOR, guest.private, frames.prologue(b"o" * 25), b"e" * 32)
    guest.raw(frames.hello(handshake.write(b""), b"o" * 25))
    assert of(Send, table.take()) == []
    assert table.refused() == {"bad-mac": 1}


def test_a_hello_with_a_weak_key_is_refused_and_leaves_nothing() -> None:
    table = Table()
    for number in range(OPEN_HANDSHAKES_PER_ADDRESS * 2):
        guest = Guest(table, f"m{number}")
        guest.raw(frames.hello(b"\0" * 32, FLEET))
    assert table.refused() == {"bad-handshake": OPEN_HANDSHAKES_PER_ADDRESS * 2}
    assert frames.parse(Guest(table, "web1").hello()).__class__ is frames.Reply


def test_a_second_hello_ends_the_handshake() -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.hello()
    assert guest.hello() == b""
    assert table.refused() == {"second-hello": 1}


def test_a_hello_on_a_connection_with_a_session_is_refused_and_hung_up_on() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    guest.raw(frames.hello(b"\x09" + b"\0" * 31, FLEET))
    assert table.take() == [HangUp(guest.number, guest.address)]
    assert table.refused() == {"second-hello": 1}


def test_auth_without_hello_and_auth_twice_are_refused() -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.raw(frames.auth(b"a" * 100))
    guest.prove()
    guest.raw(frames.auth(b"a" * 100))
    assert table.refused() == {"unexpected-frame": 2}
    assert len(of(Decide, table.take())) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "../x"},
        {"id": "WEB1"},
        {"id": ["web1"]},
        {"extra": 1},
        {"version": 1},
        {"version": "\x1b[2J"},
        {"token": "t" * 97},
        {"functions": b"f"},
    ],
)
def test_auth_that_the_table_does_not_describe_reaches_nobody(changed: dict[str, Any]) -> None:
    table = Table()
    guest = Guest(table, "web1")
    answer = frames.parse(guest.hello())
    assert isinstance(answer, frames.Reply)
    guest.handshake.read(answer.message)
    guest.raw(guest.auth(**changed))
    assert of(Decide, table.take()) == []
    assert table.refused() == {"bad-message": 1}


def test_an_auth_with_a_changed_byte_reaches_nobody() -> None:
    table = Table()
    guest = Guest(table, "web1")
    answer = frames.parse(guest.hello())
    assert isinstance(answer, frames.Reply)
    guest.handshake.read(answer.message)
    raw = bytearray(guest.auth())
    raw[10] ^= 1
    guest.raw(bytes(raw))
    assert of(Decide, table.take()) == []
    assert table.refused() == {"bad-handshake": 1}


def test_a_handshake_that_takes_too_long_is_forgotten_and_hung_up_on() -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.hello()
    table.wait(HANDSHAKE_TIMEOUT_S)
    assert HangUp(guest.number, guest.address) in table.take()
    guest.raw(frames.auth(b"a" * 100))
    assert table.refused() == {"unexpected-frame": 1}


def test_one_address_gets_busy_above_its_open_handshakes() -> None:
    table = Table(per_address=OPEN_HANDSHAKES_PER_ADDRESS)
    for number in range(OPEN_HANDSHAKES_PER_ADDRESS):
        table.clock.advance(0.1)
        assert isinstance(frames.parse(Guest(table, f"m{number}").hello()), frames.Reply)
    table.clock.advance(0.1)
    assert isinstance(frames.parse(Guest(table, "late").hello()), frames.Busy)
    assert isinstance(frames.parse(Guest(table, "web1", address="10.0.0.10").hello()), frames.Reply)


def test_query_above_the_rate_of_an_address_is_answered_with_busy() -> None:
    guest = Guest(Table(per_address=1.0), "web1")
    guest.raw(frames.query())
    guest.raw(frames.query())
    assert isinstance(frames.parse(guest.mine()[1].frame), frames.Busy)


def test_all_addresses_together_have_a_limit_of_open_handshakes_and_begun_ones_go_on() -> None:
    table = Table()
    first = Guest(table, "first", address="10.9.9.9")
    answer = frames.parse(first.hello())
    assert isinstance(answer, frames.Reply)
    for number in range(OPEN_HANDSHAKES - 1):
        table.clock.advance(0.002)
        Guest(table, f"m{number}", address=f"10.1.{number // 256}.{number % 256}").hello()
    late = Guest(table, "late", address="10.8.8.8")
    assert isinstance(frames.parse(late.hello()), frames.Busy)
    first.handshake.read(answer.message)
    first.raw(first.auth())
    assert len(of(Decide, table.take())) == 1


# -- deciding


def test_before_the_verdict_a_minion_may_beat_and_say_good_bye_and_nothing_else() -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.prove()
    table.take()
    assert guest.alive
    guest.say({"t": "job_state", "jid": JID, "state": "received", "reason": ""})
    effects = table.take()
    assert of(Report, effects) == []
    assert HangUp(guest.number, guest.address) in effects
    assert table.refused() == {"not-accepted": 1}


@pytest.mark.parametrize("state", ["rejected", "revoked", "conflict", "busy"])
def test_a_refused_key_is_told_so_and_its_session_is_gone(state: str) -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.prove()
    table.take()
    guest.decided(state)
    assert guest.heard() == [{"t": "welcome", "state": state, "hb_ms": 15_000}]
    guest.say({"t": "hb", "running": [], "spool": 0})
    assert table.refused() == {"no-session": 1}
    assert of(HangUp, table.done) == []


def test_a_verdict_for_a_session_that_is_gone_changes_nothing() -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.prove()
    guest.say({"t": "bye", "reason": ""})
    table.take()
    guest.decided("accepted")
    assert table.take() == []
    assert table.hub.present() == []


def test_a_second_verdict_changes_nothing() -> None:
    table = Table()
    guest = table.join("web1", "pending")
    guest.decided("accepted")
    assert table.hub.present() == []


def test_a_verdict_that_does_not_come_sends_the_minion_away_even_if_it_beats() -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.prove()
    for _ in range(int(DECISION_S / 5)):
        assert guest.alive
        table.wait(5.0)
    assert guest.heard()[-1]["state"] == "busy"


@pytest.mark.parametrize("state", ["accepted", "revoked", "deleted"])
def test_a_key_that_changes_while_it_is_decided_about_is_decided_about_anew(state: str) -> None:
    """The verdict under way may have been read before the change: it must not win (S5)."""
    table = Table()
    guest = Guest(table, "web1")
    guest.prove()
    table.take()
    table.hub.key_changed(guest.key, state, "web1")
    assert [message["state"] for message in guest.heard()] == ["busy"]
    guest.decided("accepted")
    assert table.hub.present() == []


def test_a_key_is_decided_about_in_one_session_at_a_time() -> None:
    table = Table()
    older = Guest(table, "web1")
    older.prove()
    newer = Guest(table, "web1")
    newer.prove()
    older.decided("accepted")
    assert table.hub.present() == []
    newer.decided("accepted")
    assert [up.id for up in table.hub.present()] == ["web1"]


def test_sessions_that_wait_for_a_verdict_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DECIDING_MAX == OPEN_HANDSHAKES
    monkeypatch.setattr("saltlite.core.hub.DECIDING_MAX", 3)
    table = Table()
    for number in range(3):
        Guest(table, f"m{number}").prove()
    late = Guest(table, "late")
    late.prove()
    assert [message["state"] for message in late.heard()] == ["busy"]
    assert [ask.said["id"] for ask in of(Decide, table.done)] == ["m0", "m1", "m2"]


def test_pending_sessions_have_a_limit_and_a_place_that_is_left_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert PENDING_SESSIONS == 1000
    monkeypatch.setattr("saltlite.core.hub.PENDING_SESSIONS", 2)
    table = Table()
    accepted = table.join("web1")
    first = table.join("p1", "pending")
    table.join("p2", "pending")
    late = Guest(table, "p3")
    late.prove()
    table.take()
    late.decided("pending")
    assert late.heard()[0]["state"] == "busy"
    assert accepted.alive
    first.say({"t": "bye", "reason": ""})
    assert table.join("p3", "pending").alive


def test_a_pending_key_may_come_again_when_all_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.core.hub.PENDING_SESSIONS", 1)
    table = Table()
    older = table.join("p1", "pending")
    table.take()
    assert table.join("p1", "pending").alive
    assert table.refused() == {}
    older.say({"t": "hb", "running": [], "spool": 0})
    assert table.refused() == {"no-session": 1}


# -- who may say what: R1


MESSAGES: dict[str, dict[str, Any]] = {
    "hb": {"running": [JID], "spool": 3},
    "job_state": {"jid": JID, "state": "received", "reason": ""},
    "ret": {
        "jid": JID,
        "state": "returned",
        "code": 0,
        "body": b"\xc0",
        "size": 1,
        "start_ms": 0,
        "dur_ms": 0,
        "reason": "",
    },
    "functions": {"digest": functions_digest(["test.ping"]), "names": ["test.ping"], "whole": True},
    "part": {"jid": JID, "offset": 0, "data": b"x"},
    "bye": {"reason": ""},
    "welcome": {"state": "accepted", "hb_ms": 15_000},
    "state": {"state": "accepted"},
    "beat": {},
    "job": {"jid": JID, "body": b"b", "sig": b"s" * 64, "proof": [], "deliver_ms": 1},
    "cancel": {"jid": JID},
    "ret_ack": {"jids": [JID]},
    "grant": {"jid": JID},
    "want_functions": {},
    "lame": {"spread_ms": 1},
}


def test_the_messages_of_this_test_are_the_verbs_of_the_table() -> None:
    assert set(MESSAGES) == set(VERBS)


@pytest.mark.parametrize("state", ["deciding", "pending", "accepted"])
@pytest.mark.parametrize("verb", [*sorted(VERBS), "publish", "key_change", "__class__", ""])
def test_every_verb_in_every_state_is_taken_exactly_when_the_table_says_so(verb: str, state: str) -> None:
    table = Table()
    guest = Guest(table, "web1")
    guest.prove()
    if state != "deciding":
        guest.decided(state)
    table.take()
    guest.say({"t": verb, **MESSAGES.get(verb, {})})
    row = VERBS.get(verb)
    allowed = row is not None and row.sender is Sender.MINION and (row.before_accept or state == "accepted")
    # A part that was not granted is refused for that reason, which comes after the table.
    expected = "bad-part" if verb == "part" and allowed else None
    if not allowed:
        expected = "not-accepted" if row is not None and row.sender is Sender.MINION else "unknown-verb"
    assert dict(table.refused()) == ({expected: 1} if expected else {})
    reported = bool(of(Report, table.take()))
    assert reported is (allowed and verb in {"job_state", "ret", "functions"})


@pytest.mark.parametrize("verb", ["hb", "job_state", "ret", "functions", "part", "bye"])
def test_a_field_too_many_or_too_few_costs_the_session(verb: str) -> None:
    for change in ("more", "less"):
        message = {"t": verb, **MESSAGES[verb]}
        if change == "more":
            message["id"] = "web2"
        else:
            message.popitem()
        table = Table()
        guest = table.join("web1")
        table.take()
        guest.say(message)
        assert table.refused() == {"bad-message": 1}
        assert of(Report, table.take()) == []


def test_what_is_reported_is_filed_under_the_session_and_nothing_else() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    guest.say({"t": "ret", **MESSAGES["ret"]})
    (report,) = of(Report, table.take())
    assert (report.id, report.fingerprint, report.body) == ("web1", guest.key, b"\xc0")


def test_a_false_digest_of_functions_is_refused_because_other_minions_share_digests() -> None:
    table = Table()
    guest = table.join("web1")
    guest.say({"t": "functions", "digest": functions_digest(["a.b"]), "names": [], "whole": True})
    assert table.refused() == {"bad-message": 1}
    assert of(Report, table.take()) == []


# -- bad frames in a session


def test_a_bad_frame_ends_its_own_session_and_no_other() -> None:
    table = Table()
    bad, good = table.join("bad"), table.join("good")
    raw = bytearray(bad.seal({"t": "beat"}))
    raw[-1] ^= 1
    bad.raw(bytes(raw))
    assert HangUp(bad.number, bad.address) in table.take()
    assert [up.id for up in table.hub.present()] == ["good"]
    assert good.alive


def test_a_replayed_frame_is_not_acted_on() -> None:
    table = Table()
    guest = table.join("web1")
    raw = guest.seal({"t": "job_state", **MESSAGES["job_state"]})
    guest.raw(raw)
    guest.raw(raw)
    assert len(of(Report, table.take())) == 1
    assert table.refused() == {"replay": 1}


def test_nobody_can_speak_or_do_harm_in_the_session_of_another() -> None:
    table = Table()
    victim, thief = table.join("web1"), table.join("thief")
    table.take()
    table.hub.frame(thief.route, -1, "", victim.seal({"t": "bye", "reason": ""}))
    assert table.refused() == {"no-session": 1}
    assert table.take() == []
    assert victim.alive
    assert thief.alive


def test_a_truncated_data_frame_is_counted_and_harms_nobody() -> None:
    table = Table()
    guest = table.join("web1")
    guest.raw(b"\x01\x04" + b"\0" * 10)
    assert table.refused() == {"truncated": 1}
    assert guest.alive


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
    assert [codec.decode(older.session.open(send.frame)) for send in told] == [
        {"t": "state", "state": "replaced"}
    ]
    assert [up.up for up in of(Presence, effects)] == [True]
    assert newer.alive
    older.say({"t": "hb", "running": [], "spool": 0})
    assert table.refused() == {"no-session": 1}


def test_another_key_that_is_accepted_for_the_same_id_replaces_the_session_of_the_first() -> None:
    table = Table()
    older = table.join("web1")
    newer = Guest(table, "other")
    newer.name = "web1"
    newer.prove()
    newer.decided("accepted")
    table.take()
    older.say({"t": "job_state", **MESSAGES["job_state"]})
    assert of(Report, table.take()) == []
    assert [up.fingerprint for up in table.hub.present()] == [newer.key]


def test_pending_is_accepted_in_its_session() -> None:
    table = Table()
    guest = table.join("web1", "pending")
    table.take()
    table.hub.key_changed(guest.key, "accepted", "web1")
    assert guest.heard() == [{"t": "state", "state": "accepted"}]
    assert of(Pull, table.done) == [Pull("web1", fresh=True)]


@pytest.mark.parametrize("state", ["rejected", "revoked", "deleted"])
@pytest.mark.parametrize("before", ["pending", "accepted"])
def test_after_a_key_was_taken_away_nothing_of_it_is_acted_on(before: str, state: str) -> None:
    """S5: from the moment that `key_changed` returns."""
    table = Table()
    guest = table.join("web1", before)
    on_its_way = guest.seal({"t": "ret", **MESSAGES["ret"]})
    table.take()
    table.hub.key_changed(guest.key, state, "web1")
    assert guest.heard() == [{"t": "state", "state": state}]
    guest.raw(on_its_way)
    table.hub.deliver("web1", [parcel(1, table)])
    table.hub.cancel(JID, ["web1"])
    table.wait(TICK_S)
    effects = table.take()
    assert [effect for effect in effects if not isinstance(effect, Presence)] == []
    assert of(HangUp, table.done) == []


def test_a_silent_minion_is_away_after_two_and_a_half_beats_and_is_hung_up_on() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.wait(SILENCE_BEATS * HEARTBEAT_MIN_S - 1.0)
    assert table.take() == []
    table.wait(1.0)
    effects = table.take()
    assert [up.up for up in of(Presence, effects)] == [False]
    assert HangUp(guest.number, guest.address) in effects


def test_a_minion_that_beats_stays() -> None:
    table = Table()
    guest = table.join("web1")
    for _ in range(20):
        table.wait(HEARTBEAT_MIN_S)
        assert guest.alive


def test_the_pace_gets_slower_with_the_number_of_minions() -> None:
    table = Table()
    table.hub._peers = dict.fromkeys(range(HEARTBEATS_PER_S * 60))  # type: ignore[assignment]  # only counted
    assert table.hub.heartbeat_s == 60.0


def test_a_connection_that_is_gone_is_noticed_by_sending() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.hub.hangup(guest.number)
    (probe,) = of(Send, table.take())
    table.hub.unsent(probe, gone=True)
    assert [up.up for up in of(Presence, table.take())] == [False]


def test_leaving_tells_everybody_lame() -> None:
    table = Table()
    guest, pending = table.join("web1"), table.join("p1", "pending")
    table.take()
    table.hub.leave(500)
    sends = of(Send, table.take())
    assert {send.route for send in sends} == {guest.route, pending.route}
    assert guest.session is not None
    assert codec.decode(guest.session.open(sends[0].frame)) == {"t": "lame", "spread_ms": 500}


# -- jobs and returns


def test_a_job_is_sent_until_it_is_acknowledged() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.hub.deliver("web1", [parcel(1, table)])
    assert [message["t"] for message in guest.heard()] == ["job"]
    table.wait(RESEND_MIN_S)
    assert [message["deliver_ms"] for message in guest.heard()] == [58_000]
    guest.say({"t": "job_state", "jid": jid(1), "state": "received", "reason": ""})
    table.wait(RESEND_MIN_S * 2)
    assert guest.heard() == []


def test_a_job_for_somebody_who_is_away_stays_in_the_store() -> None:
    table = Table()
    table.hub.deliver("web1", [parcel(1, table)])
    assert table.take() == []


def test_more_jobs_than_fit_are_asked_for_again_once_there_is_room() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.hub.deliver("web1", [parcel(number, table) for number in range(PARCELS_MAX + 1)])
    sent = [message["jid"] for message in guest.heard()]
    assert len(sent) == PARCELS_MAX
    for number in sent:
        assert of(Pull, table.take()) == []
        guest.say({"t": "job_state", "jid": number, "state": "received", "reason": ""})
        if of(Pull, table.take()):
            break
    assert sent.index(number) == PARCELS_MAX // 2 - 1


def test_a_sweep_asks_only_for_those_who_are_up_and_have_nothing_under_way() -> None:
    table = Table()
    table.join("idle")
    table.join("laden")
    table.hub.deliver("laden", [parcel(1, table)])
    table.take()
    table.hub.pull(["away", "idle", "laden"])
    assert table.take() == [Pull("idle", fresh=False)]


def test_a_session_that_lasts_is_asked_anew_about_what_is_not_settled() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    for _ in range(int(PULL_AGAIN_S / 10)):
        assert len(of(Pull, table.done)) == 1
        table.wait(10.0)
        assert guest.alive
    assert of(Pull, table.done) == [Pull("web1", fresh=True)] * 2


def test_a_return_is_acknowledged_when_it_was_committed_and_not_before() -> None:
    table = Table()
    guest = table.join("web1")
    guest.say({"t": "ret", **MESSAGES["ret"]})
    assert [e for e in guest.heard() if e["t"] == "ret_ack"] == []
    table.hub.committed(guest.key, [JID])
    assert guest.heard() == [{"t": "ret_ack", "jids": [JID]}]


def test_a_batch_of_acknowledgements_is_cut_to_what_a_minion_takes() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    jids = [jid(number) for number in range(2 * JIDS_MAX + 1)]
    table.hub.committed(guest.key, jids)
    heard = guest.heard()
    assert [len(message["jids"]) for message in heard] == [JIDS_MAX, JIDS_MAX, 1]
    assert [number for message in heard for number in message["jids"]] == jids


def test_a_large_return_is_granted_put_together_and_reported_once() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    body = b"r" * (CHUNK + 10)
    guest.say({"t": "ret", **MESSAGES["ret"], "body": b"", "size": len(body)})
    assert guest.heard() == [{"t": "grant", "jid": JID}]
    guest.say({"t": "part", "jid": JID, "offset": 0, "data": body[:CHUNK]})
    guest.say({"t": "part", "jid": JID, "offset": CHUNK, "data": body[CHUNK:]})
    (report,) = of(Report, table.take())
    assert (report.message["jid"], report.body) == (JID, body)


def test_a_return_that_is_neither_whole_nor_announced_is_refused() -> None:
    table = Table()
    guest = table.join("web1")
    guest.say({"t": "ret", **MESSAGES["ret"], "body": b"x", "size": 2})
    assert table.refused() == {"bad-message": 1}


# -- a full link


def test_a_job_that_the_link_could_not_take_is_sent_again_soon() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.hub.deliver("web1", [parcel(1, table)])
    (send,) = of(Send, table.take())
    table.hub.unsent(send, gone=False)
    table.wait(BLOCKED_RETRY_S)
    assert [message["t"] for message in guest.heard()] == ["job"]


def test_what_the_link_could_not_take_is_said_later_in_order() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    table.hub.cancel(JID, ["web1"])
    (send,) = of(Send, table.take())
    table.hub.unsent(send, gone=False)
    table.hub.cancel(JID2, ["web1"])
    assert table.take() == []
    table.wait(BLOCKED_RETRY_S)
    assert [message["jid"] for message in guest.heard()] == [JID, JID2]


def test_a_minion_that_takes_nothing_is_hung_up_on_and_not_remembered() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    for number in range(HELD_MAX + 1):
        table.hub.cancel(jid(number), ["web1"])
        for send in of(Send, table.take()):
            table.hub.unsent(send, gone=False)
    assert HangUp(guest.number, guest.address) in table.done
    table.wait(BLOCKED_RETRY_S)
    assert table.take() == []
    assert table.hub.present() == []
