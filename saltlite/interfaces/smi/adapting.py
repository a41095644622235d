"""A provider's function behind the signature of its interface: what `smi_mode: enforce` puts in its place.

A call that is valid for the interface is put into the provider's words: names are mapped, the interface's defaults are
passed where the provider has others, parameters that it lacks are left out as long as nobody gives them a value of
their own. Any other call goes to the provider as it is: what a platform takes beyond the interface stays usable.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.decorators.notes import note
from saltlite.errors import InterfaceArgumentError, InterfaceNotImplemented
from saltlite.interfaces.smi.differences import HIDDEN, Difference, Shape, compare

_EMPTY = inspect.Parameter.empty
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Function = Callable[..., Any]

HARMLESS = frozenset({"extra", "type_differs", "fewer_keywords"})
"""Differences that no argument has to be changed for."""


def needs_adapting(differences: tuple[Difference, ...]) -> bool:
    """Whether a call that is valid for the interface may have to be changed."""
    return any(one.kind not in HARMLESS for one in differences)


def adapted(function: Function, interface: inspect.Signature, who: str, details: Mapping[str, str]) -> Function:
    """`function`, called as the interface says. `who` and `details` are for errors: `'pkg.install': aptpkg`.

    What it returns raises InterfaceArgumentError for an argument that the provider has no place for, and
    InterfaceNotImplemented when the provider wants one that the interface does not know.
    """
    theirs = inspect.signature(function)
    differences = compare(interface, theirs)
    if not needs_adapting(differences):
        return function
    plan = _Plan(interface, theirs, who, details)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        hidden = {key: kwargs.pop(key) for key in list(kwargs) if key.startswith(HIDDEN)}
        placed, named = plan.translate(args, kwargs)
        return function(*placed, **named, **hidden)

    call.__signature__ = _merged(interface, theirs)  # type: ignore[attr-defined]  # what inspect.signature reads
    return call


class _Plan:
    """How arguments of the interface become arguments of the provider."""

    def __init__(
        self, interface: inspect.Signature, theirs: inspect.Signature, who: str, details: Mapping[str, str]
    ) -> None:
        differences = compare(interface, theirs)
        self._interface = interface
        self._shape = Shape(theirs)
        self._who = who
        self._details = details
        self._names = {one.parameter: one.other for one in differences if one.kind == "renamed"}
        self._told = {one.parameter for one in differences if one.kind in ("default_differs", "required")}
        self._lacking = {one.parameter: one.kind for one in differences if one.kind in ("missing", "swallowed")}
        self._needed = {one.parameter for one in differences if one.kind == "required"} - {*interface.parameters}
        self._extra = {one.parameter for one in differences if one.kind == "extra"}

    def translate(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the provider."""
        known = self._interface.parameters
        extra = {key: kwargs[key] for key in self._extra | self._needed if key in kwargs and key not in known}
        try:
            bound = self._interface.bind(*args, **{key: value for key, value in kwargs.items() if key not in extra})
        except TypeError:
            return args, dict(kwargs)
        if unknown := sorted(self._needed - extra.keys()):
            text = f"{self._who} needs {', '.join(unknown)}, which the interface does not have; give it by name."
            raise InterfaceNotImplemented(text, self._details)
        values, rest = dict(extra), ()
        for name, parameter in known.items():
            given = name in bound.arguments
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = bound.arguments.get(name, ())
            elif parameter.kind is parameter.VAR_KEYWORD:
                values.update(bound.arguments.get(name, {}))
            elif name in self._lacking:
                self._check_left_out(name, bound.arguments.get(name, parameter.default), parameter.default)
            elif given or name in self._told:
                values[self._names.get(name, name)] = bound.arguments.get(name, parameter.default)
        return self._arranged(values, rest)

    def _check_left_out(self, name: str, value: Any, default: Any) -> None:
        if default is not _EMPTY and value == default:
            return
        if self._lacking[name] == "missing":
            raise InterfaceArgumentError(f"{self._who} does not take {name}; leave it out on this platform.")
        note(f"{self._who} does not look at {name}, so it was left out.")

    def _arranged(self, values: dict[str, Any], rest: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if rest and not self._shape.takes_rest:
            raise InterfaceArgumentError(f"{self._who} does not take so many arguments; call it once for each.")
        placed: list[Any] = []
        for parameter in self._shape.placed:
            if not rest and parameter.kind is not parameter.POSITIONAL_ONLY:
                break  # all that follow can be given by name
            if parameter.name not in values and parameter.default is _EMPTY:
                break  # the provider says itself what is missing
            placed.append(values.pop(parameter.name, parameter.default))
        return (*placed, *rest), values


def _merged(interface: inspect.Signature, theirs: inspect.Signature) -> inspect.Signature:
    """The interface's parameters, and by keyword those that only the provider has."""
    ours = list(interface.parameters.values())
    taken = {one.name for one in ours} | {one.other for one in compare(interface, theirs) if one.kind == "renamed"}
    more = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for one in theirs.parameters.values()
        if one.name not in taken and one.kind not in _STARRED and one.kind is not one.POSITIONAL_ONLY
    ]
    starred = [one for one in (*ours, *theirs.parameters.values()) if one.kind is one.VAR_KEYWORD][:1]
    plain = [one for one in ours if one.kind is not one.VAR_KEYWORD]
    return interface.replace(parameters=[*plain, *more, *starred], return_annotation=theirs.return_annotation)
