"""What files that were written for Salt find here in place of Salt's loader.

Errors    Salt's and ours are two families of classes. What leaves a function of theirs, and what a function of ours
          raises to theirs, is made a member of both, so that `except CommandExecutionError` means on either side what
          its author meant, and a call ends with the same text and return code.
Options   `__opts__` has ours, and where one is asked for that we do not have, Salt's defaults for all others.
Calls     of functions that are always ours leave out arguments that have no meaning here.
Depends   what Salt's `depends` has written down about a function of the module is judged as what ours writes down.
Names     of `salt.loader.dunder` mean the same as the injected ones for the time of a call.
Logging   stays as it is: Salt replaces handlers, levels and hooks when it is imported.
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
from saltlite.decorators.dependency import MARK, Requirement, requirements_of
from saltlite.loader.dunders import CrossCalls, Injected, ModuleView
from saltlite.loader.index import SALT_RANK, Index, ModuleFile, index_kept_in
from saltlite.loader.search_path import GRAINS, MODULES, SALT, SALTS, Layer, entry_places, salt_folder

Function = Callable[..., Any]

_PAIRED = ("CommandNotFoundError", "SaltInvocationError", "CommandExecutionError")
"""Classes that both families have; one that is derived from another stands before it."""

_THEIRS = "salt.exceptions"

_MEANINGLESS: Mapping[str, frozenset[str]] = {
    # Of Windows; how progress is shown; and whether a file of http is fetched again, which cp never does.
    "cmd": frozenset({"log_callback", "password", "quite", "use_vt"}),
    "cp": frozenset({"source_hash", "use_etag", "verify_ssl"}),
    "pillar": frozenset({"unmask"}),
}
"""Module of ours -> arguments that Salt's module of that name takes besides, and that change nothing here."""

_UNSAID: Mapping[str, frozenset[str]] = {
    "cmd": frozenset({"bg", "encoded_cmd", "prepend_path", "saltenv", "template"}),
    "cp": frozenset({"exclude_pat", "gzip", "include_empty", "include_pat", "template"}),
}
"""As above, but they change nothing only when they are None, False or empty."""


def bridged(function: Function, names: Mapping[str, Any]) -> Function:
    """The function with its errors in both families; `names` are the dunder names that its module sees."""

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
    """Make an error of one family one of the other, too. Does nothing for any other error."""
    theirs = sys.modules.get(_THEIRS)
    if theirs is None:
        return
    joined = _joined(type(error), theirs)
    if joined is not None:
        # Some classes are made of machine code and cannot be changed; then the error stays what it is.
        with contextlib.suppress(TypeError):
            error.__class__ = joined


def _joined(kind: type[BaseException], theirs: Any) -> type[BaseException] | None:
    """A class of both families that looks like `kind`; None where it is of neither, or of both already."""
    for name in _PAIRED:
        pair = getattr(errors, name), getattr(theirs, name, None)
        if pair[1] is None:
            continue
        is_ours, is_theirs = issubclass(kind, pair[0]), issubclass(kind, pair[1])
        if is_ours and is_theirs:
            return None
        if is_ours or is_theirs:
            more = pair[1] if is_ours else pair[0]
            space = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
            with contextlib.suppress(TypeError):  # no order of the bases is consistent
                return type(kind.__name__, (kind, more), {**space, **_attributes(is_ours=is_ours)})
            return None
    return None


def _attributes(*, is_ours: bool) -> dict[str, Any]:
    """What Salt's own errors carry, and code that catches them reads."""
    text = property(str)
    return {"message": text, "strerror": text, "error": text, "info": None} if is_ours else {}


def adopt_requirements(module: ModuleType) -> None:
    """Note on the functions of a module what Salt's `depends` keeps in a table, by the name of the module."""
    decorators = sys.modules.get("salt.utils.decorators")
    if decorators is None:
        return
    kind, stem = module.__name__.split(".")[-2:]
    space = module.__dict__
    for dependency, uses in getattr(decorators.Depends, "dependency_dict", {}).get(kind, {}).items():
        for (its_stem, name), (frame, said) in list(uses.items()):
            function = space.get(name)
            if its_stem == stem and frame.f_globals is space and inspect.isfunction(function):
                requirement = Requirement(
                    dependencies=(dependency,),
                    fallback=said.get("fallback_function"),
                    version=None if said.get("version") is None else str(said["version"]),
                    retcode=said.get("retcode"),
                    nonzero=said.get("nonzero_retcode"),
                    local={},
                )
                setattr(function, MARK, (requirement, *requirements_of(function)))


class GuestCalls(CrossCalls):
    """`__salt__` as files written for Salt see it: errors of our functions are theirs, too."""

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
    """A function of ours without the arguments that only Salt's has."""
    unsaid = _UNSAID.get(module, frozenset())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("log_callback") is not None:
            kwargs["output_loglevel"] = "quiet"  # it would have taken secrets out of what is logged
        said = {
            name: value
            for name, value in kwargs.items()
            if name not in _MEANINGLESS[module] and (value or name not in unsaid)
        }
        return function(*args, **said)

    return call


class GuestOpts(Injected):
    """`__opts__` as files written for Salt see it; complete as soon as something is looked for that is not there."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        # There is no master that Salt's own client of files could ask, so it must not try.
        super().__init__(opts, file_client="local", __role="minion", grains=grains, pillar=pillar)
        self.setdefault("test", False)
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
            with contextlib.suppress(ImportError, AttributeError):  # no Salt, only an extension
                enter_salt()
                defaults = importlib.import_module("salt.config").DEFAULT_MINION_OPTS.copy()
                for key, value in defaults.items():
                    dict.setdefault(self, key, value)
        return True


def enter_salt() -> None:
    """Import Salt, if there is one, and leave this process as it was. Does nothing the second time."""
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
    """Let the names of `salt.loader.dunder` mean `names` in the block, where something has imported them."""
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
    """What `salt.loader.context` wants to know of a loader."""

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
"""Type -> names that are saltlite's, or nobody's."""


class SaltFiles:
    """The files of one type that were written for Salt. `hidden` are file names that somebody above has taken."""

    def __init__(self, layer: Layer, hidden: frozenset[str]) -> None:
        self._layer = layer
        self._hidden = hidden

    def names(self) -> list[str]:
        """Every virtual name that some file claims, sorted."""
        return [name for name in self._index.names() if any(True for _ in self.claimants(name))]

    def claimants(self, name: str) -> Iterator[ModuleFile]:
        """The files that may provide the virtual name, in the order in which they are asked."""
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
        """Every `module.function` that the files promise, whether or not they will load here; sorted."""
        return sorted({
            f"{name}.{fun}"
            for file in self.files()
            for name in file.claims
            for fun in file.functions
            if not self.is_reserved(name)
        })  # fmt: skip

    def is_reserved(self, name: str) -> bool:
        """Whether no file of Salt may answer to that name."""
        return name in RESERVED.get(self._layer.kind, ())

    def refusal(self, name: str) -> str:
        """Why Salt's function of that name is not to be had, where it has one; else nothing."""
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
        return index_kept_in(_own_file(self._layer.path, f"{SALT}-{kind}"), layers, first_rank=SALT_RANK)


def _own_file(folder: str, name: str) -> str:
    """The file of that name, if the folder above is this user's: what belongs to others is no place to write to."""
    try:
        own = bool(folder) and os.stat(os.path.dirname(folder)).st_uid == os.geteuid()
    except OSError:
        own = False
    return os.path.join(folder, name) if own else ""
