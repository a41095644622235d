"""`__opts__` of the files that users write: the whole configuration under the names that Salt has for it.

Shipped files see the options of saltlite alone. All other files see those options and, as in Salt:

    pillar, grains    those of the minion; they are the loader's own objects, so a refresh changes them here, too
    master            the host of the connected master, as text; `master_list`, `master_port` and `master_uri` beside it
    __role            minion or master
    config_dir        the folder of `conf_file`
    sock_dir          of a minion, the folder of the socket for its own callers
    file_client       remote; local for `saltlite call`, on masters, and where Salt is installed
    the rest          Salt's defaults for options that saltlite does not have and that files read
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any, Self

from saltlite.loader.dunders import Injected
from saltlite.model.masters import salts_masters
from saltlite.model.salt_defaults import MINION, salt_defaults


class PluginOpts(Injected):
    """The configuration in Salt's words. Files get one object for each loader, and may change it."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        role = str(opts.get("__role") or MINION)
        super().__init__({
            **salt_defaults(role), **opts, "__role": role, **_places(opts, role), **salts_masters(opts),
            "grains": grains, "pillar": pillar,
        })  # fmt: skip

    def with_values(self, more: Mapping[str, Any]) -> Self:
        """The same configuration with other values for some options; the pillar and grains stay current in it."""
        made = copy.copy(self)
        dict.update(made, more)
        return made

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        dict.update(made, dict.items(self))  # of a subclass, only what is there
        return made


class PluginOptsOfLoader:
    """Makes the `__opts__` of the files of one loader, and of the loaders that it makes, when a file first needs it."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        self._given = opts, grains, pillar
        self._made: dict[bool, PluginOpts] = {}

    def opts(self, *, beside_salt: bool) -> PluginOpts:
        """The one object for all files that may call Salt's code (`beside_salt`), or for all others."""
        if beside_salt not in self._made:
            self._made[beside_salt] = (_compat_opts if beside_salt else PluginOpts)(*self._given)
        return self._made[beside_salt]


def _compat_opts(*given: Mapping[str, Any]) -> PluginOpts:
    from saltlite.loader.salt_compat import CompatOpts  # noqa: PLC0415 - most minions have no Salt

    return CompatOpts(*given)


def _places(opts: Mapping[str, Any], role: str) -> dict[str, Any]:
    config_dir = str(opts.get("config_dir") or os.path.dirname(str(opts.get("conf_file") or "")))
    conf_file = os.path.join(config_dir, role) if config_dir else ""
    sock_dir = opts.get("sock_dir") or opts.get("data_dir") or ""
    return {"conf_file": conf_file, "config_dir": config_dir, "sock_dir": str(sock_dir)}
