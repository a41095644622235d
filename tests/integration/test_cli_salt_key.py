"""`saltlite-key` with the options of salt-key, against a scripted master on a real Unix socket."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from saltlite import __version__
from saltlite.cli import exitcodes
from saltlite.cli.main import main_key
from saltlite.cli.options import Option
from saltlite.cli.salt_options import KEY, PROGRAMS
from saltlite.cli.verbs.salt_key import ACTIONS
from tests.integration.fakemaster import FakeMaster, Step

ROOT = Path(__file__).resolve().parents[2]
STATES = {"db1": "accepted", "db2": "accepted", "web1": "pending", "web2": "pending", "web3": "rejected"} | {
    "web4": "conflict"
}
FP = {minion: f"{letter * 5}" + "-AAAAA" * 7 for minion, letter in zip(STATES, "ABCDEF", strict=True)}
PEM = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEA\n-----END PUBLIC KEY-----\n"
FOUR = {
    "minions": ["db1", "db2"],
    "minions_denied": ["web4"],
    "minions_pre": ["web1", "web2"],
    "minions_rejected": ["web3"],
}


def rows(states: dict[str, str]) -> list[dict[str, Any]]:
    more = {"address": "10.0.0.1", "first_seen": 0.0, "changed_at": 0.0, "how": ""}
    return [{"id": minion, "fingerprint": FP[minion], "state": state, **more} for minion, state in states.items()]


class Keys:
    """A script for FakeMaster: these keys; a change of those in `refuses` is refused."""

    def __init__(self, states: dict[str, str] | None = None, refuses: tuple[str, ...] = ()) -> None:
        self.rows = rows(STATES if states is None else states)
        self.refuses = refuses

    def __call__(self, request: dict[str, Any]) -> Iterable[Step]:
        if request["verb"] == "key_list":
            public = {"public": PEM} if request.get("public") else {}
            yield {"ok": True, "keys": [row | public for row in self.rows]}
        elif request["verb"] == "key_finger":
            yield {"ok": True, "fleet": "F", "master": {"fingerprint": "OWN", "name": "m", "not_after": 0}}
        else:
            wanted = [row for row in self.rows if row["fingerprint"] in request["fingerprints"]]
            refused = [row | {"reason": "db1 holds this id"} for row in wanted if row["id"] in self.refuses]
            yield {"ok": True, "changed": [row for row in wanted if row["id"] not in self.refuses], "refused": refused}


class Ran:
    """One command line: its exit code, output, and the changes that the master was asked for."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], *words: str, keys: Keys | None = None) -> None:
        own = folder / str(len(list(folder.iterdir())))
        own.mkdir()
        with FakeMaster(own, keys or Keys()) as master:
            self.code = main_key(["-c", master.config_dir, *words])
        self.out, self.err = capsys.readouterr()
        ids = {fingerprint: minion for minion, fingerprint in FP.items()}
        self.verbs = [request["verb"] for request in master.requests]
        self.changes = [
            (request["action"], [ids[one] for one in request["fingerprints"]])
            for request in master.requests
            if request["verb"] == "key_change"
        ]


@pytest.fixture
def ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *words, keys=None: Ran(tmp_path, capsys, *words, keys=keys)


TEXT = """\
Accepted Keys:
db1
db2
Denied Keys:
web4
Unaccepted Keys:
web1
web2
Rejected Keys:
web3
"""


@pytest.mark.parametrize("words", [[], ["-L"], ["--list-all"], ["-l", "all"], ["--list=all"]])
def test_all_keys_are_listed_in_the_sections_of_salt(ran: Any, words: list[str]) -> None:
    done = ran(*words)
    assert (done.code, done.out, done.err) == (0, TEXT, "")
    assert json.loads(ran(*words, "--out=json").out) == FOUR


def test_every_list_of_salt_is_there_when_it_is_empty_and_that_of_revoked_keys_when_it_is_not(ran: Any) -> None:
    assert json.loads(ran("-L", "--out", "json", keys=Keys({})).out) == {name: [] for name in FOUR}
    assert ran("-L", keys=Keys({})).out == "Accepted Keys:\nDenied Keys:\nUnaccepted Keys:\nRejected Keys:\n"
    assert ran("-L", keys=Keys({"db1": "revoked"})).out.endswith("Rejected Keys:\nRevoked Keys:\ndb1\n")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("acc", "accepted"), {"minions": ["db1", "db2"]}),
        (("pre", "un", "unaccepted"), {"minions_pre": ["web1", "web2"]}),
        (("rej", "rejected"), {"minions_rejected": ["web3"]}),
        (("den", "denied"), {"minions_denied": ["web4"]}),
        (("rev", "revoked"), {"minions_revoked": []}),
    ],
)
def test_one_list_is_named_by_its_first_letters(ran: Any, names: tuple[str, ...], found: dict[str, list[str]]) -> None:
    for name in names:
        done = ran("-l", name, "--out", "json")
        assert (done.code, json.loads(done.out)) == (0, found)


