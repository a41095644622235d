"""`doctor` for the master: collect evidence from its configuration, folders, socket and port, and check it."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.cli.options import format_duration
from saltlite.cli.targets import minions_text
from saltlite.cli.verbs.doctor import checks
from saltlite.cli.verbs.doctor.checks import Finding, ok, problem, warning
from saltlite.cli.verbs.doctor.host import FleetSeen, MasterEvidence, PathSeen, Sort, children, look_around, uid_of
from saltlite.client.local import LocalClient
from saltlite.config.load import load_master
from saltlite.config.master import MasterConfig
from saltlite.config.paths import master_socket
from saltlite.errors import ConfigError, LinkError, RemoteProtocolError, SaltliteError, StartupError
from saltlite.master.processes.database_look import look_at_database
from saltlite.master.processes.identity import DAY_S, RENEW_DAYS, fleet_files, name_of
from saltlite.master.processes.own_address import address_problem
from saltlite.model.keys import KeyState, fingerprint
from saltlite.model.masters import format_address
from saltlite.platform.master_probe import BUSY, MasterProof, probe_master
from saltlite.wire.certificates import MasterCertificate

PROBE_S = 5.0
"""How long the port may take to answer."""

KEY_FILES = ("fleet.key", "fleet.chain", "master.key", "job.key", "master.cert")

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}  # noqa: S104 - nothing listens here


class _Answers(NamedTuple):
    """The answers of the running master."""

    status: dict[str, Any] | None = None
    keys: list[dict[str, Any]] | None = None
    until: int | None = None
    silence: str = ""
    ahead_s: float = 0.0


def look_at_master(config_dir: str) -> MasterEvidence:
    """The evidence for the checks of a master. Foreseeable errors become evidence."""
    config, problems = _read_config(config_dir)
    if config is None:
        around = look_around("master", config_dir, None, {}, problems)
        return MasterEvidence(around, None, None, None, None, None, "", "", None, "", ())
    around = look_around("master", config_dir, config, _paths(config), problems)
    answers = _ask(master_socket(config.sock_dir))
    address = own_address(config)
    proof, probe_problem = _probe(address)
    since, until = _certificate(os.path.join(config.pki_dir, "master.cert"))
    database, database_problem = _database(config)
    return MasterEvidence(
        around=around,
        config=config,
        status=answers.status,
        keys=answers.keys,
        certificate_from=since,
        certificate_until=answers.until if until is None else until,
        silence=answers.silence,
        address=address,
        proof=proof,
        probe_problem=probe_problem,
        processes=children(around.pid) if around.pid is not None else [],
        link_uid=uid_of(config.link_user),
        fleet=_fleet(config.pki_dir, sum(row["state"] == KeyState.ACCEPTED for row in answers.keys or ())),
        database=database,
        database_problem=database_problem,
        address_problem=address_problem(config) if config.several_masters else "",
        ahead_s=answers.ahead_s,
    )


def _database(config: MasterConfig) -> tuple[dict[str, Any] | None, str]:
    if not config.database:
        return None, ""
    try:
        return look_at_database(config), ""
    except SaltliteError as error:
        return None, str(error)


def _read_config(config_dir: str) -> tuple[MasterConfig | None, list[str]]:
    try:
        return load_master(config_dir).config, []
    except ConfigError as error:
        return None, str(error).split("\n")


def _fleet(pki_dir: str, accepted: int) -> FleetSeen | None:
    """What the files say about the fleet; `accepted` is how many minions the running master accepted."""
    try:
        found = fleet_files(pki_dir, accepted)
    except StartupError as error:
        return FleetSeen("", str(error)) if os.access(pki_dir, os.R_OK | os.X_OK) else None
    fleet = fingerprint(found.public) if found.public is not None else ""
    return FleetSeen(fleet, found.problem(), found.behind(), len(found.chain))


def _paths(config: MasterConfig) -> dict[str, str]:
    files = {f"pki_dir/{name}": os.path.join(config.pki_dir, name) for name in KEY_FILES}
    return {
        "pki_dir": config.pki_dir,
        **files,
        "pki_dir/fleet.id": os.path.join(config.pki_dir, "fleet.id"),
        "data_dir": config.data_dir,
        "data_dir/store.sqlite": os.path.join(config.data_dir, "store.sqlite"),
        "sock_dir": config.sock_dir,
        "sock_dir/master.ipc": master_socket(config.sock_dir),
        "auth_file": config.auth_file,
        **({"sharedsecret_file": config.sharedsecret_file} if config.sharedsecret_file else {}),
    }


def _ask(socket: str) -> _Answers:
    try:
        with LocalClient(socket) as client:
            return _Answers(
                status=client.call("status"),
                keys=client.call("key_list")["keys"],
                until=client.call("key_finger")["master"]["not_after"],
                ahead_s=client.clock.ahead_s,
            )
    except SaltliteError as error:
        return _Answers(silence=str(error))


def own_address(config: MasterConfig) -> str:
    """`host:port` at which this machine reaches its own master."""
    host = _ANY.get(config.interface, config.interface)
    return format_address(host, config.port)


def _probe(address: str) -> tuple[MasterProof | None, str]:
    try:
        return probe_master(address, PROBE_S), ""
    except (LinkError, RemoteProtocolError) as error:
        return None, str(error)


def _certificate(where: str) -> tuple[int | None, int | None]:
    """From when and until when the certificate on disk is valid; Nones when it cannot be read."""
    try:
        with open(where, "rb") as file:
            certificate = MasterCertificate.decode(file.read(4096))
    except (OSError, RemoteProtocolError):
        return None, None
    return certificate.not_before, certificate.not_after


AWAY_S = 86_400.0
"""A minion that has been away for longer is reported."""

FILES_BESIDES_MINIONS = 200
"""File descriptors of the link process besides minions: new connections and its own files."""

LINK_TITLE = "master link"
"""The title of the link process."""
NAMES_SHOWN = 5
LAG_S = 5.0
"""When reports wait this long to be stored, the store does not keep up."""
READER_LAG_S = 60.0
"""When a returner or hooks are this far behind the event log, they are blocked."""


def _check_config(seen: MasterEvidence) -> Iterator[Finding]:
    yield from checks.check_configuration(seen.around)
    yield from checks.check_user(seen.around)
    yield from checks.check_rights(seen.around)


def _check_running(seen: MasterEvidence) -> Iterator[Finding]:
    socket = seen.around.paths["sock_dir/master.ipc"].path
    if not seen.silence:
        version = seen.status["master"]["version"] if seen.status is not None else "?"
        yield ok("socket", f"the master answers on {socket} (saltlite {version})")
    elif seen.around.pid is None and seen.around.paths["data_dir/store.sqlite"].sort is Sort.HIDDEN:
        yield warning("socket", f"this user cannot see whether the master runs: {seen.silence}")
    elif seen.around.pid is None:
        yield problem("socket", "the master does not run here", checks.start(seen.around, "saltlite-master"))
    else:
        yield problem("socket", f"the master runs (pid {seen.around.pid}), and says: {seen.silence}")
    yield from checks.check_unit(seen.around, runs=seen.around.pid is not None)


def _check_port(seen: MasterEvidence) -> Iterator[Finding]:
    if seen.proof is None and seen.probe_problem.startswith(f"{BUSY}: "):
        own = name_of(seen.config) if seen.config is not None else ""
        masters = () if seen.status is None else seen.status.get("masters", ())
        drains = any(row["name"] == own and row["state"] == "draining" for row in masters)
        why = "because it drains" if drains else seen.probe_problem
        yield (ok if drains else warning)("port", f"the master on {seen.address} takes no new sessions: {why}")
        return
    if seen.proof is None:
        runs = seen.around.pid is not None
        if runs and _has_no_lease(seen):
            said = "while this master cannot renew its lease in the database"
            yield warning("port", f"the master on {seen.address} takes no new sessions {said}")
            return
        fix = "ss -ltnp" if runs else ""
        yield problem("port", f"no master proves itself on {seen.address}: {seen.probe_problem}", fix)
        return
    yield ok("port", f"the master {seen.proof.name} proves itself on {seen.address}, fleet {seen.proof.fleet}")


def _has_no_lease(seen: MasterEvidence) -> bool:
    """Whether a master that shares its store may not act now, as far as can be seen."""
    if seen.config is None or not seen.config.several_masters:
        return False
    link = (seen.status or {}).get("link")
    return bool(seen.database_problem) or (link is not None and not link.get("lease", True))


def _check_folders(seen: MasterEvidence) -> Iterator[Finding]:
    around = seen.around
    pki = around.paths["pki_dir"]
    if pki.sort is Sort.MISSING:
        yield warning("pki_dir", f"there is no {pki.path}: this master was never started", "")
    yield from checks.check_secrets(around, "pki_dir", KEY_FILES)
    # Started as root it works in these as `user`, otherwise as the user who starts it and owns the keys.
    uid = around.user_uid if pki.uid == 0 else pki.uid
    if uid is not None and pki.sort is Sort.FOLDER:
        names = ("data_dir", "data_dir/store.sqlite", "sock_dir")
        bad = [finding for name in names for finding in checks.check_owner(around.paths[name], name, uid)]
        yield from bad or [ok("data_dir", f"{around.paths['data_dir'].path} has the right owner")]
    store = around.paths["data_dir/store.sqlite"]
    if store.sort is Sort.FILE and store.mode & checks.OTHERS:
        yield problem(
            "data_dir/store.sqlite",
            f"others may read {store.path} (mode {store.mode:04o}), which contains returns",
            f"chmod 600 {shlex.quote(store.path)}",
        )


_LOGIN_FILES = {"auth_file": "file", "sharedsecret_file": "sharedsecret"}
"""Options that name a file of secrets, and the backend of `external_auth` that reads it."""


def _check_logins(seen: MasterEvidence) -> Iterator[Finding]:
    """The files of logins: a backend refuses a file that others may read, and then no one can log in."""
    backends = seen.config.external_auth if seen.config is not None else {}
    for name, backend in _LOGIN_FILES.items():
        found = seen.around.paths.get(name)
        if found is None:
            if backend in backends:
                yield problem(name, f"external_auth has the backend {backend!r}, and {name} names no file for it")
        elif found.sort is Sort.MISSING:
            if backend in backends:
                yield problem(name, f"external_auth has the backend {backend!r}, and there is no {found.path}")
        elif found.sort is not Sort.HIDDEN:
            yield from _login_file(seen, name, found)


def _login_file(seen: MasterEvidence, name: str, found: PathSeen) -> Iterator[Finding]:
    owners = (0, seen.around.paths["pki_dir"].uid)
    where = shlex.quote(found.path)
    if found.sort is not Sort.FILE:
        yield problem(name, f"{found.path} is not a regular file, so no one can log in with it")
    elif found.mode & checks.OTHERS:
        yield problem(
            name,
            f"others may use {found.path} (mode {found.mode:04o}), which contains credentials: make it private, and "
            "change its passwords if someone may have read it",
            f"chmod 600 {where}",
        )
    elif found.uid not in owners:
        yield problem(
            name,
            f"{found.path} belongs to user {found.uid}, who could let anyone in; it must belong to root or "
            "to the user who starts the master",
            f"chown {owners[1]} {where}",
        )
    else:
        yield ok(name, f"{found.path} is private")


DATABASE_CLOCK_S = 2.0
"""How far the clock of the database's machine may be from this one."""


