"""`salt.utils.powershell`: modules of PowerShell."""

from __future__ import annotations

import logging
import os

from saltlite.salt.utils.path import os_walk

log = logging.getLogger(__name__)

_ENDINGS = (".psd1", ".psm1", ".cdxml", ".xaml", ".dll")


def module_exists(name: str) -> bool:
    """Whether a module is installed."""
    return name in get_modules()


def get_modules() -> list[str]:
    """The names of the modules in PSModulePath or, without it, in the usual folders."""
    home = os.environ.get("HOME", "")
    usual = f"{home}/.local/share/powershell/Modules;/usr/local/share/powershell/Modules"
    roots = [path for path in os.environ.get("PSModulePath", usual).split(";") if os.path.isdir(path)]
    if not roots:
        log.error("Default paths not found")
    found: dict[str, None] = {}
    for root in roots:
        for folder, inner, names in os_walk(root):
            name = os.path.basename(os.path.normpath(folder))
            stems = [stem.lower() for stem, ending in map(os.path.splitext, names) if ending.lower() in _ENDINGS]
            if name.lower() in stems:
                found[name] = None
                inner.clear()  # a module has no others in it
    return list(found)
