"""Whether the store has room for one more job."""

from __future__ import annotations

from saltlite.errors import StoreError
from saltlite.master.processes.context import Master

MIB = 1024 * 1024


def refuse_when_full(master: Master) -> None:
    """Raises StoreError when the store has reached `store_max`: a job whose returns have no place is not begun.

    What is under way goes on, and its returns are taken in: it was promised that they are not lost.
    """
    limit = master.terms.store_max
    if limit and master.store.size() >= limit:
        raise StoreError(
            f"the store is full: it has reached store_max ({limit // MIB} MiB). Jobs that have ended make room in "
            "a few seconds, others after `saltlite job kill JID` (`saltlite job list --state open` has them); "
            "or raise store_max. Nothing was published."
        )