def _check_database(seen: MasterEvidence) -> Iterator[Finding]:
    if seen.database_problem:
        yield problem("database", seen.database_problem)
    if seen.database is None:
        return
    where, settings = seen.database["where"], seen.database["settings"]
    version = settings["server_version"]
    if seen.database["is_old"]:
        yield problem("database", f"the {where} is PostgreSQL {version}, which is too old for saltlite")
    else:
        yield ok("database", f"the {where} answers (PostgreSQL {version})")
    for name in ("fsync", "full_page_writes"):
        if settings[name] != "on":
            yield problem(
                "database", f"the {where} has {name} = {settings[name]}: a crash of its machine loses the store"
            )
    yield from _check_replication(seen.database, is_shared=seen.config is not None and seen.config.several_masters)
    apart = abs(seen.database["clock"] - seen.around.now)
    if apart > DATABASE_CLOCK_S:
        yield warning("database", f"the clock of the {where} differs by {apart:.0f} s from that of this machine")


def _check_replication(database: Mapping[str, Any], *, is_shared: bool) -> Iterator[Finding]:
    where, standbys, synchronous = database["where"], database["standbys"], database["synchronous"]
    wanted = database["settings"]["synchronous_standby_names"]
    if wanted and not standbys:
        yield problem("database", f"the {where} waits for a synchronous standby ({wanted}), and none is connected")
    elif wanted and synchronous == 1 and standbys == 1:
        yield warning("database", f"the {where} has one standby, which is synchronous: the loss of it stops the master")
    elif standbys and not wanted:
        also = ", and bring revoked keys back on masters that share it" if is_shared else ""
        yield (problem if is_shared else warning)(
            "database",
            f"the {where} has {standbys} standbys and none is synchronous (synchronous_standby_names is empty): a "
            f"failover can lose results that minions have forgotten{also}",
        )


