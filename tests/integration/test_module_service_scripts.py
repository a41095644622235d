"""`service` where init scripts start the services: Debian's tools for real, Red Hat's by a stand-in of chkconfig."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.grains.collect import collect

INDEX = build_index(search_layers({}))
DEBIAN = collect({}) | {"os": "Debian", "os_family": "Debian", "init": "sysvinit"}
CENTOS = {"kernel": "Linux", "os": "CentOS", "os_family": "RedHat", "osrelease": "6.10", "init": "sysvinit"}
CHKCONFIG = Path(__file__).parents[1] / "data/services/chkconfig-list.txt"
NAME = "slt-service"
NASTY = ["-rf", "", "../passwd", "a\nb", "a\0b"]
ODD = ["a b", "a;id", "$(id)", "ü", "'"]

SCRIPT = """#!/bin/sh
### BEGIN INIT INFO
# Provides:          slt-service
# Required-Start:
# Required-Stop:
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: for tests
### END INIT INFO
state={state}
case "$1" in
start) echo started >"$state" ;;
stop) rm -f "$state" ;;
restart) echo restarted >"$state" ;;
reload) echo reloaded >>"$state" ;;
force-reload) echo forced >>"$state" ;;
status) test -f "$state" || exit 3 ;;
*) echo "it has no action $1" >&2; exit 2 ;;
esac
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can write init scripts"),
    pytest.mark.skipif(os.path.isdir("/run/systemd/system"), reason="systemd runs this machine"),
    pytest.mark.skipif(shutil.which("update-rc.d") is None, reason="this machine has no update-rc.d"),
]


def run(fun: str, *args: Any, grains: dict[str, Any] | None = None, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {"smi_returns": "strict"}, grains or DEBIAN, {}), fun, args, kwargs)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A service of init scripts; the file is there while it runs."""
    script = Path("/etc/init.d", NAME)
    found = tmp_path / "state"
    try:
        script.write_text(SCRIPT.replace("{state}", str(found)))
        script.chmod(0o755)
        yield found
    finally:
        script.unlink(missing_ok=True)
        subprocess.run(["update-rc.d", "-f", NAME, "remove"], capture_output=True, check=False)


def test_a_service_is_started_and_stopped_by_its_script(state: Path) -> None:
    assert run("service.status", NAME).value is False
    assert run("service.start", NAME).value is True
    assert (run("service.status", NAME).value, state.read_text()) == (True, "started\n")
    assert run("service.restart", NAME).value is True
    assert run("service.reload", NAME).value is True
    assert run("service.force_reload", NAME).value is True
    assert state.read_text() == "restarted\nreloaded\nforced\n"
    assert run("service.stop", NAME).value is True
    assert state.exists() is False


def test_a_glob_tells_of_every_service_that_it_fits(state: Path) -> None:
    run("service.start", NAME)
    assert run("service.status", "slt-*").value == {NAME: True}
    assert run("service.status", "slt-nothing*").value == {}


def test_a_service_is_found_while_its_script_is_there(state: Path) -> None:
    assert (run("service.available", NAME).value, run("service.missing", NAME).value) == (True, False)
    assert NAME in run("service.get_all").value
    Path("/etc/init.d", NAME).unlink()
    assert (run("service.available", NAME).value, run("service.missing", NAME).value) == (False, True)


def test_what_is_enabled_has_links_that_start_it(state: Path) -> None:
    assert run("service.disabled", NAME).value is True
    assert run("service.enable", NAME).value is True
    assert [one.name for one in Path("/etc/rc2.d").glob(f"S*{NAME}")] != []
    assert (run("service.enabled", NAME).value, NAME in run("service.get_enabled").value) == (True, True)
    assert run("service.disable", NAME).value is True
    assert [one.name for one in Path("/etc/rc2.d").glob(f"S*{NAME}")] == []
    assert (run("service.disabled", NAME).value, NAME in run("service.get_disabled").value) == (True, True)
    assert run("service.enable", NAME).value is True
    assert run("service.delete", NAME).value is True
    assert [one.name for one in Path("/etc").glob(f"rc?.d/*{NAME}")] == []


def test_a_failure_has_the_words_of_the_script(state: Path) -> None:
    outcome = run("service.run", NAME, "dance")
    assert outcome.value == f"ERROR: Service '{NAME}' failed to dance: it has no action dance"
    assert outcome.retcode == 1


@pytest.mark.parametrize("fun", ["start", "enable", "disable", "run"])
def test_a_service_that_is_not_there_is_named(fun: str) -> None:
    outcome = run(f"service.{fun}", "slt-none", *(["start"] if fun == "run" else []))
    assert (str(outcome.value).startswith("ERROR"), "slt-none" in outcome.value, outcome.retcode) == (True, True, 1)


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("fun", ["start", "status", "available", "enable", "disable", "enabled", "delete"])
def test_what_is_no_name_is_refused_before_anything_runs(fun: str, name: str) -> None:
    outcome = run(f"service.{fun}", name)
    assert ("is not the name of a service" in outcome.value, outcome.retcode) == (True, 1)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_one_argument(name: str) -> None:
    assert run("service.available", name).value is False
    assert run("service.status", name).value is False
    outcome = run("service.start", name)
    assert (f"Service '{name}' failed to start" in outcome.value, outcome.retcode) == (True, 1)


@pytest.mark.parametrize("action", ["-x", "a b", "", "a;id"])
def test_an_action_is_one_word(action: str) -> None:
    assert "is not the action of an init script" in run("service.run", NAME, action).value


def test_without_the_program_service_the_script_itself_runs(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    Path("/etc/init.d", NAME).write_text(f"#!/bin/sh\necho started >{state}\n")
    assert run("service.start", NAME).value is True
    assert state.read_text() == "started\n"
    assert run("service.start", "slt-none").value == "ERROR: There is no service 'slt-none' on this minion"


@pytest.mark.parametrize(("grains", "provider"), [(DEBIAN, "debian_service"), (CENTOS, "rh_service")])
def test_all_that_the_interface_wants_is_there(grains: dict[str, Any], provider: str) -> None:
    report = run("smi.conformance", "service", grains=grains).value["service"]
    assert (report["provider"], report["errors"], report["warnings"]) == (provider, 0, 0)


# --- Red Hat


@pytest.fixture
def chkconfig(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chkconfig that prints a list as CentOS 6 did, and writes down what else it was asked; the file of that."""
    programs, asked = tmp_path / "bin", tmp_path / "asked"
    programs.mkdir()
    (programs / "chkconfig").write_text(
        f'#!/bin/sh\n[ "$*" = --list ] && exec cat {CHKCONFIG}\n'
        f'if [ "$1" = --list ]; then grep -q "^$2 " {CHKCONFIG}; exit; fi\necho "$@" >>{asked}\n'
    )
    (programs / "runlevel").write_text("#!/bin/sh\necho N 3\n")
    for one in programs.iterdir():
        one.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    asked.touch()
    return asked


