"""What a minion holds, by digests, against what the master has: what differs is asked for."""

from __future__ import annotations

from typing import Any

from saltlite.master.processes.context import Master
from saltlite.model.ids import MinionId
from saltlite.targeting.banks import GRAINS


def handle_holds(master: Master, minion: MinionId, said: dict[str, Any]) -> None:
    """Ask for the minion's grains or resources where its digest is another one. Raises StoreError.

    An empty digest says that the minion does not know yet; it tells when it does.
    """
    if said["grains"] and said["grains"] != master.banks.bank(GRAINS).digest(minion):
        master.link.want(minion, "grains")
    if said["resources"] and not (said["resources"] == master.registrations.digest(minion) and agrees(master, minion)):
        master.link.want(minion, "resources")


def agrees(master: Master, minion: MinionId) -> bool:
    """Whether the registry has as many resources of that minion as it registered last.

    It has not after damage, after an operator moved some, or when its file was removed.
    """
    row = master.registrations.of(minion)
    held = master.registry.views().by_minion.get(minion, {})
    return row is not None and row.count == sum(len(one.ids) for one in held.values())
