"""What the resource registry costs; prints JSON. By hand: `python tests/bench/bench_registry.py [rows …] [folder]`.

Without numbers: 10,000, 100,000 and 1,000,000 rows of 1,000 minions. The targets are those of 1,000,000. Where the
package `lmdb` can be imported, the same rows go through it as well, and `lmdb` has the ratios of its times to ours.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from saltlite.resources.registry.layout import payload
from saltlite.resources.registry.mmap import ResourceRegistry
from tests.bench.measure import Figure, Others, machine, rounded

ROWS = (10_000, 100_000, 1_000_000)
MINIONS = 1_000
LOOKUPS = 100_000
REPEATS = 3
COMPACTIONS = 2

FIGURES = {
    "empty_kib": Figure("KiB on disk", 12, "256 MiB"),
    "bulk_s": Figure("s: every minion registers, each registration synced", 6, "10.7 s"),
    "look_up_us": Figure("us: who manages this SRN", 5, "8 us"),
    "look_up_missing_us": Figure("us: who manages an SRN that nobody does", 5, "3 us"),
    "bare_id_us": Figure("us: which types have this bare id", 5, "25 ms"),
    "build_s": Figure("s: all views, from the packed file", 2, "6.3 s"),
    "unchanged_ms": Figure("ms: 1,000 rows that are right already", 20, "6.3 s for 100"),
    "unchanged_bytes": Figure("bytes written for them", 0, "all of them"),
    "one_ms": Figure("ms: one new resource, acknowledged and synced", 3, "2.5 ms small, 6.4 s at 1M"),
    "foreign_ms": Figure("ms: the first question about a type after another process registered 100 rows", 5, "6.4 s"),
    "compact_s": Figure("s: compaction with 29 % of the log not needed", 1.5, "13.2 s"),
    "compact_busy_s": Figure("s: the same while another process registers without a pause", 3, ""),
    "blocked_ms": Figure("ms: the longest registration of another process during it", 50, ""),
    "lost": Figure("acknowledged registrations lost in it", 0, "305 of 829"),
    "recover_ms": Figure("ms: to open it after a writer was killed", 1000, ""),
    "open_ms": Figure("ms: to open it, for a first look-up", 10, ""),
    "peak_mib": Figure("MiB of the process with all views, at most", 1000, "1011 MiB"),
}


def registrations(rows: int) -> Iterator[tuple[str, list[str]]]:
    """Every minion with its share of the rows."""
    each = rows // MINIONS
    for number in range(MINIONS):
        yield f"minion-{number:04d}", [f"res-{row:07d}" for row in range(number * each, (number + 1) * each)]


def seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def filled(folder: str, rows: int) -> ResourceRegistry:
    registry = ResourceRegistry({"cachedir": folder})
    for minion, ids in registrations(rows):
        registry.register_minion(minion, {"dummy": ids})
    return registry


@contextmanager
def child(work: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    """A process that runs `work(fd)` and says lines to that fd: its pid, and where to read them."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ear)
        # Of a fork's own making: a collection would copy every page of the parent's objects.
        gc.freeze()
        try:
            work(mouth)
        finally:
            os._exit(0)
    os.close(mouth)
    try:
        yield pid, ear
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ear)


def asked(registry: ResourceRegistry, rows: int) -> dict[str, list[float]]:
    """Microseconds of a point look-up that finds, of one that does not, and of a bare id."""
    chance = random.Random(rows)
    found: dict[str, list[float]] = {"look_up_us": [], "look_up_missing_us": [], "bare_id_us": []}
    registry.resolve_bare_resource_id("res-0000000")
    for _ in range(REPEATS):
        ids = [f"res-{chance.randrange(rows):07d}" for _ in range(LOOKUPS)]
        for name, call, suffix in (
            ("look_up_us", lambda bare_id: registry.get_managing_minions_for_srn("dummy", bare_id), ""),
            ("look_up_missing_us", lambda bare_id: registry.get_managing_minions_for_srn("dummy", bare_id), "x"),
            ("bare_id_us", registry.resolve_bare_resource_id, ""),
        ):
            wanted = [bare_id + suffix for bare_id in ids]
            began = perf_counter()
            for bare_id in wanted:
                call(bare_id)
            found[name].append((perf_counter() - began) / LOOKUPS * 1e6)
    return found


