"""What journal and spool cost, as JSON. By hand: `python tests/bench/bench_journal.py [folder on the disk]`.

Each figure in microseconds is a median; `beside_syncs_us` is the rest of the same calls: Python, and the
calls that create, write and rename. In a folder of tmpfs it is nearly all Python.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import tracemalloc
from time import perf_counter

from saltlite.minion.jobs.journal import DiskJournal
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.protocol.effects import JournalStep, Record, SpoolEntry
from saltlite.model.job import TargetState
from saltlite.platform.files import PosixFolder, PosixHandle

ROUNDS = 500
ENTRIES = 100_000


class TimedHandle(PosixHandle):
    """Adds up what syncs take."""

    spent = 0.0

    def sync(self) -> None:
        begun = perf_counter()
        super().sync()
        TimedHandle.spent += perf_counter() - begun


class TimedFolder(PosixFolder):
    """A folder whose handles are timed, and whose own syncs are."""

    def create(self, name: str) -> TimedHandle:
        return TimedHandle(super().create(name)._fd)

    def sync(self) -> None:
        begun = perf_counter()
        super().sync()
        TimedHandle.spent += perf_counter() - begun


def received(number: int) -> Record:
    fields = {
        "body": bytes(150),
        "sig": bytes(64),
        "proof": [],
        "wall_ms": 1_800_000_000_000,
        "deliver_ms": 60_000,
    }
    return Record(JournalStep.RECEIVED, f"{number:020d}", fields)


def rounds(call: object, numbers: range) -> dict[str, float]:
    """Median of one call, and of one call without its syncs."""
    assert callable(call)
    whole, beside = [], []
    for number in numbers:
        TimedHandle.spent, begun = 0.0, perf_counter()
        call(number)
        took = perf_counter() - begun
        whole.append(took)
        beside.append(took - TimedHandle.spent)
    return {"us": micro(statistics.median(whole)), "beside_syncs_us": micro(statistics.median(beside))}


def micro(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def appends(where: str) -> dict[str, float]:
    journal = DiskJournal(TimedFolder(where), entropy=os.urandom)
    journal.open()

    def one(number: int) -> None:
        journal.append([received(number)])
        journal.sync()

    answer = rounds(one, range(ROUNDS))
    journal.close()
    return answer


def results(where: str, size: int) -> dict[str, float]:
    spool = DiskSpool(TimedFolder(where))
    entry = SpoolEntry(TargetState.RETURNED, 0, bytes(size), 1_800_000_000_000, 10)
    return rounds(lambda number: spool.write(f"{number:020d}", entry), range(ROUNDS))


def replays(where: str) -> dict[str, float]:
    """A journal of ENTRIES acknowledged jobs: to read it, to rewrite it, to read what was rewritten."""
    journal = DiskJournal(PosixFolder(where), entropy=os.urandom)
    journal.open()
    for number in range(ENTRIES):
        jid = f"{number:020d}"
        fields = {"pid": 1, "ticks": 1, "wall_ms": 1}
        records = [received(number), Record(JournalStep.STARTED, jid, fields), Record(JournalStep.DONE, jid)]
        journal.append([*records, Record(JournalStep.ACKED, jid)])
    journal.close()
    answer: dict[str, float] = {"file_mib": round(os.path.getsize(f"{where}/journal") / 2**20, 1)}
    journal = DiskJournal(PosixFolder(where), entropy=os.urandom)
    answer["open_s"] = timed(journal.open)
    answer["compact_s"] = timed(lambda: journal.compact(1_800_000_000_000))
    journal.close()
    answer["compacted_mib"] = round(os.path.getsize(f"{where}/journal") / 2**20, 1)
    journal = DiskJournal(PosixFolder(where), entropy=os.urandom)
    answer["reopen_s"] = timed(journal.open)
    journal.close()
    tracemalloc.start()
    journal = DiskJournal(PosixFolder(where), entropy=os.urandom)
    answer["remembered"] = len(journal.open())
    answer["memory_mib"] = round(tracemalloc.get_traced_memory()[0] / 2**20, 1)
    tracemalloc.stop()
    return answer


def timed(call: object) -> float:
    assert callable(call)
    begun = perf_counter()
    call()
    return round(perf_counter() - begun, 3)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as where:
        report = {
            "append_sync_300_b": appends(f"{where}/append"),
            "spool_write_100_b": results(f"{where}/small", 100),
            "spool_write_64_kib": results(f"{where}/large", 65536),
            f"replay_{ENTRIES}": replays(f"{where}/replay"),
            "machine": {
                "python": platform.python_version(),
                "kernel": platform.release(),
                "cpus": os.cpu_count(),
            },
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