def _check_masters(seen: MasterEvidence) -> Iterator[Finding]:
    """The masters that share the store, as the running one sees them."""
    if seen.status is None or "masters" not in seen.status:
        return
    if seen.address_problem:
        yield problem("masters", seen.address_problem)
    masters, differences = seen.status["masters"], seen.status["differences"]
    soon = seen.around.now + RENEW_DAYS * DAY_S
    for row in masters:
        name, until = row["name"], row["certificate_until"]
        if row["state"] == "draining":
            undo = checks.command(seen.around, f"master drain {shlex.quote(name)} --undo")
            yield ok("masters", f"the master {name} drains: it gets no minions until `{undo}`")
        if row.get("certificate_problem"):
            yield warning("masters", row["certificate_problem"])
        elif row["state"] == "fenced":
            remove = checks.command(seen.around, f"master remove {shlex.quote(name)}")
            yield warning(
                "masters",
                f"the master {name} has stopped, or is cut off from the database: start it, or see `saltlite doctor` "
                f"there. Only if it is gone for good: `{remove}`",
            )
        elif until is None or until < soon - DAY_S:
            yield warning(
                "masters",
                f"the certificate of the master {name} expires within {RENEW_DAYS} days, or has expired (saltlite help "
                "several-masters)",
            )
    for sentence in differences:
        say = problem if sentence.startswith("access rules") else warning
        yield say("masters", f"{sentence}: all masters need the same")
    if len(masters) > 1 and not differences:
        yield ok("masters", f"{len(masters)} masters share the store, and are configured alike")


