"""The modules of one loader: loads each file at most once, and picks the providers of a virtual name.

Providers
- A name claimed in a file's text costs the loading of its claimants only; any other name costs the loading of all files
  that compute their name.
- One layer has one provider of a name: the first claimant, in the order of `Index.claimants`, that loads and answers
  to it.
- Between layers the higher one wins function by function, and the lower one adds missing functions, unless the higher
  one sets `__replace__ = True`.
- Of Salt's own files and its extensions (`saltlite.loader.salt_compat`), only the file of the same name adds functions
  to a shipped one: two implementations are never mixed. A name that saltlite does not provide has the functions of all
  files that answer to it, as in Salt: `apache` is two files on Debian.
- The option `providers` assigns a virtual name to one file, without calling its `__virtual__`.
- A file that failed is not loaded again by this loader. Its failure is logged once: a syntax error by the index, any
  other here.

Names: what `__virtual__` returns, and the name of the module
    (not defined)        `__virtualname__` or the file name; with an interface, the name that it describes
    an interface         `__virtualname__`, or the name that the interface describes
    True, (True, …)      `__virtualname__` or the file name
    "x"                  "x"; with another `__virtualname__` that one, and a warning
    False, (False, why)  none, for that reason
    None or falsy        none, and a warning; an exception: none, with its text
    1 or another object  `__virtualname__`; without one none, and a warning
`__virtual_aliases__` adds names.

Functions: what a module offers
    its own functions and lambdas without a leading underscore, or exactly the callables listed in `__load__` (else
    `__all__`); never classes. `__func_alias__ = {"list_": "list"}` renames a function. An unmet `@depends(…)`
    removes it, or replaces it by its fallback.

Processes: a module may list functions in `__own_process__` (True for all). The process of a job that looks one of them
    up, itself or through another module, runs no other job.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from saltlite.decorators import requirements_of
from saltlite.interfaces import Interface, interface_in, virtual_name
from saltlite.loader.cross_calls import CrossCalls
from saltlite.loader.dunders import LazyFunctions
from saltlite.loader.failure import DeadlineError, Failure, FailureKind, failure_of, is_interruption, load_deadline
from saltlite.loader.index import Index, ModuleFile
from saltlite.loader.module_builder import Interfaces, SubmoduleLoader, build_module, compile_ahead
from saltlite.loader.plugin_opts import PluginOptsOfLoader
from saltlite.loader.search_path import GRAINS, MODULES, SHIPPED, Form, salt_is_installed
from saltlite.model.dataclass import dataclass

if TYPE_CHECKING:
    from saltlite.loader.salt_compat import CompatFunctions

Function = Callable[..., Any]


class ModuleFunctions(Mapping[str, Function]):
    """The functions of one module by the name that callers type.

    Dependencies are checked once, at the first access to a function: a check may run a command.
    """

    def __init__(
        self, module: ModuleType, own_names: frozenset[str], bridge: Callable[[Function], Function] | None = None
    ) -> None:
        """`own_names` are the values of `__module__` of the module's own functions; `bridge` wraps each function."""
        self._space = module.__dict__
        self._bridge = bridge
        self._checked: dict[str, Function | str] = {}
        alias = self._space.get("__func_alias__")
        shown = alias if isinstance(alias, dict) else {}
        self.shown_names = {name: str(shown.get(name, name)) for name in _offered_names(self._space, own_names)}
        """Name in the file -> name that callers type."""
        self._names = {shown: name for name, shown in self.shown_names.items()}

    def constant(self, name: str) -> Any:
        """The module's global of that name, or None."""
        return self._space.get(name)

    def missing_dependency(self, name: str) -> str:
        """What the function needs and this machine lacks, to follow "needs"; "" if nothing."""
        found = self._check(name)
        return found if isinstance(found, str) else ""

    def __getitem__(self, name: str) -> Function:
        found = self._check(name)
        if found is None or isinstance(found, str):
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return callable(self._check(name))

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _check(self, name: object) -> Function | str | None:
        """The function or its fallback, or what it lacks; None for an unknown name."""
        if not isinstance(name, str) or name not in self._names:
            return None
        if name not in self._checked:
            found: Function | str = self._space[self._names[name]]
            for requirement in requirements_of(self._space[self._names[name]]):
                if missing := requirement.missing(self._space):
                    found = requirement.fallback or missing
                    break
            self._checked[name] = found if self._bridge is None or isinstance(found, str) else self._bridge(found)
        return self._checked[name]


