"""Conformance of this minion's modules to their interfaces.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__


def conformance(*args: str, known: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the state of each function of a module against the module's interface; by default for all modules with an
    interface.

    ``known`` are digests of the caller's cached reports. For those only the digest is returned, and how often functions
    outside the interface were called.

    CLI Example::

        saltlite '*' smi.conformance
        saltlite '*' smi.conformance pkg service
        saltlite '*' smi.conformance pkg known='[3f1c6a0b9d2e4875]'
    """
    names = args or tuple(__salt__.interfaces())
    reports = {name: report for name in names if (report := __salt__.conformance(name)) is not None}
    platform: dict[str, Any] = {grain: __grains__[grain] for grain in ("os", "os_family") if grain in __grains__}
    return {name: {**platform, **_unless_known(report, known or ())} for name, report in reports.items()}


def _unless_known(report: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    if report["digest"] not in known:
        return report
    return {"digest": report["digest"], "stray_calls": report["stray_calls"]}