def _check_fleet(seen: MasterEvidence) -> Iterator[Finding]:
    fleet, around = seen.fleet, seen.around
    id_file = around.paths.get("pki_dir/fleet.id")
    if id_file is not None:
        yield from checks.check_owner(id_file, "fleet.id", around.paths["pki_dir"].uid)
    keys = [around.paths[f"pki_dir/{name}"] for name in KEY_FILES]
    if fleet is None or any(key.sort is Sort.FILE and key.mode & checks.OTHERS for key in keys):
        return
    if fleet.problem:
        yield problem("fleet", fleet.problem)
    elif not fleet.fingerprint:
        if around.paths["data_dir/store.sqlite"].sort is Sort.FILE:
            yield warning(
                "fleet",
                "there is no fleet.key beside a store: if minions were accepted already, the master does not start "
                "without it; restore the keys from a backup",
            )
    elif fleet.behind:
        names = " and ".join(fleet.behind)
        yield warning("fleet", f"{names} still name a former fleet key: the running master renews them")
    elif seen.proof is not None and seen.proof.fleet != fleet.fingerprint:
        yield problem(
            "fleet",
            f"fleet.key is that of {fleet.fingerprint}, and the running master shows {seen.proof.fleet}: the log says "
            "why",
            checks.start(around, "saltlite-master"),
        )
    else:
        changed = f", changed {fleet.changes} times" if fleet.changes else ""
        yield ok("fleet", f"fleet.key, fleet.id and master.cert are of {fleet.fingerprint}{changed}")


def _check_pillar(seen: MasterEvidence) -> Iterator[Finding]:
    if seen.config is None:
        return
    served = [root for roots in seen.config.file_roots.values() for root in roots]
    for folder in (one for roots in seen.config.pillar_roots.values() for one in roots):
        around = [root for root in served if f"{folder}/".startswith(f"{root.rstrip('/')}/")]
        if around:
            yield problem(
                "pillar_roots",
                f"{folder} is inside {around[0]}, one of file_roots: every minion may fetch the pillar of the others",
            )


