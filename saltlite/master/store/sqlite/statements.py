"""What the reader and the writer of a store ask SQLite in its own words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from saltlite.master.store.ports import ReturnCommit
from saltlite.master.store.reader import SqlReader
from saltlite.master.store.writer import SqlWriter
from saltlite.model.ids import MinionId

# One text for both, so that the ids are those of that version.
_ACCEPTED = (
    "SELECT accepted_version, (SELECT json_group_array(id) FROM keys INDEXED BY keys_holder WHERE state = 'accepted')"
    " FROM store"
)
_SIZE = (
    "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
FREE_PAGES_KEPT = 1_024
"""Free pages (of 4 KiB) that stay in the file for later rows: pruning gives others back to the file system."""
_PRUNE_DUE = (
    "SELECT EXISTS (SELECT 1 FROM events WHERE at < ?) OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.created_at < ?"
    " AND NOT EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = j.jid AND t.rank < 9))"
    # Only a file that was made so gives pages back.
    " OR ((SELECT auto_vacuum FROM pragma_auto_vacuum) = 2 AND (SELECT freelist_count FROM pragma_freelist_count) > ?)"
)
_JUDGED = (
    "SELECT asked.key, k.id, t.rank, t.outcome, EXISTS (SELECT 1 FROM job_counts AS c WHERE c.jid = t.jid),"
    " EXISTS (SELECT 1 FROM returns AS r WHERE r.jid = t.jid AND r.target = t.target),"
    " (SELECT j.batch_size IS NOT NULL FROM jobs AS j WHERE j.jid = t.jid),"
    " (SELECT seq FROM sqlite_sequence WHERE name = 'events') FROM json_each(?) AS asked"
    " CROSS JOIN keys AS k ON k.fingerprint = json_extract(asked.value, '$[0]') AND k.state = 'accepted'"
    " CROSS JOIN job_targets AS t ON t.jid = json_extract(asked.value, '$[1]')"
    " AND t.target = json_extract(asked.value, '$[2]') AND t.minion = k.id"
)
VACUUM_PAGES = 128
"""Free pages (of 4 KiB) that one prune gives back to the file system: bounded, as writers wait meanwhile."""


class SqliteReader(SqlReader):
    """`saltlite.master.store.ports.StoreReader` over SQLite."""

    # Kept by AUTOINCREMENT, so it still counts events that were pruned; no row before the first event.
    LAST_SEQ = "(SELECT seq FROM sqlite_sequence WHERE name = 'events')"

    def _read_accepted(self) -> tuple[int, list[MinionId]]:
        ((version, ids),) = self._queries.rows(_ACCEPTED)
        return version, sorted(json.loads(ids))

    def _function_sets_with(self, text: bytes) -> list[Any]:
        return self._queries.rows("SELECT digest, texts FROM functions WHERE instr(texts, ?)", (text,))

    def size(self) -> int:
        return int(self._queries.value(_SIZE))

    def prune_due(self, before: float) -> bool:
        return bool(self._queries.value(_PRUNE_DUE, (before, before, FREE_PAGES_KEPT)))


class SqliteWriter(SqlWriter, SqliteReader):
    """`saltlite.master.store.ports.StoreWriter` over a transaction of SQLite."""

    def _judged(self, commits: Sequence[ReturnCommit]) -> list[Any]:
        asked = json.dumps([[commit.fingerprint, commit.ret.jid, commit.ret.id] for commit in commits])
        return self._transaction.rows(_JUDGED, (asked,))

    def _give_back_pages(self) -> None:
        # One at a time: the sqlite3 module takes one step of this pragma, which frees one page a step.
        free = self._transaction.value("PRAGMA freelist_count")
        for _ in range(min(free, VACUUM_PAGES)):
            self._transaction.run("PRAGMA incremental_vacuum(1)")
