"""`dataclass`, as the standard library has it, but with methods that are compiled when they are first used.

The standard decorator compiles up to seven methods of each class when the class is defined: 0.5 ms and 10 KiB, which is
a third of the start of a daemon. A process uses few methods of most classes, so here none is compiled in advance.

Contract: what `dataclasses.dataclass(slots=True, ...)` makes, with the same errors, but every class has slots,
`inspect.signature` does not know the parameters before the first instance, and a class without a docstring has its name
as one.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(*, slots: bool, frozen: bool = False, eq: bool = True, kw_only: bool = False):
        """The decorator; `slots` must be true."""
        if not slots:
            raise TypeError("a class without slots needs the decorator of the standard library")
        return lambda cls: _decorated(cls, frozen=frozen, eq=eq, kw_only=kw_only)


__all__ = ["dataclass"]

_UNSET: Any = object()
"""The default of a parameter whose value a factory makes."""


def _decorated(cls: type, *, frozen: bool, eq: bool, kw_only: bool) -> type:
    own = set(cls.__dict__)
    if cls.__doc__ is None:
        # The standard decorator would make one of the signature, which takes as long as a method.
        cls.__doc__ = cls.__name__
    has_hash = "__hash__" in own and not (cls.__dict__["__hash__"] is None and "__eq__" in own)
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only, slots=True)(cls)
    methods: dict[str, Any] = {"__init__": _first_use(made, "__init__", lambda: _init_source(made, frozen=frozen))}
    if "__repr__" not in own:
        methods["__repr__"] = _repr
    if eq:
        methods["__eq__"] = _first_use(made, "__eq__", lambda: _eq_source(made))
        if not has_hash:
            methods["__hash__"] = _first_use(made, "__hash__", lambda: _hash_source(made)) if frozen else None
    if frozen:
        methods |= {
            "__setattr__": _refuse_to_set,
            "__delattr__": _refuse_to_delete,
            "__getstate__": _state,
            "__setstate__": _set_state,
        }
    for name, method in methods.items():
        if name not in own or name == "__hash__":
            setattr(made, name, method)
    return made


# -- methods that are compiled at their first use

_Source = tuple[str, dict[str, Any]]
"""The text of a method, and the values of the names in it."""


def _first_use(cls: type, name: str, source: Callable[[], _Source]) -> Callable[..., Any]:
    """A method that compiles the real one, puts it into its place, and calls it."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        text, names = source()
        exec(text, names)  # noqa: S102 - of names of fields, which are identifiers
        real = names[name]
        real.__qualname__ = f"{cls.__qualname__}.{name}"
        real.__module__ = cls.__module__
        setattr(cls, name, real)
        return real(self, *args, **kwargs)

    return method


def _init_source(cls: type, *, frozen: bool) -> _Source:
    names: dict[str, Any] = {"_set": object.__setattr__, "_UNSET": _UNSET}
    either: list[str] = []
    keywords: list[str] = []
    body: list[str] = []
    for one in fields(cls):
        value = _value_source(one, names)
        if one.init:
            (keywords if one.kw_only else either).append(_parameter_source(one))
        if value:
            body.append(f"_set(self, {one.name!r}, {value})" if frozen else f"self.{one.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *either, *(["*", *keywords] if keywords else [])])
    return f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names


def _parameter_source(one: Field[Any]) -> str:
    if one.default is not MISSING:
        return f"{one.name}=_default_{one.name}"
    return f"{one.name}=_UNSET" if one.default_factory is not MISSING else one.name


def _value_source(one: Field[Any], names: dict[str, Any]) -> str:
    """The expression for the value of a field in `__init__`; "" if it gets none."""
    if one.default is not MISSING:
        names[f"_default_{one.name}"] = one.default
        return one.name if one.init else f"_default_{one.name}"
    if one.default_factory is not MISSING:
        made = f"_make_{one.name}"
        names[made] = one.default_factory
        return f"{made}() if {one.name} is _UNSET else {one.name}" if one.init else f"{made}()"
    return one.name if one.init else ""


def _eq_source(cls: type) -> _Source:
    mine, others = ([f"{owner}.{one.name}," for one in fields(cls) if one.compare] for owner in ("self", "other"))
    compared = f"({''.join(mine)}) == ({''.join(others)})"
    return f"def __eq__(self, other):\n return {compared} if other.__class__ is self.__class__ else NotImplemented", {}


def _hash_source(cls: type) -> _Source:
    hashed = [f"self.{one.name}," for one in fields(cls) if (one.compare if one.hash is None else one.hash)]
    return f"def __hash__(self):\n return hash(({''.join(hashed)}))", {}


# -- methods that all classes share


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _is_frozen(self: object, name: str) -> bool:
    """Whether the class made the attribute frozen: an ordinary subclass may have further ones."""
    return "__dataclass_fields__" in type(self).__dict__ or name in type(self).__dataclass_fields__  # type: ignore[attr-defined]  # only such classes have these methods


def _refuse_to_set(self: object, name: str, value: object) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: object, name: str) -> None:
    if _is_frozen(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
