"""Modules of the kernel: list, load and remove them.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       modprobe, rmmod
:platform:      Linux
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

__risk__ = {"remove": "remove-module"}

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def available() -> list[str]:
    """The modules that the running kernel has built in or can load, sorted.

    CLI Example: ``saltlite '*' kmod.available``
    """
    folder = f"/lib/modules/{os.uname().release}"
    found = {
        _plain(os.path.basename(line)) for line in _machinefiles.read_if_there(f"{folder}/modules.builtin").splitlines()
    }
    for _, _, files in os.walk(_machinefiles.place(folder)):
        found.update(_plain(file) for file in files if re.search(r"\.ko(\.\w+)?$", file))
    return sorted(found)


def check_available(mod: str) -> bool:
    """Whether the running kernel has a module.

    CLI Example: ``saltlite '*' kmod.check_available kvm``
    """
    return _same(mod) in map(_same, available())


def lsmod() -> list[dict[str, Any]]:
    """The loaded modules: a list of ``{module, size, depcount, deps}``.

    CLI Example: ``saltlite '*' kmod.lsmod``
    """
    found = []
    for line in _machinefiles.read_if_there("/proc/modules").splitlines():
        columns = line.split()
        deps = [name for name in columns[3].split(",") if name not in {"", "-", "[permanent]"}]
        found.append({"size": columns[1], "module": columns[0], "depcount": columns[2], "deps": deps})
    return found


def mod_list(only_persist: bool = False) -> list[str]:
    """The names of the loaded modules, or of those that this module has configured to be loaded at every boot.

    CLI Example::

        saltlite '*' kmod.mod_list
        saltlite '*' kmod.mod_list only_persist=True
    """
    if not only_persist:
        return sorted(row["module"] for row in lsmod())
    lines = _machinefiles.read_if_there(_config()).splitlines()
    return sorted({line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")})


def load(mod: str, persist: bool = False, test: bool = False) -> list[str] | str:
    """Load a module: the names of all modules that were loaded, or an error message.

    ``persist`` also loads it at every boot. ``test=True`` reports what would be loaded.

    CLI Example: ``saltlite '*' kmod.load kvm``
    """
    name = _checked(mod)
    before = set(mod_list())
    done = _programs.run(["modprobe", *(["-n"] if test else []), "--", name])
    if done.retcode:
        __context__["retcode"] = 1
        return f"Error loading module {name}: {done.reason()}"
    if test:
        return [] if _same(name) in before else [name]
    loaded = set(mod_list()) - before
    return sorted(loaded | _persist(name) if persist else loaded)


def is_loaded(mod: str) -> bool:
    """Whether a module is loaded.

    CLI Example: ``saltlite '*' kmod.is_loaded kvm``
    """
    return _same(mod) in map(_same, mod_list())


def remove(mod: str, persist: bool = False, comment: bool = True, test: bool = False) -> list[str] | str:
    """Remove a module: its name in a list, or an error message.

    ``persist`` also stops loading it at boot: its line is commented out, or removed with ``comment=False``.
    ``test=True`` removes nothing.

    CLI Example: ``saltlite '*' kmod.remove kvm``
    """
    name = _checked(mod)
    before = set(mod_list())
    if test:
        return [name] if _same(name) in map(_same, before) else []
    done = _programs.run(["rmmod", "--", name])
    if done.retcode:
        __context__["retcode"] = 1
        return f"Error removing module {name}: {done.reason()}"
    removed = before - set(mod_list())
    return sorted(removed | _stop_persisting(name, comment=comment) if persist else removed)


def _persist(name: str) -> set[str]:
    """Configure the module to be loaded at boot; the names that were added."""
    if _same(name) in map(_same, mod_list(only_persist=True)):
        return set()
    path = _config()
    lines = _machinefiles.read_if_there(path).splitlines()
    commented_out = rf"\s*#\s*{re.escape(name)}\s*"
    if any(re.fullmatch(commented_out, line) for line in lines):
        lines = [name if re.fullmatch(commented_out, line) else line for line in lines]
    else:
        lines.append(name)
    _machinefiles.replace(path, "".join(f"{line}\n" for line in lines))
    return {name}


def _stop_persisting(name: str, *, comment: bool) -> set[str]:
    path = _config()
    lines = _machinefiles.read_if_there(path).splitlines()
    kept = []
    for line in lines:
        if _same((line.split() or [""])[0]) != _same(name):
            kept.append(line)
        elif comment:
            kept.append(f"#{line}")
    if kept == lines:
        return set()
    _machinefiles.replace(path, "".join(f"{line}\n" for line in kept))
    return {name}


def _config() -> str:
    systemd = os.path.isdir(_machinefiles.place("/run/systemd/system"))
    return "/etc/modules-load.d/salt_managed.conf" if systemd else "/etc/modules"


def _checked(mod: Any) -> str:
    if not _NAME.fullmatch(str(mod)):
        raise SaltInvocationError(f"{mod!r} cannot be the name of a module of the kernel.")
    return str(mod)


def _plain(file: str) -> str:
    return re.sub(r"\.ko(\.\w+)?$", "", file).replace("-", "_")


def _same(name: str) -> str:
    """The name with underscores: the kernel treats hyphens and underscores alike."""
    return str(name).replace("-", "_")
