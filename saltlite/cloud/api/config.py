"""Settings as drivers look them up (`salt.config`), and the configuration file of a new minion.

Contract: Salt's functions of these names. The order is the documented one: machine, profile, provider, global.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from saltlite.cloud.api import port
from saltlite.config.load import load_minion
from saltlite.config.minion import MinionConfig
from saltlite.errors import ConfigError

log = logging.getLogger(__name__)


def get_cloud_config_value(
    name: str, vm_: Mapping[str, Any] | None, opts: Mapping[str, Any], default: Any = None, search_global: bool = True
) -> Any:
    """The value of a setting for this machine or provider, or `default`.

    `vm_` may be a machine, a provider's settings, or None. Maps of several levels are merged; nearer levels win.
    """
    levels = [level for level in _levels(vm_ or {}, opts, search_global) if level.get(name) is not None]
    if not levels:
        return default
    if all(isinstance(level[name], dict) for level in levels):
        merged: dict[str, Any] = {}
        for level in reversed(levels):
            merged.update(copy.deepcopy(level[name]))
        return merged
    return copy.deepcopy(levels[0][name])


def is_provider_configured(
    opts: Mapping[str, Any],
    provider: str,
    required_keys: Collection[str] = (),
    log_message: bool = True,
    aliases: Collection[str] = (),
) -> dict[str, Any] | Literal[False]:
    """The settings of the first provider that has all of these keys, or False.

    `provider` is `alias:driver`, or the name of a driver; `aliases` are other names of the driver.
    """
    for alias, driver, details in _providers(opts):
        if provider not in (f"{alias}:{driver}", driver) and driver not in aliases:
            continue
        missing = [key for key in required_keys if details.get(key) is None]
        if not missing:
            return details
        port.note_lack(f"{alias}:{driver}", missing)
        if log_message:
            log.info("Provider %s lacks the setting %s.", alias, ", ".join(missing))
    return False


def is_profile_configured(
    opts: Mapping[str, Any], provider: str, profile_name: str, vm_: Mapping[str, Any] | None = None
) -> bool:
    """Whether the profile has what the driver needs: an image and a size, unless it declares otherwise."""
    capabilities = port.capabilities_of(provider.rpartition(":")[2])
    settings = {**_provider(opts, provider), **(opts.get("profiles") or {}).get(profile_name, {}), **(vm_ or {})}
    required = ["provider"]
    if capabilities.needs_image:
        required.append("image")
    if capabilities.needs_size:
        required.append("size")
    missing = [key for key in required if settings.get(key) is None]
    if missing:
        port.note_lack(f"profile {profile_name}", missing)
        log.info("Profile %s lacks the setting %s.", profile_name, ", ".join(missing))
    return not missing


def _levels(vm_: Mapping[str, Any], opts: Mapping[str, Any], search_global: bool) -> Iterator[Mapping[str, Any]]:
    yield vm_
    profile = (opts.get("profiles") or {}).get(vm_.get("profile"))
    if isinstance(profile, Mapping):
        yield profile
    yield _provider(opts, str(vm_.get("provider") or vm_.get("driver") or ""))
    if search_global:
        yield opts


def _provider(opts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The settings of `alias:driver`, `alias`, or of a driver with one provider only; empty for none."""
    found = list(_providers(opts))
    for known in (lambda alias, driver: name in (f"{alias}:{driver}", alias), lambda _alias, driver: name == driver):
        matching = [details for alias, driver, details in found if known(alias, driver)]
        if len(matching) == 1:
            return matching[0]
    return {}


def _providers(opts: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for alias, drivers in (opts.get("providers") or {}).items():
        if isinstance(drivers, Mapping):
            yield from ((alias, driver, details) for driver, details in drivers.items() if isinstance(details, dict))


def lines_of(options: Mapping[str, Any]) -> str:
    """The text of a minion's configuration file: a line for each option, its value as JSON, which is YAML."""
    return "".join(
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False, default=str)}\n"
        for name, value in options.items()
    )


def read_back(options: Mapping[str, Any]) -> MinionConfig:
    """The configuration that a minion reads from such a file. Raises ConfigError, without values of secrets."""
    with tempfile.TemporaryDirectory(prefix="saltlite-") as folder:
        with open(os.path.join(folder, "minion"), "w", encoding="utf-8") as file:
            file.write(lines_of(options))
        try:
            return load_minion(folder).config
        except ConfigError as error:
            # The origins are in a temporary file.
            raise ConfigError("; ".join(line.split(": ", 1)[-1] for line in str(error).splitlines())) from error