def _offered_names(space: Mapping[str, Any], own_names: frozenset[str]) -> list[str]:
    listed = space.get("__load__", space.get("__all__"))
    if isinstance(listed, list | tuple | set | frozenset):
        names = [str(name) for name in listed]
        return [name for name in names if not name.startswith("_") and _may_be_listed(space.get(name))]
    return [name for name, value in list(space.items()) if not name.startswith("_") and _is_own(value, own_names)]


def _is_own(value: Any, own_names: frozenset[str]) -> bool:
    # `isfunction` is false for machine code: Cython's functions have another type.
    machine_code = inspect.isroutine(value) and not inspect.ismethod(value)
    return (inspect.isfunction(value) or machine_code) and getattr(value, "__module__", None) in own_names


def _may_be_listed(value: Any) -> bool:
    return callable(value) and not inspect.isclass(value)


log = logging.getLogger(__name__)


def initialise(module: ModuleType, file: ModuleFile) -> Failure | None:
    """Call the module's `__init__(opts)` if it has one."""
    start = module.__dict__.get("__init__")
    if not callable(start):
        return None
    try:
        with load_deadline():
            start(module.__dict__["__opts__"])
    except DeadlineError as error:
        return failure_of(FailureKind.NOT_LOADED, error, file.path, "__init__: ")
    except BaseException as error:  # supervision point: a broken file is omitted, and never stops the minion
        if is_interruption(error):
            raise
        return failure_of(FailureKind.NOT_LOADED, error, file.path, "__init__ raised ")
    return None


def names_of(module: ModuleType, file: ModuleFile) -> tuple[str, ...] | Failure:
    """The module's virtual names, the main one first."""
    virtual = getattr(module, "__virtual__", None)
    if virtual is None:
        interface = own_interface(module)
        return _with_aliases(module, virtual_name(interface) if interface else file.stem)
    try:
        with load_deadline():
            answer = virtual()
    except BaseException as error:  # supervision point: a broken file is omitted, and never stops the minion
        if is_interruption(error):
            raise
        prefix = "Exception raised when processing __virtual__: "
        return failure_of(FailureKind.REFUSED, error, file.path, prefix)
    return _names_from(module, file, answer)


def _names_from(module: ModuleType, file: ModuleFile, answer: Any) -> tuple[str, ...] | Failure:
    reason = ""
    if isinstance(answer, tuple) and answer:
        reason = str(answer[1]) if len(answer) > 1 else ""
        answer = answer[0]
    answered = interface_in(answer)
    declared = getattr(module, "__virtualname__", None)
    is_name = answer is True or isinstance(answer, str) or answered is not None
    if not answer or not (is_name or declared):
        if answer is not False:
            reason = f"it returned {answer!r} in place of True, False or a name"
            log.warning("%s: __virtual__ %s.", file.path, reason)
        return Failure(FailureKind.REFUSED, reason, file.path)
    if answered is not None:
        module.__dict__.setdefault("__interface__", answered)
        answer = virtual_name(answered)
    if interface := interface_in(declared):
        declared = virtual_name(interface)
    if isinstance(declared, str) and declared:
        if isinstance(answer, str) and answer != declared:
            log.warning(
                "%s: __virtual__ returned %r, and __virtualname__ is %r; the module is offered as %r.",
                file.path,
                answer,
                declared,
                declared,
            )
        return _with_aliases(module, declared)
    return _with_aliases(module, answer if isinstance(answer, str) else file.stem)


def own_interface(module: ModuleType) -> type[Interface] | None:
    """The module's own interface, from `__virtualname__`, `__virtual__` or `__interface__`."""
    space = module.__dict__
    return interface_in(space.get("__virtualname__")) or interface_in(space.get("__interface__"))


