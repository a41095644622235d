"""Runs files that were written for Salt: `SaltFiles` finds them, the rest replaces Salt's loader for them.

Errors    An error that crosses between Salt's functions and ours becomes an instance of both class families, so that
          `except CommandExecutionError` works on either side and a call has the same text and return code.
Options   `__opts__` has our options, and Salt's defaults for those that we do not have.
Calls     of shipped functions drop arguments that have no meaning here.
Depends   requirements of Salt's `depends` are checked like ours.
Names     of `salt.loader.dunder` refer to the injected ones during a call.
Logging   is restored: Salt replaces handlers, levels and hooks when it is imported.

Salt's files rank below all others: those of installed extensions first, then Salt's own. They are found and read only
when a job asks for a function that no other file offers; daemons hold nothing of them. `cachedir` keeps the scan.
Salt's modules named in RESERVED talk to Salt's daemons or loader, which do not exist here, and are never loaded.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from saltlite import errors
from saltlite.decorators import MARK, Requirement, requirements_of
from saltlite.loader.dunders import LazyFunctions, ModuleView
from saltlite.loader.index import SALT_RANK, Index, ModuleFile, cached_index_at
from saltlite.loader.plugin_opts import PluginOpts
from saltlite.loader.search_path import GRAINS, MODULES, SALT, SALTS, Layer, entry_places, salt_folder
from saltlite.model.salt_defaults import MINION

Function = Callable[..., Any]

_PAIRED = {
    "CommandNotFoundError": "CommandNotFoundError",
    "SaltInvocationError": "SaltInvocationError",
    "CommandExecutionError": "CommandExecutionError",
    "SaltException": "SaltliteError",
}
"""Salt's class -> ours, derived ones first."""

_THEIRS = "salt.exceptions"

_MEANINGLESS: Mapping[str, frozenset[str]] = {
    # They concern Windows, progress display, and repeated downloads over HTTP, which cp never does.
    "cmd": frozenset({"log_callback", "password", "quite", "use_vt"}),
    "cp": frozenset({"source_hash", "use_etag", "verify_ssl"}),
    "pillar": frozenset({"unmask"}),
}
"""Shipped module -> further arguments of Salt's module of that name, which change nothing here."""

_UNSAID: Mapping[str, frozenset[str]] = {
    "cmd": frozenset({"bg", "encoded_cmd", "prepend_path", "saltenv", "template"}),
    "cp": frozenset({"exclude_pat", "gzip", "include_empty", "include_pat", "template"}),
}
"""As above, for arguments that change nothing if they are None, False or empty."""


def bridged(function: Function, names: Mapping[str, Any]) -> Function:
    """The function with errors of both families; `names` are the dunder names of its module."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _dunders(names):
            try:
                value = function(*args, **kwargs)
            except Exception as error:
                join_families(error)
                raise
        return _bridged_items(value) if inspect.isgenerator(value) else value

    return call


def _bridged_items(items: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from items
    except Exception as error:
        join_families(error)
        raise


def join_families(error: BaseException) -> None:
    """Make an error of one family an instance of the other, too. Does nothing for other errors."""
    theirs = sys.modules.get(_THEIRS)
    if theirs is None:
        return
    joined = _joined(type(error), theirs)
    if joined is not None:
        # Classes of machine code cannot be changed; the error stays as it is then.
        with contextlib.suppress(TypeError):
            error.__class__ = joined


def _joined(kind: type[BaseException], theirs: Any) -> type[BaseException] | None:
    """A class of both families that looks like `kind`; None if it belongs to neither or to both already."""
    for name, ours in _PAIRED.items():
        pair = getattr(errors, ours), getattr(theirs, name, None)
        if pair[1] is None:
            continue
        is_ours, is_theirs = issubclass(kind, pair[0]), issubclass(kind, pair[1])
        if is_ours and is_theirs:
            return None
        if is_ours or is_theirs:
            more = pair[1] if is_ours else pair[0]
            space = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
            with contextlib.suppress(TypeError):  # no order of the bases is consistent
                return type(kind.__name__, (kind, more), space)
            return None
    return None


def adopt_requirements(module: ModuleType) -> None:
    """Copy the requirements of Salt's `depends`, kept in a table by module name, to the functions of a module."""
    depends = getattr(sys.modules.get("salt.utils.decorators"), "Depends", None)
    kind, stem = module.__name__.split(".")[-2:]
    space = module.__dict__
    for dependency, uses in getattr(depends, "dependency_dict", {}).get(kind, {}).items():
        for (its_stem, name), (frame, given) in list(uses.items()):
            function = space.get(name)
            if its_stem == stem and frame.f_globals is space and inspect.isfunction(function):
                requirement = Requirement(
                    dependencies=(dependency,),
                    fallback=given.get("fallback_function"),
                    version=None if given.get("version") is None else str(given["version"]),
                    retcode=given.get("retcode"),
                    nonzero=given.get("nonzero_retcode"),
                    local={},
                )
                setattr(function, MARK, (requirement, *requirements_of(function)))


