"""The module `file` as a job calls it."""

from __future__ import annotations

from typing import Any

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

_LOADER = Loader(build_index(search_layers({})), {}, {}, {})


def run(function: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call `file.<function>`."""
    return call(_LOADER, f"file.{function}", args, kwargs)


def done(function: str, *args: Any, **kwargs: Any) -> Any:
    """What `file.<function>` returns; it has to succeed."""
    outcome = run(function, *args, **kwargs)
    assert outcome.retcode == 0, outcome.value
    return outcome.value


def refusal(function: str, *args: Any, **kwargs: Any) -> str:
    """The sentence of `file.<function>`, which has to fail."""
    outcome = run(function, *args, **kwargs)
    assert outcome.retcode == 1, outcome.value
    return str(outcome.value)
