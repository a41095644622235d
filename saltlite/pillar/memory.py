"""Pillar files in memory: the twin of `saltlite.pillar.files`, and what a master without pillar has."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.errors import RenderError


class MemoryPillarFiles:
    """`files`: environment -> path -> what the file says, as data or as a function of what templates see."""

    def __init__(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        self._files = files

    def envs(self) -> Sequence[str]:
        return tuple(self._files)

    def has(self, env: str, path: str) -> bool:
        return path in self._files.get(env, {})

    def names(self, env: str) -> Sequence[str]:
        return sorted(self._files.get(env, {}))

    def render(self, env: str, path: str, context: Mapping[str, Any]) -> Any:
        if not self.has(env, path):
            raise RenderError(f"{path} in environment {env!r} is not there")
        said = self._files[env][path]
        return said(context) if callable(said) else copy.deepcopy(said)
