"""The registry of resources: queries and registrations, over any `Primary`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saltlite.model.ids import check_resource_id, check_resource_type, parse_minion_id, resource_index_srn_key
from saltlite.resources.registry.layout import owner_in, payload
from saltlite.resources.registry.primary import (
    Conflict,
    Primary,
    Registration,
    Verification,
    Views,
    Yields,
    claim,
    never,
)


class Registry:
    """Which minion manages which resource. One thread of one process uses one object.

    Queries by SRN read the rows; all others read views, which are built at the first such query and updated from then
    on. Every answer includes all earlier commits of any process. Every method may raise StoreError.
    """

    def __init__(self, primary: Primary) -> None:
        self._primary = primary
        self._views = Views()
        self._following = False

    # -- questions by SRN

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

    # -- questions to the views

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

        `yields` says which resources their owners leave to whoever claims them. What is right already is not written
        again. Raises UsageError for a name that cannot be one, and then, as with a StoreError, everything is as it was.
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

    # -- upkeep

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
        # Invalid UTF-8 (half a surrogate pair) was never registered, and a query for it is no error.
        value = self._primary.get(f"{resource_type}:{resource_id}".encode("utf-8", "surrogatepass"))
        if value is None:
            return None
        # Only the first colon splits: a query for the type `a:b` is not one for the id `b:…` of the type `a`.
        minion, found = owner_in(value)
        return minion if found == resource_type else None