def _check_disks(seen: MasterEvidence) -> Iterator[Finding]:
    yield from checks.check_disks(seen.around)
    if seen.status is None:
        return
    store = seen.status["store"]
    if store["limit"] and store["size"] > 0.9 * store["limit"]:
        yield warning(
            "store",
            f"it uses {store['size'] / 2**20:,.0f} of the {store['limit'] / 2**20:,.0f} MiB of `store_max`: "
            "old jobs are deleted for new ones; raise it, or lower keep_jobs",
        )


def _check_clock(seen: MasterEvidence) -> Iterator[Finding]:
    yield from checks.check_clock(seen.around)
    if seen.certificate_until is not None:
        since = seen.certificate_from if seen.certificate_from is not None else 0
        yield from checks.check_certificate(seen.around, since, seen.certificate_until, "this master")


def _check_processes(seen: MasterEvidence) -> Iterator[Finding]:
    stopped = [one.title for one in seen.processes if one.state in "TtZ"]
    for title in stopped:
        yield problem("processes", f"{title} is stopped or dead", checks.start(seen.around, "saltlite-master"))
    if seen.status is None:
        return
    link, wanted = seen.status["link"], seen.status["master"]["mworkers"]
    if link is None:
        yield problem("processes", "the link process does not answer, so no minion can be reached")
        return
    if link["mworkers"] < wanted:
        yield problem(
            "processes",
            f"{link['mworkers']} of {wanted} MWorkers are connected to the link process; the log says why",
            checks.start(seen.around, "saltlite-master"),
        )
    elif not stopped:
        yield ok("processes", f"{wanted} MWorkers and the link process answer")
    if link["lag_s"] > LAG_S:
        yield warning("processes", f"{link['uncommitted']} reports wait to be stored, for {link['lag_s']:.0f} s now")


def _check_link_user(seen: MasterEvidence) -> Iterator[Finding]:
    """Whether a compromised link process could change what the others own."""
    if seen.config is None:
        return
    if seen.around.euid == 0 and seen.link_uid is None:
        yield problem(
            "link_user",
            f"the user {seen.config.link_user!r}, as which the link process runs, does not exist",
            f"useradd --system --no-create-home {shlex.quote(seen.config.link_user)}",
        )
        return
    link = {one.uid for one in seen.processes if one.title == LINK_TITLE and one.uid is not None}
    others = {one.uid for one in seen.processes if one.title.startswith("MWorker")}
    if link & others:
        yield warning(
            "link_user",
            "the link process and the MWorkers run as the same user: whoever takes over the link process could change "
            "the store, and with it keys and jobs; start the master as root, with a separate `link_user`",
        )
    elif link:
        yield ok("link_user", "the link process runs as a separate user, who owns nothing of the master")


def _check_open_files(seen: MasterEvidence) -> Iterator[Finding]:
    limits = [one.open_files_max for one in seen.processes if one.title == LINK_TITLE]
    if seen.status is None or not limits or limits[0] is None:
        return
    minions = sum(row["state"] != "pending" for row in seen.status["minions"])
    needed = minions + FILES_BESIDES_MINIONS
    if limits[0] < needed:
        yield problem(
            "open files",
            f"the link process may open {limits[0]} files and needs one per minion: {needed} for {minions} minions",
            "systemctl edit saltlite-master   # [Service] LimitNOFILE=65536",
        )
    else:
        yield ok("open files", f"the link process may open {limits[0]} files, for {minions} minions")


def _check_keys(seen: MasterEvidence) -> Iterator[Finding]:
    if seen.keys is None:
        return
    by_state = {state: [row["id"] for row in seen.keys if row["state"] == state] for state in ("pending", "conflict")}
    if by_state["conflict"]:
        yield problem(
            "keys",
            f"another key claims the id of a minion that has one: {_names(by_state['conflict'])}; "
            "it was reinstalled, or it is an impostor",
            checks.command(seen.around, "key list conflict"),
        )
    if by_state["pending"]:
        yield warning(
            "keys",
            f"{len(by_state['pending'])} wait to be accepted: {_names(by_state['pending'])}",
            checks.command(seen.around, "key list pending"),
        )
    if not any(by_state.values()):
        yield ok("keys", f"{len(seen.keys)} known, none waits for a decision")


