"""What executors cost a call: `python tests/bench/bench_executors.py` prints medians as JSON.

In one process, and so without what a job costs: a function that does nothing, called as the default does it, with
`[direct_call]` asked for, through a chain that loads the executor `direct_call`, and through one of three executors.
Then what the first call through a chain costs, which loads its files.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from saltlite.config.minion import MinionConfig  # noqa: E402 - the path above is needed for it
from saltlite.config.opts import opts_of  # noqa: E402 - as above
from saltlite.loader.call import call  # noqa: E402 - as above
from saltlite.loader.executors import Chain, Executors, executors_index  # noqa: E402 - as above
from saltlite.loader.index import build_index  # noqa: E402 - as above
from saltlite.loader.loader import Loader  # noqa: E402 - as above
from saltlite.loader.search_path import search_layers  # noqa: E402 - as above
from saltlite.model.execution import Execution, is_direct  # noqa: E402 - as above
from tests.bench.measure import Figure, machine  # noqa: E402 - as above

CALLS = 2000
ROUNDS = 15
ADDED = Figure("us", 20.0, "not measured")
FUN = "test.ping"
PUB = {"jid": "20260101000000000000", "fun": FUN, "arg": [], "user": "root"}


def microseconds(calls: int, what: Callable[[], object]) -> float:
    """Of one call, on average."""
    began = time.perf_counter()
    for _ in range(calls):
        what()
    return (time.perf_counter() - began) / calls * 1e6


def main() -> None:
    """Measure and print."""
    opts = {**opts_of(MinionConfig(), "web1"), "cachedir": ""}
    loader = Loader(build_index(search_layers(opts)), opts, {}, {})
    index = executors_index(opts)

    def chain(*names: str) -> Chain | None:
        asked = Execution(names)
        return None if is_direct(opts, asked) else Executors(loader, index).chain(asked, remote=False)

    loaded = Executors(loader, index).chain(Execution(["direct_call"]), remote=False)
    longer = chain("timeout", "nice", "direct_call")

    def through(one: Chain | None) -> Callable[[], object]:
        return lambda: call(loader, FUN, [], {}, pub=PUB, chain=one)

    def decided() -> object:
        return call(loader, FUN, [], {}, pub=PUB, chain=chain("direct_call"))

    ways = {"asked_for": decided, "loaded": through(loaded), "timeout_nice_direct_call": through(longer)}
    plain: list[float] = []
    added: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):
        base = microseconds(CALLS, through(None))
        plain.append(base)
        for name, way in ways.items():
            added[name].append(microseconds(CALLS, way) - base)

    def anew() -> object:
        return call(loader, FUN, [], {}, pub=PUB, chain=chain("timeout", "direct_call"))

    first = [microseconds(1, anew) for _ in range(ROUNDS)]
    result = {
        "machine": machine(),
        "plain_call_us": round(sorted(plain[1:])[ROUNDS // 2], 2),
        "direct_call_asked_for_adds": ADDED.report(added["asked_for"][1:]),
        "direct_call_loaded_adds": ADDED.report(added["loaded"][1:]),
        "timeout_nice_direct_call_adds_us": round(sorted(added["timeout_nice_direct_call"][1:])[ROUNDS // 2], 2),
        "first_call_through_a_chain_us": round(sorted(first)[ROUNDS // 2], 1),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
