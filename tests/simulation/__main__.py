"""Run the simulation by hand: `python -m tests.simulation --seeds 10000`, or `… --seed 7 --trace`.

Ends with 1 at the first seed in which a guarantee did not hold, and shows what did.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.story import Outcome, play
from tests.support.guarantees import report

PROGRESS_S = 5.0


def main() -> int:
    """The exit code: 0 when every seed held, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--trace", action="store_true", help="print everything that happened in it")
    parser.add_argument("--shared", action="store_true", help="several masters on one database")
    given = parser.parse_args()
    if given.seed is not None:
        outcome = play(given.seed, trace=given.trace, shared=given.shared)
        if given.trace:
            print("\n".join(outcome.lines()))
        return _tell(outcome)
    return _many(range(given.start, given.start + given.seeds), shared=given.shared)


def _many(seeds: range, *, shared: bool) -> int:
    began = told = time.monotonic()
    steps = 0
    for done, seed in enumerate(seeds, start=1):
        outcome = play(seed, shared=shared)
        steps += outcome.steps
        if outcome.violations:
            print("\n".join(play(seed, trace=True, shared=shared).lines()))
            return _tell(outcome)
        now = time.monotonic()
        if now - told >= PROGRESS_S or done == len(seeds):
            told = now
            rate = done / (now - began)
            print(f"{done} of {len(seeds)} seeds, {rate:.1f} a second, {steps // done} steps each, no violation")
    return 0


def _tell(outcome: Outcome) -> int:
    faults = ", ".join(f"{count} x {name}" for name, count in sorted(outcome.faults.items()))
    print(f"seed {outcome.seed}: {outcome.steps} steps; {faults or 'no faults'}")
    print(report(outcome.violations) or "no violation")
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
