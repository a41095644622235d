"""The loader: a mapping of `module.function` to functions, which module files see as `__salt__`.

One loader serves one job, or one `saltlite call`. It imports a module file at the first access to one of its functions.
Loaded modules, `__context__` and failures belong to the loader. `saltlite.loader.failure` has the texts of errors.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from saltlite.decorators import note
from saltlite.interfaces.smi.contract import STUBS, Binding, DeclaredFunction, FunctionState
from saltlite.loader import scan
from saltlite.loader.contracts import Contracts
from saltlite.loader.cross_calls import signature_of
from saltlite.loader.dunders import Context, Injected, LazyFunctions, LocalMatcher
from saltlite.loader.failure import Failure, FunctionUnavailable, join_failures
from saltlite.loader.index import (
    Index,
    ModuleFile,
    build_index,
    cache_stamp,
    is_own_folder,
    module_tree,
    read_cache,
    write_cache,
)
from saltlite.loader.plugin_opts import PluginOptsOfLoader
from saltlite.loader.registry import LoadedModule, ModuleRegistry
from saltlite.loader.salt_names import UtilsAndLibrary
from saltlite.loader.scan import module_constants, shown_names, top_functions
from saltlite.loader.search_path import MODULES, Form, needed_option, search_layers
from saltlite.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Description:
    """One function as `sys.doc` and `sys.argspec` show it.

    `args` ends with the keyword-only arguments. `defaults` belong to the last of `args`; one that is not a literal is
    its source text. `varargs` and `kwargs` are the names of `*args` and `**kwargs`, or None.
    """

    doc: str | None
    args: tuple[str, ...]
    defaults: tuple[Any, ...] | None
    varargs: str | None
    kwargs: str | None


@dataclass(frozen=True, slots=True)
class Documents:
    """The docstring of a module file, and its public functions by the name that callers type.

    They are read from the text, without importing it, and cached in `cachedir`, one file a module. They are not part of
    the index, which every minion holds in memory: only people ask for them, mostly for one module.
    """

    doc: str | None
    functions: Mapping[str, Description]


def read_documents(file: ModuleFile) -> Documents:
    """Read the file once. Raises SyntaxError, OSError and ArchiveError if it changed and cannot be read any more."""
    tree = module_tree(file)
    defined = dict(top_functions(tree))
    shown = shown_names(module_constants(tree), defined)
    return Documents(ast.get_docstring(tree), {shown[name]: _describe(defined[name]) for name in shown})


def _describe(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Description:
    arguments = function.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    keyword_only = [argument.arg for argument in arguments.kwonlyargs]
    defaults = [_value(default) for default in arguments.defaults]
    defaults += [_value(default) for default in arguments.kw_defaults if default is not None]
    return Description(
        doc=None if isinstance(function, ast.Lambda) else ast.get_docstring(function),
        args=tuple(positional + keyword_only),
        defaults=tuple(defaults) or None,
        varargs=arguments.vararg.arg if arguments.vararg else None,
        kwargs=arguments.kwarg.arg if arguments.kwarg else None,
    )


def _has_no_text(file: ModuleFile) -> bool:
    """Whether only the loaded file tells its functions: machine code, and Cython that is no Python."""
    return file.form is Form.EXTENSION or (file.form is Form.CYTHON and file.undetermined)


def _description_of(function: Callable[..., Any]) -> Description:
    """The description of a loaded function."""
    signature = signature_of(function)
    if signature is None:
        return Description(inspect.getdoc(function), (), None, "args", "kwargs")
    return replace(_description_of_signature(signature), doc=inspect.getdoc(function))


def _description_of_signature(signature: inspect.Signature) -> Description:
    found = list(signature.parameters.values())
    named = [one for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named += [one for one in found if one.kind is one.KEYWORD_ONLY]
    rest = {one.kind: one.name for one in found}
    return Description(
        doc=None,
        args=tuple(one.name for one in named),
        defaults=tuple(one.default for one in named if one.default is not one.empty) or None,
        varargs=rest.get(inspect.Parameter.VAR_POSITIONAL),
        kwargs=rest.get(inspect.Parameter.VAR_KEYWORD),
    )


def _value(default: ast.expr) -> Any:
    try:
        return ast.literal_eval(default)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ast.unparse(default)


def cached_documents(file: ModuleFile, cachedir: str, kind: str) -> Documents:
    """The documents of a module file, read from `cachedir` or written to it. Raises as `read_documents`."""
    if not is_own_folder(cachedir):
        return read_documents(file)
    path = os.path.join(cachedir, "index", f"{kind}.docs", file.stem)
    stamp = [*cache_stamp(__file__, scan.__file__), file.path, file.mtime_ns, file.size]
    found = read_cache(path, stamp, _documents)
    if found is None:
        found = read_documents(file)
        with contextlib.suppress(OSError, ValueError):  # a docstring may hold half of a surrogate pair
            write_cache(path, stamp, found.doc, {name: _row(one) for name, one in found.functions.items()})
    return found


def _row(found: Description) -> list[Any]:
    # As text where msgpack would not restore the type, such as a tuple for a list.
    plain = found.defaults is None or all(isinstance(one, str | int | float | None) for one in found.defaults)
    defaults = found.defaults if plain and not _is_large(found.defaults) else repr(found.defaults)
    return [found.doc, found.args, defaults, found.varargs, found.kwargs]


def _is_large(defaults: tuple[Any, ...] | None) -> bool:
    """Whether a number is too large for msgpack."""
    return any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in defaults or ())


def _documents(doc: str | None, rows: Mapping[str, tuple[Any, ...]]) -> Documents:
    return Documents(doc, {name: _description(*row) for name, row in rows.items()})


def _description(doc: str | None, args: tuple[str, ...], defaults: Any, *further: Any) -> Description:
    varargs, kwargs = further
    known = ast.literal_eval(defaults) if isinstance(defaults, str) else defaults
    return Description(doc, args, known, varargs, kwargs)


Function = Callable[..., Any]

SUGGESTIONS_MAX = 3
"""Similar names in an error …"""
CANDIDATES_MAX = 8
"""… out of so many, whose modules are loaded to see whether they can be called here."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file that could provide a virtual name; if it is not `chosen`, `reason` says why."""

    stem: str
    path: str
    layer: str
    chosen: bool
    reason: str


