"""Compile the pillar of minions, connected or not.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__


def show_pillar(minion: str) -> dict[str, Any]:
    """Compile the pillar of a minion from its id and its cached grains.

    ``_errors`` lists what could not be compiled.

    CLI Example: ``saltlite-run pillar.show_pillar web1``
    """
    pillar: dict[str, Any] = __client__.call("pillar_show", id=minion)["pillar"]
    return pillar


def show_top(minion: str) -> dict[str, list[str]]:
    """Return the pillar files that the top files assign to a minion, by environment.

    CLI Example: ``saltlite-run pillar.show_top web1``
    """
    answer = __client__.call("pillar_show", id=minion)
    if answer["mistakes"]:
        raise CommandExecutionError(" ".join(answer["mistakes"]))
    top: dict[str, list[str]] = answer["top"]
    return top
