"""Work that one of the masters that share a store does for all: maintenance, hooks and returners.

Its row in the store names the holder. Another master takes it over when the holder has no lease any more, or has
started again, and raises the fence then, so that an earlier holder that goes on writes no cursor. Who may hold it
follows from the leases of masters: a process that is stopped, or cut off from the database, loses it with its master.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from saltlite.errors import CursorLostError
from saltlite.master.store.sharing import ReaderRow, SharedStore
from saltlite.model.clock import Clock

LOOK_S = 1.0
"""How often a process looks whether it does the work."""


SEQ_END = 2**63
"""No number of an event is so high, and none of starts."""


def cursor_of(data: str) -> dict[str, Any]:
    """The content of a cursor's row; empty where no master wrote it. Whoever can write to the database must not end a
    process by it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and _is_cursor(found) else {}


def _is_cursor(found: dict[str, Any]) -> bool:
    """Whether hooks and returners can go on from that."""
    numbers = [found.get("seq", 0), found.get("starts", 0)]
    jobs = found.get("jobs", [])
    return (
        all(isinstance(each, int) and not isinstance(each, bool) and 0 <= each < SEQ_END for each in numbers)
        and isinstance(jobs, list)
        and all(isinstance(jid, str) for jid in jobs)
    )


class SharedCursor:
    """The cursor of such work, as `saltlite.platform.files.CursorFile`."""

    def __init__(
        self, store: SharedStore, clock: Clock, name: str, me: str, before: Callable[[], dict[str, Any]] = dict
    ) -> None:
        """`me` is the name of this master. `before` is called for the cursor of work that no master has done yet."""
        self._store = store
        self._clock = clock
        self._name = name
        self._me = me
        self._before = before
        self._row: ReaderRow | None = None
        self._looked_at = float("-inf")

    def is_held(self) -> bool:
        """Whether this process does the work, as of LOOK_S ago at most; it takes the work if it can. Raises
        StoreError."""
        now = self._clock.monotonic()
        if now - self._looked_at >= LOOK_S:
            self._row = self._taken()
            self._looked_at = now
        return self._row is not None

    def read(self) -> dict[str, Any] | None:
        """The content, which is empty at first, and where no master wrote it; None while another process does the work.
        Raises StoreError."""
        self._looked_at = float("-inf")
        if not self.is_held() or self._row is None:
            return None
        return cursor_of(self._row.data)

    def write(self, what: dict[str, Any]) -> None:
        """Replace the content. Raises CursorLostError when another process does the work, and StoreError."""
        with self._store.write() as writer:
            stored = self._store.reader(self._name)
            if stored is None or self._row is None or stored.fence != self._row.fence:
                self._row = None
                raise CursorLostError(f"another process does the work of {self._name} now")
            row = replace(stored, data=json.dumps(what))
            writer.put_reader(row)
        self._row = row

    def _taken(self) -> ReaderRow | None:
        """The row, if this process has it or takes it."""
        if not self._is_free():
            return None
        if self._is_mine():
            return self._row
        with self._store.write() as writer:
            # No other writer changes a row until this transaction ends.
            mine = {row.name: row for row in self._store.masters()}.get(self._me)
            if mine is None or not self._is_free():
                return None
            stored = self._store.reader(self._name)
            fence = stored.fence if stored is not None else 0
            data = stored.data if stored is not None else json.dumps(self._before())
            row = ReaderRow(self._name, self._me, mine.start, fence + 1, data)
            writer.put_reader(row)
        return row

    def _is_mine(self) -> bool:
        stored = self._store.reader(self._name)
        return stored is not None and self._row is not None and stored.fence == self._row.fence

    def _is_free(self) -> bool:
        """Whether this master has a lease, and no other one that has it does the work."""
        leased = {row.name: row.start for row in self._store.masters() if row.has_lease}
        stored = self._store.reader(self._name)
        if stored is None or stored.master == self._me:
            return self._me in leased
        return self._me in leased and leased.get(stored.master) != stored.start
