"""A program that runs drivers and deploys for real, for tests of deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.cloud.deploy.bootstrap import bootstrap, retire
from tests import cloud_drivers


@dataclass
class Program(cloud_drivers.Program):
    """As the program of the other tests of drivers, but what it deploys is deployed."""

    def bootstrap(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
        return bootstrap(vm_, opts)

    def retire(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
        return retire(vm_, opts)
