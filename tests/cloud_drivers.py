"""Drivers of clouds, as the program calls them: with a program behind them that writes down what they tell it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from saltlite.cloud.api import port

SIX = {"id": str, "image": str, "size": str, "state": str, "private_ips": list, "public_ips": list}


@dataclass
class Program:
    """The program that runs a driver: its configuration, and what the driver told it."""

    opts: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)
    deployed: list[dict[str, Any]] = field(default_factory=list)
    concealed: list[str] = field(default_factory=list)
    remembered: dict[str, dict[str, Any]] = field(default_factory=dict)
    lacking: dict[str, list[str]] = field(default_factory=dict)

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        self.events.append((tag, dict(data)))

    def made(self, machine: str, identity: str) -> None:
        self.told.append((machine, f"made {identity}"))

    def refused(self, machine: str) -> None:
        self.told.append((machine, "refused"))

    def bootstrap(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
        self.fire(f"salt/cloud/{vm_['name']}/deploying", {})
        self.deployed.append(dict(vm_))
        return {"deployed": True}

    def retire(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def conceal(self, secret: str) -> None:
        self.concealed.append(secret)

    def script(self, vm_: Mapping[str, Any]) -> str:
        return f"#!/bin/sh\n# {vm_.get('script', 'built in')}\n"

    def remember(self, provider: str, machines: Mapping[str, Mapping[str, Any]]) -> None:
        self.remembered.setdefault(provider, {}).update(machines)

    def forget(self, provider: str, machine: str) -> None:
        self.remembered.get(provider, {}).pop(machine, None)

    def lacks(self, what: str, missing: Sequence[str]) -> None:
        self.lacking[what] = list(missing)

    def progress(self, machine: str, text: str) -> None:
        pass

    def tags(self) -> list[str]:
        """The tags of the events until now."""
        return [tag for tag, _ in self.events]


@contextmanager
def loaded(driver: str, settings: Mapping[str, Any], **opts: Any) -> Iterator[tuple[Any, Program]]:
    """A driver of saltlite and its program, with one provider `lab` of these settings."""
    every = {
        "providers": {"lab": {driver: {"driver": driver, "provider": f"lab:{driver}", **settings}}},
        "profiles": {},
        "query.selection": ["id", "state"],
        **opts,
    }
    program = Program(every)
    module = importlib.import_module(f"saltlite.cloud.drivers.{driver}")
    with injected(module, {"__opts__": every, "__active_provider_name__": f"lab:{driver}"}), port.running(program):
        yield module, program


@contextmanager
def injected(module: ModuleType, names: Mapping[str, Any]) -> Iterator[None]:
    """Set the names that the loader sets, until the end of the block."""
    vars(module).update(names)
    try:
        yield
    finally:
        for name in names:
            delattr(module, name)


def machine(driver: str, name: str, **settings: Any) -> dict[str, Any]:
    """What `create` is called with: one machine of the profile `small`."""
    return {"name": name, "profile": "small", "provider": f"lab:{driver}", "driver": driver, **settings}


def assert_six(listing: Mapping[str, Mapping[str, Any]]) -> None:
    """Each machine has the six fields, each of its type, and no other."""
    for details in listing.values():
        assert {key: type(value) for key, value in details.items()} == SIX
