"""`salt.loader.context`: the dunder names of the call that runs now, for libraries that are no plug-in files."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, MutableMapping
from contextvars import ContextVar
from typing import Any

from saltlite.salt.exceptions import LoaderError

DEFAULT_CTX_VAR = "loader_ctxvar"

loader_ctxvar: ContextVar[Any] = ContextVar(DEFAULT_CTX_VAR)
"""What has the names in `pack`: an object with `pack`, `pack_self` and `parent_loader`."""
resource_ctxvar: ContextVar[Any] = ContextVar("__resource__", default={})  # noqa: B039 - it is never changed


@contextlib.contextmanager
def loader_context(loader: Any) -> Iterator[None]:
    """Refer to the names of a loader inside the block."""
    token = loader_ctxvar.set(loader)
    try:
        yield
    finally:
        loader_ctxvar.reset(token)


class NamedLoaderContext(MutableMapping[Any, Any]):
    """The value of one dunder name, or `default` outside of a call."""

    def __init__(self, name: str, loader_context: LoaderContext, default: Any = None) -> None:
        self.name = name
        self.loader_context = loader_context
        self.default = default

    def with_default(self, default: Any) -> NamedLoaderContext:
        return NamedLoaderContext(self.name, self.loader_context, default=default)

    def loader(self) -> Any:
        """The loader of the call, or None."""
        try:
            return self.loader_context.loader()
        except AttributeError:
            return None

    def eldest_loader(self) -> Any:
        loader = self.loader()
        while loader is not None and loader.parent_loader is not None:
            loader = loader.parent_loader
        return loader

    def value(self) -> Any:
        """Raises LoaderError for a name that the loader does not have."""
        if self.name == "__resource__":
            return resource_ctxvar.get()
        loader = self.loader()
        if loader is None:
            return self.default
        if self.name == loader.pack_self:
            return loader
        try:
            return loader.pack[self.name]
        except KeyError as error:
            raise LoaderError(f"LazyLoader does not have a packed value for: {self.name}") from error

    def get(self, key: Any, default: Any = None) -> Any:
        return self.value().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        return self.value()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.value()[key]

    def __contains__(self, key: object) -> bool:
        return key in self.value()

    def __bool__(self) -> bool:
        return bool(self.value())

    def __len__(self) -> int:
        return len(self.value())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NamedLoaderContext):
            return self.name == other.name and self.loader_context == other.loader_context
        return bool(self.value() == other)

    __hash__ = None  # type: ignore[assignment] # as every mapping that can change

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "loader_context": self.loader_context, "default": None}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "name" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.value(), name)

    def __deepcopy__(self, memo: dict[int, Any]) -> NamedLoaderContext:
        return NamedLoaderContext(self.name, self.loader_context, copy.deepcopy(self.default))

    def missing_fun_string(self, name: str) -> Any:
        return self.loader().missing_fun_string(name)


class LoaderContext:
    """Makes the names of the call that runs now."""

    def __init__(self, loader_ctxvar: ContextVar[Any] = loader_ctxvar) -> None:
        self.loader_ctxvar = loader_ctxvar

    def loader(self) -> Any:
        """The loader of the call. Raises AttributeError outside of one."""
        try:
            return self.loader_ctxvar.get()
        except LookupError as error:
            raise AttributeError("No loader context") from error

    def named_context(
        self, name: str, default: Any = None, ctx_class: type[NamedLoaderContext] = NamedLoaderContext
    ) -> NamedLoaderContext:
        return ctx_class(name, self, default)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoaderContext) and self.loader_ctxvar is other.loader_ctxvar

    __hash__ = None  # type: ignore[assignment] # as Salt's

    def __reduce__(self) -> Any:
        return LoaderContext, ()