class CompatFunctions(LazyFunctions):
    """`__salt__` for files written for Salt: our errors are Salt's, too."""

    def __init__(self, calls: Mapping[str, Function]) -> None:
        super().__init__(lambda: calls)

    def __getitem__(self, name: str) -> Function:
        function = super().__getitem__(name)
        module = name.partition(".")[0]
        return bridged(_translated(function, module) if module in _MEANINGLESS else function, {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return ModuleView(self, name)


def _translated(function: Function, module: str) -> Function:
    """A shipped function that ignores the arguments which only Salt's function has."""
    unsaid = _UNSAID.get(module, frozenset())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("log_callback") is not None:
            kwargs["output_loglevel"] = "quiet"  # the callback would have removed secrets from the log
        used = {
            name: value
            for name, value in kwargs.items()
            if name not in _MEANINGLESS[module] and (value or name not in unsaid)
        }
        return function(*args, **used)

    return call


class CompatOpts(PluginOpts):
    """`__opts__` where Salt is installed: its defaults are added at the first access to an option that is missing."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        super().__init__(opts, grains, pillar)
        self["file_client"] = "local"  # Salt's own file client has no master to ask
        self._whole = False

    def __missing__(self, key: str) -> Any:
        self._complete()
        return dict(self)[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (self._complete() and super().__contains__(key))

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return super().__iter__()

    def keys(self) -> Any:
        self._complete()
        return super().keys()

    def values(self) -> Any:
        self._complete()
        return super().values()

    def items(self) -> Any:
        self._complete()
        return super().items()

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __len__(self) -> int:
        self._complete()
        return super().__len__()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def _complete(self) -> bool:
        if not self._whole:
            self._whole = True
            with contextlib.suppress(ImportError, AttributeError):  # an extension without Salt
                enter_salt()
                name = f"DEFAULT_{str(dict.get(self, '__role', MINION)).upper()}_OPTS"
                defaults = getattr(importlib.import_module("salt.config"), name).copy()
                for key, value in defaults.items():
                    dict.setdefault(self, key, value)
        return True


def enter_salt() -> None:
    """Import Salt, if it is installed, and restore the logging of this process. Does nothing the second time."""
    if "salt" in sys.modules:
        return
    root = logging.getLogger()
    before = root.level, list(root.handlers), sys.excepthook, logging.getLoggerClass(), warnings.showwarning
    with warnings.catch_warnings(), contextlib.suppress(ImportError):
        importlib.import_module("salt")
        importlib.import_module("salt._logging")
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    sys.excepthook = before[2]
    logging.setLoggerClass(before[3])
    warnings.showwarning = before[4]


@contextlib.contextmanager
def _dunders(names: Mapping[str, Any]) -> Iterator[None]:
    """Let `salt.loader.dunder`, if it was imported, refer to `names` inside the block."""
    place = sys.modules.get("salt.loader.context")
    if place is None or not names:
        yield
        return
    token = place.loader_ctxvar.set(_LoaderOfSalt(names))
    try:
        yield
    finally:
        place.loader_ctxvar.reset(token)


class _LoaderOfSalt:
    """The attributes of a loader that `salt.loader.context` reads."""

    pack_self = ""
    parent_loader = None

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.pack = names
        self.opts = names["__opts__"]


RESERVED: Mapping[str, frozenset[str]] = {
    MODULES: frozenset({
        "beacons", "cmd", "config", "cp", "event", "grains", "mine", "pillar", "publish", "saltutil", "schedule",
        "state", "sys", "test",
    }),
    GRAINS: frozenset({"minion_process"}),
}  # fmt: skip
"""Plug-in type -> names that no file of Salt may provide."""


class SaltFiles:
    """The files of one plug-in type that were written for Salt; `hidden` holds file names taken by higher layers."""

    def __init__(self, layer: Layer, hidden: frozenset[str]) -> None:
        self._layer = layer
        self._hidden = hidden

    def names(self) -> list[str]:
        """Every virtual name that some file claims, sorted."""
        return [name for name in self._index.names() if any(True for _ in self.claimants(name))]

    def claimants(self, name: str) -> Iterator[ModuleFile]:
        """The files that may provide the virtual name, in order of precedence."""
        if not self.is_reserved(name):
            yield from (file for file in self._index.claimants(name) if file.stem not in self._hidden)

    def file(self, stem: str) -> ModuleFile | None:
        """The file with that file name (without `.py`)."""
        return None if stem in self._hidden else self._index.file(stem)

    def files(self) -> list[ModuleFile]:
        """All files that may be loaded."""
        return [
            file
            for file in self._index.files
            if file.stem not in self._hidden and not all(map(self.is_reserved, file.claims))
        ]

    def function_names(self) -> list[str]:
        """Every `module.function` in the text of the files, sorted, whether or not they load here."""
        return sorted({
            f"{name}.{fun}"
            for file in self.files()
            for name in file.claims
            for fun in file.functions
            if not self.is_reserved(name)
        })  # fmt: skip

    def is_reserved(self, name: str) -> bool:
        """Whether no file of Salt may provide that name."""
        return name in RESERVED.get(self._layer.kind, ())

    def refusal(self, name: str) -> str:
        """Why Salt's function of that name is not loaded; "" if Salt has none."""
        module, _, function = name.partition(".")
        if self.is_reserved(module) and any(function in file.functions for file in self._index.claimants(module)):
            return f"Salt has it; its own module {module!r} is never loaded here"
        return ""

    @functools.cached_property
    def _index(self) -> Index:
        kind = self._layer.kind
        places = entry_places(SALTS, kind)
        if salt_folder():
            places.append((SALT, os.path.join(salt_folder(), kind)))
        layers = [Layer(name, path, kind, self._layer.forms, installed=True) for name, path in places]
        return cached_index_at(_own_file(self._layer.path, f"{SALT}-{kind}"), layers, first_rank=SALT_RANK)


def _own_file(folder: str, name: str) -> str:
    """The path of that name, if the folder above belongs to this user; else ""."""
    try:
        own = bool(folder) and os.stat(os.path.dirname(folder)).st_uid == os.geteuid()
    except OSError:
        own = False
    return os.path.join(folder, name) if own else ""
