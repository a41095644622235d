"""What targets are resolved against, and what comes of it: the port of the matchers, and their result.

The master's MWorkers implement `Fleet` over the store, the resource registry and the indexes of the cache banks; one
minion implements it over itself where it matches alone (`saltlite call -r`, the top file of one minion's pillar).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.budget import Budget


@dataclass(frozen=True, slots=True)
class Query:
    """A question to nested data, Salt's subdict match: `os:Debian`, `roles:web*`, `pkg:nginx:version:1\\.2.*`.

    Keys may hold the delimiter: deeper nesting is tried first. Values compare without regard to case, as globs, or with
    `regex` as regular expressions from their start; `*` means that the key exists; a list matches when a member does.
    """

    expression: str
    delimiter: str = ":"
    regex: bool = False


class Fleet(Protocol):
    """Accepted minions, and the resources that accepted minions manage. An SRN is `type:id`."""

    @property
    def budget(self) -> Budget:
        """What the questions to it may still cost, together: each answer spends of it, and may raise BudgetError."""
        ...

    def minions(self) -> Collection[MinionId]:
        """All accepted ids; asking whether one is among them is cheap."""
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

    def grains(self, query: Query) -> tuple[Collection[MinionId], Collection[TargetId]]:
        """The minions whose grains match, and the resources whose do. UsageError for a bad regular expression.

        Grains may be there a moment longer than their resource: whoever asks looks for the `owner`.
        """
        ...

    def pillar(self, query: Query) -> Collection[MinionId]:
        """The minions whose pillar matches. Resources have none."""
        ...

    def addresses(self, network: str) -> Collection[MinionId]:
        """The minions with an address in that network, or that address. UsageError when it is neither."""
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
    """Those of both that the expression names one by one, and does not only describe: what they lack is an error, and
    not a reason to leave them out."""
    unknown: tuple[str, ...] = ()
    """Names in the expression that are neither a minion nor a resource, in their order."""
    namesakes: tuple[frozenset[TargetId], ...] = ()
    """What one name in the expression means together, as resources of several types have that bare id: who registers a
    name that others have already must not make an error of it."""
