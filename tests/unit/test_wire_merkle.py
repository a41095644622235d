"""Audience proofs: a minion runs a job only if it is one of the authorised targets (guarantee G3)."""

from __future__ import annotations

import hashlib

import pytest

from saltlite.errors import LocalProtocolError
from saltlite.wire import merkle


def ids(count: int) -> list[str]:
    return [f"minion-{number}" for number in range(count)]


def test_one_target_has_an_empty_proof_and_its_leaf_is_the_root() -> None:
    assert merkle.proofs(["web1"]) == {"web1": []}
    assert merkle.root(["web1"]) == hashlib.sha256(b"\x00web1").digest()


def test_two_targets_make_the_documented_node() -> None:
    one, two = (hashlib.sha256(b"\x00" + name).digest() for name in (b"a", b"b"))
    assert merkle.root(["a", "b"]) == hashlib.sha256(b"\x01" + min(one, two) + max(one, two)).digest()


@pytest.mark.parametrize("count", [*range(1, 35), 100, 129])
def test_every_target_is_admitted_and_nobody_else(count: int) -> None:
    names = ids(count)
    root, proofs = merkle.root(names), merkle.proofs(names)
    assert all(merkle.admits(root, name, proofs[name]) for name in names)
    assert not any(merkle.admits(root, "intruder", proof) for proof in proofs.values())


def test_a_proof_is_for_one_name_only() -> None:
    names = ids(16)
    root, proofs = merkle.root(names), merkle.proofs(names)
    assert [name for name in names if merkle.admits(root, name, proofs["minion-3"])] == ["minion-3"]


def test_order_and_repetition_do_not_change_the_root() -> None:
    assert merkle.root(["a", "b", "c"]) == merkle.root(["c", "a", "b", "a"])
    assert merkle.root(["a", "b", "c"]) != merkle.root(["a", "b"])


def test_an_inner_node_does_not_pass_as_a_target() -> None:
    names = ids(4)
    root, proofs = merkle.root(names), merkle.proofs(names)
    for name in names:
        assert not merkle.admits(root, name, proofs[name][:-1])
        assert not merkle.admits(root, name, [*proofs[name], proofs[name][-1]])


def test_a_damaged_proof_admits_nobody() -> None:
    names = ids(9)
    root, proof = merkle.root(names), merkle.proofs(names)["minion-0"]
    flipped = [bytes((proof[0][0] ^ 1,)) + proof[0][1:], *proof[1:]]
    short = [proof[0][:-1], *proof[1:]]
    assert not merkle.admits(root, "minion-0", flipped)
    assert not merkle.admits(root, "minion-0", short)


def test_a_proof_longer_than_the_limit_admits_nobody() -> None:
    node = hashlib.sha256(b"\x00a").digest()
    partner = bytes(32)
    proof = []
    for length in range(1, merkle.PROOF_MAX + 2):
        node = hashlib.sha256(b"\x01" + min(node, partner) + max(node, partner)).digest()
        proof.append(partner)
        assert merkle.admits(node, "a", proof) is (length <= merkle.PROOF_MAX)


def test_ten_thousand_targets_have_proofs_of_at_most_fourteen_hashes() -> None:
    names = ids(10_000)
    root, proofs = merkle.root(names), merkle.proofs(names)
    assert max(map(len, proofs.values())) == 14
    assert all(merkle.admits(root, name, proofs[name]) for name in names[::997])


def test_no_target_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="parts"):
        merkle.root([])
    with pytest.raises(LocalProtocolError, match="parts"):
        merkle.proofs([])


def test_more_targets_than_a_proof_can_show_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merkle, "PROOF_MAX", 2)
    assert merkle.root(ids(4))
    with pytest.raises(LocalProtocolError, match="4 parts"):
        merkle.root(ids(5))
