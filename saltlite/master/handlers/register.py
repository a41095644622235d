"""A minion registers the resources that it manages: checked, written, acknowledged; or refused, and nothing changes.

The order is what keeps the promises: the rows of the registry are on disk before anything else is said, and all of it
happens inside one write transaction of the store, so that no key is accepted, revoked or deleted in between.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from saltlite.core.cache.ports import GRAINS, PILLAR, RESOURCE_GRAINS
from saltlite.core.ports import StoreReader, StoreWriter
from saltlite.core.resources.admission import admit, read_registration, shortened
from saltlite.core.resources.claims import Registration
from saltlite.errors import RefusedError, RemoteProtocolError
from saltlite.master.context import Master
from saltlite.master.handlers.resource_grains import checked_grains, drop_grains, keep_grains
from saltlite.master.registrations import Registered
from saltlite.model.events import tag_resource_conflict, tag_resource_refresh, tag_resource_refused
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState
from saltlite.wire.document import decode_document, document_digest

log = logging.getLogger(__name__)

CONFLICT_EVENTS_MAX = 100
"""Conflicts of one registration that are events of their own."""

ASK_EACH_MAX = 500
"""Up to so many ids are looked up one by one among the minions; for more, all ids of minions are read at once."""

_NAMES = frozenset({KeyState.ACCEPTED, KeyState.PENDING})


def register(master: Master, minion: MinionId, data: bytes) -> list[str]:
    """Let the minion manage what the document in `data` says, and nothing else; a sentence for each thing kept back.

    Raises RefusedError, a line for each reason, and StoreError: then the old registration stays.
    """
    try:
        registering = read_registration(_document(data), master.terms.resources.quota)
    except RefusedError as error:
        _refused(master, minion, str(error).splitlines())
        raise
    grains, bad_grains = checked_grains(registering)
    with master.store.write() as store:
        if store.holder(minion) is None:
            raise RefusedError("the key is not accepted any more")
        before = frozenset(_held(master, minion))
        rules = master.terms.resources
        admitted = admit(registering, minion, rules, is_minion=lambda ids: _minions_among(ids, before, store))
        done = master.registry.register(minion, admitted.resources, conflict=rules.conflict)
        conflicts = [f"{srn} is managed by {owner}, and stays so" for srn, owner in done.refused]
        drop_grains(master, done.taken)
        not_kept = keep_grains(master, minion, grains, registering.stale)
        reasons = [*admitted.refused, *conflicts, *bad_grains, *not_kept]
        count = sum(map(len, admitted.resources.values())) - len(done.refused)
        if rules.events and (before or count):
            store.put_event(tag_resource_refresh(minion), {"Resource cache refresh": minion}, master.clock.wall())
        _note(master, store, minion, done, reasons)
        row = Registered(registering.functions, count, 0, shortened(reasons))
        # Without a digest the minion is asked again in its next session: by then its claim may stand.
        master.registrations.put(minion, row, "" if reasons else document_digest(data))
    return shortened(reasons)


def forget(master: Master, minion: MinionId) -> int:
    """The minion's key is gone: release its resources, and drop what the banks have of it; how many resources."""
    released = master.registry.unregister_minion(minion)
    for name in (GRAINS, PILLAR, RESOURCE_GRAINS):
        master.banks.bank(name).delete(minion)
    master.registrations.forget(minion)
    return released


def namesake(master: Master, minion: MinionId) -> str:
    """Why no key can be accepted for that id, "" when one can: two things must not answer to one name."""
    found = [
        f"{kind}:{bare_id} (of {', '.join(master.registry.get_managing_minions_for_srn(kind, bare_id))})"
        for kind, bare_id in master.registry.resolve_bare_resource_id(minion)
    ]
    if not found:
        return ""
    return f"a resource has this id: {', '.join(found)}. Give the minion another id, or the resource"


def _document(data: bytes) -> Mapping[Any, Any]:
    try:
        return decode_document(data)
    except RemoteProtocolError as error:
        raise RefusedError(f"the registration could not be read: {error}") from None


def _held(master: Master, minion: MinionId) -> list[str]:
    """The bare ids that the minion has already."""
    held = master.registry.views().by_minion.get(minion, {})
    return [bare_id for one in held.values() for bare_id in one.ids]


def _minions_among(ids: Sequence[str], before: frozenset[str], store: StoreReader) -> list[str]:
    """Those of the ids that are an accepted or pending minion's. What is registered cannot be: no such key was
    accepted since."""
    fresh = [bare_id for bare_id in ids if bare_id not in before]
    pending = {key.id for key in store.keys(frozenset({KeyState.PENDING}))}
    if len(fresh) <= ASK_EACH_MAX:
        return [one for one in fresh if one in pending or store.holder(MinionId(one)) is not None]
    return list(pending.union(store.accepted_ids()).intersection(fresh))


def _note(master: Master, store: StoreWriter, minion: MinionId, done: Registration, reasons: Sequence[str]) -> None:
    """Write down what moved from one minion to another, and what was kept back, if that is news.

    Who is asked again and again, and says the same each time, makes one event of it, and one line in the log.
    """
    now = master.clock.wall()
    for srn, former in done.taken[:CONFLICT_EVENTS_MAX]:
        store.put_event(tag_resource_conflict(srn), {"owner": minion, "taken_from": former}, now)
    known = master.registrations.of(minion)
    if not reasons or (known is not None and list(known.reasons) == shortened(reasons)):
        return
    more = f" (and {len(reasons) - 1} more like it)" if len(reasons) > 1 else ""
    log.warning("of what %s registered something was kept back: %s%s", minion, reasons[0], more)
    for srn, owner in done.refused[:CONFLICT_EVENTS_MAX]:
        store.put_event(tag_resource_conflict(srn), {"owner": owner, "refused": minion}, now)
    data = {"id": minion, "act": "register", "whole": False, "reasons": shortened(reasons)}
    store.put_event(tag_resource_refused(minion), data, now)


def _refused(master: Master, minion: MinionId, reasons: list[str]) -> None:
    """Write down that a whole registration counts for nothing."""
    row = master.registrations.of(minion) or Registered()
    if list(row.reasons) != reasons:
        log.warning("a registration of %s was refused: %s", minion, reasons[0])
        with master.store.write() as store:
            event = {"id": minion, "act": "register", "whole": True, "reasons": reasons}
            store.put_event(tag_resource_refused(minion), event, master.clock.wall())
    row = replace(row, refusals=row.refusals + 1, reasons=reasons)
    master.registrations.put(minion, row, master.registrations.digest(minion))
