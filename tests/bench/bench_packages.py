"""What lists of packages cost; prints medians as JSON. By hand: `python tests/bench/bench_packages.py`.

A dpkg database of 700 packages with descriptions and dependencies of usual length: `pkg.list_pkgs` in a loader that has
its modules loaded and in a fresh one, then whole commands on one minion that has this database.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from saltlite.loader.call import call  # noqa: E402 - the path above is needed for it
from saltlite.loader.index import build_index  # noqa: E402 - as above
from saltlite.loader.loader import Loader  # noqa: E402 - as above
from saltlite.loader.search_path import search_layers  # noqa: E402 - as above
from tests.bench.fleet import BenchFleet  # noqa: E402 - as above
from tests.bench.measure import Figure, machine, timed  # noqa: E402 - as above

PACKAGES = 700
ROUNDS = 15
GRAINS = {"os": "Debian", "os_family": "Debian", "osarch": "amd64"}
LIST_PKGS = Figure("ms: pkg.list_pkgs of 700 packages in the module", 25, "")
FRESH = Figure("ms: the same with the modules to be loaded before", 25, "")
LISTED = Figure("s: saltlite '*' pkg.list_installed on one minion", 0.2, "0.88 s")


def database(folder: Path) -> None:
    """A dpkg database as large as that of a machine with so many packages."""
    (folder / "updates").mkdir(parents=True)
    stanzas = []
    for number in range(PACKAGES):
        depends = ", ".join(f"libthing{number + other} (>= 1.{other})" for other in range(12))
        stanzas.append(
            f"Package: thing{number}\nStatus: install ok installed\nPriority: optional\nSection: libs\n"
            f"Installed-Size: {number}\nMaintainer: nobody <nobody@example.org>\nArchitecture: amd64\n"
            f"Version: 1.{number}-2+deb12u1\nDepends: {depends}\nDescription: thing {number}\n"
            + " What this package is for is said in a few lines of usual length, as here.\n"
            * 5
        )
    (folder / "status").write_text("\n".join(stanzas))


def in_the_module() -> tuple[list[float], list[float]]:
    """Milliseconds of each call, in one loader and in a loader for each."""
    index = build_index(search_layers({}))

    def once(loader: Loader) -> float:
        began = perf_counter()
        outcome = call(loader, "pkg.list_pkgs", (), {})
        took = (perf_counter() - began) * 1e3
        assert len(outcome.value) == PACKAGES, outcome
        return took

    loader = Loader(index, {}, GRAINS, {})
    once(loader)
    return [once(loader) for _ in range(ROUNDS)], [once(Loader(index, {}, GRAINS, {})) for _ in range(ROUNDS)]


def commands() -> list[float]:
    """Seconds of each command on a minion that has the database."""
    with BenchFleet() as fleet:
        fleet.start_master()
        fleet.join(["web1"])
        argv = fleet.command("*", "pkg.list_installed", "--out", "json")
        runs = [timed(argv) for _ in range(ROUNDS + 1)][1:]  # the first one compiles
    assert all(run.code == 0 and f"thing{PACKAGES - 1}" in run.out for run in runs), runs[-1]
    return [run.wall_s for run in runs]


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        database(Path(folder) / "dpkg")
        os.environ["DPKG_ADMINDIR"] = f"{folder}/dpkg"
        warm, fresh = in_the_module()
        result = {
            "machine": machine(),
            "list_pkgs": LIST_PKGS.report(warm),
            "list_pkgs_fresh": FRESH.report(fresh),
            "command": LISTED.report(commands()),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
