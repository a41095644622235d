"""Conformance of the fleet's modules to their interfaces.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.interfaces.smi.report import FleetTable, as_html

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saltlite.loader.hints import __client__, __opts__

_KEPT = "smi-reports.json"
"""Cached reports, below cachedir. Minions with a known report send only its digest."""

_KEPT_MAX = 100
"""Maximum cached reports. Each minion is sent all their digests."""


def report(
    tgt: str = "*", *modules: str, tgt_type: str = "glob", out: str = "data", timeout: float | None = None
) -> dict[str, Any] | str:
    """Ask minions which provider implements which function, and what is wrong with it, for all modules with an
    interface or the named ones. ``out=html`` returns one page.

    CLI Example::

        saltlite-run smi.report
        saltlite-run smi.report 'web*' pkg service --out json
        saltlite-run smi.report out=html --out txt > report.html
    """
    if out not in ("data", "html"):
        raise SaltInvocationError(f"out is data or html, not {out!r}; the formats of the command are chosen by --out")
    known = _kept()
    kwarg = {"known": sorted(known)} if known else {}
    answers = __client__.cmd(tgt, "smi.conformance", modules, kwarg, tgt_type, timeout)
    fleet = FleetTable(known)
    for minion, answer in sorted(answers.items()):
        fleet.add(minion, answer)
    _keep(fleet.reports)
    table = fleet.table()
    return as_html(table) if out == "html" else table


def _kept() -> dict[str, Any]:
    """Return the cached reports by digest."""
    try:
        with open(os.path.join(__opts__["cachedir"], _KEPT), encoding="utf-8") as stream:
            reports = json.load(stream)
    except (OSError, ValueError):
        return {}
    return reports if isinstance(reports, dict) else {}


def _keep(reports: Mapping[str, Any]) -> None:
    """Cache the reports. If that fails, minions send full reports next time."""
    if not __opts__["cachedir"]:
        return
    path = os.path.join(__opts__["cachedir"], _KEPT)
    fresh = f"{path}.{os.getpid()}"
    newest = dict(list(reports.items())[-_KEPT_MAX:])
    with contextlib.suppress(OSError):
        os.makedirs(__opts__["cachedir"], mode=0o700, exist_ok=True)
        with open(fresh, "w", encoding="utf-8") as stream:
            json.dump(newest, stream)
        os.replace(fresh, path)
