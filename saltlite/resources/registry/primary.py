"""The rows of the registry: the port `Primary` that stores them, views derived from them, the effect of a registration.

A primary stores rows by key and gives a feed of changes. The views are kept in the memory of one process and updated
row by row; each pair of minion and type has one `Holding`, whose set of bare ids all views share. A registration
replaces the whole set of a minion's resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from saltlite.errors import DamagedError, UsageError
from saltlite.model.ids import check_resource_ids, check_resource_type, resource_index_srn_key
from saltlite.resources.registry.layout import Change, owner_in, payload


@dataclass(frozen=True, slots=True)
class Figures:
    """The counters of the registry, available without reading rows."""

    rows: int
    capacity: int
    """Homes in the index."""
    used: int
    """Used slots, including those of deleted keys."""
    records: int
    """Records of the log; those beyond `rows` go with the next compaction."""
    size: int
    """Bytes of the file, without preallocated space."""
    generation: int
    incomplete: bool
    """Rows were lost to damage, and not all minions have registered again yet."""
    path: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check of every row."""

    rows: int
    problems: tuple[str, ...]
    """At most PROBLEMS_MAX sentences; none if log and index are valid and agree."""
    aside: str
    """Where the damaged file was moved, "" if there was nothing to repair."""


PROBLEMS_MAX = 20
"""Sentences of a verification; more would not help."""


class Follower(Protocol):
    """A reader of the feed of changes."""

    def clear(self) -> None:
        """Forget everything: all rows follow."""
        ...

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes in order, possibly twice. Raises DamagedError for impossible ones."""
        ...


class Primary(Protocol):
    """Rows of bytes, shared by all processes of a master. One thread uses one object.

    Every method may raise StoreError; a `commit` that raised it had no effect.
    """

    def get(self, key: bytes) -> bytes | None:
        """The value of a key after the last commit of any process."""
        ...

    def follow(self, follower: Follower) -> None:
        """From now on `refresh` updates this one follower, starting with all rows."""
        ...

    def refresh(self) -> None:
        """Give the follower the new commits. This costs almost nothing if there are none."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """The write lock: no other process commits meanwhile."""
        ...

    def commit(self, changes: Sequence[Change]) -> None:
        """Within `writing`: make all changes or none; each key at most once. They are on disk when it returns."""
        ...

    def generation(self) -> int:
        """Number of the last commit of any process."""
        ...

    def content_version(self) -> tuple[int, int]:
        """A value that changes with every commit and every compaction."""
        ...

    def figures(self) -> Figures: ...

    def compact(self) -> None:
        """Delete what is not needed and pack the rest in order; writers wait only for a moment at its end."""
        ...

    def verify(self) -> Verification:
        """Check everything. Damage is repaired: the file is moved aside, and doubtful rows are dropped."""
        ...

    def declare_complete(self) -> None:
        """Note that every minion has registered since rows were lost."""
        ...

    def close(self) -> None:
        """Release all resources. A second close does nothing."""
        ...


# -- Views


class Holding:
    """The resources of one type that one minion manages."""

    __slots__ = ("ids", "minion", "prefix", "type", "value")

    def __init__(self, minion: str, resource_type: str, value: bytes) -> None:
        self.minion = minion
        self.type = resource_type
        self.value = value
        self.prefix = f"{resource_type}:".encode()
        self.ids: set[str] = set()


class Views:
    """`by_minion`: minion -> type -> holding; `by_type`: type -> minion -> the same holding.

    The third view, bare id -> its holdings, is available through `holdings` and `owner`.
    """

    def __init__(self) -> None:
        self.by_minion: dict[str, dict[str, Holding]] = {}
        self.by_type: dict[str, dict[str, Holding]] = {}
        # Most bare ids have one type; a tuple for each of them would take most of the memory.
        self._by_bare_id: dict[str, Holding | tuple[Holding, ...]] = {}
        self._by_value: dict[bytes, Holding] = {}

    def clear(self) -> None:
        """Forget everything: the feed starts again."""
        self.by_minion.clear()
        self.by_type.clear()
        self._by_bare_id.clear()
        self._by_value.clear()

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply the feed; changes may be applied twice, in order. Raises DamagedError for an impossible row."""
        by_value, by_bare_id, known, prefix = self._by_value, self._by_bare_id, None, b""
        try:
            for key, value in changes:
                if value is None:
                    self._release(key.decode())
                    known = None
                    continue
                if value != known:
                    holding = by_value.get(value) or self._open(value)
                    known, prefix, ids = value, holding.prefix, holding.ids
                if not key.startswith(prefix):
                    raise DamagedError(f"the registry holds a row under another type: {key[:80]!r}")
                bare_id = key[len(prefix) :].decode()
                held = by_bare_id.get(bare_id)
                if held is None:
                    by_bare_id[bare_id] = holding
                elif held is not holding:
                    self._take(bare_id, holding)
                ids.add(bare_id)
        except UnicodeDecodeError as error:
            raise DamagedError(f"the registry holds a key that is no text: {error.object[:80]!r}") from error

    def holdings(self, bare_id: str) -> tuple[Holding, ...]:
        """The holdings with that bare id: at most one of each type."""
        held = self._by_bare_id.get(bare_id)
        if held is None:
            return ()
        return held if isinstance(held, tuple) else (held,)

    def owner(self, resource_type: str, bare_id: str) -> Holding | None:
        """The holding that contains this resource, None if no minion manages it."""
        return next((held for held in self.holdings(bare_id) if held.type == resource_type), None)

    def known(self, bare_ids: Iterable[str]) -> set[str]:
        """Those of the bare ids that exist in any type."""
        return self._by_bare_id.keys() & bare_ids

    def ids_of_type(self, resource_type: str) -> Iterator[str]:
        """The bare ids of a type, unordered."""
        for holding in self.by_type.get(resource_type, {}).values():
            yield from holding.ids

    def __len__(self) -> int:
        """The number of bare ids."""
        return len(self._by_bare_id)

    def _open(self, value: bytes) -> Holding:
        minion, resource_type = owner_in(value)
        if value != payload(minion, resource_type):
            raise DamagedError(f"the registry holds a row in another spelling: {value[:80]!r}")
        holding = self.by_minion.setdefault(minion, {})[resource_type] = Holding(minion, resource_type, value)
        self.by_type.setdefault(resource_type, {})[minion] = holding
        self._by_value[value] = holding
        return holding

    def _take(self, bare_id: str, holding: Holding) -> None:
        """Take an id over from another holding of the same type; holdings of other types keep it."""
        others = tuple(held for held in self.holdings(bare_id) if held is not holding)
        for held in others:
            if held.type == holding.type:
                self._drop(bare_id, held)
        self._file(bare_id, (*(held for held in others if held.type != holding.type), holding))

    def _release(self, srn: str) -> None:
        resource_type, _, bare_id = srn.partition(":")
        held = self.owner(resource_type, bare_id)
        if held is None:
            return
        self._file(bare_id, tuple(other for other in self.holdings(bare_id) if other is not held))
        self._drop(bare_id, held)

    def _file(self, bare_id: str, holdings: tuple[Holding, ...]) -> None:
        if holdings:
            self._by_bare_id[bare_id] = holdings if len(holdings) > 1 else holdings[0]
        else:
            del self._by_bare_id[bare_id]

    def _drop(self, bare_id: str, held: Holding) -> None:
        held.ids.discard(bare_id)
        if held.ids:
            return
        for view, outer, inner in (
            (self.by_minion, held.minion, held.type),
            (self.by_type, held.type, held.minion),
        ):
            del view[outer][inner]
            if not view[outer]:
                del view[outer]
        del self._by_value[held.value]


