"""Reports of minions are settled here: stored together, or one by one where one of them holds the MWorker or raises.

What one minion says must cost that minion only (S8). A report that raises, or whose turn the supervisor has ended, is
left out: it is not acknowledged, so its minion keeps it (G6), and the others of its batch are stored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from saltlite.errors import StoreError
from saltlite.master.handlers.results import Passing, Reported, Settled, store_reports
from saltlite.master.processes.context import Master
from saltlite.master.processes.turnnames import turn_of_report
from saltlite.platform.turn_board import Marks, Turn

log = logging.getLogger(__name__)


def settle(master: Master, reported: Sequence[Reported], passing: Passing, marks: Marks) -> Settled:
    """Store what can be stored of these. Raises StoreError, and then none of them may be acknowledged."""
    if marks.board.is_careful():
        return _together(_alone(master, item, passing, marks) for item in reported)
    if not marks.board.is_refusing():
        return _batch(master, reported, passing, marks)
    kept = [item for item in reported if not _is_refused(item, marks)]
    settled = _batch(master, kept, passing, marks) if kept else Settled([], moved=frozenset())
    return Settled(settled.acknowledge, settled.moved, settled.left_out + len(reported) - len(kept))


def _batch(master: Master, reported: Sequence[Reported], passing: Passing, marks: Marks) -> Settled:
    with marks.named(Turn(f"{len(reported)} reports, the first of {reported[0].id}", is_reports=True)):
        try:
            return store_reports(master, reported, passing)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - named supervision point: they are tried one by one, where what raises is logged
            log.debug("a batch with a report that cannot be stored is stored one by one")
    return _together(_alone(master, item, passing, marks) for item in reported)


def _alone(master: Master, item: Reported, passing: Passing, marks: Marks) -> Settled:
    if _is_refused(item, marks):
        return Settled([], moved=frozenset(), left_out=1)
    with marks.named(turn_of_report(marks.board, item)):
        try:
            return store_reports(master, [item], passing)
        except StoreError:
            raise
        except Exception:  # named supervision point: what one minion says must not end MWorkers (S8)
            log.exception("a report of %s cannot be stored and is left out: please report this", item.id)
            return Settled([], moved=frozenset())


def _is_refused(item: Reported, marks: Marks) -> bool:
    board = marks.board
    ended = board.ended(turn_of_report(board, item).digest)
    if ended is None:
        return False
    # Its minion offers it again and again, and each time it would hold an MWorker.
    board.renew(ended)
    log.error("%s is left out, for it held %s for %.0f s: please report this", ended.text, ended.process, ended.held_s)
    return True


def _together(every: Iterable[Settled]) -> Settled:
    found = list(every)
    return Settled(
        [pair for settled in found for pair in settled.acknowledge],
        moved=frozenset(jid for settled in found for jid in settled.moved),
        left_out=sum(settled.left_out for settled in found),
    )
