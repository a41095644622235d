"""The process of the command `saltlite`: it begins without the module site, and ends without taking itself apart.

`saltlite.sh` starts the interpreter with -S and knows one folder of packages. Site adds the others, runs what is in
their `.pth` files, and takes as long as a whole job. `FullPath` runs it as soon as anything is imported that is neither
in the standard library nor in that folder, so that no import fails which would succeed in an ordinary process. Commands
that load plug-ins call `complete_path` first, because plug-ins are looked for in every folder.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import NoReturn

_NEED_AN_ORDINARY_END = ("atexit", "logging", "multiprocessing", "threading")
"""Modules that may have something left to do when the interpreter ends."""


class FullPath:
    """The last finder of modules: what no other has found is looked for again when site has run."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module among the folders that site adds, or None."""
        complete_path()
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, path, target) if path is None else None


def complete_path() -> None:
    """Run site, once, in a process that was started by `saltlite.sh`; elsewhere it has run.

    The folder of packages of somebody else who could write there is left alone, even if HOME points to it.
    """
    if FullPath not in sys.meta_path:
        return
    sys.meta_path.remove(FullPath)
    import site

    if not _is_ours(site.getusersitepackages()):
        site.ENABLE_USER_SITE = False
    site.main()


def _is_ours(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid in (0, os.geteuid())
    except OSError:
        return False


def main() -> NoReturn:
    """Run the command line of this process, and end it with the exit code."""
    if sys.flags.no_site and "site" not in sys.modules:
        sys.meta_path.append(FullPath)
    from saltlite.cli.main import main as run

    code = run()
    if not any(name in sys.modules for name in _NEED_AN_ORDINARY_END):
        _end(code)
    sys.exit(code)


def _end(code: int) -> None:
    """End the process at once, which spares it the freeing of every object. Return when the output has a problem."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
