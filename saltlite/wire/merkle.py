"""Audience proofs: one signed root names every target of a job, and each minion gets proof of its own place.

A Merkle tree over the target ids. A leaf is SHA-256(0x00 | id), an inner node SHA-256(0x01 | smaller |
larger) of its two children, so that a proof needs no directions; a node without a partner moves up as it is.
The ids are sorted and taken once, so that the root depends on the set alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from saltlite.errors import LocalProtocolError

HASH_BYTES = 32

PROOF_MAX = 20
"""Hashes in one proof: enough for a million targets. A longer proof admits nobody."""


def root(ids: Iterable[str]) -> bytes:
    """The 32-byte root for a set of ids. Raises LocalProtocolError for none or more than 2**PROOF_MAX."""
    return _levels(_ordered(ids))[-1][0]


def proofs(ids: Iterable[str]) -> dict[str, list[bytes]]:
    """For each id the hashes that lead from it to root(ids); none when there is one id."""
    ordered = _ordered(ids)
    levels = _levels(ordered)[:-1]
    found: dict[str, list[bytes]] = {}
    for place, name in enumerate(ordered):
        at = place
        proof = []
        for level in levels:
            partner = at ^ 1
            if partner < len(level):
                proof.append(level[partner])
            at >>= 1
        found[name] = proof
    return found


def admits(root: bytes, name: str, proof: Sequence[bytes]) -> bool:
    """Whether `proof` shows that the id `name` is one of those under `root`; a bad proof is False."""
    if len(proof) > PROOF_MAX:
        return False
    node = _leaf(name)
    for partner in proof:
        if type(partner) is not bytes or len(partner) != HASH_BYTES:
            return False
        node = _inner(node, partner)
    return node == root


def _ordered(ids: Iterable[str]) -> list[str]:
    ordered = sorted(set(ids))
    if not 0 < len(ordered) <= 1 << PROOF_MAX:
        raise LocalProtocolError(f"a job has 1 to {1 << PROOF_MAX} targets, not {len(ordered)}")
    return ordered


def _levels(ordered: list[str]) -> list[list[bytes]]:
    """All levels of the tree, leaves first."""
    level = [_leaf(name) for name in ordered]
    levels = [level]
    while len(level) > 1:
        above = [_inner(left, right) for left, right in zip(level[::2], level[1::2], strict=False)]
        if len(level) % 2:
            above.append(level[-1])
        levels.append(above)
        level = above
    return levels


def _leaf(name: str) -> bytes:
    return hashlib.sha256(b"\x00" + name.encode()).digest()


def _inner(one: bytes, other: bytes) -> bytes:
    pair = one + other if one < other else other + one
    return hashlib.sha256(b"\x01" + pair).digest()
