"""`service` beside a real systemd: one of the test's own, in namespaces; and real unit files without a running one."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.fleet import wait_until
from tests.support.systemd import ROOT, Machine, NoSystemdError

INDEX = build_index(search_layers({}))
GRAINS = {"kernel": "Linux", "os": "Fedora", "os_family": "RedHat", "osrelease": "40", "init": "systemd"}
UNIT = "[Unit]\nDefaultDependencies=no\n"
SERVICE = f"{UNIT}[Service]\nStandardOutput=null\nStandardError=null\n"
INSTALL = "[Install]\nWantedBy=slt.target\n"
SLEEP = f"{SERVICE}ExecStart=/bin/sleep infinity\n"
UNITS = {
    "slt.target": UNIT,
    "slt-one.service": f"{SLEEP}ExecReload=/bin/true\n{INSTALL}",
    "slt-two.service": f"{SLEEP}{INSTALL}Alias=slt-alias.service\n",
    "slt-static.service": SLEEP,
    "slt-broken.service": f"{SERVICE}Type=oneshot\nExecStart=/bin/false\n",
    "slt-each@.service": f"{SLEEP}{INSTALL}",
    "slt-timer.timer": f"{UNIT}[Timer]\nOnActiveSec=1h\nUnit=slt-static.service\n{INSTALL}",
    "saltlite-minion.service": f"{SLEEP}ExecStop=/bin/sleep 60\n",
}
JOB = """
import json, os, signal
from pathlib import Path
from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
# The daemon; the first one makes a job, which restarts it and lives on to tell.
folder, first = Path("/etc/systemd/system"), os.getpid()
if not (folder / "began").exists() and os.fork() == 0:
    (folder / "began").touch()
    loader = Loader(build_index(search_layers({})), {}, {}, {})
    outcome = call(loader, "service.restart", ["slt-like-minion"], {})
    (folder / "saying").write_text(json.dumps([first, outcome.value, outcome.retcode]))
    (folder / "saying").rename(folder / "said")
