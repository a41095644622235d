"""What a master must prove before a minion believes it, and what no master can make it do (R5, S3)."""

from __future__ import annotations

from itertools import pairwise

from saltlite.errors import RemoteProtocolError
from saltlite.minion.protocol.connection import Phase, SendFrame, Trust
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire import frames
from saltlite.wire.certificates import encode_chain, succeed
from saltlite.wire.limits import FLEET_CHAIN_RECORDS
from tests.support.keys import DAY, FLEET, FLEET_PRIVATE, FLEET_PUBLIC, NOW, certificate, ed25519_public, seed
from tests.support.scripted import Scripted

# -- what the master must prove


def refused_because(it: Scripted) -> str:
    """The reason why a master was not believed; nothing but HELLO was said to it."""
    it.connect()
    (raw,) = it.sent()
    hello = frames.parse(raw)
    assert isinstance(hello, frames.HelloFrame)
    it.connection.frame(it.handshakes.hello(b"r", 1, "10.0.0.1", hello))
    effects = it.take()
    assert not [effect for effect in effects if isinstance(effect, SendFrame | Trust)]
    assert it.phase() is Phase.BACKOFF
    return it.why()


def test_a_certificate_of_another_key_than_the_handshake_proved_is_refused() -> None:
    assert "wrong-certificate" in refused_because(Scripted(private=seed("thief")))


def test_an_expired_certificate_is_refused() -> None:
    cert = certificate(NOW - 40 * DAY, days=30)
    assert "expired" in refused_because(Scripted(cert=cert.encode()))


def test_an_expired_certificate_is_refused_even_when_the_clock_was_set_back() -> None:
    it = Scripted(cert=certificate(NOW - 3000 * DAY, days=30).encode())
    it.clock.jump_wall(-2990 * DAY)
    assert "expired" in refused_because(it)


def test_a_certificate_that_is_not_valid_yet_is_refused() -> None:
    assert "not-yet-valid" in refused_because(Scripted(cert=certificate(NOW + DAY).encode()))


def test_a_certificate_with_a_changed_byte_is_refused() -> None:
    raw = bytearray(certificate(NOW).encode())
    raw[-1] ^= 1
    assert "bad-signature" in refused_because(Scripted(cert=bytes(raw)))


def test_its_hello_is_of_no_use_to_a_master_of_another_fleet() -> None:
    it = Scripted(fleet=b"x" * 25)
    it.connect()
    (raw,) = it.sent()
    hello = frames.parse(raw)
    assert isinstance(hello, frames.HelloFrame)
    assert not frames.hello_is_for(hello, FLEET)


def test_a_master_that_was_not_believed_is_tried_again_and_may_be_right_then() -> None:
    it = Scripted()
    it.connect()
    it.connection.frame(frames.reply(b"\0" * 200))
    assert it.phase() is Phase.BACKOFF
    it.wait(it.rest_s())
    it.welcomed()
    assert it.phase() is Phase.READY


def test_the_certificate_is_handed_on_for_the_job_key_before_anything_else_is() -> None:
    it = Scripted().welcomed()
    (trust,) = [effect for effect in it.seen if isinstance(effect, Trust)]
    assert (trust.fleet, trust.certificate) == (FLEET, certificate(NOW))


# -- first contact


def test_without_a_pinned_fleet_it_asks_and_pins_what_was_proved() -> None:
    it = Scripted(fleet=None)
    it.connect()
    assert it.sent() == [frames.query()]
    it.connection.frame(frames.fleet(FLEET_PUBLIC))
    (raw,) = it.sent()
    hello = frames.parse(raw)
    assert isinstance(hello, frames.HelloFrame)
    it.connection.frame(it.handshakes.hello(b"r", 1, "10.0.0.1", hello))
    assert [effect.fleet for effect in it.take() if isinstance(effect, Trust)] == [FLEET]


def test_a_false_fleet_that_nobody_proved_is_forgotten() -> None:
    it = Scripted(fleet=None)
    it.connect()
    it.connection.frame(frames.fleet(ed25519_public(seed("false fleet"))))
    it.connection.link_down("gone")
    it.wait(it.rest_s())
    it.sent()
    it.connection.link_up()
    assert it.sent() == [frames.query()]


