"""The minions of the master: their presence, their cached grains and pillars, and the status of master and fleet.

The link process reports which minions are connected; MWorkers read the rest from the store, the registry and the banks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from saltlite import __version__
from saltlite.auth.acl import Principal, is_operator
from saltlite.errors import UsageError
from saltlite.master.handlers.masters import overview
from saltlite.master.handlers.resources import missing_rows
from saltlite.master.handlers.targets import (
    absence_of,
    absences,
    reach,
    refuse_pillar_guesses,
    shown_key_states,
    target_of,
)
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.context import Answer, KeptLists, Master, Question
from saltlite.master.store.ports import MinionRow, PartRow, StoreWriter
from saltlite.master.store.readers import cursor_of
from saltlite.model.dataclass import dataclass
from saltlite.model.events import count_after, tag_minion_start, tag_presence_change
from saltlite.model.execution import UNAVAILABLE_PREFIX
from saltlite.model.ids import MinionId
from saltlite.model.job import TargetKind, TargetState
from saltlite.model.keys import Fingerprint, KeyState
from saltlite.model.minion import ABSENCES, ORDERS, STATES, SessionEnd, natural
from saltlite.platform.files import CursorFile
from saltlite.wire.framing import IpcMessage

ROWS_MAX = 1000
"""Rows of one page of minions."""


def handle_minions(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `minions`, the rows that were asked for, and `total`, how many rows that is of all pages.

    `tgt` with `tgt_type` and `state` narrow the list. `sort` is one of `saltlite.model.minion.ORDERS`; minions with the
    same value are sorted by id, and numbers in an id by their value. `offset` and `limit` cut a page out of the list.
    `reason` of a row says why the minion is not connected, or is "" for one that is up.
    """
    order = request.get("sort", "")
    ids = _sorted(master, order) if order else master.store.accepted_ids()
    if "tgt" in request:
        target = target_of({"tgt_type": str(TargetKind.GLOB), **request})
        refuse_pillar_guesses(master, principal, target)
        selected = master.resolve(target).minions
        ids = [minion for minion in ids if minion in selected]
    if "state" in request:
        ids = _in_state(master, ids, request["state"])
    offset, limit = request.get("offset", 0), request.get("limit", len(ids))
    rows = _rows(master, principal, ids[offset : offset + limit])
    return Answer({"minions": rows, "total": len(ids)})