signal.pause()
"""
"""A daemon whose job restarts it, as a minion is restarted by `service.restart`."""
NASTY = ["a b", "a;b", "-rf", "a'b", "ü", "a\nb", "*", "", "../etc/passwd", "a\0b"]

pytestmark = pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemd is not installed")


def units_in(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in UNITS.items():
        (folder / name).write_text(text)


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    """Call it on a machine where systemd is installed and does not run."""
    return call(Loader(INDEX, {"smi_returns": "strict"}, GRAINS, {}), fun, args, kwargs)


# --- a running one


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("units")
    units_in(folder / "lib")
    (folder / "etc").mkdir()
    return folder


@pytest.fixture(scope="module")
def machine(place: Path) -> Iterator[Machine]:
    try:
        found = Machine(place, GRAINS, {})
    except NoSystemdError as error:
        pytest.skip(f"a systemd of the test's own cannot run here: {error}")
    try:
        yield found
    finally:
        found.close()


def test_what_is_started_runs_until_it_is_stopped(machine: Machine) -> None:
    assert machine.run("service.status", "slt-one") == (False, 0)
    assert machine.run("service.start", "slt-one") == (True, 0)
    assert machine.run("service.status", "slt-one.service") == (True, 0)
    assert machine.ask("is-active", "slt-one") == "active"
    assert machine.run("service.stop", "slt-one") == (True, 0)
    assert machine.ask("is-active", "slt-one") == "inactive"


def test_a_restart_starts_another_process(machine: Machine) -> None:
    machine.run("service.start", "slt-one")
    first = machine.ask("show", "--property=MainPID", "slt-one")
    assert machine.run("service.reload", "slt-one") == (True, 0)
    assert machine.ask("show", "--property=MainPID", "slt-one") == first
    assert machine.run("service.restart", "slt-one") == (True, 0)
    assert machine.ask("show", "--property=MainPID", "slt-one") != first


def test_a_glob_tells_of_every_unit_that_it_fits(machine: Machine) -> None:
    machine.run("service.start", "slt-one")
    machine.run("service.stop", "slt-two")
    assert machine.run("service.status", "slt-[oe]*") == ({"slt-each@": False, "slt-one": True}, 0)
    assert machine.run("service.status", "nothing*") == ({}, 0)
    assert "slt-one" in machine.run("service.get_running")[0]
    assert "slt-two" not in machine.run("service.get_running")[0]


@pytest.mark.parametrize(
    ("fun", "name", "words"),
    [
        ("start", "slt-none", "Unit slt-none.service not found"),
        ("start", "slt-broken", "the control process exited with error code"),
        ("reload", "slt-two", "Job type reload is not applicable"),
        ("stop", "slt-none", "Unit slt-none.service not loaded"),
        ("enable", "slt-none", "slt-none.service does not exist"),
    ],
)
def test_a_failure_has_the_words_of_systemctl(machine: Machine, fun: str, name: str, words: str) -> None:
    value, retcode = machine.run(f"service.{fun}", name)
    assert (words in value, retcode) == (True, 1)


@pytest.mark.parametrize(
    ("name", "found"),
    [("slt-one", True), ("slt-each@", True), ("slt-each@x", True), ("slt-timer.timer", True), ("slt-none", False)],
)
def test_units_and_templates_are_found(machine: Machine, name: str, found: bool) -> None:
    assert machine.run("service.available", name) == (found, 0)
    assert machine.run("service.missing", name) == (not found, 0)


def test_what_is_enabled_starts_with_the_machine(machine: Machine) -> None:
    assert machine.run("service.enable", "slt-two") == (True, 0)
    assert machine.ask("is-enabled", "slt-two") == "enabled"
    assert machine.run("service.enabled", "slt-alias") == (True, 0)
    assert "slt-two" in machine.run("service.get_enabled")[0]
    assert machine.run("service.disable", "slt-two") == (True, 0)
    assert machine.run("service.disabled", "slt-two") == (True, 0)
    assert "slt-two" in machine.run("service.get_disabled")[0]


def test_an_instance_is_enabled_and_its_template_is_not(machine: Machine) -> None:
    assert machine.run("service.enable", "slt-each@x") == (True, 0)
    assert machine.run("service.enabled", "slt-each@x") == (True, 0)
    assert machine.run("service.enabled", "slt-each@y") == (False, 0)


def test_a_masked_unit_starts_only_when_it_is_unmasked(machine: Machine) -> None:
    machine.run("service.stop", "slt-two")
    assert machine.run("service.mask", "slt-two") == (True, 0)
    assert machine.run("service.masked", "slt-two") == (True, 0)
    value, retcode = machine.run("service.start", "slt-two")
    assert ("is masked" in value, retcode) == (True, 1)
    assert machine.run("service.start", "slt-two", unmask=True) == (True, 0)
    assert machine.run("service.masked", "slt-two") == (False, 0)


def test_a_runtime_mask_is_another_one(machine: Machine) -> None:
    assert machine.run("service.mask", "slt-static", runtime=True) == (True, 0)
    assert machine.run("service.masked", "slt-static") == (False, 0)
    assert machine.run("service.masked", "slt-static", runtime=True) == (True, 0)
    assert machine.run("service.start", "slt-static", unmask_runtime=True) == (True, 0)


def test_a_unit_that_was_just_written_is_found(machine: Machine, place: Path) -> None:
    assert machine.run("service.available", "slt-new") == (False, 0)
    (place / "etc/slt-new.service").write_text(SLEEP)
    assert machine.run("service.start", "slt-new") == (True, 0)


def test_a_unit_file_that_changed_is_read_before_the_unit_is_touched(machine: Machine, place: Path) -> None:
    machine.run("service.start", "slt-one")
    (place / "lib/slt-one.service").write_text(f"{UNITS['slt-one.service']}\n# changed\n")
    assert machine.ask("show", "--property=NeedDaemonReload", "--value", "slt-one") == "yes"
    assert machine.run("service.restart", "slt-one") == (True, 0)
    assert machine.ask("show", "--property=NeedDaemonReload", "--value", "slt-one") == "no"


def test_properties_of_a_unit_are_shown(machine: Machine) -> None:
    found, retcode = machine.run("service.show", "slt-one")
    assert (found["Id"], found["ExecStart"]["path"], retcode) == ("slt-one.service", "/bin/sleep", 0)
    assert isinstance(found["After"], list)


def test_the_programs_of_services_are_listed(machine: Machine) -> None:
    found, _ = machine.run("service.execs")
    assert {name: found[name] for name in ("slt-one", "slt-broken")} == {
        "slt-one": "/bin/sleep",
        "slt-broken": "/bin/false",
    }


def test_the_minion_s_own_restart_is_not_waited_for(machine: Machine) -> None:
    machine.run("service.start", "saltlite-minion")
    assert machine.run("service.restart", "saltlite-minion") == (True, 0)
    # Its stop takes a minute, and the call was over before: nothing of the job can end with the minion.
    assert machine.ask("is-active", "saltlite-minion") == "deactivating"


def test_a_job_that_restarts_its_own_minion_comes_to_its_end(machine: Machine, place: Path) -> None:
    unit = "slt-like-minion.service"
    (place / "job.py").write_text(JOB)
    (place / "etc" / unit).write_text(
        f"{SERVICE}KillMode=process\nEnvironment=PYTHONPATH={ROOT}:{ROOT / 'daemons'}\n"
        f"ExecStart={sys.executable} {place / 'job.py'}\n"
    )
    assert machine.run("service.start", unit) == (True, 0)
    said = place / "etc/said"
    wait_until(said.exists, "the job wrote what it found")
    first, value, retcode = json.loads(said.read_text())
    assert (value, retcode) == (True, 0)
    assert machine.ask("show", "--property=MainPID", "--value", unit) not in {str(first), "0"}


@pytest.mark.parametrize("fun", ["start", "status", "available", "enable", "mask"])
@pytest.mark.parametrize("name", [name for name in NASTY if name != "*"])
def test_what_is_no_name_of_a_unit_is_refused(machine: Machine, fun: str, name: str) -> None:
    value, retcode = machine.run(f"service.{fun}", name)
    assert ("is not the name of a unit" in value, retcode) == (True, 1)


def test_nothing_is_started_or_stopped_by_a_glob(machine: Machine) -> None:
    assert machine.run("service.stop", "*")[1] == 1


def test_systemd_provides_all_that_the_interface_wants_of_it(machine: Machine) -> None:
    report = machine.run("smi.conformance", "service")[0]["service"]
    assert (report["provider"], report["errors"], report["warnings"]) == ("systemd_service", 0, 0)
    assert {*report["counts"]} == {"implemented", "not_supported"}


# --- unit files of a system that does not run


@pytest.fixture
def image(tmp_path: Path) -> str:
    units_in(tmp_path / "usr/lib/systemd/system")
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    scripts = tmp_path / "etc/init.d"
    scripts.mkdir()
    for name in ("slt-script", "slt-idle", "slt-static"):
        (scripts / name).write_text("#!/bin/sh\n")
        (scripts / name).chmod(0o755)
    (tmp_path / "etc/rcS.d").mkdir()
    (tmp_path / "etc/rcS.d/S01slt-script").symlink_to("../init.d/slt-script")
    return str(tmp_path)


def test_units_of_an_image_are_enabled_and_disabled(image: str) -> None:
    assert run("service.enable", "slt-one", root=image).value is True
    assert os.path.islink(f"{image}/etc/systemd/system/slt.target.wants/slt-one.service")
    assert run("service.enabled", "slt-one", root=image).value is True
    assert run("service.get_enabled", root=image).value == ["slt-one", "slt-script"]
    assert run("service.disable", "slt-one", root=image).value is True
    assert run("service.disabled", "slt-one", root=image).value is True
    assert not os.path.islink(f"{image}/etc/systemd/system/slt.target.wants/slt-one.service")


def test_units_and_scripts_of_an_image_are_listed(image: str) -> None:
    assert run("service.get_disabled", root=image).value == [
        "slt-each@",
        "slt-idle",
        "slt-one",
        "slt-timer.timer",
        "slt-two",
    ]
    assert run("service.get_static", root=image).value == ["saltlite-minion", "slt-broken", "slt-static", "slt.target"]
    names = {name.removesuffix(".service") for name in UNITS}
    assert run("service.get_all", root=image).value == sorted({*names, "slt-script", "slt-idle"})


def test_a_script_is_enabled_where_a_run_level_starts_it(image: str) -> None:
    assert run("service.enabled", "slt-script", root=image).value is True
    assert run("service.enabled", "slt-idle", root=image).value is False


def test_units_of_an_image_are_masked(image: str) -> None:
    assert run("service.mask", "slt-two", root=image).value is True
    assert os.readlink(f"{image}/etc/systemd/system/slt-two.service") == "/dev/null"
    assert run("service.masked", "slt-two", root=image).value is True
    assert run("service.enable", "slt-two", unmask=True, root=image).value is True
    assert run("service.masked", "slt-two", root=image).value is False


@pytest.mark.parametrize("root", ["relative", "/nowhere", "/etc/passwd", "/tmp\n"])
def test_a_root_that_is_no_folder_is_refused(root: str) -> None:
    outcome = run("service.get_enabled", root=root)
    assert ("root must be the absolute path of a folder" in outcome.value, outcome.retcode) == (True, 1)


@pytest.mark.skipif(os.path.isdir("/run/systemd/system"), reason="systemd runs this machine")
@pytest.mark.parametrize(
    ("fun", "args"),
    [("start", ["x"]), ("status", ["x"]), ("status", ["x*"]), ("available", ["x"]), ("get_running", [])],
)
def test_what_needs_a_running_systemd_says_so(fun: str, args: list[str]) -> None:
    assert run("service.offline").value is True
    outcome = run(f"service.{fun}", *args)
    assert ("systemd does not run on this machine" in outcome.value, outcome.retcode) == (True, 1)


@pytest.mark.parametrize("fun", ["show", "execs"])
def test_properties_of_an_image_are_not_told(image: str, fun: str) -> None:
    args = ["slt-one"] if fun == "show" else []
    outcome = run(f"service.{fun}", *args, root=image)
    assert ("only of the units that a running systemd has read" in outcome.value, outcome.retcode) == (True, 1)


def test_an_image_gets_what_a_new_system_asks_for(image: str) -> None:
    assert run("service.firstboot", hostname="slt", timezone="UTC", root=image).value is True
    assert Path(image, "etc/hostname").read_text() == "slt\n"