def _with_aliases(module: ModuleType, name: str) -> tuple[str, ...]:
    aliases = getattr(module, "__virtual_aliases__", ())
    more = [str(alias) for alias in aliases] if isinstance(aliases, list | tuple) else []
    return (name, *more)


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A loaded module with its virtual names."""

    file: ModuleFile
    names: tuple[str, ...]
    functions: ModuleFunctions
    outputters: Mapping[str, str]
    replaces: bool
    interface: type[Interface] | None
    """The module's own interface."""
    deprecation: str
    """The sentence of `__deprecated__` for every caller, or ""."""
    own_process: frozenset[str]
    """The functions that `__own_process__` names: no other job may follow them in their process."""


class ModuleRegistry:
    """Loads module files for one loader; `names` are the dunder names that each file sees."""

    def __init__(
        self,
        index: Index,
        names: Mapping[str, Any],
        interfaces: Interfaces,
        plugin_opts: PluginOptsOfLoader | None = None,
    ) -> None:
        """`plugin_opts` makes `__opts__` of the files that do not ship; by default from `names`."""
        self.index = index
        self._interfaces = interfaces
        self._names = names
        self._loaded: dict[str, LoadedModule | Failure] = {}
        self._forced_loaded: dict[str, LoadedModule | Failure] = {}
        self._built: list[ModuleType] = []
        given = [names[name] for name in ("__opts__", "__grains__", "__pillar__")]
        self.plugin_opts = plugin_opts or PluginOptsOfLoader(*given)
        self._lock = threading.RLock()
        """Concurrent calls load a file once, and never see it half loaded."""
        opts = names["__opts__"]
        self._disabled = frozenset(str(name) for name in opts.get(f"disable_{index.kind}") or ())
        # The option `providers` applies to execution modules only.
        self._forced = self._forced_files(opts.get("providers") or {}) if index.kind == MODULES else {}

    def providers(self, name: str) -> Iterator[LoadedModule]:
        """The modules that provide a virtual name, in order of precedence; each is loaded when it is reached."""
        for file in self._winners(name, self._answers):
            loaded = self._load_for(file, name)
            if isinstance(loaded, LoadedModule):
                yield loaded

    def winning_files(self, name: str) -> Iterator[ModuleFile]:
        """As `providers`, without loading files that have neither `__virtual__` nor `__init__`."""
        return self._winners(name, self._should_answer)

    def function_names(self, name: str, file: ModuleFile) -> list[str]:
        """The functions of a provider of `name`: those offered if it is loaded, else those in its text."""
        loaded = self._forced_loaded.get(name) if self._forced.get(name) is file else self._loaded.get(file.path)
        return list(loaded.functions) if isinstance(loaded, LoadedModule) else list(file.functions)

    def brings_interface(self, file: ModuleFile) -> bool:
        """Whether the file was loaded and has its own interface."""
        loaded = self._loaded.get(file.path)
        return isinstance(loaded, LoadedModule) and loaded.interface is not None

    def failures(self, name: str) -> list[Failure]:
        """The failures of the files that could have provided `name`."""
        files = list(self._candidates(name))
        own = self._file(name)
        if own is not None and own not in files and own.stem not in self._disabled:
            files.append(own)
        return [loaded for file in files if isinstance(loaded := self._load_for(file, name), Failure)]

    def candidates(self, name: str) -> list[ModuleFile]:
        """The files that may provide the virtual name, in order of precedence."""
        return list(self._candidates(name))

    def load(self, file: ModuleFile) -> LoadedModule | Failure:
        """The module of a file, loaded at the first call."""
        return self._load_once(self._loaded, file.path, file, None)

    def provide(self, dunder: str, value: Any) -> None:
        """Set a dunder name in all loaded modules and the submodules of packages."""
        for module in self._built:
            module.__dict__[dunder] = value
            loader = module.__dict__.get("__loader__")
            if isinstance(loader, SubmoduleLoader):
                loader.provide(dunder, value)

    def load_ahead(self, name: str) -> None:
        """Load the first candidate of the virtual name if it ships and its names do not depend on this machine.

        One that does not ship is only compiled: none of its code runs ahead of a job.
        """
        for file in self._candidates(name):
            if file.layer != SHIPPED:
                compile_ahead(file, self.index.kind, self._interfaces)
                if not self._is_bridged(file):
                    self._names_of(file)  # the processes of jobs share the memory of what it makes
            elif not (file.checked or file.undetermined):
                self._load_for(file, name)
            return

    def is_disabled(self, name: str) -> bool:
        """Whether the configuration disables the virtual name or file name."""
        return name in self._disabled

    def forced_names(self) -> list[str]:
        """Virtual names whose provider the configuration chooses."""
        return sorted(self._forced)

    def _forced_files(self, providers: Mapping[str, str]) -> dict[str, ModuleFile]:
        forced: dict[str, ModuleFile] = {}
        for name, stem in providers.items():
            file = self._file(str(stem)) or self._file(f"{stem}_{name}")  # Salt's manual writes `service: systemd`
            if file is None or (file.is_salt_file and self._is_reserved(str(name))):
                log.error("Option providers: there is no module file %r to provide %r.", stem, name)
            else:
                forced[str(name)] = file
        return forced

    def _candidates(self, name: str) -> Iterator[ModuleFile]:
        if name in self._disabled:
            return
        if name in self._forced:
            yield self._forced[name]
            return
        for file in self.index.all_claimants(name):
            if file.stem not in self._disabled:
                yield file

    def _file(self, stem: str) -> ModuleFile | None:
        found = self.index.file(stem)
        return self.index.salt_files.file(stem) if found is None and self.index.salt_files is not None else found

    def _is_reserved(self, name: str) -> bool:
        return self.index.salt_files is not None and self.index.salt_files.is_reserved(name)

    def _winners(self, name: str, offers: Callable[[ModuleFile, str], bool]) -> Iterator[ModuleFile]:
        won = False
        for file in self._by_layer(self._candidates(name), name, offers):
            won = True
            yield file
        if not won and name not in self._disabled and name not in self._forced:
            rest = (file for file in self.index.undetermined if file.stem not in self._disabled)
            yield from self._by_layer(rest, name, offers)

    @staticmethod
    def _by_layer(
        files: Iterator[ModuleFile], name: str, offers: Callable[[ModuleFile, str], bool]
    ) -> Iterator[ModuleFile]:
        served = -1
        ours = ""
        for file in files:
            if file.is_salt_file and ours and file.stem != ours:
                continue
            if (file.rank != served or (file.is_salt_file and not ours)) and offers(file, name):
                served = file.rank
                ours = file.stem if file.layer == SHIPPED else ours
                yield file
                if file.replaces:
                    return

    def _answers(self, file: ModuleFile, name: str) -> bool:
        loaded = self._load_for(file, name)
        return isinstance(loaded, LoadedModule) and name in loaded.names

    def _should_answer(self, file: ModuleFile, name: str) -> bool:
        if file.checked or file.undetermined or file.path in self._loaded:
            return self._answers(file, name)
        return file.failure is None

    def _load_for(self, file: ModuleFile, name: str) -> LoadedModule | Failure:
        if self._forced.get(name) is not file:
            return self.load(file)
        return self._load_once(self._forced_loaded, name, file, name)

    def _load_once(
        self, known: dict[str, LoadedModule | Failure], key: str, file: ModuleFile, forced_name: str | None
    ) -> LoadedModule | Failure:
        with self._lock:
            if key not in known:
                # A module that needs itself while it loads, directly or through another one, must not recurse.
                reason = "it was asked for while it was being loaded"
                known[key] = Failure(FailureKind.NOT_LOADED, reason, file.path)
                known[key] = self._load(file, forced_name)
            return known[key]

    def _load(self, file: ModuleFile, forced_name: str | None) -> LoadedModule | Failure:
        loaded = self._build(file, forced_name)
        if isinstance(loaded, Failure) and loaded is not file.failure:
            level = logging.DEBUG if loaded.kind is FailureKind.REFUSED else logging.WARNING
            log.log(level, "%s", loaded.sentence(file.stem))
        return loaded

    @functools.cached_property
    def _is_salt_installed(self) -> bool:
        """Looked for once: with other layers, such as Salt's, a daemon has another index and so another loader."""
        return salt_is_installed()

    def _names_of(self, file: ModuleFile) -> Mapping[str, Any]:
        """The dunder names for the file; one that may be written for Salt gets compatible wrappers."""
        if file.layer == SHIPPED:
            return self._names
        bridged = self._is_bridged(file)
        calls = self._calls_bridged if bridged else self._calls
        given = {**self._names, "__opts__": self.plugin_opts.opts(beside_salt=bridged), **calls}
        if file.is_salt_file and self.index.kind == GRAINS:
            del given["__salt__"]  # grain files define their own functions under that name
        return given

    @functools.cached_property
    def _calls(self) -> dict[str, CrossCalls]:
        """All functions that a file can call, by dunder name."""
        return {name: CrossCalls(value) for name, value in self._names.items() if isinstance(value, LazyFunctions)}

    @functools.cached_property
    def _calls_bridged(self) -> dict[str, CompatFunctions]:
        """The same for files that may call Salt."""
        from saltlite.loader.salt_compat import CompatFunctions  # noqa: PLC0415 - most minions have no Salt

        return {name: CompatFunctions(value) for name, value in self._calls.items()}

    def _is_bridged(self, file: ModuleFile) -> bool:
        """Whether the file may call Salt, and be called with its errors."""
        return file.layer != SHIPPED and (file.is_salt_file or self._is_salt_installed)

    def _build(self, file: ModuleFile, forced_name: str | None) -> LoadedModule | Failure:
        if file.failure is not None:
            return file.failure
        try:
            with load_deadline():
                given = self._names_of(file)
                module = build_module(file, self.index.kind, given, self._interfaces)
        except DeadlineError as error:
            return failure_of(FailureKind.NOT_IMPORTED, error, file.path, "its body: ")
        except BaseException as error:  # supervision point: a broken file is omitted, and never stops the minion
            if is_interruption(error):
                raise
            return failure_of(FailureKind.NOT_IMPORTED, error, file.path)
        self._built.append(module)
        failure = initialise(module, file)
        if failure is not None:
            return failure
        names = names_of(module, file) if forced_name is None else (forced_name,)
        if isinstance(names, Failure):
            return names
        machine_code = file.form in (Form.EXTENSION, Form.CYTHON)
        own_names = frozenset({module.__name__, file.stem} if machine_code else {module.__name__})
        functions = ModuleFunctions(module, own_names, _bridge(module, given) if self._is_bridged(file) else None)
        return LoadedModule(
            file=file,
            names=names,
            functions=functions,
            outputters=_outputters(module, functions.shown_names),
            replaces=getattr(module, "__replace__", False) is True,
            interface=_own_interface(module, file, names),
            deprecation=_deprecation(module, names[0]),
            own_process=_own_process(module, functions.shown_names),
        )


