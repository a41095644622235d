"""Finds, loads and calls resource types.

    resources/<type>/__init__.py         the connection module: finds and reaches the resources of the type
    resources/<type>/modules/<slot>.py   functions that may be called on resources; the file name is the slot

The folders are those of any plug-in type (`saltlite.loader.search_path`). Each file is looked up separately: a slot in
a custom folder is added to a shipped type, or replaces a shipped slot. Every type has the slots in
`saltlite/resources/slots`, such as `grains`, unless it has a file of that name. Only functions in slots can be called
on a resource. A connection module may define `timeout(fun, args, kwargs)`, which returns the seconds that a call may
take, or None for `resource_timeout`. With `THREAD_PER_RESOURCE = True` all calls on a resource run in one thread of its
own.

    name                   in the connection module            in slots
    __resource__           {"id", "type"} of the call; empty in init, discover and shutdown, and while files are loaded
    __grains__             the minion's                        the resource's registered grains
    __opts__               the minion's                        the same with `resource_type`
    __pillar__             the minion's                        the minion's
    __context__            shared while the type is loaded; `retcode` belongs to the call
    __salt__               the minion's modules                the slots of the type
    __minion__             the minion's modules                the minion's modules
    __resource_funcs__     the connection module, by `<type>.<function>`

Contract: Salt's guide to resources.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from saltlite.errors import SaltliteError, UsageError
from saltlite.loader.dunders import Context, LazyFunctions, PerCall
from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.plugin_opts import PluginOptsOfLoader
from saltlite.loader.search_path import SHIPPED, Form, Layer, search_layers
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import check_resource_type

RESOURCES = "resources"
"""The type of plug-ins that are resource types."""

REQUIRED = ("init", "initialized", "discover", "grains")
"""What a connection module must have."""

Minion = Mapping[str, Callable[..., Any]]


class TypeUnavailableError(SaltliteError):
    """There is no such resource type here, or it cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class TypeFiles:
    """The files of one resource type, none of which was run."""

    name: str
    connection: Index
    """Of the connection module alone."""
    slots: Index

    def function_texts(self) -> list[str]:
        """The text of `saltlite.model.signature` for each function of its slots, sorted by name."""
        return self.slots.function_texts({})


def find_type(
    name: str, opts: Mapping[str, Any], previous: TypeFiles | None = None, *, only_shipped: bool = False
) -> TypeFiles:
    """The files of that type; `previous` itself when they are as they were. Raises TypeUnavailableError."""
    try:
        check_resource_type(name)
    except UsageError as error:
        raise TypeUnavailableError(str(error)) from error
    layers = [replace(layer, forms=frozenset({Form.PACKAGE})) for layer in _layers(opts, RESOURCES, only_shipped)]
    types = build_index(layers, previous.connection if previous else None)
    file = types.file(name)
    if file is None:
        places = ", ".join(f"{layer.path}/{name}" for layer in layers)
        raise TypeUnavailableError(f"there is no {name}/__init__.py in a folder of resource types ({places})")
    slots = build_index(_layers(opts, slots_of(name), only_shipped), previous.slots if previous else None)
    if previous and slots is previous.slots and previous.connection.file(name) == file:
        return previous
    return TypeFiles(name, Index(layers, [file]), slots)


def slots_of(name: str) -> str:
    """The type of plug-ins that are the slots of a resource type."""
    return f"{RESOURCES}/{name}/modules"


def _layers(opts: Mapping[str, Any], kind: str, only_shipped: bool) -> list[Layer]:
    return [layer for layer in search_layers(opts, kind) if layer.name == SHIPPED or not only_shipped]


def load_type(
    files: TypeFiles,
    opts: Mapping[str, Any],
    grains: Mapping[str, Any],
    pillar: Mapping[str, Any],
    *,
    minion: Minion,
    more: Mapping[str, Any] | None = None,
) -> ResourceType:
    """The type of these files; if they cannot be used, the shipped type of that name, so that a custom type never
    makes its resources unreachable. Raises TypeUnavailableError, as `ResourceType`.
    """
    try:
        return ResourceType(files, opts, grains, pillar, minion=minion, more=more)
    except TypeUnavailableError as error:
        shipped = shipped_type(files, str(error), opts, grains, pillar, minion=minion, more=more)
        if shipped is None:
            raise
        return shipped


def shipped_type(
    files: TypeFiles,
    why: str,
    opts: Mapping[str, Any],
    grains: Mapping[str, Any],
    pillar: Mapping[str, Any],
    *,
    minion: Minion,
    more: Mapping[str, Any] | None = None,
) -> ResourceType | None:
    """The shipped type that these custom files hide; None if there is none. `why` the files cannot be used.

    Raises TypeUnavailableError, as `ResourceType`.
    """
    file = files.connection.files[0]
    if file.layer == SHIPPED:
        return None
    try:
        shipped = find_type(files.name, opts, only_shipped=True)
    except TypeUnavailableError:
        return None
    loaded = ResourceType(shipped, opts, grains, pillar, minion=minion, more=more)
    loaded.instead_of = f"{file.path} cannot be used, and the shipped type takes its place: {why}"
    return loaded


