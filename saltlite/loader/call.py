"""Calls execution module functions. Whatever a function does, the call ends in an Outcome.

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
    has an executor that cannot be used         ERROR executing 'm.f': Executor 'x' is not …      1
    raises anything else, SystemExit included   The minion function caused an exception: …        1

The texts are Salt's. Arguments are bound before the call, so a TypeError in the body is never reported as wrong
arguments. `call_each` runs the functions of one job in sequence, and `blackout` refuses jobs during a blackout.
"""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from saltlite.decorators import collecting
from saltlite.errors import (
    CommandExecutionError,
    CommandNotFoundError,
    InterfaceError,
    SaltInvocationError,
    SaltliteError,
    invalid_keywords,
)
from saltlite.loader.cross_calls import PUB, is_plain, is_shipped, names_its_keywords, signature_of, takes_any_keyword
from saltlite.loader.executors import Chain
from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.loader import Loader
from saltlite.model.dataclass import dataclass
from saltlite.model.execution import CallEnded

_PLAIN = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "None": ""}
_ALTERNATIVES = re.compile(r"\s*\|\s*")

ERROR_OUTPUTTER = "nested"
"""Prints the texts of failed calls, whichever outputter the function asks for."""

ALWAYS_ALLOWED = "saltutil.refresh_pillar"
"""The function that ends a blackout set in the pillar."""

Call = tuple[str, Sequence[Any], Mapping[str, Any]]
"""Function, arguments and keyword arguments."""

_BRIDGE = "saltlite.loader.salt_compat"

_FOR_CALLERS = (CommandExecutionError, CommandNotFoundError, SaltInvocationError)
"""Errors whose text is for the caller. Any other one is a defect of the function, and its traceback is shown."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call. `warnings` are sentences for the caller and no part of the value."""

    value: Any
    retcode: int
    out: str | None = None
    """The outputter that the function asks for."""
    warnings: tuple[str, ...] = ()
    interface: Mapping[str, str] | None = None
    """For a call that the module's interface stopped: status, interface, version, provider, function."""


def call(
    loader: Loader,
    fun: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    pub: Mapping[str, Any] | None = None,
    chain: Chain | None = None,
) -> Outcome:
    """Call `module.function` and return its outcome; raises nothing.

    `pub` holds facts of the job (jid, fun, arg, user, tgt …), which a function with `**kwargs` receives as
    `__pub_<name>`. `chain` holds the executors between the caller and the function, if any.
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
    except _FOR_CALLERS as error:
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
    """As `_call`, through the executors, which may also handle a function that does not exist."""
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
    except _FOR_CALLERS as error:
        return _raised(fun, error)
    except CallEnded as error:
        return _failed(f"ERROR executing '{fun}': {error}")
    except BaseException as error:  # noqa: BLE001 - supervision point: as in _call, and executors are anybody's too
        return _failed(_exception_text(error))


def _entrance(function: Callable[..., Any], pub: Mapping[str, Any]) -> Callable[..., Any]:
    """The function for executors: coroutines and generators are run to their end."""

    @functools.wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        return _finish(function(*args, **kwargs, **_pub_for(function, pub)))

    return entered


def _outcome(loader: Loader, fun: str, context: Mapping[str, Any], value: Any) -> Outcome:
    return Outcome(value, _retcode(context, value), loader.outputter(fun))


def _unavailable(error: FunctionUnavailable) -> Outcome:
    hint = f"Did you mean {' or '.join(error.suggestions)}?" if error.suggestions else ""
    return Outcome(error.text, 1, ERROR_OUTPUTTER, (hint,) if hint else ())


def _raised(fun: str, error: SaltliteError) -> Outcome:
    """The outcome for an error that the function raised for its caller."""
    text = _text(error)
    if isinstance(error, InterfaceError):
        return Outcome(text, error.retcode, ERROR_OUTPUTTER, interface=error.details)
    if isinstance(error, CommandNotFoundError):
        return _failed(f"Command required for '{fun}' not found: {text}")
    return _failed(f"ERROR: {text}" if isinstance(error, CommandExecutionError) else f"ERROR executing '{fun}': {text}")


def _closed_to_callers(opts: Mapping[str, Any], fun: str) -> str:
    """Why `whitelist_modules` bars the function from outside callers. Modules may call each other: it is no sandbox."""
    listed = opts.get("whitelist_modules")
    module = fun.partition(".")[0]
    if not listed or module in listed:
        return ""
    return f"'{fun}' is not available. (option whitelist_modules of this minion does not have {module!r})"


def _failed(text: str) -> Outcome:
    return Outcome(text, 1, ERROR_OUTPUTTER)


def _refusal(fun: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Why the arguments do not fit the function's signature; "" if they do."""
    forged = [name for name in kwargs if str(name).startswith(PUB)]
    if forged:
        names = ", ".join(forged)
        return f"ERROR executing '{fun}': {names} cannot be given: these names are reserved for facts of the job."
    if not args and not kwargs and _needs_no_argument(function):
        return ""
    signature = signature_of(function)
    if signature is None:
        return ""  # machine code without a signature checks its arguments itself
    parameters = signature.parameters.values()
    if not takes_any_keyword(function):
        by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        unknown = [f"{name}={value}" for name, value in kwargs.items() if name not in by_name]
        if unknown:
            return f"ERROR executing '{fun}': {invalid_keywords(unknown, by_name)}"
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        doc = inspect.getdoc(function)
        return f"Passed invalid arguments to {fun}: {error}" + (f"\n\n{doc}" if doc else "")
    problem = _type_mismatch(function, bound)
    return f"ERROR executing '{fun}': {problem}." if problem else ""


