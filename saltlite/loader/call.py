"""Calling one execution module function: whatever it does, there is an Outcome.

    the function …                              value                                             retcode
    returns X                                   X                                                 0
    returns a dict, `result` or `success` False X                                                 1
    is a generator                              its items, merged                                 0
    is `async def`                              what it returns; it runs on an event loop         0
    sets __context__["retcode"]                 as above                                          that one
    does not exist                              'm.f' is not available. (or why)                  1
    takes other arguments                       Passed invalid arguments to m.f: … and its doc    1
    does not take the keyword                   ERROR executing 'm.f': The following keyword …    1
    raises CommandExecutionError                ERROR: text                                       1
    raises SaltInvocationError                  ERROR executing 'm.f': text                       1
    raises CommandNotFoundError                 Command required for 'm.f' not found: text        1
    is stopped by its module's interface        what the interface says                           69, 70
    would go through a chain that is none       ERROR executing 'm.f': Executor 'x' is not …      1
    raises anything else, SystemExit included   The minion function caused an exception: …        1

The texts are Salt's. Arguments are bound before the call, so that a TypeError of the body is never reported
as wrong arguments.
"""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack, get_origin

from saltlite.decorators.notes import collecting
from saltlite.errors import CommandExecutionError, CommandNotFoundError, InterfaceError, SaltInvocationError
from saltlite.loader.executors import Chain
from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.loader import Loader
from saltlite.loader.module_builder import PREFIX
from saltlite.loader.search_path import SHIPPED
from saltlite.model.execution import CallEnded

_PLAIN = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "None": ""}
_OURS = f"{PREFIX}{SHIPPED}."
_BETWEEN = re.compile(r"\s*\|\s*")


def misfit(function: Callable[..., Any], given: inspect.BoundArguments) -> str:
    """What is wrong with the arguments, to be read behind the function's name; "" when nothing is."""
    if not getattr(function, "__module__", "").startswith(_OURS):
        return ""
    for name, value in given.arguments.items():
        parameter = given.signature.parameters[name]
        wanted = _wanted(parameter.annotation)
        if not wanted or parameter.kind is parameter.VAR_KEYWORD:
            continue
        for one in _values(parameter, value):
            if isinstance(one, list | tuple | set | dict):
                what = "a map" if isinstance(one, dict) else "a list"
                return f"{name!r} takes {wanted}, and was given {what}"
    return ""


def _values(parameter: inspect.Parameter, value: Any) -> Iterator[Any]:
    if parameter.kind is parameter.VAR_POSITIONAL:
        yield from value
    else:
        yield value


def _wanted(annotation: object) -> str:
    """What values an annotation of plain types is for; "" for any other annotation."""
    types = _BETWEEN.split(annotation) if isinstance(annotation, str) else [""]
    if not all(one in _PLAIN for one in types):
        return ""
    return " or ".join(dict.fromkeys(_PLAIN[one] for one in types if _PLAIN[one]))


ERROR_OUTPUTTER = "nested"
"""Texts of failed calls are always printed this way, whatever the function asked for its results."""


