"""The parts of a job with what each of them has to show: who has it, its resources, the proof of its place.

`saltlite.model.parts` says which resources are in which part; the audience that is signed with a job follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from saltlite.model.ids import MinionId, PartId, TargetId
from saltlite.model.job import Job
from saltlite.model.parts import PART_RESOURCES, part_id, resource_parts
from saltlite.wire.merkle import member, proofs, root


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a job: for the minion itself (number 0), or for these resources that it manages."""

    minion: MinionId
    number: int
    srns: tuple[TargetId, ...]

    @property
    def member(self) -> str:
        """What stands for it in the audience."""
        return member(self.minion, self.number, self.srns)


@dataclass(frozen=True, slots=True)
class SignedPart:
    """What goes to a minion of one part, beside the body and the signature that all parts of the job share."""

    id: PartId
    minion: MinionId
    srns: tuple[TargetId, ...]
    proof: Sequence[bytes]

    @property
    def targets(self) -> tuple[TargetId, ...]:
        """Whom it is for."""
        return self.srns or (self.minion,)


SignedParts = Mapping[tuple[MinionId, PartId], SignedPart]
"""The parts of one job by who has them and their ids."""


def parts_of(job: Job) -> Iterator[Part]:
    """The parts of a job: those for minions first."""
    for minion in job.minions:
        yield Part(minion, 0, ())
    # In a batch each resource has its own turn.
    most = PART_RESOURCES if job.batch is None else 1
    for minion, srns in job.resources.items():
        for number, some in resource_parts(srns, most):
            yield Part(minion, number, some)


def audience(job: Job) -> bytes:
    """What is signed with the job, so that each part of it can be shown to belong to it."""
    return root(part.member for part in parts_of(job))


def signed_parts(job: Job) -> SignedParts:
    """All parts of a job, with their proofs. For 10,000 parts it takes 60 ms."""
    parts = [(part, part.member) for part in parts_of(job)]
    known = proofs(name for _part, name in parts)
    signed = [SignedPart(part_id(job.jid, part.number), part.minion, part.srns, known[name]) for part, name in parts]
    return {(part.minion, part.id): part for part in signed}
