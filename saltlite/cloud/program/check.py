"""`saltlite cloud-check`: contract tests for drivers, by inspection and by calls to a configured provider.

Contract: "Writing Cloud Driver Modules". The tests make, change and destroy nothing: they call functions that list, and
functions that must refuse the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudSystemExit
from saltlite.cloud.program.drivers import ACTION, FUNCTION, Driver
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules import listing
from saltlite.errors import SaltliteError

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


def check(program: Program, driver: Driver) -> list[Finding]:
    """Run every test on one driver for one provider."""
    with port.running(program):
        unusable = _unusable(driver)
        if unusable:
            return [Finding("the driver can be used", Result.BAD, unusable)]
        return [
            Finding("the driver can be used", Result.GOOD),
            *_functions(driver),
            *_call_arguments(driver),
            *_refusals(driver),
            *_answers(driver),
        ]


def _unusable(driver: Driver) -> str:
    try:
        driver.function("create")
    except SaltliteError as error:
        return str(error)
    return ""


def _functions(driver: Driver) -> Iterator[Finding]:
    for name in REQUIRED:
        there = driver.has(name)
        yield Finding(f"{name} is there", Result.GOOD if there else Result.BAD, "" if there else "it is not")
    if driver.has("get_configured_provider"):
        answer = _tried(lambda: driver.call("get_configured_provider"))
        good = isinstance(answer, dict)
        why = "" if good else f"it answers {_shown(answer)} for a provider that is configured, and no map of settings"
        yield Finding("get_configured_provider answers the settings", Result.GOOD if good else Result.BAD, why)


def _call_arguments(driver: Driver) -> Iterator[Finding]:
    for name in ("destroy", "show_instance", *LISTS, *OFFERS):
        if not driver.has(name):
            continue
        parameters = inspect.signature(driver.function(name)).parameters
        call = parameters.get("call")
        good = call is not None and call.default is None
        yield Finding(f"{name} takes call=None", Result.GOOD if good else Result.BAD, "" if good else "it does not")
        if name in ("destroy", "show_instance"):
            first = next(iter(parameters), "")
            good = first == "name"
            why = "" if good else f"its first argument is {first or 'missing'}"
            yield Finding(f"{name} takes the name first", Result.GOOD if good else Result.BAD, why)


def _refusals(driver: Driver) -> Iterator[Finding]:
    """A function that is called in the wrong way must refuse, and name the right option."""
    for name in (*LISTS, *OFFERS):
        if driver.has(name):
            yield _refusal(driver, name, (), ACTION, ("-f", "--function"))
    yield _refusal(driver, "show_instance", (NOWHERE,), FUNCTION, ("-a", "--action"))
    yield _refusal(driver, "destroy", (NOWHERE,), FUNCTION, ("-d", "--destroy", "-a", "--action"))


def _refusal(driver: Driver, name: str, args: tuple[str, ...], call: str, flags: tuple[str, ...]) -> Finding:
    test = f"{name} refuses call={call!r}, and names {' or '.join(flags[-2:])}"
    if not driver.has(name):
        return Finding(test, Result.SKIPPED, "it is not there")
    answer = _tried(lambda: driver.call(name, *args, call=call))
    if not isinstance(answer, SaltCloudSystemExit):
        return Finding(test, Result.BAD, f"it answers {_shown(answer)} in place of raising SaltCloudSystemExit")
    if not any(flag in str(answer) for flag in flags):
        return Finding(test, Result.BAD, f"its text names none of them: {answer}")
    return Finding(test, Result.GOOD)


def _answers(driver: Driver) -> Iterator[Finding]:
    short, full = _tried(lambda: driver.call("list_nodes")), _tried(lambda: driver.call("list_nodes_full"))
    yield _form("list_nodes answers the six fields, and no others", short, _exactly_six)
    yield _form("list_nodes_full answers the six fields among others", full, _at_least_six)
    names = [set(one) for one in (short, full) if isinstance(one, dict)]
    if len(names) == 2:
        differs = names[0] ^ names[1]
        why = f"{', '.join(sorted(map(str, differs))[:5])} is in one of them only" if differs else ""
        yield Finding("list_nodes and list_nodes_full have the same machines", _result(not differs), why)
    yield _form("list_nodes_select answers fields of query.selection", _tried(lambda: driver.call(LISTS[2])), _any_map)
    for name in OFFERS:
        if driver.has(name):
            yield _form(f"{name} answers a map of names", _tried(partial(driver.call, name)), _any_map)
    yield _shown_instance(driver, full)


def _shown_instance(driver: Driver, full: Any) -> Finding:
    test = "show_instance tells of a machine"
    if not isinstance(full, dict) or not full:
        return Finding(test, Result.SKIPPED, "the provider has no machine")
    name = next(iter(full))
    answer = _tried(lambda: driver.call("show_instance", name, call=ACTION))
    good = isinstance(answer, dict) and bool(answer)
    return Finding(test, _result(good), "" if good else f"it answers {_shown(answer)} for {name}")


def _form(test: str, answer: Any, wrong: Callable[[Any], str]) -> Finding:
    if isinstance(answer, BaseException):
        return Finding(test, Result.BAD, str(answer))
    if not isinstance(answer, dict):
        return Finding(test, Result.BAD, f"it answers {_shown(answer)}")
    why = wrong(answer)
    return Finding(test, _result(not why), why)


def _exactly_six(machines: dict[str, Any]) -> str:
    for name, one in machines.items():
        more = set(one) - set(listing.FIELDS) if isinstance(one, dict) else set()
        if more:
            return f"{name} has {', '.join(sorted(map(str, more)))} besides"
    return _at_least_six(machines)


def _at_least_six(machines: dict[str, Any]) -> str:
    for name, one in machines.items():
        if not isinstance(one, dict):
            return f"{name} is {_shown(one)}, and no map"
        for field in listing.FIELDS:
            wanted = list if field in listing.LISTS else str
            if field not in one:
                return f"{name} lacks {field}"
            if not isinstance(one[field], wanted):
                return f"{field} of {name} is {_shown(one[field])}, and no {wanted.__name__}"
    return ""


def _any_map(_answer: dict[str, Any]) -> str:
    return ""


def _tried(ask: Callable[[], Any]) -> Any:
    """The answer, or the error that was raised."""
    try:
        return ask()
    except SaltliteError as error:
        return error


def _result(good: object) -> Result:
    return Result.GOOD if good else Result.BAD


def _shown(value: Any) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)[:80]
