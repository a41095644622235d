"""Files of a machine that modules edit: what they hold afterwards, and that nothing is lost on the way."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _machinefiles, _programs
from tests.support.machine import Machine, machine_in

HOSTS = "# a\n127.0.0.1\tlocalhost\n192.0.2.7 web web.example.org # proxy\n192.0.2.7 again\n"
FSTAB = "# static\nUUID=1 / ext4 defaults 0 1\n/dev/sdb1 /data xfs noatime,ro 0 2\n"

NOT_A_NAME = ["", "-x", "--help", "a b", "a;b", "a\nb", "a\0b", "$(id)", "ü/../x", "'", '"']


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine_in(tmp_path, monkeypatch)


# --- replacing a file


def test_mode_owner_and_link_of_an_edited_file_stay(machine: Machine) -> None:
    real = machine.write("/data/hosts", "old\n")
    real.chmod(0o640)
    (machine.root / "etc").mkdir()
    (machine.root / "etc/hosts").symlink_to(real)
    _machinefiles.replace("/etc/hosts", "new\n")
    assert (machine.root / "etc/hosts").is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("new\n", 0o640)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("/etc/hosts", HOSTS)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = machine.outcome("hosts.add_host", "192.0.2.9", "new")
    assert outcome.value == "ERROR: /etc/hosts cannot be written, and is unchanged: No space left on device."
    assert outcome.retcode == 1
    assert machine.read("/etc/hosts") == HOSTS
    assert os.listdir(machine.root / "etc") == ["hosts"]


def test_a_file_that_something_is_mounted_on_is_written_over(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    place = machine.write("/etc/hosts", HOSTS)

    def busy(_: Any, __: Any, **___: Any) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    before = place.stat().st_ino
    _machinefiles.replace("/etc/hosts", "short\n")
    assert (place.read_text(), place.stat().st_ino) == ("short\n", before)


def test_a_folder_in_the_place_of_a_file_is_refused(machine: Machine) -> None:
    (machine.root / "etc/hosts").mkdir(parents=True)
    with pytest.raises(CommandExecutionError, match="is a folder, not a regular file"):
        _machinefiles.replace("/etc/hosts", "x")


def test_bytes_that_are_no_text_survive_an_edit(machine: Machine) -> None:
    place = machine.write("/etc/hosts")
    place.write_bytes(b"# caf\xe9\n")
    machine("hosts.add_host", "192.0.2.9", "new")
    assert place.read_bytes() == b"# caf\xe9\n192.0.2.9\t\tnew\n"


def test_labels_of_an_edited_file_stay(machine: Machine) -> None:
    place = machine.write("/etc/hosts", HOSTS)
    os.setxattr(place, "user.label", b"net_conf")
    _machinefiles.replace("/etc/hosts", "new\n")
    assert os.getxattr(place, "user.label") == b"net_conf"


# --- hosts


@pytest.mark.parametrize(
    ("fun", "args", "after"),
    [
        ("set_host", ["192.0.2.7", "a b", "c"], "# a\n127.0.0.1\tlocalhost\n192.0.2.7\t\ta b\t\t# c\n"),
        ("set_host", ["192.0.2.7", ""], "# a\n127.0.0.1\tlocalhost\n"),
        ("set_host", ["::1", "six"], HOSTS + "::1\t\tsix\n"),
        ("add_host", ["127.0.0.1", "me"], HOSTS.replace("\tlocalhost", "\t\tlocalhost me")),
        ("add_host", ["192.0.2.7", "again"], HOSTS),
        ("add_host", ["192.0.2.8", "new"], HOSTS + "192.0.2.8\t\tnew\n"),
        (
            "rm_host",
            ["192.0.2.7", "web"],
            HOSTS.replace("192.0.2.7 web web.example.org # proxy", "192.0.2.7\t\tweb.example.org\t\t# proxy"),
        ),
        ("rm_host", ["192.0.2.7", "again"], HOSTS.replace("192.0.2.7 again\n", "")),
        ("rm_host", ["192.0.2.7", "none"], HOSTS),
        ("set_comment", ["127.0.0.1", "me"], HOSTS.replace("\tlocalhost", "\t\tlocalhost\t\t# me")),
    ],
)
def test_an_entry_of_hosts_changes_and_the_others_stay(machine: Machine, fun: str, args: list[str], after: str) -> None:
    machine.write("/etc/hosts", HOSTS)
    assert machine(f"hosts.{fun}", *args, test=True) is True
    assert machine.read("/etc/hosts") == HOSTS
    assert machine(f"hosts.{fun}", *args) is True
    assert machine.read("/etc/hosts") == after


def test_a_comment_for_an_address_that_is_not_there_is_false(machine: Machine) -> None:
    assert machine.outcome("hosts.set_comment", "192.0.2.99", "x").value is False


@pytest.mark.parametrize("name", ["a\nb", "a#b", "a\0b"])
@pytest.mark.parametrize("fun", ["hosts.set_host", "hosts.add_host", "hosts.rm_host"])
def test_what_would_be_another_line_of_hosts_is_refused(machine: Machine, fun: str, name: str) -> None:
    machine.write("/etc/hosts", HOSTS)
    assert machine.outcome(fun, "192.0.2.7", name).retcode == 1
    assert machine.outcome(fun, name, "web").retcode == 1
    assert machine.outcome("hosts.set_comment", "192.0.2.7", "x\n127.0.0.1 bank").retcode == 1
    assert machine.read("/etc/hosts") == HOSTS


def test_names_are_added_and_removed_as_text(machine: Machine) -> None:
    machine.write("/etc/hosts", "127.0.0.1 localhost # me\n")
    assert machine("dnsutil.hosts_append", "/etc/hosts", "127.0.0.1", "localhost,b") == (
        "The following line was added to /etc/hosts:\n127.0.0.1 b"
    )
    assert machine("dnsutil.hosts_append", "/etc/hosts", "127.0.0.1", "b") == (
        "No additional hosts were added to /etc/hosts"
    )
    machine("dnsutil.hosts_remove", "/etc/hosts", "b")
    assert machine.read("/etc/hosts") == "127.0.0.1 localhost # me\n"


# --- fstab


@pytest.mark.parametrize(
    ("args", "kwargs", "done", "after"),
    [
        (["/new", "/dev/sdz1", "ext4"], {}, "new", FSTAB + "/dev/sdz1\t\t/new\text4\tdefaults\t0 0\n"),
        (["/data", "/dev/sdb1", "xfs"], {"opts": "ro,noatime", "pass_num": 2}, "present", FSTAB),
        (["/data", "/dev/sdb1", "xfs"], {"opts": ["rw"]}, "change", "/dev/sdb1\t\t/data\txfs\trw\t0 0\n"),
        (["/data", "/dev/sdb1", "xfs"], {"not_change": True}, "present", FSTAB),
        (["/data", "/dev/sdc1", "xfs"], {"match_on": "name"}, "change", "/dev/sdc1\t\t/data\txfs\tdefaults\t0 0\n"),
        (["/a b", "tmpfs", "tmpfs"], {}, "new", FSTAB + "tmpfs\t\t/a\\040b\ttmpfs\tdefaults\t0 0\n"),
        (["/a\\ b", "tmpfs", "tmpfs"], {}, "new", FSTAB + "tmpfs\t\t/a\\040b\ttmpfs\tdefaults\t0 0\n"),
    ],
)
def test_an_entry_of_fstab_is_new_changed_or_present(
    machine: Machine, args: list[str], kwargs: dict[str, Any], done: str, after: str
) -> None:
    machine.write("/etc/fstab", FSTAB)
    assert machine("mount.set_fstab", *args, **kwargs, test=True) == done
    assert machine.read("/etc/fstab") == FSTAB
    assert machine("mount.set_fstab", *args, **kwargs) == done
    first_lines = "" if done != "change" else "# static\nUUID=1 / ext4 defaults 0 1\n"
    assert machine.read("/etc/fstab") == first_lines + after


def test_a_mount_point_with_white_space_is_found_again_and_removed(machine: Machine) -> None:
    machine.write("/etc/fstab", FSTAB)
    machine("mount.set_fstab", "/a b", "tmpfs", "tmpfs")
    assert machine("mount.fstab")["/a b"]["device"] == "tmpfs"
    assert machine("mount.rm_fstab", "/a b", "nosuch") is True
    assert "/a b" in machine("mount.fstab")
    assert machine("mount.rm_fstab", "/a b") is True
    assert machine.read("/etc/fstab") == FSTAB


@pytest.mark.parametrize(
    "args",
    [["/a\nb", "/dev/x", "ext4"], ["/a", "/dev/x\nb", "ext4"], ["/a", "/dev/x", "ext4 x"], ["/a", "#x", "ext4"]],
)
def test_what_would_be_another_line_of_fstab_is_refused(machine: Machine, args: list[str]) -> None:
    machine.write("/etc/fstab", FSTAB)
    assert machine.outcome("mount.set_fstab", *args).retcode == 1
    assert machine.read("/etc/fstab") == FSTAB


def test_fstab_is_not_made_where_there_is_none(machine: Machine) -> None:
    assert "Bad config file" in machine.outcome("mount.set_fstab", "/a", "/dev/x", "ext4").value
    assert "Unrecognized keys" in machine.outcome("mount.set_fstab", "/a", "/dev/x", "ext4", match_on="x").value


def test_an_automounter_s_entry_comes_changes_and_goes(machine: Machine) -> None:
    args = ("/srv/x", "/dev/sdz1", "ext4")
    assert machine("mount.set_automaster", *args) == "new"
    assert machine("mount.set_automaster", *args) == "present"
    assert machine("mount.set_automaster", *args, opts="ro") == "change"
    assert machine("mount.automaster") == {"/srv/x": {"device": "/dev/sdz1", "fstype": "-fstype=ext4", "opts": ["ro"]}}
    assert machine.read("/etc/auto_master") == "/-\t\t\t/etc/auto_salt\n"
    assert machine("mount.rm_automaster", "/srv/x", "/dev/sdz1") is True
    assert machine("mount.automaster") == {}


def test_what_was_mounted_is_remembered_and_forgotten(machine: Machine) -> None:
    assert machine("mount.write_mount_cache", "/a b", "/dev/x", False, "ext4", ["ro"]) is True
    row = {"device": "/dev/x", "fstype": "ext4", "mkmnt": False, "opts": ["ro"]}
    assert machine("mount.read_mount_cache", "/a b") == row
    assert machine("mount.delete_mount_cache", "/a b") is True
    assert machine("mount.read_mount_cache", "/a b") == {}
    machine.write("/cache/mounts", "[")
    assert "is damaged" in machine.outcome("mount.read_mount_cache", "/a b").value


# --- sysctl


def test_a_parameter_is_set_now_and_written_down_once(machine: Machine) -> None:
    machine.write("/proc/sys/vm/swappiness", "60\n")
    machine.write("/etc/sysctl.conf", "# mine\nvm/swappiness = 1\nvm.swappiness=2")
    assert machine("sysctl.persist", "vm.swappiness", 10, test=True) == "Updated"
    assert machine.read("/proc/sys/vm/swappiness") == "60\n"
    assert machine("sysctl.persist", "vm.swappiness", 10) == "Updated"
    assert machine.read("/etc/sysctl.conf") == "# mine\nvm.swappiness = 10\n"
    assert machine("sysctl.get", "vm.swappiness") == "10"
    assert machine("sysctl.persist", "vm.swappiness", "10") == "Already set"


def test_what_systemd_reads_is_written_where_it_runs(machine: Machine) -> None:
    (machine.root / "run/systemd/system").mkdir(parents=True)
    machine.write("/proc/sys/vm/swappiness", "60\n")
    machine("sysctl.persist", "vm.swappiness", 60)
    assert machine.read("/etc/sysctl.d/99-salt.conf").endswith("#\nvm.swappiness = 60\n")


@pytest.mark.parametrize("name", [*NOT_A_NAME, "../../etc/passwd", "a//b", "a/../b", "vm.none"])
def test_what_is_no_parameter_is_neither_read_nor_written(machine: Machine, name: str) -> None:
    machine.write("/etc/passwd", "x")
    assert machine.outcome("sysctl.get", name).retcode == 1
    assert machine.outcome("sysctl.assign", name, "1").retcode == 1
    assert machine.outcome("sysctl.persist", name, "1").retcode == 1
    assert os.listdir(machine.root) == ["etc"]


def test_a_value_of_two_lines_is_refused(machine: Machine) -> None:
    machine.write("/proc/sys/vm/swappiness", "60\n")
    assert machine.outcome("sysctl.persist", "vm.swappiness", "1\nkernel.panic=1").retcode == 1
    assert machine.read("/proc/sys/vm/swappiness") == "60\n"


# --- kmod


def modules(machine: Machine, *names: str) -> None:
    machine.write("/proc/modules", "".join(f"{name} 4096 0 - Live 0x0\n" for name in names))


def test_available_modules_are_files_and_those_built_in(machine: Machine) -> None:
    folder = f"/lib/modules/{os.uname().release}"
    machine.write(f"{folder}/modules.builtin", "kernel/fs/ext4/ext4.ko\n")
    machine.write(f"{folder}/kernel/drivers/net/dummy-one.ko.xz")
    machine.write(f"{folder}/modules.dep")
    assert machine("kmod.available") == ["dummy_one", "ext4"]
    assert machine("kmod.check_available", "dummy-one") is True


def test_a_module_that_is_to_be_loaded_at_every_start_is_written_down(machine: Machine) -> None:
    modules(machine, "loop")
    machine.write("/etc/modules", "# dummy\nlp\n")
    machine.programs["modprobe", "--", "dummy"] = ""
    machine.programs["rmmod", "--", "dummy"] = ""
    assert machine("kmod.load", "dummy", persist=True) == ["dummy"]
    assert machine.read("/etc/modules") == "dummy\nlp\n"
    assert machine("kmod.mod_list", only_persist=True) == ["dummy", "lp"]
    assert machine("kmod.remove", "dummy", persist=True) == ["dummy"]
    assert machine.read("/etc/modules") == "#dummy\nlp\n"


def test_a_module_that_cannot_be_loaded_gives_the_program_s_words(machine: Machine) -> None:
    modules(machine)
    words = "FATAL: Module x not found in directory /lib/modules/6.1"
    machine.programs["modprobe", "--", "x"] = _programs.Ended("modprobe", 1, "", words + "\n")
    outcome = machine.outcome("kmod.load", "x", persist=True)
    assert (outcome.value, outcome.retcode) == (f"Error loading module x: {words}", 1)
    assert not (machine.root / "etc").exists()


@pytest.mark.parametrize("name", NOT_A_NAME)
@pytest.mark.parametrize("fun", ["kmod.load", "kmod.remove"])
def test_what_is_no_module_of_the_kernel_runs_nothing(machine: Machine, fun: str, name: str) -> None:
    modules(machine)
    assert machine.outcome(fun, name).retcode == 1
    assert machine.ran == []


# --- system, timezone, locale


def test_a_description_is_written_so_that_shells_read_it(machine: Machine) -> None:
    machine.write("/etc/machine-info", "CHASSIS=server\nPRETTY_HOSTNAME=old\n")
    assert machine("system.set_computer_desc", 'the "big" $(id) one\n') is True
    assert machine.read("/etc/machine-info") == 'CHASSIS=server\nPRETTY_HOSTNAME="the \\"big\\" \\$(id) one\\n"\n'
    assert machine("system.get_computer_desc") == 'the "big" $(id) one\n'


@pytest.mark.parametrize(
    ("fun", "args", "argv"),
    [
        ("reboot", [], ["shutdown", "-r", "now"]),
        ("reboot", [5], ["shutdown", "-r", "5"]),
        ("shutdown", ["21:30"], ["shutdown", "-h", "21:30"]),
        ("poweroff", [], ["poweroff"]),
        ("halt", [], ["halt"]),
        ("init", [3], ["init", "3"]),
    ],
)
def test_stopping_a_machine_is_left_to_its_programs(
    machine: Machine, fun: str, args: list[Any], argv: list[str]
) -> None:
    machine.programs[tuple(argv)] = "bye\n"
    assert (machine(f"system.{fun}", *args), machine.ran) == ("bye", [argv])


def test_a_machine_without_shutdown_is_rebooted_all_the_same(machine: Machine) -> None:
    machine.programs["reboot",] = ""
    assert (machine("system.reboot"), machine.ran) == ("", [["reboot"]])


@pytest.mark.parametrize("when", ["tomorrow", "-k", "1; id", "5\n", "25:99:1"])
def test_a_time_that_is_none_stops_nothing(machine: Machine, when: str) -> None:
    assert [machine.outcome(f"system.{fun}", when).retcode for fun in ("reboot", "shutdown", "init")] == [1, 1, 1]
    assert machine.ran == []


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("set_system_time", ["25:00"]),
        ("set_system_date", ["2026-02-30"]),
        ("set_system_date_time", [2026, 2, 30]),
        ("set_system_time", ["12:00", "east"]),
        ("get_system_time", ["+9999"]),
    ],
)
def test_what_is_no_time_is_refused(machine: Machine, fun: str, args: list[Any]) -> None:
    assert machine.outcome(f"system.{fun}", *args).retcode == 1


def test_the_clock_is_set_in_the_zone_that_is_given(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr("time.clock_settime", lambda _, when: seen.append(when))
    assert machine("system.set_system_date_time", 2026, 1, 31, 21, 14, 7, utc_offset="-0500", test=True) is True
    assert seen == []
    assert machine("system.set_system_date_time", 2026, 1, 31, 21, 14, 7, utc_offset="'-0500'") is True
    assert seen == [1769912047.0]


def test_a_zone_is_a_link_that_changes_at_once(machine: Machine) -> None:
    for zone in ("Europe/Berlin", "Etc/UTC", "UTC"):
        machine.write(f"/usr/share/zoneinfo/{zone}", "b" if "/B" in zone else "u")
    machine.write("/etc/timezone", "Etc/UTC\n")
    machine.write("/etc/sysconfig/clock", '# c\nZONE="Etc/UTC"\n')
    machine.write("/etc/localtime", "u")
    assert machine("timezone.set_zone", "Europe/Berlin", test=True) is True
    assert machine("timezone.get_zone") == "Etc/UTC"
    assert machine("timezone.zone_compare", "UTC") is True
    assert machine("timezone.set_zone", "Europe/Berlin") is True
    assert os.readlink(machine.root / "etc/localtime") == "/usr/share/zoneinfo/Europe/Berlin"
    assert machine.read("/etc/timezone") == "Europe/Berlin\n"
    assert machine.read("/etc/sysconfig/clock") == '# c\nZONE="Europe/Berlin"\n'
    assert machine("timezone.get_zone") == "Europe/Berlin"
    assert machine.outcome("timezone.zone_compare", "UTC").value is False


@pytest.mark.parametrize("zone", [*NOT_A_NAME, "../../../etc/shadow", "Europe/None", "Europe", "/etc/passwd"])
def test_what_is_no_zone_changes_nothing(machine: Machine, zone: str) -> None:
    (machine.root / "usr/share/zoneinfo/Europe").mkdir(parents=True)
    machine.write("/etc/shadow", "x")
    assert machine.outcome("timezone.set_zone", zone).retcode == 1
    assert os.listdir(machine.root / "etc") == ["shadow"]


def test_how_the_hardware_clock_is_read_is_left_to_a_program(machine: Machine) -> None:
    machine.programs["hwclock", "--systohc", "--localtime"] = ""
    assert machine("timezone.set_hwclock", "localtime") is True
    assert machine.outcome("timezone.set_hwclock", "Mars").retcode == 1
    assert len(machine.ran) == 1


@pytest.mark.parametrize(
    ("family", "there", "path", "after"),
    [
        ("Debian", {"/etc/default/locale": "# x\nLANG=C\n"}, "/etc/default/locale", "# x\nLANG=de_DE.UTF-8\n"),
        ("Debian", {}, "/etc/default/locale", "LANG=de_DE.UTF-8\n"),
        ("RedHat", {}, "/etc/locale.conf", "LANG=de_DE.UTF-8\n"),
        ("RedHat", {"/etc/locale.conf": "LC_TIME=C"}, "/etc/locale.conf", "LC_TIME=C\nLANG=de_DE.UTF-8\n"),
        (
            "Suse",
            {"/etc/sysconfig/language": 'RC_LANG="C"\n'},
            "/etc/sysconfig/language",
            'RC_LANG="de_DE.UTF-8"\n',
        ),
    ],
)
def test_a_locale_is_set_where_the_distribution_keeps_it(
    machine: Machine, family: str, there: dict[str, str], path: str, after: str
) -> None:
    machine.grains["os_family"] = family
    for each, text in there.items():
        machine.write(each, text)
    assert machine("locale.set_locale", "de_DE.UTF-8") is True
    assert machine.read(path) == after
    assert machine("locale.get_locale") == "de_DE.UTF-8"


def test_a_locale_is_asked_for_and_made(machine: Machine) -> None:
    machine.write("/usr/share/i18n/SUPPORTED", "de_DE.UTF-8 UTF-8\nde_DE ISO-8859-1\n")
    machine.write("/etc/locale.gen", "# list\n# de_DE ISO-8859-1\n# de_DE.UTF-8 UTF-8\n")
    machine.programs["locale-gen",] = ""
    assert machine("locale.gen_locale", "de_DE.UTF-8") is True
    assert machine.read("/etc/locale.gen") == "# list\n# de_DE ISO-8859-1\nde_DE.UTF-8 UTF-8\n"
    assert machine.outcome("locale.gen_locale", "xx_XX.UTF-8").value is False
    assert machine.ran == [["locale-gen"]]


def test_a_locale_is_made_of_its_source_where_there_is_no_list(machine: Machine) -> None:
    machine.write("/usr/share/i18n/locales/de_DE")
    machine.programs["localedef", "--force", "-i", "de_DE", "-f", "UTF-8", "de_DE.UTF-8"] = ""
    assert machine("locale.gen_locale", "de_DE.UTF-8", verbose=True) == {"retcode": 0, "stdout": "", "stderr": ""}


@pytest.mark.parametrize("name", NOT_A_NAME)
def test_what_is_no_locale_changes_nothing(machine: Machine, name: str) -> None:
    assert machine.outcome("locale.set_locale", name).retcode == 1
    generated = machine.outcome("locale.gen_locale", name)
    assert generated.retcode == 1 or generated.value is False
    assert (os.listdir(machine.root), machine.ran) == ([], [])
