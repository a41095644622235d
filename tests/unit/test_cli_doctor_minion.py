"""What the checks of a minion make of what was seen: one thing is wrong in each test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from saltlite.cli.verbs.doctor.checks import Finding, Severity, rows_of, text_of
from saltlite.cli.verbs.doctor.host import (
    DiskSeen,
    HostEvidence,
    MasterSeen,
    MinionEvidence,
    ModulesSeen,
    PathSeen,
    Sort,
)
from saltlite.cli.verbs.doctor.minion import check_minion
from saltlite.config.minion import MinionConfig
from saltlite.model.keys import Fingerprint
from saltlite.platform.master_probe import MasterProof
from saltlite.wire.limits import SPOOL_BYTES, SPOOL_RESULTS

NOW = 1_800_000_000.0
DAY = 86_400
FLEET = Fingerprint("-".join(["AAAAA"] * 8))
OTHER = Fingerprint("-".join(["BBBBB"] * 8))

PATHS = {
    "pki_dir": PathSeen("/pki", Sort.FOLDER, 0o700, 0),
    "pki_dir/minion.key": PathSeen("/pki/minion.key", Sort.FILE, 0o600, 0),
    "pki_dir/fleet.pin": PathSeen("/pki/fleet.pin", Sort.FILE, 0o600, 0),
    "pki_dir/minion_id": PathSeen("/pki/minion_id", Sort.FILE, 0o600, 0),
    "data_dir": PathSeen("/data", Sort.FOLDER, 0o700, 0),
    "data_dir/journal": PathSeen("/data/journal", Sort.FILE, 0o600, 0),
    "data_dir/spool": PathSeen("/data/spool", Sort.FOLDER, 0o700, 0),
}
AROUND = HostEvidence(
    config_dir="/etc/saltlite",
    now=NOW,
    euid=0,
    user="saltlite",
    user_uid=990,
    config_files=2,
    config_problems=(),
    unit=None,
    pid=100,
    paths=PATHS,
    disks={"data_dir": DiskSeen("/data", 2**40, 2**41, 10**6, writable=True)},
)
PROOF = MasterProof(FLEET, "m", int(NOW) - DAY, int(NOW) + 80 * DAY, 0.2)
MASTER = MasterSeen("m.example:4515", ("192.0.2.1",), "", "", PROOF, "")
WELL = MinionEvidence(
    around=AROUND,
    config=MinionConfig(),
    id="web1",
    pinned=FLEET,
    pin_source="/pki/fleet.pin",
    masters=(MASTER,),
    phase="ready",
    reason="",
    phase_at=NOW - 60,
    resources_problem="",
    refused_answers=0,
    journal_problem="",
    journal_jobs=3,
    spool_results=0,
    spool_bytes=0,
    spool_damaged=(),
    modules=ModulesSeen(offered=10, grains=50),
)


def around(**changes: Any) -> MinionEvidence:
    return replace(WELL, around=replace(AROUND, **changes))


def with_path(name: str, **changes: Any) -> MinionEvidence:
    return around(paths={**PATHS, name: replace(PATHS[name], **changes)})


def with_master(**changes: Any) -> MinionEvidence:
    return replace(WELL, masters=(replace(MASTER, **changes),))


def with_proof(**changes: Any) -> MinionEvidence:
    return with_master(proof=replace(PROOF, **changes))


def with_token_file(**changes: Any) -> MinionEvidence:
    token = replace(PathSeen("/token", Sort.FILE, 0o600, 0), **changes)
    return around(paths={**PATHS, "join_token_file": token})


def bad(seen: MinionEvidence) -> list[Finding]:
    return [finding for finding in check_minion(seen) if finding.severity is not Severity.OK]


def test_a_minion_that_is_well_has_only_good_findings() -> None:
    assert bad(WELL) == []
    assert {"config", "id", "minion", "master m.example:4515", "pki_dir", "journal", "spool", "modules", "grains"} <= {
        finding.check for finding in check_minion(WELL)
    }


AT = "master m.example:4515"
PROBLEMS: list[tuple[MinionEvidence, str, str, str]] = [
    (around(pid=None), "minion", "does not run here", "saltlite-minion &"),
    (replace(WELL, id="web 1"), "id", "not a minion id", "echo 'id: web1'"),
    (replace(WELL, phase="pending"), "minion", "waits to be accepted, for 1m", "saltlite key accept web1"),
    (replace(WELL, phase="refused", reason="its key is revoked"), "minion", "revoked", "saltlite key delete web1"),
    (replace(WELL, phase="backoff", reason="no route"), "minion", "no route", ""),
    (replace(WELL, phase="connect"), "minion", "without a connection: connect", ""),
    (replace(WELL, resources_problem="too many"), "resources", "not all: too many", ""),
    (replace(WELL, refused_answers=3), "signatures", "3 answers about files or the pillar were not signed", ""),
    (with_master(dns_problem="Name or service not known", proof=None), AT, "no address", "getent hosts m.example"),
    (with_master(tcp_problem="timed out", proof=None), AT, "192.0.2.1: timed out", "nc -vz -w 5 m.example 4515"),
    (with_master(proof=None, proof_problem="closed"), AT, "not prove that it is a master: closed", ""),
    (with_proof(fleet=OTHER), AT, f"fleet {OTHER}, and this minion belongs to {FLEET}", ""),
    (replace(WELL, pinned=""), AT, "knows no fleet", f"echo 'fleet: {FLEET}' >> /etc/saltlite/minion"),
    (with_proof(not_after=int(NOW) - DAY), "certificate", "expired", ""),
    (with_proof(not_before=int(NOW) + DAY), "certificate", "clock", "timedatectl set-ntp true"),
    (with_path("pki_dir/minion.key", mode=0o644), "keys", "/pki/minion.key", "chmod 600 /pki/minion.key"),
    (with_path("data_dir", uid=7), "data_dir", "belongs to user 7", "chown -R 0 /data"),
    (with_path("data_dir/spool", mode=0o777), "data_dir/spool", "others may write", "chmod go-w /data/spool"),
    (with_token_file(mode=0o644), "join_token_file", "others may read", "chmod 600 /token"),
    (replace(WELL, journal_problem="byte 7 is damaged"), "journal", "byte 7", ""),
    (replace(WELL, spool_results=SPOOL_RESULTS), "spool", "it is full", ""),
    (replace(WELL, spool_bytes=SPOOL_BYTES), "spool", "it is full", ""),
    (replace(WELL, modules=ModulesSeen(problem="it died")), "modules", "it died", ""),
    (replace(WELL, modules=ModulesSeen(9, {}, {}, 5, "no x")), "executors", "no function can be called: no x", ""),
    (replace(WELL, modules=ModulesSeen(9, {}, {}, 5, "", "x is idle")), "executors", "module_executors: x is idle", ""),
]

WARNINGS: list[tuple[MinionEvidence, str, str, str]] = [
    (replace(WELL, phase=""), "minion", "has not reported yet", ""),
    (with_proof(ahead_s=60.0), AT, "1m ahead of the master's", "timedatectl set-ntp true"),
    (with_proof(ahead_s=-7200.0), AT, "2h behind the master's", "timedatectl set-ntp true"),
    (replace(WELL, pinned="", config=MinionConfig(trust_on_first_use=True)), AT, "on first use", ""),
    (replace(WELL, spool_results=SPOOL_RESULTS // 2 + 1), "spool", "more than half full", ""),
    (replace(WELL, spool_damaged=("/data/spool/1.bad",)), "spool", "set aside", "rm /data/spool/1.bad"),
    (replace(WELL, modules=ModulesSeen(1, {}, {"x": "no y"}, 5)), "modules", "x.py has no functions: no y", ""),
    (replace(WELL, modules=ModulesSeen(offered=1)), "grains", "none", ""),
]


@pytest.mark.parametrize(("seen", "check", "sentence", "fix"), PROBLEMS)
def test_a_problem_is_found(seen: MinionEvidence, check: str, sentence: str, fix: str) -> None:
    found = [one for one in bad(seen) if one.severity is Severity.PROBLEM]
    assert [(one.check, sentence in one.sentence, one.fix.startswith(fix)) for one in found] == [(check, True, True)]
    assert bool(found[0].fix) == bool(fix)


@pytest.mark.parametrize(("seen", "check", "sentence", "fix"), WARNINGS)
def test_a_warning_is_found(seen: MinionEvidence, check: str, sentence: str, fix: str) -> None:
    assert [(one.check, one.severity, sentence in one.sentence, one.fix) for one in bad(seen)] == [
        (check, Severity.WARNING, True, fix)
    ]


def test_a_token_file_that_is_gone_matters_only_before_the_first_join() -> None:
    assert bad(with_token_file(sort=Sort.MISSING)) == []
    never = replace(with_token_file(sort=Sort.MISSING), pinned="", masters=())
    assert [one.check for one in bad(never)] == ["join_token_file"]


def test_modules_that_refuse_a_machine_are_told_and_are_no_problem() -> None:
    seen = replace(WELL, modules=ModulesSeen(9, {"yumpkg": "not on Debian"}, {}, 5))
    assert bad(seen) == []
    assert any("not on Debian" in one.sentence for one in check_minion(seen))


def test_the_last_word_of_a_minion_that_is_gone_is_told() -> None:
    seen = replace(around(pid=None), phase="backoff", reason="no route")
    assert "its last report, 1m ago, was backoff (no route)" in bad(seen)[0].sentence


def test_what_is_hidden_is_not_taken_for_a_minion_that_does_not_run() -> None:
    hidden = {**PATHS, "data_dir/journal": replace(PATHS["data_dir/journal"], sort=Sort.HIDDEN)}
    found = bad(around(pid=None, paths=hidden, euid=1000))
    assert [(one.check, one.severity) for one in found] == [("rights", Severity.WARNING), ("minion", Severity.WARNING)]


def test_every_master_is_looked_at() -> None:
    other = replace(MASTER, address="n.example:4515", dns_problem="gone", proof=None)
    assert [one.check for one in bad(replace(WELL, masters=(MASTER, other)))] == ["master n.example:4515"]


def test_without_a_configuration_only_its_mistakes_are_told() -> None:
    seen = replace(around(config_problems=["/etc/saltlite/minion:1:1: a"]), config=None)
    assert [(one.check, one.sentence) for one in check_minion(seen)] == [("config", "/etc/saltlite/minion:1:1: a")]


def test_a_fix_stays_on_one_line_and_foreign_text_moves_no_cursor() -> None:
    finding = Finding("master x", Severity.PROBLEM, "word " * 60 + "\x1b[2J", "run " + "a-long-word " * 20)
    lines = text_of([finding]).splitlines()
    assert max(map(len, lines[:-1])) <= 100
    assert lines[-1] == f"           fix: {finding.fix}"
    assert "\x1b" not in text_of([finding])
    assert rows_of([finding])[0]["fix"] == finding.fix


def test_a_master_that_is_busy_or_drains_is_no_stranger() -> None:
    seen = replace(WELL, masters=(replace(MASTER, proof=None, proof_problem="busy: come again in 1 s"),))
    (finding,) = bad(seen)
    assert finding.severity == Severity.WARNING
    assert "as a master that drains" in finding.sentence