def test_a_list_that_does_not_exist_is_an_error(ran: Any) -> None:
    done = ran("-l", "foo-acc")
    assert (done.code, done.out, done.verbs) == (exitcodes.USAGE, "", [])
    assert done.err.startswith("saltlite: error: --list: 'foo-acc' is not a list of keys: use one of acc, pre, un,")


@pytest.mark.parametrize("option", ["--out", "--output"])
def test_lists_have_the_formats_of_other_commands(ran: Any, option: str) -> None:
    assert yaml.safe_load(ran("-L", f"{option}=yaml").out) == FOUR
    assert ast.literal_eval(ran("-L", f"{option}=raw").out) == FOUR
    assert len(ran("-L", option, "json", "--output-indent=-1").out.splitlines()) == 1
    assert "there is no outputter 'jsn'; did you mean json?" in ran("-L", option, "jsn").err


@pytest.mark.parametrize("option", ["--out-file", "--output-file"])
def test_the_output_goes_to_a_file(ran: Any, tmp_path: Path, option: str) -> None:
    assert ran("-L", option, str(tmp_path / "keys")).out == ""
    assert (tmp_path / "keys").read_text() == TEXT
    assert ran("-L", option, str(tmp_path / "keys"), f"{option}-append").code == 0
    assert (tmp_path / "keys").read_text() == TEXT * 2


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["-a", "web1"], [("accept", ["web1"])]),
        (["--accept", "web*"], [("accept", ["web1", "web2"])]),
        (["--accept=web2,w*1"], [("accept", ["web1", "web2"])]),
        (["-A"], [("accept", ["web1", "web2"])]),
        (["--accept-all", "--include-rejected"], [("accept", ["web1", "web2", "web3"])]),
        (["-a", "web*", "--include-all"], [("accept", ["web1", "web2", "web3"])]),
        (["-a", "web4", "--include-denied"], [("accept", ["web4"])]),
        (["-a", "*", "--include-accepted"], [("accept", ["web1", "web2"])]),
        (["-r", "web1"], [("reject", ["web1"])]),
        (["-R"], [("reject", ["web1", "web2"])]),
        (["--reject-all", "--include-denied"], [("reject", ["web1", "web2", "web4"])]),
        (["--reject", "*1", "--include-accepted"], [("reject", ["web1"]), ("revoke", ["db1"])]),
        (["-r", "db*", "--include-all"], [("revoke", ["db1", "db2"])]),
        (["-r", "*", "--include-rejected"], [("reject", ["web1", "web2"])]),
        (["-d", "web3"], [("delete", ["web3"])]),
        (["--delete", "db1,web4"], [("delete", ["db1", "web4"])]),
        (["-D"], [("delete", list(STATES))]),
        (["--delete-all"], [("delete", list(STATES))]),
    ],
)
def test_an_option_changes_the_keys_that_it_changes_in_salt(
    ran: Any, words: list[str], asked: list[tuple[str, list[str]]]
) -> None:
    done = ran("-y", *words)
    assert (done.code, done.changes, done.err) == (0, asked, "")


def test_a_change_is_printed_as_salt_prints_it(ran: Any) -> None:
    heading = "The following keys are going to be {}:\n"
    said = heading.format("accepted") + "Unaccepted Keys:\nweb1\nweb2\n"
    lines = "Key for minion web1 accepted.\nKey for minion web2 accepted.\n"
    assert ran("-A", "--yes").out == said + lines
    assert ran("-Ayq").out == lines
    assert ran("-d", "db1", "-y").out == heading.format("deleted") + (
        "Accepted Keys:\ndb1\nKey for minion db1 deleted.\n"
    )
    assert ran("-r", "web1,db1", "--include-accepted", "-y").out == heading.format("rejected") + (
        "Accepted Keys:\ndb1\nUnaccepted Keys:\nweb1\nKey for minion web1 rejected.\nKey for minion db1 revoked.\n"
    )


def test_a_change_in_another_format_is_one_document_with_the_keys_that_changed(ran: Any) -> None:
    done = ran("-d", "web*", "-y", "--out", "json", keys=Keys(refuses=("web4",)))
    assert json.loads(done.out) == {"minions_pre": ["web1", "web2"], "minions_rejected": ["web3"]}
    assert (done.code, done.err) == (exitcodes.REFUSED, "web4: db1 holds this id\n")


