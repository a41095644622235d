"""What providers have: machines, images, sizes, locations. Several providers are asked at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudSystemExit
from saltlite.cloud.program.drivers import Driver
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules import listing
from saltlite.cloud.rules.providers import Provider
from saltlite.errors import SaltliteError

ASKED_AT_ONCE = 16
"""Providers."""

Question = Callable[[Driver], Any]


@dataclass(slots=True)
class Answers:
    """`{alias: {driver: answer}}`, as Salt has it, and the errors of those that did not answer."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, SaltliteError] = field(default_factory=dict)


def machines(program: Program, providers: Sequence[Provider]) -> Answers:
    """The six fields of every machine."""

    def ask(driver: Driver) -> Any:
        return _shown(program, driver, driver.machines())

    return ask_all(program, providers, ask)


def machines_full(program: Program, providers: Sequence[Provider]) -> Answers:
    """Everything that there is to say of every machine. It is kept in the cache."""

    def ask(driver: Driver) -> Any:
        found = driver.machines_full()
        if program.config.update_cachedir:
            here = {name: program.secrets.value(one) for name, one in found.items() if not listing.is_gone(one)}
            program.cache.put_all(driver.name, here)
        return _shown(program, driver, found)

    return ask_all(program, providers, ask)


def machines_selected(program: Program, providers: Sequence[Provider]) -> Answers:
    """The fields of `query.selection` of every machine."""
    return ask_all(program, providers, lambda driver: driver.machines_selected())


def machines_cached(program: Program, providers: Sequence[Provider]) -> Answers:
    """What providers said when they were last asked; none is asked now."""
    answers = Answers()
    for provider in providers:
        answers.found.setdefault(provider.alias, {})[provider.driver] = program.cache.machines(provider.name)
    return answers


def offers(program: Program, providers: Sequence[Provider], what: str) -> Answers:
    """`what` is images, sizes or locations."""

    def ask(driver: Driver) -> Any:
        return listing.plain(driver.call(f"avail_{what}") or {})

    return ask_all(program, providers, ask)


def find(program: Program, names: Sequence[str], providers: Sequence[Provider]) -> dict[str, Driver]:
    """The driver of each machine. Raises SaltliteError when a machine is nowhere, or at two providers, or when a
    provider that may have one of them did not answer.
    """
    answers = ask_all(program, providers, lambda driver: driver.names())
    places: dict[str, list[Driver]] = {name: [] for name in names}
    for provider in providers:
        here = answers.found.get(provider.alias, {}).get(provider.driver, ())
        for name in names:
            if name in here:
                places[name].append(program.driver(provider))
    for name, drivers in places.items():
        if len(drivers) > 1:
            several = " and ".join(one.name for one in drivers)
            raise SaltCloudSystemExit(f"{name} is at {several}: say which one is meant with --provider")
    missing = [name for name, drivers in places.items() if not drivers]
    if missing and answers.errors:
        raise next(iter(answers.errors.values()))
    if missing:
        raise SaltCloudSystemExit(f"no provider has a machine {' or '.join(missing)}; `saltlite cloud -Q` lists them")
    return {name: drivers[0] for name, drivers in places.items()}


def ask_all(program: Program, providers: Sequence[Provider], question: Question) -> Answers:
    """Ask these providers, several at a time; one that fails does not keep the others from answering."""
    answers, left, lock = Answers(), list(reversed(providers)), threading.Lock()
    drivers = {provider.name: program.driver(provider) for provider in providers}

    def ask_some() -> None:
        while True:
            with lock:
                if not left:
                    return
                provider = left.pop()
            try:
                with port.running(program):
                    answer = question(drivers[provider.name])
            except SaltliteError as error:
                with lock:
                    answers.errors[provider.name] = error
            else:
                with lock:
                    answers.found.setdefault(provider.alias, {})[provider.driver] = answer

    if len(providers) == 1:
        ask_some()
        return answers
    # They end with the process: a provider that hangs must not keep it from ending when somebody presses Ctrl-C.
    threads = [threading.Thread(target=ask_some, daemon=True) for _ in range(min(ASKED_AT_ONCE, len(providers)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def _shown(program: Program, driver: Driver, found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Machines of the cache that are not listed any more leave it with every listing."""
    if program.config.update_cachedir:
        for name in program.cache.names(driver.name):
            if name not in found:
                program.cache.unlist(driver.name, name)
    return found
