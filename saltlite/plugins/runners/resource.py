"""Resources of the fleet: their minions, their grains, and the registry.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saltlite.loader.hints import __client__, __context__

_MAPS = ("show_grains", "list_grains", "list", "owner", "match", "stats", "compact", "verify")
__outputter__ = dict.fromkeys((*_MAPS, "refresh", "confirm", "show"), "yaml")

_REFRESH = "saltutil.refresh_resources"


def show_grains(type: str = "", id: str = "") -> dict[str, Any] | None:
    """Return the registered grains of one resource, or None. Either argument alone may be an SRN.

    CLI Example::

        saltlite-run resource.show_grains ssh:web-01
        saltlite-run resource.show_grains type=ssh id=web-01
        saltlite-run resource.show_grains id=ssh:web-01
    """
    if not id and ":" in type:
        type, id = "", type
    if not type:
        type, _, id = id.partition(":")
    if not type or not id:
        raise SaltInvocationError("name one resource by its SRN: ssh:web-01, or type=ssh id=web-01")
    found: dict[str, Any] | None = __client__.call("resource_grains", type=type, id=id)["grains"]
    return found


def list_grains() -> dict[str, dict[str, Any]]:
    """Return every resource with known grains: ``grain_keys``, ``grain_count``, ``at`` (registration) and
    ``stale_since`` (since when they could not be refreshed), in seconds since 1970.

    CLI Example: ``saltlite-run resource.list_grains``
    """
    found: dict[str, dict[str, Any]] = {}
    after = ""
    while True:
        answer = __client__.call("resource_list_grains", after=after)
        found.update(answer["resources"])
        if not answer["more"]:
            return dict(sorted(found.items()))
        after = answer["last"]


def refresh(minion: str, timeout: float = 60.0) -> dict[str, Any]:
    """Have a minion discover and register its resources, wait for it, and return what ``saltutil.refresh_resources``
    reports. The return code is 1 when a type failed or the master withheld a resource.

    CLI Example: ``saltlite-run resource.refresh minion=gate1``
    """
    known = {row["id"] for row in __client__.call("minions")["minions"]}
    if minion not in known:
        raise SaltInvocationError(f"there is no minion {minion!r} with an accepted key")
    report = __client__.cmd(minion, _REFRESH, (), None, "list", timeout).get(minion)
    if not isinstance(report, dict):
        raise CommandExecutionError(f"{minion} has not refreshed its resources: {report or 'it did not return'}")
    if report.get("withheld") or any("error" in one for one in report.get("types", {}).values()):
        __context__["retcode"] = 1
    return report


def confirm(minion: str, type: str = "") -> dict[str, int]:
    """Release the resources that a minion manages but no longer finds, without further discoveries; type -> count.

    CLI Example::

        saltlite-run resource.confirm gate1
        saltlite-run resource.confirm gate1 type=ssh
    """
    wanted = {"minion": minion, **({"type": type} if type else {})}
    released: dict[str, int] = __client__.call("resource_confirm", **wanted)["released"]
    return released


def show(srn: str) -> dict[str, Any]:
    """Return one resource: ``type``, ``id``, ``minion``, ``up``, ``grains``, and ``stale_since`` (seconds since 1970,
    or None) if its minion no longer finds it.

    CLI Example: ``saltlite-run resource.show ssh:web-01``
    """
    rows = [row for row in __client__.call("resource_owner", id=srn)["resources"] if row["srn"] == srn]
    if not rows:
        raise SaltInvocationError(f"no minion manages {srn!r}; see saltlite-run resource.list")
    return {**rows[0], "grains": show_grains(srn)}


def list(type: str = "", minion: str = "", stale: bool = False) -> dict[str, Any]:
    """Return every resource with its minion, optionally filtered by type or minion. A note shows since when the minion
    no longer finds a resource.

    ``stale`` returns only those, each as a map of ``minion`` and ``stale_since`` in seconds since 1970.

    CLI Example::

        saltlite-run resource.list
        saltlite-run resource.list type=ssh minion=gate1
        saltlite-run resource.list stale=True
    """
    wanted = {name: value for name, value in (("type", type), ("minion", minion)) if value}
    rows = _rows(wanted)
    if stale:
        names = ("minion", "stale_since")
        return {row["srn"]: {name: row[name] for name in names} for row in rows if row["stale_since"] is not None}
    return {row["srn"]: row["minion"] + _since(row["stale_since"]) for row in rows}


def owner(id: str) -> dict[str, str]:
    """Return the minion of the resource with this SRN, or of each resource with this id.

    CLI Example::

        saltlite-run resource.owner web-01
        saltlite-run resource.owner ssh:web-01
    """
    return {row["srn"]: row["minion"] for row in __client__.call("resource_owner", id=id)["resources"]}


def match(tgt: str, tgt_type: str = "compound") -> dict[str, Any]:
    """Return the ``minions`` of a target, and its ``resources`` by minion. Nothing is run.

    CLI Example::

        saltlite-run resource.match 'T@ssh and not G@env:staging'
        saltlite-run resource.match 'web*' tgt_type=glob
    """
    answer = __client__.call("match", tgt=tgt, tgt_type=tgt_type)
    return {name: answer[name] for name in ("minions", "resources", "away", "unknown")}


def transfer(srn: str, minion: str) -> str:
    """Transfer a resource to another minion, and return the former one. Both minions register again, and the new one
    keeps the resource only if it declares it, so declare it there first.

    CLI Example: ``saltlite-run resource.transfer ssh:web-01 gate2``
    """
    former: str = __client__.call("resource_transfer", srn=srn, minion=minion)["former"]
    return former


def stats() -> dict[str, Any]:
    """Return the state of the registry: rows, file, whether it is ``incomplete`` after damage; the number of resources
    by type; refused registrations; ``missing`` resources that minions manage but no longer find; and ``reports`` of
    resource types that failed or found nothing.

    CLI Example: ``saltlite-run resource.stats``
    """
    answer = __client__.call("resource_stats")
    return {name: answer[name] for name in ("registry", "types", "minions", "refused", "missing", "reports")}


def compact() -> dict[str, int]:
    """Compact the registry now; the master also does so when needed. ``before`` and ``after`` count records.

    CLI Example: ``saltlite-run resource.compact``
    """
    answer = __client__.call("resource_compact")
    return {name: answer[name] for name in ("before", "after")}


def verify() -> dict[str, Any]:
    """Check every row of the registry. Damaged files are moved aside and rebuilt, and minions are asked to register
    again.

    CLI Example: ``saltlite-run resource.verify``
    """
    answer = __client__.call("resource_verify")
    return {name: answer[name] for name in ("rows", "problems", "aside")}


def _since(stale_since: float | None) -> str:
    if stale_since is None:
        return ""
    at = datetime.fromtimestamp(stale_since, UTC)
    return f" (stale since {at:%Y-%m-%dT%H:%M:%SZ})"


def _rows(wanted: dict[str, str]) -> Iterator[dict[str, Any]]:
    after = ""
    while True:
        answer = __client__.call("resource_list", after=after, **wanted)
        yield from answer["resources"]
        if not answer["more"]:
            return
        after = answer["resources"][-1]["srn"]
