"""What it costs that masters share a store: targets, grains and registrations, beside those of a master that is alone.

`python -m tests.bench.bench_projection [MINIONS]` prints one JSON document; not run by pytest. Both sides take turns.
The server is one of this machine's packages, on a Unix socket, with fsync. Figures are milliseconds of one: wall time,
and CPU time of the master's process.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from saltlite.master.processes.fleet import MasterFleet, indexes_of
from saltlite.master.store.banks import LocalBanks
from saltlite.master.store.projection import Projection
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind
from saltlite.resources.registry.mmap import ResourceRegistry
from saltlite.resources.registry.registry import Registry
from saltlite.targeting import resolve
from saltlite.targeting.banks import GRAINS, Banks
from tests.support.postgres import running_server, several_of_postgres

ROUNDS = 100
RESOURCES = 100
"""Of each hundredth minion."""
GRAIN = {f"name{n}": f"value {n}" for n in range(40)}
TARGETS = {
    "grain": Target("os:Debian", TargetKind.GRAIN),
    "compound": Target("G@os:Debian and web0*", TargetKind.COMPOUND),
    "srn": Target("ssh:r0-7", TargetKind.GLOB),
}

Side = tuple[Banks, Registry]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of wall time and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3


def filled(side: Side, ids: list[MinionId]) -> dict[str, list[float]]:
    """Fill it: milliseconds of a put of grains, and of a registration."""
    banks, registry = side
    puts = [
        timed(lambda n=n, one=one: banks.bank(GRAINS).put(one, {**GRAIN, "os": ["Debian", "BSD"][n % 2]}, "digest"))  # type: ignore[misc]
        for n, one in enumerate(ids)
    ]
    made = [
        timed(lambda n=n: registry.register_minion(ids[n], {"ssh": [f"r{n}-{k}" for k in range(RESOURCES)]}))  # type: ignore[misc]
        for n in range(0, len(ids), 100)
    ]
    return {"grains_put": medians(puts), f"registration_of_{RESOURCES}": medians(made)}


def medians(figures: list[tuple[float, float]]) -> list[float]:
    return [round(statistics.median(column), 3) for column in zip(*figures, strict=True)]


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    ids = [MinionId(f"web{n:05}.example.net") for n in range(count)]
    with tempfile.TemporaryDirectory() as folder, running_server(fsync="on", shared_buffers="512MB") as server:
        open_store = several_of_postgres(server.new_schema())
        stores = [open_store(), open_store()]
        shared = Projection(stores[0].inventory(), {"cachedir": f"{folder}/shared"}, bytes(32))
        sides: dict[str, Side] = {
            "alone": (LocalBanks(f"{folder}/alone"), ResourceRegistry({"cachedir": f"{folder}/alone"})),
            "shared": (shared.banks, shared.registry),
        }
        figures: dict[str, Any] = {"minions": count}
        for name, side in sides.items():
            figures[name] = filled(side, ids)
        joins = timed(lambda: Projection(stores[1].inventory(), {"cachedir": f"{folder}/other"}, bytes(32)).close())
        figures["copy_of_a_new_master"] = [round(figure) for figure in joins]
        indexes = {name: indexes_of(side[0]) for name, side in sides.items()}
        for what, target in TARGETS.items():
            spent: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
            for _ in range(ROUNDS):
                for name, (banks, registry) in sides.items():
                    fleet = MasterFleet(lambda: ids, registry, indexes[name], {})
                    banks.look_again()
                    spent[name].append(timed(lambda target=target, fleet=fleet: resolve(target, fleet)))  # type: ignore[misc]
            alone, ours = (medians(spent[name]) for name in ("alone", "shared"))
            ratio = [round(mine / other, 2) for mine, other in zip(ours, alone, strict=True)]
            figures[f"target_{what}"] = {"alone": alone, "shared": ours, "shared_to_alone": ratio}
        for store in stores:
            store.close()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
