"""`dnsutil` as a job calls it: policies of mail, zone files, and serial numbers that the minion keeps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.grains.collect import static_grains
from tests.support.machine import Machine, machine_in

INDEX = build_index(search_layers({}))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return machine_in(tmp_path, monkeypatch)


# --- SPF


def says(machine: Machine, domain: str, record: str, answer: str) -> None:
    machine.programs["dig", "+short", "+time=3", "+tries=2", domain, record] = answer


def test_the_senders_of_a_domain_are_those_of_the_domains_it_includes_too(machine: Machine) -> None:
    said = '"other text"\n"v=spf1 ip4:192.0.2.0/2" "4 a mx -ip4:198.51.100.1 include:b.example ip4:nonsense ~all"\n'
    says(machine, "a.example", "SPF", "")
    says(machine, "a.example", "TXT", said)
    says(machine, "b.example", "SPF", '"v=spf1 +ip6:2001:db8::/32 include:a.example redirect=c.example"\n')
    says(machine, "c.example", "SPF", "")
    says(machine, "c.example", "TXT", '"v=spf10 ip4:203.0.113.1"\n')
    assert machine("dnsutil.SPF", "a.example") == ["192.0.2.0/24", "2001:db8::/32"]
    assert [argv[-2:] for argv in machine.ran].count(["a.example", "TXT"]) == 1


def test_a_policy_without_an_end_is_refused(machine: Machine) -> None:
    for number in range(100):
        says(machine, f"d{number}.example", "TXT", f'"v=spf1 include:d{number + 1}.example"\n')
    said = machine.outcome("dnsutil.SPF", "d0.example", "TXT")
    assert (said.retcode, "more than 32 names" in said.value) == (1, True)
    assert machine.outcome("dnsutil.SPF", "a.example", "A").retcode == 1


def test_a_policy_names_no_options_of_dig(machine: Machine) -> None:
    says(machine, "a.example", "TXT", '"v=spf1 include:-f/etc/shadow"\n')
    assert "cannot be a name" in machine.outcome("dnsutil.SPF", "a.example", "TXT").value


# --- serial numbers


def serial(folder: Path, *args: Any, **kwargs: Any) -> Outcome:
    opts = {"id": "ns1", "conf_file": str(folder / "minion")}
    return call(Loader(INDEX, opts, {"id": "ns1", **static_grains(opts)}, {}), "dnsutil.serial", args, kwargs)


def test_a_serial_number_is_kept_as_a_grain_and_goes_up(tmp_path: Path) -> None:
    today = time.strftime("%Y%m%d01")
    assert serial(tmp_path, "a.example").value == today
    assert not (tmp_path / "grains").exists()
    assert serial(tmp_path, "a.example", update=True).value == today
    assert serial(tmp_path, "a.example", update=True).value == str(int(today) + 1)
    assert serial(tmp_path, "a.example").value == str(int(today) + 1)
    assert serial(tmp_path).value == today
    (tmp_path / "grains").write_text("dnsserial_b: 2001010105\ndnsserial_c: x1\n")
    assert (serial(tmp_path, "b").value, serial(tmp_path, "b", True).value) == ("2001010105", today)
    assert (serial(tmp_path, "c").retcode, serial(tmp_path, "a\nb").retcode) == (1, 1)


# --- zone files

ZONE = """\
$ORIGIN example.com.     ; where names begin
$TTL 1h
example.com.  IN  SOA  ns.example.com. username.example.com. (
              2007120710 ; serial
              1d 2h 4w 1h30m )
example.com.  NS    ns
              NS    ns.somewhere.example.
@        IN   MX    10 mail.example.com.
@             MX    50 mail3
example.com.  A     192.0.2.1
              AAAA  2001:db8:10::1
ns    300 IN  A     192.0.2.2
mail  IN 1h   A     192.0.2.3
www           CNAME example.com.
ftp           CNAME www
@             TXT   "v=spf1; -all" "more"
_sip._tcp     SRV   0 5 5060 sip"""


def test_a_zone_file_is_read(machine: Machine) -> None:
    machine.write("/etc/zone", ZONE)
    expected = {
        "ORIGIN": "example.com.",
        "TTL": "1h",
        "NETWORK": "IN",
        "SOURCE": "ns.example.com.",
        "CONTACT": "username@example.com.",
        "SERIAL": "2007120710",
        "REFRESH": 86400,
        "RETRY": 7200,
        "EXPIRE": 604800,
        "MINTTL": 5400,
        "NS": ["ns.example.com.", "ns.somewhere.example."],
        "MX": [
            {"priority": "10", "host": "mail.example.com."},
            {"priority": "50", "host": "mail3.example.com."},
        ],
        "A": {
            "example.com.": "192.0.2.1",
            "ns.example.com.": {"TARGET": "192.0.2.2", "TTL": "300"},
            "mail.example.com.": {"TARGET": "192.0.2.3", "TTL": "1h"},
        },
        "AAAA": {"example.com.": "2001:db8:10::1"},
        "CNAME": {"www.example.com.": "example.com.", "ftp.example.com.": "www.example.com."},
        "TXT": {"example.com.": '"v=spf1; -all" "more"'},
        "SRV": {"_sip._tcp.example.com.": "0 5 5060 sip"},
    }
    assert machine("dnsutil.parse_zone", "/etc/zone") == expected
    assert machine("dnsutil.parse_zone", zone=ZONE) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a. IN SOA b. c. ( 1 2 3\n", "The parenthesis of line 1 of the zone file is not closed."),
        ('\na. TXT "x\n', "Line 2 of the zone file has a quotation mark"),
        ("a. A 192.0.2.1\nb. IN\n", "Line 2 of the zone file is not a record: 'b. IN'."),
        ("  A 192.0.2.1\n", "Line 1 of the zone file is not a record"),
        ("a. SOA b. c. 1 2 3 4 never\n", "'never' is not a time in a zone file."),
        ("a. MX 10\n", "Line 1 of the zone file is not a record"),
    ],
)
def test_what_is_no_zone_file_is_refused_by_its_line(machine: Machine, text: str, sentence: str) -> None:
    said = machine.outcome("dnsutil.parse_zone", zone=text)
    assert (said.retcode, sentence in said.value, "\n" in said.value) == (1, True, False), said.value


def test_a_zone_file_has_to_be_named_and_there(machine: Machine) -> None:
    assert machine.outcome("dnsutil.parse_zone").retcode == 1
    assert "/none cannot be read" in machine.outcome("dnsutil.parse_zone", "/none").value
