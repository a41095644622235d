"""The masters that share the store: how operators list, drain and remove them.

Each master stores a description of itself (`saltlite.master.processes.description`): digests of the settings that must
be equal on all masters, and the difference of its clock from that of the database. The list names all differences.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import DamagedError, NoTargetError, ProtocolError, RefusedError, UsageError
from saltlite.master.processes.context import Answer, Master, MasterIdentity
from saltlite.master.processes.master_rows import check_signed, fleets_of
from saltlite.master.store.sharing import MasterRow, MasterState, SharedStore
from saltlite.model.events import MasterEvent, count_after, tag_master
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import JobFilter, TargetOutcome
from saltlite.wire.certificates import MasterCertificate
from saltlite.wire.job_body import is_signed

CLOCK_MAX_S = 5.0
"""A clock that differs more from the database's is reported."""
OPEN_AT_ONCE = 1_000
"""Open jobs that are read at once."""
AWAY_S = 86_400.0
"""After so long a minion that is away does not keep a master from being removed because of open jobs."""
DUE_DAYS = 29.5
"""A certificate is renewed 30 days before it expires. If it was not renewed half a day later, the reason is
reported."""
_ONE = "this master shares its store with no other: `saltlite help several-masters` says how others join it"


# -- what an operator sees


def handle_masters(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `masters`, as `master_rows`, and `differences`."""
    return Answer(overview(_shared(master), master.clock.wall(), master.identity))


def overview(store: SharedStore, now: float, me: MasterIdentity) -> dict[str, Any]:
    """`masters`: name, address, version, state, weight, the number of its `sessions`, how many events it is `behind`,
    until when its certificate is valid (seconds since 1970, None if it is damaged), what an operator has to do to have
    it renewed ("" if nothing), and `clock_s`, by how many seconds its clock is ahead of the database's (None if
    unknown). `differences`: sentences about settings that differ between masters that have a lease. Raises
    StoreError."""
    rows, sessions, last = store.masters(), store.session_counts(), store.last_seq()
    fleets = fleets_of(me.certificate, me.chain)
    abouts = {row.name: _about(row) for row in rows}
    shown = [
        {
            "name": row.name,
            "address": row.address,
            "version": row.version,
            "state": str(row.state),
            "weight": row.weight,
            "sessions": sessions.get(row.name, 0),
            "behind": count_after(row.applied, last) if row.has_lease else None,
            "certificate_until": _valid_until(row),
            "certificate_problem": _foreign(row, fleets) or _certificate_problem(row, rows, abouts[row.name], now),
            "clock_s": abouts[row.name].get("clock_s"),
        }
        for row in rows
    ]
    return {"masters": shown, "differences": list(_differences([row for row in rows if row.has_lease], abouts))}


def _about(row: MasterRow) -> Mapping[str, Any]:
    try:
        about = json.loads(row.about or "{}")
    except ValueError:
        about = {}
    return about if isinstance(about, dict) else {}


def _valid_until(row: MasterRow) -> int | None:
    try:
        return MasterCertificate.decode(row.certificate).not_after
    except ProtocolError:
        return None


def _foreign(row: MasterRow, fleets: Collection[bytes]) -> str:
    """Why other masters do not use that row; "" if its certificate is by one of the fleet keys, or nobody can read
    it."""
    try:
        certificate = MasterCertificate.decode(row.certificate)
    except ProtocolError:
        return ""
    try:
        check_signed(certificate, fleets)
    except ProtocolError as error:
        return (
            f"the certificate of {row.name} is not by the fleet key that this master knows ({error}): if the fleet key "
            "was not changed just now, no master wrote its row: see who else can write to the database, and remove it"
        )
    return ""


def _certificate_problem(row: MasterRow, rows: Iterable[MasterRow], about: Mapping[str, Any], now: float) -> str:
    """What an operator has to do to have the certificate of that master renewed; "" if nothing, and for a master that
    was just invited and has no description yet."""
    until = _valid_until(row)
    left = (until - now) / 86_400 if until is not None else 0.0
    if left > DUE_DAYS or not row.has_lease or not about:
        return ""
    holder = str(about.get("holder", ""))
    what = (
        f"the certificate of {row.name} {f'expires in {left:.0f} days' if left > 0 else 'has expired, or is damaged'}"
    )
    if holder == row.name:
        return f"{what}: its log says why it was not renewed"
    others = {other.name: other for other in rows}
    if not holder:
        return f"{what}, and it does not say which master has the fleet key: upgrade it"
    if holder not in others:
        return f"{what}, and {holder}, which renews it, is not among these: start it"
    if not others[holder].has_lease:
        return f"{what}, and {holder}, which renews it, is {others[holder].state}: start it"
    if row.renewed and left > 0:
        return f"{what}, and {holder} has signed a new one that it does not use: its log says why"
    return (
        f"{what}, and is not on the list of those that {holder} renews: run `saltlite master request` there, `saltlite "
        f"master invite {row.name}` on {holder}, and `saltlite master join`"
    )


def _differences(rows: Iterable[MasterRow], abouts: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    rows = list(rows)
    versions: dict[str, list[str]] = {}
    for row in rows:
        versions.setdefault(row.version, []).append(row.name)
    if len(versions) > 1:
        yield f"the versions differ: {_grouped(versions)}"
    digests = {row.name: abouts[row.name].get("digests", {}) for row in rows if "digests" in abouts[row.name]}
    for what in sorted({what for said in digests.values() for what in said}):
        groups: dict[str, list[str]] = {}
        for name, said in digests.items():
            groups.setdefault(str(said.get(what)), []).append(name)
        if len(groups) > 1:
            yield f"{what} differ: {_grouped(groups)}"
    for row in rows:
        offset = abouts[row.name].get("clock_s")
        if isinstance(offset, int | float) and abs(offset) > CLOCK_MAX_S:
            way = "ahead of" if offset > 0 else "behind"
            yield f"the clock of {row.name} is {abs(offset):g} s {way} the database's"


def _grouped(groups: Mapping[str, list[str]]) -> str:
    """The groups of masters with equal values."""
    return " | ".join(", ".join(names) for names in sorted(groups.values()))


# -- what an operator does


def handle_master_drain(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Drain a master: its minions move to the others. With `ends` it takes minions again. Answers `state`."""
    store, name, ends = _shared(master), request["name"], request.get("ends", False)
    row = _row(store, name)
    wanted = MasterState.UP if ends else MasterState.DRAINING
    others = [other.name for other in store.masters() if other.name != name and other.state is MasterState.UP]
    if not ends and not others:
        raise RefusedError(f"no other master is up that could take the minions of {name}: nothing was changed")
    with store.write() as writer:
        if writer.drain_master(name, ends=ends):
            what = MasterEvent.DRAIN_ENDED if ends else MasterEvent.DRAINED
            writer.put_event(tag_master(name, what), {"name": name, "by": principal.label}, master.clock.wall())
        elif row.state is not wanted:
            raise RefusedError(f"{name} is {row.state}: only a master that is up can be drained; nothing was changed")
    return Answer({"name": name, "state": str(wanted)})


