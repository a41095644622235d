"""An interface as a table: function -> what it takes, where it is to be had, and what it returns at least.

Several classes may speak of one virtual module. The first of them that does not extend is the interface; those that
extend it (`__extends__ = "pkg"`) add their functions and take the place of equal ones.
"""

from __future__ import annotations

import functools
import inspect
import logging
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saltlite.interfaces.smi.declare import NOT_APPLICABLE, RETURNS, SUPPORTED, Interface, is_declaration
from saltlite.interfaces.smi.platforms import Platforms
from saltlite.interfaces.smi.schema import Schema, schema_of

log = logging.getLogger(__name__)


class Declared:
    """One function of an interface. What costs something is worked out when it is asked for."""

    def __init__(self, name: str, method: Callable[..., Any], owner: type[Interface]) -> None:
        self.name = name
        self.supported: Platforms | None = getattr(method, SUPPORTED, None)
        self.not_applicable: Platforms | None = getattr(method, NOT_APPLICABLE, None)
        self._owner = owner
        self._method = method

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """What callers give: the method's own, without `self`."""
        whole = inspect.signature(self._method)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    @functools.cached_property
    def schema(self) -> Schema:
        """The least that is returned; anything where the declaration does not say."""
        structure = getattr(self._method, RETURNS, None)
        if structure is not None:
            return schema_of(structure)
        if "return" not in self._method.__annotations__:
            return Schema()
        try:
            return schema_of(typing.get_type_hints(self._method).get("return"))
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            log.warning("The return annotation of %s.%s cannot be read: %s.", self._owner.__name__, self.name, error)
            return Schema()

    @property
    def doc(self) -> str:
        """Its docstring, or an empty text."""
        return inspect.getdoc(self._method) or ""

    def default(self) -> Any:
        """A fresh default structure: what the body of the declaration returns."""
        needed = [
            parameter
            for parameter in self.signature.parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        placed = [None for parameter in needed if parameter.kind is not parameter.KEYWORD_ONLY]
        named = {parameter.name: None for parameter in needed if parameter.kind is parameter.KEYWORD_ONLY}
        return self._method(self._owner(), *placed, **named)


class Contract:
    """The interface of one virtual module: its `name`, `version`, and its functions by the name that callers type."""

    def __init__(
        self, name: str, version: str, functions: Mapping[str, Declared], reserved: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.version = version
        self.functions = dict(functions)
        self.reserved = frozenset(reserved)

    @property
    def title(self) -> str:
        """For people: `interface pkg 1.0`."""
        return f"interface {self.name} {self.version}"


def contract_of(*classes: type[Interface]) -> Contract:
    """The contract that the classes make of one virtual module, the one that is asked first at the front.

    Raises TypeError when all of them only extend, or one of them says nothing of its module.
    """
    main = next((one for one in classes if not one.__extends__), None)
    if main is None:
        names = ", ".join(one.__name__ for one in classes)
        raise TypeError(f"{names} only extends, and there is no interface of that name to extend")
    if not main.__modulename__:
        raise TypeError(f"{main.__name__} has no __modulename__: say which virtual module it describes")
    functions = _functions(main)
    reserved = list(main.__reserved__)
    for extension in reversed(classes):
        if extension.__extends__:
            functions |= _functions(extension)
            reserved += extension.__reserved__
    return Contract(str(main.__modulename__), str(main.__version__), functions, reserved)


def _functions(interface: type[Interface]) -> dict[str, Declared]:
    """Its functions and those that it inherits; a later class takes the place of an earlier one's."""
    found: dict[str, Declared] = {}
    alias: Mapping[str, str] = getattr(interface, "__func_alias__", {})
    for owner in reversed(interface.__mro__):
        if owner is not Interface and issubclass(owner, Interface):
            for name, value in vars(owner).items():
                if is_declaration(name, value):
                    shown = str(alias.get(name, name))
                    found[shown] = Declared(shown, value, owner)
    return found
