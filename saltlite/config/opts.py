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


def shown_opts(config: MasterConfig | MinionConfig, name: str) -> dict[str, Any]:
    """The same for somebody to read: what stands in them below a name like that of a secret is hidden, at any depth."""
    return {option: _shown(value) for option, value in opts_of(config, name).items()}


def _shown(value: Any) -> Any:
    from saltlite.model.redaction import is_secret_name  # noqa: PLC0415 - every command imports this file
    from saltlite.model.secretargs import HIDDEN  # noqa: PLC0415 - as above

    if isinstance(value, dict):
        return {key: HIDDEN if inner and is_secret_name(str(key)) else _shown(inner) for key, inner in value.items()}
    return [_shown(inner) for inner in value] if isinstance(value, list) else value
