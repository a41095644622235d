"""The in-memory store's answers about parts of jobs: what each minion has to do, for itself and for its resources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence

from saltlite.master.store.invariants import RANK
from saltlite.master.store.ports import OPEN_JOBS_SIZE, OpenJob, TargetRow
from saltlite.model.ids import Jid, MinionId, PartId, TargetId
from saltlite.model.job import TERMINAL, TargetState
from saltlite.model.parts import part_id, split_part
from saltlite.testing.store.tables import Tables

_HANDED_OVER = frozenset({TargetState.QUEUED, TargetState.RECEIVED, TargetState.RUNNING})


class MemoryParts(ABC):
    """The part of `saltlite.master.store.ports.StoreReader` that delivery goes by."""

    @property
    @abstractmethod
    def _tables(self) -> Tables:
        """What it reads from."""

    def managing_minions(self, jid: Jid) -> dict[TargetId, MinionId]:
        owners = self._tables.owners.get(jid, {})
        return {target: minion for target, minion in owners.items() if target != minion}

    def part_targets(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        return list(self._tables.parts.get(jid, {}).get(minion, {}).get(number, ()))

    def open_in_part(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        rows = self._tables.targets.get(jid, {})
        return [target for target in self.part_targets(jid, minion, number) if rows[target].state not in TERMINAL]

    def open_parts(self, jid: Jid) -> list[tuple[PartId, MinionId]]:
        rows = self._tables.targets.get(jid, {})
        return [
            (part_id(jid, number), minion)
            for minion, parts in sorted(self._tables.parts.get(jid, {}).items())
            for number, targets in sorted(parts.items())
            if any(rows[target].state not in TERMINAL for target in targets)
        ]

    def unsettled(self, minion: MinionId) -> list[tuple[PartId, TargetState]]:
        return [(part, rows[0].state) for part, rows in self._handed_over(minion)]

    def _handed_over(self, minion: MinionId) -> Iterator[tuple[PartId, list[TargetRow]]]:
        """The parts of that minion with their rows that are neither planned nor ended, the least advanced first."""
        for jid, parts in sorted(self._tables.parts.items()):
            rows = self._tables.targets[jid]
            for number, targets in sorted(parts.get(minion, {}).items()):
                found = [rows[target] for target in targets if rows[target].state in _HANDED_OVER]
                if found:
                    yield part_id(jid, number), sorted(found, key=lambda row: (RANK[row.state], row.changed_at))

    def open_jobs(self, minion: MinionId, parts: Sequence[PartId], size: int = OPEN_JOBS_SIZE) -> list[OpenJob]:
        found: list[OpenJob] = []
        total = 0
        for part, (row, *_) in self._handed_over(minion):
            if part in parts and total < size:
                found.append(self._open_job(part, minion, row))
                total += len(found[-1].body)
        return found

    def _open_job(self, part: PartId, minion: MinionId, row: TargetRow) -> OpenJob:
        jid, number = split_part(part)
        job = self._tables.jobs[jid]
        return OpenJob(
            jid=jid,
            part=part,
            body=job.body,
            signature=job.signature,
            created_at=row.changed_at if row.state is TargetState.QUEUED else job.created_at,
            deliver_ms=job.deliver_ms,
            minions=job.minions,
            resources=job.resources,
            resources_here=self._tables.parts[jid][minion][number] if number else (),
            state=row.state,
        )

    def crowded(self, minions: Sequence[MinionId], most: int) -> list[MinionId]:
        queued = self._queued_parts()
        return [minion for minion in minions if queued[minion] >= most]

    def minions_with_open_jobs(self) -> list[MinionId]:
        return sorted(self._queued_parts())

    def _queued_parts(self) -> Counter[MinionId]:
        """How many parts with QUEUED targets each minion has."""
        found: Counter[MinionId] = Counter()
        for jid, parts in self._tables.parts.items():
            rows = self._tables.targets[jid]
            for minion, own in parts.items():
                for targets in own.values():
                    found[minion] += any(rows[target].state is TargetState.QUEUED for target in targets)
        return +found
