"""Drivers of clouds, as the program calls them: with a program behind them that writes down what they tell it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from saltlite.cli.main import main_cloud
from saltlite.cloud.api import port
from saltlite.cloud.api.port import Capabilities
from saltlite.cloud.deploy.bootstrap import bootstrap, retire
from tests.support.fleet import WAIT_S, Fleet, Said

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
    missing_settings: dict[str, list[str]] = field(default_factory=dict)

    def capabilities(self, driver: str) -> Capabilities:
        if importlib.util.find_spec(f"saltlite.cloud.drivers.{driver}") is None:
            return Capabilities()
        module = importlib.import_module(f"saltlite.cloud.drivers.{driver}")
        return getattr(module, "CAPABILITIES", Capabilities())

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
        self.missing_settings[what] = list(missing)

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


# -- A configuration of clouds beside a master's, whose machines are processes here: tests/data/clouds/scripted.py.
#
# What belongs here: writing files, typing command lines, and looking at events. What does not: what the tests expect.


DRIVER = Path(__file__).parents[1] / "data" / "clouds" / "scripted.py"
PROVIDER = "my-cloud-provider"
IMAGE = "Ubuntu 13.10 64-bit"

PLANTED: dict[str, dict[str, Any]] = {
    "provider": {"api_key": "planted-api-key-31337", "options": {"token": "planted-token-deep-31337"}},
    "profile": {
        "ssh_password": "planted-password-31337 'quoted'",
        "sudo_password": "planted-sudo-31337",
        "userdata": "planted-userdata-31337",
        "script_env": {"REGISTRY_TOKEN": "planted-env-31337"},
        "private_key_text_secret": "-----BEGIN PRIVATE KEY-----\nplantedkeyline31337AAAA\n-----END PRIVATE KEY-----",
        "minion_pub": "ssh-ed25519 AAAAplantedpublickey31337AAAAAAAA me@example",
        "nested": [{"credentials": {"client_secret": "planted-in-a-list-31337"}}],
    },
}
"""Secrets in every kind of place."""
MARK = "31337"


def run_cloud(capture: pytest.CaptureFixture[str], *words: str) -> Said:
    """`saltlite-cloud words` in this process, as the start of another takes longer than most of what it does.

    What it makes is not unfinished after it, because the process that made it is alive.
    """
    root = logging.getLogger()
    handlers, level, on_term = list(root.handlers), root.level, signal.getsignal(signal.SIGTERM)
    capture.readouterr()
    try:
        code = main_cloud(words)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        signal.signal(signal.SIGTERM, on_term)
    return Said(code, *capture.readouterr())


class Lab:
    """The files, and the command `saltlite-cloud` on them."""

    def __init__(self, fleet: Fleet, capture: pytest.CaptureFixture[str], master: str = "master") -> None:
        self.fleet = fleet
        self._capture = capture
        self._master = master
        self._started: list[subprocess.Popen[str]] = []
        self.folder = fleet.folder / master
        self.machines = fleet.folder / "machines"
        self.machines.mkdir(exist_ok=True)
        Fleet.write_module_index(self.machines / "index")
        drivers = fleet.folder / "drivers"
        drivers.mkdir(mode=0o755, exist_ok=True)
        shutil.copy(DRIVER, drivers)
        self.folder.mkdir(exist_ok=True)
        self.write(
            "cloud", {"root_dir": str(self.folder / "root"), "cloud_dirs": [str(drivers)], "wait_for_minion": WAIT_S}
        )
        self.provider()
        self.profile("small")

    def write(self, name: str, options: dict[str, Any]) -> Path:
        """A file of the configuration; JSON values are YAML."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items()))
        return path

    def provider(self, **settings: Any) -> None:
        """The provider, with these settings besides."""
        given = {"driver": "scripted", "folder": str(self.machines), **settings}
        self.write("cloud.providers.d/lab.conf", {PROVIDER: {k: v for k, v in given.items() if v is not None}})

    def profile(self, name: str, **settings: Any) -> None:
        """A profile, with these settings besides."""
        given = {"provider": PROVIDER, "image": IMAGE, "size": "small", "minion": {"master": "127.0.0.1"}, **settings}
        self.write(f"cloud.profiles.d/{name}.conf", {name: given})

    def run(self, *words: str) -> Said:
        """`saltlite-cloud words`, in this process."""
        with patch.dict(os.environ, self.fleet.environment(), clear=True):
            return run_cloud(self._capture, "-c", str(self.folder), "--out", "json", *words)

    def run_apart(self, *words: str) -> Said:
        """The same, in a process of its own."""
        return self.fleet.cli("cloud", "--out", "json", *words, master=self._master)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The same, running."""
        self._started.append(self.fleet.start_cli("cloud", "--out", "json", *words))
        return self._started[-1]

    def put_back(self) -> None:
        """Leave nothing of a test to the next one, however it ended."""
        for process in self._started:
            process.kill()
            process.communicate()
        for left in ("go", "destroying", "hangs"):
            (self.machines / left).unlink(missing_ok=True)
        shutil.rmtree(self.folder / "cloud.conf.d", ignore_errors=True)
        self.provider()
        self.profile("small")
        self.run("--clean", "-y")
        for name in self.there():
            self.run("-d", name, "-y")

    def there(self) -> set[str]:
        """The machines that the provider has, as it says itself."""
        path = self.machines / "machines.json"
        return set(json.loads(path.read_text())) if path.exists() else set()

    def events(self, machine: str = "") -> list[tuple[str, dict[str, Any]]]:
        """(what, data) of the events of machines, in order."""
        with self.fleet.store() as store:
            found = [event for event in store.events(0, 10**6) if event.tag.startswith(f"salt/cloud/{machine}")]
        return [(event.tag.removeprefix(f"salt/cloud/{machine}").lstrip("/"), dict(event.data)) for event in found]

    def cached(self) -> list[Path]:
        """The files of machines in the cache."""
        return list((self.folder / "root/var/cache/saltlite/cloud/active").rglob("*.json"))


# -- A program that runs drivers and deploys for real, for tests of deployment.


@dataclass
class DeployingProgram(Program):
    """As the program of the other tests of drivers, but what it deploys is deployed."""

    def bootstrap(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
        return bootstrap(vm_, opts)

    def retire(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
        return retire(vm_, opts)
