"""The inputs that once found something, and those that reach the parts of each surface: none of them may again."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.fuzz.runner import HANG_MS
from tests.fuzz.surfaces import SURFACES, open_surface

CORPUS = Path(__file__).parent / "corpus"
MUTATED = 150
"""Inputs that are made of the corpus in a run of the tests; `python -m tests.fuzz` makes millions."""


@pytest.mark.parametrize("name", SURFACES)
def test_no_input_of_the_corpus_crashes_a_surface_or_keeps_it_busy(name: str, tmp_path: Path) -> None:
    surface = open_surface(name, tmp_path)
    try:
        kept = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
        assert kept, "every surface has a corpus"
        inputs = [*surface.seeds(), *kept]
        rng = random.Random(1)
        inputs += [surface.mutate(rng.choice(inputs), rng) for _ in range(MUTATED)]
        for data in inputs:
            begin = time.process_time()
            surface.run(data)
            spent_ms = (time.process_time() - begin) * 1000
            assert spent_ms < HANG_MS, f"{data[:200]!r} took {spent_ms:.0f} ms"
    finally:
        surface.close()
