"""The registry of resources: queries and registrations, the views that answer queries, and the port `Primary`.

A primary stores rows by key and has a feed of changes. Each process keeps the views in its memory and updates them row
by row from the feed. Each pair of minion and type has one `Holding`, whose set of bare ids all views share. A
registration replaces the whole set of a minion's resources. `saltlite.resources.registry.mmap` has the primary in a
file; `MemoryPrimary` is its twin in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Any, Protocol

from saltlite.errors import DamagedError, StoreError, UnknownRowError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import (
    check_resource_id,
    check_resource_ids,
    check_resource_type,
    parse_minion_id,
    resource_index_srn_key,
)
from saltlite.resources.registry.layout import Change, capacity_for, encoded, owner_in, payload


@dataclass(frozen=True, slots=True)
class Figures:
    """The counters of the registry, available without reading rows."""

    rows: int
    capacity: int
    """Homes in the index: the slots at which the search for a key may begin."""
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
                    self._remove_srn(key.decode())
                    known = None
                    continue
                if value != known:
                    holding = by_value.get(value) or self._new_holding(value)
                    known, prefix, ids = value, holding.prefix, holding.ids
                if not key.startswith(prefix):
                    raise DamagedError(f"the registry holds a row under another type: {key[:80]!r}")
                bare_id = key[len(prefix) :].decode()
                held = by_bare_id.get(bare_id)
                if held is None:
                    by_bare_id[bare_id] = holding
                elif held is not holding:
                    self._take_over(bare_id, holding)
                ids.add(bare_id)
        except UnicodeDecodeError as error:
            raise DamagedError(f"the registry holds a key that is not UTF-8: {error.object[:80]!r}") from error

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

    def _new_holding(self, value: bytes) -> Holding:
        """Make the holding whose rows have this value, and enter it into the views. Raises DamagedError."""
        minion, resource_type = owner_in(value)
        if value != payload(minion, resource_type):
            raise DamagedError(f"the registry holds a row that is not in the one form of its values: {value[:80]!r}")
        holding = self.by_minion.setdefault(minion, {})[resource_type] = Holding(minion, resource_type, value)
        self.by_type.setdefault(resource_type, {})[minion] = holding
        self._by_value[value] = holding
        return holding

    def _take_over(self, bare_id: str, holding: Holding) -> None:
        """Take an id over from another holding of the same type; holdings of other types keep it."""
        others = tuple(held for held in self.holdings(bare_id) if held is not holding)
        for held in others:
            if held.type == holding.type:
                self._remove_id(bare_id, held)
        self._set_holdings(bare_id, (*(held for held in others if held.type != holding.type), holding))

    def _remove_srn(self, srn: str) -> None:
        resource_type, _, bare_id = srn.partition(":")
        held = self.owner(resource_type, bare_id)
        if held is None:
            return
        self._set_holdings(bare_id, tuple(other for other in self.holdings(bare_id) if other is not held))
        self._remove_id(bare_id, held)

    def _set_holdings(self, bare_id: str, holdings: tuple[Holding, ...]) -> None:
        """Make these the holdings with that bare id; none removes the id."""
        if holdings:
            self._by_bare_id[bare_id] = holdings if len(holdings) > 1 else holdings[0]
        else:
            del self._by_bare_id[bare_id]

    def _remove_id(self, bare_id: str, held: Holding) -> None:
        """Remove an id from a holding, and the holding from the views with its last id."""
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
    raise UsageError(f"the resources of type {kind!s:.80} are not a list of ids: write {{type: [id, ...]}}")


class Registry:
    """Which minion manages which resource. One thread of one process uses one object.

    Queries by SRN read the rows; all others read views, which are built at the first such query and updated from then
    on. Every answer includes all earlier commits of any process. Every method may raise StoreError.

    No damaged byte makes a query by SRN deny a registered resource: what the index does not have is looked up in the
    views, which are made of the checksummed log, and while rows are lost to damage, the query raises UnknownRowError.
    """

    def __init__(self, primary: Primary) -> None:
        self._primary = primary
        self._views = Views()
        self._following = False

    # -- queries by SRN

    def get_managing_minions_for_srn(self, resource_type: str, resource_id: str) -> list[str]:
        """The minion that manages this resource, in a list; an empty one if there is none."""
        owner = self._owner_of(resource_type, resource_id)
        return [] if owner is None else [owner]

    def has_srn(self, resource_type: str, resource_id: str) -> bool:
        """Whether any minion manages this resource."""
        return self._owner_of(resource_type, resource_id) is not None

    def has_resource(self, minion: str, resource_type: str, resource_id: str) -> bool:
        """Whether this minion manages this resource."""
        return self._owner_of(resource_type, resource_id) == minion

    # -- queries of the views

    def get_managing_minions_by_type(self, resource_type: str) -> dict[str, list[str]]:
        """`{"minions": [...], "missing": []}`: the minions with resources of that type, sorted."""
        return {"minions": sorted(self.views().by_type.get(resource_type, ())), "missing": []}

    def get_resources_for_minion(self, minion: str) -> dict[str, list[str]]:
        """Type -> sorted bare ids of this minion's resources."""
        held = self.views().by_minion.get(minion, {})
        return {kind: sorted(held[kind].ids) for kind in sorted(held)}

    def get_resource_ids_by_type(self, resource_type: str) -> list[str]:
        """The bare ids of a type, sorted."""
        return sorted(self.views().ids_of_type(resource_type))

    def has_resource_type(self, minion: str, resource_type: str) -> bool:
        """Whether this minion manages a resource of that type."""
        return resource_type in self.views().by_minion.get(minion, {})

    def resolve_bare_resource_id(self, resource_id: str) -> list[tuple[str, str]]:
        """(type, id) of every resource with this bare id, sorted."""
        return sorted((held.type, resource_id) for held in self.views().holdings(resource_id))

    def views(self) -> Views:
        """The current views. Do not keep them: the next query may change them."""
        if not self._following:
            self._primary.follow(self._views)
            self._following = True
        self._primary.refresh()
        return self._views

    # -- registrations

    def register(
        self,
        minion: str,
        resources: Mapping[str, Iterable[str]],
        *,
        conflict: Conflict = Conflict.REFUSE,
        yields: Yields = never,
    ) -> Registration:
        """Let `minion` manage these (type -> bare ids) and nothing else; on disk when it returns.

        `yields` says which resources their owners yield to a claimant. Correct rows are not written again. Raises
        UsageError for an invalid name; after that, or a StoreError, nothing has changed.
        """
        parse_minion_id(minion)
        with self._primary.writing():
            made = claim(self.views(), minion, resources, conflict, yields)
            if made.changes:
                self._primary.commit(made.changes)
            generation = self._primary.generation()
        return Registration(made.put, len(made.released), made.refused, generation, made.taken, made.released)

    def register_minion(self, minion: str, resources: Mapping[str, Iterable[str]]) -> tuple[int, int]:
        """`register` where the newest wins: the numbers of written and deleted rows."""
        done = self.register(minion, resources, conflict=Conflict.NEWEST)
        return done.put, done.deleted

    def unregister_minion(self, minion: str) -> int:
        """Release all resources of this minion; returns their number."""
        with self._primary.writing():
            gone = claim(self.views(), minion, {}, Conflict.REFUSE).changes
            if gone:
                self._primary.commit(gone)
        return len(gone)

    def transfer(self, resource_type: str, resource_id: str, minion: str) -> str | None:
        """Give a resource to another minion, by order of an operator; returns the old owner, None for none."""
        check_resource_type(resource_type)
        check_resource_id(resource_id)
        with self._primary.writing():
            owner = self._owner_of(resource_type, resource_id)
            if owner is not None and owner != parse_minion_id(minion):
                key = resource_index_srn_key(resource_type, resource_id).encode()
                self._primary.commit([(key, payload(minion, resource_type))])
        return owner

    # -- maintenance

    def content_version(self) -> tuple[int, int]:
        """A value that changes with every change, for other programs: inode and time of change in ns."""
        return self._primary.content_version()

    def generation(self) -> int:
        """Number of the last commit; it only reads a word."""
        return self._primary.generation()

    def compact(self) -> tuple[int, int]:
        """Compact the registry: records of the log before and after."""
        before = self._primary.figures().records
        self._primary.compact()
        return before, self._primary.figures().records

    def verify(self) -> Verification:
        """Check every row and repair damage, see `Verification`."""
        return self._primary.verify()

    def declare_complete(self) -> None:
        """Note that every minion has registered since rows were lost: `stats` calls the registry complete again."""
        self._primary.declare_complete()

    def stats(self) -> dict[str, Any]:
        """`primary` (rows, capacity, used, load, records, garbage, bytes, incomplete), `generation`, `path`; and of
        this process's views `derived_version`, `derived_by_type_count`, `derived_by_minion_count`.
        """
        seen, found = self.views() if self._following else self._views, self._primary.figures()
        return {
            "primary": {
                "rows": found.rows,
                "capacity": found.capacity,
                "used": found.used,
                "load": found.used / found.capacity,
                "records": found.records,
                "garbage": 1 - found.rows / found.records if found.records else 0.0,
                "bytes": found.size,
                "incomplete": found.incomplete,
            },
            "generation": found.generation,
            "path": found.path,
            "derived_version": self.content_version() if self._following else None,
            "derived_by_type_count": len(seen.by_type),
            "derived_by_minion_count": len(seen.by_minion),
        }

    def close(self) -> None:
        """Release all resources. A second close does nothing."""
        self._primary.close()

    def _owner_of(self, resource_type: str, resource_id: str) -> str | None:
        # Invalid UTF-8 (half a surrogate pair) was never registered, and a query for it is not an error.
        value = self._primary.get(f"{resource_type}:{resource_id}".encode("utf-8", "surrogatepass"))
        if value is None:
            return self._owner_without_row(resource_type, resource_id)
        # Only the first colon splits: a query for the type `a:b` is not one for the id `b:…` of the type `a`.
        minion, found = owner_in(value)
        return minion if found == resource_type else None

    def _owner_without_row(self, resource_type: str, resource_id: str) -> str | None:
        """The owner of a resource that the index does not have. Raises UnknownRowError while rows are lost."""
        held = self.views().owner(resource_type, resource_id)
        if held is not None:
            return held.minion
        if self._primary.figures().incomplete:
            raise UnknownRowError(
                f"whether a minion manages {resource_type}:{resource_id} is unknown: the registry lost rows to damage, "
                "and not every minion has registered its resources again; `saltlite status` shows when it is complete"
            )
        return None


