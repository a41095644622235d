"""What a function is called with, as it may be written down or told: without secrets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltlite.model.redaction import without_secrets

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def shown(
    func: Callable[..., Any] | str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments and keyword arguments, with what goes to a parameter named like a secret replaced."""
    try:
        parameters = [] if isinstance(func, str) else list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):  # of some functions in machine code nothing is known
        parameters = []
    names = [one.name for one in parameters if one.kind in _BY_PLACE]
    names += [""] * (len(args) - len(names))
    found: dict[str, Any] = without_secrets(kwargs)
    return [without_secrets(one, name) for one, name in zip(args, names, strict=False)], found
