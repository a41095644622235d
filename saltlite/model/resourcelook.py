"""A minion's report about its resource types: whether each can be used, and the result of its last discovery; and the
master's answer about the resources that it withholds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from saltlite.model.dataclass import dataclass

RESOURCE_PILLAR_KEY = "resources"
"""The key of the pillar that declares resources, when the configuration names no other one."""
TEXT_MAX = 500
"""Characters of a text of a report; the rest is cut."""


@dataclass(frozen=True, slots=True)
class TypeReport:
    """One resource type of a minion."""

    loaded: bool = False
    """Whether its files are there and could be loaded; `error` says why not."""
    initialised: bool = False
    """Whether its init() has succeeded."""
    found: int | None = None
    """How many resources the last look found; None when there was no look, or it failed."""
    was: int | None = None
    """How many the look before found."""
    error: str = ""
    """Why it could not be loaded, initialised or looked at."""
    looked_at: str = ""
    """Which keys of the pillar declare its resources, where nothing was found."""
    look: str = ""
    """The name of the last look that succeeded: two of the same name are one look. "" before the first."""

    def to_map(self) -> dict[str, Any]:
        """As a map of plain values."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def shown(self) -> dict[str, Any]:
        """The same for people: without the name of the look, and without texts that say nothing."""
        return {name: value for name, value in self.to_map().items() if name != "look" and value != ""}

    def problem(self) -> str:
        """One sentence about what an operator has to see to, "" when there is nothing."""
        if not self.loaded:
            return f"not loaded: {self.error}"
        if self.error:
            return self.error if self.initialised else f"not initialised: {self.error}"
        return f"nothing was found: {self.looked_at}" if self.found == 0 and self.looked_at else ""


def read_report(value: object) -> TypeReport:
    """The report in a map. Raises ValueError for anything else; texts are cut, and made printable."""
    if not isinstance(value, Mapping):
        raise ValueError("a report is a map")  # noqa: TRY004 - what is wrong is a document, and not a call
    given = {name: value[name] for name in (one.name for one in fields(TypeReport)) if name in value}
    for name, content in given.items():
        if name in ("loaded", "initialised"):
            good = isinstance(content, bool)
        elif name in ("found", "was"):
            good = content is None or (type(content) is int and 0 <= content < 2**53)
        else:
            good = isinstance(content, str)
            given[name] = plain_text(content) if good else ""
        if not good:
            raise ValueError(f"{name} of a report is {str(content)[:40]!r}")
    return TypeReport(**given)


def plain_text(text: str) -> str:
    """The first TEXT_MAX characters, with a space for each that cannot be shown in one line."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:TEXT_MAX])


def bits_of(flags: Iterable[bool]) -> bytes:
    """One bit for each flag, the first one lowest; empty if none is set."""
    bits = bytearray()
    for place, flag in enumerate(flags):
        if place % 8 == 0:
            bits.append(0)
        bits[-1] |= flag << place % 8
    return bytes(bits) if any(bits) else b""


def without_marked(resources: Mapping[str, Sequence[str]], bits: bytes) -> dict[str, list[str]]:
    """Type -> bare ids, without those whose bit in `bits_of` is set; types without any are omitted."""
    left: dict[str, list[str]] = {}
    place = 0
    for kind, ids in resources.items():
        kept = []
        for bare_id in ids:
            if place >= 8 * len(bits) or not bits[place >> 3] >> (place & 7) & 1:
                kept.append(bare_id)
            place += 1
        if kept:
            left[kind] = kept
    return left


class Inventory:
    """The resources that a minion manages: those of its last registration, without those that the master withholds."""

    def __init__(self) -> None:
        self._claimed: Mapping[str, Sequence[str]] = {}
        self._taken: Mapping[str, Sequence[str]] = {}
        """Of the last registration that the master took, what it did not withhold."""
        self._withheld: dict[str, frozenset[str]] = {}

    def claim(self, resources: Mapping[str, Sequence[str]]) -> None:
        """Note a new registration, type -> bare ids."""
        self._claimed = resources

    def answered(self, bits: bytes | None) -> None:
        """Note the master's answer to it: the bits of what it withholds; None if it refused the whole registration, so
        that an older one stays."""
        if bits is not None:
            self._taken = without_marked(self._claimed, bits)
        taken = {kind: frozenset(ids) for kind, ids in self._taken.items()}
        self._withheld = {kind: frozenset(ids) - taken.get(kind, frozenset()) for kind, ids in self._claimed.items()}

    def resources(self) -> dict[str, list[str]]:
        """Type -> bare ids, sorted by type; types without any are omitted."""
        found = {}
        for kind, ids in sorted(self._claimed.items()):
            withheld = self._withheld.get(kind, frozenset())
            if ours := [bare_id for bare_id in ids if bare_id not in withheld]:
                found[kind] = ours
        return found
