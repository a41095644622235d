"""Show how the modules of this minion keep to their interfaces.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


def conformance(*args: str, known: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """
    How each function of a module stands against the module's interface; without a name for every module that has one
    and is provided here.

    ``known`` maps modules to the digest of the report that the caller has: for a module whose report is still the
    same, only the digest and the counts of calls that the interface does not know come back.

    CLI Example::

        saltlite '*' smi.conformance
        saltlite '*' smi.conformance pkg service
        saltlite '*' smi.conformance pkg known='{pkg: 3f1c6a0b9d2e4875}'
    """
    reports = {name: report for name in args or __salt__.interfaces() if (report := __salt__.conformance(name))}
    digests = known or {}
    return {name: _unless_known(report, digests.get(name)) for name, report in reports.items()}


def _unless_known(report: dict[str, Any], digest: str | None) -> dict[str, Any]:
    if report["digest"] == digest:
        return {"digest": digest, "stray_calls": report["stray_calls"], "unchanged": True}
    platform: dict[str, Any] = {grain: __grains__[grain] for grain in ("os", "os_family") if grain in __grains__}
    return {**report, **platform}
