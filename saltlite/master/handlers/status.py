"""How the master and its fleet stand: who is up, what waits, and how far behind what is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite import __version__
from saltlite.auth.acl import Principal
from saltlite.master.handlers.minions import minion_rows
from saltlite.master.handlers.registration import missing_rows
from saltlite.master.handlers.targets import shown_key_states
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.context import Answer, Master, Question
from saltlite.model.keys import KeyState
from saltlite.platform.files import CursorFile
from saltlite.wire.framing import IpcMessage

MISSING_MAX = 100
"""Minions with missing resources that one answer names."""

PROBLEMS_MAX = 5
"""Sentences about one resource type."""


def handle_status(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `master`, `store`, `minions`, `counts`, `queues`, `resources`, `readers`, and `link`, which is None
    without an answer of it. Pending keys are among `minions` and `counts` for callers who may list keys.

    `readers` has of each process that reads the event log (returners, hooks) how many events it is `behind`, and for
    how long the first of them has waited, `lag_s`.

    Of `resources`, `refused` counts minions whose registration was refused, wholly or in part; `incomplete`: rows were
    lost to damage, and not every minion has registered again since; `missing`: minion -> type -> how many resources it
    does not find any more and still manages, MISSING_MAX minions at most; `types`: type -> `count` and `minions`, and
    `problems`, sentences about those that could not be used or found nothing, PROBLEMS_MAX of a type at most.

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

    def fields(said: IpcMessage | None) -> dict[str, Any]:
        return {**answer, "link": said["figures"] if said is not None else None}

    return Answer(question=Question(ipc.ask_stats, fields))


def _counts(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {kind: one["count"] for kind, one in kinds.items()}


def _types(master: Master) -> dict[str, dict[str, Any]]:
    views = master.registry.views().by_type
    problems: dict[str, list[str]] = {}
    for minion, row in master.registrations.rows():
        for kind, report in row.reports.items():
            told = problems.setdefault(kind, [])
            if report.problem() and len(told) < PROBLEMS_MAX:
                told.append(f"{minion}: {report.problem()}")
    return {
        kind: {
            "count": sum(len(one.ids) for one in views.get(kind, {}).values()),
            "minions": len(views.get(kind, {})),
            "problems": sorted(problems.get(kind, ())),
        }
        for kind in sorted({*views, *problems})
    }


def _lag(master: Master, path: str) -> dict[str, Any]:
    """How far behind the reader is whose cursor stands in that file; one that has none yet has missed nothing."""
    last = master.store.last_seq()
    after = CursorFile(path).read().get("seq", last)
    waiting = master.store.events(after, 1)
    return {
        "behind": max(0, last - after),
        "lag_s": max(0.0, master.clock.wall() - waiting[0].at) if waiting else 0.0,
    }
