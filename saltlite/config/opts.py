"""The configuration as plug-ins see it: `__opts__`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.config.options import options_of

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig


def opts_of(config: MasterConfig | MinionConfig, name: str) -> dict[str, Any]:
    """Every option that is no secret, module configuration, a minion's `conf_file`, and `id`, which is `name`."""
    values = {option: getattr(config, option) for option, known in options_of(type(config)).items() if not known.secret}
    own = {"conf_file": conf_file} if (conf_file := getattr(config, "conf_file", "")) else {}
    return {**values, **getattr(config, "module_config", {}), **own, "id": name}
