"""The loader: a mapping of `module.function` to functions, which module files know as `__salt__`.

One loader serves one job, or one call of `saltlite call`. It imports a module file when one of its
functions is asked for; what it has loaded, its `__context__` and its failures die with it. Text of the
errors: see `saltlite.loader.failure`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.decorators.notes import note
from saltlite.loader.crosscalls import CrossCalls
from saltlite.loader.describe import Description, read_descriptions
from saltlite.loader.dunders import Context, Injected
from saltlite.loader.failure import Failure, FunctionUnavailable, join_failures
from saltlite.loader.finder import Index, build_index
from saltlite.loader.places import search_layers
from saltlite.loader.registry import LoadedModule, Registry

SUGGESTIONS_MAX = 3
"""How many near names an error carries."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file that could provide a virtual name; `reason` says why it does not when `chosen` is False."""

    stem: str
    path: str
    layer: str
    chosen: bool
    reason: str


class Loader(Mapping[str, Callable[..., Any]]):
    """The functions that the modules of an index offer under one configuration, grains and pillar.

    `opts`, grains and pillar are copied, each once: what modules hold of them stays the same object, also when
    `refresh` changes what is in it. `more` are dunder names beside the usual ones, or in place of them.
    """

    def __init__(
        self,
        index: Index,
        opts: Mapping[str, Any],
        grains: Mapping[str, Any],
        pillar: Mapping[str, Any],
        *,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.index = index
        self.context = Context()
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
            "__salt__": CrossCalls(lambda: self),
            "__utils__": CrossCalls(self._utils),
            "__salt_system_encoding__": sys.getfilesystemencoding(),
            **(more or {}),
        }
        self._registry = Registry(index, self._names)
        self._descriptions: dict[str, dict[str, Description]] = {}

    def refresh(self, grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        """Let every module see these grains and this pillar, in the dicts that it has."""
        self._grains.refresh(grains)
        self._pillar.refresh(pillar)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function `module.function`. Raises FunctionUnavailable, which says why there is none."""
        provider = self._provider(name)
        if provider is None:
            raise self._unavailable(str(name))
        if provider.deprecation:
            note(provider.deprecation)
        return provider.functions[name.partition(".")[2]]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._provider(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Every function that can be called here; loads all modules."""
        for module in self._all_names():
            seen: set[str] = set()
            for provider in self._registry.providers(module):
                seen.update(provider.functions)
            yield from (f"{module}.{function}" for function in sorted(seen))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def outputter(self, name: str) -> str | None:
        """How the result of the function wants to be printed: its entry in `__outputter__`."""
        provider = self._provider(name)
        return provider.outputters.get(name.partition(".")[2]) if provider else None

    def modules(self) -> list[str]:
        """Names of all modules that are offered here, sorted.

        Only files with `__virtual__` or `__init__` are loaded to know; a file whose body fails is listed
        until it was tried.
        """
        return [name for name in self._all_names() if any(True for _ in self._registry.winning_files(name))]

    def functions(self, module: str) -> list[str]:
        """Function names of one module, sorted; loads under the same rule as `modules`."""
        names: set[str] = set()
        for file in self._registry.winning_files(module):
            names.update(self._registry.function_names(file))
        return sorted(names)

    def describe(self, name: str) -> Description | None:
        """Docstring and argument list of `module.function`, or None when it is not offered."""
        module, _, function = name.partition(".")
        for file in self._registry.winning_files(module):
            if function not in file.functions:  # the text's: what `depends` took away is documented all the same
                continue
            if file.path not in self._descriptions:
                self._descriptions[file.path] = read_descriptions(file)
            return self._descriptions[file.path].get(function)
        return None

    def candidates(self, module: str) -> list[Candidate]:
        """The files that could provide a virtual name, in the order in which they are asked; loads them."""
        winners = {provider.file.path for provider in self._registry.providers(module)}
        found: list[Candidate] = []
        for file in self._registry.candidates(module):
            reason = ""
            if file.path not in winners:
                loaded = self._registry.load(file)
                reason = (
                    loaded.sentence(file.stem)
                    if isinstance(loaded, Failure)
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

    def _utils(self) -> Loader:
        """The loader behind `__utils__`; few minions have such files, so it is made at the first use."""
        index = build_index(search_layers(self.opts, "utils"))
        return Loader(index, self.opts, self._grains, self._pillar, more=self._names)

    def _provider(self, name: str) -> LoadedModule | None:
        module, dot, function = str(name).partition(".")
        if not dot or not function:
            return None
        for provider in self._registry.providers(module):
            if function in provider.functions:
                return provider
        return None

    def _all_names(self) -> list[str]:
        names = {*self.index.names(), *self._registry.forced_names()}
        for file in self.index.undetermined:
            loaded = self._registry.load(file)
            if isinstance(loaded, LoadedModule):
                names.update(loaded.names)
        return sorted(name for name in names if not self._registry.is_disabled(name))

    def _unavailable(self, name: str) -> FunctionUnavailable:
        module, _, function = name.partition(".")
        known = self.index.function_names()
        suggestions = difflib.get_close_matches(name, known, SUGGESTIONS_MAX, cutoff=0.7)
        if self._registry.is_disabled(module):
            return FunctionUnavailable(f"'{name}' is not available.", suggestions)
        providers = list(self._registry.providers(module))
        if providers:
            needs = "; ".join(lacking for one in providers if (lacking := one.functions.lacking(function)))
            reason = f" (needs {needs})" if needs else ""
            return FunctionUnavailable(f"'{name}' is not available.{reason}", suggestions if not needs else ())
        failures = self._registry.failures(module)
        if failures:
            return FunctionUnavailable(join_failures(module, failures), suggestions)
        file = self.index.file(module)
        loaded = self._registry.load(file) if file else None
        if isinstance(loaded, LoadedModule) and function in loaded.functions:
            suggestions = list(dict.fromkeys([f"{loaded.names[0]}.{function}", *suggestions]))[:SUGGESTIONS_MAX]
        return FunctionUnavailable(f"'{name}' is not available.", suggestions)
