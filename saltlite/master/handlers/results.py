"""What minions say came of parts of jobs: the return of a minion, segments of what resources answered, and how a part
ended that not all of its resources answered. What speaks of others' resources is left out, noted, and told to nobody
else (G8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from saltlite.errors import RemoteProtocolError
from saltlite.master.processes.rejected_results import Refused
from saltlite.master.store.ports import PartRow, ReturnCommit, Stored, StoreReader, StoreWriter
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.job import Return, TargetState
from saltlite.model.keys import Fingerprint
from saltlite.model.parts import is_segment_id, part_id, part_of_segment, split_part
from saltlite.wire.segment import SegmentRow, decode_segment


class Results:
    """The results of one batch of reports, sorted out; `store` is asked which resources a part is for."""

    def __init__(self, store: StoreReader, now: float) -> None:
        self._store = store
        self._now = now
        self._parts: dict[tuple[Jid, MinionId, int], frozenset[TargetId]] = {}
        self._commits: list[ReturnCommit] = []
        self._endings: list[tuple[int, ReturnCommit]] = []
        self._unanswered: dict[tuple[Jid, MinionId, int], set[TargetId]] = {}
        """Of parts with segments here: those of which nothing is here."""
        self._refused: dict[tuple[MinionId, Jid], Refused] = {}
        self._acknowledge: dict[Fingerprint, list[str]] = {}

        self.left_out = 0
        """Results that `put` did not store, for they were none of their minion's."""
        self.to_tell: list[tuple[MinionId, Refused]] = []
        """Those of them that `put` found to be about resources and a job that there is."""

    def __bool__(self) -> bool:
        """Whether there is anything to store."""
        return bool(self._acknowledge)

    @property
    def acknowledge(self) -> list[tuple[str, list[str]]]:
        """(fingerprint, ids) of all that came, to be told when it is stored; what was refused is forgotten as well."""
        return list(self._acknowledge.items())

    def add(self, minion: MinionId, key: Fingerprint, message: dict[str, Any], body: bytes) -> None:
        """One `ret` message with its body."""
        result = message["jid"]
        self._acknowledge.setdefault(key, []).append(result)
        jid, number = split_part(part_of_segment(result))
        if is_segment_id(result):
            self._add_segment(minion, key, (jid, number), body)
        elif number == 0:
            self._commits.append(ReturnCommit(key, _return(minion, message, jid, body)))
        elif message["state"] == TargetState.RETURNED:
            self._refuse(minion, jid, "a part for resources was said to have returned as a whole")
        else:
            # Without a body: it would be stored once for each resource that it holds for.
            self._endings.append((number, ReturnCommit(key, _return(minion, message, jid, b""))))

    def put(self, store: StoreWriter) -> set[Jid]:
        """Store all of it; the jobs of which it is news."""
        moved = self._put(store, self._commits)
        moved.update(jid for jid, _target in store.set_parts(self._running()))
        for number, ending in self._endings:
            # Looked up behind the returns: an ending holds for what has none.
            unanswered = store.open_in_part(ending.ret.jid, MinionId(ending.ret.id), number)
            moved |= self._put(store, [replace(ending, ret=replace(ending.ret, id=srn)) for srn in unanswered])
        for (minion, jid), refused in self._refused.items():
            self.left_out += refused.count
            # In the name of jobs that there are not, anybody can say anything.
            if store.jid_taken(jid):
                self.to_tell.append((minion, refused))
        return moved

    def _put(self, store: StoreWriter, commits: list[ReturnCommit]) -> set[Jid]:
        # What was known, or never assigned, wakes nobody: a minion can say it a thousand times a second.
        became = store.put_returns(commits, self._now)
        self.left_out += became.count(Stored.UNASSIGNED)
        return {commit.ret.jid for commit, stored in zip(commits, became, strict=True) if stored is Stored.NEW}

    def _running(self) -> list[PartRow]:
        """Parts that have begun, for some of their resources answered: the others must not be begun once more, where
        the minion comes back with another disk."""
        return [
            PartRow(part_id(jid, number), minion, TargetState.RUNNING, "", self._now)
            for (jid, minion, number), unanswered in self._unanswered.items()
            if unanswered
        ]

    def _add_segment(self, minion: MinionId, key: Fingerprint, part: tuple[Jid, int], body: bytes) -> None:
        jid, number = part
        try:
            rows = decode_segment(body)
        except RemoteProtocolError as error:
            self._refuse(minion, jid, f"a segment could not be read: {error}")
            return
        mine = self._targets_of(jid, minion, number)
        unanswered = self._unanswered.setdefault((jid, minion, number), set(mine))
        for row in rows:
            if row.srn not in mine:
                self._refuse(minion, jid, "it was not given the job for this resource", row.srn)
            else:
                unanswered.discard(row.srn)
                self._commits.append(ReturnCommit(key, _return_of_row(row, jid)))

    def _targets_of(self, jid: Jid, minion: MinionId, number: int) -> frozenset[TargetId]:
        key = jid, minion, number
        if key not in self._parts:
            self._parts[key] = frozenset(self._store.part_targets(jid, minion, number))
        return self._parts[key]

    def _refuse(self, minion: MinionId, jid: Jid, reason: str, srn: TargetId = "") -> None:
        refused = self._refused.setdefault((minion, jid), Refused(jid, reason))
        refused.add(1, [srn] if srn else [])


def _return(minion: MinionId, message: dict[str, Any], jid: Jid, body: bytes) -> Return:
    return Return(
        jid=jid,
        id=minion,
        state=TargetState(message["state"]),
        retcode=message["code"],
        body=body,
        started_at=message["start_ms"] / 1000,
        duration_ms=message["dur_ms"],
        reason=message["reason"],
    )


def _return_of_row(row: SegmentRow, jid: Jid) -> Return:
    return Return(
        jid=jid,
        id=row.srn,
        state=row.state,
        retcode=row.retcode,
        body=row.body,
        started_at=row.start_ms / 1000,
        duration_ms=row.dur_ms,
        reason=row.reason,
    )
