"""The slots `file`, `service`, `status` and `pkg` of the resource type `ssh`, against a real sshd.

Package and service managers that this machine has not, or that would change it, are small scripts that write down
what they are asked.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from tests.support import sshd
from tests.support.fleet import wait_until
from tests.support.modules import TypeHere
from tests.support.sshd import start_sshd

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="there is no sshd: install openssh-server")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away, and has hosts look different")

Call = Callable[..., Any]
Machine = Callable[..., Call]

ODD_NAMES = ["a b", "a'b", 'a"b', "$(id)", "`id`", "a\nb", "-rf", "*", "ä€", "a;b", "a\\b", " ", "a\n"]
BYTES = bytes(range(256)) * 300 + b"\r\n\n\r"


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """What calls a function on a host that works, over one connection."""
    folder = tmp_path_factory.mktemp("slots")
    server = start_sshd(folder / "sshd")
    made = TypeHere("ssh", folder, {"hosts": {"web-1": server.pillar()}})
    yield made.on("web-1")
    made.type.shutdown()
    server.stop()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """What makes a host whose programs are those of a dict, name -> shell script, and a few of this machine's."""
    started: list[tuple[TypeHere, sshd.Sshd]] = []

    def make(programs: dict[str, str], *, systemd: bool = False) -> Call:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, script in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        for name in ("sh", "cat", "sed", "ls", "grep"):
            (folder / name).symlink_to(f"/bin/{name}")
        # Slots look into the folders of root as well: nothing may be there.
        server = start_sshd(tmp_path / "sshd", settings=f"SetEnv PATH={folder}", systemd=systemd)
        made = TypeHere("ssh", tmp_path, {"hosts": {"web-1": server.pillar()}})
        started.append((made, server))
        return made.on("web-1")

    yield make
    for made, server in started:
        made.type.shutdown()
        server.stop()


# -- cmd


@needs_root
def test_root_without_sudo_runs_as_somebody_else_by_su(machine: Machine) -> None:
    on = machine({"id": 'exec /usr/bin/id "$@"', "su": 'exec /bin/su "$@"'})
    assert on("cmd.run", '/usr/bin/id -un; echo "$A"', runas="daemon", env={"A": "x ' y"}) == "daemon\nx ' y"