def test_a_pinned_fleet_is_not_talked_out_of_by_a_fleet_frame() -> None:
    it = Scripted()
    it.connect()
    it.sent()
    it.connection.frame(frames.fleet(ed25519_public(seed("false fleet"))))
    assert it.phase() is Phase.BACKOFF
    assert it.sent() == []


# -- a fleet key that was changed

SUCCESSOR = seed("successor")
RECORD = succeed(FLEET_PRIVATE, SUCCESSOR, serial=1, time=0)


def of_the_successor(chain: bytes = RECORD.encode(), *, pinned: bytes | None = FLEET) -> Scripted:
    """A minion of the former key, and a master of the present one."""
    return Scripted(fleet=pinned, cert=certificate(NOW, fleet=SUCCESSOR).encode(), chain=chain)


def test_a_minion_follows_to_the_successor_of_the_fleet_that_it_pins() -> None:
    it = of_the_successor().welcomed()
    (trust,) = [effect for effect in it.seen if isinstance(effect, Trust)]
    assert trust == Trust(fingerprint_bytes(RECORD.new_public), certificate(NOW, fleet=SUCCESSOR), RECORD.encode())
    assert it.phase() is Phase.READY


def test_a_minion_that_has_followed_names_the_successor_next_time_and_gets_no_chain() -> None:
    it = of_the_successor().welcomed()
    it.connection.link_down("gone")
    it.wait(it.rest_s())
    it.prove()
    first, second = [effect for effect in it.seen if isinstance(effect, Trust)]
    assert (first.chain, second.chain) == (RECORD.encode(), b"")


def test_a_minion_that_has_followed_refuses_a_master_of_the_former_key() -> None:
    it = of_the_successor().welcomed()
    it.connection.link_down("gone")
    it.wait(it.rest_s())
    it.take()
    it.connect()
    (raw,) = it.sent()
    hello = frames.parse(raw)
    assert isinstance(hello, frames.HelloFrame)
    assert not frames.hello_is_for(hello, FLEET)


def test_a_master_shows_no_more_of_its_chain_than_the_minion_needs() -> None:
    """Two changes were made, and the minion missed one of them."""
    third = seed("third")
    later = succeed(SUCCESSOR, third, serial=2, time=0)
    chain = RECORD.encode() + later.encode()
    pinned = fingerprint_bytes(RECORD.new_public)
    it = Scripted(fleet=pinned, cert=certificate(NOW, fleet=third).encode(), chain=chain).welcomed()
    (trust,) = [effect for effect in it.seen if isinstance(effect, Trust)]
    assert trust.chain == later.encode()


def test_a_master_whose_certificate_is_by_another_key_than_its_chain_says_is_refused() -> None:
    it = Scripted(cert=certificate(NOW, fleet=seed("another")).encode(), chain=RECORD.encode())
    assert "wrong-fleet" in refused_because(it)


def test_a_chain_longer_than_the_limit_keeps_its_newest_records() -> None:
    seeds = [seed(f"fleet {number}") for number in range(FLEET_CHAIN_RECORDS + 2)]
    records = [succeed(old, new, serial=at + 1, time=0) for at, (old, new) in enumerate(pairwise(seeds))]

    def connects(pinned: bytes) -> bool:
        cert = certificate(NOW, fleet=seeds[-1]).encode()
        it = Scripted(fleet=fingerprint_bytes(pinned), cert=cert, chain=encode_chain(records))
        it.connect()
        (raw,) = it.sent()
        hello = frames.parse(raw)
        assert isinstance(hello, frames.HelloFrame)
        try:
            it.connection.frame(it.handshakes.hello(b"r", 1, "10.0.0.1", hello))
        except RemoteProtocolError:
            return False
        return any(isinstance(effect, Trust) for effect in it.take())

    assert connects(records[1].old_public)
    assert not connects(records[0].old_public)
