"""What becomes of a key that presents itself, and what an operator may do with one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from saltlite.master.protocol.keyring import (
    CONFLICT_EVERY_S,
    CONFLICTS_KEPT,
    SEEN_EVERY_S,
    UNSEEN_S,
    KeyVerdict,
    Presented,
    decide,
    refusal,
)
from saltlite.master.store.ports import TokenRecord
from saltlite.model.ids import MinionId
from saltlite.model.keys import TRANSITIONS, JoinToken, KeyRecord, KeyState, fingerprint
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire.limits import PENDING_KEYS, PENDING_KEYS_PER_NETWORK, PROOF_BYTES, SESSION_MAX_AGE_S
from saltlite.wire.signatures import prove, token_public

NOW = 1_800_000_000.0
JOIN = JoinToken(fingerprint(b"fleet"), "tok00001", "a" * 32)
TOKEN = TokenRecord(JOIN.token_id, token_public(JOIN), "web*", 1, NOW, NOW + 3600.0, "root")


def public(name: str) -> bytes:
    return name.encode().ljust(32, b".")


def presented(name: str = "web1", *, key: str = "", proof: bytes = b"", address: str = "10.0.0.1") -> Presented:
    raw = public(key or name)
    return Presented(MinionId(name), fingerprint(raw), raw, address, proof)


def proof(name: str = "web1", *, key: str = "", token: JoinToken = JOIN) -> bytes:
    """What the minion of that name sends with that token."""
    return prove(token, MinionId(name), public(key or name))


def record(name: str, state: KeyState, *, key: str = "", at: float = NOW, address: str = "10.0.0.1") -> KeyRecord:
    raw = public(key or name)
    return KeyRecord(MinionId(name), fingerprint(raw), raw, state, address, at, at, 0)


def store(*records: KeyRecord, tokens: tuple[TokenRecord, ...] = (TOKEN,)) -> MemoryStore:
    it = MemoryStore(MemoryStoreDisk())
    with it.write() as writer:
        for row in records:
            writer.put_key(row)
        for token in tokens:
            writer.put_token(token)
    return it


def apply(it: MemoryStore, who: Presented, now: float = NOW) -> KeyVerdict:
    """Decide, and write down what the verdict says."""
    verdict = decide(who, it, now)
    with it.write() as writer:
        for old in verdict.drop:
            writer.delete_key(old)
        if verdict.put is not None:
            writer.put_key(verdict.put)
    return verdict


# -- an unknown key


def test_an_unknown_key_waits() -> None:
    verdict = decide(presented(), store(), NOW)
    assert (verdict.state, verdict.use_token) == (KeyState.PENDING, "")
    assert verdict.put is not None
    assert (verdict.put.state, verdict.put.how) == (KeyState.PENDING, "first contact")


def test_a_good_token_accepts_and_is_used() -> None:
    verdict = decide(presented(proof=proof()), store(), NOW)
    assert (verdict.state, verdict.use_token) == (KeyState.ACCEPTED, TOKEN.token_id)
    assert verdict.put is not None
    assert verdict.put.how == "join token tok00001 of root"


@pytest.mark.parametrize(
    ("given", "row"),
    [
        (proof(token=replace(JOIN, secret="b" * 32)), TOKEN),
        (proof(token=replace(JOIN, fleet=fingerprint(b"another"))), TOKEN),
        (proof(token=replace(JOIN, token_id="unknown1")), TOKEN),
        (proof(key="another key"), TOKEN),
        (proof("web2", key="web1"), TOKEN),
        (proof()[:8], TOKEN),
        (proof() + b"x", TOKEN),
        (b"\xff" * PROOF_BYTES, TOKEN),
        (proof(), replace(TOKEN, public=b"p" * 32)),
        (proof(), replace(TOKEN, public=b"")),
        (proof(), replace(TOKEN, expires_at=NOW)),
        (proof(), replace(TOKEN, uses_left=0)),
        (proof(), replace(TOKEN, id_glob="db*")),
        (proof(), replace(TOKEN, id_glob="WEB1")),
    ],
    ids=[
        "secret", "fleet", "unknown", "other key", "other id", "bare", "longer", "no text", "other public key",
        "no public key", "expired", "used", "other glob", "case",
    ],
)  # fmt: skip
def test_a_bad_token_accepts_nobody_and_says_that_it_was_bad(given: bytes, row: TokenRecord) -> None:
    verdict = decide(presented(proof=given), store(tokens=(row,)), NOW)
    assert (verdict.state, verdict.use_token) == (KeyState.PENDING, "")
    assert verdict.put is not None
    assert verdict.put.how == "first contact; its join token was not accepted"


def test_a_preaccepted_fingerprint_is_accepted() -> None:
    it = store()
    with it.write() as writer:
        writer.put_preaccept(MinionId("web1"), presented().fingerprint, "root")
    verdict = decide(presented(), it, NOW)
    assert verdict.state == KeyState.ACCEPTED
    assert verdict.put is not None
    assert verdict.put.how == "pre-accepted"


def test_another_key_than_the_preaccepted_one_waits() -> None:
    it = store()
    with it.write() as writer:
        writer.put_preaccept(MinionId("web1"), presented().fingerprint, "root")
    assert decide(presented(key="another"), it, NOW).state == KeyState.PENDING


# -- a link process that lies: it says which key a session proved, and has seen every proof that passed through it


@pytest.mark.parametrize(
    "lie",
    [
        presented("web1", key="its own", proof=proof("web1")),
        presented("web2", key="web1", proof=proof("web1")),
        presented("web2", key="its own", proof=proof("web1")),
        presented("web1", key="its own"),
    ],
    ids=["another key", "another id", "both", "no proof, for a pre-accepted id"],
)
def test_a_link_that_lies_about_a_key_gets_a_row_that_waits(lie: Presented) -> None:
    it = store(tokens=(replace(TOKEN, id_glob="*", uses_left=100),))
    with it.write() as writer:
        writer.put_preaccept(MinionId("web1"), presented("web1").fingerprint, "root")
    apply(it, lie)
    assert {(row.id, row.state) for row in it.keys(frozenset(KeyState))} == {(lie.id, KeyState.PENDING)}
    token = it.token(TOKEN.token_id)
    assert token is not None
    assert token.uses_left == 100


def test_a_link_that_repeats_a_proof_lets_in_no_more_than_the_key_that_it_was_made_for() -> None:
    it = store(tokens=(replace(TOKEN, uses_left=2),))
    for _ in range(2):
        apply(it, presented(proof=proof()))
    assert [row.fingerprint for row in it.keys(frozenset(KeyState))] == [presented().fingerprint]


# -- a known key


@pytest.mark.parametrize("state", [KeyState.ACCEPTED, KeyState.REJECTED, KeyState.REVOKED])
@pytest.mark.parametrize("given", [b"", proof()], ids=["no token", "token"])
def test_a_decision_stands_whatever_is_presented_with_the_key(state: KeyState, given: bytes) -> None:
    assert decide(presented(proof=given), store(record("web1", state)), NOW) == KeyVerdict(state)


@pytest.mark.parametrize("state", [KeyState.PENDING, KeyState.CONFLICT])
def test_an_open_key_stays_as_it_is_until_a_token_comes(state: KeyState) -> None:
    it = store(record("web1", state))
    assert decide(presented(), it, NOW) == KeyVerdict(state)
    assert decide(presented(proof=proof()), it, NOW).state == KeyState.ACCEPTED


@pytest.mark.parametrize("state", list(KeyState))
def test_a_key_that_changes_its_id_is_a_conflict_and_changes_nothing(state: KeyState) -> None:
    it = store(record("web1", state))
    assert decide(presented("web2", key="web1", proof=proof("web2", key="web1")), it, NOW) == KeyVerdict(
        KeyState.CONFLICT
    )


def test_a_pending_key_that_comes_again_is_noted_down_now_and_then() -> None:
    it = store(record("web1", KeyState.PENDING))
    assert apply(it, presented(address="10.0.0.2"), NOW + SEEN_EVERY_S - 1.0).put is None
    verdict = apply(it, presented(address="10.0.0.2"), NOW + SEEN_EVERY_S)
    assert verdict.put is not None
    assert (verdict.put.address, verdict.put.first_seen, verdict.put.changed_at) == (
        "10.0.0.2",
        NOW,
        NOW + SEEN_EVERY_S,
    )


# -- an id that has an accepted key


@pytest.mark.parametrize("given", [b"", proof(key="thief")], ids=["no token", "token"])
def test_a_second_key_for_an_accepted_id_never_displaces_the_first(given: bytes) -> None:
    it = store(record("web1", KeyState.ACCEPTED))
    verdict = apply(it, presented(key="thief", proof=given))
    assert (verdict.state, verdict.use_token) == (KeyState.CONFLICT, "")
    holder = it.holder(MinionId("web1"))
    assert holder is not None
    assert holder.fingerprint == presented().fingerprint


def test_a_pending_key_becomes_a_conflict_when_another_took_its_id() -> None:
    it = store(record("web1", KeyState.ACCEPTED), record("web1", KeyState.PENDING, key="second"))
    assert apply(it, presented(key="second")).state == KeyState.CONFLICT


def test_of_many_conflicts_on_an_id_the_last_three_are_kept() -> None:
    it = store(record("web1", KeyState.ACCEPTED))
    for number in range(CONFLICTS_KEPT + 1):
        apply(it, presented(key=f"thief {number}"), NOW + number * CONFLICT_EVERY_S)
    kept = it.keys(frozenset({KeyState.CONFLICT}))
    assert {row.public for row in kept} == {public(f"thief {number}") for number in (1, 2, 3)}


def test_a_storm_of_conflicts_is_answered_and_not_written_down() -> None:
    it = store(record("web1", KeyState.ACCEPTED))
    verdicts = [apply(it, presented(key=f"thief {number}"), NOW + number) for number in range(50)]
    assert {verdict.state for verdict in verdicts} == {KeyState.CONFLICT}
    assert sum(verdict.put is not None for verdict in verdicts) == CONFLICTS_KEPT


def test_a_conflict_that_comes_again_is_not_a_new_one() -> None:
    it = store(record("web1", KeyState.ACCEPTED), record("web1", KeyState.CONFLICT, key="thief"))
    assert decide(presented(key="thief"), it, NOW) == KeyVerdict(KeyState.CONFLICT)


def test_a_conflict_is_still_one_when_the_holder_is_gone_until_somebody_decides() -> None:
    it = store(record("web1", KeyState.REVOKED), record("web1", KeyState.CONFLICT, key="thief"))
    assert decide(presented(key="thief"), it, NOW) == KeyVerdict(KeyState.CONFLICT)


# -- limits


@pytest.mark.parametrize(
    ("addresses", "another", "elsewhere"),
    [
        (["10.0.0.1", "::ffff:10.0.0.1"], "10.0.0.1", "10.0.0.2"),
        ([f"2001:db8:1:2:{number:x}::1" for number in range(16)], "2001:db8:1:2::ffff", "2001:db8:1:3::1"),
    ],
)
def test_pending_keys_of_one_network_have_a_limit(addresses: list[str], another: str, elsewhere: str) -> None:
    rows = [
        record(f"m{number}", KeyState.PENDING, address=addresses[number % len(addresses)])
        for number in range(PENDING_KEYS_PER_NETWORK)
    ]
    it = store(*rows)
    assert decide(presented(address=another), it, NOW) == KeyVerdict("busy")
    assert decide(presented(address=elsewhere), it, NOW).state == KeyState.PENDING
    assert decide(presented(proof=proof(), address=another), it, NOW).state == KeyState.ACCEPTED


def pending_keys(address_of: Callable[[int], str]) -> list[KeyRecord]:
    """As many keys as there are places, each a second later than the one before."""
    return [
        record(f"m{number}", KeyState.PENDING, at=NOW + number, address=address_of(number))
        for number in range(PENDING_KEYS)
    ]


LATER = NOW + PENDING_KEYS


def test_when_all_places_are_taken_the_newest_of_the_network_that_has_the_most_makes_room() -> None:
    rows = pending_keys(lambda number: f"10.{number // 16}.0.1" if number < 992 else f"10.100.{number - 992}.1")
    verdict = decide(presented(address="192.0.2.1"), store(*rows), LATER)
    assert (verdict.state, verdict.drop) == (KeyState.PENDING, (rows[991].fingerprint,))


def test_a_whole_site_of_networks_with_one_key_each_makes_room_for_another_site() -> None:
    """A /48 has 65,536 networks of one owner."""
    rows = pending_keys(lambda number: f"2001:db8:bad:{number:x}::1" if number else "2001:db8:900d:1::1")
    it = store(*rows)
    first = decide(presented(address="192.0.2.1"), it, LATER)
    assert (first.state, first.drop) == (KeyState.PENDING, (rows[-1].fingerprint,))
    assert decide(presented(address="2001:db8:bad:ffff::1"), it, LATER) == KeyVerdict("busy")


def test_a_key_that_waits_alone_in_its_site_is_never_displaced() -> None:
    rows = pending_keys(lambda number: f"10.{number // 256}.{number % 256}.1")
    assert decide(presented(address="192.0.2.1"), store(*rows), LATER) == KeyVerdict("busy")


def test_of_sites_with_equally_many_keys_the_later_one_loses() -> None:
    """So a site that waited before a flood of others keeps its places."""
    rows = pending_keys(lambda number: f"10.{number // 4 // 256}.{number // 4 % 256}.{number % 4}")
    verdict = decide(presented(address="192.0.2.1"), store(*rows), LATER)
    assert verdict.drop == (rows[-1].fingerprint,)


def test_when_all_places_are_taken_a_key_not_seen_for_long_makes_room_before_others() -> None:
    rows = pending_keys(lambda number: f"10.{number // 16}.0.1")
    verdict = decide(presented(address="192.0.2.1"), store(*rows), NOW + UNSEEN_S)
    assert (verdict.state, verdict.drop) == (KeyState.PENDING, (rows[0].fingerprint,))


def test_a_session_cannot_last_as_long_as_a_key_counts_as_seen() -> None:
    assert UNSEEN_S > 1.25 * SESSION_MAX_AGE_S + SEEN_EVERY_S


# -- what an operator may do


@pytest.mark.parametrize(("before", "wanted"), list(itertools.product(KeyState, KeyState)))
def test_an_operator_may_make_exactly_the_changes_of_the_table(before: KeyState, wanted: KeyState) -> None:
    row = record("web1", before)
    reason = refusal(row, wanted, store(row))
    assert (reason == "") is (wanted in TRANSITIONS[before])


@pytest.mark.parametrize("before", [KeyState.PENDING, KeyState.CONFLICT, KeyState.REJECTED])
def test_a_key_is_not_accepted_while_another_holds_the_id(before: KeyState) -> None:
    row = record("web1", before, key="second")
    it = store(record("web1", KeyState.ACCEPTED), row)
    assert f"({presented().fingerprint}); revoke or delete that one first" in refusal(row, KeyState.ACCEPTED, it)
    with it.write() as writer:
        writer.put_key(record("web1", KeyState.REVOKED))
    assert refusal(row, KeyState.ACCEPTED, it) == ""


# -- ids that differ by case only


def test_a_key_for_an_id_that_differs_by_case_only_is_a_conflict_and_names_the_holder() -> None:
    it = store(record("Web1", KeyState.ACCEPTED))
    verdict = apply(it, presented("web1", key="other", proof=proof("web1", key="other")))
    assert (verdict.state, verdict.use_token) == (KeyState.CONFLICT, "")
    assert verdict.put is not None
    assert verdict.put.how == "another key holds this id as Web1"
    assert refusal(verdict.put, KeyState.ACCEPTED, it).startswith("Web1 has an accepted key already")
    assert "ids that differ by case only are one id: web1" in refusal(verdict.put, KeyState.ACCEPTED, it)


def test_of_two_pending_ids_that_differ_by_case_only_one_can_be_accepted() -> None:
    it = store(record("Web1", KeyState.PENDING), record("web1", KeyState.PENDING))
    first, second = it.keys()
    assert refusal(first, KeyState.ACCEPTED, it) == ""
    with it.write() as writer:
        writer.put_key(replace(first, state=KeyState.ACCEPTED))
    assert refusal(second, KeyState.ACCEPTED, it).startswith("Web1 has an accepted key already")


def test_conflicts_of_one_id_in_any_case_are_limited_together() -> None:
    it = store(record("web1", KeyState.ACCEPTED))
    for number, name in enumerate(("Web1", "wEb1", "weB1", "WEb1", "wEB1", "WEB1")):
        apply(it, presented(name, key=f"other{number}"))
    assert len(it.keys(frozenset({KeyState.CONFLICT}))) == CONFLICTS_KEPT
