"""What a registration changes: the whole set of a minion's resources against the rows that stand now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from saltlite.errors import UsageError
from saltlite.model.srn import check_resource_ids, check_resource_type, resource_index_srn_key
from saltlite.resources.registry.records import Change, payload
from saltlite.resources.registry.views import Views


class Conflict(StrEnum):
    """What happens to a resource that another minion manages already."""

    REFUSE = "refuse"
    """It stays with its owner."""
    NEWEST = "newest"
    """It goes to the minion that registers now."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What became of one registration."""

    put: int
    """Rows that were written."""
    deleted: int
    refused: tuple[tuple[str, str], ...]
    """SRNs that stayed with another minion, each with that minion."""
    generation: int
    """Number of the registry's last commit, which has all of it."""
    taken: tuple[tuple[str, str], ...] = ()
    """SRNs that came from another minion, each with that minion: where the newest wins, or the owner yielded them."""
    released: tuple[str, ...] = ()
    """SRNs that nobody manages any more."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A registration before it is written: nothing of it stands anywhere yet."""

    changes: list[Change]
    put: int
    refused: tuple[tuple[str, str], ...]
    taken: tuple[tuple[str, str], ...]
    released: tuple[str, ...]


Yields = Callable[[str, str], bool]
"""Whether the owner of a resource leaves it to whoever claims it: SRN and owner are given."""


def never(_srn: str, _owner: str) -> bool:
    """No owner yields anything."""
    return False


def claim(
    views: Views, minion: str, resources: Mapping[str, Iterable[str]], conflict: Conflict, yields: Yields = never
) -> Claim:
    """What has to change so that `minion` manages `resources` (type -> bare ids) and nothing else.

    Rows that are right are left alone, and only rows that are the minion's are released. Raises UsageError for a
    type or an id that cannot be one; then nothing of the registration counts.
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
