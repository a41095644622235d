"""The status of the master and its fleet: minions, queues, resources, and the lag of event log readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite import __version__
from saltlite.auth.acl import Principal
from saltlite.master.handlers.minions import minion_rows
from saltlite.master.handlers.resources import missing_rows
from saltlite.master.handlers.targets import shown_key_states
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.context import Answer, Master, Question
from saltlite.model.keys import KeyState
from saltlite.platform.files import CursorFile
from saltlite.wire.framing import IpcMessage

MISSING_MAX = 100
"""Minions with missing resources that one answer names."""

PROBLEMS_MAX = 5
"""Messages about one resource type."""


def handle_status(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `master`, `store`, `minions`, `counts`, `queues`, `resources`, `readers`, and `link`, None if the link
    process does not answer. Pending keys are among `minions` and `counts` for users who may list keys.

    `readers` has for each process that reads the event log (returners, hooks) how many events it is `behind`, and how
    long the first of them has waited, `lag_s`.

    In `resources`, `refused` counts minions whose registration was refused, wholly or in part; `incomplete` means that
    rows were lost to damage and not every minion has registered again; `missing` is minion -> type -> resources that it
    still manages and no longer finds, of MISSING_MAX minions; `types` is type -> `count`, `minions`, and `problems`,
    messages about types that could not be used or found nothing, PROBLEMS_MAX of each.

    Times are wall-clock seconds since 1970, lags seconds. A minion that is up was `last_seen` when it came.
    """
    store, terms = master.store, master.terms
    minions, registry = minion_rows(master), master.registry.stats()["primary"]
    pending = [
        {
            "id": key.id,
            "state": "pending",
            "last_seen": key.first_seen,
            "address": key.address,
            "version": "",
            "resources": 0,
        }
        for key in (store.keys(frozenset({KeyState.PENDING})) if shown_key_states(master, principal) else ())
    ]
    counts = {state: sum(row["state"] == state for row in minions) for state in ("up", "away", "never")}
    away = {row["id"] for row in minions if row["state"] != "up"}
    answer = {
        "master": {
            "name": master.identity.certificate.name,
            "version": __version__,
            "started_at": terms.started_at,
            "mworkers": terms.mworkers,
        },
        "store": {"size": store.size(), "limit": terms.store_max, "seq": store.last_seq()},
        "minions": minions + pending,
        "counts": {**counts, "pending": len(pending)},
        "resources": {
            "count": registry["rows"],
            "minions": sum(row["resources"] > 0 for row in minions),
            "refused": sum(bool(row.reasons) for _minion, row in master.registrations.rows()),
            "incomplete": registry["incomplete"],
            "missing": {minion: _counts(kinds) for minion, kinds in sorted(missing_rows(master))[:MISSING_MAX]},
            "types": _types(master),
        },
        "queues": {
            "targets": {str(state): count for state, count in store.open_counts().items()},
            "minions_away_with_jobs": len(away.intersection(store.minions_with_open_jobs())),
        },
        "readers": {name: _lag(master, path) for name, path in terms.readers.items()},
    }

    def fields(reply: IpcMessage | None) -> dict[str, Any]:
        return {**answer, "link": reply["figures"] if reply is not None else None}

    return Answer(question=Question(ipc.ask_stats, fields))


def _counts(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {kind: one["count"] for kind, one in kinds.items()}


def _types(master: Master) -> dict[str, dict[str, Any]]:
    views = master.registry.views().by_type
    problems: dict[str, list[str]] = {}
    for minion, row in master.registrations.rows():
        for kind, report in row.reports.items():
            messages = problems.setdefault(kind, [])
            if report.problem() and len(messages) < PROBLEMS_MAX:
                messages.append(f"{minion}: {report.problem()}")
    return {
        kind: {
            "count": sum(len(one.ids) for one in views.get(kind, {}).values()),
            "minions": len(views.get(kind, {})),
            "problems": sorted(problems.get(kind, ())),
        }
        for kind in sorted({*views, *problems})
    }


def _lag(master: Master, path: str) -> dict[str, Any]:
    """How far the reader with that cursor file is behind; one without a cursor has missed nothing."""
    last = master.store.last_seq()
    after = CursorFile(path).read().get("seq", last)
    waiting = master.store.events(after, 1)
    return {
        "behind": max(0, last - after),
        "lag_s": max(0.0, master.clock.wall() - waiting[0].at) if waiting else 0.0,
    }
