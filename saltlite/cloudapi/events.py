"""The events that every driver fires, with what each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.cloudapi.cloud import filter_event, fire_event

MACHINE_KEYS = ("name", "profile", "provider", "driver")


def tell(tag: str, text: str, vm_: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
    """Fire `salt/cloud/<name>/<tag>` about a machine, such as `creating`: who it is, and `more`."""
    data = filter_event(tag, {**vm_, **(more or {})}, (*MACHINE_KEYS, *(more or ())))
    fire_event("event", text, f"salt/cloud/{vm_['name']}/{tag}", args=data)
