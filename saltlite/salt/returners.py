"""`salt.returners`: the options of a returner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_returner_options(
    virtualname: str | None = None, ret: Any = None, attrs: Mapping[str, str] | None = None, **kwargs: Any
) -> dict[str, Any]:
    """Name -> value of the options in `attrs`, which has the configured name of each.

    They stand in the configuration as `<virtualname>.<name>`, and for a job with `ret_config` as
    `<ret_config>.<virtualname>.<name>`, or in a map of that prefix; on a master in `returner_config`.
    `defaults` has values for those that are not set,
    `profile_attr` names the option with a profile, and `profile_attrs` what to take of it. `ret_kwargs` of the job go
    first.
    """
    lookup = _Lookup(kwargs.get("__salt__") or {}, kwargs.get("__opts__") or {})
    chosen = str(ret.get("ret_config", "")) if ret else ""
    found = {name: lookup.option(chosen, str(virtualname), attr) for name, attr in (attrs or {}).items()}
    defaults = kwargs.get("defaults") or {}
    options = {name: value for name, value in found.items() if value is not None and value != ""}
    options |= {name: defaults[name] for name in found if name not in options and name in defaults}
    profile = options.get(str(kwargs.get("profile_attr")))
    secrets = lookup(profile) if profile else None
    if secrets:
        options |= {name: secrets.get(f"{virtualname}.{attr}") for name, attr in kwargs["profile_attrs"].items()}
    return {**options, **((ret or {}).get("ret_kwargs") or {})}


class _Lookup:
    """A name of the configuration, by the function `config.option` or, without it, in the options."""

    def __init__(self, functions: Any, opts: Mapping[str, Any]) -> None:
        self._function = functions.get("config.option")
        self._opts = opts

    def __call__(self, name: str, default: Any = "") -> Any:
        return self._opts.get(name, default) if self._function is None else self._function(name, default)

    def option(self, chosen: str, virtualname: str, attr: str) -> Any:
        """The option of the chosen configuration or, without one, of the default one."""
        if self._function is None:
            settings = (self._opts.get("returner_config") or {}).get(virtualname) or {}
            if attr in settings:
                return settings[attr]
            return self._opts.get(f"{virtualname}.{attr}", self._opts.get(attr))
        for prefix in (f"{chosen}.{virtualname}",) if chosen else ():
            found = self._in_map(prefix, attr)
            if found:
                return found
        return self._in_map(virtualname, attr)

    def _in_map(self, prefix: str, attr: str) -> Any:
        section = self(prefix, {})
        if isinstance(section, Mapping) and attr in section:
            return section[attr]
        return self(f"{prefix}.{attr}")