class Loader(Mapping[str, Callable[..., Any]]):
    """The functions that the modules of an index offer under one configuration, grains and pillar.

    `opts`, grains and pillar are copied once, so modules keep the same objects when `refresh` changes their content.
    `more` adds or replaces dunder names. `plugin_opts` makes `__opts__` of the files that do not ship.
    """

    def __init__(
        self,
        index: Index,
        opts: Mapping[str, Any],
        grains: Mapping[str, Any],
        pillar: Mapping[str, Any],
        *,
        more: Mapping[str, Any] | None = None,
        plugin_opts: PluginOptsOfLoader | None = None,
    ) -> None:
        self.index = index
        self.context = Context()
        self.needs_own_process = False
        """Whether a function was looked up after which no other job may follow (`__own_process__`)."""
        self.opts = Injected(opts)
        self._grains = Injected(grains)
        self._pillar = Injected(pillar)
        self._names = {
            "__opts__": self.opts,
            "__grains__": self._grains,
            "__pillar__": self._pillar,
            "__context__": self.context,
            "__proxy__": Injected(),
            "__file_client__": Injected(),
            "__events__": Injected(),
            "__master__": Injected(),
            "__timers__": Injected(),
            "__minion_key__": Injected(),
            "__matches__": LocalMatcher(self.opts, self._grains, self._pillar),
            "__salt__": LazyFunctions(lambda: self),
            "__utils__": LazyFunctions(lambda: UtilsAndLibrary(self.of_type("utils"))),
            "__salt_system_encoding__": sys.getfilesystemencoding(),
            **(more or {}),
        }
        self._contracts = Contracts(self.opts, self._grains, self._names)
        self._registry = ModuleRegistry(index, self._names, self._contracts.module, plugin_opts)
        self._bindings: dict[str, Binding | None] = {}
        self._bound: dict[str, Function | None] = {}
        self._documents: dict[str, Documents] = {}

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """The configuration, grains and pillar by those names."""
        return {"configuration": self.opts, "grains": self._grains, "pillar": self._pillar}

    def provide(self, dunder: str, value: Any) -> None:
        """Set a dunder name in all modules, loaded or not."""
        self._names[dunder] = value
        self._registry.provide(dunder, value)

    def load_ahead(self, module: str) -> None:
        """Load a shipped module before its first use; others are compiled. Find the files of interfaces."""
        self._registry.load_ahead(module)
        self._contracts.names()

    def refresh(self, grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        """Update the grains and the pillar that every module sees."""
        self._grains.refresh(grains)
        self._pillar.refresh(pillar)
        self._bound.clear()  # the state of a function depends on grains

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function `module.function`. Raises FunctionUnavailable with the reason."""
        provider = self._provider(name)
        function = self._bound_function(str(name), provider)
        if function is None:
            raise self._unavailable(str(name))
        if provider is not None and provider.deprecation:
            note(provider.deprecation)
        if provider is not None and provider.own_process and str(name).partition(".")[2] in provider.own_process:
            self.needs_own_process = True
        return function

    def __contains__(self, name: object) -> bool:
        """Whether a call does something; a stub of an interface does not count."""
        if not isinstance(name, str):
            return False
        if self._provider(name) is not None:
            return True
        module, _, function = name.partition(".")
        binding = self._binding(module)
        standing = binding.standing(function, present=False) if binding else None
        return standing is not None and standing.state not in STUBS

    def __iter__(self) -> Iterator[str]:
        """Every function that can be called here; loads all modules."""
        for module in self._all_names():
            seen: set[str] = set()
            for provider in self._registry.providers(module):
                seen.update(provider.functions)
            seen.update(self._idle_functions(module))
            yield from (f"{module}.{function}" for function in sorted(seen))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def outputter(self, name: str) -> str | None:
        """The function's entry in `__outputter__`."""
        provider = self._provider(name)
        return provider.outputters.get(name.partition(".")[2]) if provider else None

    def modules(self) -> list[str]:
        """Names of all modules that are offered here, sorted.

        This loads only files with `__virtual__` or `__init__`; a file whose body fails is listed until it was loaded.
        """
        return [name for name in self._all_names() if any(True for _ in self._registry.winning_files(name))]

    def functions(self, module: str) -> list[str]:
        """Function names of one module, sorted; loads under the same rule as `modules`."""
        files = list(self._registry.winning_files(module))
        names = {name for file in files for name in self._registry.function_names(module, file)}
        if self._contracts.contract(module) or any(map(self._registry.brings_interface, files)):
            names.update(self._idle_functions(module))
        return sorted(names)

    def stubs(self, module: str) -> list[str]:
        """Functions of the module's interface that this machine lacks, sorted; calling one says why."""
        binding = self._binding(module)
        if binding is None:
            return []
        absent = (fun for fun in binding.contract.functions if self._provider(f"{module}.{fun}") is None)
        standings = ((fun, binding.standing(fun, present=False)) for fun in absent)
        return sorted(fun for fun, standing in standings if standing is not None and standing.state in STUBS)

    def conformance(self, module: str) -> dict[str, Any] | None:
        """The module's report (`saltlite.interfaces.smi.report`); None without an interface."""
        from saltlite.interfaces.smi.report import conformance_of  # noqa: PLC0415 - few jobs need it

        binding = self._binding(module)
        if binding is None:
            return None
        provided = {fun: one.functions[fun] for one in reversed(self._providers(module)) for fun in one.functions}
        needs = {
            fun: missing
            for fun in binding.contract.functions
            for one in self._providers(module)
            if fun not in provided and (missing := one.functions.missing_dependency(fun))
        }
        undeclared = {name.partition(".")[2]: count for name, count in self._contracts.undeclared.counts().items()
                      if name.startswith(f"{module}.")}  # fmt: skip
        return conformance_of(binding, provided, needs, undeclared)

    def interface(self, module: str) -> dict[str, Any] | None:
        """The module's interface as data, whether or not a file provides the module; None without an interface."""
        binding = self._binding(module)
        contract = binding.contract if binding else self._contracts.contract(module)
        if contract is None:
            return None
        from saltlite.interfaces.smi.report import describe_contract  # noqa: PLC0415 - few jobs need it

        report = self.conformance(module) or {"functions": {}}
        return describe_contract(contract, {fun: row["state"] for fun, row in report["functions"].items()})

    def interfaces(self) -> dict[str, str]:
        """Virtual name -> version of its interface, where there is one."""
        found = ((name, self._contracts.contract(name)) for name in self._contracts.names())
        return {name: contract.version for name, contract in found if contract is not None}

    def describe(self, name: str) -> Description | None:
        """Docstring and argument list of `module.function`, or None when it does not exist.

        The docstring of an interface comes first, followed by that of the provider. A function of the interface that
        this machine lacks is described by the interface alone.
        """
        module, _, function = name.partition(".")
        stem, found = self._described(module, function)
        declared = self._declared_function(module, function)
        if declared is None:
            return found
        if found is None:
            return self._description_of_absent(module, function, declared)
        if not declared.doc or not found.doc or found.doc.startswith(declared.doc.rstrip(".")):
            return replace(found, doc=found.doc or declared.doc)
        return replace(found, doc=f"{declared.doc}\n\nNotes of {stem}:\n\n{found.doc}")

    def _described(self, module: str, function: str) -> tuple[str, Description | None]:
        """The description by the file that provides it, and the name of that file."""
        for file in self._registry.winning_files(module):
            if function in file.functions:  # also a function that `depends` removed
                return file.stem, self._documents_of(file).functions.get(function)
            if _has_no_text(file) and (loaded := self._loaded(file)) is not None and function in loaded.functions:
                return file.stem, _description_of(loaded.functions[function])
        return "", None

    def _declared_function(self, module: str, function: str) -> DeclaredFunction | None:
        contract = self._contracts.contract(module) if self.index.kind == MODULES else None
        return None if contract is None else contract.functions.get(function)

    def _description_of_absent(self, module: str, function: str, declared: DeclaredFunction) -> Description | None:
        binding = self._binding(module)
        standing = None if binding is None else binding.standing(function, present=False)
        if binding is None or standing is None:
            return None
        state = f"On this machine: {standing.state.replace('_', ' ')}"
        if standing.state is FunctionState.NOT_APPLICABLE:
            state = f"{state}; a call returns {declared.default()!r}"
        described = _description_of_signature(declared.signature)
        return replace(described, doc=f"{declared.doc}\n\n{state}.".strip())

    def module_doc(self, module: str) -> str | None:
        """The docstring of the first file that provides the module; None without one."""
        for file in self._registry.winning_files(module):
            if not _has_no_text(file):
                return self._documents_of(file).doc
            loaded = self._loaded(file)
            doc = None if loaded is None else loaded.functions.constant("__doc__")
            return None if doc is None else inspect.cleandoc(doc)
        return None

    def constant(self, module: str, name: str) -> Any:
        """A global of the file that provides the module, or None."""
        first = next(iter(self._registry.providers(module)), None)
        return None if first is None else first.functions.constant(name)

    def of_type(self, kind: str, index: Index | None = None, more: Mapping[str, Any] | None = None) -> Loader:
        """The loader of another plug-in type, with the same options, grains and pillar.

        `index` saves building one; `more` adds dunder names.
        """
        known = index or build_index(search_layers(self.opts, kind))
        names = {**self._names, **(more or {})}
        made = self._registry.plugin_opts
        return Loader(known, self.opts, self._grains, self._pillar, more=names, plugin_opts=made)

    def candidates(self, module: str) -> list[Candidate]:
        """The files that could provide a virtual name, in order of precedence; loads them."""
        winners = {provider.file.path for provider in self._registry.providers(module)}
        found: list[Candidate] = []
        for file in self._registry.candidates(module):
            reason = ""
            if file.path not in winners:
                loaded = self._registry.load(file)
                reason = (
                    loaded.sentence(file.stem)
                    if isinstance(loaded, Failure)
                    else f"saltlite provides the name here by another file than {file.stem!r}, and two are never mixed"
                    if module in loaded.names and file.is_salt_file
                    else "another file of the same or a higher layer provides the name"
                    if module in loaded.names
                    else f"it is offered as {loaded.names[0]!r}"
                )
            found.append(Candidate(file.stem, file.path, file.layer, file.path in winners, reason))
        return found

    def not_loaded(self) -> dict[str, str]:
        """File name -> sentence, for every file that offers nothing here; loads all modules."""
        return {
            file.stem: loaded.sentence(file.stem)
            for file in self.index.files
            if not self._registry.is_disabled(file.stem) and isinstance(loaded := self._registry.load(file), Failure)
        }

    def _loaded(self, file: ModuleFile) -> LoadedModule | None:
        loaded = self._registry.load(file)
        return loaded if isinstance(loaded, LoadedModule) else None

    def _documents_of(self, file: ModuleFile) -> Documents:
        if file.path not in self._documents:
            cachedir = str(self.opts.get("cachedir") or "")
            self._documents[file.path] = cached_documents(file, cachedir, self.index.kind)
        return self._documents[file.path]

    def _provider(self, name: str) -> LoadedModule | None:
        module, dot, function = str(name).partition(".")
        if not dot or not function:
            return None
        for provider in self._registry.providers(module):
            if function in provider.functions:
                return provider
        return None

    def _providers(self, module: str) -> list[LoadedModule]:
        return list(self._registry.providers(module))

    def _binding(self, module: str) -> Binding | None:
        """The module bound to its interface; None without an interface or a provider."""
        if module not in self._bindings:
            first = next(iter(self._registry.providers(module)), None) if self.index.kind == MODULES else None
            self._bindings[module] = (
                None if first is None else self._contracts.binding(module, first.file.stem, first.interface)
            )
        return self._bindings[module]

    def _bound_function(self, name: str, provider: LoadedModule | None) -> Function | None:
        if name not in self._bound:
            module, _, function = name.partition(".")
            real = provider.functions[function] if provider else None
            binding = self._binding(module)
            if binding is None:
                self._bound[name] = real
            else:
                self._bound[name] = binding.bound(function, real, "" if real else self._missing(module, function))
        return self._bound[name]

    def _missing(self, module: str, function: str) -> str:
        """The dependencies that the providers lack for the function."""
        found = (one.functions.missing_dependency(function) for one in self._registry.providers(module))
        return "; ".join(filter(None, found))

    def _idle_functions(self, module: str) -> list[str]:
        """Functions without a provider that return their default because they are not applicable here."""
        binding = self._binding(module)
        if binding is None:
            return []
        found = ((fun, binding.standing(fun, present=False)) for fun in binding.contract.functions)
        return [fun for fun, standing in found if standing and standing.state is FunctionState.NOT_APPLICABLE]

    def _all_names(self) -> list[str]:
        names = {*self.index.all_names(), *self._registry.forced_names()}
        for file in self.index.undetermined:
            loaded = self._registry.load(file)
            if isinstance(loaded, LoadedModule):
                names.update(loaded.names)
        return sorted(name for name in names if not self._registry.is_disabled(name))

    def _unavailable(self, name: str) -> FunctionUnavailable:
        module, _, function = name.partition(".")
        salt_files = self.index.salt_files
        # The index also has the functions of providers for other kinds of machines.
        known = {*self.index.function_names(), *(salt_files.function_names() if salt_files else ())} - {name}
        import difflib  # noqa: PLC0415 - only an error needs it

        near = difflib.get_close_matches(name, sorted(known), CANDIDATES_MAX, cutoff=0.7)
        # A driver looks for the settings of the provider when it is loaded, so loading others would report theirs.
        asks = self.index.kind != "clouds"
        suggestions = [one for one in near if not asks or one in self][:SUGGESTIONS_MAX]
        if self._registry.is_disabled(module):
            return FunctionUnavailable(f"'{name}' is not available.", suggestions)
        if salt_files is not None and (reason := salt_files.refusal(name)):
            return FunctionUnavailable(f"'{name}' is not available. ({reason})", suggestions)
        if list(self._registry.providers(module)):
            if needs := self._missing(module, function):
                return FunctionUnavailable(f"'{name}' is not available. (needs {needs})", ())
        elif failures := self._registry.failures(module):
            return FunctionUnavailable(join_failures(module, failures), suggestions)
        elif option := needed_option(self.index.layers, module):
            return FunctionUnavailable(f"'{name}' is not available. (needs {option}: true in the configuration)", ())
        file = self.index.file(module)
        loaded = self._registry.load(file) if file else None
        if isinstance(loaded, LoadedModule) and function in loaded.functions:
            suggestions = list(dict.fromkeys([f"{loaded.names[0]}.{function}", *suggestions]))[:SUGGESTIONS_MAX]
        from saltlite.model.salt_features import missing_feature, missing_module  # noqa: PLC0415 - as above

        is_runner = self.index.kind == "runners"
        feature = missing_feature(name, runner=is_runner) if is_runner or self.index.kind == MODULES else ""
        if not feature and self.index.kind == MODULES and not any(one.startswith(f"{module}.") for one in known):
            feature = missing_module(name)
        if feature:
            return FunctionUnavailable(f"'{name}' is not available. ({feature})", ())
        return FunctionUnavailable(f"'{name}' is not available.", suggestions)