_BRIDGE = "saltlite.loader.salt_compat"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call.

    `out` is the outputter that the function asks for, or None. `warnings` are sentences for the person who
    called; they are no part of the value.
    """

    value: Any
    retcode: int
    out: str | None = None
    warnings: tuple[str, ...] = ()
    interface: Mapping[str, str] | None = None
    """For a call that the interface of its module stopped: status, interface, version, provider, function."""


def call(
    loader: Loader,
    fun: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    pub: Mapping[str, Any] | None = None,
    chain: Chain | None = None,
) -> Outcome:
    """Call `module.function` and report what came of it; raises nothing.

    `pub` tells about the job (jid, fun, arg, user, tgt …): a function that takes `**kwargs` gets each as
    `__pub_<name>`. `chain` are the executors between the caller and the function; None for none.
    """
    with collecting() as notes, loader.context.own_retcode() as context:
        if chain is None:
            outcome = _call(loader, fun, args, kwargs, pub or {}, context)
        else:
            outcome = _call_through(chain, loader, fun, args, kwargs, pub or {}, context)
    return replace(outcome, warnings=(*outcome.warnings, *notes)) if notes else outcome


def _call(
    loader: Loader,
    fun: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    pub: Mapping[str, Any],
    context: Mapping[str, Any],
) -> Outcome:
    closed = _closed_to_callers(loader.opts, fun)
    if closed:
        return _failed(closed)
    try:
        function = loader[fun]
    except FunctionUnavailable as error:
        return _unavailable(error)
    except BaseException as error:  # noqa: BLE001 - supervision point: a module file may raise anything while it loads
        return _failed(_exception_text(error))
    try:
        refusal = _refusal(fun, function, args, kwargs)
        if refusal:
            return _failed(refusal)
        return _outcome(loader, fun, context, _finish(function(*args, **kwargs, **_pub_for(function, pub))))
    except (CommandExecutionError, SaltInvocationError) as error:
        return _raised(fun, error)
    except BaseException as error:  # noqa: BLE001 - supervision point: no job ends without a return, SystemExit included
        return _failed(_exception_text(error))


def _call_through(
    chain: Chain,
    loader: Loader,
    fun: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    pub: Mapping[str, Any],
    context: Mapping[str, Any],
) -> Outcome:
    """As `_call`: the whole of it, or what the executors make of a function that is not there."""
    closed = _closed_to_callers(loader.opts, fun)
    if closed or chain.problem:
        return _failed(closed or f"ERROR executing '{fun}': {chain.problem}")
    try:
        function: Callable[..., Any] | str = loader[fun]
    except FunctionUnavailable as error:
        unavailable = error
        function = fun
    except BaseException as error:  # noqa: BLE001 - supervision point: as in _call
        return _failed(_exception_text(error))
    try:
        if isinstance(function, str):
            if not chain.takes_missing(fun):
                return _unavailable(unavailable)
            return _outcome(loader, fun, context, _finish(chain.run(fun, args, kwargs, pub)))
        refusal = _refusal(fun, function, args, kwargs)
        if refusal:
            return _failed(refusal)
        return _outcome(loader, fun, context, _finish(chain.run(_entrance(function, pub), args, kwargs, pub)))
    except (CommandExecutionError, SaltInvocationError) as error:
        return _raised(fun, error)
    except CallEnded as error:
        return _failed(f"ERROR executing '{fun}': {error}")
    except BaseException as error:  # noqa: BLE001 - supervision point: as in _call, and executors are anybody's too
        return _failed(_exception_text(error))


def _entrance(function: Callable[..., Any], pub: Mapping[str, Any]) -> Callable[..., Any]:
    """The function as executors see it: a call gives what it returns in the end."""

    @functools.wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        return _finish(function(*args, **kwargs, **_pub_for(function, pub)))

    return entered


def _outcome(loader: Loader, fun: str, context: Mapping[str, Any], value: Any) -> Outcome:
    return Outcome(value, _retcode(context, value), loader.outputter(fun))


def _unavailable(error: FunctionUnavailable) -> Outcome:
    hint = f"Did you mean {' or '.join(error.suggestions)}?" if error.suggestions else ""
    return Outcome(error.text, 1, ERROR_OUTPUTTER, (hint,) if hint else ())


def _raised(fun: str, error: CommandExecutionError | SaltInvocationError) -> Outcome:
    """What the function meant to tell its caller."""
    text = _text(error)
    if isinstance(error, InterfaceError):
        return Outcome(text, error.retcode, ERROR_OUTPUTTER, interface=error.details)
    if isinstance(error, CommandNotFoundError):
        return _failed(f"Command required for '{fun}' not found: {text}")
    return _failed(f"ERROR: {text}" if isinstance(error, CommandExecutionError) else f"ERROR executing '{fun}': {text}")


def _closed_to_callers(opts: Mapping[str, Any], fun: str) -> str:
    """Why nobody may call the function from outside. Modules call each other whatever is listed: this is no sandbox."""
    listed = opts.get("whitelist_modules")
    module = fun.partition(".")[0]
    if not listed or module in listed:
        return ""
    return f"'{fun}' is not available. (option whitelist_modules of this minion does not have {module!r})"


def _failed(text: str) -> Outcome:
    return Outcome(text, 1, ERROR_OUTPUTTER)


def _refusal(fun: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Why the arguments do not fit the function's signature, or nothing."""
    forged = [name for name in kwargs if str(name).startswith("__pub_")]
    if forged:
        names = ", ".join(forged)
        return f"ERROR executing '{fun}': {names} cannot be given: these names tell about the job itself."
    signature = _signature(function)
    if signature is None:
        return ""  # machine code that does not say what it takes, and judges for itself
    parameters = signature.parameters.values()
    if not _takes_any_keyword(function):
        by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        unknown = [f"{name}={value}" for name, value in kwargs.items() if name not in by_name]
        if unknown:
            names = ", ".join(unknown)
            return f"ERROR executing '{fun}': The following keyword arguments are not valid: {names}"
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        doc = inspect.getdoc(function)
        return f"Passed invalid arguments to {fun}: {error}" + (f"\n\n{doc}" if doc else "")
    problem = misfit(function, bound)
    return f"ERROR executing '{fun}': {problem}." if problem else ""


