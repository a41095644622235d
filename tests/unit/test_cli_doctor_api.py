"""What the checks of an API make of what was seen: one thing is wrong in each test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from saltlite.cli.verbs.doctor.api import check_api
from saltlite.cli.verbs.doctor.checks import Finding, Severity
from saltlite.cli.verbs.doctor.host import ApiEvidence, DiskSeen, HostEvidence, PathSeen, Sort, TlsSeen, UnitSeen
from saltlite.config.api import ApiConfig

NOW = 1_800_000_000.0
DAY = 86_400

PATHS = {"ssl_crt": PathSeen("/crt", Sort.FILE, 0o644, 0), "ssl_key": PathSeen("/key", Sort.FILE, 0o600, 0)}
OWN = {
    "pki_dir": PathSeen("/pki", Sort.FOLDER, 0o700, 0),
    "pki_dir/self-signed.pem": PathSeen("/pki/self-signed.pem", Sort.FILE, 0o600, 0),
}
AROUND = HostEvidence(
    config_dir="/etc/saltlite",
    now=NOW,
    euid=0,
    user="saltlite-api",
    user_uid=991,
    config_files=1,
    config_problems=(),
    unit=None,
    pid=100,
    paths=PATHS,
    disks={"log_file": DiskSeen("/log", 2**40, 2**41, 10**6, writable=True)},
)
TLS = TlsSeen("/crt", "/key", "", int(NOW) - DAY, int(NOW) + 80 * DAY, "aa")
WELL = ApiEvidence(
    around=AROUND,
    config=ApiConfig(ssl_crt="/crt", ssl_key="/key"),
    tls=TLS,
    address="127.0.0.1:8000",
    port_problem="",
    served="aa",
    master_problem="",
)
PLAIN = replace(WELL, around=replace(AROUND, paths={}), tls=None, served="")


def around(**changes: Any) -> ApiEvidence:
    return replace(WELL, around=replace(AROUND, **changes))


def with_path(name: str, **changes: Any) -> ApiEvidence:
    return around(paths={**PATHS, name: replace(PATHS[name], **changes)})


def with_own(**changes: Any) -> ApiEvidence:
    """With the certificate that the API makes for itself."""
    file = replace(OWN["pki_dir/self-signed.pem"], **changes)
    paths = {**OWN, "pki_dir/self-signed.pem": file}
    tls = None if file.sort is Sort.MISSING else TLS
    return replace(around(paths=paths), config=ApiConfig(), tls=tls)


def with_tls(**changes: Any) -> ApiEvidence:
    return replace(WELL, tls=replace(TLS, **changes))


def bad(seen: ApiEvidence) -> list[Finding]:
    return [finding for finding in check_api(seen) if finding.severity is not Severity.OK]


@pytest.mark.parametrize(
    "seen", [WELL, with_own(), replace(PLAIN, config=ApiConfig(disable_ssl=True, interface="::1"))]
)
def test_an_api_that_is_well_has_only_good_findings(seen: ApiEvidence) -> None:
    assert bad(seen) == []
    assert {"config", "api", "master", "tls", "clock"} <= {finding.check for finding in check_api(seen)}


PROBLEMS: list[tuple[ApiEvidence, str, str, str]] = [
    (around(user_uid=None), "user", "the user 'saltlite-api'", "useradd --system --no-create-home saltlite-api"),
    (replace(around(pid=None), port_problem="x"), "api", "the API does not run here", "saltlite-api &"),
    (replace(WELL, port_problem="refused"), "api", "pid 100), and does not answer on 127.0.0.1:8000: refused", "ss"),
    (
        around(unit=UnitSeen("saltlite-api", "loaded", "failed", "exit-code", "enabled")),
        "systemd",
        "has failed",
        "journ",
    ),
    (replace(WELL, master_problem="/s: No such file"), "master", "answered 503: the master does not answer on /s", ""),
    (replace(PLAIN, config=ApiConfig(disable_ssl=True)), "tls", "unencrypted, on 0.0.0.0; set `interface", ""),
    (with_path("ssl_crt", sort=Sort.MISSING), "tls", "'ssl_crt' names /crt, which does not exist", ""),
    (with_path("ssl_key", sort=Sort.MISSING), "tls", "'ssl_key' names /key, which does not exist", ""),
    (with_path("ssl_key", mode=0o640), "tls", "private key in /key (mode 0640)", "chmod 600 /key"),
    (with_own(mode=0o644), "keys", "others may use /pki/self-signed.pem", "chmod 600 /pki/self-signed.pem"),
    (with_tls(problem="the key is another's", not_after=None), "tls", "another's: the API cannot start with it", ""),
    (with_tls(not_after=int(NOW) - DAY), "tls", "/crt expired 1d", ""),
    (with_tls(not_before=int(NOW) + DAY), "tls", "/crt is not valid for another 1d", ""),
]
WARNINGS: list[tuple[ApiEvidence, str, str, str]] = [
    (with_tls(not_after=int(NOW) + 20 * DAY), "tls", "/crt expires in 20d", ""),
    (replace(WELL, served="bb"), "tls", "has another certificate than /crt", "saltlite-api &"),
    (with_own(sort=Sort.MISSING), "tls", "makes one when it starts", ""),
]


@pytest.mark.parametrize(
    ("seen", "check", "sentence", "fix", "severity"),
    [(*row, Severity.PROBLEM) for row in PROBLEMS] + [(*row, Severity.WARNING) for row in WARNINGS],
)
def test_what_is_wrong_is_told_with_the_way_out(
    seen: ApiEvidence, check: str, sentence: str, fix: str, severity: Severity
) -> None:
    found = bad(seen)
    assert [(one.check, one.severity) for one in found] == [(check, severity)]
    assert sentence in found[0].sentence
    assert found[0].fix.startswith(fix)


def test_without_a_configuration_there_are_its_mistakes_only() -> None:
    seen = replace(around(config_problems=["api:1:1: unknown option 'prot'"]), config=None, tls=None)
    assert [finding.sentence for finding in check_api(seen)] == ["api:1:1: unknown option 'prot'"]