def written(registry: ResourceRegistry, folder: str, rows: int) -> dict[str, list[float]]:
    """Registrations that change nothing, one row, and 100 rows of another process."""
    minion, ids = next(registrations(rows))
    ids = ids if len(ids) >= 1000 else [*ids, *(f"more-{number}" for number in range(1000 - len(ids)))]
    registry.register_minion(minion, {"dummy": ids})
    before = registry.stats()["primary"]["bytes"], registry.content_version()
    unchanged = [seconds(lambda: registry.register_minion(minion, {"dummy": ids})) * 1e3 for _ in range(20)]
    after = registry.stats()["primary"]["bytes"], registry.content_version()
    one = [
        seconds(lambda number=number: registry.register_minion(f"one-{number}", {"dummy": [f"one-{number}"]})) * 1e3  # type: ignore[misc]
        for number in range(200)
    ]
    foreign = []
    for number in range(20):

        def others(fd: int, number: int = number) -> None:
            mine = ResourceRegistry({"cachedir": folder})
            mine.register_minion(f"other-{number}", {"dummy": [f"other-{number}-{row}" for row in range(100)]})

        if rows <= 100_000 or number < 3:
            with child(others) as (_, ear):
                os.read(ear, 1)
            foreign.append(seconds(lambda: registry.get_managing_minions_by_type("dummy")) * 1e3)
    return {
        "unchanged_ms": unchanged,
        "unchanged_bytes": [after[0] - before[0] + (before[1] != after[1])],
        "one_ms": one,
        "foreign_ms": foreign,
    }


def compacted(registry: ResourceRegistry, folder: str, rows: int) -> dict[str, list[float]]:
    """Compaction with 29 % of the log not needed: alone, and while another process registers without a pause."""
    took, busy, longest, lost = [], [], [], []

    def spoil(run: int) -> None:
        for number, (minion, ids) in enumerate(registrations(rows)):
            if number % 5 == run:
                registry.unregister_minion(minion)
                registry.register_minion(minion, {"dummy": ids})

    for run in range(COMPACTIONS):
        spoil(run)
        took.append(seconds(registry.compact))
        spoil(run + 1)

        def writes(fd: int, run: int = run) -> None:
            mine = ResourceRegistry({"cachedir": folder})
            number = 0
            while True:
                began = perf_counter()
                mine.register_minion(f"w{run}-{number}", {"dummy": [f"w{run}-{number}"]})
                os.write(fd, f"{perf_counter() - began:.6f}\n".encode())
                number += 1

        with child(writes) as (pid, ear):
            heard = os.read(ear, 4096)
            os.set_blocking(ear, False)
            with suppress(BlockingIOError):
                heard += os.read(ear, 1 << 20)
            before = heard.count(b"\n")
            busy.append(seconds(registry.compact))
            os.kill(pid, signal.SIGKILL)
            os.set_blocking(ear, True)
            while part := os.read(ear, 1 << 20):
                heard += part
        times = [float(line) for line in heard.split(b"\n")[:-1]]
        longest.append(max(times[before:], default=0.0) * 1e3)
        lost.append(
            float(sum(not registry.has_resource(f"w{run}-{n}", "dummy", f"w{run}-{n}") for n in range(len(times))))
        )
    return {"compact_s": took, "compact_busy_s": busy, "blocked_ms": longest, "lost": lost}


def opened_and_built(folder: str) -> tuple[float, float]:
    """Milliseconds to open a registry that is whole, and seconds of the first question to its views."""
    began = perf_counter()
    registry = ResourceRegistry({"cachedir": folder})
    registry.has_srn("dummy", "res-0000000")
    opened_ms = (perf_counter() - began) * 1e3
    built_s = seconds(lambda: registry.has_resource_type("minion-0001", "dummy"))
    registry.close()
    return opened_ms, built_s


