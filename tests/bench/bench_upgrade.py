"""`saltlite upgrade '*'` with real minions on loopback: `python -m tests.bench.bench_upgrade [MINIONS] [BATCH]`.

Not run by pytest. The minions run a copy of this tree that says that it is of the version before, and two of them get
an option that the new version does not know, so that they end and go back. The JSON document has seconds and counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from saltlite import __version__
from tests.bench.measure import machine, rounded
from tests.support.fleet import Fleet, wait_until
from tests.support.other_version import OLD, launcher, older, replace

MINIONS = 50
BATCH = 10
BROKEN = 2
JOIN_AT_ONCE = 10
"""Minions that start at the same time."""
JOIN_S = 300.0
UPGRADE_S = 3600.0


def start(fleet: Fleet, old: Path, minions: int) -> list[str]:
    """Start the master and the minions of the old version, the broken ones last; their ids."""
    fleet.start_master()
    token = fleet.token("--uses", str(minions))
    fleet.through = launcher(old)
    names = [f"m{number}" for number in range(1, minions + 1)]
    for first in range(0, minions, JOIN_AT_ONCE):
        some = names[first : first + JOIN_AT_ONCE]
        for name in some:
            broken = {"former": True} if name in names[-BROKEN:] else {}
            fleet.start_minion(name, join_token=token, **broken)
        wait_until(lambda some=some: fleet.up() >= set(some), f"{some} are up", JOIN_S)  # type: ignore[misc]  # waits here
    return names


def measure(folder: Path, minions: int, batch: int) -> dict[str, object]:
    """Upgrade that many minions, `batch` at a time; what the document has."""
    old = older(folder / "old")
    # The new version knows no such option.
    former = r'\n    former: bool = option(False, "", FlagKind())\1'
    replace(old / "saltlite/config/minion.py", r"(\n    root_dir: str = )", former)
    fleet = Fleet(folder)
    try:
        names = start(fleet, old, minions)
        began = time.perf_counter()
        upgrade = fleet.start_cli("upgrade", "*", "-b", str(batch), "--out", "json")
        out, err = upgrade.communicate(timeout=UPGRADE_S)
        seconds = time.perf_counter() - began
        found = json.loads(out)
        wait_until(lambda: fleet.up_now() >= set(names), "all are back", JOIN_S)
        versions = fleet.cli("*", "test.version", "--out", "json").json()
    finally:
        fleet.close()
    return {
        "minions": minions,
        "batch": batch,
        "from": OLD,
        "to": __version__,
        "seconds": rounded(seconds),
        "batches": err.count(f"upgrading to {__version__}: "),
        "states": dict(Counter(row["state"] for row in found.values())),
        "rollbacks": sorted(name for name, row in found.items() if row["state"] == "back on the old"),
        "versions": dict(Counter(versions.values())),
        "exit_code": upgrade.returncode,
    }


def main(words: list[str]) -> int:
    """Print the document; the exit code is 1 unless exactly the broken minions are back on the old version."""
    minions = int(words[0]) if words else MINIONS
    batch = int(words[1]) if len(words) > 1 else BATCH
    with tempfile.TemporaryDirectory(prefix="saltlite-bench-") as folder:
        found = measure(Path(folder), minions, batch)
    print(json.dumps({"machine": machine(), **found}, indent=2))
    return 0 if found["versions"] == {__version__: minions - BROKEN, OLD: BROKEN} else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
