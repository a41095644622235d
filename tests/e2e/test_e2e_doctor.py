"""`saltlite doctor` on real daemons: each test breaks one thing, reads the line about it, and mends the thing."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from saltlite.api.app import LASTS, self_signed
from tests.e2e.served import serve
from tests.support.fleet import ME, ORDINARY_COMMAND, Fleet, free_port, wait_until, write_config

pytestmark = pytest.mark.e2e

FAILED = 4


@pytest.fixture(scope="module")
def site() -> Iterator[Fleet]:
    """A master with its API and the minions `a` and `b`, in a folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="saltlite-doctor-") as folder:
        Path(folder).chmod(0o755)
        with serve(Path(folder)) as (fleet, _url):
            yield fleet


def doctor(fleet: Fleet, side: str, name: str, *, command: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and the findings that are not ok."""
    done = subprocess.run(
        [*command, ORDINARY_COMMAND, "doctor", side, "-c", fleet.folder / name, "--out", "json"],
        capture_output=True,
        text=True,
        env=fleet.environment(),
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    rows: list[dict[str, Any]] = json.loads(done.stdout)["sides"][side]
    return done.returncode, [row for row in rows if row["severity"] != "ok"]


def configure_minion(fleet: Fleet, name: str, **options: Any) -> None:
    """Write the configuration of a minion that is not started."""
    write_config(fleet.folder / name, "minion", {"root_dir": str(fleet.root(name)), "id": name, **options})
    fleet.place_module_index(name)


def wait_told(fleet: Fleet, name: str, phase: str) -> None:
    """Wait until the minion itself has written down that phase: the master knows of a session a moment earlier."""
    status = fleet.root(name) / "var/lib/saltlite/minion/status.json"
    wait_until(lambda: status.exists() and f'"{phase}"' in status.read_text(), f"{name} says {phase}")


def only(code_and_rows: tuple[int, list[dict[str, Any]]], check: str) -> dict[str, Any]:
    """The one finding of that check, where there is a problem."""
    code, rows = code_and_rows
    assert code == FAILED
    found = [row for row in rows if row["check"].startswith(check)]
    assert len(found) == 1, rows
    return found[0]


def test_a_fleet_that_is_well_has_no_problem(shared: Fleet) -> None:
    code, rows = doctor(shared, "master", "master")
    assert (code, [row for row in rows if row["severity"] == "problem"]) == (0, [])
    wait_told(shared, "a", "ready")
    code, rows = doctor(shared, "minion", "a")
    assert (code, [row for row in rows if row["severity"] == "problem"]) == (0, [])


def test_without_a_word_the_master_and_the_api_beside_it_are_looked_at(site: Fleet) -> None:
    said = site.cli("doctor", "--out", "json")
    answer = json.loads(said.out)
    assert [row for rows in answer["sides"].values() for row in rows if row["severity"] == "problem"] == []
    assert said.code == 0
    assert answer["looked_at"].keys() == {"master", "api"}
    assert all("a configuration, keys, process " in why for why in answer["looked_at"].values())
    (name,) = (name for name in site.daemons if name.startswith("api-"))
    answers = [row["sentence"] for row in answer["sides"]["api"] if row["check"] == "api"]
    port = name.removeprefix("api-")
    assert [sentence.startswith(f"it answers on 127.0.0.1:{port}") for sentence in answers] == [True]
    assert "another folder" in answer["not_looked_at"]["minion"]
    secrets = [site.folder / "users", site.root("master") / "etc/saltlite/pki/api/self-signed.pem"]
    for path in secrets:
        path.chmod(0o644)
    said = site.cli("doctor", "-q")
    assert said.code == FAILED
    for path in secrets:
        fix = f"chmod 600 {shlex.quote(str(path))}"
        assert f"fix: {fix}\n" in said.out
        subprocess.run(fix, shell=True, check=True)  # noqa: S602 - that it can be pasted is what is tested
    assert "looked at:     api: a configuration, keys, process " in said.out
    assert site.cli("doctor").code == 0


@pytest.mark.parametrize(
    ("executors", "severity", "sentence"),
    [
        (["splay"], "problem", "no function is called, because none of splay calls one; put direct_call at the end"),
        (["direct_call", "audit"], "problem", "audit is never reached: direct_call has a result for every call"),
        (["splya", "direct_call"], "problem", "no function can be called: Executor 'splya' is not available"),
    ],
)
def test_executors_that_cannot_do_what_is_configured_are_told(
    fleet: Fleet, executors: list[str], severity: str, sentence: str
) -> None:
    options = {"master": f"127.0.0.1:{free_port()}", "user": ME}
    configure_minion(fleet, "w", **options, module_executors=executors, executors_allowed=["nic"])
    rows = [row for row in doctor(fleet, "minion", "w")[1] if row["check"] == "executors"]
    assert [row["severity"] for row in rows] == [severity, "warning"]
    assert sentence in rows[0]["sentence"]
    assert "executors_allowed has 'nic', which cannot be used" in rows[1]["sentence"]


def test_a_certificate_that_has_run_out_and_a_key_of_another_are_told(fleet: Fleet) -> None:
    folder = fleet.folder / "api"
    write_config(folder, "api", {"root_dir": str(fleet.root("api")), "interface": "127.0.0.1", "port": free_port()})
    started = datetime.datetime.now(datetime.UTC) - LASTS - datetime.timedelta(days=2)
    (folder / "old.pem").write_bytes(self_signed("api.example", started))
    (folder / "new.pem").write_bytes(self_signed("api.example", datetime.datetime.now(datetime.UTC)))
    for name in ("old.pem", "new.pem"):
        (folder / name).chmod(0o600)
    (folder / "api.d").mkdir()
    more = folder / "api.d/tls.conf"
    more.write_text(f"user: root\nssl_crt: {folder}/old.pem\n")
    said = [row["sentence"] for row in doctor(fleet, "api", "api")[1] if row["check"] == "tls"]
    assert [f"{folder}/old.pem expired 2d" in sentence for sentence in said] == [True]
    more.write_text(f"user: root\nssl_crt: {folder}/old.pem\nssl_key: {folder}/new.pem\n")
    said = [row["sentence"] for row in doctor(fleet, "api", "api")[1] if row["check"] == "tls"]
    assert [("mismatch" in sentence.lower(), "cannot start with it" in sentence) for sentence in said] == [(True, True)]


def test_a_key_that_others_may_read_is_mended_by_the_fix_line(site: Fleet) -> None:
    key = site.root("master") / "etc/saltlite/pki/master/job.key"
    key.chmod(0o644)
    finding = only(doctor(site, "master", "master"), "keys")
    assert str(key) in finding["sentence"]
    subprocess.run(finding["fix"], shell=True, check=True)  # noqa: S602 - that it can be pasted is what is tested
    assert doctor(site, "master", "master")[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_another_user_cannot_see_is_said(site: Fleet) -> None:
    configuration = site.folder / "master/master"
    configuration.chmod(0o644)
    try:
        nobody = ("setpriv", "--reuid=65534", "--clear-groups")
        code, rows = doctor(site, "master", "master", command=nobody)
    finally:
        configuration.chmod(0o600)
    assert code == 0
    assert {row["check"]: row["fix"] for row in rows} == {
        "rights": f"sudo saltlite -c {site.folder}/master doctor",
        "socket": "",
    }


def test_an_mworker_that_is_stopped_is_seen(site: Fleet) -> None:
    stopped = site.daemons["master"].children("MWorker")[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert "MWorker" in only(doctor(site, "master", "master"), "processes")["sentence"]
    finally:
        os.kill(stopped, signal.SIGCONT)


def test_a_pending_key_is_seen_from_both_sides(site: Fleet) -> None:
    site.start_minion("web1", fleet=site.fleet_id())
    site.wait_key("web1", "pending")
    wait_told(site, "web1", "pending")
    code, rows = doctor(site, "master", "master")
    assert code == 0
    waiting = next(row for row in rows if row["check"] == "keys")
    assert (waiting["severity"], "web1" in waiting["sentence"]) == ("warning", True)
    assert only(doctor(site, "minion", "web1"), "minion")["fix"].startswith("saltlite key accept web1")
    site.daemons["web1"].stop()


def test_a_minion_of_another_fleet_is_told_both_fingerprints(site: Fleet) -> None:
    other = "-".join(["AAAAA"] * 8)
    site.start_minion("strange", fleet=other)
    wait_until((site.root("strange") / "var/lib/saltlite/minion/status.json").exists, "the minion tells")
    sentence = only(doctor(site, "minion", "strange"), "master ")["sentence"]
    assert other in sentence
    assert site.fleet_id() in sentence
    site.daemons["strange"].stop()


def test_a_minion_that_was_never_started_is_looked_at_too(fleet: Fleet) -> None:
    options = {
        "root_dir": str(fleet.root("web1")),
        "master": "127.0.0.1",
        "id": "w",
        "port": free_port(),
        "user": "root",
    }
    write_config(fleet.folder / "web1", "minion", options)
    result = doctor(fleet, "minion", "web1")
    assert "does not run here" in only(result, "minion")["sentence"]
    assert "refused" in only(result, "master ")["sentence"]


def test_a_minion_that_died_left_its_last_word_and_one_that_was_stopped_none(site: Fleet) -> None:
    wait_told(site, "b", "ready")
    site.daemons["b"].kill_whole()
    assert ", was ready" in only(doctor(site, "minion", "b"), "minion")["sentence"]
    site.restart_minion("b")
    site.wait_up("b")
    site.daemons["b"].stop()
    assert only(doctor(site, "minion", "b"), "minion")["sentence"] == "it does not run here"


def test_a_name_that_leads_nowhere(fleet: Fleet) -> None:
    configure_minion(fleet, "w", master="nowhere.invalid")
    assert "no address" in only(doctor(fleet, "minion", "w"), "master ")["sentence"]


def test_a_port_that_is_something_elses(fleet: Fleet) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        try:
            configure_minion(fleet, "w", master=f"127.0.0.1:{other.server_port}")
            found = only(doctor(fleet, "minion", "w"), "master ")
        finally:
            other.shutdown()
            serving.join()
    assert "does not prove that it is a master" in found["sentence"]


def test_modules_that_do_not_load_are_named_with_their_reason(site: Fleet) -> None:
    folder = site.folder / "more/modules"
    folder.mkdir(parents=True)
    (folder / "broken.py").write_text("import no_such_library\n\n\ndef f():\n    return 1\n")
    (folder / "noisy.py").write_text("print('hello')\n\n\ndef f():\n    return 1\n")
    (folder / "other.py").write_text(
        "def __virtual__():\n    return False, 'only on the moon'\n\n\ndef f():\n    return 1\n"
    )
    site.join("rich", module_dirs=[str(site.folder / "more")])
    wait_told(site, "rich", "ready")
    code, rows = doctor(site, "minion", "rich")
    assert code == 0
    assert [("no_such_library" in row["sentence"], row["check"]) for row in rows if "broken.py" in row["sentence"]] == [
        (True, "modules")
    ]
    assert "only on the moon" in site.cli("doctor", "minion", master="rich").out
    site.daemons["rich"].stop()


def test_a_damaged_journal_is_told(site: Fleet) -> None:
    site.daemons["b"].stop()
    (site.root("b") / "var/lib/saltlite/minion/journal").write_bytes(b"this is no journal at all")
    assert "journal" in only(doctor(site, "minion", "b"), "journal")["sentence"]


def test_a_folder_of_modules_that_is_not_there_is_a_finding(fleet: Fleet) -> None:
    nowhere = fleet.folder / "nowhere"
    configure_minion(fleet, "w", module_dirs=[str(nowhere)])
    assert "nowhere, which does not exist" in only(doctor(fleet, "minion", "w"), "config")["sentence"]


def test_mistakes_in_the_configuration_are_findings(fleet: Fleet) -> None:
    (fleet.folder / "master").mkdir()
    (fleet.folder / "master/master").write_text("prot: 1\n")
    assert only(doctor(fleet, "master", "master"), "config")["sentence"].endswith("(did you mean 'port'?)")


def test_a_clock_that_is_ahead_is_told(site: Fleet, tmp_path: Path) -> None:
    wait_told(site, "a", "ready")
    # Python reads it at its start: the whole process of the doctor has another clock.
    (tmp_path / "sitecustomize.py").write_text("import time\nreal = time.time\ntime.time = lambda: real() + 3600\n")
    code, rows = doctor(site, "minion", "a", command=("env", f"PYTHONPATH={tmp_path}"))
    assert code == 0
    told = [row for row in rows if row["check"].startswith("master ")]
    assert [("ahead of the master's" in row["sentence"], row["fix"]) for row in told] == [
        (True, "timedatectl set-ntp true")
    ]


# -- from here on the master does not run


def stop_master(site: Fleet) -> None:
    if site.daemons["master"].process.poll() is None:
        site.daemons["master"].stop()


def test_a_master_that_does_not_run_is_told_with_the_line_that_starts_it(site: Fleet) -> None:
    stop_master(site)
    result = doctor(site, "master", "master")
    assert only(result, "socket")["fix"] == f"saltlite-master -c {site.folder}/master &"
    assert "refused the connection" in only(result, "port")["sentence"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system takes root")
def test_a_full_disk_is_told(site: Fleet) -> None:
    stop_master(site)
    data = site.root("master") / "var/lib/saltlite/master"
    small = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m,mode=700 none "$0" && exec "$@"', str(data)]
    probe = subprocess.run([*small, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {probe.stderr.decode().strip()}")
    finding = only(doctor(site, "master", "master", command=tuple(small)), "disk (data_dir)")
    assert "1 MiB" in finding["sentence"]
