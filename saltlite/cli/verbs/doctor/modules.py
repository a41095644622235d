"""Try out the execution modules and grains of a minion: `python -P -m saltlite.cli.verbs.doctor.modules CONFIG_DIR`.

It runs in a separate process, because modules and grains are third-party code: one that hangs or exits costs only this
finding. It prints one line of JSON for `doctor`; other output of the code goes to stderr.
"""

from __future__ import annotations

import ast
import inspect
import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from saltlite.cli.verbs.doctor.host import ModulesSeen
from saltlite.model.execution import DIRECT, SUDO

if TYPE_CHECKING:
    from saltlite.loader.executors import Chain, Executors


CALLERS = frozenset({DIRECT, SUDO, "dry"})
"""Executors that have a result for every call, so that a chain ends with them."""

TRY_S = 120.0
"""How long all of them together may take."""

_REFUSED = "' __virtual__ returned False"
"""How the loader's sentence about a module that is not for this machine continues."""


def try_modules(config_dir: str) -> ModulesSeen:
    """Run this file on a configuration."""
    # -P: `python -m` would otherwise take modules from the folder that the doctor was called in.
    argv = [sys.executable, "-P", "-m", __name__, config_dir]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=TRY_S, check=True, stdin=subprocess.DEVNULL)
        seen: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return ModulesSeen(problem=f"trying out the execution modules took longer than {TRY_S:g} s")
    except (OSError, subprocess.CalledProcessError, ValueError):
        return ModulesSeen(problem="the process that tried out the execution modules died")
    return ModulesSeen(**seen)


def main(config_dir: str) -> None:
    """Load all modules and the configured executors, and collect the grains, as the minion does.

    What the minion remembers of unchanged files is read, and not written: parsing all of them takes most of the time.
    """
    from saltlite.config.load import load_minion
    from saltlite.config.opts import opts_of
    from saltlite.loader.executors import Executors
    from saltlite.loader.index import index_beside
    from saltlite.loader.loader import Loader
    from saltlite.loader.search_path import search_layers
    from saltlite.model.execution import Execution
    from saltlite.plugins.grains.collect import collect

    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    config = load_minion(config_dir).config
    opts = opts_of(config, config.id)
    grains = collect(opts)
    loader = Loader(index_beside(search_layers(opts), config.cachedir), opts, grains, {})
    silent = loader.not_loaded()
    refused = {stem: sentence for stem, sentence in silent.items() if _REFUSED in sentence}
    broken = {stem: sentence for stem, sentence in silent.items() if stem not in refused}
    executors = Executors(loader)
    chain = executors.chain(Execution(), remote=False)
    seen = {"offered": len(loader.modules()), "refused": refused, "broken": broken, "grains": len(grains)}
    answers.write(json.dumps({**seen, **_executors(executors, chain, config.executors_allowed)}))
    answers.close()


def _executors(executors: Executors, chain: Chain, allowed: Sequence[str]) -> dict[str, Any]:
    """Problems of the configured executors."""
    unknown = {name: sentence for name in allowed if (sentence := executors.problem_of(name))}
    return {"no_chain": chain.problem, "idle_chain": idle_chain(chain.steps()), "unknown_executors": unknown}


def idle_chain(steps: Sequence[tuple[str, Callable[..., Any]]]) -> str:
    """The part of a chain that has no effect, though all of it loads; "" without one.

    `steps` are names of executors with their functions `execute`.
    """
    names = [name for name, _execute in steps]
    if names and all(_passes_on(execute) for _name, execute in steps):
        return f"no function is called, because none of {', '.join(names)} calls one; put {DIRECT} at the end"
    caller = next((index for index, name in enumerate(names) if name in CALLERS), len(names))
    behind = [name for name in names[caller + 1 :] if name != names[caller]]
    if behind:
        return f"{', '.join(behind)} is never reached: {names[caller]} has a result for every call"
    return ""


def _passes_on(execute: Callable[..., Any]) -> bool:
    """Whether an executor returns only None, so that it never has a result."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(execute)))
    except (OSError, TypeError, SyntaxError):
        return False  # compiled, so unknown
    returned = [item.value for item in ast.walk(tree) if isinstance(item, ast.Return)]
    return all(value is None or (isinstance(value, ast.Constant) and value.value is None) for value in returned)


if __name__ == "__main__":
    main(sys.argv[1])
