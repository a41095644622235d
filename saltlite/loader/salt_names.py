"""Serves `salt.*` to users' files where no Salt is installed.

    import salt.utils.files          saltlite/salt/utils/files.py
    import salt.utils.cloud          a module of ELSEWHERE
    import salt.modules.cmdmod       the shipped functions, see `_functions_of`
    import salt.runner               ModuleNotFoundError with the reason of ABSENT

A finder at the front of `sys.meta_path` answers for these names, from the moment a process builds its first file that
does not ship with saltlite. An installed Salt goes first: the finder then serves `salt.interfaces` only, which no Salt
has. A package `salt` that is not a whole Salt cannot hide these modules; it only adds those that are missing here.

The module under Salt's name and ours are one object, so that an error has one class. A file that replaces one of
these modules, or a function in it, is named in the log, and the replacement is undone: other files go on.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

from saltlite.loader.search_path import partial_salt_folder, salt_is_installed

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:
    # The import system asks for methods, not for these classes, which load pathlib and urllib, 0.6 MiB.
    Loader = MetaPathFinder = object

log = logging.getLogger(__name__)

HOME = "saltlite.salt"
"""The package of the modules that are served."""

ELSEWHERE: Mapping[str, str] = {
    "salt.cloud.libcloudfuncs": "saltlite.cloud.api.libcloudfuncs",
    "salt.interfaces": "saltlite.interfaces",
    **{f"salt.interfaces.{name}_module": f"saltlite.interfaces.{name}" for name in (
        "group", "pkg", "service", "shadow", "user",
    )},
    "salt.utils.cloud": "saltlite.cloud.api.cloud",
}  # fmt: skip
"""Modules of Salt that have their place in another package of saltlite."""

_DAEMONS = "it talks to Salt's own daemons"
_STATES = "saltlite runs functions and has no states"
_WINDOWS = "it is for Windows, which saltlite has no minion for"
ABSENT: Mapping[str, str] = {
    "salt.auth": "its users and rights are those of Salt's master",
    "salt.beacons": "saltlite has no beacons",
    "salt.channel": _DAEMONS,
    "salt.cli": "the commands are saltlite's",
    "salt.client.ssh": "hosts without a minion are resources of the type ssh",
    "salt.crypt": "keys and sessions are saltlite's own",
    "salt.daemons": _DAEMONS,
    "salt.engines": "saltlite has no engines",
    "salt.fileserver": "the file server is saltlite's own",
    "salt.key": "keys are saltlite's own",
    "salt.master": _DAEMONS,
    "salt.minion": _DAEMONS,
    "salt.platform.win": _WINDOWS,
    "salt.proxy": "saltlite has resource types in place of proxy minions",
    "salt.runner": _DAEMONS,
    "salt.runners": _DAEMONS,
    "salt.states": _STATES,
    "salt.transport": _DAEMONS,
    "salt.wheel": _DAEMONS,
    **{f"salt.utils.{name}": _WINDOWS for name in (
        "win_chcp", "win_dacl", "win_dotnet", "win_functions", "win_lgpo_auditpol", "win_lgpo_netsh", "win_lgpo_reg",
        "win_network", "win_osinfo", "win_pdh", "win_pwsh", "win_reg", "win_runas", "win_service", "win_system",
        "win_update", "winapi",
    )},
}  # fmt: skip
"""Modules that cannot exist without Salt, with their submodules, and why."""


def is_ours_alone(name: str) -> bool:
    """Whether only Salt's RFC of 2018 has the module, so that an installed Salt does not provide it."""
    return name == "salt.interfaces" or name.startswith("salt.interfaces.")


def is_salt_name(name: str) -> bool:
    """Whether the module `name` belongs to Salt."""
    return name == "salt" or name.startswith("salt.")


def why_absent(name: str) -> str:
    """The sentence for a module, or a name of a module, that saltlite does not provide."""
    reason = next((ABSENT[part] for part in _with_parents(name) if part in ABSENT), "")
    return f"saltlite has no {name}{': ' if reason else ''}{reason}; install Salt beside saltlite, or do without it"


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


_served: dict[str, tuple[ModuleType, dict[str, Any]]] = {}
"""Salt's name -> the module, and its functions and classes when it was first served."""