def _type_mismatch(function: Callable[..., Any], bound: inspect.BoundArguments) -> str:
    """Which argument is a list or map where a shipped function takes plain values; "" if none is.

    Callers of the API can pass any type, and most code would fail halfway. Only shipped functions are held to their
    annotations: custom modules may accept more than they declare. Texts and numbers stand for each other.
    """
    if not is_shipped(function):
        return ""
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        expected = _expected_types(parameter.annotation)
        if not expected or parameter.kind is parameter.VAR_KEYWORD:
            continue
        for one in value if parameter.kind is parameter.VAR_POSITIONAL else (value,):
            if isinstance(one, list | tuple | set | dict):
                return f"{name!r} takes {expected}, and was given {'a map' if isinstance(one, dict) else 'a list'}"
    return ""


def _expected_types(annotation: object) -> str:
    """The plain types of an annotation in words; "" for any other annotation."""
    types = _ALTERNATIVES.split(annotation) if isinstance(annotation, str) else [""]
    if not all(one in _PLAIN for one in types):
        return ""
    return " or ".join(dict.fromkeys(_PLAIN[one] for one in types if _PLAIN[one]))


def _needs_no_argument(function: Callable[..., Any]) -> bool:
    """Whether it is known, without its signature, that the function can be called without arguments."""
    if not is_plain(function):
        return False
    code = function.__code__
    defaults, keyword_defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    return code.co_argcount == len(defaults) and code.co_kwonlyargcount == len(keyword_defaults)


def _pub_for(function: Callable[..., Any], pub: Mapping[str, Any]) -> dict[str, Any]:
    if not takes_any_keyword(function) or names_its_keywords(function):
        return {}
    return {f"{PUB}{name}": value for name, value in pub.items()}


def _finish(value: Any) -> Any:
    """The value of a coroutine or generator that is run to its end."""
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
    """The items of a generator: dicts merged into one dict, anything else as a list."""
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
    # Skip the frames of this file and of the bridge to Salt's files: they say nothing.
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


def call_each(
    loader: Loader, calls: Iterable[Call], *, jid: str, user: str, chain: Chain | None = None, **about: Any
) -> Outcome:
    """Call the functions of one job in sequence, each through the executors of the chain.

    `about` holds further facts for the executors, such as the resource. The outcome of a single call is its own. That
    of several calls maps each name to its value (a second call of `name` is `name (2)`) and has the first retcode that
    is not 0, and no outputter.
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


def blackout(loader: Loader, funs: Iterable[str]) -> Outcome | None:
    """The refusal of a job with these functions during a blackout; None when the job may run.

    As in Salt, `minion_blackout` in the configuration, the grains or the pillar starts a blackout, and
    `minion_blackout_whitelist` beside it names functions that still run. The job is refused as a whole. Any value but
    None and False is a blackout. Calls on the machine itself are not affected.
    """
    wanted = [fun for fun in funs if fun != ALWAYS_ALLOWED]
    for name, place in loader.settings.items():
        if place.get("minion_blackout") in (None, False):
            continue
        listed = place.get("minion_blackout_whitelist")
        allowed = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
        refused = [fun for fun in wanted if fun not in allowed]
        if refused:
            text = (
                f"Minion in blackout mode: {refused[0]} does not run. Set 'minion_blackout' to False in its {name} to "
                f"end it; until then only {ALWAYS_ALLOWED} and the functions of minion_blackout_whitelist there run."
            )
            return Outcome(text, 1, ERROR_OUTPUTTER)
    return None
