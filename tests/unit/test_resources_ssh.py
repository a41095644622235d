"""Hosts of the resource type `ssh` as the pillar may describe them, and what hosts may say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.resources.types.ssh import ADDRESSES_MAX, OUTPUT_MAX, VALUE_MAX, _read_grains
from saltlite.resources.types.ssh._client import SECRET_MAX, TIMEOUT_MAX_S, Host, host_of, sentence_of

REDHAT = b"""\
kernel=Linux
kernelrelease=5.14.0-70.el9.x86_64
cpuarch=x86_64
nodename=db-1
fqdn=db-1.example.org
num_cpus=4
mem_kib=16384000
init=systemd
release_ID="rocky"
release_ID_LIKE="rhel centos fedora"
release_NAME="Rocky Linux"
release_PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"
release_VERSION_ID="9.4"
release_VERSION_CODENAME=
ipv4=127.0.0.1
ipv4=10.0.0.10
ipv4=10.0.0.9
end=end
"""


def host(**more: Any) -> Host:
    return host_of("web-1", {"host": "192.0.2.1", **more})


def test_a_host_needs_no_more_than_its_address() -> None:
    found = host()
    assert (found.user, found.port, found.timeout, found.host_key_checking) == ("root", 22, 30.0, "yes")


@pytest.mark.parametrize(
    ("setting", "checking"),
    [("accept_new_host_keys", "accept-new"), ("ignore_host_keys", "no"), ("no_host_keys", "no")],
)
def test_host_keys_are_checked_less_only_by_name(setting: str, checking: str) -> None:
    assert host(**{setting: True}).host_key_checking == checking
    assert host(**{setting: False}).host_key_checking == "yes"


def test_one_way_of_checking_host_keys_is_enough() -> None:
    with pytest.raises(CommandExecutionError, match="only one of"):
        host(accept_new_host_keys=True, no_host_keys=True)


@pytest.mark.parametrize("value", ["web-1.example.org", "192.0.2.1", "2001:db8::1", "fe80::1%eth0", "_srv"])
def test_names_and_addresses_are_hosts(value: str) -> None:
    assert host(host=value).host == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("host", value)
            for value in ("-oProxyCommand=id", "a b", "a;id", "$(id)", "a\n", "root@x", "", 5, "x" * 300)
        ),
        *(("user", value) for value in ("-l", "a b", "a;id", "$(id)", "a\n", "a'b", "", 5)),
        *(("port", value) for value in (0, 65_536, "22", True, 22.5)),
        *(("priv", value) for value in ("relative", "-x", "/a\n", '/a"b', 5)),
        *(("known_hosts_file", value) for value in ("relative", '/a" /b')),
        *(("ssh_options", value) for value in ("A=b", ["-oA=b"], ["A=b\nC=d"], ["A"], [5])),
        *(("timeout", value) for value in (0, -1, "30", True, TIMEOUT_MAX_S + 1)),
        *(("passwd", value) for value in ("", "a\nb", "ä" * (SECRET_MAX // 2) + "x", 12_345)),
        *(("sudo", value) for value in ("yes", 1)),
        *(("keepalive_interval", value) for value in (0, 86_401)),
        ("keepalive_count_max", 1001),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_the_name_of_its_option(name: str, value: Any) -> None:
    with pytest.raises(CommandExecutionError, match=rf"^Pillar of ssh, host 'web-1': {name} "):
        host(**{name: value})


def test_secrets_are_in_no_message_and_no_representation() -> None:
    assert "hunter2" not in repr(host(passwd="hunter2", priv_passwd="hunter2"))
    with pytest.raises(CommandExecutionError) as caught:
        host(passwd="hunter2\n")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("pillar", [None, "192.0.2.1", [], {}])
def test_what_describes_no_host_is_refused(pillar: Any) -> None:
    with pytest.raises(CommandExecutionError, match="host"):
        host_of("web-1", pillar)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("ssh: connect to host x port 22: Connection refused\r\n", "connection refused"),
        ("ssh: connect to host x port 22: Connection timed out", "timed out after 30 s"),
        ("ssh: connect to host x port 22: No route to host", "no route"),
        ("kex_exchange_identification: Connection closed by remote host", "connection closed"),
        ("Timeout, server x not responding.", "connection lost"),
        ("", "connection lost"),
        ("Unable to negotiate with x port 22: no matching host key type found. Their offer: ssh-dss", "ssh-dss"),
        ("Received disconnect from x: 2: Too many authentication failures", "identities_only"),
        ("ControlSocket /x already exists, disabling multiplexing\nsomething new", "failed: something new"),
    ],
)
def test_what_ssh_writes_becomes_a_sentence_that_names_the_resource(log: str, said: str) -> None:
    found = sentence_of(host(), log)
    assert found.startswith("web-1: ")
    assert said in found


def test_grains_are_named_and_shaped_as_those_of_minions() -> None:
    found = _read_grains(REDHAT)
    assert found == {
        "kernel": "Linux",
        "kernelrelease": "5.14.0-70.el9.x86_64",
        "cpuarch": "x86_64",
        "nodename": "db-1",
        "fqdn": "db-1.example.org",
        "init": "systemd",
        "num_cpus": 4,
        "mem_total": 16_000,
        "ipv4": ["10.0.0.9", "10.0.0.10", "127.0.0.1"],
        "os": "Rocky",
        "os_family": "RedHat",
        "osfullname": "Rocky Linux",
        "osrelease": "9.4",
        "osrelease_info": [9, 4],
        "osmajorrelease": 9,
        "oscodename": "Rocky Linux 9.4 (Blue Onyx)",
        "osfinger": "Rocky Linux-9",
    }


def test_an_unknown_system_has_the_family_of_what_it_is_like() -> None:
    printed = b"kernel=Linux\nrelease_ID=thing\nrelease_ID_LIKE=debian\nrelease_NAME='Thing OS'\nend=end\n"
    found = _read_grains(printed)
    assert (found["os"], found["os_family"]) == ("Thing", "Debian")


@pytest.mark.parametrize(
    "printed",
    [
        b"",
        b"kernel=Linux\n",
        REDHAT[:-1],
        REDHAT + b"more\n",
        b"roles=admin\nend=end\n",
        b"\x1b[2J=x\nend=end\n",
        b"kernel=\x1b[2J\nend=end\n",
        b"kernel=" + b"x" * (VALUE_MAX + 1) + b"\nend=end\n",
        b"num_cpus=4; id\nend=end\n",
        b"num_cpus=" + b"9" * 16 + b"\nend=end\n",
        b"mem_kib=-1\nend=end\n",
        b"ipv4=999.1.1.1\nend=end\n",
        b"ipv4=10.0.0.1\n" * (OUTPUT_MAX // 14 + 1) + b"end=end\n",
    ],
)
def test_output_that_is_not_of_the_script_is_an_error(printed: bytes) -> None:
    with pytest.raises(CommandExecutionError, match="The host printed"):
        _read_grains(printed)


def test_a_host_with_very_many_addresses_has_the_first_of_them() -> None:
    printed = b"".join(b"ipv4=10.0.%d.%d\n" % divmod(number, 256) for number in range(ADDRESSES_MAX + 50))
    assert len(_read_grains(b"kernel=Linux\n" + printed + b"end=end\n")["ipv4"]) == ADDRESSES_MAX
