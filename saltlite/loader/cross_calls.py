"""Calls between modules: `__salt__` and the like in files that users write.

A file that takes `**kwargs` often passes them on, as in Salt. So a call through `__salt__` drops
- `__pub_<name>`, the facts of the job, for a function that has no `**kwargs` to receive them;
- further unknown keywords for the functions of TAKES_MORE, which take `**kwargs` in Salt and ignore what they do not
  know. Callers from outside are told of an unknown keyword instead: theirs is a mistyped one.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeGuard, Unpack, get_origin

from saltlite.loader.dunders import ASKED, LazyFunctions, ModuleView
from saltlite.loader.module_builder import PREFIX
from saltlite.loader.search_path import SHIPPED

Function = Callable[..., Any]

PUB = "__pub_"
"""Prefix of the keywords with facts of the job."""

TAKES_MORE: Mapping[str, frozenset[str]] = {
    "cloud": frozenset({"profile"}),
    "cp": frozenset({"get_dir", "get_file"}),
    "file": frozenset({
        "append", "chattr", "check_managed", "check_managed_changes", "get_managed", "manage_file", "prepend", "remove",
        "write",
    }),
    "grains": frozenset({"item"}),
    "lowpkg": frozenset({"checksum", "file_dict", "file_list", "info", "list_pkgs", "owner", "verify"}),
    "mount": frozenset({"set_automaster", "set_fstab"}),
    "pip": frozenset({"freeze", "list", "list_freeze_parse"}),
    "pkg": frozenset({
        "del_repo", "del_repo_key", "diff", "download", "file_dict", "file_list", "get_repo", "group_diff",
        "group_info", "group_install", "hold", "info_available", "info_installed", "latest_version", "list_downloaded",
        "list_holds", "list_installed_patches", "list_patches", "list_pkgs", "list_provides", "list_repo_pkgs",
        "list_repos", "list_upgrades", "owner", "purge", "refresh_db", "remove", "resolve_capabilities",
        "services_need_restart", "unhold", "upgrade", "upgrade_available", "verify", "version", "version_cmp",
    }),
    "saltutil": frozenset({"cmd", "cmd_iter", "refresh_grains", "refresh_modules"}),
    "schedule": frozenset({"postpone_job", "show_next_fire_time", "skip_job"}),
    "service": frozenset({"delete", "disable", "enable", "enabled"}),
    "ssh": frozenset({"set_auth_key_from_file"}),
    "sys": frozenset({"list_functions", "list_runner_functions"}),
}  # fmt: skip
"""Shipped module -> functions that take `**kwargs` in Salt, and here in calls from other modules only."""


class CrossCalls(LazyFunctions):
    """The functions of a loader for a file that users write."""

    def __init__(self, calls: LazyFunctions) -> None:
        super().__init__(lambda: calls)
        self._lenient: dict[str, tuple[Function, Function]] = {}

    def __getitem__(self, name: str) -> Function:
        function = super().__getitem__(name)
        known = self._lenient.get(name)
        if known is None or known[0] is not function:
            known = self._lenient[name] = function, lenient(function, name)
        return known[1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ASKED:
            return super().__getattr__(name)
        return ModuleView(self, name)


def lenient(function: Function, name: str) -> Function:
    """The function `module.function` without keywords that it cannot take in a call from another module."""
    module, _, short = name.partition(".")
    takes_more = short in TAKES_MORE.get(module, ()) and is_shipped(function)
    if not takes_more and takes_any_keyword(function) and not names_its_keywords(function):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {key: value for key, value in kwargs.items() if not key.startswith(PUB)}
            known = _keywords_of(function) if takes_more else None
            if known is not None:
                kwargs = {key: value for key, value in kwargs.items() if key in known}
        return function(*args, **kwargs)

    return call


_UNPACKED = re.compile(r"Unpack\[(\w+)\]")
_SHIPPED = f"{PREFIX}{SHIPPED}."


def is_shipped(function: Function) -> bool:
    """Whether it is a function of a file that ships with saltlite."""
    return getattr(function, "__module__", "").startswith(_SHIPPED)


def is_plain(function: Function) -> TypeGuard[FunctionType]:
    """Whether the signature of a function is that of its code: it is made by `def` or `lambda` and stands for no other
    function. `inspect` takes 30 us for a signature."""
    return isinstance(function, FunctionType) and not (
        hasattr(function, "__wrapped__") or hasattr(function, "__signature__")
    )


def takes_any_keyword(function: Function) -> bool:
    """Whether it has `**kwargs`."""
    if is_plain(function):
        return bool(function.__code__.co_flags & inspect.CO_VARKEYWORDS)
    signature = signature_of(function)
    return signature is not None and any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())


def names_its_keywords(function: Function) -> bool:
    """Whether it declares `**kwargs: Unpack[Keys]`, and so takes no other keywords."""
    signature = signature_of(function)
    found = [p.annotation for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD] if signature else []
    return any("Unpack[" in one if isinstance(one, str) else get_origin(one) is Unpack for one in found)


def _keywords_of(function: Function) -> frozenset[str] | None:
    """The keywords that it takes, with those of `Unpack[Keys]`; None if it takes any, or does not say."""
    signature = signature_of(function)
    if signature is None:
        return None
    found = {p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    rest = next((p.annotation for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
    if rest is not None:
        # Shipped files import annotations from __future__, so they are texts.
        keys = _UNPACKED.fullmatch(rest) if isinstance(rest, str) else None
        known = getattr(inspect.unwrap(function), "__globals__", {}).get(keys[1]) if keys else None
        if known is None:
            return None
        found.update(known.__annotations__)
    return frozenset(found)


def signature_of(function: Function) -> inspect.Signature | None:
    """Its signature; None for machine code that has none."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None
