"""What an interface costs a call. Run by hand: `python tests/bench/bench_interfaces.py`; prints JSON."""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

ROUNDS = 30
CALLS = 20_000
LIMIT_US = 5.0
"""What an interface may add to a call that matches it."""

INTERFACE = """
from saltlite.interfaces import Interface

class BenchInterface(Interface):
    __modulename__ = "bench"
    def text(self, name): return ""
    def typed(self, name) -> str: return ""
    def table(self, name) -> dict[str, str]: return {}
    def either(self, name) -> str | dict[str, str]: return ""
    def changes(self, name) -> dict[str, dict[str, str]]: return {}
    def record(self, name) -> None: return None
    record = Interface.returns({"name": str, "uid": int, "groups": [str]})(record)
    def renamed(self, name, refresh=False) -> str: return ""
"""

MODULE = """
_TABLE = {f"package-{number}": "1.2.3" for number in range(400)}
_CHANGES = {f"package-{number}": {"old": "", "new": "1"} for number in range(50)}
_RECORD = {"name": "x", "uid": 1, "groups": ["a", "b"], "shell": "/bin/sh"}
def text(name): return name
def typed(name): return name
def table(name): return _TABLE
def either(name): return _TABLE
def changes(name): return _CHANGES
def record(name): return _RECORD
def renamed(pkg, refresh=True): return pkg
"""


def microseconds(function: Callable[[str], Any]) -> float:
    """The median over ROUNDS of what one call takes."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS // ROUNDS):
            function("x")
        times.append((time.perf_counter() - began) / (CALLS // ROUNDS) * 1e6)
    return statistics.median(times)


def loader_with(folder: Path, mode: str, returns: str = "log") -> Loader:
    """A loader over the files above."""
    opts = {"extension_modules": str(folder), "smi_mode": mode, "smi_returns": returns}
    return Loader(build_index(search_layers(opts)), opts, {"os_family": "Debian", "os": "Debian"}, {})


def first_ms(folder: Path, mode: str, fun: str) -> float:
    """Milliseconds until a fresh loader hands out the function, the median of ROUNDS."""
    times = []
    for _ in range(ROUNDS):
        loader = loader_with(folder, mode)
        began = time.perf_counter()
        _ = loader[fun]
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def main() -> None:
    """Measure, and print one JSON object."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in (("interfaces/bench.py", INTERFACE), ("modules/bench.py", MODULE)):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
        bare = loader_with(folder, "off")
        added = {}
        for mode in ("observe", "uniform", "enforce"):
            bound = loader_with(folder, mode)
            for fun in ("text", "typed", "table", "either", "changes", "record", "renamed"):
                cost = microseconds(bound[f"bench.{fun}"]) - microseconds(bare[f"bench.{fun}"])
                added[f"{mode} {fun}"] = round(cost, 2)
        matching = [cost for key, cost in added.items() if not key.endswith("renamed")]
        report = {
            "python": platform.python_version(),
            "added_us": added,
            "most_for_a_matching_call_us": max(matching),
            "limit_us": LIMIT_US,
            "first_use_ms": {
                f"{fun} {mode}": round(first_ms(folder, mode, fun), 3)
                for fun in ("test.ping", "pkg.version")
                for mode in ("off", "observe", "uniform", "enforce")
            },
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
