"""Drivers as plug-ins: loaded, called and checked. Each provider has its own loader, so that providers share no state.

Contract: "Writing Cloud Driver Modules". A driver sees its provider as `__active_provider_name__` (`alias:driver`), the
configuration as `__opts__`, `salt.utils.cloud` as `__utils__["cloud.…"]`, and execution modules of this host as
`__salt__`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, Never

from saltlite.cloud.api import cloud as functions
from saltlite.cloud.api import exceptions, port
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudException,
    SaltCloudExecutionFailure,
    SaltCloudNotFound,
    SaltCloudSystemExit,
)
from saltlite.cloud.api.port import Capabilities, Cloud
from saltlite.cloud.rules.catalogue import (
    LIST_FIELDS,
    LISTING_FIELDS,
    SETTINGS,
    ListingError,
    Provider,
    full_listing,
    is_gone,
    normal_listing,
    plain_value,
)
from saltlite.errors import SaltliteError
from saltlite.loader.dunders import LazyFunctions
from saltlite.loader.failure import FunctionUnavailable
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Candidate, Loader
from saltlite.loader.salt_names import UtilsAndLibrary
from saltlite.loader.search_path import search_layers

log = logging.getLogger(__name__)

KIND = "clouds"
"""The plug-in type."""
ACTION, FUNCTION = "action", "function"
"""Values of `call`."""
VALIDATE = "validate"
"""Optional function of a driver: raises SaltCloudConfigError for a machine whose settings it cannot use, `vm_`. It is
called before anything is made, the join token included."""
UTILS = "cloud."

Function = Callable[..., Any]


class Driver:
    """One driver for one provider. Every method raises SaltCloudException."""

    def __init__(self, provider: Provider, loader: Loader) -> None:
        self.provider = provider
        self._loader = loader

    @property
    def name(self) -> str:
        """`alias:driver`."""
        return self.provider.name

    @property
    def capabilities(self) -> Capabilities:
        """What the driver declares as `CAPABILITIES`; the defaults if it declares nothing or cannot be loaded."""
        try:
            declared = inspect.unwrap(self.function("create")).__globals__.get("CAPABILITIES")
        except SaltCloudException:
            return Capabilities()
        return declared if isinstance(declared, Capabilities) else Capabilities()

    def settings(self) -> frozenset[str]:
        """The settings that the program knows, and every word in the source of the driver that may be one."""
        words: set[str] = set()
        for file in self._loader.index.claimants(self.provider.driver):
            folder = os.path.dirname(file.path)
            helpers = [name for name in os.listdir(folder) if name.startswith("_") and name.endswith(".py")]
            for path in (file.path, *(os.path.join(folder, name) for name in helpers)):
                words |= _words(path)
        return SETTINGS | words

    def has(self, function: str) -> bool:
        """Whether the driver is loadable and has this function."""
        return f"{self.provider.driver}.{function}" in self._loader

    def functions(self) -> list[str]:
        """The names of all its functions."""
        return self._loader.functions(self.provider.driver)

    def function(self, name: str) -> Function:
        """A function of the driver. Raises SaltCloudNotFound, SaltCloudConfigError."""
        try:
            return self._loader[f"{self.provider.driver}.{name}"]
        except FunctionUnavailable as error:
            raise self._unavailable(name, error) from error

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function of the driver."""
        function = self.function(name)
        try:
            return function(*args, **kwargs)
        except SaltliteError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - supervision point: foreign code
            self._fail(name, error)

    def machines(self) -> dict[str, dict[str, Any]]:
        """Normalized `list_nodes`: the six fields of each machine, without machines that are gone."""
        return {name: one for name, one in self._listed("list_nodes", normal_listing).items() if not is_gone(one)}

    def machines_full(self) -> dict[str, dict[str, Any]]:
        """`list_nodes_full`; those of the six fields that it does not have are taken from `list_nodes`."""
        full = self._listed("list_nodes_full", full_listing)
        if all(field in one for one in full.values() for field in LISTING_FIELDS):
            return full
        short = self._listed("list_nodes", full_listing)
        return {name: {**short.get(name, {}), **one} for name, one in full.items()}

    def machines_selected(self) -> dict[str, dict[str, Any]]:
        """`list_nodes_select`: the fields of `query.selection`."""
        found = self._listed("list_nodes_select", lambda answer: plain_value(dict(answer)))
        return {name: dict(one) for name, one in found.items()}

    def names(self) -> set[str]:
        """The names that are taken."""
        return set(self.ids())

    def ids(self) -> dict[str, str]:
        """The id of each machine, "" if the provider has none; by `list_nodes_min` if the driver has it."""
        if self.has("list_nodes_min"):
            answer = self._listed(
                "list_nodes_min", lambda machines: {str(name): dict(one or {}) for name, one in machines.items()}
            )
            return {name: str(one.get("id") or "") for name, one in answer.items() if not is_gone(one)}
        return {name: str(one["id"]) for name, one in self.machines().items()}

    def action(self, function: str, machine: str, kwargs: Mapping[str, Any]) -> Any:
        """Call an action for a machine, with its settings as one map."""
        return self._called(function, (machine,), kwargs, ACTION)

    def provider_function(self, function: str, kwargs: Mapping[str, Any]) -> Any:
        """Call a function for the provider, with its settings as one map."""
        return self._called(function, (), kwargs, FUNCTION)

    def _called(self, name: str, machine: tuple[str, ...], given: Mapping[str, Any], call: str) -> Any:
        """Raises SaltCloudSystemExit when the function is one of the other kind, or has no place for settings."""
        shown = f"{name} of driver {self.provider.driver}"
        parameters = inspect.signature(self.function(name)).parameters
        names = [one for one in parameters if one not in ("call", "kwargs")]
        needed = [one for one in names if parameters[one].default is inspect.Parameter.empty]
        if "call" not in parameters:
            raise SaltCloudSystemExit(f"{shown} is for the driver itself: it does not take `call`")
        if call == ACTION and not names:
            raise SaltCloudSystemExit(f"The {name} function must be called with -f or --function.")
        if call == FUNCTION and needed:
            raise SaltCloudSystemExit(f"The {name} action must be called with -a or --action.")
        if "kwargs" in parameters and parameters["kwargs"].kind is not inspect.Parameter.VAR_KEYWORD:
            return self.call(name, *machine, kwargs=dict(given), call=call)
        if given:
            raise SaltCloudSystemExit(f"{shown} takes no settings, and is given {', '.join(given)}")
        return self.call(name, *machine, call=call)

    def _listed(self, function: str, form: Callable[[Any], dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
        answer = self.call(function)
        try:
            return form(answer)
        except (ListingError, AttributeError, TypeError, ValueError) as error:
            raise SaltCloudExecutionFailure(
                f"driver {self.provider.driver} gave a bad answer to {function} for {self.provider.alias}: {error}"
            ) from error

    def _unavailable(self, name: str, error: FunctionUnavailable) -> SaltCloudException:
        driver, alias = self.provider.driver, self.provider.alias
        where = self.provider.settings.where
        # Load this driver only: others would log that they are not configured.
        offered = self.functions()
        if offered:
            return SaltCloudNotFound(f"driver {driver} has no {name}; it has {', '.join(offered)}")
        if not self._loader.index.claimants(driver):
            known = ", ".join(self._loader.index.names())
            return SaltCloudConfigError(f"{where}: provider {alias}: there is no driver {driver!r}, but {known}")
        return SaltCloudConfigError(f"{where}: provider {alias} cannot be used: {error}")

    def _fail(self, function: str, error: BaseException) -> Never:
        kind = type(error).__name__
        known = getattr(exceptions, kind, None)
        if isinstance(known, type) and issubclass(known, SaltCloudException):
            raise known(str(error)) from error  # that of a Salt which is installed
        log.debug("Driver %s failed in %s.", self.name, function, exc_info=error)
        raise SaltCloudExecutionFailure(
            f"driver {self.provider.driver} failed in {function} for provider {self.provider.alias}: {kind}: {error}"
        ) from error


@functools.cache
def _words(path: str) -> frozenset[str]:
    """The texts in a file of Python that may be names; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    constants = (item.value for item in ast.walk(tree) if isinstance(item, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str) and value.isidentifier())


class Drivers:
    """The drivers of all providers, loaded on first use."""

    def __init__(self, opts: Mapping[str, Any]) -> None:
        self._opts = opts
        self._known: dict[str, Driver] = {}

    @cached_property
    def index(self) -> Index:
        """All driver files."""
        return build_index(search_layers(self._opts, KIND))

    def of(self, provider: Provider) -> Driver:
        """The driver of a provider."""
        if provider.name not in self._known:
            self._known[provider.name] = Driver(provider, self._loader(provider.name))
        return self._known[provider.name]

    def candidates(self, name: str) -> list[Candidate]:
        """The files that could provide a driver, in order of precedence; loads them."""
        return self._loader("").candidates(name)

    def _loader(self, active: str) -> Loader:
        opts = dict(self._opts)

        def execution() -> Loader:
            return Loader(build_index(search_layers(opts)), opts, {}, {})

        def utils() -> Loader:
            return Loader(build_index(search_layers(opts, "utils")), opts, {}, {})

        more = {
            "__active_provider_name__": active,
            "__salt__": LazyFunctions(execution),
            "__utils__": LazyFunctions(lambda: Utils(UtilsAndLibrary(utils()))),
        }
        return Loader(self.index, opts, {}, {}, more=more)


class Utils(Mapping[str, Function]):
    """`__utils__` of drivers: `cloud.…`, and the plug-ins of the type `utils`."""

    def __init__(self, others: Mapping[str, Function]) -> None:
        self._others = others

    def __getitem__(self, name: str) -> Function:
        own = getattr(functions, name.removeprefix(UTILS), None) if name.startswith(UTILS) else None
        return own if callable(own) else self._others[name]

    def __iter__(self) -> Iterator[str]:
        own = (name for name, one in vars(functions).items() if inspect.isfunction(one) and not name.startswith("_"))
        yield from (f"{UTILS}{name}" for name in own)
        yield from self._others

    def __len__(self) -> int:
        return sum(1 for _ in self)


# -- `saltlite cloud-check`: the contract tests, by inspection and by calls to a configured provider

# They make, change and destroy nothing: they call functions that list, and functions that must refuse the call.

NOWHERE = "saltlite-cloud-check-no-such-machine"
"""A machine that does not exist."""

REQUIRED = (
    "create", "destroy", "get_configured_provider", "list_nodes", "list_nodes_full", "list_nodes_select",
    "show_instance",
)  # fmt: skip
LISTS = ("list_nodes", "list_nodes_full", "list_nodes_select")
OFFERS = ("avail_locations", "avail_images", "avail_sizes")
"""Optional: a provider may have none of these."""


class Result(StrEnum):
    """The result of one test."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One test, its result, and the reason unless it is good."""

    test: str
    result: Result
    why: str = ""


def check(program: Cloud, driver: Driver) -> list[Finding]:
    """Run every test on one driver for one provider."""
    usable = "the driver can be used"
    with port.running(program):
        try:
            driver.function("create")
        except SaltliteError as error:
            return [_finding(usable, str(error))]
        tests = (_functions, _call_arguments, _refusals, _answers)
        return [_finding(usable), *(found for test in tests for found in test(driver))]


def _finding(test: str, why: str = "") -> Finding:
    return Finding(test, Result.BAD if why else Result.GOOD, why)


def _functions(driver: Driver) -> Iterator[Finding]:
    for name in REQUIRED:
        yield _finding(f"{name} exists", "" if driver.has(name) else "it does not")
    if driver.has("get_configured_provider"):
        answer = _tried(lambda: driver.call("get_configured_provider"))
        why = f"it returns {_shown(answer)} for a configured provider, and not a map of settings"
        yield _finding("get_configured_provider returns the settings", "" if isinstance(answer, dict) else why)


def _call_arguments(driver: Driver) -> Iterator[Finding]:
    for name in filter(driver.has, ("destroy", "show_instance", *LISTS, *OFFERS)):
        parameters = inspect.signature(driver.function(name)).parameters
        call = parameters.get("call")
        yield _finding(f"{name} takes call=None", "" if call is not None and call.default is None else "it does not")
        if name in ("destroy", "show_instance"):
            first = next(iter(parameters), "missing")
            yield _finding(f"{name} takes the name first", "" if first == "name" else f"its first argument is {first}")


def _refusals(driver: Driver) -> Iterator[Finding]:
    """A function that is called in the wrong way must refuse, and name the right option."""
    for name in filter(driver.has, (*LISTS, *OFFERS)):
        yield _refusal(driver, name, (), ACTION, ("-f", "--function"))
    yield _refusal(driver, "show_instance", (NOWHERE,), FUNCTION, ("-a", "--action"))
    yield _refusal(driver, "destroy", (NOWHERE,), FUNCTION, ("-d", "--destroy", "-a", "--action"))


def _refusal(driver: Driver, name: str, args: tuple[str, ...], call: str, flags: tuple[str, ...]) -> Finding:
    test = f"{name} refuses call={call!r}, and names {' or '.join(flags[-2:])}"
    if not driver.has(name):
        return Finding(test, Result.SKIPPED, "it does not exist")
    answer = _tried(lambda: driver.call(name, *args, call=call))
    if not isinstance(answer, SaltCloudSystemExit):
        return _finding(test, f"it returns {_shown(answer)} instead of raising SaltCloudSystemExit")
    named = any(flag in str(answer) for flag in flags)
    return _finding(test, "" if named else f"its message names none of them: {answer}")


def _answers(driver: Driver) -> Iterator[Finding]:
    short, full = _tried(lambda: driver.call("list_nodes")), _tried(lambda: driver.call("list_nodes_full"))
    yield _listing("list_nodes returns the six fields, and no others", short, _exactly_six)
    yield _listing("list_nodes_full returns the six fields among others", full, _at_least_six)
    if isinstance(short, dict) and isinstance(full, dict):
        differs = set(short) ^ set(full)
        why = f"{', '.join(sorted(map(str, differs))[:5])} is in one of them only" if differs else ""
        yield _finding("list_nodes and list_nodes_full have the same machines", why)
    yield _listing("list_nodes_select returns fields of query.selection", _tried(lambda: driver.call(LISTS[2])))
    for name in filter(driver.has, OFFERS):
        yield _listing(f"{name} returns a map of names", _tried(partial(driver.call, name)))
    test = "show_instance describes a machine"
    if not isinstance(full, dict) or not full:
        yield Finding(test, Result.SKIPPED, "the provider has no machine")
        return
    name = next(iter(full))
    answer = _tried(lambda: driver.call("show_instance", name, call=ACTION))
    yield _finding(test, "" if isinstance(answer, dict) and answer else f"it returns {_shown(answer)} for {name}")


def _listing(test: str, answer: Any, wrong: Callable[[dict[str, Any]], str] = lambda _answer: "") -> Finding:
    if isinstance(answer, BaseException):
        return _finding(test, str(answer))
    return _finding(test, wrong(answer) if isinstance(answer, dict) else f"it returns {_shown(answer)}")


def _exactly_six(machines: dict[str, Any]) -> str:
    for name, one in machines.items():
        more = set(one) - set(LISTING_FIELDS) if isinstance(one, dict) else set()
        if more:
            return f"{name} also has {', '.join(sorted(map(str, more)))}"
    return _at_least_six(machines)


def _at_least_six(machines: dict[str, Any]) -> str:
    for name, one in machines.items():
        if not isinstance(one, dict):
            return f"{name} is {_shown(one)}, and not a map"
        for field in LISTING_FIELDS:
            wanted = list if field in LIST_FIELDS else str
            if field not in one:
                return f"{name} lacks {field}"
            if not isinstance(one[field], wanted):
                return f"{field} of {name} is {_shown(one[field])}, and not a {wanted.__name__}"
    return ""


def _tried(ask: Callable[[], Any]) -> Any:
    """The answer, or the error that was raised."""
    try:
        return ask()
    except SaltliteError as error:
        return error


def _shown(value: Any) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)[:80]