def one_size(folder: str, rows: int) -> dict[str, Any]:
    others = Others()
    registry = ResourceRegistry({"cachedir": folder})
    path = registry.stats()["path"]
    samples = {"empty_kib": [os.stat(path).st_blocks / 2]}
    samples["bulk_s"] = [seconds(lambda: [registry.register_minion(m, {"dummy": i}) for m, i in registrations(rows)])]
    samples |= asked(registry, rows)
    samples |= written(registry, folder, rows)
    samples |= compacted(registry, folder, rows)
    registry.close()
    # The one who opens it now has a killed writer's registration to finish or to cut off.
    samples["recover_ms"] = [seconds(lambda: ResourceRegistry({"cachedir": folder}).close()) * 1e3]
    fresh = [opened_and_built(folder) for _ in range(REPEATS)]
    samples["open_ms"], samples["build_s"] = [ms for ms, _ in fresh], [took for _, took in fresh]
    samples["peak_mib"] = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
    figures = {name: FIGURES[name].report(values) for name, values in samples.items()}
    return {"others_percent": others.share_percent(), "file_mib": rounded(os.stat(path).st_size / 2**20)} | figures


def with_lmdb(folder: str, rows: int) -> dict[str, float]:
    """Seconds of the same work in LMDB: the same keys and values, one synced transaction a registration."""
    env = import_module("lmdb").open(folder, map_size=1 << 32)

    def bulk() -> None:
        for minion, ids in registrations(rows):
            value = payload(minion, "dummy")
            with env.begin(write=True) as transaction:
                for bare_id in ids:
                    key = f"dummy:{bare_id}".encode()
                    if transaction.get(key) != value:
                        transaction.put(key, value)

    def one(number: int) -> None:
        with env.begin(write=True) as transaction:
            transaction.put(b"dummy:one-%d" % number, payload("m", "dummy"))

    def look_up(ids: list[str]) -> None:
        for bare_id in ids:
            with env.begin() as transaction:
                json.loads(transaction.get(f"dummy:{bare_id}".encode()))

    def build() -> None:
        by_minion: dict[bytes, set[str]] = {}
        by_bare_id: dict[str, bytes] = {}
        with env.begin() as transaction:
            for key, value in transaction.cursor():
                bare_id = key[6:].decode()
                by_minion.setdefault(value, set()).add(bare_id)
                by_bare_id[bare_id] = value

    chance = random.Random(rows)
    ids = [f"res-{chance.randrange(rows):07d}" for _ in range(LOOKUPS)]
    took = {"bulk_s": seconds(bulk), "look_up_us": seconds(lambda: look_up(ids)) / LOOKUPS * 1e6}
    took["one_ms"] = sum(seconds(lambda number=number: one(number)) for number in range(200)) / 200 * 1e3  # type: ignore[misc]
    took["build_s"] = seconds(build)
    with tempfile.TemporaryDirectory(dir=folder) as copy:
        took["compact_s"] = seconds(lambda: env.copy(copy, compact=True))
    env.close()
    return took


def main(sizes: list[int], where: str | None) -> None:
    document: dict[str, Any] = {"machine": machine(), "minions": MINIONS}
    for rows in sizes:
        folder = tempfile.mkdtemp(dir=where)
        try:
            found = document[f"rows_{rows}"] = one_size(folder, rows)
            with suppress(ImportError):
                theirs = with_lmdb(tempfile.mkdtemp(dir=folder), rows)
                found["lmdb"] = {
                    name: {"took": rounded(value), "ratio": rounded(value / found[name]["median"])}
                    for name, value in theirs.items()
                }
        finally:
            shutil.rmtree(folder)
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    folders = [argument for argument in sys.argv[1:] if not argument.isdigit()]
    main(numbers or list(ROWS), folders[0] if folders else None)
