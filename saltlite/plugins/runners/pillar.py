"""Show what minions are given as pillar, whether they are connected or not.

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
    """The pillar of a minion, made anew of its id and of the grains that the master knows of it.

    Where not all of it could be made, ``_errors`` lists why.

    CLI Example::

        saltlite-run pillar.show_pillar web1
    """
    pillar: dict[str, Any] = __client__.call("pillar_show", id=minion)["pillar"]
    return pillar


def show_top(minion: str) -> dict[str, list[str]]:
    """The pillar files that the top files have for a minion, by environment.

    CLI Example::

        saltlite-run pillar.show_top web1
    """
    said = __client__.call("pillar_show", id=minion)
    if said["mistakes"]:
        raise CommandExecutionError(" ".join(said["mistakes"]))
    top: dict[str, list[str]] = said["top"]
    return top
