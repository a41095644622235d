"""An interface as a table: function -> its parameters, the platforms that have it, and the least that it returns.

Several classes may describe one virtual module. The first that does not extend another is the interface; those that
extend it (`__extends__ = "pkg"`) add their functions and replace those of the same name.

How a difference of the provider's parameters affects a call that is valid for the interface:

    difference        level     effect on the call
    extra             ok        works; the provider accepts more
    renamed           warning   works by position, not by name
    swallowed         warning   works, but the provider's `**kwargs` may ignore the parameter
    default_differs   warning   means something else if the parameter is omitted
    type_differs      warning   may be refused by a provider that checks types
    fewer_keywords    warning   is refused with keywords that the interface does not name
    moved             error     works by name, not by position
    missing           error     is refused with that parameter
    required          error     is refused without that parameter
    no_varargs        error     is refused with more positional arguments
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import logging
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from saltlite.decorators import note
from saltlite.errors import (
    InterfaceArgumentError,
    InterfaceError,
    InterfaceNotImplemented,
    InterfaceNotSupported,
    InterfaceReturnError,
)
from saltlite.interfaces import NOT_APPLICABLE, RETURNS, SUPPORTED, Interface, Platforms, is_declaration
from saltlite.interfaces.smi.schema import Mismatch, Schema, mismatches_of, schema_of, schema_of_example
from saltlite.model.dataclass import dataclass

REDUCED = {
    "str": "str", "int": "int", "float": "float", "bool": "bool", "None": "None", "NoneType": "None",
    "list": "list", "List": "list", "tuple": "list", "Tuple": "list", "Sequence": "list",
    "dict": "dict", "Dict": "dict", "Mapping": "dict",
}  # fmt: skip


def reduced_types(annotation: Any) -> frozenset[str]:
    """The types that the annotation allows; empty for any, or if a part of it is unknown.

    `annotation` is a type, or its text as `from __future__ import annotations` leaves it.
    """
    text = annotation.__name__ if type(annotation) is type else str(annotation)
    try:
        found = list(_words(ast.parse(text, mode="eval").body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset() if "" in found else frozenset(found)


def _words(part: ast.expr) -> Iterator[str]:
    match part:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _words(left)
            yield from _words(right)
        case ast.Constant(value=None):
            yield "None"
        case ast.Constant(value=str() as quoted):
            yield from _words(ast.parse(quoted, mode="eval").body)
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inside):
            yield from _words(inside)
            yield "None"
        case ast.Subscript(value=ast.Name(id="Union") | ast.Attribute(attr="Union"), slice=ast.Tuple(elts=parts)):
            for one in parts:
                yield from _words(one)
        case ast.Subscript(value=value):
            yield from _words(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield REDUCED.get(name, "")
        case _:
            yield ""


class DifferenceLevel(StrEnum):
    """The severity of a difference for a caller that follows the interface."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: `kind` as in the table, `parameter` of the interface (of the provider where it has more)."""

    kind: str
    parameter: str
    other: str = ""
    """The provider's name of a renamed parameter."""
    detail: str = ""

    @property
    def level(self) -> DifferenceLevel:
        """The severity of this kind."""
        return LEVELS[self.kind]

    def text(self) -> str:
        """The difference as a message: `renamed: name is pkg here`."""
        return f"{self.kind}: {self.detail}"


LEVELS = {
    "extra": DifferenceLevel.OK, "renamed": DifferenceLevel.WARNING, "swallowed": DifferenceLevel.WARNING,
    "default_differs": DifferenceLevel.WARNING, "type_differs": DifferenceLevel.WARNING,
    "fewer_keywords": DifferenceLevel.WARNING, "moved": DifferenceLevel.ERROR, "missing": DifferenceLevel.ERROR,
    "required": DifferenceLevel.ERROR, "no_varargs": DifferenceLevel.ERROR,
}  # fmt: skip

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_EMPTY = inspect.Parameter.empty

HIDDEN = "__pub_"
"""Prefix of parameters that receive facts of the job; callers do not pass them."""


class Shape:
    """The parameters of a signature, sorted by how an argument reaches them."""

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = [one for one in signature.parameters.values() if not one.name.startswith(HIDDEN)]
        self.placed = [one for one in parameters if one.kind in _PLACED]
        self.named = {one.name: one for one in parameters if one.kind in _NAMED}
        self.by_keyword_only = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
        self.takes_rest = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        self.takes_keywords = any(one.kind is one.VAR_KEYWORD for one in parameters)


