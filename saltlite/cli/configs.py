"""Which sides (master, minion) a configuration folder configures, and each side as its daemon reads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from saltlite.config.load import load_master, load_minion
from saltlite.config.paths import DEFAULT_CONFIG_DIR
from saltlite.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.options import Parsed
    from saltlite.config.load import Loaded
    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig

SIDES = ("master", "minion")
ALL = "all"


def config_dir_of(parsed: Parsed) -> str:
    """The folder that `-c` names, or the default one; absolute, so that printed commands work anywhere."""
    given: str = parsed.options.get("config_dir", DEFAULT_CONFIG_DIR)
    return os.path.abspath(given)


def sides_of(words: Sequence[str], config_dir: str) -> tuple[str, ...]:
    """The sides that a command's words name; without a word, or with `all`, those that the folder configures.

    Raises UsageError for another word, ConfigError when the folder configures nothing.
    """
    if len(words) > 1 or (words and words[0] not in (*SIDES, ALL)):
        raise UsageError(f"{' '.join(words)!r} is not a side: say master, minion or all")
    if words and words[0] != ALL:
        return (words[0],)
    found = tuple(side for side in SIDES if is_configured(config_dir, side))
    if not found:
        raise ConfigError(
            f"{config_dir} has neither a file 'master' nor a file 'minion': create one (it may be empty), "
            "or name another folder with -c"
        )
    return found


def is_configured(config_dir: str, side: str) -> bool:
    """Whether the folder has a file or a `.d` folder of that side."""
    main = os.path.join(config_dir, side)
    return os.path.lexists(main) or os.path.lexists(f"{main}.d")


def load_side(config_dir: str, side: str) -> Loaded[MasterConfig] | Loaded[MinionConfig]:
    """The configuration of one side. Raises ConfigError with one line for every problem."""
    return load_master(config_dir) if side == "master" else load_minion(config_dir)


def missing_folders(loaded: Loaded[MasterConfig] | Loaded[MinionConfig]) -> list[str]:
    """`file:line:col: sentence` for every folder of modules that a file names and that does not exist.

    The loader treats such a folder as empty, because it may be created later; in a file it is usually a typo.
    """
    wanted = {
        name: getattr(loaded.config, name) for name in ("module_dirs", "extension_modules") if name in loaded.places
    }
    return [
        f"{loaded.places[name].position()}: '{name}' names {path}, which does not exist: create it, or correct the path"
        for name, value in wanted.items()
        for path in (value if isinstance(value, list) else [value])
        if path and not os.path.isdir(path)
    ]