def test_services_are_those_of_chkconfig_that_have_a_script(chkconfig: Path) -> None:
    assert run("service.get_all", grains=CENTOS).value == ["slt-service"]
    assert run("service.get_enabled", grains=CENTOS).value == ["slt-service"]
    assert run("service.get_disabled", grains=CENTOS).value == []
    assert run("service.get_all", limit="upstart", grains=CENTOS).value == []
    assert run("service.enabled", NAME, grains=CENTOS).value is True
    assert run("service.available", NAME, limit="upstart", grains=CENTOS).value is False


def test_the_run_level_decides_what_starts(chkconfig: Path, tmp_path: Path) -> None:
    (tmp_path / "bin/runlevel").write_text("#!/bin/sh\necho N 2\n")
    assert run("service.disabled", NAME, grains=CENTOS).value is True


def test_chkconfig_turns_services_on_and_off(chkconfig: Path) -> None:
    assert run("service.enable", NAME, grains=CENTOS).value is True
    assert run("service.disable", NAME, grains=CENTOS).value is True
    assert run("service.delete", NAME, grains=CENTOS).value is True
    assert chkconfig.read_text().splitlines() == [f"{NAME} on", f"{NAME} off", f"--del {NAME}"]
    outcome = run("service.enable", "slt-none", grains=CENTOS)
    assert outcome.value == "ERROR: There is no service 'slt-none' on this minion"


def test_a_service_runs_by_its_script_there_too(chkconfig: Path, state: Path) -> None:
    assert run("service.start", NAME, grains=CENTOS).value is True
    assert run("service.status", "slt*", grains=CENTOS).value == {NAME: True}


@pytest.mark.parametrize(
    ("grains", "why"),
    [
        ({"os": "CentOS", "osrelease": "7.9"}, "CentOS 7 is run by systemd"),
        ({"os": "Fedora", "osrelease": "40"}, "Fedora 40 is run by systemd"),
        ({"os": "SUSE", "osrelease": "12.5"}, "SUSE 12 is run by systemd"),
        ({"os": "Arch"}, "only works on Red Hat and old SUSE systems"),
    ],
)
def test_it_says_why_it_does_not_load(grains: dict[str, Any], why: str) -> None:
    assert why in Loader(INDEX, {}, grains, {}).not_loaded()["rh_service"]
