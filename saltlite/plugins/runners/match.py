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
    are compared: ``I@`` with a wildcard and ``J@`` are true of no minion. ``saltlite match -C EXPR --explain ID`` says
    why.

    CLI Example: ``saltlite-run match.compound_matches 'I@foo:bar and G@os:Deb* and not db*' web1``
    """
    words = [_NEVER if _guesses(word) else word for word in str(expr).split()]
    answer = __client__.call("match", tgt=" ".join(words), tgt_type="compound")
    return {"res": minion_id if minion_id in answer["minions"] else False}


def _guesses(word: str) -> bool:
    """Whether a word looks for a value of the pillar that its author need not know."""
    engine, at, pattern = word.partition("@")
    return bool(at) and (engine[:1] == "J" or (engine[:1] == "I" and not _GLOB.isdisjoint(pattern)))