def test_a_change_that_the_master_refuses_is_not_reported_as_done(ran: Any) -> None:
    done = ran("-a", "web*", "-y", "--include-denied", keys=Keys(refuses=("web4",)))
    assert (done.code, done.err) == (exitcodes.REFUSED, "web4: db1 holds this id\n")
    assert done.out.endswith("Key for minion web1 accepted.\nKey for minion web2 accepted.\n")


def test_ids_that_match_nothing_are_an_error_and_all_of_no_keys_is_none(ran: Any) -> None:
    done = ran("-a", "db1", "-y")
    assert (done.code, done.out, done.changes) == (exitcodes.NOTHING_MATCHED, "", [])
    assert done.err == "saltlite: 'db1' matches no pending key; `saltlite-key -L` lists all of them\n"
    assert "'zz' matches no key;" in ran("-d", "zz", "-y").err
    assert "'db1' matches no pending or rejected or conflict key" in (
        ran("-a", "db1", "-y", "--include-all", "--include-denied").err
    )
    for option, state in (("-A", "pending "), ("-R", "pending "), ("-D", "")):
        done = ran(option, "-y", keys=Keys({}))
        assert (done.code, done.out, done.err) == (0, "", f"saltlite: there is no {state}key\n")
    assert ran("-A", "-y", "--out", "json", keys=Keys({})).out == "{}\n"


def test_two_keys_of_one_id_are_never_accepted_together(ran: Any) -> None:
    both = Keys()
    both.rows += [row | {"id": "web1"} for row in rows({"web4": "conflict"})]
    done = ran("-a", "web1", "--include-denied", "-y", keys=both)
    assert (done.code, done.changes) == (exitcodes.USAGE, [])
    assert "more than one key has this id; choose one with --fingerprint of `saltlite key accept`" in done.err


@pytest.mark.parametrize("words", [["-a", "web1"], ["-A"], ["-R"], ["-d", "*"], ["-D"]])
def test_without_a_terminal_a_change_needs_yes(ran: Any, words: list[str]) -> None:
    done = ran(*words)
    assert (done.code, done.out, done.changes) == (exitcodes.USAGE, "", [])
    assert "there is no terminal to ask at: add -y to do it" in done.err