def compare(interface: inspect.Signature, provider: inspect.Signature) -> tuple[Difference, ...]:
    """Every difference, in the order of the interface's parameters; empty if the parameters are the same."""
    if interface == provider:
        return ()
    return tuple(_differences(Shape(interface), Shape(provider)))


def _differences(ours: Shape, theirs: Shape) -> Iterator[Difference]:
    met: set[str] = set()
    for place, one in enumerate(ours.placed):
        other = theirs.named.get(one.name)
        at_place = theirs.placed[place] if place < len(theirs.placed) else None
        if at_place is not None and at_place.name == one.name:
            other = at_place  # even if it is positional-only there
        if other is not None and other.name in met:
            other = None  # an earlier argument has this name here
        if at_place is not None and _is_renamed(other, at_place, ours):
            met.add(at_place.name)
            yield Difference("renamed", one.name, at_place.name, f"{one.name} is {at_place.name} here")
            yield from _at_one(one, at_place)
        elif other is not None:
            met.add(other.name)
            if other is not at_place:
                yield Difference("moved", one.name, detail=f"{one.name} is not argument {place + 1} here")
            yield from _at_one(one, other)
        else:
            yield _without(one, theirs)
    for one in ours.by_keyword_only:
        other = theirs.named.get(one.name)
        if other is None:
            yield _without(one, theirs)
        else:
            met.add(one.name)
            yield from _at_one(one, other)
    yield from _beyond(ours, theirs, met)


def _is_renamed(other: inspect.Parameter | None, at_place: inspect.Parameter, ours: Shape) -> bool:
    """Whether the argument at a position has another name in the provider. `other` has the same name there.

    Only a parameter without a default counts as the argument. One with a default may be an addition of the provider,
    where the value would mean something else.
    """
    if other is at_place or at_place.default is not _EMPTY:
        return False
    return other is None or at_place.name not in ours.named


def _at_one(one: inspect.Parameter, other: inspect.Parameter) -> Iterator[Difference]:
    """Differences between two parameters that take the same argument."""
    if one.default is not _EMPTY and other.default is _EMPTY:
        yield Difference("required", one.name, other.name, f"{other.name} has no default here")
    elif one.default is not _EMPTY and one.default != other.default:
        yield Difference(
            "default_differs", one.name, other.name, f"{one.name}={other.default!r} here, {one.default!r} there"
        )
    wanted, taken = (
        reduced_types(each.annotation) if each.annotation is not _EMPTY else frozenset() for each in (one, other)
    )
    if wanted and taken and not wanted <= taken:
        detail = f"{one.name} is {' | '.join(sorted(taken))} here, {' | '.join(sorted(wanted))} there"
        yield Difference("type_differs", one.name, other.name, detail)


def _without(one: inspect.Parameter, theirs: Shape) -> Difference:
    if theirs.takes_keywords:
        return Difference("swallowed", one.name, detail=f"{one.name} goes to **kwargs here")
    return Difference("missing", one.name, detail=f"{one.name} is not taken here")


def _beyond(ours: Shape, theirs: Shape, met: set[str]) -> Iterator[Difference]:
    more = {one.name: one for one in (*theirs.placed, *theirs.by_keyword_only) if one.name not in met}
    for name, one in more.items():
        if one.default is _EMPTY:
            yield Difference("required", name, name, f"{name} has to be given here")
        else:
            yield Difference("extra", name, detail=f"{name} is taken here")
    if ours.takes_rest and not theirs.takes_rest:
        yield Difference("no_varargs", "*", detail="only so many positional arguments are taken here")
    if ours.takes_keywords and not theirs.takes_keywords:
        yield Difference("fewer_keywords", "**", detail="only certain keyword arguments are taken here")
    if (theirs.takes_rest and not ours.takes_rest) or (theirs.takes_keywords and not ours.takes_keywords):
        yield Difference("extra", "*", detail="any further arguments are taken here")


log = logging.getLogger(__name__)


