"""`iptables` and `nftables`: recorded rules, and the real programs in a network of the test's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import SaltInvocationError
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import iptables, nftables

INDEX = build_index(search_layers({}))
DATA = Path(__file__).parent.parent / "data/iptables"
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {"os": "Debian", "os_family": "Debian"}, {}), fun, args, kwargs)


@pytest.fixture(autouse=True)
def _programs() -> None:
    for name, package in (("iptables", "iptables"), ("nft", "nftables")):
        assert shutil.which(name, path=PATH), f"install the Debian package {package}: these tests run it"


def test_saved_rules_are_read_in_salts_shape() -> None:
    saved = str(DATA / "save.txt")
    assert run("iptables.get_saved_rules", saved).value == json.loads((DATA / "save.json").read_text())
    assert run("iptables.get_saved_policy", "filter", "INPUT", saved).value == "DROP"
    assert run("iptables.get_saved_policy", "filter", "NOSUCH", saved).value is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (":INPUT\n", "ERROR: Line 2 of {} is not a rule: ':INPUT'."),
        ("-A NOSUCH -j DROP\n", "ERROR: Line 2 of {} is not a rule: '-A NOSUCH -j DROP'."),
        ("[0:0] nonsense\n", "ERROR: Line 2 of {} is not a rule: '[0:0] nonsense'."),
        ("-j DROP\n# x\nCOMMIT", {"filter": {}}),
    ],
)
def test_what_is_no_saved_rule_is_named_or_left_out(tmp_path: Path, text: str, said: Any) -> None:
    path = tmp_path / "rules"
    path.write_text("*filter\n" + text)
    expected = said.format(path) if isinstance(said, str) else said
    assert run("iptables.get_saved_rules", str(path)).value == expected


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        ("iptables.get_saved_rules", ("/nosuch",), "cannot be read"),
        ("iptables.get_saved_rules", ("a\0b",), "cannot be read"),
        ("iptables.get_rules", ("ipx",), "family is ipv4 or ipv6"),
        ("iptables.get_policy", (), "Chain needs to be specified"),
        ("iptables.get_saved_policy", (), "Chain needs to be specified"),
        ("iptables.check", (), "Chain needs to be specified"),
        ("iptables.check", ("filter", "INPUT"), "Rule needs to be specified"),
        ("iptables.check", ("filter", "INPUT", "'"), "cannot be split"),
        ("iptables.check", ("filter", "INPUT", "-t nat -j DROP"), "is not part of a rule"),
        ("iptables.check", ("filter", "INPUT", "--modprobe=/bin/id"), "is not part of a rule"),
        ("iptables.check", ("-x", "INPUT", "-j DROP"), "is not the name of a table"),
        ("iptables.check", ("filter", "a b", "-j DROP"), "is not the name of a chain"),
        ("iptables.check_chain", ("filter;", "INPUT"), "is not the name of a table"),
        ("iptables.check_chain", (), "Chain needs to be specified"),
        ("nftables.list_tables", ("ipx",), "family is one of"),
        ("nftables.get_policy", (), "Chain needs to be specified"),
        ("nftables.check_chain", ("x; flush ruleset", "y"), "is not the name of a table"),
        ("nftables.check_chain", ("x", "y; flush ruleset"), "is not the name of a chain"),
        ("nftables.check_chain", ("x", "-y"), "is not the name of a chain"),
        ("nftables.check_chain", (), "Chain needs to be specified"),
        ("nftables.check_table", (), "Table needs to be specified"),
        ("nftables.check", (), "Chain needs to be specified"),
        ("nftables.check", ("x", "y"), "Rule needs to be specified"),
    ],
)
def test_what_is_no_name_is_refused_before_anything_runs(fun: str, args: Any, words: str) -> None:
    said = run(fun, *args).value
    assert words in (said["comment"] if isinstance(said, dict) else said)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(64 * 1024 * 1024 + 1)
    assert "it does not contain saved rules" in run("iptables.get_saved_rules", str(path)).value


INSIDE = """
import json, subprocess, sys
from tests.integration.test_module_firewalls import run

for line in sys.stdin.read().splitlines():
    subprocess.run(line.split(" ", 1) if line.startswith("nft ") else line.split(), check=True)