# -- file


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_file_of_any_name_is_written_read_and_removed(on: Call, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert on("file.file_exists", str(path)) is False
    on("file.write", str(path), "first ' $x", "ä")
    assert path.read_text() == "first ' $x\nä\n"
    assert on("file.read", str(path)) == "first ' $x\nä\n"
    on("file.append", str(path), "last")
    assert on("file.get_hash", str(path)) == hashlib.sha256("first ' $x\nä\nlast\n".encode()).hexdigest()
    assert on("file.file_exists", str(path)) is True
    assert on("file.remove", str(path)) is True
    assert on("file.remove", str(path)) is False
    assert list(tmp_path.iterdir()) == []


def test_bytes_survive(on: Call, tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    on("file.write", str(path), BYTES)
    assert path.read_bytes() == BYTES
    assert on("file.read", str(path), binary=True) == BYTES
    with pytest.raises(CommandExecutionError, match="binary=True"):
        on("file.read", str(path))


def test_a_file_keeps_its_mode_and_its_link_when_it_is_written(on: Call, tmp_path: Path) -> None:
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    on("file.write", str(link), "new")
    assert link.is_symlink()
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_mode_of_the_hosts_umask(on: Call, tmp_path: Path) -> None:
    on("file.write", str(tmp_path / "new"), "x")
    mask = int(on("cmd.run", "umask"), 8)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o666 & ~mask


def test_append_begins_a_line_of_its_own(on: Call, tmp_path: Path) -> None:
    path = tmp_path / "unfinished"
    path.write_text("one")
    on("file.append", str(path), "two")
    assert path.read_text() == "one\ntwo\n"


def test_a_file_is_not_written_over_a_directory(on: Call, tmp_path: Path) -> None:
    with pytest.raises(CommandExecutionError, match="is a directory"):
        on("file.write", str(tmp_path), "x")
    assert list(tmp_path.iterdir()) == []


def test_stats_mode_and_directories(on: Call, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b c"
    assert on("file.mkdir", str(path), mode="0750") is True
    assert on("file.directory_exists", str(path)) is True
    assert on("file.set_mode", str(path), "u=rwx,g=,o=") == "0700"
    found, real = on("file.stats", str(path)), os.stat(path)
    assert (found["mode"], found["type"], found["target"]) == ("0700", "dir", str(path))
    assert (found["uid"], found["inode"], found["mtime"]) == (real.st_uid, real.st_ino, int(real.st_mtime))
    assert on("file.remove", str(tmp_path / "a")) is True
    assert not path.exists()


@needs_root
def test_owner_and_group_change(on: Call, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    on("file.chown", str(tmp_path / "x"), "daemon", "games")
    assert ((tmp_path / "x").owner(), (tmp_path / "x").group()) == ("daemon", "games")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("file.read", ["relative"]),
        ("file.read", ["-rf"]),
        ("file.read", [None]),
        ("file.remove", ["/"]),
        ("file.remove", ["//./"]),
        ("file.remove", ["/etc/../"]),
        ("file.set_mode", ["/nowhere", "--reference=/etc/shadow"]),
        ("file.set_mode", ["/nowhere", "0644; id"]),
        ("file.chown", ["/nowhere", "--reference=/x"]),
        ("file.chown", ["/nowhere", "a:b"]),
        ("file.chown", ["/nowhere"]),
        ("file.get_hash", ["/etc/passwd", "md5; id"]),
        ("file.write", ["/tmp/\0x", "y"]),
    ],
)
def test_arguments_of_file_that_could_mean_something_else_are_refused(
    on: Call, function: str, arguments: list[Any]
) -> None:
    with pytest.raises(SaltInvocationError):
        on(function, *arguments)


def test_what_the_host_says_is_the_error(on: Call) -> None:
    with pytest.raises(CommandExecutionError, match="No such file"):
        on("file.read", "/does/not/exist")


# -- status


def test_load_memory_and_disks_are_those_of_the_host(on: Call) -> None:
    assert list(on("status.loadavg")) == ["1-min", "5-min", "15-min"]
    total = next(line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    assert on("status.meminfo")["MemTotal"] == {"value": total, "unit": "kB"}
    known, real = on("status.diskusage", "/proc/..")["/"], os.statvfs("/")
    assert abs(known["total"] - real.f_frsize * real.f_blocks) < 4096
    assert on("status.diskusage")["/"]["total"] == known["total"]
    seconds = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(on("status.uptime")["seconds"] - seconds) < 5


def test_a_disk_is_named_by_an_absolute_path(on: Call) -> None:
    with pytest.raises(SaltInvocationError, match="absolute"):
        on("status.diskusage", "--output=x")


# -- pkg


def test_packages_of_this_debian_are_listed(on: Call) -> None:
    if not Path("/usr/bin/dpkg-query").exists():
        pytest.skip("this is no Debian")
    installed = on("pkg.list_pkgs")
    assert installed["dpkg"] == on("pkg.version", "dpkg")
    assert on("pkg.version", "dpkg", "no-such") == {"dpkg": installed["dpkg"], "no-such": ""}
    assert on("pkg.latest_version", "no-such") == ""


MANAGERS = {
    "apt-get": {
        "programs": {
            "apt-get": 'echo "$0 $*" >>@; case "$*" in *" install "*) echo >@.new;; esac',
            "dpkg-query": "echo 'installed vim 2:9.0'; echo 'config-files old 1'; "
            "[ ! -e @.new ] || echo 'installed g++ 4:12'",
            "apt-cache": "printf 'vim:\\n  Installed: 2:9.0\\n  Candidate: 2:9.1\\n"
            "g++:\\n  Installed: (none)\\n  Candidate: 4:12\\n'",
        },
        "install": "install -- g++=4:12 tinc",
        "remove": "remove -- g++",
        "latest": "2:9.1",
        "purge": "purge -- g++",
        "upgrade": "upgrade",
    },
    "dnf": {
        "programs": {
            "dnf": 'echo "$0 $*" >>@; case "$*" in *install*) echo >@.new;; *updates*) '
            "echo 'Available Upgrades'; echo 'vim.x86_64   2:9.1   base';; esac",
            "rpm": "echo 'vim 2:9.0'; [ ! -e @.new ] || echo 'g++ (none):4:12'",
        },
        "install": "install -- g++-4:12 tinc",
        "remove": "remove -- g++",
        "latest": "2:9.1",
        "purge": "remove -- g++",
        "upgrade": "upgrade",
    },
    "zypper": {
        "programs": {
            "zypper": 'echo "$0 $*" >>@; case "$*" in *install*) echo >@.new;; *info*) '
            "printf 'Name           : vim\\nVersion        : 2:9.1\\nStatus         : out-of-date\\n';; esac",
            "rpm": "echo 'vim 0:2:9.0' | sed s/0:2/2/; [ ! -e @.new ] || echo 'g++ 0:4:12' | sed s/0:4/4/",
        },
        "install": "install -- g++=4:12 tinc",
        "remove": "remove -- g++",
        "latest": "2:9.1",
        "purge": "remove -- g++",
        "upgrade": "update",
    },
}


@pytest.mark.parametrize("manager", MANAGERS)
def test_each_package_manager_is_asked_in_its_words(machine: Machine, tmp_path: Path, manager: str) -> None:
    given: dict[str, Any] = MANAGERS[manager]
    log = tmp_path / "asked"
    on = machine({name: script.replace("@", shlex.quote(str(log))) for name, script in given["programs"].items()})
    assert on("pkg.list_pkgs") == {"vim": "2:9.0"}
    assert on("pkg.latest_version", "vim") == given["latest"]
    assert on("pkg.install", pkgs=[{"g++": "4:12"}, "tinc"]) == {"g++": {"old": "", "new": "4:12"}}
    assert log.read_text().rstrip().endswith(given["install"])
    for function, arguments in (("remove", ["g++"]), ("purge", ["g++"]), ("upgrade", [])):
        assert on(f"pkg.{function}", *arguments) == {}
        assert log.read_text().rstrip().endswith(given[function])


def test_apk_is_read_by_its_names(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "asked"
    on = machine(
        {
            "apk": f'echo "$*" >>{log}; case "$1" in info) echo py3-yaml-6.0.1-r2; echo vim-9.0-r0;; '
            "search) echo vim-9.1-r3;; esac"
        }
    )
    assert on("pkg.list_pkgs") == {"py3-yaml": "6.0.1-r2", "vim": "9.0-r0"}
    assert on("pkg.latest_version", "vim") == "9.1-r3"
    assert on("pkg.install", "vim") == {}
    assert "add -q -- vim" in log.read_text()


def test_a_host_without_a_known_package_manager_is_an_error(machine: Machine) -> None:
    with pytest.raises(CommandExecutionError, match="has no apt-get, dnf"):
        machine({})("pkg.list_pkgs")


@pytest.mark.parametrize("name", ["vim; id", "$(id)", "-o=x", "vim-", "vim+", "a b", "", "~nvim", "vim\n", 5])
def test_what_is_no_package_is_refused_before_anything_runs(on: Call, name: Any) -> None:
    for call in (("pkg.version", name), ("pkg.latest_version", name)):
        with pytest.raises(SaltInvocationError, match="not the name of a package"):
            on(*call)
    with pytest.raises(SaltInvocationError):
        on("pkg.install", pkgs=[name])
    with pytest.raises(SaltInvocationError, match="not a version"):
        on("pkg.install", "vim", version="1; id")


def test_an_install_without_names_is_refused(on: Call) -> None:
    with pytest.raises(SaltInvocationError, match="Name a package"):
        on("pkg.install")


# -- service


SERVICES = {
    "systemd": {
        "systemctl": 'echo "$*" >>@; case "$1" in is-*) [ "$3" = up ];; '
        "list-unit-files) echo 'up.service enabled enabled'; echo 'get@.service static -';; esac",
    },
    "openrc": {
        "rc-service": 'echo "$*" >>@; [ "$2" != status ] || [ "$1" = up ]',
        "rc-update": 'echo "$*" >>@; echo " up | default"',
    },
}
ASKED = {
    "systemd": ["is-active -- up", "is-active -- down", "restart -- down", "enable -- down", "disable -- down"],
    "openrc": ["up status", "down status", "down restart", "add down default", "delete down default"],
}


@needs_root
@pytest.mark.parametrize("init", SERVICES)
def test_each_init_is_asked_in_its_words(machine: Machine, tmp_path: Path, init: str) -> None:
    log = tmp_path / "asked"
    programs = {name: script.replace("@", shlex.quote(str(log)), 1) for name, script in SERVICES[init].items()}
    on = machine(programs, systemd=init == "systemd")
    assert on("service.status", "up") is True
    assert on("service.status", "down") is False
    assert on("service.restart", "down") is True
    assert on("service.enable", "down") is True
    assert on("service.disable", "down") is True
    assert log.read_text().splitlines() == ASKED[init]
    assert on("service.enabled", "up") is True
    assert on("service.enabled", "down") is False


@needs_root
def test_units_of_systemd_are_listed_without_their_ending(machine: Machine) -> None:
    listing = "echo 'up.service enabled enabled'; echo 'get@.service static -'"
    assert machine({"systemctl": listing}, systemd=True)("service.get_all") == ["get@", "up"]


@needs_root
def test_scripts_of_init_d_are_services_too(on: Call) -> None:
    def scripts() -> list[str]:
        return sorted(path.name for path in Path("/etc/init.d").iterdir())

    # Other tests add services to this machine meanwhile.
    wait_until(lambda: on("service.get_all") == scripts(), "the scripts are the services")
    with pytest.raises(CommandExecutionError, match="There is no service no-such"):
        on("service.start", "no-such")
    assert on("service.status", "no-such") is False


@pytest.mark.parametrize("name", ["a;id", "../x", "-H", "a b", "", "a\n", "$(id)"])
def test_what_is_no_service_is_refused(on: Call, name: str) -> None:
    for function in ("start", "stop", "status", "enable", "enabled"):
        with pytest.raises(SaltInvocationError, match="not the name of a service"):
            on(f"service.{function}", name)