class DeclaredFunction:
    """One function of an interface. Expensive attributes are computed on first use."""

    def __init__(self, name: str, method: Callable[..., Any], owner: type[Interface]) -> None:
        self.name = name
        self.supported: Platforms | None = getattr(method, SUPPORTED, None)
        self.not_applicable: Platforms | None = getattr(method, NOT_APPLICABLE, None)
        self._owner = owner
        self._method = method

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The signature for callers: that of the method without `self`."""
        whole = inspect.signature(self._method)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    @property
    def parameter_names(self) -> frozenset[str]:
        """The names of its parameters, without those of `*args` and `**kwargs`."""
        code = self._method.__code__
        return frozenset(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])

    def takes_no_more_than(self, function: Callable[..., Any]) -> bool:
        """Whether the function's code alone shows that it takes every call that is valid here; False if unsure.

        `inspect` takes thirty times as long, and most providers have the interface's parameters and more.
        """
        ours, theirs = self._method.__code__, getattr(function, "__code__", None)
        if theirs is None or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
            return False
        placed = ours.co_varnames[1 : ours.co_argcount]
        named = theirs.co_varnames[theirs.co_posonlyargcount : theirs.co_argcount + theirs.co_kwonlyargcount]
        optional = len(self._method.__defaults__ or ())
        needed = theirs.co_argcount - len(function.__defaults__ or ())
        by_keyword = ours.co_varnames[ours.co_argcount : ours.co_argcount + ours.co_kwonlyargcount]
        return (
            placed == theirs.co_varnames[: len(placed)]
            and set(by_keyword) <= set(named)
            and needed <= len(placed) - optional
            and theirs.co_kwonlyargcount == len(function.__kwdefaults__ or ())
            and not ours.co_posonlyargcount | theirs.co_posonlyargcount
            and not ours.co_flags & ~theirs.co_flags & inspect.CO_VARARGS
        )

    @functools.cached_property
    def schema(self) -> Schema:
        """The schema of the minimal return: of `@Interface.returns`, the annotation, or the structure that the body
        returns. A body that returns None, or cannot be called, promises nothing.
        """
        structure = getattr(self._method, RETURNS, None)
        if structure is not None:
            return schema_of(structure)
        if "return" not in self._method.__annotations__:
            try:
                return schema_of_example(self.default())
            except Exception as error:  # noqa: BLE001 - supervision point: the body is the author's code
                log.warning("The structure of %s.%s cannot be read: %s.", self._owner.__name__, self.name, error)
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
        """A fresh default structure, which the body of the declaration returns."""
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
        self, name: str, version: str, functions: Mapping[str, DeclaredFunction], reserved: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.version = version
        self.functions = dict(functions)
        self.reserved = frozenset(reserved)

    @property
    def title(self) -> str:
        """The name in messages: `interface pkg 1.0`."""
        return f"interface {self.name} {self.version}"


def contract_of(*classes: type[Interface]) -> Contract:
    """The contract that the classes declare for one virtual module; earlier classes take precedence.

    Raises TypeError if all of them only extend, or the main one has no `__modulename__`.
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


def _functions(interface: type[Interface]) -> dict[str, DeclaredFunction]:
    """Its functions and inherited ones; a subclass replaces those of its base."""
    found: dict[str, DeclaredFunction] = {}
    alias: Mapping[str, str] = getattr(interface, "__func_alias__", {})
    for owner in reversed(interface.__mro__):
        if owner is not Interface and issubclass(owner, Interface):
            for name, value in vars(owner).items():
                if is_declaration(name, value):
                    shown = str(alias.get(name, name))
                    found[shown] = DeclaredFunction(shown, value, owner)
    return found


class FunctionState(StrEnum):
    """The effect of a call."""

    IMPLEMENTED = "implemented"  # the provider's function is called
    NOT_IMPLEMENTED = "not_implemented"  # it is missing, but required
    NOT_SUPPORTED = "not_supported"  # it is missing, and not required here
    NOT_APPLICABLE = "not_applicable"  # there is nothing to do here: the default structure is returned
    DEPRECATED = "deprecated"  # the provider's function is called, and the caller is warned


STUBS = frozenset({FunctionState.NOT_IMPLEMENTED, FunctionState.NOT_SUPPORTED})
"""States in which the function only raises an error, so membership tests do not see it."""


