"""What parts for resources have in the spool and the master has not confirmed: their segments."""

from __future__ import annotations

from saltlite.model.ids import PartId
from saltlite.model.parts import part_of_segment


class Segments:
    """Segments by part."""

    def __init__(self) -> None:
        self._of: dict[PartId, set[str]] = {}

    def add(self, segment: str) -> bool:
        """It is in the spool; whether that is news."""
        known = self._of.setdefault(part_of_segment(segment), set())
        is_new = segment not in known
        known.add(segment)
        return is_new

    def drop(self, segment: str) -> None:
        """It is there no more."""
        part = part_of_segment(segment)
        known = self._of.get(part, set())
        known.discard(segment)
        if not known:
            self._of.pop(part, None)

    def __contains__(self, segment: str) -> bool:
        return segment in self._of.get(part_of_segment(segment), ())

    def of(self, part: PartId) -> list[str]:
        """Those of that part, in the order in which they were made."""
        return sorted(self._of.get(part, ()), key=lambda segment: int(segment.rpartition(".")[2]))
