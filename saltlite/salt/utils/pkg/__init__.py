"""`salt.utils.pkg`: what modules for packages share."""

from __future__ import annotations

import contextlib
import fnmatch
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from saltlite.salt.utils.data import is_true
from saltlite.salt.utils.versions import compare

log = logging.getLogger(__name__)


def rtag(opts: Mapping[str, Any]) -> str:
    """The path of the file that says that the lists of packages are to be refreshed."""
    return os.path.join(opts["cachedir"], "pkg_refresh")


def clear_rtag(opts: Mapping[str, Any]) -> None:
    """Remove that file."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(rtag(opts))
    except OSError as error:
        log.warning("Encountered error removing rtag: %s", error)


def write_rtag(opts: Mapping[str, Any]) -> None:
    """Write that file."""
    try:
        with open(rtag(opts), "a", encoding="utf-8"):
            pass
    except OSError as error:
        log.warning("Encountered error writing rtag: %s", error)


def check_refresh(opts: Mapping[str, Any], refresh: Any = None) -> bool:
    """Whether to refresh: by the caller or, if he says nothing, by that file."""
    return is_true(refresh) or (refresh is not False and os.path.isfile(rtag(opts)))


def split_comparison(version: str) -> tuple[str, str]:
    """(comparison, version) of `>=1.2`; "" for no comparison."""
    found = re.match(r"(<=>|!=|>=|<=|>>|<<|<>|>|<|=)?\s?([^<>=]+)$", version)
    return (found[1] or "", found[2]) if found else ("", version)


def match_version(
    desired: str, available: Iterable[str], cmp_func: Callable[..., Any] | None = None, ignore_epoch: bool = False
) -> str | None:
    """The first version that is as desired, such as `>=1.2`; None if there is none."""
    oper, version = split_comparison(desired)
    found = (
        one
        for one in available
        if compare(ver1=one, oper=oper or "==", ver2=version, cmp_func=cmp_func, ignore_epoch=ignore_epoch)
    )
    return next(found, None)


def check_bundled() -> bool:
    """Whether this is a program of PyInstaller."""
    return bool(getattr(sys, "frozen", False)) and hasattr(sys, "_MEIPASS")


def match_wildcard(current_pkgs: Iterable[str], pkg_params: dict[str, Any]) -> dict[str, Any]:
    """The dict of packages, with each name with `*` replaced by the installed packages that match; it is changed."""
    matched = {}
    for name in [name for name in pkg_params if "*" in name]:
        value = pkg_params.pop(name)
        matched = {found: value for found in current_pkgs if fnmatch.fnmatch(found, name)}
        pkg_params.update(matched)
    return pkg_params