@dataclass(frozen=True, slots=True)
class FunctionStatus:
    """The state of one function, and a note for reports."""

    state: FunctionState
    note: str = ""


UNDECLARED = "the interface does not name this platform"
SHADOWED = "the provider has a function, which is not called"
NOT_APPLIED = "not applicable here; the provider's function is called all the same, because smi_mode is observe"


def status_of(declared: DeclaredFunction | None, present: bool, grains: Mapping[str, object]) -> FunctionStatus | None:
    """The status of a function; None if neither the interface nor the provider has it."""
    if declared is None:
        return FunctionStatus(FunctionState.DEPRECATED) if present else None
    if declared.not_applicable is not None and declared.not_applicable.match(grains):
        return FunctionStatus(FunctionState.NOT_APPLICABLE, SHADOWED if present else "")
    elsewhere = declared.supported is not None and not declared.supported.match(grains)
    if present:
        return FunctionStatus(FunctionState.IMPLEMENTED, UNDECLARED if elsewhere else "")
    return FunctionStatus(FunctionState.NOT_SUPPORTED if elsewhere else FunctionState.NOT_IMPLEMENTED)


_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Function = Callable[..., Any]

HARMLESS = frozenset({"extra", "type_differs", "fewer_keywords"})
"""Differences that need no change of arguments."""

REFUSING = frozenset({"renamed", "required", "missing", "no_varargs"})
"""Differences for which the provider may refuse a call that is valid for the interface."""


def needs_adapting(differences: tuple[Difference, ...]) -> bool:
    """Whether a call that is valid for the interface may have to be changed."""
    return any(one.kind not in HARMLESS for one in differences)


def uniform(function: Function, declared: DeclaredFunction, who: str, details: Mapping[str, str]) -> Function:
    """`function`, which also takes calls that are valid for the interface and that the provider would refuse.

    A call that the provider takes goes to it unchanged. `who`, `details` and errors are those of `adapted`.
    """
    if declared.takes_no_more_than(function):
        return function
    interface, theirs = declared.signature, inspect.signature(function)
    if not any(one.kind in REFUSING for one in compare(interface, theirs)):
        return function
    plan = _Plan(interface, theirs, who, details, keeps_provider=True)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        hidden = {key: kwargs.pop(key) for key in list(kwargs) if key.startswith(HIDDEN)}
        try:
            theirs.bind(*args, **kwargs)
        except TypeError:
            args, kwargs = plan.translate(args, kwargs)
        return function(*args, **kwargs, **hidden)

    call.__signature__ = _EitherSignature.of(theirs, interface)  # type: ignore[attr-defined]  # what inspect.signature reads
    return call