# -- Registrations


class Conflict(StrEnum):
    """What happens to a resource that another minion manages already."""

    REFUSE = "refuse"
    """It stays with its owner."""
    NEWEST = "newest"
    """It goes to the minion that registers now."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The result of a registration."""

    put: int
    """Rows that were written."""
    deleted: int
    refused: tuple[tuple[str, str], ...]
    """SRNs that stayed with another minion, each with that minion."""
    generation: int
    """Number of the registry's last commit, which contains all of it."""
    taken: tuple[tuple[str, str], ...] = ()
    """SRNs that came from another minion, each with that minion: the newest wins, or the owner yielded them."""
    released: tuple[str, ...] = ()
    """SRNs without a minion now."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A planned registration without effect yet."""

    changes: list[Change]
    put: int
    refused: tuple[tuple[str, str], ...]
    taken: tuple[tuple[str, str], ...]
    released: tuple[str, ...]


Yields = Callable[[str, str], bool]
"""Whether the owner of a resource yields it to a claimant: called with SRN and owner."""


def never(_srn: str, _owner: str) -> bool:
    """No owner yields anything."""
    return False


def claim(
    views: Views, minion: str, resources: Mapping[str, Iterable[str]], conflict: Conflict, yields: Yields = never
) -> Claim:
    """The changes after which `minion` manages `resources` (type -> bare ids) and nothing else.

    Correct rows stay, and only rows of the minion are released. Raises UsageError for an invalid type or id; the
    registration then has no effect.
    """
    held = views.by_minion.get(minion, {})
    puts: list[Change] = []
    refused: list[tuple[str, str]] = []
    taken: list[tuple[str, str]] = []
    gone = [f"{kind}:{bare_id}" for kind in held if kind not in resources for bare_id in held[kind].ids]
    for kind, ids in resources.items():
        wanted = _distinct(kind, ids)
        have = held[kind].ids if kind in held else set()
        gone += [f"{kind}:{bare_id}" for bare_id in have if bare_id not in wanted]
        if not wanted.keys() <= have:
            fresh = check_resource_ids(bare_id for bare_id in wanted if bare_id not in have)
            known = views.known(fresh)
            value = payload(minion, check_resource_type(kind))
            for bare_id in fresh:
                srn = resource_index_srn_key(kind, bare_id)
                owner = views.owner(kind, bare_id) if bare_id in known else None
                if owner is not None and conflict is Conflict.REFUSE and not yields(srn, owner.minion):
                    refused.append((srn, owner.minion))
                else:
                    if owner is not None:
                        taken.append((srn, owner.minion))
                    puts.append((srn.encode(), value))
    changes: list[Change] = [*puts, *((srn.encode(), None) for srn in gone)]
    return Claim(changes, len(puts), tuple(refused), tuple(taken), tuple(gone))


def _distinct(kind: str, ids: Iterable[str]) -> dict[str, None]:
    try:
        if not isinstance(ids, str | bytes):
            return dict.fromkeys(ids)
    except TypeError:
        pass
    raise UsageError(f"the resources of type {kind!s:.80} are no list of ids: write {{type: [id, ...]}}")
