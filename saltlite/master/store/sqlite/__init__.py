"""The master's store in one SQLite file: the embedded default, for one master with several MWorkers.

What belongs here: the schema, the SQL, the lock that orders writers, and the mapping of what SQLite and the
file system can do wrong to StoreError. What does not: decisions. Which state may follow which stands in
`saltlite.master.store.target_states`, the contract in `saltlite.master.store.ports`.
"""

from saltlite.master.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