class _EitherSignature(inspect.Signature):
    """The parameters of a provider, and those of its interface as further keywords: a call has to fit one of them."""

    __slots__ = ("_either",)
    _either: tuple[inspect.Signature, inspect.Signature]

    @classmethod
    def of(cls, theirs: inspect.Signature, interface: inspect.Signature) -> _EitherSignature:
        named = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None)
            for one in interface.parameters.values()
            if one.kind in _NAMED and one.name not in theirs.parameters
        ]
        own = list(theirs.parameters.values())
        last = [one for one in own if one.kind is one.VAR_KEYWORD]
        made = cls([*(one for one in own if one not in last), *named, *last])
        made._either = theirs, _merged(interface, theirs)
        return made

    def bind(self, /, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        """Raises TypeError about the provider's parameters."""
        theirs, interface = self._either
        try:
            return theirs.bind(*args, **kwargs)
        except TypeError:
            with contextlib.suppress(TypeError):
                return interface.bind(*args, **kwargs)
            raise


def adapted(function: Function, interface: inspect.Signature, who: str, details: Mapping[str, str]) -> Function:
    """`function` with the parameters of the interface. `who` and `details` are for errors: `'pkg.install': aptpkg`.

    The returned function raises InterfaceArgumentError for an argument that the provider does not take, and
    InterfaceNotImplemented if the provider requires one that the interface does not have.
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
    """Translates arguments of the interface to arguments of the provider.

    `keeps_provider`: arguments without a parameter go to the provider's `**kwargs`, and its own defaults apply.
    """

    def __init__(
        self,
        interface: inspect.Signature,
        theirs: inspect.Signature,
        who: str,
        details: Mapping[str, str],
        *,
        keeps_provider: bool = False,
    ) -> None:
        differences = compare(interface, theirs)
        self._interface = interface
        self._shape = Shape(theirs)
        self._who = who
        self._details = details
        self._names = {one.parameter: one.other for one in differences if one.kind == "renamed"}
        explicit = {"required"} if keeps_provider else {"required", "default_differs"}
        self._explicit = {one.parameter for one in differences if one.kind in explicit}
        lacking = {"missing"} if keeps_provider else {"missing", "swallowed"}
        self._lacking = {one.parameter: one.kind for one in differences if one.kind in lacking}
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
                self._check_omitted(name, bound.arguments.get(name, parameter.default), parameter.default)
            elif given or name in self._explicit:
                values[self._names.get(name, name)] = bound.arguments.get(name, parameter.default)
        return self._arranged(values, rest)

    def _check_omitted(self, name: str, value: Any, default: Any) -> None:
        if default is not _EMPTY and value == default:
            return
        if self._lacking[name] == "missing":
            raise InterfaceArgumentError(f"{self._who} does not take {name}; omit it on this platform.")
        note(f"{self._who} ignores {name}, which was not passed on.")

    def _arranged(self, values: dict[str, Any], rest: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if rest and not self._shape.takes_rest:
            raise InterfaceArgumentError(f"{self._who} does not take so many arguments; call it once for each.")
        placed: list[Any] = []
        for parameter in self._shape.placed:
            if not rest and parameter.kind is not parameter.POSITIONAL_ONLY:
                break  # all that follow can be passed by name
            if parameter.name not in values and parameter.default is _EMPTY:
                break  # the provider raises the error itself
            placed.append(values.pop(parameter.name, parameter.default))
        return (*placed, *rest), values


def _merged(interface: inspect.Signature, theirs: inspect.Signature) -> inspect.Signature:
    """The interface's parameters, then those that only the provider has, as keywords."""
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


class Mode(StrEnum):
    """Option `smi_mode`: how the signatures of interfaces are used."""

    OFF = "off"  # interfaces are ignored
    OBSERVE = "observe"  # differences are reported
    UNIFORM = "uniform"  # calls that the provider would refuse are translated for it
    ENFORCE = "enforce"  # all calls are translated for the provider


class ReturnCheck(StrEnum):
    """Option `smi_returns`: the handling of a return that does not fit the interface."""

    OFF = "off"  # not checked
    LOG = "log"  # one warning per path
    FILL = "fill"  # missing keys are taken from the default structure
    STRICT = "strict"  # the call fails


class Binding:
    """One virtual module on one machine. `grains` are read on each use, so that a refresh takes effect.

    `counted` counts a call of a function that is not part of the interface, and returns whether to log it.
    """

    def __init__(
        self,
        contract: Contract,
        provider: str,
        grains: Mapping[str, Any],
        *,
        mode: Mode,
        returns: ReturnCheck,
        counted: Callable[[str], bool],
    ) -> None:
        self.contract = contract
        self.provider = provider
        self._grains = grains
        self._mode = mode
        self._returns = returns
        self._counted = counted
        self._logged: set[tuple[str, str]] = set()

    def standing(self, fun: str, *, present: bool) -> FunctionStatus | None:
        """The status of the function; None if it does not exist."""
        found = status_of(self.contract.functions.get(fun), present, self._grains)
        if self._mode is Mode.OBSERVE and found is not None and found.note == SHADOWED:
            return FunctionStatus(FunctionState.IMPLEMENTED, NOT_APPLIED)
        return found

    def bound(self, fun: str, real: Function | None, lacking: str = "") -> Function | None:
        """The function behind `module.fun`. `real` is the provider's; `lacking` is its unmet `depends`."""
        standing = self.standing(fun, present=real is not None)
        declared = self.contract.functions.get(fun)
        if standing is None:
            return None
        if declared is None:
            return None if real is None else self._warned(fun, real)
        if standing.state is FunctionState.NOT_APPLICABLE:
            return self._idle(fun, declared, standing)
        if real is None:
            return self._stub(fun, declared, standing.state, lacking)
        who = f"'{self.contract.name}.{fun}': {self.provider}"
        if self._mode is Mode.ENFORCE:
            real = adapted(real, declared.signature, who, self._details(fun, FunctionState.NOT_IMPLEMENTED))
        elif self._mode is Mode.UNIFORM:
            real = uniform(real, declared, who, self._details(fun, FunctionState.NOT_IMPLEMENTED))
        return real if self._returns is ReturnCheck.OFF else self._checked(fun, declared, real)

    def _warned(self, fun: str, real: Function) -> Function:
        sentence = f"'{self.contract.name}.{fun}' is not part of the {self.contract.title}, and may be removed one day."

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            note(sentence)
            if self._counted(fun):
                log.warning("%s", sentence)
            return real(*args, **kwargs)

        return call

    def _idle(self, fun: str, declared: DeclaredFunction, standing: FunctionStatus) -> Function:
        name = f"{self.contract.name}.{fun}"
        if standing.note == SHADOWED:
            log.warning("%s is not applicable here, so %s's function is not called.", name, self.provider)

        def call(*_args: Any, **_kwargs: Any) -> Any:
            log.debug("%s is not applicable here: its default structure is returned.", name)
            return declared.default()

        call.__signature__ = declared.signature  # type: ignore[attr-defined]  # what inspect.signature reads
        return _described(call, fun, declared)

    def _stub(self, fun: str, declared: DeclaredFunction, state: FunctionState, lacking: str) -> Function:
        text, kind = self._refusal(fun, declared, state, lacking)
        details = self._details(fun, state)

        def call(*_args: Any, **_kwargs: Any) -> Any:
            raise kind(text, details)

        return _described(call, fun, declared)

    def _refusal(
        self, fun: str, declared: DeclaredFunction, state: FunctionState, lacking: str
    ) -> tuple[str, type[InterfaceError]]:
        name, title = f"'{self.contract.name}.{fun}'", self.contract.title
        if state is FunctionState.NOT_SUPPORTED and declared.supported is not None:
            place = next(
                (self._grains[grain] for grain in ("os", "os_family", "kernel") if self._grains.get(grain)), ""
            )
            here = place or "this minion"
            return (
                f"{name} is not supported on {here} ({title} supports: {declared.supported.text()}).",
                InterfaceNotSupported,
            )
        needs = f": it needs {lacking}" if lacking else ""
        return f"{name} is not implemented by {self.provider} ({title}){needs}.", InterfaceNotImplemented

    def _details(self, fun: str, state: FunctionState) -> dict[str, str]:
        return {
            "status": str(state),
            "interface": self.contract.name,
            "version": self.contract.version,
            "provider": self.provider,
            "function": fun,
        }

    def _checked(self, fun: str, declared: DeclaredFunction, real: Function) -> Function:
        schema = declared.schema
        if type(schema) is Schema or inspect.isgeneratorfunction(real) or inspect.isasyncgenfunction(real):
            return real
        fits = schema.fits

        if inspect.iscoroutinefunction(real):

            @functools.wraps(real)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                value = await real(*args, **kwargs)
                return value if fits(value) else self._unfit(fun, declared, value)

            return call_async

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            value = real(*args, **kwargs)
            return value if fits(value) else self._unfit(fun, declared, value)

        return call

    def _unfit(self, fun: str, declared: DeclaredFunction, value: Any) -> Any:
        """The result for the caller if the return does not fit."""
        found = mismatches_of(declared.schema, value)
        if self._returns is ReturnCheck.STRICT:
            what = "; ".join(one.text() for one in found[:3])
            text = (
                f"'{self.contract.name}.{fun}' of {self.provider} breaks the {self.contract.title}: it returned {what}."
            )
            raise InterfaceReturnError(text, self._details(fun, FunctionState.IMPLEMENTED))
        self._log(fun, found)
        return declared.schema.filled(value, declared.default()) if self._returns is ReturnCheck.FILL else value

    def _log(self, fun: str, found: list[Mismatch]) -> None:
        for one in found:
            if (fun, one.path) not in self._logged:
                self._logged.add((fun, one.path))
                log.warning(
                    "%s.%s of %s breaks the %s: it returned %s.",
                    self.contract.name, fun, self.provider, self.contract.title, one.text(),
                )  # fmt: skip


def _described(call: Function, fun: str, declared: DeclaredFunction) -> Function:
    call.__name__ = fun
    call.__doc__ = declared.doc
    return call
