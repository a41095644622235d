"""What the compiler asks of files and renderers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from saltlite.model.job import Target

Matches = Callable[[Target], bool]
"""Whether a target selects the minion. Raises UsageError for what is no target."""


Nodegroups = Mapping[str, str | list[str]]
"""Name -> expression, as the configuration has them."""


class PillarFiles(Protocol):
    """The files of `pillar_roots`, as data. A path is below the root of its environment."""

    def envs(self) -> Sequence[str]:
        """The environments, in the order of the configuration."""
        ...

    def has(self, env: str, path: str) -> bool:
        """Whether that file is there."""
        ...

    def names(self, env: str) -> Sequence[str]:
        """The paths of all files of an environment, sorted."""
        ...

    def render(self, env: str, path: str, context: Mapping[str, Any]) -> Any:
        """What the file says; templates see the names in `context`. Raises RenderError, also when it is not there."""
        ...
