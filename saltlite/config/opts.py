"""`__opts__`: what modules and operators see of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig
    from saltlite.config.minion import MinionConfig


def opts_of(config: MasterConfig | MinionConfig, name: str) -> dict[str, Any]:
    """All options except secrets, the module configuration, where they were read, `id`, which is `name`, and `__role`.

    `__role` is minion or master. A minion has `conf_file`, a master `config_dir`.
    """
    given = getattr(config, "own_opts", None)
    if given is not None:  # it was read by another process
        return {option: getattr(config, option, value) for option, value in given.items()} | {"id": name}
    from saltlite.config.options import options_of  # noqa: PLC0415 - a daemon does not keep the descriptors of options

    values = {option: getattr(config, option) for option, known in options_of(type(config)).items() if not known.secret}
    own = {place: found for place in ("conf_file", "config_dir") if (found := getattr(config, place, ""))}
    role = "minion" if hasattr(config, "module_config") else "master"
    return {**values, **getattr(config, "module_config", {}), **own, "id": name, "__role": role}


def shown_opts(config: MasterConfig | MinionConfig, name: str) -> dict[str, Any]:
    """`opts_of` for display: values below a key that is named like a secret are hidden, at any depth."""
    return {option: shown_value(value) for option, value in opts_of(config, name).items()}


def shown_value(value: Any) -> Any:
    """`value` for display: values below a key that is named like a secret are hidden, at any depth."""
    from saltlite.model.redaction import HIDDEN, is_secret_name  # noqa: PLC0415 - every command imports this file

    if isinstance(value, dict):
        return {
            key: HIDDEN if inner and is_secret_name(str(key)) else shown_value(inner) for key, inner in value.items()
        }
    return [shown_value(inner) for inner in value] if isinstance(value, list) else value
