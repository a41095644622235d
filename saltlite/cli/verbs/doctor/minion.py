"""`doctor` for the minion: collect evidence from its configuration, folders, masters and modules, and check it."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable, Iterator
from typing import NamedTuple

from saltlite.cli.options import format_duration
from saltlite.cli.verbs.doctor import checks
from saltlite.cli.verbs.doctor.checks import Finding, ok, problem, warning
from saltlite.cli.verbs.doctor.host import MasterSeen, MinionEvidence, Sort, look_around
from saltlite.cli.verbs.doctor.modules import try_modules
from saltlite.config.load import load_minion, missing_folders
from saltlite.config.minion import MinionConfig
from saltlite.errors import ConfigError, JournalError, LinkError, RemoteProtocolError, StartupError, UsageError
from saltlite.minion.jobs import spool
from saltlite.minion.processes.identity import STOPPED, Status, join_token, pinned_fleet, read_pin, read_status
from saltlite.minion.protocol import journal_format
from saltlite.minion.protocol.connection import Phase
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import parse_fingerprint
from saltlite.model.masters import format_address, parse_address
from saltlite.platform.master_probe import BUSY, MasterProof, probe_master
from saltlite.platform.privileges import read_secret
from saltlite.wire.limits import SPOOL_BYTES, SPOOL_RESULTS

CONNECT_S = 5.0
"""How long a master may take to accept a connection, and again to prove itself."""

KEY_FILES = ("minion.key", "fleet.pin", "minion_id")


class _Spool(NamedTuple):
    """The contents of the spool. `results` is None when it cannot be seen."""

    results: int | None = None
    size: int = 0
    damaged: tuple[str, ...] = ()


def look_at_minion(config_dir: str) -> MinionEvidence:
    """The evidence for the checks of a minion. Foreseeable errors become evidence."""
    config, problems = _read_config(config_dir)
    around = look_around("minion", config_dir, config, {} if config is None else _paths(config), problems)
    if config is None:
        return MinionEvidence(around, None, "", "", "", (), "", "", 0.0, "", 0, "", None, None, 0, (), None)
    pinned, source = _pinned(config)
    status = read_status(config.data_dir) or Status("", "", 0.0)
    journal_problem, jobs = _journal(os.path.join(config.data_dir, "journal"))
    stored = _spool(os.path.join(config.data_dir, "spool"))
    # Before ZeroMQ, because no process should be forked beside its threads.
    modules = try_modules(config_dir)
    return MinionEvidence(
        around=around,
        config=config,
        id=_read_id(config),
        pinned=pinned,
        pin_source=source,
        masters=[_master(*parse_address(text, config.port), pinned) for text in config.master],
        phase=status.phase,
        reason=status.reason,
        phase_at=status.at,
        resources_problem=status.resources,
        refused_answers=status.refused,
        types=status.types,
        looked_at=status.looked_at,
        journal_problem=journal_problem,
        journal_jobs=jobs,
        spool_results=stored.results,
        spool_bytes=stored.size,
        spool_damaged=stored.damaged,
        modules=modules,
    )


def _read_config(config_dir: str) -> tuple[MinionConfig | None, list[str]]:
    try:
        loaded = load_minion(config_dir)
        return loaded.config, missing_folders(loaded)
    except ConfigError as error:
        return None, str(error).split("\n")


def _paths(config: MinionConfig) -> dict[str, str]:
    files = {f"pki_dir/{name}": os.path.join(config.pki_dir, name) for name in KEY_FILES}
    token = {"join_token_file": config.join_token_file} if config.join_token_file else {}
    return {
        "pki_dir": config.pki_dir,
        **files,
        **token,
        "data_dir": config.data_dir,
        "data_dir/journal": os.path.join(config.data_dir, "journal"),
        "data_dir/spool": os.path.join(config.data_dir, "spool"),
    }


def _read_id(config: MinionConfig) -> str:
    """The id that the minion has, or takes at its next start."""
    if config.id:
        return config.id
    try:
        stored = read_secret(os.path.join(config.pki_dir, "minion_id"))
    except StartupError:
        stored = None  # the check of the modes says why
    return stored.decode(errors="replace").strip() if stored is not None else socket.getfqdn().lower()


def _pinned(config: MinionConfig) -> tuple[str, str]:
    """The fingerprint of this minion's fleet, and where it is written."""
    where = os.path.join(config.pki_dir, "fleet.pin")
    try:
        stored, former = read_pin(where)
        pinned = pinned_fleet(config, stored, former)
        if pinned is not None:
            return pinned, where if pinned == stored else "the option 'fleet'"
        token = join_token(config)
    except (StartupError, UsageError):
        return "", ""
    return (token.fleet, "the join token") if token is not None else ("", "")


