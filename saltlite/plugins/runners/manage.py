"""Which minions are up. The master reports its sessions; no minion is contacted.

Target types except ``glob``, ``list`` and ``pcre`` also need the right to ``resource.match``.

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
    from collections.abc import Callable, Sequence

    from saltlite.loader.hints import __client__

_UP, _NEVER = "up", "never"


def up(
    tgt: str = "*", tgt_type: str = "glob", timeout: float | None = None, gather_job_timeout: float | None = None
) -> list[str]:
    """Return the connected minions. ``timeout`` and ``gather_job_timeout`` have no effect, because no minion is
    contacted.

    CLI Example::

        saltlite-run manage.up
        saltlite-run manage.up 'web*'
        saltlite-run manage.up 'role:web' tgt_type=grain
    """
    return status(tgt, tgt_type, timeout, gather_job_timeout)["up"]


def down(
    tgt: str = "*", tgt_type: str = "glob", timeout: float | None = None, gather_job_timeout: float | None = None, *,
    removekeys: bool = False,
) -> list[str]:  # fmt: skip
    """Return the accepted minions that are not connected. ``removekeys=True`` also deletes their keys, which needs the
    wheel right ``key.delete``.

    CLI Example::

        saltlite-run manage.down
        saltlite-run manage.down web1,web2 tgt_type=list
        saltlite-run manage.down 'old*' removekeys=True
    """
    if not isinstance(removekeys, bool):
        raise SaltInvocationError("removekeys is True or False")
    away = status(tgt, tgt_type, timeout, gather_job_timeout)["down"]
    if away and removekeys:
        _delete_keys(frozenset(away))
    return away


def status(
    tgt: str = "*",
    tgt_type: str = "glob",
    timeout: float | None = None,  # noqa: ARG001 - in Salt, the time to wait for minions
    gather_job_timeout: float | None = None,  # noqa: ARG001 - as above
) -> dict[str, list[str]]:
    """Return the connected and the disconnected minions.

    CLI Example::

        saltlite-run manage.status
        saltlite-run manage.status 'web* and G@os:Debian' tgt_type=compound
    """
    found: dict[str, list[str]] = {"up": [], "down": []}
    for row in _minions(tgt, tgt_type):
        found["up" if row["state"] == _UP else "down"].append(row["id"])
    return found


def list_state(subset: list[str] | None = None, show_ip: bool = False) -> list[str] | dict[str, str]:
    """Return the connected minions, or those of ``subset``; with ``show_ip`` a map to the addresses of their
    connections.

    CLI Example::

        saltlite-run manage.list_state
        saltlite-run manage.list_state subset='[web1, web2]' show_ip=True
        saltlite-run manage.present
        saltlite-run manage.present show_ip=True
        saltlite-run manage.alived
        saltlite-run manage.allowed
    """
    return _there((_UP,), subset, show_ip)


def list_not_state(subset: list[str] | None = None, show_ip: bool = False) -> list[str] | dict[str, str]:
    """Return the accepted minions that are not connected; with ``show_ip`` a map to their last addresses.

    CLI Example::

        saltlite-run manage.list_not_state
        saltlite-run manage.not_present
        saltlite-run manage.not_alived
        saltlite-run manage.not_allowed
    """
    return _there(("away", _NEVER), subset, show_ip)


present = list_state


not_present = list_not_state


alived = list_state


not_alived = list_not_state


allowed = list_state


not_allowed = list_not_state


def joined(subset: list[str] | None = None, show_ip: bool = False) -> list[str] | dict[str, str]:
    """Return the minions that have connected at any time.

    CLI Example: ``saltlite-run manage.joined``
    """
    return _there((_UP, "away"), subset, show_ip)


def not_joined(subset: list[str] | None = None, show_ip: bool = False) -> list[str] | dict[str, str]:
    """Return the accepted minions that have never connected.

    CLI Example: ``saltlite-run manage.not_joined``
    """
    return _there((_NEVER,), subset, show_ip)


def versions() -> dict[str, Any]:
    """Return the version of the master and the last known version of each minion, as in ``saltlite 0.1.0``: a number
    alone would be a version of Salt to programs that look for its vulnerabilities.

    CLI Example: ``saltlite-run manage.versions``
    """
    found: dict[str, Any] = {"Master": f"saltlite {__version__}"}
    for row in _minions("*", "glob"):
        if row["version"]:
            found.setdefault(_standing(row["version"]), {})[row["id"]] = f"saltlite {row['version']}"
    return found


def _there(states: Sequence[str], subset: list[str] | None, show_ip: bool) -> list[str] | dict[str, str]:
    if subset is not None and not isinstance(subset, list):
        raise SaltInvocationError("subset is a list of ids, as in subset='[web1, web2]'")
    rows = [row for row in _minions("*", "glob") if row["state"] in states and (subset is None or row["id"] in subset)]
    return {row["id"]: row["address"] for row in rows} if show_ip else [row["id"] for row in rows]


def _minions(tgt: str, tgt_type: str) -> list[dict[str, Any]]:
    matches = _matcher(tgt, tgt_type)
    return sorted(
        (row for row in __client__.call("minions")["minions"] if matches(row["id"])), key=lambda row: row["id"]
    )


def _matcher(tgt: str, tgt_type: str) -> Callable[[str], bool]:
    """Match ids here, which needs only the right to this runner; the master matches everything else."""
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
    selected = frozenset(__client__.call("match", tgt=tgt, tgt_type=tgt_type)["minions"])
    return lambda minion: minion in selected


def _delete_keys(minions: frozenset[str]) -> None:
    """Delete the keys, also of minions that came back in the meantime."""
    rows = [row for row in __client__.call("key_list")["keys"] if row["state"] == "accepted" and row["id"] in minions]
    if rows:
        __client__.call("key_change", action="delete", fingerprints=[row["fingerprint"] for row in rows])


def _standing(version: str) -> str:
    if version == __version__:
        return "Up to date"
    return "Minion newer than master" if _order(version) > _order(__version__) else "Minion requires update"


def _order(version: str) -> list[tuple[int, str]]:
    """Sort numbers before text: `0.9` < `0.10`, and `1.0rc1` < `1.0`."""
    parts = re.findall(r"\d+|[a-z]+", version)
    return [*((int(part), "") if part.isdigit() else (-1, part) for part in parts), (0, "")]
