"""The configuration that the minion of a new machine gets: what `minion` and `grains` say, and who it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLOUD_GRAIN = "salt-cloud"
"""The grain that says by which driver, provider and profile a machine was made."""


def minion_id(vm_: Mapping[str, Any]) -> str:
    """The id of the minion on a machine: that of its settings `minion`, or its name with `append_domain`."""
    given = (vm_.get("minion") or {}).get("id")
    if given:
        return str(given)
    name, domain = str(vm_.get("name") or ""), str(vm_.get("append_domain") or "").lstrip(".")
    return f"{name}.{domain}" if domain else name


def minion_settings(vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the minion: `minion` of the machine over that of all; its id; its grains.

    A master without a port has that of `opts`, under `master_port` there. The join token is not among the options:
    it travels as a file of its own, which the minion may forget.
    """
    settings = {**(opts.get("minion") or {}), **(vm_.get("minion") or {})}
    if settings.get("master") and opts.get("master_port"):
        settings["master"] = _with_port(settings["master"], int(opts["master_port"]))
    grains = {**(settings.get("grains") or {}), **(vm_.get("grains") or {}), CLOUD_GRAIN: cloud_grain(vm_)}
    return {**settings, "id": minion_id(vm_), "grains": grains}


def cloud_grain(vm_: Mapping[str, Any]) -> dict[str, str]:
    """Which driver, provider and profile the machine is of."""
    alias, _, driver = str(vm_.get("provider") or vm_.get("driver") or "").partition(":")
    return {
        "driver": driver or str(vm_.get("driver") or ""),
        "provider": alias,
        "profile": str(vm_.get("profile") or ""),
    }


def _with_port(master: Any, port: int) -> Any:
    if isinstance(master, list | tuple):
        return [_with_port(one, port) for one in master]
    text = str(master)
    if text.startswith("["):
        return text if text.rpartition("]")[2] else f"{text}:{port}"
    if text.count(":") > 1:
        return f"[{text}]:{port}"
    return text if ":" in text else f"{text}:{port}"
