"""Compound targets, asked about one minion.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__, __opts__

_GLOB = frozenset("*?[")
_PILLAR = frozenset({"I", "J"})
_DEPTH_MAX = 32
"""Nodegroups inside each other, as for the master."""
_NEVER = "G@id:/"
"""A term that is true of no minion: an id has no slash."""


def compound_matches(expr: str, minion_id: str) -> dict[str, str | bool]:
    """Return ``{"res": minion_id}`` if the compound target selects that minion, else ``{"res": False}``.

    The master answers from what it knows of the minion, which is not asked. As in Salt, only whole values of the pillar
    are compared, also in nodegroups: ``I@`` and ``J@`` with a wildcard are true of no minion. ``saltlite match -C EXPR
    --explain ID`` says why.

    CLI Example: ``saltlite-run match.compound_matches 'I@foo:bar and G@os:Deb* and not db*' web1``
    """
    exact = " ".join(_exact(word) for word in str(expr).split())
    answer = __client__.call("match", tgt=exact, tgt_type="compound")
    return {"res": minion_id if minion_id in answer["minions"] else False}


def _exact(word: str, depth: int = 0) -> str:
    """A word that compares the pillar with a whole value, and cannot look for one that its author need not know."""
    engine, at, pattern = word.partition("@")
    if at and engine[:1] in _PILLAR:
        return f"I{engine[1:]}@{pattern}" if _GLOB.isdisjoint(pattern) else _NEVER
    inside = _words_of(pattern) if engine == "N" else []
    if not _compares_pillar(inside, depth):
        return word
    if any(" " in one for one in inside):
        raise SaltInvocationError(f"The nodegroup {pattern} has a word with spaces: it cannot be compared exactly.")
    return f"( {' '.join(_exact(one, depth + 1) for one in inside)} )"


def _words_of(group: str) -> list[str]:
    """The words of a nodegroup; none for an unknown one, which the master refuses."""
    definition = (__opts__.get("nodegroups") or {}).get(group) or ""
    return definition.split() if isinstance(definition, str) else [str(one) for one in definition]


def _compares_pillar(words: list[str], depth: int) -> bool:
    if depth > _DEPTH_MAX:
        return False  # the master refuses groups that contain themselves
    return any(
        (word[:1] in _PILLAR and "@" in word)
        or (word.startswith("N@") and _compares_pillar(_words_of(word[2:]), depth + 1))
        for word in words
    )
