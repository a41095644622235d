"""Programs that the modules of a machine run: with which words, and what becomes of their answers."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, CommandNotFoundError
from saltlite.plugins import _netlink
from saltlite.plugins.modules import _packages, _programs, _rpm
from tests.support.machine import Machine, machine_in


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine_in(tmp_path, monkeypatch)


def failing(words: str, code: int = 1, program: str = "program") -> _programs.Ended:
    return _programs.Ended(program, code, "", words)


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "argv", "said", "value"),
    [
        ("network.ping", ["a.example"], {}, ["ping", "-c", "4", "a.example"], "4 received\n", "4 received"),
        (
            "network.ping",
            ["a.example", 3],
            {"return_boolean": True},
            ["ping", "-W", "3", "-c", "4", "a.example"],
            "",
            True,
        ),
        ("network.dig", ["a.example"], {}, ["dig", "a.example"], "; <<>> DiG\n", "; <<>> DiG"),
        ("disk.resize2fs", ["/dev/x y"], {}, ["resize2fs", "/dev/x y"], "", True),
        ("disk.wipe", ["/dev/x"], {}, ["wipefs", "--all", "--", "/dev/x"], "", True),
        ("disk.wipe", ["/dev/x"], {"test": True}, ["wipefs", "--no-act", "--all", "--", "/dev/x"], "", True),
        ("disk.format", ["/dev/x"], {}, ["mkfs", "-t", "ext4", "/dev/x"], "", True),
        (
            "disk.format",
            ["/dev/x", "ext4"],
            {"inode_size": 256, "lazy_itable_init": 0, "force": True, "fat": 32},
            ["mkfs", "-t", "ext4", "-I", "256", "-E", "lazy_itable_init=0", "-F", "/dev/x"],
            "",
            True,
        ),
        (
            "disk.format",
            ["/dev/x", "xfs"],
            {"inode_size": 512, "force": True},
            ["mkfs", "-t", "xfs", "-i", "size=512", "-f", "/dev/x"],
            "",
            True,
        ),
        ("disk.format", ["/dev/x", "vfat"], {"fat": 32}, ["mkfs", "-t", "vfat", "-F", "32", "/dev/x"], "", True),
        (
            "disk.fstype",
            ["/dev/x"],
            {},
            ["lsblk", "--nodeps", "--noheadings", "--output", "FSTYPE", "--", "/dev/x"],
            "xfs\n",
            "xfs",
        ),
        ("disk.blkid", [], {"token": "TYPE=ext4"}, ["blkid", "-t", "TYPE=ext4"], "", {}),
        ("ps.lsof", ["sshd"], {}, ["lsof", "-c", "sshd"], "COMMAND\n", ["sshd", "COMMAND"]),
        ("ps.ss", ["sshd"], {}, ["ss", "-neap"], "a sshd\nb\n", ["sshd", ["a sshd"]]),
        ("ps.netstat", ["sshd"], {}, ["netstat", "-nap"], "a sshd\nb\n", ["sshd", ["a sshd"]]),
        (
            "dnsutil.A",
            ["a.example", "192.0.2.53"],
            {},
            ["dig", "+short", "+time=3", "+tries=2", "@192.0.2.53", "a.example", "A"],
            "alias.example.\n192.0.2.1\n",
            ["192.0.2.1"],
        ),
        (
            "dnsutil.NS",
            ["a.example", False],
            {},
            ["dig", "+short", "+time=3", "+tries=2", "a.example", "NS"],
            "ns1.a.example.\n",
            ["ns1.a.example."],
        ),
        ("system.has_settable_hwclock", [], {}, ["hwclock", "--test", "--systohc"], "", True),
    ],
)
def test_a_program_has_these_words_and_its_answer_is_returned(
    machine: Machine, fun: str, args: list[Any], kwargs: dict[str, Any], argv: list[str], said: str, value: Any
) -> None:
    machine.programs[tuple(argv)] = said
    assert machine(fun, *args, **kwargs) == value
    assert machine.ran == [argv]


def test_a_device_is_tuned_and_shown(machine: Machine) -> None:
    machine.programs["blockdev", "--setra", "512", "--setrw", "/dev/x"] = ""
    machine.programs["blockdev", "--getra", "--getro", "/dev/x"] = "512\n0\n"
    wanted = {"read_ahead": 512, "read-write": True}
    assert machine("disk.tune", "/dev/x", **wanted) == {"getra": "512", "getro": "0"}


@pytest.mark.parametrize(
    "wanted", [{}, {"colour": 1}, {"read-only": False}, {"read-ahead": "1 --setro"}, {"read-ahead": True}]
)
def test_what_cannot_be_tuned_runs_nothing(machine: Machine, wanted: dict[str, Any]) -> None:
    assert machine.outcome("disk.tune", "/dev/x", **wanted).retcode == 1
    assert machine.ran == []


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("disk.format", ["/dev/x", "ext4 -F"]),
        ("disk.format", ["/dev/x", "-V"]),
        ("disk.format", ["/dev/x", "vfat", None, None, 13]),
        ("disk.dump", ["/dev/x", ["getra; id"]]),
        ("disk.iostat", ["1", "5", "-V"]),
        ("disk.iostat", ["1 -V"]),
        ("disk.usage", ["h --help"]),
        ("disk.blkid", [None, "-c x"]),
        ("ps.lsof", ["-i"]),
        ("mount.mount", ["srv/x"]),
        ("mount.mount", ["/srv/x", "-a"]),
        ("mount.mount", ["/srv/x", "/dev/x", False, "-x"]),
        ("mount.mount", ["/srv/x", "/dev/x", False, "", "ro\nexec"]),
        ("mount.mount", ["/srv/x", "/dev/x", False, "", "", None, "guestfs"]),
        ("mount.umount", [""]),
        ("mount.swapon", ["-a"]),
        ("mount.swapoff", ["-a"]),
        ("mount.is_fuse_exec", ["-x"]),
        ("network.mod_hostname", ["-x"]),
        ("dnsutil.A", ["a.example", "-x"]),
        ("dnsutil.MX", ["+trace"]),
    ],
)
def test_words_that_a_program_would_misread_reach_none(machine: Machine, fun: str, args: list[Any]) -> None:
    machine.write("/proc/self/mountinfo")
    assert machine.outcome(fun, *args).retcode == 1
    assert machine.ran == []


@pytest.mark.parametrize(
    ("fun", "args", "argv"),
    [
        ("disk.format", ["/dev/x"], ["mkfs", "-t", "ext4", "/dev/x"]),
        ("disk.wipe", ["/dev/x"], ["wipefs", "--all", "--", "/dev/x"]),
        ("disk.usage", [], ["df", "-P"]),
        ("network.traceroute", ["x"], ["traceroute", "--", "x"]),
        ("system.reboot", [], ["shutdown", "-r", "now"]),
        ("timezone.set_hwclock", ["UTC"], ["hwclock", "--systohc", "--utc"]),
        ("locale.list_avail", [], ["locale", "-a"]),
    ],
)
def test_a_program_that_fails_is_an_error_with_its_words(
    machine: Machine, fun: str, args: list[Any], argv: list[str]
) -> None:
    machine.programs[tuple(argv)] = failing("it has no such thing\n\nmore\n", 4, argv[0])
    outcome = machine.outcome(fun, *args)
    assert outcome.value == f"ERROR: {argv[0]} failed (return code 4): it has no such thing; more"
    assert outcome.retcode == 1


def test_a_program_that_is_not_installed_is_named(machine: Machine) -> None:
    assert machine.outcome("status.w").value == "Command required for 'status.w' not found: w"


def test_swap_that_is_in_use_is_left_and_what_is_not_is_not_stopped(machine: Machine) -> None:
    machine.write("/proc/swaps", "Filename Type Size Used Priority\n/swap\\040file file 4 0 5\n")
    row = {"type": "file", "size": "4", "used": "0", "priority": "5"}
    assert machine("mount.swapon", "/swap file") == {"stats": row, "new": False}
    assert machine("mount.swapoff", "/other") is None
    machine.programs["swapon", "-p", "3", "--", "/other"] = ""
    machine.programs["swapoff", "--", "/swap file"] = ""
    assert machine("mount.swapon", "/other", priority=3) == {}
    assert machine.outcome("mount.swapoff", "/swap file").value is False
    assert len(machine.ran) == 2


def test_what_is_not_mounted_there_is_not_unmounted(machine: Machine) -> None:
    machine.write("/proc/self/mountinfo", "40 36 8:1 / /srv rw - ext4 /dev/sda1 rw\n")
    for args, words in (
        (["/nope"], "/nope does not have anything mounted"),
        (["/srv", "/dev/sdb1"], "/dev/sdb1 is not mounted on /srv"),
    ):
        outcome = machine.outcome("mount.umount", *args)
        assert (outcome.value, outcome.retcode) == (words, 1)


def test_the_file_system_of_a_mount_point_is_that_of_the_latest_mount(machine: Machine) -> None:
    rows = "40 36 8:1 / /srv rw - ext4 /dev/sda1 rw", "41 40 8:2 / /srv rw - xfs /dev/sda2 rw"
    machine.write("/proc/self/mountinfo", "\n".join((*rows, "")))
    assert [machine("disk.fstype", name) for name in ("/srv", "/dev/sda1", "/nope")] == ["xfs", "ext4", ""]


def test_the_resolver_names_the_addresses_that_it_knows(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_up(address: str) -> tuple[str, list[str], list[str]]:
        if ":" in address:
            raise socket.herror(1, "Unknown host")
        return f"n{address}", [], [address]

    monkeypatch.setattr(socket, "gethostbyaddr", looked_up)
    monkeypatch.setattr(socket, "getfqdn", "{}.example".format)
    names = sorted(f"n{address}.example" for address in machine("network.ip_addrs"))
    assert machine("network.fqdns") == {"fqdns": names}


@pytest.mark.parametrize("version", ["", "6"])
def test_neighbours_have_both_names_of_salt(machine: Machine, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(_netlink, "neighbours", lambda version: {"02:00:00:00:00:01": f"v{version}"})
    assert machine(f"network.ipneighs{version}") == machine(f"network.ip_neighs{version}") != {}


def test_a_program_that_makes_file_systems_in_user_space_is_known(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuse, other = machine.write("/bin/sshfs", "ELF libfuse3.so.3"), machine.write("/bin/ls", "ELF libc.so.6")
    monkeypatch.setattr(_programs, "find", {"sshfs": str(fuse), "ls": str(other)}.get)
    assert [machine.outcome("mount.is_fuse_exec", name).value for name in ("sshfs", "ls", "none")] == [
        True,
        False,
        False,
    ]


# --- running one


def test_a_program_runs_in_the_c_locale_without_input_and_without_a_shell() -> None:
    program = "import os, sys; print(os.environ['LC_ALL'], sys.stdin.read(), sys.argv[1:])"
    text = _programs.output([sys.executable, "-c", program, "$(id); a b"])
    assert text == "C.UTF-8  ['$(id); a b']\n"


def test_a_program_that_does_not_end_is_killed() -> None:
    with pytest.raises(CommandExecutionError, match=r"did not end within 0\.1 s, and was killed"):
        _programs.output([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.1)


def test_a_program_that_is_killed_by_a_signal_is_an_error() -> None:
    with pytest.raises(CommandExecutionError, match="return code -9"):
        _programs.output([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])


def test_a_program_that_is_none_is_named() -> None:
    with pytest.raises(CommandNotFoundError, match="slt-none"):
        _programs.output(["slt-none"])
    with pytest.raises(CommandExecutionError, match="cannot be started: Permission denied"):
        _programs.output(["/etc/passwd"])


@pytest.mark.parametrize(("count", "repeated"), [(2, "1; 2"), (9, "1; 2; 3")])
def test_an_error_repeats_the_first_lines_only(count: int, repeated: str) -> None:
    said = "".join(f"{line}\n" for line in range(1, count + 1))
    assert failing(said).reason() == repeated
    assert failing("").reason() == "it gave no reason"


@pytest.mark.parametrize("word", ["a\0b", "a\ud800", "a" * 4_000_000], ids=["NUL", "half", "long"])
@pytest.mark.parametrize(
    "start",
    [
        lambda word: _programs.run(["true", word]),
        lambda word: _packages.run(["true", word]),
        lambda word: _rpm._unpacked(word, "x"),
    ],
    ids=["_programs", "_packages", "rpm2cpio"],
)
def test_a_word_that_no_program_can_be_given_is_a_sentence(
    start: Any, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rpm2cpio").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CommandExecutionError, match=r"cannot be (run|started): .{3,60}\.$"):
        start(word)