def handle_minions_connected(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `minions`, the ids of those with a session, sorted."""
    return Answer({"minions": [one for one in master.store.accepted_ids() if one in master.present]})


def handle_config_values(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `values`: the options of this master without secrets, and its `id`."""
    return Answer({"values": master.config.shown})


def _in_state(master: Master, ids: Sequence[MinionId], state: str) -> list[MinionId]:
    if state not in STATES:
        raise UsageError(f"a minion is {', '.join(STATES)}, not {state[:40]!r}")
    if state == "up":
        return [minion for minion in ids if minion in master.present]
    seen = _seen(master)
    return [minion for minion in ids if minion not in master.present and (minion in seen) == (state == "away")]


def _sorted(master: Master, order: str) -> list[MinionId]:
    """The accepted ids, sorted by a field of their rows."""
    name = order.removeprefix("-")
    if name not in ORDERS:
        raise UsageError(f"minions are sorted by {', '.join(ORDERS)}, not by {name[:40]!r}")
    lists = _lists(master)
    ids: list[MinionId] = lists.of("id", lambda: sorted(master.store.accepted_ids(), key=natural))
    match name:
        case "id":
            return ids if order == name else ids[::-1]
        case "resources":
            held = _resources_held(master, ids)
            return sorted(ids, key=lambda minion: held.get(minion, 0), reverse=order != name)
        case "state":
            # Sessions come and go without a change of the store.
            return [one for state in sorted(STATES, reverse=order != name) for one in _in_state(master, ids, state)]
    found: list[MinionId] = lists.of(order, lambda: _by_value(master, ids, name, is_reversed=order != name))
    return found


def _by_value(master: Master, ids: list[MinionId], name: Any, *, is_reversed: bool) -> list[MinionId]:
    """These ids sorted by a column; those without a value, because they never came, have the lowest."""
    values: Mapping[MinionId, Any] = master.store.minion_values(name)
    if name == "last_seen":
        return sorted(ids, key=lambda minion: values.get(minion, 0.0), reverse=is_reversed)
    # Many minions have the same version.
    keys = {text: natural(text) for text in set(values.values())}
    return sorted(ids, key=lambda minion: keys.get(values.get(minion), ""), reverse=is_reversed)


def _lists(master: Master) -> KeptLists:
    return master.minion_lists.follow(master.store, master.clock.monotonic())


def _seen(master: Master) -> frozenset[MinionId]:
    """The accepted minions that ever had a session."""
    found: frozenset[MinionId] = _lists(master).of("seen", lambda: frozenset(master.store.minion_values("last_seen")))
    return found


KEY_REASONS = frozenset({KeyState.PENDING, KeyState.CONFLICT})
"""States of keys that may be the reason why the minion with an accepted one is not connected."""


def _other_keys(master: Master) -> dict[MinionId, KeyState]:
    """The keys in these states by id; of two keys of one id the one in conflict."""
    lists = master.key_lists.follow(master.store, master.clock.monotonic())

    def made() -> dict[MinionId, KeyState]:
        states = (KeyState.PENDING, KeyState.CONFLICT)
        return {row.id: state for state in states for row in master.store.key_rows(state)}

    found: dict[MinionId, KeyState] = lists.of("waiting", made)
    return found


def _rows(master: Master, principal: Principal, ids: Sequence[MinionId]) -> list[dict[str, Any]]:
    """A row of each of these accepted minions: `state` (up, away or never), `reason` (why it is not connected, "" if it
    is), last_seen, address and version where known, and `resources`, how many it manages. Where several masters share
    the store, also `master`: the name of the one that its session is with, or was last; "" if it never had one."""
    shown = KEY_REASONS & shown_key_states(master, principal)
    others = _other_keys(master) if shown and any(minion not in master.present for minion in ids) else {}
    everybody = len(ids) > ROWS_MAX
    known = {row.id: row for row in master.store.minions(None if everybody else ids)}
    resources = _resources_held(master, ids)
    answer = []
    for minion in ids:
        row = known.get(minion)
        why, other = absence_of(master, minion, row), others.get(minion)
        answer.append(
            {
                "id": minion,
                "state": _state(master, minion, is_known=row is not None),
                "reason": f"{why}; {ABSENCES[other]}" if why and other in shown else why,
                "last_seen": row.last_seen if row is not None else None,
                "address": row.address if row is not None else "",
                "version": row.version if row is not None else "",
                "resources": resources.get(minion, 0),
                **({"master": row.master if row is not None else ""} if master.shared is not None else {}),
            }
        )
    return answer


def _state(master: Master, minion: MinionId, *, is_known: bool) -> str:
    return "up" if minion in master.present else "away" if is_known else "never"


def _resources_held(master: Master, ids: Sequence[MinionId]) -> dict[MinionId, int]:
    """How many resources each of these minions manages; those without any may be missing."""
    held = master.registry.views().by_minion
    return {minion: sum(len(one.ids) for one in held[minion].values()) for minion in ids if minion in held}


IDS_MAX = 1000


def handle_last_seen(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `silent_s`: seconds since the last frame of each of `ids`, None for those without a session; and
    `absences`, why the latter have none.

    Both are empty if the link process does not answer. A user who asks about minions of other masters too often gets
    no answer about them. Raises UsageError.
    """
    ids = list(dict.fromkeys(request["ids"]))
    if len(ids) > IDS_MAX or not all(isinstance(minion, str) for minion in ids):
        raise UsageError(f"last_seen takes at most {IDS_MAX} minion ids")

    within = reach(master, principal)
    if within is not None:
        ids = [minion for minion in ids if minion in within]

    def fields(reply: IpcMessage | None) -> dict[str, Any]:
        silent_s = {minion: reply["silent_s"].get(minion) for minion in ids} if reply is not None else {}
        return {"silent_s": silent_s, "absences": absences(master, [one for one in silent_s if silent_s[one] is None])}

    elsewhere = [minion for minion in ids if minion in master.elsewhere]
    is_limited = bool(elsewhere) and not is_operator(principal, master.config)
    if is_limited and master.questions.take(principal.owner, master.clock.monotonic()):
        ids, elsewhere = [minion for minion in ids if minion not in master.elsewhere], []
    return Answer(question=Question(lambda number: ipc.ask_last_seen(number, ids), fields, elsewhere=elsewhere))


# -- changes of presence


@dataclass(frozen=True, slots=True)
class PresenceChange:
    """One row of the link's `presence` message."""

    id: MinionId
    fingerprint: Fingerprint
    up: bool
    address: str
    version: str
    boot: str
    incarnation: str
    functions: str
    run: int
    handshake: int
    end: str = ""


def notice(master: Master, changes: list[PresenceChange], *, whole: bool) -> None:
    """Update this MWorker's view. With `whole`, minions that are not in `changes` have no session with this master."""
    now = master.clock.wall()
    if whole:
        master.present.clear()
        master.present.update(dict.fromkeys(sorted(master.elsewhere), now))
        master.here.clear()
    for change in changes:
        master.present.pop(change.id, None)
        if change.up or change.id in master.elsewhere:
            master.present[change.id] = now
        if master.shared is not None:
            (master.here.add if change.up else master.here.discard)(change.id)


def notice_elsewhere(master: Master, items: Iterable[tuple[MinionId, bool]]) -> None:
    """Update this MWorker's view of the minions of other masters: whether each of these has a session there."""
    for minion, is_up in items:
        (master.elsewhere.add if is_up else master.elsewhere.discard)(minion)
        if is_up:
            master.present.setdefault(minion, master.clock.wall())
        elif minion not in master.here:
            master.present.pop(minion, None)


def read_elsewhere(master: Master) -> None:
    """Read which minions have a session with another master. Raises StoreError."""
    master.knows_elsewhere = False
    me = master.identity.certificate.name
    up = {row.id for row in master.store.minions() if row.up and row.master != me}
    notice_elsewhere(master, [*((one, False) for one in master.elsewhere - up), *((one, True) for one in up)])
    master.knows_elsewhere = True


def record(master: Master, changes: list[PresenceChange], *, whole: bool) -> list[PresenceChange]:
    """Store the changes: sessions, start events, jobs that were lost with a minion's disk. One MWorker does this.
    Those that are outdated, because another master has a newer session; the link process ends them.

    With `whole` a link process has just started, and the sessions of the one before it have ended. That process may
    have sent them whatever was committed before it died, so they count as seen until now: otherwise delivered jobs
    could be reported as undelivered (G5).

    Raises StoreError; then only history is lost, and the next change writes the minion's row again.
    """
    if not changes and not whole:
        return []
    now = master.clock.wall()
    outdated: list[PresenceChange] = []
    with master.store.write() as store:
        up = {change.id for change in changes if change.up}
        here = master.identity.certificate.name
        lost: list[MinionId] = store.fence(here, SessionEnd.RESTARTED, now, up) if whole else []
        for some in _each_once(changes):
            outdated += _claim(master, store, [change for change in some if change.up], now)
            ends = {change.id: change.end for change in some if not change.up}
            if master.shared is not None:
                # A minion that has moved is up at another master. One without an accepted key is not among the rows.
                moved = {row.id for row in store.minions(ends) if not row.up or row.master != here}
                ends = {minion: end for minion, end in ends.items() if minion not in moved}
            store.release(here, ends, now)
            lost += ends
        new = [change.id for change in changes if change.up and change not in outdated]
        if new or lost:
            store.put_event(tag_presence_change(), {"new": new, "lost": lost}, now)
        unknown = {name for name in {one.functions for one in changes if one.up} if store.functions(name) is None}
        wanted = [change.id for change in changes if change.up and change.functions in unknown]
    for minion in wanted:
        master.link.fetch(minion, "functions")
    for change in outdated:
        master.link.replaced(change.id, change.run, change.handshake)
    return outdated


def _each_once(changes: list[PresenceChange]) -> Iterator[list[PresenceChange]]:
    """The changes in their order, in lists that name no minion twice."""
    some: dict[MinionId, PresenceChange] = {}
    for change in changes:
        if change.id in some:
            yield [*some.values()]
            some = {}
        some[change.id] = change
    yield [*some.values()]


def _claim(master: Master, store: StoreWriter, changes: list[PresenceChange], now: float) -> list[PresenceChange]:
    """Store sessions that began; those that are outdated, because another master has a newer one."""
    rows = [
        MinionRow(
            id=change.id,
            fingerprint=change.fingerprint,
            address=change.address,
            version=change.version,
            boot_id=change.boot,
            incarnation=change.incarnation,
            functions=change.functions,
            up=True,
            last_seen=now,
            master=master.identity.certificate.name,
            run=change.run,
            handshake=change.handshake,
        )
        for change in changes
    ]
    before = store.claim(rows) if rows else {}
    for row in rows:
        if row.id not in before:
            continue
        known = before[row.id]
        if known is None or known.boot_id != row.boot_id:
            store.put_event(tag_minion_start(row.id), {"id": row.id, "version": row.version}, now)
        if known is not None and known.incarnation != row.incarnation:
            reason = "the minion came back with another disk and knows nothing of it"
            store.set_parts(
                PartRow(part, row.id, TargetState.LOST, reason, now)
                for part, state in store.unsettled(row.id)
                if state is not TargetState.QUEUED
            )
    return [change for change in changes if change.id not in before]


def ensure(master: Master, sessions: Sequence[PresenceChange]) -> set[MinionId]:
    """Store those of these sessions that the store does not know, because it failed when they began, or an MWorker
    died; the minions that have their session, and no newer one with another master.

    This comes before any job is sent in a session, so that the store knows it may have been delivered. Raises
    StoreError.
    """
    here = master.identity.certificate.name
    known = {
        (row.id, row.boot_id, row.incarnation, row.run, row.handshake)
        for row in master.store.minions([session.id for session in sessions])
        if row.up and row.master == here
    }
    unknown = [one for one in sessions if (one.id, one.boot, one.incarnation, one.run, one.handshake) not in known]
    outdated = record(master, unknown, whole=False)
    return {session.id for session in sessions if session not in outdated}


# -- The status of the master


MISSING_MAX = 100
"""Minions with missing resources that one answer names."""

FIGURES_KEPT_S = 1.0
"""How long a process answers a brief status from the same figures, so that many consoles cost the master little."""
PROBLEMS_MAX = 5
"""Messages about one resource type."""


def handle_status(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `master`, `store`, `minions`, `counts`, `queues`, `resources`, `readers`, and `link`, None if the link
    process does not answer; `masters` and `differences`, as `saltlite.master.handlers.masters.overview` has them, where
    several masters share the store. Pending keys are among `minions` and `counts` for users who may list keys;
    `conflicts` is how many keys are in conflict, None for the others.

    With `brief` there are no `minions`, and the figures are up to FIGURES_KEPT_S old. `versions` has for each version
    how many minions had it in their last session.

    `unable` is minion -> the executors of its module_executors that it does not have, so that no job can run there.

    `readers` has for each process that reads the event log (returners, hooks) how many events it is `behind`, and how
    long the first of them has waited, `lag_s`.

    In `resources`, `refused` counts minions whose registration was refused, wholly or in part; `incomplete` means that
    rows were lost to damage and not every minion has registered again; `missing` is minion -> type -> resources that it
    still manages and no longer finds, of MISSING_MAX minions; `types` is type -> `count`, `minions`, and `problems`,
    messages about types that could not be used or found nothing, PROBLEMS_MAX of each.

    In `store`, `size` are the bytes in use, which `limit` is for; `file` and `log` are the bytes on the disk, `free`
    those inside the file that wait for later rows, and `left` those that the disk has left, None if it is not known.

    Times are wall-clock seconds since 1970, lags seconds. A minion that is up was `last_seen` when it came.
    """
    is_brief, now, kept = request.get("brief", False), master.clock.monotonic(), master.kept_figures
    if not is_brief or kept is None or now - kept[0] >= FIGURES_KEPT_S:
        kept = master.kept_figures = now, _figures(master)
    store, figures = master.store, kept[1]
    pending = [
        {
            "id": key.id,
            "state": "pending",
            "reason": "its key is pending",
            "last_seen": key.first_seen,
            "address": key.address,
            "version": "",
            "resources": 0,
            **({"master": ""} if master.shared is not None else {}),
        }
        for key in (store.keys(frozenset({KeyState.PENDING})) if shown_key_states(master, principal) else ())
    ]
    answer = {
        **figures,
        "counts": {**figures["counts"], "pending": len(pending)},
        "conflicts": store.count_keys(KeyState.CONFLICT) if shown_key_states(master, principal) else None,
    }
    if not is_brief:
        answer["minions"] = _rows(master, principal, store.accepted_ids()) + pending

    def fields(reply: IpcMessage | None) -> dict[str, Any]:
        return {**answer, "link": reply["figures"] if reply is not None else None}

    return Answer(question=Question(ipc.ask_stats, fields))


def _figures(master: Master) -> dict[str, Any]:
    """What the status says to everybody who may ask for it."""
    store, config = master.store, master.config
    disk = store.disk_usage()
    ids, registry = store.accepted_ids(), master.registry.stats()["primary"]
    versions = store.minion_values("version")
    states = {minion: _state(master, minion, is_known=minion in versions) for minion in ids}
    counts = Counter(states.values())
    return {
        "master": {
            "name": master.identity.certificate.name,
            "version": __version__,
            "started_at": config.started_at,
            "mworkers": config.mworkers,
        },
        "store": {
            "size": store.size(),
            "limit": config.store_max,
            "seq": store.last_seq(),
            "file": disk.file,
            "log": disk.log,
            "free": disk.free,
            "left": disk.left,
        },
        "counts": {state: counts[state] for state in STATES},
        "versions": {version: count for version, count in Counter(versions.values()).items() if version},
        "unable": _unable(master),
        "resources": {
            "count": registry["rows"],
            "minions": sum(count > 0 for count in _resources_held(master, ids).values()),
            "refused": sum(bool(row.reasons) for _minion, row in master.registrations.rows()),
            "incomplete": registry["incomplete"],
            "missing": {minion: _counts(kinds) for minion, kinds in sorted(missing_rows(master))[:MISSING_MAX]},
            "types": _types(master),
        },
        "queues": {
            "targets": {str(state): count for state, count in store.open_counts().items()},
            "minions_away_with_jobs": sum(states.get(one, "up") != "up" for one in store.minions_with_open_jobs()),
        },
        "readers": {name: _lag(master, name, path) for name, path in config.readers.items()},
        **(overview(master.shared, master.clock.wall(), master.identity) if master.shared is not None else {}),
    }


def _unable(master: Master) -> dict[MinionId, list[str]]:
    sets = master.store.function_names(UNAVAILABLE_PREFIX)
    names = {digest: [name.removeprefix(UNAVAILABLE_PREFIX) for name in found] for digest, found in sets.items()}
    return {row.id: names[row.functions] for row in master.store.minions() if row.functions in names} if names else {}


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


def _lag(master: Master, name: str, path: str) -> dict[str, Any]:
    """How far the reader with that cursor, or cursor file, is behind; one without a cursor has missed nothing."""
    last = master.store.last_seq()
    row = master.shared.reader(name) if master.shared is not None else None
    after = (cursor_of(row.data) if row is not None else CursorFile(path).read()).get("seq", last)
    waiting = master.store.events(after, 1)
    return {
        "behind": count_after(after, last),
        "lag_s": max(0.0, master.clock.wall() - waiting[0].at) if waiting else 0.0,
    }
