"""What the loader and the grains cost. Run by hand: `python tests/bench/bench_loader.py`; prints JSON."""

from __future__ import annotations

import json
import os
import pickle
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from saltlite.loader.call import call
from saltlite.loader.index import Index, build_index, cached_index
from saltlite.loader.loader import Loader
from saltlite.loader.module_builder import PREFIX
from saltlite.loader.search_path import Layer, search_layers
from saltlite.plugins.grains.collect import collect

ROUNDS = 30

HEADER = """\"\"\"Module {n} of many.\"\"\"

import logging

log = logging.getLogger(__name__)

__virtualname__ = "bench{n}"


def __virtual__():
    return __virtualname__
"""

FUNCTION = """

def fun{n}(name, version=None, *, refresh: bool = False, **kwargs):
    \"\"\"
    Do the thing number {n}.

    CLI Example::

        saltlite '*' bench.fun{n} name
    \"\"\"
    return {{part: version for part in str(name).split(",")}}
"""


def timed(action: Callable[[], object]) -> list[float]:
    """Milliseconds of each of ROUNDS runs."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        action()
        times.append((time.perf_counter() - began) * 1000)
    return times


def forked_call(index: Index, grains: dict[str, object], fun: str) -> tuple[float, float]:
    """Fork, load and call once: milliseconds inside the child, and until the parent has seen it end."""
    reading, writing = os.pipe()
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        inside = time.perf_counter()
        outcome = call(Loader(index, {}, grains, {}), fun, (), {})
        os.write(writing, b"%f" % ((time.perf_counter() - inside) * 1000 if outcome.retcode == 0 else -1))
        os._exit(0)
    os.waitpid(child, 0)
    whole = (time.perf_counter() - began) * 1000
    inner = float(os.read(reading, 64))
    os.close(reading)
    os.close(writing)
    return inner, whole


def summary(times: list[float]) -> dict[str, float]:
    """First, median and largest of some milliseconds."""
    return {name: round(value, 3) for name, value in (
        ("first_ms", times[0]), ("median_ms", statistics.median(times)), ("max_ms", max(times)),
    )}  # fmt: skip


def write_modules(folder: Path, count: int) -> list[Layer]:
    """`count` modules of 70 lines with 6 documented functions each, and the layers with them above the shipped ones."""
    for number in range(count):
        functions = "".join(FUNCTION.format(n=n) for n in range(6))
        (folder / f"bench{number}.py").write_text(HEADER.format(n=number) + functions)
    return [Layer("bench", str(folder)), *search_layers({})]


def many_files(count: int) -> dict[str, object]:
    """What the index of many custom modules costs a process that starts, and what it costs to call one of them."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, cache = Path(temporary, "modules"), Path(temporary, "cache")
        folder.mkdir()
        layers = write_modules(folder, count)
        index = cached_index(layers, str(cache))
        _inner, whole = forked_call(index, {}, f"bench{count // 2}.fun3")
        return {
            "cold": summary(timed(lambda: build_index(layers))),
            "warm": summary(timed(lambda: build_index(layers, index))),
            "start_remembered": summary(timed(lambda: cached_index(layers, str(cache)))),
            "function_texts": summary(timed(lambda: index.function_texts({}))),
            "fork_call_one_ms": round(whole, 3),
            "imported_by_one_call": imported_by(index, f"bench{count // 2}.fun3"),
        }


def imported_by(index: Index, fun: str) -> int:
    """How many module files one call runs the body of."""
    before = {name for name in sys.modules if name.startswith(PREFIX)}
    call(Loader(index, {}, {}, {}), fun, ("x",), {})
    return len({name for name in sys.modules if name.startswith(PREFIX)} - before)


def main() -> None:
    """Measure, and print one JSON object."""
    layers = search_layers({})
    index = build_index(layers)
    grains = collect({})
    report: dict[str, object] = {
        "machine": {
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
        },
        "index_cold": summary(timed(lambda: build_index(layers))),
        "index_refresh": summary(timed(lambda: build_index(layers, index))),
        "index_files": len(index.files),
        "index_pickle_bytes": len(pickle.dumps(index)),
        "grains": summary(timed(lambda: collect({}))),
        "start_without_custom_modules": summary(timed(lambda: build_index(layers))),
        "files_300": many_files(300),
        "files_500": many_files(500),
    }
    for fun in ("test.ping", "grains.ls", "pkg.list_holds"):
        forked_call(index, grains, fun)  # writes the cache of compiled files, where that is allowed
        pairs = [forked_call(index, grains, fun) for _ in range(ROUNDS)]
        report[f"forked {fun}"] = {
            "load_and_call": summary([inner for inner, _ in pairs]),
            "fork_to_exit": summary([whole for _, whole in pairs]),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
