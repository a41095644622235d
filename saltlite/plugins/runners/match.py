"""Compound targets, asked about one minion.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__


_GLOB = frozenset("*?[")
_NEVER = "G@id:/"
"""A term that is true of no minion: an id has no slash."""


def compound_matches(expr: str, minion_id: str) -> dict[str, str | bool]:
    """Return ``{"res": minion_id}`` if the compound target selects that minion, else ``{"res": False}``.

    The master answers from what it knows of the minion, which is not asked. As in Salt, only whole values of the pillar
    are compared: ``I@`` and ``J@`` with a wildcard are true of no minion. ``saltlite match -C EXPR --explain ID`` says
    why.

    CLI Example: ``saltlite-run match.compound_matches 'I@foo:bar and G@os:Deb* and not db*' web1``
    """
    exact = " ".join(map(_exact, str(expr).split()))
    answer = __client__.call("match", tgt=exact, tgt_type="compound")
    return {"res": minion_id if minion_id in answer["minions"] else False}


def _exact(word: str) -> str:
    """A word that compares the pillar with a whole value, and cannot look for one that its author need not know."""
    engine, at, pattern = word.partition("@")
    if not at or engine[:1] not in {"I", "J"}:
        return word
    return f"I{engine[1:]}@{pattern}" if _GLOB.isdisjoint(pattern) else _NEVER