def handle_master_remove(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Remove a master that has stopped. Answers `holder_away`: the name of the master that has the fleet key if it has
    no lease, because it may not learn at once that it must no longer renew that certificate; otherwise ""."""
    store, name = _shared(master), request["name"]
    row = _row(store, name)
    if name == master.identity.certificate.name:
        raise RefusedError(f"{name} is this master: remove it by a command on another one, once it has stopped")
    if row.state is not MasterState.FENCED:
        drain = "" if row.state is MasterState.DRAINING else f"drain it (saltlite master drain {name}), "
        raise RefusedError(
            f"{name} is {row.state}: {drain}stop it, and remove it then; a master that was lost is fenced after 10 s"
        )
    if found := _open_job(store, row, master.clock.wall() - AWAY_S):
        jid, minions = found
        more = f" and {len(minions) - 1} more" if len(minions) > 1 else ""
        raise RefusedError(
            f"job {jid} of {name} is open on {minions[0]}{more}, and minions verify it by the certificate of {name}: "
            f"wait for it, or end it (saltlite job kill {jid}), and remove {name} then; minions that have been away "
            "for a day are not waited for; nothing was changed"
        )
    with store.write() as writer:
        writer.delete_master(name)
        writer.put_event(
            tag_master(name, MasterEvent.REMOVED), {"name": name, "by": principal.label}, master.clock.wall()
        )
    holder = str(_about(row).get("holder", ""))
    is_there = holder in {other.name for other in store.masters() if other.has_lease}
    return Answer({"name": name, "holder_away": "" if is_there else holder})


def _open_job(store: SharedStore, row: MasterRow, away: float) -> tuple[Jid, list[MinionId]] | None:
    """The newest job of this master that is open on minions that were seen after `away`, and these minions."""
    try:
        public = MasterCertificate.decode(row.certificate).job_public
    except ProtocolError:
        return None
    wanted = JobFilter(outcome=TargetOutcome.OPEN)
    while found := store.jobs(wanted, OPEN_AT_ONCE):
        for summary in found:
            try:
                job = store.job(summary.jid)
            except DamagedError:
                continue
            if job is None or not is_signed(public, job.body, job.signature):
                continue
            rows = store.minions({minion for _part, minion in store.open_parts(job.jid)})
            if awaited := sorted(minion.id for minion in rows if minion.up or minion.last_seen > away):
                return job.jid, awaited
        wanted = replace(wanted, before=found[-1].jid)
    return None


def _shared(master: Master) -> SharedStore:
    if master.shared is None:
        raise UsageError(_ONE)
    return master.shared


def _row(store: SharedStore, name: str) -> MasterRow:
    rows = {row.name: row for row in store.masters()}
    if name not in rows:
        known = ", ".join(sorted(rows))
        raise NoTargetError(f"there is no master {name[:80]}: {known or 'none'} share this store")
    return rows[name]
