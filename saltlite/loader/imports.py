"""The `import` statement as plug-in files have it: Python's own, and three things more.

- Names of Salt are served by `saltlite.loader.salt_names` where Salt is not installed. `salt.interfaces`, which no Salt
  has, always is.
- `from saltlite.interfaces.pkg import …` (or `salt.interfaces.pkg_module`, as Salt's RFC writes it) finds the plug-in
  files of that type before what ships.
- A zip module may import its own parts by the archive's name, as in `from lumberjack import sleep`.

Each plug-in file has builtins of its own with this `__import__`, so neither can be seen by a library, and both also
work in a function that imports when it is called. `sys.path` and `sys.meta_path` know nothing of them.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from saltlite.loader.salt_names import is_ours_alone, is_salt_name, salt_is_installed, salt_part

Interfaces = Callable[[str], ModuleType | None]
"""The plug-in file of the type `interfaces` with that file name."""

_INTERFACES = ("saltlite.interfaces.", "salt.interfaces.")


def _no_interfaces(_stem: str) -> None:
    """For files that are loaded where there are no plug-ins of that type."""


def plugin_builtins(
    own_name: str = "", module_name: str = "", interfaces: Interfaces = _no_interfaces
) -> dict[str, Any]:
    """Builtins for a plug-in file. `own_name` is what the file calls itself in imports, `module_name` what it is."""

    def plugin_import(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the signature of __import__
        locals: Mapping[str, object] | None = None,  # noqa: A002 - as above
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and own_name and (name == own_name or name.startswith(f"{own_name}.")):
            inside = module_name + name[len(own_name) :]
            leaf = builtins.__import__(inside, globals, locals, fromlist or ("__name__",))
            return leaf if fromlist else builtins.__import__(module_name, globals, locals, ("__name__",))
        if level == 0 and fromlist and name.startswith(_INTERFACES):
            found = _interface(name.rpartition(".")[2], interfaces)
            if found is not None:
                return found
        if level == 0 and is_salt_name(name):
            if is_ours_alone(name) or not salt_is_installed():
                return _salt(name, fromlist or ())
            _enter_salt()
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return {**vars(builtins), "__import__": plugin_import}


def _enter_salt() -> None:
    if "salt" not in sys.modules:
        from saltlite.loader.salt_compat import enter_salt  # noqa: PLC0415 - most minions have no Salt

        enter_salt()


def _salt(name: str, fromlist: Sequence[str]) -> ModuleType:
    """What `import name` or `from name import …` binds. Raises ModuleNotFoundError for a name that we lack."""
    part = salt_part(name)
    if not fromlist:
        return salt_part("salt")
    for wanted in fromlist:
        if wanted != "*" and not hasattr(part, wanted):
            salt_part(f"{name}.{wanted}")
    return part


def _interface(last: str, interfaces: Interfaces) -> ModuleType | None:
    """The plug-in file that `saltlite.interfaces.<last>` means; the RFC puts `_module` behind the virtual name."""
    return interfaces(last) or (interfaces(last.removesuffix("_module")) if last.endswith("_module") else None)
