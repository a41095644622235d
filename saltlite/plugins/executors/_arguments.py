"""Arguments of a call with secrets hidden, for logs and reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltlite.model.redaction import without_secrets

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def shown(
    func: Callable[..., Any] | str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments and keyword arguments; values of parameters named like secrets are replaced."""
    try:
        parameters = [] if isinstance(func, str) else list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):  # some functions in machine code have no signature
        parameters = []
    names = [one.name for one in parameters if one.kind in _BY_PLACE]
    names += [""] * (len(args) - len(names))
    found: dict[str, Any] = without_secrets(kwargs)
    return [without_secrets(one, name) for one, name in zip(args, names, strict=False)], found