class SaltFinder(MetaPathFinder):
    """Finds the modules that saltlite serves under Salt's names."""

    stands_in_for = "salt"

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for a name of Salt that nothing here provides."""
        if not is_salt_name(fullname):
            return None
        if is_ours_alone(fullname):
            return _spec(fullname)
        is_ours = not salt_is_installed() if fullname == "salt" else _is_served("salt")
        return _spec(fullname) if is_ours else None


def _is_served(name: str) -> bool:
    return name in _served and sys.modules.get(name) is _served[name][0]


FINDER = SaltFinder()


def serve_salt_names() -> None:
    """Let this process import `salt.*`; does nothing the second time."""
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
        # Salt's files read it without importing it.
        vars(builtins).setdefault("__salt_system_encoding__", sys.getdefaultencoding())


class _Served(Loader):
    """Gives an imported module a further name."""

    def __init__(self, provide: Callable[[], ModuleType]) -> None:
        self._provide = provide
        self._own_spec: ModuleSpec | None = None

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        module = self._provide()
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        name = module.__spec__.name if module.__spec__ else module.__name__
        module.__spec__ = self._own_spec  # the import system has put that of the further name in its place
        if module.__name__.startswith(HOME):
            module.__dict__.setdefault("__getattr__", partial(_attribute, name))
        _served[name] = module, {key: value for key, value in vars(module).items() if callable(value)}


def _spec(name: str) -> ModuleSpec:
    """Raises ModuleNotFoundError."""
    own = ELSEWHERE.get(name) or _own_name(name)
    if own:
        return ModuleSpec(name, _Served(partial(importlib.import_module, own)), is_package=False)
    above, _, last = name.rpartition(".")
    if above == "salt.modules":
        functions = _functions_of(last)
        if functions is not None:
            return ModuleSpec(name, _Served(lambda: functions))
    elsewhere = _in_partial_salt(name)
    if elsewhere is not None:
        return elsewhere
    raise ModuleNotFoundError(why_absent(name), name=name)


def _own_name(name: str) -> str:
    """Where the module is in HOME; "" if it is not."""
    own = HOME + name[len("salt") :]
    try:
        return own if importlib.util.find_spec(own) is not None else ""
    except ModuleNotFoundError:
        return ""  # its package is not there either


def _attribute(module: str, name: str) -> object:
    """A name that a served module lacks: its submodule, as `salt.utils.path` after `import salt.utils`."""
    if not name.startswith("__"):
        full = f"{module}.{name}"
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
    raise AttributeError(why_absent(f"{module}.{name}"))


def _in_partial_salt(name: str) -> ModuleSpec | None:
    """A module that only a package `salt` of the user has, such as `salt.utils.ours`."""
    folder = partial_salt_folder()
    if not folder:
        return None
    inside = name.split(".")[1:-1]
    return PathFinder.find_spec(name, [os.path.join(folder, *inside)])


def _functions_of(stem: str) -> ModuleType | None:
    """A module with the functions that saltlite ships for Salt's module of that file name, as `cmdmod`; None if there
    are none."""
    shipped: Any = importlib.import_module(f"{HOME}.modules")
    if not shipped.has_functions(stem):
        return None

    def function(name: str) -> object:
        found = None if name.startswith("__") else shipped.function_of(stem, name)
        if found is None:
            raise AttributeError(why_absent(f"salt.modules.{stem}.{name}"))
        return found

    module = ModuleType(f"{HOME}.modules.{stem}", f"The functions of `{stem}` that saltlite ships.")
    module.__dict__["__getattr__"] = function
    return module


class UtilsAndLibrary(Mapping[str, Callable[..., Any]]):
    """`__utils__`: the functions of the plug-ins of the type `utils` and, behind them, those of Salt's library.

    Only the plug-ins are listed. With a Salt that is installed, its files are plug-ins, and go first.
    """

    def __init__(self, plugins: Mapping[str, Callable[..., Any]]) -> None:
        self._plugins = plugins

    def __getitem__(self, name: str) -> Callable[..., Any]:
        try:
            return self._plugins[name]
        except KeyError:
            found = _library_function(name)
            if found is None:
                raise
            return found

    def __contains__(self, name: object) -> bool:
        return name in self._plugins or (isinstance(name, str) and _library_function(name) is not None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugins, name)


def _library_function(name: str) -> Callable[..., Any] | None:
    """`files.fopen` of `salt.utils.files`; None if there is none."""
    module, _, function = name.rpartition(".")
    own = _own_name(f"salt.utils.{module}") if module and not function.startswith("_") else ""
    found = getattr(importlib.import_module(own), function, None) if own else None
    return found if callable(found) else None


def undo_replacements(path: str) -> None:
    """Restore what the file at `path` replaced of the modules served here, and name it in the log."""
    for name, (module, attributes) in _served.items():
        if sys.modules.get(name, module) is not module:
            sys.modules[name] = module
            log.warning("%s replaced the module %s in sys.modules; other files get saltlite's again.", path, name)
        space = vars(module)
        for key, value in attributes.items():
            if space.get(key) is not value:
                space[key] = value
                log.warning("%s replaced %s.%s; other files get saltlite's again.", path, name, key)
