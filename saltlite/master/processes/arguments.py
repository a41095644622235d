"""Arguments of jobs leave the store when the job has ended: secrets always, the others where `keep_job_args` is off.

A job has ended when every target is terminal: then nobody is sent its body any more. A job whose minion is away, whose
batch goes on, or whose kill nobody has confirmed has not. The work is cut into short transactions, for writers wait.
"""

from __future__ import annotations

import logging

from saltlite.errors import RemoteProtocolError
from saltlite.master.store.ports import Store
from saltlite.model.clock import Clock
from saltlite.model.ids import Jid
from saltlite.wire.jobrecord import reduced

log = logging.getLogger(__name__)

DROP_S = 2.0
"""How often ended jobs are looked for."""
JOBS = 50
"""Jobs of one transaction."""
ROUNDS = 20
"""Transactions in a row: the other work of maintenance waits for them."""
SHARE = 0.05
"""The part of the time that this may take: many open jobs may have to be looked at to find the few that have ended."""


class EndedArguments:
    """Drops the arguments of ended jobs. One process of a master has it."""

    def __init__(self, store: Store, clock: Clock, *, keep: bool) -> None:
        self._store = store
        self._clock = clock
        self._keep = keep
        self._all_are_marked = keep
        self._log_is_empty = False  # a master that was killed before this one may have left something in it
        self._not_before = 0.0

    def drop(self) -> None:
        """Take them out of the store, and then out of its log. Raises StoreError."""
        began = self._clock.monotonic()
        if began < self._not_before:
            return
        if not self._all_are_marked:
            # Jobs that were published while the option was on.
            with self._store.write() as store:
                store.mark_reducible(None)
            self._all_are_marked = True
        for _ in range(ROUNDS):
            if not self._drop_some():
                break
        if not self._log_is_empty:
            self._log_is_empty = self._store.empty_log()
        now = self._clock.monotonic()
        self._not_before = now + (now - began) / SHARE

    def _drop_some(self) -> bool:
        """Whether there may be more."""
        if not self._store.reducible(1):
            return False
        with self._store.write() as store:
            rows = store.reducible(JOBS)
            kept = [(jid, self._reduced(jid, body)) for jid, body in rows]
            store.put_reduced(kept)
        if kept != rows:
            self._log_is_empty = False
        return len(rows) == JOBS

    def _reduced(self, jid: Jid, body: bytes) -> bytes:
        try:
            return reduced(body, keep_arguments=self._keep)
        except RemoteProtocolError as error:
            log.error("job %s in the store cannot be read, and stays as it is: %s", jid, error)  # noqa: TRY400 - a sentence
            return body