@pytest.mark.parametrize(("answer", "code", "changes"), [("y", 0, 1), ("n", 130, 0)])
def test_at_a_terminal_the_keys_are_shown_and_asked_about(tmp_path: Path, answer: str, code: int, changes: int) -> None:
    ours, theirs = os.openpty()
    with FakeMaster(tmp_path, Keys()) as master:
        start = "import sys; from saltlite.cli.main import main_key; sys.exit(main_key())"
        process = subprocess.Popen(
            [sys.executable, "-c", start, "-c", master.config_dir, "-d", "db1"],
            stdin=theirs,
            stderr=theirs,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        os.close(theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, f"{answer}\n".encode())
        out = process.communicate(timeout=60)[0]
        assert process.returncode == code
    os.close(ours)
    assert FP["db1"].encode() in shown
    assert b"delete 1 key?" in shown
    assert (b"Key for minion db1 deleted." in out) == bool(changes)
    assert len([request for request in master.requests if request["verb"] == "key_change"]) == changes


@pytest.mark.parametrize("option", ["-p", "--print"])
def test_public_keys_are_printed(ran: Any, option: str) -> None:
    done = ran(option, "web3,db1", "--out", "json")
    assert (done.code, json.loads(done.out)) == (0, {"minions": {"db1": PEM}, "minions_rejected": {"web3": PEM}})
    assert ran(option, "db1").out == f"Accepted Keys:\ndb1:  {PEM}"
    assert ran(option, "zz", "--out", "json").out == "{}\n"


@pytest.mark.parametrize("option", ["-P", "--print-all"])
def test_all_public_keys_are_printed(ran: Any, option: str) -> None:
    found = json.loads(ran(option, "--out", "json").out)
    assert found == {name: dict.fromkeys(ids, PEM) for name, ids in FOUR.items()}


def test_fingerprints_are_printed(ran: Any) -> None:
    assert ran("-f", "db1").out == f"Accepted Keys:\ndb1:  {FP['db1']}\n"
    found = json.loads(ran("--finger", "*1,web4", "--out", "json").out)
    assert found == {
        "minions": {"db1": FP["db1"]},
        "minions_pre": {"web1": FP["web1"]},
        "minions_denied": {"web4": FP["web4"]},
    }
    done = ran("-f", "zz", "--out", "json")
    assert (done.code, done.out) == (0, "{}\n")


@pytest.mark.parametrize("option", ["-F", "--finger-all"])
def test_all_fingerprints_include_that_of_the_master(ran: Any, option: str) -> None:
    found = json.loads(ran(option, "--out", "json").out)
    assert found.pop("local") == {"master.pub": "OWN"}
    assert found == {name: {minion: FP[minion] for minion in ids} for name, ids in FOUR.items()}
    assert ran(option).out.endswith("Local Keys:\nmaster.pub:  OWN\n")


def _of(option: Option) -> list[str]:
    """A command line with the option, and a value that it takes."""
    return [f"{option.names[-1]}=4096"] if option.metavar else [option.names[-1]]


@pytest.mark.parametrize("option", [one for one in PROGRAMS[KEY] if one.refusal], ids=lambda one: one.key)
def test_what_cannot_be_obeyed_is_refused_before_anything_is_done(ran: Any, option: Option) -> None:
    done = ran("-y", "-A", *_of(option))
    assert (done.code, done.out, done.verbs) == (exitcodes.USAGE, "", [])
    assert done.err == f"saltlite: error: {option.names[-1]} is refused: {option.refusal}\n"


@pytest.mark.parametrize("option", [one for one in PROGRAMS[KEY] if one.no_effect], ids=lambda one: one.key)
def test_what_has_no_effect_is_said_and_the_rest_is_done(ran: Any, option: Option) -> None:
    done = ran("-L", *_of(option))
    assert (done.code, done.out) == (0, TEXT)
    assert done.err == f"saltlite: {option.names[-1]} has no effect: {option.no_effect}\n"
    assert ran("-qL", *_of(option)).err == ""


@pytest.mark.parametrize("size", ["1024", "32769", "x", "9" * 5000])
def test_a_size_that_salt_refuses_is_refused(ran: Any, size: str) -> None:
    done = ran("--keysize", size)
    assert (done.code, done.verbs) == (exitcodes.USAGE, [])
    assert "error: --keysize: " in done.err
    assert "2048 to 32768 bits" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-D", "junk"], "error: Delete all takes no arguments, and 'junk' is one"),
        (["-a", "web1", "web2", "-y"], "'web2' is not expected: write several ids with commas, as in -a web1,web2"),
        (["-A", "web1", "-y"], "'web1' is not expected: --accept-all takes no ids"),
        (["-L", "-A", "-y"], "--list-all and --accept-all exclude each other"),
        (["--acept", "web1"], "there is no option --acept; did you mean --accept?"),
        (["--fingre-all"], "did you mean --finger-all?"),
        (["-x"], "`saltlite-key --help` lists them"),
        (["-a"], "--accept needs a value: --accept IDS"),
        (["-a", "-y"], "--accept needs a value, and -y looks like an option"),
        (["acept", "web1"], "there is no command `saltlite-key acept`; did you mean accept?"),
        (["web1"], "use one of accept, delete, finger, fleet, list,"),
        (["--log-level", "loud", "-L"], "--log-level: 'loud' is not known"),
    ],
)
def test_a_wrong_line_changes_nothing(ran: Any, words: list[str], message: str) -> None:
    done = ran(*words)
    assert (done.code, done.out, done.verbs) == (exitcodes.USAGE, "", [])
    assert message in done.err


@pytest.mark.parametrize("words", [["list", "accepted"], ["-a", "pam", "-q", "token"], ["--username", "x", "fleet"]])
def test_a_verb_of_key_has_its_own_options(ran: Any, words: list[str]) -> None:
    done = ran(*words)
    assert "error: " not in done.err
    assert (done.code == 0) == (words[0] == "list")


def test_the_verb_decides_whose_option_it_is(ran: Any) -> None:
    assert "there is no option -d;" in ran("list", "-d", "web1.example.org").err
    assert "there is no option -d;" in ran("-d", "web1.example.org", "list").err
    assert ran("-a", "accept", "-y").err.startswith("saltlite: 'accept' matches no pending key")


def test_a_log_level_is_taken(ran: Any) -> None:
    done = ran("-L", "--log-level=critical")
    assert (done.code, done.out, done.err) == (0, TEXT, "")


def test_colours_are_those_of_other_commands(ran: Any) -> None:
    assert "\x1b[" in ran("-L", "--force-colour").out
    assert "\x1b[" not in ran("-L", "--no-colour").out


@pytest.mark.parametrize("name", ["--eauth", "--auth", "--external-auth"])
def test_a_login_does_not_take_the_short_option_of_accept(ran: Any, name: str) -> None:
    done = ran("-L", name, "pam", "--username", "fred")
    assert (done.code, done.verbs) == (exitcodes.USAGE, [])
    assert "no terminal to ask for the password" in done.err


def test_versions_and_help_need_no_master(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_key(["--version"]) == 0
    assert capsys.readouterr().out == f"saltlite-key {__version__}\n"
    for option in ("-V", "--versions-report"):
        assert main_key([option]) == 0
        assert "Dependency Versions:" in capsys.readouterr().out
    assert main_key(["--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for action in ACTIONS:
        assert all(name in text for name in action.names)
    assert "key token create" in text