class ResourceType:
    """A loaded resource type. Its calls may come from several threads at once."""

    def __init__(
        self,
        files: TypeFiles,
        opts: Mapping[str, Any],
        grains: Mapping[str, Any],
        pillar: Mapping[str, Any],
        *,
        minion: Minion,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """Load the files, including slots. `minion` holds the minion's modules; `more` adds dunder names.

        Raises TypeUnavailableError if the connection module does not load here or lacks a function.
        """
        self.name = files.name
        self.files = files
        self.instead_of = ""
        """Which custom type it stands in for, and why; "" for none."""
        self.slot_faults: dict[str, str] = {}
        """File name -> reason, for slots that offer nothing here."""
        self._resource = PerCall("resource")
        self._resource_grains = PerCall("resource_grains")
        functions = LazyFunctions(lambda: self._connection)
        its_minion = LazyFunctions(lambda: minion)
        shared = {
            **(more or {}),
            "__context__": Context(),
            "__resource__": self._resource,
            "__resource_funcs__": functions,
            "__minion__": its_minion,
        }
        # The option `providers` applies to the minion's own modules.
        opts = {**opts, "providers": {}}
        self._connection = Loader(files.connection, opts, grains, pillar, more={**shared, "__salt__": its_minion})
        opts["resource_type"] = files.name
        slots = {**shared, "__grains__": self._resource_grains}
        self.slots: Loader = _Slots(files, opts, pillar, slots, self._connection)
        self._check()
        self._opts: Mapping[str, Any] = self._connection.constant(self.name, "__opts__")
        """The options as the connection module sees them."""
        self.own_threads = self._connection.constant(self.name, "THREAD_PER_RESOURCE") is True
        """Whether all calls on one resource run in one thread, for libraries that bind a connection to its thread."""
        self.has_timeout = f"{self.name}.timeout" in self._connection
        self.slot_faults = self.slots.not_loaded()

    def _check(self) -> None:
        missing = []
        for function in REQUIRED:
            try:
                self._connection[f"{self.name}.{function}"]
            except FunctionUnavailable as error:
                if not self._connection.functions(self.name):
                    raise TypeUnavailableError(error.text) from error  # the file did not load
                missing.append(f"{function}()")
        if missing:
            raise TypeUnavailableError(f"its connection module lacks {', '.join(missing)}")

    def refresh(self, grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        """Update the minion's grains and pillar that all files see."""
        self._connection.refresh(grains, pillar)
        self.slots.refresh({}, pillar)

    @contextlib.contextmanager
    def entered(self, resource_id: str, grains: Mapping[str, Any]) -> Iterator[None]:
        """Calls of this thread inside the block are for that resource, which has these grains.

        Read return values inside the block: they may be the injected mappings themselves.
        """
        with self._resource.during({"id": resource_id, "type": self.name}), self._resource_grains.during(grains):
            yield

    def init(self) -> None:
        """Initialise the type. Raises whatever it raises."""
        self._function("init")(self._opts)

    def initialized(self) -> bool:
        """Whether the type reports that it is initialised. Raises whatever it raises."""
        return bool(self._function("initialized")())

    def discover(self) -> Any:
        """The bare ids of the type's resources: a list, if it keeps to the contract. Raises whatever it raises."""
        return self._function("discover")(self._opts)

    def grains(self) -> Any:
        """The grains of the entered resource: a dict, if the type keeps to the contract. Raises whatever it raises."""
        return self._function("grains")()

    def timeout(self, fun: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Seconds that a call may take on the entered resource, if the type limits it. Raises whatever it raises."""
        return self._function("timeout")(fun, list(args), dict(kwargs)) if self.has_timeout else None

    def shutdown(self) -> None:
        """Call the type's `shutdown`, if it has one. Raises whatever it raises."""
        if f"{self.name}.shutdown" in self._connection:
            self._function("shutdown")(self._opts)

    def _function(self, name: str) -> Callable[..., Any]:
        return self._connection[f"{self.name}.{name}"]


class _Slots(Loader):
    """The functions for resources of one type."""

    def __init__(
        self,
        files: TypeFiles,
        opts: Mapping[str, Any],
        pillar: Mapping[str, Any],
        names: Mapping[str, Any],
        connection: Loader,
    ) -> None:
        its = connection.settings
        made = PluginOptsOfLoader(opts, its["grains"], its["pillar"])
        super().__init__(files.slots, opts, {}, pillar, more=names, plugin_opts=made)
        self._type = files.name

    def _unavailable(self, name: str) -> FunctionUnavailable:
        error = super()._unavailable(name)
        why = error.text.removeprefix(f"'{name}' is not available.").strip()
        text = f"Function '{name}' is not supported for resource type '{self._type}'" + (f": {why}" if why else "")
        return FunctionUnavailable(text, error.suggestions)
