"""What the checks of a master make of what was seen: one thing is wrong in each test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from saltlite.cli.verbs.doctor.checks import DISK_FULL, DISK_LOW, Finding, Severity
from saltlite.cli.verbs.doctor.host import (
    DiskSeen,
    FleetSeen,
    HostEvidence,
    MasterEvidence,
    PathSeen,
    ProcessSeen,
    Sort,
    UnitSeen,
)
from saltlite.cli.verbs.doctor.master import check_master
from saltlite.config.master import MasterConfig
from saltlite.model.keys import Fingerprint
from saltlite.platform.master_probe import MasterProof

NOW = 1_800_000_000.0
DAY = 86_400
GIB = 2**30
USER = 990

FOLDER, FILE, SOCKET = Sort.FOLDER, Sort.FILE, Sort.SOCKET
PATHS = {
    "pki_dir": PathSeen("/pki", FOLDER, 0o700, 0),
    "pki_dir/fleet.key": PathSeen("/pki/fleet.key", FILE, 0o600, 0),
    "pki_dir/fleet.chain": PathSeen("/pki/fleet.chain", Sort.MISSING),
    "pki_dir/fleet.id": PathSeen("/pki/fleet.id", FILE, 0o644, 0),
    "pki_dir/master.key": PathSeen("/pki/master.key", FILE, 0o600, 0),
    "pki_dir/job.key": PathSeen("/pki/job.key", FILE, 0o600, 0),
    "pki_dir/master.cert": PathSeen("/pki/master.cert", FILE, 0o600, 0),
    "data_dir": PathSeen("/data", FOLDER, 0o700, USER),
    "data_dir/store.sqlite": PathSeen("/data/store.sqlite", FILE, 0o600, USER),
    "sock_dir": PathSeen("/sock", FOLDER, 0o755, USER),
    "sock_dir/master.ipc": PathSeen("/sock/master.ipc", SOCKET, 0o600, USER),
    "auth_file": PathSeen("/auth", FILE, 0o600, 0),
}
DISK = DiskSeen("/data", 50 * GIB, 100 * GIB, 1_000_000, writable=True)
AROUND = HostEvidence(
    config_dir="/etc/saltlite",
    now=NOW,
    euid=0,
    user="saltlite",
    user_uid=USER,
    config_files=1,
    config_problems=(),
    unit=None,
    pid=100,
    paths=PATHS,
    disks={"data_dir": DISK},
)
RESOURCES = {"count": 24, "minions": 1, "refused": 0, "incomplete": False, "missing": {}, "types": {}}
STATUS: dict[str, Any] = {
    "resources": RESOURCES,
    "master": {"name": "m", "version": "0.1", "started_at": NOW - 50, "mworkers": 2},
    "store": {"size": 1, "limit": 0, "seq": 5},
    "minions": [{"id": "web1", "state": "up", "last_seen": NOW - 9, "address": "", "version": "0.1"}],
    "link": {"mworkers": 2, "uncommitted": 0, "lag_s": 0.0},
    "readers": {},
    "unable": {},
}
WELL = MasterEvidence(
    around=AROUND,
    config=MasterConfig(),
    status=STATUS,
    keys=[{"id": "web1", "state": "accepted"}],
    certificate_until=int(NOW) + 80 * DAY,
    certificate_from=int(NOW) - 10 * DAY,
    silence="",
    address="127.0.0.1:4515",
    proof=MasterProof(Fingerprint("AAAAA"), "m", 0, 0, 0.0),
    probe_problem="",
    processes=(ProcessSeen("master link", "S", 20_000, 991), ProcessSeen("MWorker-0", "S", 1024, USER)),
    link_uid=991,
    fleet=FleetSeen("AAAAA", ""),
)


def around(**changes: Any) -> MasterEvidence:
    return replace(WELL, around=replace(AROUND, **changes))


def with_path(name: str, **changes: Any) -> MasterEvidence:
    return around(paths={**PATHS, name: replace(PATHS[name], **changes)})


def with_disk(**changes: Any) -> MasterEvidence:
    return around(disks={"data_dir": replace(DISK, **changes)})


def with_status(**changes: Any) -> MasterEvidence:
    return replace(WELL, status={**STATUS, **changes})


def with_unit(load: str = "loaded", active: str = "active", enabled: str = "enabled") -> MasterEvidence:
    return around(unit=UnitSeen("saltlite-master", load, active, "exit-code", enabled))


def minion(**changes: Any) -> dict[str, Any]:
    return {**STATUS["minions"][0], **changes}


def bad(seen: MasterEvidence) -> list[Finding]:
    return [finding for finding in check_master(seen) if finding.severity is not Severity.OK]


def test_a_master_that_is_well_has_only_good_findings() -> None:
    assert bad(WELL) == []
    assert {
        "config",
        "socket",
        "port",
        "processes",
        "link_user",
        "open files",
        "pki_dir",
        "data_dir",
        "fleet",
        "keys",
        "minions",
    } <= {finding.check for finding in check_master(WELL)}


ONE_USER = (ProcessSeen("master link", "S", 20_000, USER), ProcessSeen("MWorker-0", "S", 1024, USER))
OPEN_PILLAR = MasterConfig(file_roots={"base": ["/srv/salt"]}, pillar_roots={"base": ["/srv/salt/pillar"]})
LOGINS = MasterConfig(external_auth={"file": {}, "sharedsecret": {}})
NO_LOGINS = {
    **PATHS,
    "auth_file": PathSeen("/auth", Sort.MISSING),
    "sharedsecret_file": PathSeen("/secret", FILE, 0o600, 0),
}
PROBLEMS: list[tuple[MasterEvidence, str, str, str]] = [
    (with_path("auth_file", mode=0o640), "auth_file", "others may use /auth (mode 0640)", "chmod 600 /auth"),
    (with_path("auth_file", uid=7), "auth_file", "belongs to user 7, who could let anyone in", "chown 0 /auth"),
    (with_path("auth_file", sort=Sort.OTHER), "auth_file", "not a regular file, so no one can log in", ""),
    (replace(around(paths=NO_LOGINS), config=LOGINS), "auth_file", "'file', and there is no /auth", ""),
    (replace(WELL, config=LOGINS), "sharedsecret_file", "'sharedsecret', and sharedsecret_file names no file", ""),
    (replace(WELL, config=OPEN_PILLAR), "pillar_roots", "/srv/salt/pillar is inside /srv/salt", ""),
    (replace(WELL, fleet=FleetSeen("", "there is no fleet.key")), "fleet", "there is no fleet.key", ""),
    (replace(WELL, fleet=FleetSeen("BBBBB", "")), "fleet", "the running master shows AAAAA", "saltlite-master"),
    (with_path("pki_dir/fleet.id", mode=0o666), "fleet.id", "others may write", "chmod go-w /pki/fleet.id"),
    (with_path("pki_dir/fleet.chain", sort=FILE, mode=0o644), "keys", "/pki/fleet.chain", "chmod 600"),
    (around(user_uid=None), "user", "the user 'saltlite'", "useradd --system --no-create-home saltlite"),
    (replace(WELL, link_uid=None), "link_user", "the user 'saltlite-link'", "useradd --system"),
    (replace(around(pid=None), silence="x"), "socket", "does not run here", "saltlite-master &"),
    (replace(WELL, silence="it is overloaded"), "socket", "pid 100", ""),
    (replace(WELL, proof=None, probe_problem="refused"), "port", "127.0.0.1:4515: refused", "ss -ltnp"),
    (with_path("pki_dir/job.key", mode=0o640), "keys", "mode 0640", "chmod 600 /pki/job.key"),
    (with_path("pki_dir/job.key", uid=7), "keys", "belongs to user 7", "chown 0 /pki/job.key"),
    (with_path("pki_dir/job.key", sort=Sort.OTHER), "keys", "not a regular file", ""),
    (with_path("pki_dir", mode=0o777), "pki_dir", "others may write", "chmod go-w /pki"),
    (with_path("pki_dir", sort=FILE), "pki_dir", "must be a folder", "mv /pki /pki.old"),
    (with_path("data_dir", uid=0), "data_dir", f"as user {USER}", f"chown -R {USER} /data"),
    (with_path("sock_dir", mode=0o777), "sock_dir", "others may write", "chmod go-w /sock"),
    (with_path("data_dir/store.sqlite", mode=0o644), "data_dir/store.sqlite", "others may read", "chmod 600 /data/sto"),
    (with_disk(free=DISK_FULL - 1), "disk (data_dir)", "writes will soon fail", "du -xh"),
    (with_disk(inodes_free=0), "disk (data_dir)", "writes will soon fail", "du -xh"),
    (with_disk(writable=False), "disk (data_dir)", "can only be read", "mount"),
    (replace(around(now=1.0e9), certificate_until=None), "clock", "before this saltlite was", "timedatectl set-ntp"),
    (replace(WELL, certificate_until=int(NOW) - DAY), "certificate", "expired", ""),
    (replace(WELL, certificate_from=int(NOW) + DAY), "certificate", "not valid for", "timedatectl set-ntp true"),
    (replace(WELL, processes=(ProcessSeen("MWorker-1", "T"),)), "processes", "MWorker-1 is", "saltlite-master &"),
    (with_status(link=None), "processes", "link process does not answer", ""),
    (with_status(link={**STATUS["link"], "mworkers": 1}), "processes", "1 of 2 MWorkers", "saltlite-master &"),
    (replace(WELL, processes=(ProcessSeen("master link", "S", 128),)), "open files", "201", "LimitNOFILE"),
    (replace(WELL, keys=[{"id": "web1", "state": "conflict"}]), "keys", "web1", "saltlite key list conflict"),
    (with_unit(active="failed"), "systemd", "has failed (exit-code)", "journalctl -u saltlite-master"),
    (with_status(unable={"web1": ["slow"]}), "executors", "no job can run on web1: its module_executors names", ""),
]  # fmt: skip

WARNINGS: list[tuple[MasterEvidence, str, str, str]] = [
    (replace(WELL, fleet=FleetSeen("AAAAA", "", ("master.cert",))), "fleet", "master.cert still name a former", ""),
    (replace(WELL, fleet=FleetSeen("", "")), "fleet", "no fleet.key beside a store", ""),
    (with_disk(free=DISK_LOW - 1), "disk (data_dir)", "512 MiB of", "du -xh"),
    (replace(WELL, processes=ONE_USER), "link_user", "run as the same user: whoever takes over", ""),
    (with_status(store={"size": 95, "limit": 100, "seq": 1}), "store", "store_max", ""),
    (replace(WELL, certificate_until=int(NOW) + 20 * DAY), "certificate", "was not renewed", ""),
    (replace(WELL, keys=[{"id": "web9", "state": "pending"}]), "keys", "web9", "saltlite key list pending"),
    (with_status(minions=[minion(), minion(id="b", version="0.2")]), "versions", "1 have 0.2", "saltlite status"),
    (with_status(minions=[minion(state="away", last_seen=1e9)]), "minions", "web1", "saltlite key delete web1"),
    (with_status(link={**STATUS["link"], "lag_s": 9.0, "uncommitted": 4}), "processes", "4 reports", ""),
    (
        with_status(resources={**RESOURCES, "incomplete": True}),
        "resources",
        "the registry was damaged",
        "saltlite runner resource.stats",
    ),
    (
        with_status(readers={"hooks": {"behind": 1, "lag_s": 1.0}, "returner x": {"behind": 7, "lag_s": 61.0}}),
        "event log",
        "returner x is 7 events behind",
        "",
    ),
    (
        with_status(resources={**RESOURCES, "refused": 2}),
        "resources",
        "in part, of 2 minions",
        "saltlite runner resource.stats",
    ),
    (with_path("pki_dir", sort=Sort.HIDDEN), "rights", "/pki", "sudo saltlite doctor"),
    (with_unit(enabled="disabled"), "systemd", "does not start with the machine", "systemctl enable saltlite-master"),
    (with_unit(active="inactive"), "systemd", "started by hand", "systemctl start saltlite-master"),
]  # fmt: skip


@pytest.mark.parametrize(("seen", "check", "sentence", "fix"), PROBLEMS)
def test_a_problem_is_found(seen: MasterEvidence, check: str, sentence: str, fix: str) -> None:
    found = [one for one in bad(seen) if one.severity is Severity.PROBLEM]
    assert [(one.check, sentence in one.sentence, one.fix.startswith(fix) or fix in one.fix) for one in found] == [
        (check, True, True)
    ]
    assert bool(found[0].fix) == bool(fix)


@pytest.mark.parametrize(("seen", "check", "sentence", "fix"), WARNINGS)
def test_a_warning_is_found(seen: MasterEvidence, check: str, sentence: str, fix: str) -> None:
    found = bad(seen)
    assert [(one.check, one.severity, sentence in one.sentence, fix in one.fix) for one in found] == [
        (check, Severity.WARNING, True, True)
    ]


def test_every_mistake_of_the_configuration_is_a_finding_and_nothing_else_is_looked_at() -> None:
    seen = replace(around(config_problems=["/etc/saltlite/master:1:1: a", "/etc/saltlite/master:2:1: b"]), config=None)
    assert [(one.check, one.severity) for one in check_master(seen)] == [("config", Severity.PROBLEM)] * 2


def test_a_master_that_another_user_started_owns_its_folders() -> None:
    paths = {name: replace(seen, uid=1000) for name, seen in PATHS.items()}
    assert bad(around(paths=paths, euid=1000)) == []


def test_what_is_hidden_is_not_taken_for_a_master_that_does_not_run() -> None:
    hidden = {**PATHS, "data_dir/store.sqlite": replace(PATHS["data_dir/store.sqlite"], sort=Sort.HIDDEN)}
    found = bad(replace(around(pid=None, paths=hidden, euid=1000), silence="you may not use it"))
    assert [(one.check, one.severity) for one in found] == [("rights", Severity.WARNING), ("socket", Severity.WARNING)]


def test_fix_lines_name_the_folder_that_was_looked_at() -> None:
    seen = replace(around(config_dir="/srv/a b", pid=None), silence="x")
    assert [one.fix for one in bad(seen)] == ["saltlite-master -c '/srv/a b' &"]


def test_a_daemon_under_systemd_is_started_by_systemd() -> None:
    seen = replace(around(pid=None, unit=UnitSeen("saltlite-master", "loaded", "inactive", "", "enabled")), silence="x")
    assert "systemctl restart saltlite-master" in [one.fix for one in bad(seen)]


def test_an_id_in_a_fix_line_cannot_be_more_than_a_word() -> None:
    gone = minion(id="a;touch x", state="away", last_seen=NOW - 2 * DAY)
    assert [one.fix for one in bad(with_status(minions=[gone]))] == ["saltlite key delete 'a;touch x'"]


def test_minions_that_are_away_are_named_with_the_reason() -> None:
    gone = minion(id="db1", state="away", last_seen=NOW - 2 * DAY, reason="the minion was stopped")
    assert "away for more than a day: db1 (the minion was stopped);" in bad(with_status(minions=[gone]))[0].sentence
    silent = minion(id="db2", state="away", last_seen=NOW - 90, reason="no heartbeat for 52 s")
    (one,) = (one for one in check_master(with_status(minions=[minion(), silent])) if one.check == "minions")
    assert (one.severity, one.sentence) == (
        Severity.OK,
        "1 of 2 are up, none has been away for more than a day, away: db2 (no heartbeat for 52 s)",
    )


def test_only_five_names_are_told() -> None:
    keys = [{"id": f"web{number}", "state": "pending"} for number in range(9)]
    assert "web4 and 4 more" in bad(replace(WELL, keys=keys))[0].sentence


DATABASE = {
    "where": "database fleet on db1",
    "settings": {"server_version": "15.1", "fsync": "on", "full_page_writes": "on", "synchronous_standby_names": ""},
    "standbys": 0,
    "synchronous": 0,
    "clock": NOW + 1,
    "is_old": False,
}


def with_database(**changes: Any) -> MasterEvidence:
    settings = {name: changes.pop(name) for name in tuple(changes) if name in DATABASE["settings"]}  # type: ignore[operator]  # a map
    return replace(WELL, database={**DATABASE, **changes, "settings": {**DATABASE["settings"], **settings}})  # type: ignore[dict-item]  # as above


M1 = {"name": "m1", "state": "up", "certificate_until": NOW + 80 * DAY}


def with_masters(*more: Mapping[str, Any], differences: Sequence[str] = ()) -> MasterEvidence:
    return with_status(masters=[M1, *more], differences=list(differences))


def test_masters_that_are_well_are_counted() -> None:
    seen = with_masters({**M1, "name": "m2", "state": "draining"})
    assert bad(seen) == []
    said = [finding.sentence for finding in check_master(seen) if finding.check == "masters"]
    drains = "the master m2 drains: it gets no minions until `saltlite master drain m2 --undo`"
    assert said == [drains, "2 masters share the store, and are configured alike"]


@pytest.mark.parametrize(
    ("state", "expected", "said"),
    [
        ("draining", Severity.OK, "takes no new sessions: because it drains"),
        ("up", Severity.WARNING, "takes no new sessions: busy: come again"),
    ],
)
def test_a_master_that_takes_no_sessions_now_is_there(state: str, expected: Severity, said: str) -> None:
    own = {**M1, "name": "here", "state": state}
    seen = replace(with_masters(own), proof=None, probe_problem="busy: come again")
    assert seen.config is not None
    seen = replace(seen, config=replace(seen.config, master_name="here"))
    (found,) = [finding for finding in check_master(seen) if finding.check == "port"]
    assert found.severity == expected
    assert said in found.sentence


@pytest.mark.parametrize(
    ("several", "problem", "lease", "expected"),
    [
        (True, "it is away", True, Severity.WARNING),
        (True, "", False, Severity.WARNING),
        (True, "", True, Severity.PROBLEM),
        (False, "it is away", True, Severity.PROBLEM),
    ],
)
def test_a_port_without_sessions_is_no_problem_of_its_own_while_the_master_has_no_lease(
    *, several: bool, problem: str, lease: bool, expected: Severity
) -> None:
    seen = replace(with_masters(M1), proof=None, probe_problem="it closed the connection", database_problem=problem)
    assert seen.config is not None
    config = replace(seen.config, several_masters=several)
    status = {**STATUS, "link": {**STATUS["link"], "lease": lease}}
    seen = replace(seen, config=config, status=status, around=replace(seen.around, pid=7))
    (found,) = [finding for finding in check_master(seen) if finding.check == "port"]
    assert found.severity == expected
    assert ("cannot renew its lease" in found.sentence) is (expected is Severity.WARNING)


@pytest.mark.parametrize(
    ("seen", "severity", "said"),
    [
        (with_masters({**M1, "name": "m2", "state": "fenced"}), Severity.WARNING, "m2 has stopped, or is cut off"),
        (with_masters({**M1, "certificate_until": NOW + 20 * DAY}), Severity.WARNING, "expires within 30 days"),
        (with_masters({**M1, "certificate_problem": "m1: start m2"}), Severity.WARNING, "m1: start m2"),
        (with_masters({**M1, "state": "fenced", "certificate_problem": "m1: a thief"}), Severity.WARNING, "a thief"),
        (with_masters({**M1, "certificate_until": None}), Severity.WARNING, "expires within 30 days"),
        (with_masters(differences=["file_roots differ: a | b"]), Severity.WARNING, "file_roots differ: a | b"),
        (replace(with_masters(), address_problem="m1 does not resolve"), Severity.PROBLEM, "m1 does not resolve"),
        (with_masters(differences=["access rules differ: a | b"]), Severity.PROBLEM, "access rules differ: a | b"),
    ],
)
def test_what_is_wrong_with_masters(seen: MasterEvidence, severity: Severity, said: str) -> None:
    (finding,) = bad(seen)
    assert (finding.check, finding.severity) == ("masters", severity)
    assert said in finding.sentence


def test_masters_that_share_the_store_need_synchronous_standbys() -> None:
    seen = with_database(standbys=2)
    assert seen.config is not None
    (finding,) = bad(replace(seen, config=replace(seen.config, several_masters=True)))
    assert (finding.check, finding.severity) == ("database", Severity.PROBLEM)
    assert "bring revoked keys back on masters that share it" in finding.sentence


def test_a_database_that_is_well_is_named_with_its_version() -> None:
    assert bad(with_database()) == []
    said = [finding.sentence for finding in check_master(with_database()) if finding.check == "database"]
    assert said == ["the database fleet on db1 answers (PostgreSQL 15.1)"]
    assert bad(with_database(synchronous_standby_names="ANY 1 (*)", standbys=2, synchronous=2)) == []


@pytest.mark.parametrize(
    ("seen", "severity", "said"),
    [
        (replace(WELL, database_problem="it cannot be reached"), Severity.PROBLEM, "it cannot be reached"),
        (with_database(is_old=True), Severity.PROBLEM, "is PostgreSQL 15.1, which is too old"),
        (with_database(fsync="off"), Severity.PROBLEM, "has fsync = off"),
        (with_database(full_page_writes="off"), Severity.PROBLEM, "has full_page_writes = off"),
        (with_database(standbys=2), Severity.WARNING, "2 standbys and none is synchronous"),
        (
            with_database(synchronous_standby_names="a"),
            Severity.PROBLEM,
            "standby (a), and none is connected",
        ),
        (with_database(synchronous_standby_names="a", standbys=1, synchronous=1), Severity.WARNING, "has one standby"),
        (with_database(clock=NOW - 60), Severity.WARNING, "differs by 60 s"),
    ],
)
def test_what_is_wrong_with_a_database(seen: MasterEvidence, severity: Severity, said: str) -> None:
    (finding,) = bad(seen)
    assert (finding.check, finding.severity) == ("database", severity)
    assert said in finding.sentence
