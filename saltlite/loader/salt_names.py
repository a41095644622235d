"""Stand-ins for the modules of Salt that plug-in files import, for machines without Salt.

    from salt.utils.decorators import depends
    import salt.utils.path
    from salt.exceptions import CommandExecutionError

work in plug-in files only, through their `import` statement (see `saltlite.loader.module_builder`). Nothing is entered
into `sys.modules`, and an installed Salt takes precedence.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

_CLOUD = "saltlite.cloud.api.cloud"
_CLOUD_ERRORS = "saltlite.cloud.api.exceptions"
_DECORATORS = "saltlite.decorators"
_ERRORS = "saltlite.errors"
_INTERFACES = "saltlite.interfaces"
_PROGRAMS = "saltlite.decorators"
_LIBCLOUD = "saltlite.cloud.api.libcloudfuncs"

SALT_NAMES: Mapping[str, Mapping[str, str]] = {
    "salt": {},
    "salt.cloud": {},
    "salt.cloud.libcloudfuncs": {
        name: f"{_LIBCLOUD}:{name}"
        for name in (
            "avail_images", "avail_locations", "avail_sizes", "destroy", "get_image", "get_location", "get_node",
            "get_size", "list_nodes", "list_nodes_full", "list_nodes_select", "reboot", "script", "show_instance",
        )
    },
    "salt.config": {
        name: f"saltlite.cloud.api.config:{name}"
        for name in ("get_cloud_config_value", "is_profile_configured", "is_provider_configured")
    },
    "salt.exceptions": {
        **{
            name: f"{_CLOUD_ERRORS}:{name}"
            for name in (
                "SaltCloudConfigError", "SaltCloudException", "SaltCloudExecutionFailure", "SaltCloudExecutionTimeout",
                "SaltCloudNotFound", "SaltCloudPasswordError", "SaltCloudSystemExit",
            )
        },
        "CommandExecutionError": f"{_ERRORS}:CommandExecutionError",
        "CommandNotFoundError": f"{_ERRORS}:CommandNotFoundError",
        "SaltException": f"{_ERRORS}:SaltliteError",
        "SaltInvocationError": f"{_ERRORS}:SaltInvocationError",
    },
    "salt.interfaces": {"Interface": f"{_INTERFACES}:Interface"},
    **{
        f"salt.interfaces.{name}_module": {f"{name.title()}Interface": f"{_INTERFACES}.{name}:{name.title()}Interface"}
        for name in ("group", "pkg", "service", "shadow", "user")
    },
    "salt.utils": {},
    "salt.utils.cloud": {
        name: f"{_CLOUD}:{name}"
        for name in (
            "bootstrap", "cache_node", "cache_node_list", "check_name", "delete_minion_cachedir", "deploy_script",
            "deploy_windows", "filter_event", "fire_event", "gen_keys", "is_public_ip", "list_nodes_select",
            "minion_config", "os_script", "salt_config_to_yaml", "ssh_usernames", "userdata_template",
            "validate_windows_cred", "wait_for_fun", "wait_for_ip",
        )
    },
    "salt.utils.functools": {"namespaced_function": "saltlite.cloud.api.driver:namespaced_function"},
    "salt.utils.decorators": {
        name: f"{_DECORATORS}:{name}"
        for name in (
            "allow_one_of", "depends", "ensure_unicode_args", "ignores_kwargs", "is_deprecated", "memoize",
            "require_one_of", "timing", "with_deprecated",
        )
    },
    "salt.utils.decorators.path": {"which": f"{_DECORATORS}:which", "which_bin": f"{_DECORATORS}:which_bin"},
    "salt.utils.path": {"which": f"{_PROGRAMS}:find_program", "which_bin": f"{_PROGRAMS}:find_first_program"},
}  # fmt: skip
"""Salt's module -> its names -> `module:name` of ours. A further name needs a row here."""

_made: dict[str, ModuleType] = {}


class _StandIn(ModuleType):
    """One module of SALT_NAMES, which imports each name at its first use."""

    def __getattr__(self, name: str) -> object:
        place = SALT_NAMES[self.__name__].get(name)
        if place is None:
            raise AttributeError(f"saltlite has no {self.__name__}.{name}: install Salt beside it, or do without")
        module, _, attribute = place.partition(":")
        value: object = getattr(importlib.import_module(module), attribute)
        setattr(self, name, value)
        return value


def is_salt_name(name: str) -> bool:
    """Whether the module `name` belongs to Salt."""
    return name == "salt" or name.startswith("salt.")


def is_ours_alone(name: str) -> bool:
    """Whether only Salt's RFC of 2018 has the module, so an installed Salt does not provide it."""
    return name == "salt.interfaces" or name.startswith("salt.interfaces.")


def salt_part(name: str) -> ModuleType:
    """The stand-in for Salt's module `name`, and its parents. Raises ModuleNotFoundError if there is none."""
    if name not in SALT_NAMES:
        raise ModuleNotFoundError(f"No module named {name!r}: saltlite has no stand-in for it", name=name)
    if name not in _made:
        _made[name] = _StandIn(name)
        _made[name].__dict__["__all__"] = list(SALT_NAMES[name])
        above, _, last = name.rpartition(".")
        if above:
            setattr(salt_part(above), last, _made[name])
    return _made[name]