rule = "-p tcp -m tcp --dport 22 -j ACCEPT"
print(json.dumps([
    run("iptables.version").value[:2],
    run("iptables.get_policy", "filter", "FORWARD").value,
    run("iptables.get_rules").value["filter"]["INPUT"]["rules"],
    run("iptables.check", "filter", "INPUT", rule).value,
    run("iptables.check", "filter", "INPUT", "--nosuch").value,
    run("iptables.check", "filter", "INPUT", "-s 10.0.0.1 -j DROP").value,
    run("iptables.check_chain", "filter", "mine").value,
    run("iptables.check_chain", "filter", "min").value,
    run("nftables.version").value[:1],
    [table["name"] for table in run("nftables.list_tables", "inet").value],
    "tcp dport 22" in run("nftables.get_rules", "inet").value[0],
    [key for item in run("nftables.get_rules_json", "inet").value for key in item],
    run("nftables.get_policy", "t", "c", "inet").value,
    run("nftables.check_table", "t", "inet").value,
    run("nftables.check_table", "u", "inet").value,
    run("nftables.check_chain", "t", "c", "inet").value["result"],
    run("nftables.check_chain", "t", "d", "inet").value,
    run("nftables.check", "t", "c", "tcp dport { 22 } counter accept", "inet").value,
    run("nftables.check", "t", "c", "accept", "inet").value["result"],
    run("nftables.get_rule_handle", "t", "c", "tcp dport 22 counter accept", "inet").value,
    run("nftables.check", "u", "c", "accept", "inet").value["result"],
]))
"""
BEFORE = """iptables -P FORWARD DROP
iptables -N mine
iptables -A INPUT -p tcp --dport 22 -j ACCEPT
nft add table inet t
nft add chain inet t c { type filter hook input priority 0; policy drop; }
nft add rule inet t c tcp dport 22 counter accept
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has packet filters")
def test_the_rules_of_this_machine_are_those_that_were_made() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", INSIDE], input=BEFORE, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": PATH, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said[:8] == [
        "v1", "DROP",
        [{"protocol": ["tcp"], "match": ["tcp"], "destination_port": ["22"], "jump": ["ACCEPT"]}],
        True, said[4], False, True, False,
    ]  # fmt: skip
    assert "iptables cannot check the rule: " in said[4]
    assert 'unknown option "--nosuch"' in said[4]
    assert said[8:13] == ["v", ["t"], True, ["metainfo", "table", "chain", "rule"], "drop"]
    assert said[13:] == [
        {"comment": "Table t in family inet exists", "result": True},
        {"comment": "Table u in family inet does not exist", "result": False},
        True,
        {"comment": "Chain d in table t in family inet does not exist", "result": False},
        {
            "comment": "Rule tcp dport { 22 } counter accept in chain c in table t in family inet exists",
            "result": True,
        },
        False,
        {"result": True, "handle": "2"},
        False,
    ]


# -- changes


