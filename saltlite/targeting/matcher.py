"""What the matchers of terms have in common: the port between the evaluator and one file a matcher."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from typing import NamedTuple, Protocol, TypeAlias

from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.fleet import Fleet

Row: TypeAlias = tuple[TargetId, MinionId]
"""A resource and its owner."""

GUESS_OF_OWNER = 100
GUESS_OF_TYPE = 1_000_000
GUESS_OF_ALL = 10_000_000
"""How many resources there may be to walk, of one minion, of one type and of all: only their order matters."""


ID_LENGTH = 32
"""Characters that an id counts for where many are compared with a pattern: to measure each would cost too much."""

ROWS_PAID_AT_ONCE = 1024
"""Resources that are compared with a pattern before the next ones are paid for."""


class Named(NamedTuple):
    """A name that a term has one by one, and what has it."""

    text: str
    minion: MinionId | None
    rows: list[Row]


class Matcher(Protocol):
    """One term of a target over one fleet: which minions and resources it is true of, and why."""

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        """Those of `among` that it is true of."""
        ...

    def of_resource(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether it is true of this resource."""
        ...

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether it is true of it in a way that can select it, and does not only narrow what others select."""
        ...

    def rows(self) -> Iterable[Row]:
        """Every resource that it is true of."""
        ...

    def naming_rows(self) -> Iterable[Row]:
        """Every resource that it names."""
        ...

    def guess(self) -> int:
        """About how many `rows` has to walk."""
        ...

    def named(self) -> Iterable[Named]:
        """The names in it, in their order; patterns have none."""
        ...

    def asks(self, owner: MinionId | None) -> str:
        """What is true of a minion, or of a resource with that owner, when the term is: `its id is 'web1'`."""
        ...


def bare_id(srn: TargetId) -> str:
    """The id in an SRN."""
    return srn.partition(":")[2]


def as_set(found: Collection[MinionId]) -> Set[MinionId]:
    """The same, as something whose members are cheap to ask for."""
    return found if isinstance(found, Set) else frozenset(found)


def look_up(fleet: Fleet, name: str) -> list[Row]:
    """The resource whose SRN this name is, alone; where there is none, those that have it as bare id.

    A bare id may have colons, so who registers one that is called like an SRN of others must not be meant by that.
    """
    owner = registered(fleet, name)
    return [(name, owner)] if owner is not None else list(fleet.with_bare_id(name))


def registered(fleet: Fleet, name: str) -> MinionId | None:
    """The owner of the resource whose SRN this name is, None when it is none's."""
    return fleet.owner(name) if ":" in name else None