def _master(host: str, port: int, pinned: str) -> MasterSeen:
    address = format_address(host, port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return MasterSeen(address, (), error.strerror or str(error), "", None, "")
    resolved = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError as error:
        return MasterSeen(address, resolved, "", error.strerror or str(error), None, "")
    try:
        return MasterSeen(address, resolved, "", "", _proof(address, pinned), "")
    except (LinkError, RemoteProtocolError) as error:
        return MasterSeen(address, resolved, "", "", None, str(error))


def _proof(address: str, pinned: str) -> MasterProof:
    """What the master proves: the pinned fleet, or one that succeeded it; otherwise its own."""
    proof = probe_master(address, CONNECT_S)
    if not pinned or proof.fleet == pinned:
        return proof
    try:
        return probe_master(address, CONNECT_S, parse_fingerprint(pinned))
    except (LinkError, RemoteProtocolError):
        return proof


def _journal(where: str) -> tuple[str, int | None]:
    """What is wrong with the journal, and how many jobs it has; None when it does not exist or is hidden."""
    try:
        with open(where, "rb") as file:
            return "", len(journal_format.replay(file.read(), where).entries)
    except (FileNotFoundError, PermissionError):
        return "", None
    except (OSError, JournalError) as error:
        return str(error), None


def _spool(where: str) -> _Spool:
    try:
        with os.scandir(where) as entries:
            files = [(entry.name, entry.stat(follow_symlinks=False).st_size) for entry in entries]
    except OSError:
        return _Spool()
    sizes = [size for name, size in files if name.endswith((spool.RESULT, spool.UNSYNCED))]
    damaged = tuple(sorted(os.path.join(where, name) for name, _ in files if name.endswith(spool.DAMAGED)))
    return _Spool(len(sizes), sum(sizes), damaged)


SKEW_S = 5.0
"""Clocks that differ by more make the times of returns and logs misleading."""

_NTP = "timedatectl set-ntp true"


def _check_config(seen: MinionEvidence) -> Iterator[Finding]:
    yield from checks.check_configuration(seen.around)
    yield from checks.check_user(seen.around)
    yield from checks.check_rights(seen.around)


def _check_id(seen: MinionEvidence) -> Iterator[Finding]:
    try:
        yield ok("id", parse_minion_id(seen.id))
    except UsageError as error:
        yield problem("id", f"{error}; set `id`", f"echo 'id: web1' >> {shlex.quote(seen.around.config_dir)}/minion")


def _check_running(seen: MinionEvidence) -> Iterator[Finding]:
    pid, since = seen.around.pid, format_duration(max(0.0, seen.around.now - seen.phase_at))
    if pid is None and seen.around.paths["data_dir/journal"].sort is Sort.HIDDEN:
        yield warning("minion", "this user cannot see whether it runs")
    elif pid is None:
        last = f"; its last report, {since} ago, was {seen.phase}" if seen.phase not in ("", STOPPED) else ""
        why = f" ({seen.reason})" if seen.reason else ""
        yield problem("minion", f"it does not run here{last}{why}", checks.start(seen.around, "saltlite-minion"))
    elif seen.phase == Phase.READY:
        yield ok("minion", f"it runs (pid {pid}), and has been connected to a master for {since}")
    elif seen.phase == Phase.PENDING:
        yield problem(
            "minion",
            f"its key waits to be accepted, for {since} now; compare the fingerprint that both sides show",
            f"saltlite key accept {shlex.quote(seen.id)}   # on the master",
        )
    elif seen.phase == Phase.REFUSED:
        yield problem(
            "minion",
            f"{seen.reason}, as of {since} ago; delete the key there to let this minion in again",
            f"saltlite key delete {shlex.quote(seen.id)}   # on the master",
        )
    elif seen.phase in (Phase.CONNECT, Phase.HANDSHAKE, Phase.BACKOFF):
        yield problem("minion", f"it runs (pid {pid}) without a connection: {seen.reason or seen.phase}, {since} ago")
    else:
        yield warning("minion", f"it runs (pid {pid}), and has not reported yet whether it is connected")
    yield from checks.check_unit(seen.around, runs=pid is not None)


def _check_resources(seen: MinionEvidence) -> Iterator[Finding]:
    if seen.resources_problem:
        yield problem("resources", f"the master did not accept the resources, or not all: {seen.resources_problem}")
    for name, report in sorted(seen.types.items()):
        trouble, was = report.problem(), "" if report.was is None else f" (was {report.was})"
        if trouble:
            yield problem("resources", f"type {name}: {trouble}{was}")
        else:
            yield ok("resources", f"type {name}: loaded and initialised, {report.found} found{was}")
    if seen.looked_at and seen.resources_problem:
        yield warning("resources", f"there is no resource type: {seen.looked_at}")


def _check_signatures(seen: MinionEvidence) -> Iterator[Finding]:
    if seen.refused_answers:
        yield problem(
            "signatures",
            f"{seen.refused_answers} answers about files or the pillar were not signed by a master and were not used: "
            "the link process of the master, or the network process here, may have been taken over; the log has them",
        )


def _check_masters(seen: MinionEvidence) -> Iterator[Finding]:
    for master in seen.masters:
        yield from _check_master(seen, master)


def _check_master(seen: MinionEvidence, master: MasterSeen) -> Iterator[Finding]:
    check = f"master {master.address}"
    host, _, port = master.address.rpartition(":")
    host = shlex.quote(host.strip("[]"))
    if master.dns_problem:
        yield problem(check, f"its name has no address: {master.dns_problem}", f"getent hosts {host}")
    elif master.tcp_problem:
        where = ", ".join(master.resolved)
        yield problem(
            check,
            f"no TCP connection to {where}: {master.tcp_problem}; the master does not run, or a firewall blocks it",
            f"nc -vz -w 5 {host} {port}",
        )
    elif master.proof is None:
        if master.proof_problem.startswith(f"{BUSY}: "):
            yield warning(check, f"it takes no sessions now, as a master that drains: {master.proof_problem}")
            return
        yield problem(check, f"what listens there does not prove that it is a master: {master.proof_problem}")
    else:
        proof = master.proof
        yield from _check_fleet(seen, check, proof)
        yield from _check_skew(check, proof.ahead_s)
        yield from checks.check_certificate(seen.around, proof.not_before, proof.not_after, proof.name)


def _check_fleet(seen: MinionEvidence, check: str, proof: MasterProof) -> Iterator[Finding]:
    fleet, name = proof.fleet, proof.name
    if not seen.pinned:
        first_use = seen.config is not None and seen.config.trust_on_first_use
        if first_use:
            yield warning(check, f"the master {name} proves itself; this minion will trust fleet {fleet} on first use")
        else:
            yield problem(
                check,
                f"this minion knows no fleet: if {fleet} is what `saltlite key finger` shows on the master, pin it",
                f"echo 'fleet: {fleet}' >> {shlex.quote(seen.around.config_dir)}/minion",
            )
    elif proof.former == seen.pinned:
        yield ok(check, f"the master {name} proves that {fleet} succeeds this minion's fleet; the minion follows")
    elif fleet != seen.pinned:
        yield problem(
            check,
            f"it is of fleet {fleet}, and this minion belongs to {seen.pinned} (by {seen.pin_source}); correct "
            "`master`, or have the minion join the other fleet if it is to move",
        )
    else:
        yield ok(check, f"the master {name} proves itself, and is of this minion's fleet")


def _check_skew(check: str, ahead_s: float) -> Iterator[Finding]:
    if abs(ahead_s) > SKEW_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        yield warning(check, f"this machine's clock is {format_duration(abs(ahead_s))} {way} the master's", _NTP)


def _check_folders(seen: MinionEvidence) -> Iterator[Finding]:
    around = seen.around
    pki = around.paths["pki_dir"]
    if pki.sort is Sort.MISSING:
        yield warning("pki_dir", f"there is no {pki.path}: this minion was never started")
    yield from checks.check_secrets(around, "pki_dir", KEY_FILES)
    if pki.sort is Sort.FOLDER:
        bad = [
            finding
            for name in ("data_dir", "data_dir/journal", "data_dir/spool")
            for finding in checks.check_owner(around.paths[name], name, pki.uid)
        ]
        yield from bad or [ok("data_dir", f"{around.paths['data_dir'].path} has the right owner")]
    token = around.paths.get("join_token_file")
    if token is not None and token.sort is Sort.FILE and token.mode & checks.OTHERS:
        yield problem(
            "join_token_file",
            f"others may read {token.path} (mode {token.mode:04o}), so the minion refuses it",
            f"chmod 600 {shlex.quote(token.path)}",
        )
    if token is not None and token.sort is Sort.MISSING and not seen.pinned:
        yield problem("join_token_file", f"there is no {token.path}, and this minion knows no fleet without it")


def _check_journal(seen: MinionEvidence) -> Iterator[Finding]:
    if seen.journal_problem:
        yield problem("journal", seen.journal_problem)
    elif seen.journal_jobs is not None:
        yield ok("journal", f"it is intact and has {seen.journal_jobs} jobs")
    for path in seen.spool_damaged:
        yield warning("spool", f"a result could not be read and was set aside: {path}", f"rm {shlex.quote(path)}")
    if seen.spool_results is None:
        return
    size = f"{seen.spool_results} results of {seen.spool_bytes / 2**20:.1f} MiB wait for the master"
    if seen.spool_results >= SPOOL_RESULTS or seen.spool_bytes >= SPOOL_BYTES:
        yield problem("spool", f"it is full, so jobs are refused: {size}")
    elif seen.spool_results > SPOOL_RESULTS // 2 or seen.spool_bytes > SPOOL_BYTES // 2:
        yield warning("spool", f"it is more than half full: {size}")
    else:
        yield ok("spool", size)


def _check_modules(seen: MinionEvidence) -> Iterator[Finding]:
    tried = seen.modules
    if tried is None:
        return
    if tried.problem:
        yield problem("modules", tried.problem)
        return
    for stem, sentence in sorted(tried.broken.items()):
        yield warning("modules", f"{stem}.py has no functions: {sentence}")
    if tried.refused:
        listed = "; ".join(sentence for _, sentence in sorted(tried.refused.items()))
        yield ok("modules", f"not for this machine, by their own report: {listed}")
    yield ok("modules", f"{tried.offered} work here")
    if tried.no_chain:
        yield problem(
            "executors", f"no function can be called: {tried.no_chain}; correct module_executors or sudo_user"
        )
    elif tried.idle_chain:
        yield problem("executors", f"module_executors: {tried.idle_chain}")
    for name, sentence in sorted(tried.unknown_executors.items()):
        yield warning("executors", f"executors_allowed has {name!r}, which cannot be used: {sentence}")
    if not tried.grains:
        yield warning("grains", "none could be collected: targets and modules that ask for them find nothing")
    else:
        yield ok("grains", f"{tried.grains} are known")


def _check_machine(seen: MinionEvidence) -> Iterator[Finding]:
    yield from checks.check_disks(seen.around)
    yield from checks.check_clock(seen.around)


CHECKS: tuple[Callable[[MinionEvidence], Iterator[Finding]], ...] = (
    _check_config,
    _check_id,
    _check_running,
    _check_resources,
    _check_signatures,
    _check_masters,
    _check_folders,
    _check_journal,
    _check_machine,
    _check_modules,
)


def check_minion(seen: MinionEvidence) -> list[Finding]:
    """The findings of all checks; without a valid configuration only those about it."""
    if seen.config is None:
        return list(_check_config(seen))
    return [finding for check in CHECKS for finding in check(seen)]