def _bridge(module: ModuleType, given: Mapping[str, Any]) -> Callable[[Function], Function]:
    from saltlite.loader.salt_compat import adopt_requirements, bridged  # noqa: PLC0415 - most minions have no Salt

    adopt_requirements(module)
    return functools.partial(bridged, names=given)


def _own_interface(module: ModuleType, file: ModuleFile, names: tuple[str, ...]) -> type[Interface] | None:
    interface = own_interface(module)
    if interface is None or virtual_name(interface) in names:
        return interface
    log.error(
        "%s: SMI003: its interface describes %r, and it is offered as %r: correct __modulename__ or __virtualname__.",
        file.path,
        virtual_name(interface),
        names[0],
    )
    return None


def _deprecation(module: ModuleType, name: str) -> str:
    """The sentence of `__deprecated__ = (version, package, url)`; fewer items say less."""
    declared = getattr(module, "__deprecated__", None)
    if not isinstance(declared, tuple | list) or not declared:
        return ""
    version, package, url = [*map(str, declared[:3]), "", ""][:3]
    sentence = f"The module {name!r} is deprecated and will be removed in version {version}"
    return sentence + (f"; use the package {package!r} instead" if package else "") + (f": {url}" if url else ".")


def _own_process(module: ModuleType, real_names: Mapping[str, str]) -> frozenset[str]:
    """`__own_process__` by shown name; authors list either name, and True means all functions."""
    declared = getattr(module, "__own_process__", ())
    if declared is True:
        return frozenset(real_names.values())
    if not isinstance(declared, tuple | list | set | frozenset):
        return frozenset()
    return frozenset(real_names.get(str(name), str(name)) for name in declared)


def _outputters(module: ModuleType, real_names: Mapping[str, str]) -> dict[str, str]:
    """`__outputter__` by shown name; authors key it by either name."""
    declared = getattr(module, "__outputter__", None)
    if not isinstance(declared, dict):
        return {}
    return {real_names.get(str(name), str(name)): str(outputter) for name, outputter in declared.items()}
