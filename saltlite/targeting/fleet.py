"""The port `Fleet` that targets are resolved against, and the resulting `Selection`.

The master's MWorkers implement `Fleet` over the store, the resource registry and the indexes of the cache banks. A
minion that matches alone uses `memory_fleet` (`saltlite call -r`, the top file of one minion's pillar).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Protocol

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, TargetId

STEPS_MAX = 30_000_000
"""Steps of one request at 30 to 60 ns: one to two seconds on a machine of 2024."""

CREDIT_MAX = 5_000_000
"""Worst-case steps of Python's engine in one request for patterns that could backtrack. Most texts need far fewer, so
they are counted separately. When they are used up, the automaton takes over, and the request goes on."""

TOO_LONG = "the target takes too long to look up: make it simpler, or divide it"


class BudgetError(UsageError):
    """A request has used up its budget."""


class Budget:
    """The remaining steps of one request."""

    __slots__ = ("credit", "left")

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self.left: float = steps
        self.credit: float = CREDIT_MAX

    def spend(self, steps: float) -> None:
        """Charge `steps`. Raises BudgetError if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetError(TOO_LONG)


@dataclass(frozen=True, slots=True)
class DataQuery:
    """A query of nested data, Salt's subdict match: `os:Debian`, `roles:web*`, `pkg:nginx:version:1\\.2.*`.

    Keys may contain the delimiter; deeper nesting is tried first. Values are compared case-insensitively as globs, or
    with `regex` as regular expressions anchored at the start. `*` matches any value; a list matches if a member does.
    """

    expression: str
    delimiter: str = ":"
    regex: bool = False


class Fleet(Protocol):
    """Accepted minions, and the resources that accepted minions manage. An SRN is `type:id`."""

    @property
    def budget(self) -> Budget:
        """The budget shared by all queries; each may raise BudgetError."""
        ...

    def minions(self) -> Collection[MinionId]:
        """All accepted ids; membership tests are cheap."""
        ...

    def owner(self, srn: TargetId) -> MinionId | None:
        """The minion that manages this resource."""
        ...

    def resources_of(self, minion: MinionId) -> Iterable[TargetId]:
        """The SRNs that this minion manages."""
        ...

    def resources_of_type(self, resource_type: str) -> Iterable[tuple[TargetId, MinionId]]:
        """Each resource of that type, with its owner."""
        ...

    def resources(self) -> Iterable[tuple[TargetId, MinionId]]:
        """Every resource, with its owner."""
        ...

    def with_bare_id(self, bare_id: str) -> Iterable[tuple[TargetId, MinionId]]:
        """The resources of any type that have this bare id, with their owners."""
        ...

    def grains(self, query: DataQuery) -> tuple[Collection[MinionId], Collection[TargetId]]:
        """The minions and the resources with matching grains. UsageError for a bad regular expression.

        Grains may outlive their resource for a moment: check the `owner`.
        """
        ...

    def pillar(self, query: DataQuery) -> Collection[MinionId]:
        """The minions with a matching pillar. Resources have none."""
        ...

    def addresses(self, network: str) -> Collection[MinionId]:
        """The minions with that address, or one in that network. UsageError for neither."""
        ...

    def nodegroups(self) -> Mapping[str, str | list[str]]:
        """Name -> expression, as the configuration has them."""
        ...


@dataclass(frozen=True, slots=True)
class Selection:
    """What a target selects."""

    minions: frozenset[MinionId] = frozenset()
    resources: Mapping[TargetId, MinionId] = field(default_factory=dict)
    """SRN -> its owner."""
    named: frozenset[TargetId] = frozenset()
    """Minions and resources that the expression names singly: a function that they lack is an error, and not a reason
    to skip them."""
    unknown: tuple[str, ...] = ()
    """Names in the expression that are neither a minion nor a resource, in order."""
    id_collisions: tuple[frozenset[TargetId], ...] = ()
    """The bearers of each ambiguous name: resources of several types with that bare id. Registering a name that is
    already taken must not turn it into an error."""