def _takes_any_keyword(function: Callable[..., Any]) -> bool:
    signature = _signature(function)
    return signature is not None and any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def _pub_for(function: Callable[..., Any], pub: Mapping[str, Any]) -> dict[str, Any]:
    if not _takes_any_keyword(function) or _names_its_keywords(function):
        return {}
    return {f"__pub_{name}": value for name, value in pub.items()}


def _names_its_keywords(function: Callable[..., Any]) -> bool:
    """Whether it is `**kwargs: Unpack[Keys]`: such a function takes these keywords, and no others."""
    signature = _signature(function)
    said = [p.annotation for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD] if signature else []
    return any("Unpack[" in one if isinstance(one, str) else get_origin(one) is Unpack for one in said)


def _finish(value: Any) -> Any:
    """The value behind a coroutine or a generator."""
    if inspect.iscoroutine(value):
        import asyncio  # noqa: PLC0415 - 40 ms that only jobs with async functions pay

        value = asyncio.run(value)
    if inspect.isasyncgen(value):
        import asyncio  # noqa: PLC0415 - as above

        async def drain() -> list[Any]:
            return [item async for item in value]

        return _merge(asyncio.run(drain()))
    return _merge(value) if inspect.isgenerator(value) else value


def _merge(items: Iterable[Any]) -> Any:
    """Items of a generator as one value: dicts become one dict, anything else a list."""
    everything = list(items)
    if everything and all(isinstance(item, dict) for item in everything):
        merged: dict[Any, Any] = {}
        for item in everything:
            merged.update(item)
        return merged
    return everything


def _retcode(context: Mapping[str, Any], value: Any) -> int:
    given = context.get("retcode", 0)
    retcode = given if isinstance(given, int) else 1
    if retcode == 0 and isinstance(value, dict) and (value.get("result") is False or value.get("success") is False):
        return 1
    return int(retcode)


def _exception_text(error: BaseException) -> str:
    # The first frame is this file's, and one for a file that speaks Salt's language may follow: they say nothing.
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_globals.get("__name__") == _BRIDGE:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return "The minion function caused an exception: " + "".join(lines)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the exception class is the module's, and may fail to describe itself
        return type(error).__name__


Call = tuple[str, Sequence[Any], Mapping[str, Any]]
"""Function, arguments and keyword arguments."""


def call_each(
    loader: Loader, calls: Iterable[Call], *, jid: str, user: str, chain: Chain | None = None, **about: Any
) -> Outcome:
    """Enter each function when the one before has ended, each through the executors of the chain.

    `about` is what these are told beside the job, such as what a resource is.

    The outcome of a single one is its own. That of several maps their names to what they returned (a function that
    stands twice has the second time `name (2)`), has the first retcode that is not 0, and no outputter.
    """
    outcomes: dict[str, Outcome] = {}
    for fun, args, kwargs in calls:
        pub = {"jid": jid, "fun": fun, "arg": list(args), "user": user, **about}
        before = sum(name.partition(" ")[0] == fun for name in outcomes)
        outcomes[f"{fun} ({before + 1})" if before else fun] = call(loader, fun, args, kwargs, pub=pub, chain=chain)
    every = list(outcomes.values())
    if len(every) == 1:
        return every[0]
    return Outcome(
        {name: outcome.value for name, outcome in outcomes.items()},
        next((outcome.retcode for outcome in every if outcome.retcode), 0),
        warnings=tuple(warning for outcome in every for warning in outcome.warnings),
    )


ALWAYS = "saltutil.refresh_pillar"
"""The way out of a blackout that stands in the pillar."""


def blackout(loader: Loader, funs: Iterable[str]) -> Outcome | None:
    """What a job of these functions is answered while the minion is to be left alone; None when it may run.

    A job is refused as a whole. A value that is neither true nor false is a blackout: somebody wanted one.
    """
    wanted = [fun for fun in funs if fun != ALWAYS]
    for name, place in loader.settings.items():
        if place.get("minion_blackout") in (None, False):
            continue
        listed = place.get("minion_blackout_whitelist")
        allowed = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
        refused = [fun for fun in wanted if fun not in allowed]
        if refused:
            text = (
                f"Minion in blackout mode: {refused[0]} does not run. Set 'minion_blackout' to False in its {name} to "
                f"end it; only {ALWAYS} and what minion_blackout_whitelist names there runs until then."
            )
            return Outcome(text, 1, ERROR_OUTPUTTER)
    return None
