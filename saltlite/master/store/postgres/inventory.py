"""What minions reported to masters that share a database; the contract is `saltlite.master.store.sharing`.

It has a connection of its own, as values are put inside and outside of transactions of the store. The row of the table
`inventory` is locked from the begin of each change to its commit, so that the order of numbers is that of commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.store.postgres.connection import AT_ONCE, Database, PostgresConnection, TimedConnection
from saltlite.master.store.postgres.locks import REGISTERING, TAKE
from saltlite.master.store.postgres.statements import PostgresTransaction, as_arrays
from saltlite.master.store.sharing import VALUES_SIZE, CopyPiece, InventoryHead, Owner, SharedValue

PLACE = "id || ' ' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
"""Of the row of `store`. A server that was promoted writes another time line of its log, and may lack the last
changes."""
_PLACE = f"SELECT {PLACE}, 'inventory'::regclass::oid::bigint & x'7fffffff'::bigint FROM store"  # noqa: S608 - a constant
_HEAD = "SELECT seq, pruned FROM inventory"
_VALUES = (
    "SELECT bank, key, digest, at, data, seq FROM (SELECT *,"
    " sum(coalesce(octet_length(data), 0)) OVER (ORDER BY seq) - coalesce(octet_length(data), 0) AS before FROM"
    " (SELECT * FROM bank_values WHERE seq > ? ORDER BY seq LIMIT ?) AS page) AS sized WHERE before < ? ORDER BY seq"
)
_OWNERS = "SELECT srn, minion FROM resources WHERE seq > ?"
_NEXT = "UPDATE inventory SET seq = seq + 1 RETURNING seq"
_PUT = (
    "INSERT INTO bank_values (bank, key, seq, at, digest, data)"
    " VALUES (?, ?, (SELECT seq FROM inventory), ?, ?, ?) ON CONFLICT (bank, key) DO UPDATE"
    " SET seq = excluded.seq, at = excluded.at, digest = excluded.digest, data = excluded.data"
)
_DELETE = (
    "UPDATE bank_values SET seq = (SELECT seq FROM inventory), at = ?, digest = '', data = NULL"
    " WHERE bank = ? AND key = ? AND data IS NOT NULL"
)
_REGISTER = (
    "INSERT INTO resources (srn, minion, seq) SELECT u.srn, u.minion, i.seq FROM inventory AS i,"
    " unnest(?::text[], ?::text[]) AS u (srn, minion)"
    " ON CONFLICT (srn) DO UPDATE SET minion = excluded.minion, seq = excluded.seq"
)
_ALONE = "SELECT seq FROM inventory FOR UPDATE"
_ADOPT = "UPDATE inventory SET seq = ?"
_ADOPTED = (
    "INSERT INTO bank_values (bank, key, seq, at, digest, data)"
    " SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::float8[], ?::text[], ?::bytea[])"
)
_PRUNED = "UPDATE inventory SET pruned = greatest(pruned, ?)"
_PRUNE = (
    "DELETE FROM bank_values WHERE seq <= ? AND data IS NULL",
    "DELETE FROM resources WHERE seq <= ? AND minion IS NULL",
)
_PUT_PIECE = (
    "INSERT INTO copy_pieces (area, number, at, data) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (area, number) DO UPDATE SET at = excluded.at, data = excluded.data"
)
_PIECE = "SELECT data FROM copy_pieces WHERE area = ? AND number = ?"
_DELETE_PIECES = "DELETE FROM copy_pieces WHERE area = ?"
_EXPIRE_PIECES = "DELETE FROM copy_pieces WHERE at < ?"


class PostgresInventory:
    """`saltlite.master.store.sharing.SharedInventory`."""

    def __init__(self, database: Database, begin: Callable[[TimedConnection], None]) -> None:
        """`begin` looks at a new connection, as the store does. Raises StoreError."""
        self._look = begin
        self.place = ""
        self._registering_key = 0
        self._busy = False
        self._side = PostgresConnection(database, self._begin, reads=False)

    def _begin(self, connection: TimedConnection) -> None:
        self._look(connection)
        ((self.place, oid),) = connection.execute(_PLACE).fetchall()
        self._registering_key = (REGISTERING << 32) + oid

    def head(self) -> InventoryHead:
        """As SharedInventory.head."""
        ((seq, pruned),) = self._side.rows(_HEAD)
        return InventoryHead(seq, pruned)

    def values(self, after: int, limit: int = 1000, size: int = VALUES_SIZE) -> list[SharedValue]:
        """As SharedInventory.values."""
        return [SharedValue(*row) for row in self._side.rows(_VALUES, (after, limit, size))]

    def owners(self, after: int) -> list[Owner]:
        """As SharedInventory.owners."""
        return self._side.rows(_OWNERS, (after,))

    def put_value(self, value: SharedValue) -> int:
        """As SharedInventory.put_value."""
        row = value.bank, value.key, value.at, value.digest, value.data
        with self._changing((_NEXT, ())) as transaction:
            return _number(transaction.commit([(_PUT, row)]))

    def delete_value(self, bank: str, key: str, at: float) -> int:
        """As SharedInventory.delete_value."""
        with self._changing((_NEXT, ())) as transaction:
            number = int(transaction.value(_HEAD))
            if not transaction.run(_DELETE, (at, bank, key)):
                return 0
            transaction.commit([])
        return number

    @contextmanager
    def registering(self) -> Iterator[Callable[[Sequence[Owner]], int]]:
        """As SharedInventory.registering."""
        with self._changing((TAKE, (self._registering_key,))) as transaction:
            # Others' changes are to be read only when no more of them can come.
            transaction.begin()
            yield lambda changes: _number(transaction.commit([(_NEXT, ()), (_REGISTER, as_arrays(changes))]))

    def adopt(self, values: Sequence[SharedValue], owners: Sequence[Owner]) -> None:
        """As SharedInventory.adopt."""
        numbered = [(row.bank, row.key, seq, row.at, row.digest, row.data) for seq, row in enumerate(values, 1)]
        with self._changing((_ALONE, ())) as transaction:
            if transaction.value(_HEAD) == 0:
                transaction.run(_ADOPT, (len(values) + 1,))
                for at in range(0, len(values), AT_ONCE):
                    transaction.run(_ADOPTED, as_arrays(numbered[at : at + AT_ONCE]))
                for at in range(0, len(owners), AT_ONCE):
                    transaction.run(_REGISTER, as_arrays(owners[at : at + AT_ONCE]))
                transaction.commit([])

    def prune(self, until: int) -> None:
        """As SharedInventory.prune."""
        with self._changing((_PRUNED, (until,))) as transaction:
            transaction.commit([(sql, (until,)) for sql in _PRUNE])

    def put_pieces(self, pieces: Sequence[CopyPiece]) -> None:
        """As SharedInventory.put_pieces."""
        first, *others = [(_PUT_PIECE, piece) for piece in pieces]
        with self._changing(first) as transaction:
            transaction.commit(others)

    def piece(self, area: str, number: int) -> bytes | None:
        """As SharedInventory.piece."""
        found = self._side.value(_PIECE, (area, number))
        return None if found is None else bytes(found)

    def delete_pieces(self, area: str) -> None:
        """As SharedInventory.delete_pieces."""
        with self._changing((_DELETE_PIECES, (area,))) as transaction:
            transaction.commit([])

    def expire_pieces(self, before: float) -> None:
        """As SharedInventory.expire_pieces."""
        with self._changing((_EXPIRE_PIECES, (before,))) as transaction:
            transaction.commit([])

    @contextmanager
    def _changing(self, first: tuple[str, Sequence[Any]]) -> Iterator[PostgresTransaction]:
        """A transaction that begins with this statement."""
        if self._busy:
            raise StoreError("a change of the inventory is open already; end it before the next")
        transaction = PostgresTransaction(self._side, first)
        self._busy = True
        try:
            yield transaction
        finally:
            self._busy = False
            transaction.end()

    def close(self) -> None:
        """Let go of the database. A second call does nothing."""
        self._side.close()


def _number(answers: Sequence[tuple[list[Any], int]]) -> int:
    """The number of the change, of the answers to a transaction with one _NEXT."""
    return next(int(rows[0][0]) for rows, _changed in answers if rows)


__all__ = ["PostgresInventory"]
