"""The events that every driver fires, with what each of them has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from saltlite.cloud.api.cloud import filter_event, fire_event
from saltlite.cloud.api.exceptions import SaltCloudException
from saltlite.cloud.api.port import cloud

MACHINE_KEYS = ("name", "profile", "provider", "driver")


def tell(tag: str, text: str, vm_: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
    """Fire `salt/cloud/<name>/<tag>` about a machine, such as `creating`: who it is, and `more`."""
    data = filter_event(tag, {**vm_, **(more or {})}, (*MACHINE_KEYS, *(more or ())))
    fire_event("event", text, f"salt/cloud/{vm_['name']}/{tag}", args=data)


@contextlib.contextmanager
def asking_for(vm_: Mapping[str, Any]) -> Iterator[None]:
    """A block that asks the provider for this machine, and does nothing else. When it is certain that nothing was made
    (an error that is not `unclear`) nobody looks for a machine to destroy, which might be another of the same name.
    """
    try:
        yield
    except SaltCloudException as error:
        if not error.unclear:
            cloud().refused(str(vm_["name"]))
        raise


def made(vm_: Mapping[str, Any], identity: str) -> None:
    """The provider has made this machine, and calls it so: from now on it is destroyed by that, and not by its name."""
    cloud().made(str(vm_["name"]), identity)
