"""Which minions are there. Nobody is asked: the master knows who has a session.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any

from saltlite import __version__
from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from saltlite.loader.hints import __client__


def up(tgt: str = "*", tgt_type: str = "glob") -> list[str]:
    """
    The minions that are connected.

    CLI Example::

        saltlite-run manage.up
        saltlite-run manage.up 'web*'
    """
    return status(tgt, tgt_type)["up"]


def down(tgt: str = "*", tgt_type: str = "glob") -> list[str]:
    """
    The accepted minions that are not connected.

    CLI Example::

        saltlite-run manage.down
        saltlite-run manage.down web1,web2 tgt_type=list
    """
    return status(tgt, tgt_type)["down"]


def status(tgt: str = "*", tgt_type: str = "glob") -> dict[str, list[str]]:
    """
    The minions that are connected, and those that are not. ``tgt_type`` is glob, list or pcre.

    CLI Example::

        saltlite-run manage.status
    """
    found: dict[str, list[str]] = {"up": [], "down": []}
    for row in _minions(tgt, tgt_type):
        found["up" if row["state"] == "up" else "down"].append(row["id"])
    return found


def versions() -> dict[str, Any]:
    """
    The version of the master, and of each minion, as far as it has ever said one.

    CLI Example::

        saltlite-run manage.versions
    """
    found: dict[str, Any] = {"Master": __version__}
    for row in _minions("*", "glob"):
        if row["version"]:
            found.setdefault(_standing(row["version"]), {})[row["id"]] = row["version"]
    return found


def _minions(tgt: str, tgt_type: str) -> list[dict[str, Any]]:
    matches = _matcher(tgt, tgt_type)
    return [row for row in __client__.call("minions")["minions"] if matches(row["id"])]


def _matcher(tgt: str, tgt_type: str) -> Callable[[str], bool]:
    match tgt_type:
        case "glob":
            return lambda minion: fnmatch.fnmatchcase(minion, tgt)
        case "list":
            wanted = frozenset(part.strip() for part in tgt.split(","))
            return lambda minion: minion in wanted
        case "pcre":
            try:
                pattern = re.compile(tgt)
            except re.error as error:
                raise SaltInvocationError(f"{tgt!r} is not a regular expression: {error}") from error
            return lambda minion: pattern.match(minion) is not None
    raise SaltInvocationError(f"tgt_type is glob, list or pcre, not {tgt_type!r}")


def _standing(version: str) -> str:
    if version == __version__:
        return "Up to date"
    return "Minion newer than master" if _order(version) > _order(__version__) else "Minion requires update"


def _order(version: str) -> list[tuple[int, str]]:
    """Numbers before what is none, so that `0.10` is behind `0.9`, and `1.0rc1` before `1.0`."""
    parts = re.findall(r"\d+|[a-z]+", version)
    return [*((int(part), "") if part.isdigit() else (-1, part) for part in parts), (0, "")]
