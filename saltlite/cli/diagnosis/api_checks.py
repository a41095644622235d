"""The checks of an API, pure: from what was seen to findings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from saltlite.cli.diagnosis import shared_checks as shared
from saltlite.cli.diagnosis.evidence import ApiEvidence, PathSeen, Sort
from saltlite.cli.diagnosis.findings import Finding, ok, problem, warning
from saltlite.cli.durations import format_duration
from saltlite.platform.tls_files import OWN_FILE

LOOPBACK = ("127.", "::1", "localhost")
"""How an address begins that only this machine reaches."""

_RESTART = "saltlite-api"


def _config(seen: ApiEvidence) -> Iterator[Finding]:
    yield from shared.configuration(seen.around)
    yield from shared.user(seen.around)
    yield from shared.rights(seen.around)


def _running(seen: ApiEvidence) -> Iterator[Finding]:
    pid = seen.around.pid
    if not seen.port_problem:
        yield ok("api", f"it answers on {seen.address}" + (f" (pid {pid})" if pid is not None else ""))
    elif pid is None:
        yield problem("api", "the API does not run here", shared.start(seen.around, "saltlite-api"))
    else:
        yield problem(
            "api", f"it runs (pid {pid}), and does not answer on {seen.address}: {seen.port_problem}", "ss -ltnp"
        )
    yield from shared.unit(seen.around, runs=pid is not None)


def _master(seen: ApiEvidence) -> Iterator[Finding]:
    if seen.master_problem:
        yield problem("master", f"requests are answered 503: the master does not answer on {seen.master_problem}")
    else:
        yield ok("master", "its socket can be reached")


def _plain(seen: ApiEvidence) -> Iterator[Finding]:
    if seen.config is None or not seen.config.disable_ssl:
        return
    if seen.config.interface.startswith(LOOPBACK):
        yield ok("tls", "disable_ssl: only this machine reaches the port, and a proxy here has to bring TLS")
    else:
        yield problem(
            "tls",
            f"disable_ssl: passwords and tokens cross the network unencrypted, on {seen.config.interface}; set "
            "`interface: 127.0.0.1` behind a proxy, or take disable_ssl out",
        )


def _files(seen: ApiEvidence) -> Iterator[Finding]:
    """Whether the files of TLS are there, kept from others, and can be used."""
    if seen.config is None or seen.config.disable_ssl:
        return
    if not seen.config.ssl_crt:
        yield from _own_file(seen)
    for name in ("ssl_crt", "ssl_key"):
        found = seen.around.paths.get(name)
        if found is not None and found.sort is Sort.MISSING and (name == "ssl_crt" or seen.config.ssl_key):
            yield problem("tls", f"'{name}' names {found.path}, and there is no such file: the API cannot start")
            return
    key = seen.around.paths.get("ssl_key")
    if key is not None:
        yield from _key_file(key)
    if seen.tls is not None and seen.tls.problem:
        yield problem("tls", f"{seen.tls.problem}: the API cannot start with it")


def _own_file(seen: ApiEvidence) -> Iterator[Finding]:
    yield from shared.secrets(seen.around, "pki_dir", (OWN_FILE,))
    if seen.around.paths[f"pki_dir/{OWN_FILE}"].sort is Sort.MISSING:
        yield warning("tls", "there is no certificate yet: the API makes one for itself when it starts")


def _key_file(key: PathSeen) -> Iterator[Finding]:
    if key.sort is Sort.FILE and key.mode & shared.OTHERS:
        yield problem(
            "tls",
            f"others may read the private key in {key.path} (mode {key.mode:04o}); make it private, and have a new one "
            "if somebody else can have read it",
            f"chmod 600 {shlex.quote(key.path)}",
        )


def _certificate(seen: ApiEvidence) -> Iterator[Finding]:
    """Whether callers believe the certificate, and whether the one that is served is the one in the file."""
    tls = seen.tls
    if tls is None or tls.not_before is None or tls.not_after is None:
        return
    left = tls.not_after - seen.around.now
    if seen.around.now < tls.not_before:
        wait = format_duration(tls.not_before - seen.around.now)
        yield problem(
            "tls", f"{tls.certificate} is good from {wait} from now only: it, or this machine's clock, is wrong"
        )
    elif left < 0:
        yield problem("tls", f"{tls.certificate} ran out {format_duration(-left)} ago: callers refuse it")
    elif left < shared.CERTIFICATE_LOW_S:
        yield warning("tls", f"{tls.certificate} runs out in {format_duration(left)}")
    else:
        yield ok("tls", f"{tls.certificate} and its key belong together, and are good for {format_duration(left)} more")
    if seen.served and seen.served != tls.fingerprint:
        yield warning(
            "tls",
            f"what answers on {seen.address} has another certificate than {tls.certificate}: it was renewed since the "
            "API started, or something else has the port",
            shared.start(seen.around, _RESTART),
        )


def _machine(seen: ApiEvidence) -> Iterator[Finding]:
    yield from shared.disks(seen.around)
    yield from shared.clock(seen.around)


CHECKS: tuple[Callable[[ApiEvidence], Iterator[Finding]], ...] = (
    _config,
    _running,
    _master,
    _plain,
    _files,
    _certificate,
    _machine,
)


def check_api(seen: ApiEvidence) -> list[Finding]:
    """What all checks find. Without a configuration there is nothing else to look at."""
    if seen.config is None:
        return list(_config(seen))
    return [finding for check in CHECKS for finding in check(seen)]
