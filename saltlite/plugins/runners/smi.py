"""How the modules of the whole fleet keep to their interfaces.

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
"""Below cachedir: the reports of the last time, so that a minion whose report is the same sends its digest only."""

_KEPT_MAX = 100
"""Reports that are kept: a fleet has few kinds of machines, and each minion is sent all of their digests."""


def report(
    tgt: str = "*", *modules: str, tgt_type: str = "glob", out: str = "data", timeout: float | None = None
) -> dict[str, Any] | str:
    """Which provider has which function, on how many minions, and what is wrong with it; of all modules that have an
    interface, or of the named ones. The minions are asked. With ``out=html`` the answer is one page.

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
    """The reports of the last time by digest."""
    try:
        with open(os.path.join(__opts__["cachedir"], _KEPT), encoding="utf-8") as stream:
            reports = json.load(stream)
    except (OSError, ValueError):
        return {}
    return reports if isinstance(reports, dict) else {}


def _keep(reports: Mapping[str, Any]) -> None:
    """Remember them; where that cannot be written the minions send all of it again the next time."""
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
