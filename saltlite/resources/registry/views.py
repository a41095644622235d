"""What is derived from the rows of the registry, in the memory of one process, and kept up to date row by row.

Each pair of minion and type has one `Holding`, whose set of bare ids is shared by all views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from saltlite.errors import DamagedError
from saltlite.resources.registry.records import Change, owner_in, payload


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

    The third view, bare id -> its holdings, is asked through `holdings` and `owner`.
    """

    def __init__(self) -> None:
        self.by_minion: dict[str, dict[str, Holding]] = {}
        self.by_type: dict[str, dict[str, Holding]] = {}
        # Most bare ids have one type; a tuple for each of them would be the largest part of all this.
        self._by_bare_id: dict[str, Holding | tuple[Holding, ...]] = {}
        self._by_value: dict[bytes, Holding] = {}

    def clear(self) -> None:
        """Forget everything: the feed begins anew."""
        self.by_minion.clear()
        self.by_type.clear()
        self._by_bare_id.clear()
        self._by_value.clear()

    def apply(self, changes: Iterable[Change]) -> None:
        """Follow the feed; to apply changes a second time, in order, changes nothing.

        Raises DamagedError for a row that cannot have been written by a registry.
        """
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
        """Who has a resource of that bare id: at most one holding of each type."""
        held = self._by_bare_id.get(bare_id)
        if held is None:
            return ()
        return held if isinstance(held, tuple) else (held,)

    def owner(self, resource_type: str, bare_id: str) -> Holding | None:
        """The holding that this resource is in, None when nobody manages it."""
        return next((held for held in self.holdings(bare_id) if held.type == resource_type), None)

    def known(self, bare_ids: Iterable[str]) -> set[str]:
        """Those of the bare ids that any type has."""
        return self._by_bare_id.keys() & bare_ids

    def ids_of_type(self, resource_type: str) -> Iterator[str]:
        """The bare ids of a type, in no order."""
        for holding in self.by_type.get(resource_type, {}).values():
            yield from holding.ids

    def __len__(self) -> int:
        """How many bare ids there are."""
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
        """Move an id that is in other holdings: out of the one of the same type, beside those of others."""
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