CHANGES = """
import json, sys
from tests.integration.test_module_firewalls import run

def said(fun, *args, **kwargs):
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 0, (fun, outcome)
    return outcome.value

ssh = "-p tcp -m tcp --dport 22 -j ACCEPT"
print(json.dumps({
    "ip": [
        said("iptables.new_chain", "filter", "mine"),
        said("iptables.append", "filter", "INPUT", ssh),
        said("iptables.append", "filter", "INPUT", ssh),
        said("iptables.insert", "filter", "INPUT", 1, "-s 10.0.0.1 -j DROP"),
        [rule["jump"] for rule in said("iptables.get_rules")["filter"]["INPUT"]["rules"]],
        said("iptables.delete", "filter", "INPUT", 1),
        said("iptables.delete", "filter", "INPUT", rule=ssh),
        said("iptables.get_rules")["filter"]["INPUT"]["rules"],
        said("iptables.set_policy", "filter", "FORWARD", "DROP"),
        said("iptables.get_policy", "filter", "FORWARD"),
        [said("iptables.save", sys.argv[1]) for _again in range(2)][1],
        said("iptables.get_saved_policy", "filter", "FORWARD", sys.argv[1]),
        said("iptables.append", "filter", "mine", said("iptables.build_rule", proto="tcp", dport=80, jump="ACCEPT")),
        said("iptables.flush", "filter", "mine"),
        said("iptables.delete_chain", "filter", "mine"),
        said("iptables.check_chain", "filter", "mine"),
        run("iptables.delete_chain", "filter", "mine").retcode,
    ],
    "nft": [
        said("nftables.new_table", "t", "inet"),
        said("nftables.new_table", "t", "inet")["comment"],
        said("nftables.new_chain", "t", "c", "filter", "input", 0, "inet")["result"],
        said("nftables.new_chain", "t", "plain", family="inet")["result"],
        said("nftables.append", "t", "c", "tcp dport 22 accept", "inet")["result"],
        said("nftables.append", "t", "c", "tcp dport 22 accept", "inet")["comment"],
        said("nftables.insert", "t", "c", rule="tcp dport 23 drop", family="inet")["result"],
        [line.strip() for line in said("nftables.get_rules", "inet")[0].split(chr(10)) if "dport" in line],
        said("nftables.delete", "t", "c", rule="tcp dport 23 drop", family="inet")["result"],
        said("nftables.set_policy", "t", "c", "drop", "inet"),
        said("nftables.set_policy", "t", "nosuch", "drop", "inet"),
        said("nftables.get_policy", "t", "c", "inet"),
        "tcp dport 22 accept" in [said("nftables.save", sys.argv[2], "inet") for _again in range(2)][1],
        said("nftables.flush", "t", "c", "inet")["comment"],
        run("nftables.check", "t", "c", "tcp dport 22 accept", "inet").value["result"],
        said("nftables.delete_chain", "t", "plain", "inet")["result"],
        run("nftables.append", "t", "c", "nonsense here", "inet").value,
        said("nftables.delete_table", "t", "inet")["result"],
        run("nftables.delete_table", "t", "inet").value,
    ],
}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has packet filters")
def test_rules_are_made_changed_saved_and_deleted(tmp_path: Path) -> None:
    saved, nft = tmp_path / "new/rules.v4", tmp_path / "mine.nft"
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", CHANGES, str(saved), str(nft)], capture_output=True, text=True,
        env={**os.environ, "PATH": PATH, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["ip"][:10] == [True, True, False, "", [["DROP"], ["ACCEPT"]], "", "", [], "", "DROP"]
    assert said["ip"][10].endswith(f'lines to "{saved}"')
    assert said["ip"][11:] == ["DROP", True, "", True, False, 1]
    assert (saved.stat().st_mode & 0o777, nft.stat().st_mode & 0o777) == (0o600, 0o600)
    assert "tcp dport 22 accept" in nft.read_text()
    assert said["nft"][:16] == [
        {"result": True, "comment": "Table t in family inet created"}, "Table t in family inet already exists", True,
        True, True, "Rule tcp dport 22 accept in chain c in table t in family inet exists", True,
        ["tcp dport 23 drop", "tcp dport 22 accept"], True, True, False, "drop", True,
        "Flushed rules from chain c in table t in family inet.", False, True,
    ]  # fmt: skip
    assert (said["nft"][16]["result"], "nft failed: " in said["nft"][16]["comment"]) == (False, True)
    assert said["nft"][17:] == [True, {"result": False, "comment": "Table t in family inet does not exist"}]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"match": "state", "connstate": "NEW,INVALID", "jump": "DROP"}, "-m state --state NEW,INVALID --jump DROP"),
        ({"connstate": "NEW", "jump": "DROP"}, "-m state --state NEW --jump DROP"),
        ({"jump": "ACCEPT", "dport": 80, "proto": "tcp"}, "-p tcp --dport 80 --jump ACCEPT"),
        ({"proto": "tcp", "dports": [80, 443], "jump": "ACCEPT"}, "-p tcp -m multiport --dports 80,443 --jump ACCEPT"),
        ({"if": "!eth0", "source": "not 10.0.0.0/8", "j": "DROP"}, "! -i eth0 ! --source 10.0.0.0/8 --jump DROP"),
        ({"jump": "LOG", "log-prefix": "in: "}, '--jump LOG --log-prefix "in: "'),
        ({"jump": "DROP", "comment": "two words"}, '-m comment --comment "two words" --jump DROP'),
        ({"target": "REJECT", "reject-with": "tcp-reset", "save": True}, "--jump REJECT --reject-with tcp-reset"),
        ({"proto": "tcp", "syn": None, "jump": "DROP"}, "-p tcp --syn --jump DROP"),
        ({"match-set": "!bad src,dst", "jump": "DROP"}, "-m set ! --match-set bad src,dst --jump DROP"),
        ({"proto": "udp", "source": "::1", "sport": 1, "dport": 2}, "-p udp --dport 2 --sport 1 --source ::1"),
    ],
)  # fmt: skip
def test_a_rule_is_built_of_keywords(given: dict[str, Any], rule: str) -> None:
    assert run("iptables.build_rule", **given).value == rule


def test_a_whole_command_is_built(tmp_path: Path) -> None:
    built = run("iptables.build_rule", "filter", "INPUT", "I", 3, full=True, jump="DROP", family="ipv6").value
    assert built == "ip6tables --wait -t filter -I INPUT 3 --jump DROP"
    assert run("iptables.build_rule", "filter", full=True).value == "Error: Chain needs to be specified"
    # As a command line gives it.
    built = run("iptables.build_rule", "in-interface=!eth0", "to-destination=10.0.0.9:80", jump="DNAT").value
    assert built == "! --in-interface eth0 --jump DNAT --to-destination 10.0.0.9:80"
    built = run("iptables.build_rule", "out-interface=eth0", "X", "A", full=True, jump="DROP").value
    assert built == "iptables --wait -t filter -A X --out-interface eth0 --jump DROP"


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        ("iptables.append", (), "Chain needs to be specified"),
        ("iptables.append", ("filter", "INPUT"), "Rule needs to be specified"),
        ("iptables.append", ("filter", "INPUT", "-t nat -j DROP"), "is not part of a rule"),
        ("iptables.insert", ("filter", "INPUT", None, "-j DROP"), "Position needs to be specified"),
        ("iptables.delete", ("filter", "INPUT", 1, "-j DROP"), "Only specify a position or a rule, not both"),
        ("iptables.delete", ("filter", "INPUT"), "Position or rule needs to be specified"),
        ("iptables.set_policy", ("filter", "INPUT", "-j"), "is not the name of a policy"),
        ("iptables.flush", ("filter", "-Z"), "is not the name of a chain"),
        ("iptables.save", ("relative",), "is not an absolute path"),
        ("nftables.new_table", ("x; flush ruleset",), "is not the name of a table"),
        ("nftables.set_policy", ("t", "c", "x; }"), "A policy is accept or drop"),
        ("nftables.save", ("relative",), "is not an absolute path"),
    ],
)
def test_what_is_no_change_is_refused_before_anything_runs(fun: str, args: Any, words: str) -> None:
    assert words in str(run(fun, *args).value)


def test_a_rule_of_nft_is_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nftables, "_look", lambda *_args: ({"result": False, "comment": "Rule x does not exist"}, ""))
    for rule in ("accept; flush ruleset", "accept\nflush ruleset"):
        with pytest.raises(SaltInvocationError, match="is not one rule"):
            nftables.append("t", "c", rule)


@pytest.mark.parametrize(
    "word", ["--tab=nat", "--t nat", "-vt nat", "-tnat", "--modp=/bin/id", "--mo", "-vM/bin/id", "-M"]
)
def test_an_abbreviated_option_selects_no_other_table_and_no_program(word: str) -> None:
    assert "is not part of a rule" in run("iptables.check", "filter", "INPUT", f"-j ACCEPT {word}").value


def test_values_and_longer_options_are_not_taken_for_a_table() -> None:
    words = ["-ptcp", "-mtcp", "-jMARK", "--to", "1.2.3.4", "--mode", "random", "--tcp-flags", "SYN", "SYN", "-f"]
    assert iptables._words(" ".join(words)) == words


@pytest.mark.parametrize("module", ["iptables", "nftables"])
def test_rules_replace_no_file_of_another_kind(tmp_path: Path, module: str) -> None:
    path = tmp_path / "sudoers"
    path.write_text("root ALL=(ALL) ALL\n")
    assert f"{path} is not replaced: it does not contain rules of" in run(f"{module}.save", str(path)).value
    assert path.read_text() == "root ALL=(ALL) ALL\n"
    assert {"iptables": iptables, "nftables": nftables}[module].__risk__["save"] == "firewall"
