"""The checks of a minion, pure: from what was seen to findings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from saltlite.cli.diagnosis import shared_checks as shared
from saltlite.cli.diagnosis.evidence import MasterSeen, MinionEvidence, Sort
from saltlite.cli.diagnosis.findings import Finding, ok, problem, warning
from saltlite.cli.diagnosis.minion_look import KEY_FILES
from saltlite.cli.durations import format_duration
from saltlite.errors import UsageError
from saltlite.minion.processes.status_file import STOPPED
from saltlite.minion.protocol.connection import Phase
from saltlite.model.ids import parse_minion_id
from saltlite.platform.master_probe import MasterProof
from saltlite.wire.limits import SPOOL_BYTES, SPOOL_RESULTS

SKEW_S = 5.0
"""Clocks that differ by more than this make the times of returns and logs misleading."""

_NTP = "timedatectl set-ntp true"


def _config(seen: MinionEvidence) -> Iterator[Finding]:
    yield from shared.configuration(seen.around)
    yield from shared.user(seen.around)
    yield from shared.rights(seen.around)


def _id(seen: MinionEvidence) -> Iterator[Finding]:
    try:
        yield ok("id", parse_minion_id(seen.id))
    except UsageError as error:
        yield problem("id", f"{error}; set `id`", f"echo 'id: web1' >> {shlex.quote(seen.around.config_dir)}/minion")


def _running(seen: MinionEvidence) -> Iterator[Finding]:
    pid, since = seen.around.pid, format_duration(max(0.0, seen.around.now - seen.phase_at))
    if pid is None and seen.around.paths["data_dir/journal"].sort is Sort.HIDDEN:
        yield warning("minion", "this user cannot see whether it runs")
    elif pid is None:
        last = f"; its last word, {since} ago, was {seen.phase}" if seen.phase not in ("", STOPPED) else ""
        why = f" ({seen.reason})" if seen.reason else ""
        yield problem("minion", f"it does not run here{last}{why}", shared.start(seen.around, "saltlite-minion"))
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
            f"{seen.reason}, it said {since} ago; delete the key there if this minion is to be let in again",
            f"saltlite key delete {shlex.quote(seen.id)}   # on the master",
        )
    elif seen.phase in (Phase.CONNECT, Phase.HANDSHAKE, Phase.BACKOFF):
        yield problem("minion", f"it runs (pid {pid}) without a connection: {seen.reason or seen.phase}, {since} ago")
    else:
        yield warning("minion", f"it runs (pid {pid}), and has not said yet whether it is connected")
    yield from shared.unit(seen.around, runs=pid is not None)


def _resources(seen: MinionEvidence) -> Iterator[Finding]:
    if seen.resources_problem:
        yield problem("resources", f"the master did not take the resources, or not all: {seen.resources_problem}")
    for name, report in sorted(seen.types.items()):
        trouble, was = report.problem(), "" if report.was is None else f" (was {report.was})"
        if trouble:
            yield problem("resources", f"type {name}: {trouble}{was}")
        else:
            yield ok("resources", f"type {name}: loaded and initialised, {report.found} found{was}")
    if seen.looked_at and seen.resources_problem:
        yield warning("resources", f"there is no resource type: {seen.looked_at}")


def _signatures(seen: MinionEvidence) -> Iterator[Finding]:
    if seen.refused_answers:
        yield problem(
            "signatures",
            f"{seen.refused_answers} answers about files or the pillar were not signed by a master and were not used: "
            "the link process of the master, or the network process here, may have been taken over; the log has them",
        )


def _masters(seen: MinionEvidence) -> Iterator[Finding]:
    for master in seen.masters:
        yield from _master(seen, master)


def _master(seen: MinionEvidence, master: MasterSeen) -> Iterator[Finding]:
    check = f"master {master.address}"
    host, _, port = master.address.rpartition(":")
    host = shlex.quote(host.strip("[]"))
    if master.dns_problem:
        yield problem(check, f"its name leads to no address: {master.dns_problem}", f"getent hosts {host}")
    elif master.tcp_problem:
        where = ", ".join(master.resolved)
        yield problem(
            check,
            f"no TCP connection to {where}: {master.tcp_problem}; the master does not run, or a firewall is between",
            f"nc -vz -w 5 {host} {port}",
        )
    elif master.proof is None:
        yield problem(check, f"what listens there does not prove to be a master: {master.proof_problem}")
    else:
        proof = master.proof
        yield from _fleet(seen, check, proof)
        yield from _skew(check, proof.ahead_s)
        yield from shared.certificate(seen.around, proof.not_before, proof.not_after, proof.name)


def _fleet(seen: MinionEvidence, check: str, proof: MasterProof) -> Iterator[Finding]:
    fleet, name = proof.fleet, proof.name
    if not seen.pinned:
        first_use = seen.config is not None and seen.config.trust_on_first_use
        if first_use:
            yield warning(check, f"the master {name} proves itself; this minion will take its fleet {fleet} unseen")
        else:
            yield problem(
                check,
                f"this minion knows no fleet: if {fleet} is what `saltlite key finger` shows on the master, pin it",
                f"echo 'fleet: {fleet}' >> {shlex.quote(seen.around.config_dir)}/minion",
            )
    elif proof.former == seen.pinned:
        yield ok(check, f"the master {name} proves that {fleet} took the place of this minion's fleet, which follows")
    elif fleet != seen.pinned:
        yield problem(
            check,
            f"it is of fleet {fleet}, and this minion belongs to {seen.pinned} (by {seen.pin_source}); correct "
            "`master`, or have the minion join the other fleet if it really moves",
        )
    else:
        yield ok(check, f"the master {name} proves itself, and is of this minion's fleet")


def _skew(check: str, ahead_s: float) -> Iterator[Finding]:
    if abs(ahead_s) > SKEW_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        yield warning(check, f"this machine's clock is {format_duration(abs(ahead_s))} {way} the master's", _NTP)


def _folders(seen: MinionEvidence) -> Iterator[Finding]:
    around = seen.around
    pki = around.paths["pki_dir"]
    if pki.sort is Sort.MISSING:
        yield warning("pki_dir", f"there is no {pki.path}: this minion was never started")
    yield from shared.secrets(around, "pki_dir", KEY_FILES)
    if pki.sort is Sort.FOLDER:
        bad = [
            finding
            for name in ("data_dir", "data_dir/journal", "data_dir/spool")
            for finding in shared.owner(around.paths[name], name, pki.uid)
        ]
        yield from bad or [ok("data_dir", f"{around.paths['data_dir'].path} belongs to whom it should")]
    token = around.paths.get("join_token_file")
    if token is not None and token.sort is Sort.FILE and token.mode & shared.OTHERS:
        yield problem(
            "join_token_file",
            f"others may read {token.path} (mode {token.mode:04o}), so the minion refuses it",
            f"chmod 600 {shlex.quote(token.path)}",
        )
    if token is not None and token.sort is Sort.MISSING and not seen.pinned:
        yield problem("join_token_file", f"there is no {token.path}, and this minion knows no fleet without it")


def _journal(seen: MinionEvidence) -> Iterator[Finding]:
    if seen.journal_problem:
        yield problem("journal", seen.journal_problem)
    elif seen.journal_jobs is not None:
        yield ok("journal", f"it is whole, and remembers {seen.journal_jobs} jobs")
    for path in seen.spool_damaged:
        yield warning("spool", f"a result could not be read and was put aside: {path}", f"rm {shlex.quote(path)}")
    if seen.spool_results is None:
        return
    size = f"{seen.spool_results} results of {seen.spool_bytes / 2**20:.1f} MiB wait for the master"
    if seen.spool_results >= SPOOL_RESULTS or seen.spool_bytes >= SPOOL_BYTES:
        yield problem("spool", f"it is full, so jobs are refused: {size}")
    elif seen.spool_results > SPOOL_RESULTS // 2 or seen.spool_bytes > SPOOL_BYTES // 2:
        yield warning("spool", f"it is more than half full: {size}")
    else:
        yield ok("spool", size)


def _modules(seen: MinionEvidence) -> Iterator[Finding]:
    tried = seen.modules
    if tried is None:
        return
    if tried.problem:
        yield problem("modules", tried.problem)
        return
    for stem, sentence in sorted(tried.broken.items()):
        yield warning("modules", f"{stem}.py offers nothing: {sentence}")
    if tried.refused:
        told = "; ".join(sentence for _, sentence in sorted(tried.refused.items()))
        yield ok("modules", f"not for this machine, as they say themselves: {told}")
    yield ok("modules", f"{tried.offered} serve here")
    if tried.no_chain:
        yield problem(
            "executors", f"no function can be called: {tried.no_chain}; correct module_executors or sudo_user"
        )
    elif tried.idle_chain:
        yield problem("executors", f"module_executors: {tried.idle_chain}")
    for name, sentence in sorted(tried.unknown_executors.items()):
        yield warning("executors", f"executors_allowed has {name!r}, which nobody can ask for: {sentence}")
    if not tried.grains:
        yield warning("grains", "none could be collected: targets and modules that ask for them find nothing")
    else:
        yield ok("grains", f"{tried.grains} are known")


def _machine(seen: MinionEvidence) -> Iterator[Finding]:
    yield from shared.disks(seen.around)
    yield from shared.clock(seen.around)


CHECKS: tuple[Callable[[MinionEvidence], Iterator[Finding]], ...] = (
    _config,
    _id,
    _running,
    _resources,
    _signatures,
    _masters,
    _folders,
    _journal,
    _machine,
    _modules,
)


def check_minion(seen: MinionEvidence) -> list[Finding]:
    """What all checks find. Without a configuration there is nothing else to look at."""
    if seen.config is None:
        return list(_config(seen))
    return [finding for check in CHECKS for finding in check(seen)]
