"""Seals of the rows that let minions in, in a database that several masters share.

Who can write into the database could accept a key of his own there. Therefore each row of `keys`, `tokens` and
`preaccepts` has an HMAC with a key that the masters have, and the database does not. A row with another seal counts as
rejected, or as absent. A row that was valid once, and is written again, has a valid seal.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from saltlite.errors import StoreError
from saltlite.master.store.ports import TokenRecord
from saltlite.master.store.reader import Queries, TransactionQueries, select
from saltlite.master.store.rows import KEY_COLUMNS, TOKEN_COLUMNS, key_of, readable
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyRecord, KeyState

log = logging.getLogger(__name__)

UNSEALED = "rejected: no master wrote this row of the database, or its seal is that of another shared.key"
"""`KeyRecord.how` of a row with another seal."""
SEALED_KEYS = select((*KEY_COLUMNS, "seal"), "keys")
ACCEPTED_ROW = "concat_ws(' ', epoch, encode(public, 'hex'), seal, fingerprint, id)"
"""Of an accepted key, what its seal is checked with, as one text: none of it has a space if a master wrote it."""
SEALED_TOKENS = select((*TOKEN_COLUMNS, "seal"), "tokens")
SEALED_PREACCEPTS = select(("id", "fingerprint", "seal"), "preaccepts")
SET_KEY_SEAL = "UPDATE keys SET seal = ? WHERE fingerprint = ?"
SET_TOKEN_SEAL = "UPDATE tokens SET seal = ? WHERE token_id = ?"  # noqa: S105 - no password
SET_PREACCEPT_SEAL = "UPDATE preaccepts SET seal = ? WHERE id = ?"
_OF_OTHERS = (
    "the {} is that of masters with another shared.key: let this master join them (saltlite help several-masters), or "
    "restore shared.key from its backup. If there are no such masters, somebody else writes into the database: end "
    "that, and delete the rows there: DELETE FROM {} WHERE {}"
)
_INVENTED = "seal <> '' AND seal !~ '^[0-9a-f]{64}$'"
PROOF = 2
"""So many different seals by another key are those of masters with another shared.key."""
_SEAL = re.compile(r"[0-9a-f]{64}")
_REJECT_KEY = "UPDATE keys SET state = ?, how = ? WHERE fingerprint = ?"
_DELETE_TOKEN = "DELETE FROM tokens WHERE token_id = ?"  # noqa: S105 - no password
_DELETE_PREACCEPT = "DELETE FROM preaccepts WHERE id = ?"


class RowSeals:
    """Makes and checks seals; without a key it makes empty ones, and accepts all."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._known: frozenset[int] = frozenset()
        """Hashes of the ACCEPTED_ROWs whose seals held when they were last read."""

    @property
    def is_used(self) -> bool:
        """Whether rows get a seal."""
        return self._key is not None

    def of_key(self, record: KeyRecord) -> str:
        return self._of_key(record.id, record.fingerprint, record.public.hex(), record.state, record.epoch)

    def _of_key(self, *of: object) -> str:
        return self._of("key", *map(str, of))

    def of_token(self, token: TokenRecord) -> str:
        """The number of its uses is not sealed, as each use would have to be."""
        return self._of("token", token.token_id, token.public.hex(), token.id_glob, repr(token.expires_at))

    def of_preaccept(self, minion: str, fingerprint: str) -> str:
        return self._of("preaccept", minion, fingerprint)

    def checked(self, record: KeyRecord, seal: str) -> KeyRecord:
        """The record; a key that was accepted with another seal is REJECTED."""
        if record.state is not KeyState.ACCEPTED or self.holds(seal, self.of_key(record)):
            return record
        return replace(record, state=KeyState.REJECTED, how=UNSEALED)

    def accepted(self, rows: Sequence[str]) -> list[MinionId]:
        """The ids of those of all ACCEPTED_ROWs whose seals hold. They are read at each change of one of them, so only
        what was not there before is checked."""
        before, self._known = self._known, frozenset(map(hash, rows))
        unsealed = {row for row in rows if hash(row) not in before and not self._is_sealed(row)}
        self._known -= frozenset(map(hash, unsealed))
        return [MinionId(row.rpartition(" ")[2]) for row in rows if row not in unsealed]

    def _is_sealed(self, row: str) -> bool:
        epoch, public, seal, fingerprint, minion = row.split(" ", 4)
        return self.holds(seal, self._of_key(minion, fingerprint, public, KeyState.ACCEPTED, epoch))

    def holds(self, seal: str, expected: str) -> bool:
        """Whether that is the seal."""
        return self._key is None or hmac.compare_digest(seal.encode(), expected.encode())

    def seal_all(self, queries: TransactionQueries, where: str, name: str) -> None:
        """Seal the rows that are there, for the master of that name. Raises StoreError if other masters use the store,
        or a row has a seal of another key."""
        for (other,) in queries.rows("SELECT name FROM masters WHERE name <> ?", (name,)):
            raise StoreError(
                f"the {where} is that of {other}, and this master has no shared.key: let it join that one's fleet "
                "(saltlite help several-masters), or restore shared.key from a backup"
            )
        # Statements leave as soon as there are some: all seals together would be a long pause in the transaction.
        for row in queries.rows(SEALED_KEYS):
            record = key_of(row[:-1])
            seal = _taken(row[-1], self.of_key(record), where, "keys")
            queries.later(SET_KEY_SEAL, (seal, record.fingerprint))
        for row in queries.rows(SEALED_TOKENS):
            token = TokenRecord(*row[:-1])
            seal = _taken(row[-1], self.of_token(token), where, "tokens")
            queries.later(SET_TOKEN_SEAL, (seal, token.token_id))
        for minion, fingerprint, seal in queries.rows(SEALED_PREACCEPTS):
            expected = self.of_preaccept(minion, fingerprint)
            queries.later(SET_PREACCEPT_SEAL, (_taken(seal, expected, where, "preaccepts"), minion))

    def refuse_others(self, queries: Queries, where: str) -> None:
        """Raises StoreError if keys of minions have seals, and all are by another key: no minion would get in, on this
        master only. Fewer than PROOF, or what is no seal at all, a stranger may have written: then it is logged."""
        rows = queries.rows(f"{SEALED_KEYS} WHERE seal <> ''")
        sealed = readable(rows, lambda row: (key_of(row[:-1]), row[-1]), lambda row: f"the key {row[0]}")
        if not sealed or any(self.holds(seal, self.of_key(record)) for record, seal in sealed):
            return
        if len({seal for _record, seal in sealed if _SEAL.fullmatch(seal)}) >= PROOF:
            # Not one of them lets a minion in by this shared.key, so nothing is lost if it is the right one.
            raise StoreError(_OF_OTHERS.format(where, "keys", "seal <> ''"))
        log.error(
            "no key in the %s has a seal of this master's shared.key, so none lets a minion in (saltlite key list): "
            "delete those that no master wrote; if other masters wrote them, restore shared.key from its backup",
            where,
        )

    def unsealed(self, queries: Queries) -> list[tuple[str, tuple[str, ...]]]:
        """For each row with another seal, the statement that makes it what it counts as, in a store without seals."""
        changes: list[tuple[str, tuple[str, ...]]] = []
        for row in queries.rows(SEALED_KEYS):
            record = key_of(row[:-1])
            if self.checked(record, row[-1]).state is not record.state:
                changes.append((_REJECT_KEY, (str(KeyState.REJECTED), UNSEALED, record.fingerprint)))
        for row in queries.rows(SEALED_TOKENS):
            token = TokenRecord(*row[:-1])
            if not self.holds(row[-1], self.of_token(token)):
                changes.append((_DELETE_TOKEN, (token.token_id,)))
        for minion, fingerprint, seal in queries.rows(SEALED_PREACCEPTS):
            if not self.holds(seal, self.of_preaccept(minion, fingerprint)):
                changes.append((_DELETE_PREACCEPT, (minion,)))
        return changes

    def _of(self, *parts: str) -> str:
        if self._key is None:
            return ""
        # Each with its length, so that no two rows have one text.
        text = b"".join(len(part).to_bytes(4, "big") + part for part in (one.encode() for one in parts))
        return hmac.digest(self._key, text, "sha256").hex()


def _taken(seal: str, expected: str, where: str, table: str) -> str:
    """The seal of a row that has none yet, or has this one. Raises StoreError with the statement that deletes another
    row; other rows may be those of this master."""
    if seal not in ("", expected):
        rows = f"seal = '{seal}'" if _SEAL.fullmatch(seal) else _INVENTED
        raise StoreError(_OF_OTHERS.format(where, table, rows))
    return expected
