"""How the modules of a fleet keep to their interfaces.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

from saltlite.smi.fleet import FleetTable, as_html
from saltlite.smi.report import digest_of

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__, __opts__

_KNOWN_MAX = 64
_DIGEST = re.compile(r"[0-9a-f]{16}")


def report(
    tgt: str = "*",
    tgt_type: str = "glob",
    module: str = "",
    timeout: float | None = None,
    html: bool = False,
) -> dict[str, Any] | str:
    """
    The functions of virtual modules by provider and operating system, with the number of minions in each state; of one
    ``module`` or of all that have an interface.

    With ``html`` as a page. Minions whose report is known from before send only its digest.

    CLI Example::

        saltlite-run smi.report
        saltlite-run smi.report 'web*' module=pkg --out json
        saltlite-run smi.report module=pkg html=True --out txt
    """
    folder = os.path.join(str(__opts__["cachedir"]), "smi")
    known = _read_known(folder)
    table = FleetTable(known)
    wanted = [module] if module else []
    answers = __client__.cmd(tgt, "smi.conformance", wanted, {"known": list(known)}, tgt_type, timeout)
    for minion in sorted(answers):
        table.add(minion, answers[minion])
    _write_known(folder, table, set(known))
    return as_html(table.table()) if html else table.table()


def _read_known(folder: str) -> dict[str, dict[str, Any]]:
    """Digest -> report, of those that came last."""
    found: dict[str, dict[str, Any]] = {}
    with contextlib.suppress(OSError):
        entries = sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in entries[:_KNOWN_MAX]:
            with contextlib.suppress(OSError, ValueError):
                with open(entry.path, encoding="utf-8") as stream:
                    read = json.load(stream)
                if _DIGEST.fullmatch(entry.name) and digest_of(read) == entry.name:
                    found[entry.name] = read
    return found


def _write_known(folder: str, table: FleetTable, known: set[str]) -> None:
    """Keep what has come. That it cannot be kept costs the next report some bytes, and nothing else."""
    new = [digest for digest in table.reports if digest not in known and _DIGEST.fullmatch(digest)]
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for digest in new[:_KNOWN_MAX]:
            unfinished = os.path.join(folder, f".{digest}")
            with open(unfinished, "w", encoding="utf-8") as stream:
                json.dump(table.reports[digest], stream)
            os.replace(unfinished, os.path.join(folder, digest))
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime)[:-_KNOWN_MAX]:
            os.remove(entry.path)
