"""Audience proofs: one signed root covers every part of a job, and each minion gets the proof that its part is covered.

The tree is a Merkle tree over the parts of the job (`member`). A leaf is SHA-256(0x00 | member); an inner node is
SHA-256(0x01 | smaller | larger) of its two children, so a proof needs no directions; a node without a partner moves up
unchanged. Members are sorted and unique, so the root depends on the set alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from saltlite.errors import LocalProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, PartId, TargetId
from saltlite.model.job import PART_RESOURCES, Job, part_id, resource_parts
from saltlite.model.sha256 import sha256

HASH_BYTES = 32

PROOF_MAX = 20
"""Hashes in one proof: enough for a million parts. A longer proof is invalid."""


def member(minion: str, number: int, srns: Sequence[str]) -> str:
    """The leaf text of a part: the minion's id for part 0, which is for the minion itself.

    For a part for resources it includes the number and the SRNs, so that the part cannot be run on others.
    """
    if number == 0:
        return minion
    return f"{minion}\n{number}\n{sha256(chr(10).join(srns).encode()).hex()}"


def root(members: Iterable[str]) -> bytes:
    """The 32-byte root for a set of members. Raises LocalProtocolError for none or more than 2**PROOF_MAX."""
    return _levels(_ordered(members))[-1][0]


def proofs(members: Iterable[str]) -> dict[str, list[bytes]]:
    """For each member the hashes that lead from it to root(members); empty for a single member."""
    ordered = _ordered(members)
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
    """Whether `proof` shows that `name` is a member below `root`; False for an invalid proof."""
    if len(proof) > PROOF_MAX:
        return False
    node = _leaf(name)
    for partner in proof:
        if type(partner) is not bytes or len(partner) != HASH_BYTES:
            return False
        node = _inner(node, partner)
    return node == root


def _ordered(members: Iterable[str]) -> list[str]:
    ordered = sorted(set(members))
    if not 0 < len(ordered) <= 1 << PROOF_MAX:
        raise LocalProtocolError(f"a job has 1 to {1 << PROOF_MAX} parts, not {len(ordered)}")
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
    return sha256(b"\x00" + name.encode())


def _inner(one: bytes, other: bytes) -> bytes:
    pair = one + other if one < other else other + one
    return sha256(b"\x01" + pair)


# -- The parts of a job with their proofs


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a job: for the minion itself (number 0), or for some of its resources."""

    minion: MinionId
    number: int
    srns: tuple[TargetId, ...]

    @property
    def member(self) -> str:
        """Its leaf text in the audience."""
        return member(self.minion, self.number, self.srns)


@dataclass(frozen=True, slots=True)
class SignedPart:
    """The data of one part for its minion, besides body and signature, which all parts of the job share."""

    id: PartId
    minion: MinionId
    srns: tuple[TargetId, ...]
    proof: Sequence[bytes]

    @property
    def targets(self) -> tuple[TargetId, ...]:
        """The targets of the part."""
        return self.srns or (self.minion,)


SignedParts = Mapping[tuple[MinionId, PartId], SignedPart]
"""The parts of one job by minion and id."""


def parts_of(job: Job) -> Iterator[Part]:
    """The parts of a job, those for minions first."""
    for minion in job.minions:
        yield Part(minion, 0, ())
    # In a batch each resource takes its own turn.
    most = PART_RESOURCES if job.batch is None else 1
    for minion, srns in job.resources.items():
        for number, some in resource_parts(srns, most):
            yield Part(minion, number, some)


def audience(job: Job) -> bytes:
    """The audience that is signed with the job."""
    return root(part.member for part in parts_of(job))


def signed_parts(job: Job) -> SignedParts:
    """All parts of a job, with their proofs. For 10,000 parts it takes 60 ms."""
    parts = [(part, part.member) for part in parts_of(job)]
    known = proofs(name for _part, name in parts)
    signed = [SignedPart(part_id(job.jid, part.number), part.minion, part.srns, known[name]) for part, name in parts]
    return {(part.minion, part.id): part for part in signed}
