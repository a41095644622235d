"""The process that runs the inputs: it is started by `tests.fuzz`, and may die of one."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).parent / "corpus"
MEMORY_MAX = 4 * 1024**3
"""Bytes of address space beside what atheris maps for itself; a MemoryError is a finding like any other."""
SCRATCH = Path("/dev/shm")
HUNG_S = 60
"""libFuzzer ends the process when one input takes so long: then not even an interruption helped."""


def main(argv: list[str] | None = None) -> int:
    """Run one surface, or replay files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("surface")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--findings", type=Path, required=True)
    parser.add_argument("--said", type=Path, required=True)
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--replay", type=Path, nargs="*")
    wanted = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    guided = not wanted.blind and wanted.replay is None and importlib.util.find_spec("atheris") is not None
    if guided:
        atheris = importlib.import_module("atheris")
        with atheris.instrument_imports(include=["saltlite"]):
            _fuzz(wanted, atheris)
    else:
        _fuzz(wanted, None)
    return 0


def _fuzz(wanted: argparse.Namespace, atheris: Any) -> None:
    from tests.fuzz.runner import Runner
    from tests.fuzz.surfaces import open_surface

    surface = open_surface(
        wanted.surface, Path(tempfile.mkdtemp(prefix="fuzz-", dir=SCRATCH if SCRATCH.is_dir() else None))
    )
    runner = Runner(surface, wanted.findings, wanted.said)
    if wanted.replay is not None:
        for path in wanted.replay:
            runner.one(path.read_bytes())
        runner.save()
        return
    for number, seed in enumerate(surface.seeds()):
        (wanted.corpus / f"seed-{number:03d}").write_bytes(seed)
    if atheris is not None:
        _guided(wanted, atheris, surface, runner)
    else:
        _blind(wanted, surface, runner)
    runner.save()


def _guided(wanted: argparse.Namespace, atheris: Any, surface: Any, runner: Any) -> None:
    from tests.fuzz.surface import INPUT_MAX

    def mutated(data: bytes, size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.2:
            return bytes(atheris.Mutate(data, size))
        return bytes(surface.mutate(data, rng)[:size])

    folders = [str(wanted.corpus)]
    if (COMMITTED / wanted.surface).is_dir():
        folders.append(str(COMMITTED / wanted.surface))
    options = [
        f"-max_total_time={int(wanted.seconds)}",
        f"-max_len={INPUT_MAX}",
        f"-timeout={HUNG_S}",
        "-rss_limit_mb=6000",
        "-len_control=0",
        f"-artifact_prefix={wanted.findings}/libfuzzer-",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup([sys.argv[0], *options, *folders], runner.one, custom_mutator=mutated)
    atheris.Fuzz()


def _blind(wanted: argparse.Namespace, surface: Any, runner: Any) -> None:
    """Without coverage: whatever is known, mutated one to five times."""
    rng = random.Random(0)
    files = [*wanted.corpus.iterdir(), *(COMMITTED / wanted.surface).glob("*")]
    known = [path.read_bytes() for path in sorted(files)] or [b""]
    end = time.monotonic() + wanted.seconds
    for data in known:
        runner.one(data)
    while time.monotonic() < end:
        data = rng.choice(known)
        for _ in range(rng.randrange(1, 6)):
            data = surface.mutate(data, rng)
        runner.one(data)


if __name__ == "__main__":
    sys.exit(main())