def _check_minions(seen: MasterEvidence) -> Iterator[Finding]:
    if seen.status is None:
        return
    rows = [row for row in seen.status["minions"] if row["state"] != "pending"]
    versions = Counter(row["version"] for row in rows if row["version"])
    if len(versions) > 1:
        listed = ", ".join(f"{count} have {version}" for version, count in versions.most_common())
        yield warning("versions", f"minions differ: {listed}", checks.command(seen.around, "status"))
    for minion, executors in sorted(seen.status["unable"].items()):
        yield problem(
            "executors",
            f"no job can run on {minion}: its module_executors names {', '.join(executors)}, which it does not have; "
            "`saltlite doctor` on that machine says how to correct it",
        )
    away = [row for row in rows if row["state"] == "away"]
    now = seen.around.now + seen.ahead_s
    lost = [row for row in away if row["last_seen"] is not None and now - row["last_seen"] > AWAY_S]
    if lost:
        yield warning(
            "minions",
            f"away for more than a day: {_names_with_reasons(lost)}; delete the key of a machine that is gone for good",
            checks.command(seen.around, f"key delete {shlex.quote(lost[0]['id'])}"),
        )
        return
    up = sum(row["state"] == "up" for row in rows)
    absent = f", away: {_names_with_reasons(away)}" if away else ""
    yield ok("minions", f"{up} of {len(rows)} are up, none has been away for more than a day{absent}")


def _names_with_reasons(rows: Sequence[Mapping[str, Any]]) -> str:
    """The ids of minions, each with why it is not connected."""
    return _names([f"{row['id']} ({row['reason']})" if row.get("reason") else row["id"] for row in rows])


def _check_resources(seen: MasterEvidence) -> Iterator[Finding]:
    if seen.status is None:
        return
    found, stats = seen.status["resources"], checks.command(seen.around, "runner resource.stats")
    if found["incomplete"]:
        yield warning(
            "resources",
            "the registry was damaged: targets miss resources until every minion has registered again",
            stats,
        )
    if found["refused"]:
        yield warning(
            "resources",
            f"registrations were refused, wholly or in part, of {minions_text(found['refused'])}",
            stats,
        )
    for minion, kinds in found["missing"].items():
        listed = ", ".join(f"{count} of type {kind}" for kind, count in kinds.items())
        yield warning(
            "resources",
            f"{minion} no longer finds {listed}: they are removed when further looks agree, or when you confirm it",
            checks.command(seen.around, f"runner resource.confirm {shlex.quote(minion)}"),
        )
    for kind, one in found["types"].items():
        for sentence in one["problems"]:
            yield warning("resources", f"type {kind} on {sentence}", stats)
    if found["count"] and not found["incomplete"] and not found["refused"] and not found["missing"]:
        yield ok("resources", f"{found['count']} are registered, of {minions_text(found['minions'])}")


def _check_readers(seen: MasterEvidence) -> Iterator[Finding]:
    if seen.status is None or not seen.status["readers"]:
        return
    late = {name: lag for name, lag in seen.status["readers"].items() if lag["lag_s"] > READER_LAG_S}
    for name, lag in late.items():
        yield warning(
            "event log",
            f"{name} is {lag['behind']} events behind, the first has waited for {format_duration(lag['lag_s'])}: "
            "the master's log says why; it never gets what keep_jobs deletes meanwhile",
        )
    if not late:
        yield ok("event log", f"{', '.join(seen.status['readers'])} are up to date")


CHECKS: tuple[Callable[[MasterEvidence], Iterator[Finding]], ...] = (
    _check_config,
    _check_running,
    _check_port,
    _check_processes,
    _check_link_user,
    _check_open_files,
    _check_folders,
    _check_logins,
    _check_database,
    _check_masters,
    _check_fleet,
    _check_pillar,
    _check_disks,
    _check_clock,
    _check_keys,
    _check_minions,
    _check_resources,
    _check_readers,
)


def check_master(seen: MasterEvidence) -> list[Finding]:
    """The findings of all checks; without a valid configuration only those about it."""
    if seen.config is None:
        return list(_check_config(seen))
    return [finding for check in CHECKS for finding in check(seen)]


def _names(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:NAMES_SHOWN])
    return shown + (f" and {len(ids) - NAMES_SHOWN} more" if len(ids) > NAMES_SHOWN else "")
