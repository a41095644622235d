"""Show how the modules of this minion keep to their interfaces.

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
    """How each function of a module stands against the module's interface; without a name for every module that has one
    and is provided here.

    ``known`` are digests of reports that the caller has: of such a report only the digest comes back, and how often
    functions were called that the interface does not have.

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
