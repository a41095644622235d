"""Records that one fleet key follows another: what a minion believes of them, and what not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire.certificates import Succession, decode_chain, encode_chain, succeed, successors
from saltlite.wire.limits import FLEET_CHAIN_BYTES, FLEET_CHAIN_RECORDS, SUCCESSION_BYTES
from saltlite.wire.messages import REPLY_FIELDS
from tests.support.keys import ed25519_public, seed

LENGTH = 4
SEEDS = [seed(f"fleet key {number}") for number in range(LENGTH + 1)]
PUBLICS = [ed25519_public(each) for each in SEEDS]
PRINTS = [fingerprint_bytes(each) for each in PUBLICS]
RECORDS = [
    succeed(old, new, serial=number + 1, time=1_800_000_000 + number)
    for number, (old, new) in enumerate(pairwise(SEEDS))
]
CHAIN = encode_chain(RECORDS)
STRANGER = seed("a stranger")


def refused(pinned: bytes, fleet: bytes, chain: bytes) -> str:
    """The reason why the chain leads nowhere."""
    with pytest.raises(RemoteProtocolError) as caught:
        successors(pinned, fleet, chain)
    return str(caught.value.reason)


@pytest.mark.parametrize("start", range(LENGTH + 1))
def test_every_former_key_leads_to_the_present_one(start: int) -> None:
    assert successors(PRINTS[start], PUBLICS[-1], CHAIN) == tuple(PRINTS[start + 1 :])


def test_a_record_is_read_as_it_was_written() -> None:
    assert len(RECORDS[0].encode()) == SUCCESSION_BYTES
    assert Succession.decode(RECORDS[0].encode()) == RECORDS[0]
    assert decode_chain(CHAIN) == tuple(RECORDS)


@given(place=st.integers(0, len(CHAIN) - 1), bit=st.integers(0, 7))
def test_a_chain_with_one_changed_bit_is_refused(place: int, bit: int) -> None:
    changed = bytearray(CHAIN)
    changed[place] ^= 1 << bit
    assert refused(PRINTS[0], PUBLICS[-1], bytes(changed)) in ("bad-succession", "wrong-fleet")


@given(order=st.permutations(range(LENGTH)).filter(lambda order: list(order) != list(range(LENGTH))))
def test_a_chain_in_another_order_is_refused(order: list[int]) -> None:
    assert refused(PRINTS[0], PUBLICS[-1], encode_chain([RECORDS[place] for place in order])) == "bad-succession"


@given(left_out=st.sets(st.integers(0, LENGTH - 1), min_size=1))
def test_a_chain_without_some_of_its_records_leads_nowhere(left_out: set[int]) -> None:
    rest = [record for place, record in enumerate(RECORDS) if place not in left_out]
    assert refused(PRINTS[0], PUBLICS[-1], encode_chain(rest)) in ("bad-succession", "wrong-fleet")


@given(cut=st.integers(1, len(CHAIN)))
def test_a_cut_chain_is_refused(cut: int) -> None:
    assert refused(PRINTS[0], PUBLICS[-1], CHAIN[:-cut]) in ("bad-succession", "wrong-fleet")


@given(data=st.binary(max_size=3 * SUCCESSION_BYTES))
def test_bytes_of_a_stranger_lead_nowhere(data: bytes) -> None:
    assert refused(PRINTS[0], PUBLICS[-1], data) in ("bad-succession", "wrong-fleet")


def test_a_whole_chain_of_another_fleet_leads_nowhere() -> None:
    other = succeed(STRANGER, seed("another stranger"), serial=1, time=0)
    assert refused(PRINTS[0], other.new_public, other.encode()) == "wrong-fleet"


def test_a_stranger_cannot_name_himself_the_successor() -> None:
    theirs = succeed(STRANGER, seed("another stranger"), serial=LENGTH + 1, time=0)
    forged = replace(theirs, old_public=PUBLICS[-1])
    assert refused(PRINTS[0], theirs.new_public, CHAIN + forged.encode()) == "bad-succession"


def test_a_successor_must_have_signed_too() -> None:
    """Whoever has the old key makes nobody the fleet who does not hold the new one."""
    theirs = succeed(SEEDS[0], STRANGER, serial=1, time=0)
    forged = replace(theirs, new_public=PUBLICS[1])
    assert refused(PRINTS[0], PUBLICS[1], forged.encode()) == "bad-succession"


def test_a_signature_for_one_side_is_none_for_the_other() -> None:
    swapped = replace(RECORDS[0], by_old=RECORDS[0].by_new, by_new=RECORDS[0].by_old)
    assert refused(PRINTS[0], PUBLICS[1], swapped.encode()) == "bad-succession"


def test_a_former_key_cannot_have_back_who_pins_its_successor() -> None:
    assert refused(PRINTS[1], PUBLICS[0], b"") == "wrong-fleet"
    assert refused(PRINTS[1], PUBLICS[0], CHAIN) == "wrong-fleet"
    # Not even with a fork that the former key signed after it was followed.
    fork = succeed(SEEDS[0], STRANGER, serial=1, time=0)
    assert refused(PRINTS[1], ed25519_public(STRANGER), fork.encode()) == "wrong-fleet"
    assert refused(PRINTS[1], ed25519_public(STRANGER), CHAIN[:SUCCESSION_BYTES] + fork.encode()) == "bad-succession"


def test_a_chain_does_not_come_back_to_a_key() -> None:
    back = succeed(SEEDS[1], SEEDS[0], serial=2, time=0)
    assert refused(PRINTS[1], PUBLICS[0], RECORDS[0].encode() + back.encode()) == "bad-succession"


def test_a_record_that_does_not_follow_in_number_is_refused() -> None:
    late = succeed(SEEDS[1], SEEDS[2], serial=3, time=0)
    assert refused(PRINTS[0], PUBLICS[2], RECORDS[0].encode() + late.encode()) == "bad-succession"


def test_the_chain_that_travels_has_a_limit() -> None:
    assert FLEET_CHAIN_BYTES == FLEET_CHAIN_RECORDS * SUCCESSION_BYTES
    assert REPLY_FIELDS["chain"](bytes(FLEET_CHAIN_BYTES))
    assert not REPLY_FIELDS["chain"](bytes(FLEET_CHAIN_BYTES + 1))


@pytest.mark.parametrize(
    ("old", "new", "serial", "time"),
    [(b"short", SEEDS[0], 1, 0), (SEEDS[0], SEEDS[0], 1, 0), (SEEDS[0], SEEDS[1], 0, 0), (SEEDS[0], SEEDS[1], 1, -1)],
)
def test_a_record_that_makes_no_sense_is_not_made(old: bytes, new: bytes, serial: int, time: int) -> None:
    with pytest.raises(LocalProtocolError):
        succeed(old, new, serial=serial, time=time)
