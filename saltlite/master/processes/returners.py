"""Which returners a master has, and how the process of one begins."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.config.master import MasterConfig
from saltlite.config.opts import opts_of
from saltlite.errors import RefusedError, StartupError
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.master.processes.returner import Returner, Wanted
from saltlite.master.store.ports import Store
from saltlite.model.clock import Clock
from saltlite.platform.cursor import CursorFile
from saltlite.platform.privileges import drop_to
from saltlite.platform.trust import require_trusted

RETURNERS = "returners"


def run_returner(
    config: MasterConfig,
    name: str,
    cursor: CursorFile,
    open_store: Callable[[], Store],
    clock: Clock,
    ready: Callable[[], None],
) -> None:
    """The process of that returner, until it is told to stop, which may be at any moment.

    Raises StartupError when there is no such returner.
    """
    functions = _loaded(config, name)
    drop_to(config.user)
    # Whatever its function does at that moment: what it has not acknowledged comes again.
    signal.signal(signal.SIGTERM, lambda _signum, _frame: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wanted = Wanted(
        name,
        every_return=name in config.master_returners,
        events=name in config.event_return,
        tags=config.event_return_whitelist,
        not_tags=config.event_return_blacklist,
    )
    returner = Returner(open_store(), clock, functions, wanted, cursor)
    ready()
    returner.run()


def _loaded(config: MasterConfig, name: str) -> Mapping[str, Callable[..., Any]]:
    """Its functions, loaded: afterwards the process may have no way to their files."""
    opts = opts_of(config, "master")
    try:
        require_trusted([*config.module_dirs, *config.returner_dirs, config.extension_modules])
    except RefusedError as error:
        raise StartupError(f"no returner can be loaded: {error}") from error
    loader = Loader(build_index(search_layers(opts, RETURNERS)), opts, {}, {})
    needs = [f"{name}.event_return"] if name in config.event_return else []
    if name not in config.event_return or name in config.master_returners:
        needs.append(f"{name}.returner")
    for function in needs:
        if function not in loader:
            reason = loader.not_loaded().get(name, "no file among the folders of returners has that function")
            raise StartupError(f"the configuration names the returner {name!r}, which lacks {function}: {reason}")
    return loader
