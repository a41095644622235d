"""Resources of several minions with one name: whoever types it may mean another than gets the job; operators are told.

It is no error: one host may well be a resource of several types. But who registers a name that another minion's
resource has gets the jobs that are meant for that one, with their arguments; where it is an SRN for one of them and a
bare id for the other, the one with the SRN gets them alone.
"""

from __future__ import annotations

import logging
from collections.abc import Set

from saltlite.master.processes.context import Master
from saltlite.master.store.ports import StoreWriter
from saltlite.model.events import tag_resource_namesake
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.srn import parse_srn, resource_index_srn_key
from saltlite.resources.registry.views import Views

log = logging.getLogger(__name__)

SHOWN = 20
"""Names of one registration that are told."""


def note_namesakes(master: Master, store: StoreWriter, minion: MinionId, held: Set[str]) -> None:
    """One event and one line of the log about names of the minion's resources that others' have as well. Of the bare
    ids in `held`, which it had before, operators were told when they came. Raises StoreError."""
    names = _shared(master.registry.views(), minion, held)
    if not names:
        return
    told = {name: names[name] for name in sorted(names)[:SHOWN]}
    data = {"id": minion, "count": len(names), "names": told}
    store.put_event(tag_resource_namesake(minion), data, master.clock.wall())
    log.warning(
        "%s registered names that resources of other minions have as well, %d in all: %s. A bare id means all "
        "that have it; type:id means one",
        minion,
        len(names),
        "; ".join(", ".join(srns) for srns in told.values()),
    )


def _shared(views: Views, minion: MinionId, held: Set[str]) -> dict[str, list[TargetId]]:
    """Name -> the SRNs that it may mean, of the names that the minion's resources have newly and others' have too."""
    found: dict[str, list[TargetId]] = {}
    for kind, holding in views.by_minion.get(minion, {}).items():
        fresh = [bare_id for bare_id in holding.ids if bare_id not in held]
        # All of a hundred thousand are looked at while others wait for the store: only of few is more to be asked.
        suspects = [bare_id for bare_id in fresh if ":" in bare_id or len(views.holdings(bare_id)) > 1]
        suspects += views.known(resource_index_srn_key(kind, bare_id) for bare_id in fresh)
        for name in suspects:
            rows = _meant(views, name)
            if len(rows) > 1 and any(owner != minion for _srn, owner in rows):
                found[name] = sorted(srn for srn, _owner in rows)
    return found


def _meant(views: Views, name: str) -> list[tuple[TargetId, str]]:
    """What has that name as its bare id, and as its SRN: a bare id may have colons. Each with its owner."""
    rows = [(resource_index_srn_key(one.type, name), one.minion) for one in views.holdings(name)]
    kind, bare_id = parse_srn(name)
    owner = views.owner(kind, bare_id) if kind is not None and bare_id is not None else None
    return rows if owner is None else [*rows, (name, owner.minion)]