# -- the rows in memory, for tests and the simulator


class MemoryRows:
    """The content of one registry, with all changes since the last compaction. All `MemoryPrimary` objects share it."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.log: list[Change] = []
        self.first = 0
        """Number of the oldest change in `log`: older ones are in the rows only."""
        self.commits = 0
        self.compactions = 1
        self.busy = False


class MemoryPrimary:
    """A `Primary` over rows in memory."""

    def __init__(self, shared: MemoryRows) -> None:
        self._shared = shared
        self._follower: Follower | None = None
        self._seen = -1
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        return self._open().rows.get(key)

    def follow(self, follower: Follower) -> None:
        self._follower, self._seen = follower, -1

    def refresh(self) -> None:
        shared, follower = self._open(), self._follower
        if follower is None:
            return
        end = shared.first + len(shared.log)
        if self._seen < shared.first:
            follower.clear()
            follower.apply(shared.rows.items())
        elif self._seen < end:
            follower.apply(shared.log[self._seen - shared.first :])
        self._seen = end

    @contextmanager
    def writing(self) -> Iterator[None]:
        shared = self._open()
        if shared.busy:
            raise StoreError("the registry is being written: end that first")
        shared.busy = True
        try:
            yield
        finally:
            shared.busy = False

    def commit(self, changes: Sequence[Change]) -> None:
        shared = self._open()
        encoded(changes)  # refuses what the file would refuse
        for key, value in changes:
            if value is None:
                shared.rows.pop(key, None)
            else:
                shared.rows[key] = value
        shared.log += changes
        shared.commits += 1

    def generation(self) -> int:
        return self._open().commits

    def content_version(self) -> tuple[int, int]:
        return self._open().compactions, self._shared.commits

    def figures(self) -> Figures:
        shared = self._open()
        records = len(shared.rows) if shared.first else len(shared.log)
        return Figures(
            rows=len(shared.rows),
            capacity=capacity_for(len(shared.rows)),
            used=len(shared.rows),
            records=records,
            size=sum(len(key) + len(value) for key, value in shared.rows.items()),
            generation=shared.commits,
            incomplete=False,
            path="",
        )

    def compact(self) -> None:
        # A reader that has seen all of the log continues at its end, as after the replacement of a file.
        shared = self._open()
        shared.first += len(shared.log)
        shared.log.clear()
        shared.compactions += 1

    def verify(self) -> Verification:
        return Verification(len(self._open().rows), (), "")

    def declare_complete(self) -> None:
        """Nothing is ever lost here."""

    def close(self) -> None:
        self._closed = True

    def _open(self) -> MemoryRows:
        if self._closed:
            raise StoreError("the registry was closed: open it again")
        return self._shared
