"""Compound targets, asked about one minion.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__


def compound_matches(expr: str, minion_id: str) -> dict[str, str | bool]:
    """Return ``{"res": minion_id}`` if the compound target selects that minion, else ``{"res": False}``.

    The master answers from what it knows of the minion, which is not asked. ``saltlite match -C EXPR --explain ID``
    says why.

    CLI Example: ``saltlite-run match.compound_matches 'I@foo:bar and G@os:Deb* and not db*' web1``
    """
    answer = __client__.call("match", tgt=str(expr), tgt_type="compound", explain=str(minion_id))
    return {"res": minion_id if answer["explanation"]["selected"] else False}
