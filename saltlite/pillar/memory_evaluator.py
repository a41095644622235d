"""Pillars made where they are asked for (`saltlite.pillar.evaluation.Evaluator`): the twin of the evaluators."""

from __future__ import annotations

from collections.abc import Callable

from saltlite.pillar.evaluation import Evaluation, Wanted, evaluated
from saltlite.pillar.ports import Nodegroups, PillarFiles


class MemoryEvaluator:
    """`files` may be exchanged."""

    def __init__(self, files: PillarFiles, nodegroups: Nodegroups | None = None) -> None:
        self.files = files
        self._nodegroups = nodegroups or {}

    def evaluate(self, wanted: Wanted, done: Callable[[Evaluation], None]) -> None:
        done(evaluated(self.files, self._nodegroups, wanted))
