"""A master that shares its store: leases, changes of keys by other masters, and whose jobs it hands over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saltlite.master.protocol import sharing
from saltlite.master.protocol.effects import CloseConnection, MinionReport, Presence, Pull
from saltlite.master.protocol.sharing import SUSPEND_S, Issuers
from saltlite.wire.job_body import sign
from tests.support.keys import JOB_PRIVATE, NOW, certificate, ed25519_public, seed
from tests.support.memory_fleet import MESSAGES, Guest, Table, delivery, of

LEASE_S = 4.0
REPORT = {"t": "job_state", **MESSAGES["job_state"]}
OTHER = seed("jobs of another master")


def leased() -> tuple[Table, Guest]:
    """A manager with a lease, and a minion with a session."""
    table = Table(leased=True)
    renew(table)
    guest = table.join("web1")
    table.manager.deliver("web1", [], rest="")
    table.take()
    table.done.clear()
    return table, guest


def renew(table: Table) -> None:
    table.manager.lease(table.clock.boottime() + LEASE_S)


def test_without_a_lease_nothing_is_read_or_sent_and_with_the_next_one_all_of_it_in_order() -> None:
    table, guest = leased()
    table.wait(LEASE_S)
    guest.say(REPORT)
    guest.say({"t": "heartbeat", "running": [], "spool": 0})
    table.manager.deliver("web1", [delivery(1, table)])
    table.manager.cancel([("web1", "20270101000000000000")])
    table.wait(SUSPEND_S - 1.0)
    assert table.take() == []
    renew(table)
    assert [message["t"] for message in guest.heard()] == ["job", "cancel", "heartbeat_ack"]
    assert [report.message for report in of(MinionReport, table.done)] == [REPORT]


def test_sessions_end_twenty_seconds_after_their_lease() -> None:
    table, guest = leased()
    table.wait(LEASE_S + SUSPEND_S - 0.1)
    assert table.take() == []
    table.wait(0.1)
    effects = table.take()
    assert [up.up for up in of(Presence, effects)] == [False]
    assert of(CloseConnection, effects) == [CloseConnection(guest.number, guest.address)]
    renew(table)
    guest.say(REPORT)
    assert table.take() == []


def test_a_master_that_was_fenced_ends_its_sessions_at_once() -> None:
    table, _guest = leased()
    table.manager.end_lease()
    assert [up.up for up in of(Presence, table.take())] == [False]


def test_what_waits_for_a_session_that_ended_meanwhile_is_dropped() -> None:
    table, guest = leased()
    table.wait(LEASE_S)
    guest.say(REPORT)
    table.manager.deliver("web1", [delivery(1, table)])
    table.manager.key_changed_elsewhere(guest.key, "revoked", "web1")
    renew(table)
    assert guest.heard() == []
    assert of(MinionReport, table.done) == []
    assert table.refused() == {"no-session": 1}


def test_a_stranger_without_a_lease_has_to_come_again() -> None:
    table = Table(leased=True)
    guest = Guest(table, "web1")
    assert guest.hello() == b""
    assert of(CloseConnection, table.done) == [CloseConnection(guest.number, guest.address)]
    renew(table)
    assert guest.hello() != b""


def test_frames_that_wait_take_limited_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    table, guest = leased()
    table.wait(LEASE_S)
    frame = guest.seal(REPORT)
    monkeypatch.setattr(sharing, "RETURN_MEMORY", len(frame))
    guest.raw(frame)
    assert of(CloseConnection, table.take()) == []
    guest.say(REPORT)
    assert of(CloseConnection, table.take()) == [CloseConnection(guest.number, guest.address)]


@pytest.mark.parametrize(
    ("state", "minion", "ends"),
    [
        ("accepted", "web1", False),
        ("accepted", "web2", True),
        ("pending", "web1", True),
        ("revoked", "web1", True),
        ("deleted", "web1", True),
    ],
)
def test_an_accepted_session_ends_when_its_key_was_changed_elsewhere(state: str, minion: str, ends: bool) -> None:
    table, guest = leased()
    table.manager.key_changed_elsewhere(guest.key, state, minion)
    assert bool(of(Presence, table.take())) is ends


def test_a_pending_session_is_accepted_by_another_master_and_stays_while_it_waits() -> None:
    table = Table()
    guest = table.join("web1", "pending")
    guest.heard()
    table.manager.key_changed_elsewhere(guest.key, "pending", "web1")
    assert guest.heard() == []
    table.manager.key_changed_elsewhere(guest.key, "accepted", "web1")
    assert guest.heard() == [{"t": "state", "state": "accepted"}]
    assert of(Pull, table.done) == [Pull("web1", fresh=True)]


def test_a_job_of_another_master_carries_its_certificate() -> None:
    table = Table()
    own = certificate(NOW)
    other = replace(own, job_public=ed25519_public(OTHER)).encode()
    issuers = Issuers(own.encode())
    mine, theirs, unsigned = (delivery(number, table) for number in range(3))
    mine.signature, theirs.signature = sign(JOB_PRIVATE, mine.body), sign(OTHER, theirs.body)
    issuers.named([mine, theirs])
    assert (mine.certificate, theirs.certificate) == (b"", b""), "no other master is known"
    issuers.others_are([other])
    issuers.named([mine, theirs, unsigned])
    assert (mine.certificate, theirs.certificate, unsigned.certificate) == (b"", other, b"")
    issuers.others_are([])
    theirs.certificate = b""
    issuers.named([theirs])
    assert theirs.certificate == b""
