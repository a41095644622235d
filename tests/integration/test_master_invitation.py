"""`saltlite master request`, `invite` and `join`: how a further master gets into a fleet, and who does not."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.main import main
from saltlite.cli.verbs.master import DROP_IN, _is_local
from saltlite.config.load import load_master
from saltlite.config.master import MasterConfig
from saltlite.errors import MisconfiguredError, StartupError, UsageError
from saltlite.master.processes import identity, renewal
from saltlite.model.keys import fingerprint
from saltlite.platform.privileges import private_dir, write_secret
from tests.support.fleet import ME

DSN = "host=db1,db2 dbname=saltlite user=saltlite"
DAY = 86_400.0


class Machine:
    """The configuration and the keys of a master, which does not run."""

    def __init__(self, folder: Path, name: str, more: str = "") -> None:
        self.folder, self.name = folder / name, name
        self.folder.mkdir()
        options = f"root_dir: {self.folder}/root\nuser: {ME}\nlink_user: {ME}\nmaster_name: {name}\n{more}"
        (self.folder / "master").write_text(options)

    @property
    def config(self) -> MasterConfig:
        return load_master(str(self.folder)).config

    @property
    def pki(self) -> str:
        return self.config.pki_dir

    def begin_fleet(self) -> None:
        """As the first start with `several_masters` leaves it."""
        private_dir(self.pki, os.geteuid(), os.getegid())
        identity.ensure_identity(self.pki, self.name, time.time())
        write_secret(f"{self.pki}/{identity.SHARED_KEY}", b"s" * 32)

    def run(self, *words: str) -> int:
        return main(["master", words[0], "-c", str(self.folder), *words[1:]])


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.chdir(tmp_path)
    machine = Machine(tmp_path, "m1", f"database: {DSN}\nseveral_masters: true\n")
    machine.begin_fleet()
    return machine


@pytest.fixture
def newcomer(holder: Machine, tmp_path: Path) -> Machine:
    """A machine that has made its request."""
    machine = Machine(tmp_path, "m2")
    assert machine.run("request") == 0
    return machine


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """The one error on stderr since the last call."""

    def read() -> str:
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("saltlite: ")]
        return line

    return read


def unresolved(*_args: object, **_more: object) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def fleet_of(machine: Machine) -> str:
    return fingerprint(identity.certificate_of(machine.pki).fleet_public)


def test_an_invited_master_is_one_of_the_fleet_and_has_its_secrets(
    holder: Machine, newcomer: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert newcomer.run("request", "again") == 0
    assert Path("again").read_text() == Path("m2.request").read_text()
    shown = capsys.readouterr().out.splitlines()[-1].removeprefix("fingerprint: ")
    assert holder.run("invite", "m2", "--fingerprint", shown) == 0
    assert newcomer.run("join", "m2.invitation", "--fleet", fleet_of(holder)) == 0
    assert (newcomer.config.database, newcomer.config.several_masters) == (DSN, True)
    before = {path.name: path.read_bytes() for path in Path(newcomer.pki).iterdir()}
    assert not identity.ensure_identity(newcomer.pki, "m2", time.time(), accepted=3), "the certificate stays"
    assert {path.name: path.read_bytes() for path in Path(newcomer.pki).iterdir()} == before
    certificate = identity.certificate_of(newcomer.pki)
    assert (certificate.name, fleet_of(newcomer)) == ("m2", fleet_of(holder))
    assert "fleet.key" not in before
    (listed,) = renewal.invited(holder.pki)
    assert (listed.name, listed.static_public, listed.job_public) == (
        "m2",
        certificate.static_public,
        certificate.job_public,
    )
    assert identity.seal_key(newcomer.pki, "tokens") == identity.seal_key(holder.pki, "tokens")
    assert identity.seal_key(newcomer.pki, "tokens") != identity.seal_key(newcomer.pki, "keys")
    assert b"s" * 32 not in Path("m2.invitation").read_bytes()
    assert (b"s" * 32).hex() not in Path("m2.invitation").read_text()


def test_a_request_that_was_made_is_shown_again_and_another_file_is_not_replaced(
    holder: Machine, newcomer: Machine, capsys: pytest.CaptureFixture[str], said: Callable[[], str]
) -> None:
    assert newcomer.run("request", "other") == 0
    made = capsys.readouterr()
    before = Path("m2.request").stat()
    assert newcomer.run("request") == 0
    again = capsys.readouterr()
    assert again.out.splitlines() == [str(Path("m2.request").absolute()), made.out.splitlines()[-1]]
    assert "made before" not in made.err
    assert "That file has been made before, and is still the request of this master." in again.err
    assert Path("m2.request").stat() == before
    for other in ("", Path("m2.request").read_text().replace("m2", "m3")):
        Path("m2.request").write_text(other)
        assert newcomer.run("request") == 2
        assert "m2.request exists already" in said()
        assert Path("m2.request").read_text() == other
    assert not Path(holder.folder, "m2.request").exists()


@pytest.mark.parametrize(
    ("resolves", "sentence"),
    [
        (lambda *_args, **_more: [], ""),
        (unresolved, "Minions are told to reach this master at m2:4515, and m2 does not resolve on this machine"),
    ],
)
def test_a_master_that_joins_says_if_minions_cannot_find_it(
    resolves: Callable[..., Any],
    sentence: str,
    holder: Machine,
    newcomer: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolves)
    joined(holder, newcomer)
    said = capsys.readouterr().err
    assert sentence in said
    assert ("set `master_address`" in said) == bool(sentence)


def joined(holder: Machine, newcomer: Machine) -> Machine:
    assert holder.run("invite", "m2", "-y") == 0
    assert newcomer.run("join", "m2.invitation", "-y") == 0
    return newcomer


def test_an_invited_master_says_who_has_the_fleet_key(holder: Machine, newcomer: Machine) -> None:
    there = joined(holder, newcomer)
    for command in (
        lambda: identity.rotate(there.pki, "m2", time.time()),
        lambda: identity.replace_lost(there.pki, "m2", time.time()),
        lambda: identity.sign_bundle(there.pki, b"x"),
    ):
        with pytest.raises(UsageError, match="the master m1 does: run this command on its machine"):
            command()


def test_an_invited_master_does_not_start_with_a_certificate_that_is_not_for_it(
    holder: Machine, newcomer: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    there, now = joined(holder, newcomer), time.time()
    with pytest.raises(MisconfiguredError, match="set `master_name: m2`"):
        identity.ensure_identity(there.pki, "m3", now)
    with pytest.raises(StartupError, match=r"expired 1 days ago: run `saltlite master request` here"):
        identity.ensure_identity(there.pki, "m2", now + 90 * DAY)
    assert not identity.ensure_identity(there.pki, "m2", now + 70 * DAY)
    assert "the certificate of this master expires in 19 days" in caplog.text
    write_secret(f"{there.pki}/job.key", b"j" * 32)
    with pytest.raises(StartupError, match=r"job.key is missing, or the certificate names another key"):
        identity.ensure_identity(there.pki, "m2", now)


def test_a_second_invitation_renews_the_certificate_and_nothing_else(
    holder: Machine, newcomer: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    there = joined(holder, newcomer)
    before, stamps = identity.certificate_of(there.pki), identity.stamps(there.pki)
    Path("m2.invitation").unlink()
    assert holder.run("invite", "m2", "-y", "--database", "host=elsewhere") == 0
    configured = (there.folder / "master.d" / DROP_IN).read_text()
    capsys.readouterr()
    assert there.run("join", "m2.invitation", "-y") == 0
    assert "names another `database` than the configuration of this master, which stays" in capsys.readouterr().err
    assert (there.folder / "master.d" / DROP_IN).read_text() == configured
    after = identity.certificate_of(there.pki)
    assert (after.static_public, after.job_public) == (before.static_public, before.job_public)
    assert after.serial != before.serial
    assert identity.stamps(there.pki) != stamps, "a running master notices it"


def test_what_cannot_be_invited(holder: Machine, newcomer: Machine, tmp_path: Path, said: Callable[[], str]) -> None:
    cases: list[tuple[list[str], int, str]] = [
        (["m9"], 2, "m9.request cannot be read (No such file or directory): make it by `saltlite master request`"),
        (["m9", "m2.request"], 2, "the request is that of a master named m2, not m9: nothing was made"),
        (["m2", "m1/master"], 2, "m1/master is no master request of saltlite"),
        (["m2", "damaged"], 2, "damaged is a damaged request"),
        (["m2", "newer"], 2, "was made by another version of saltlite"),
        (["m2", "--fingerprint", "-".join(["AAAAA"] * 8)], 6, "not AAAAA-AAAAA"),
        (["m2", "--database", "postgresql://a:b@db/x"], 2, "a password stands in it"),
        (["m2"], 2, "has to be compared: give the expected one with --fingerprint, or -y"),
    ]
    fields = json.loads(Path("m2.request").read_text())
    Path("damaged").write_text(json.dumps({**fields, "job": "00"}))
    Path("newer").write_text(json.dumps({**fields, "version": 2}))
    for words, code, sentence in cases:
        assert (holder.run("invite", *words), sentence in said()) == (code, True), words
    assert not list(tmp_path.glob("*.invitation"))


def test_who_cannot_invite(holder: Machine, newcomer: Machine, tmp_path: Path, said: Callable[[], str]) -> None:
    Path("twin.request").write_text(Path("m2.request").read_text().replace('"m2"', '"m1"'))
    alone = Machine(tmp_path, "alone", f"database: {DSN}\n")
    alone.begin_fleet()
    Path(alone.pki, identity.SHARED_KEY).unlink()
    in_file = Machine(tmp_path, "in-file")
    in_file.begin_fleet()
    there = joined(holder, newcomer)
    Machine(tmp_path, "m3").run("request")
    for machine, words, sentence in (
        (holder, ["m1", "twin.request"], "m1 is the name of this master"),
        (alone, ["m2"], "set `several_masters: true`, restart it, and invite then"),
        (in_file, ["m2"], "move it to PostgreSQL first"),
        (there, ["m3"], "this master does not have the fleet key, the master m1 does"),
    ):
        assert (machine.run("invite", "-y", *words), sentence in said()) == (2, True), sentence


def test_what_cannot_be_joined(holder: Machine, newcomer: Machine, tmp_path: Path, said: Callable[[], str]) -> None:
    assert holder.run("invite", "m2", "-y") == 0
    text = Path("m2.invitation").read_text()
    fields = json.loads(text)
    Path("altered").write_text(json.dumps({**fields, "sealed": fields["sealed"][:-2] + "00"}))
    Path("m2.invitation").unlink()
    assert holder.run("invite", "m2", "-y", "--expires", "1ms") == 0
    Path("m2.invitation").rename("expired")
    Path("good").write_text(text)
    other = Machine(tmp_path, "other")
    nobody = Machine(tmp_path, "nobody")
    renamed = Machine(tmp_path, "renamed", "pki_dir: " + newcomer.pki + "\n")
    other.run("request")
    for machine, words, code, sentence in (
        (newcomer, ["none"], 2, "none cannot be read"),
        (newcomer, ["m2.request"], 2, "m2.request is no master invitation of saltlite"),
        (newcomer, ["altered"], 6, "altered was altered or cut off after it was made"),
        (newcomer, ["expired"], 6, "expired has expired: make a new one by `saltlite master invite`"),
        (other, ["good"], 6, "good is for another master, m2, not for this one"),
        (nobody, ["good"], 2, "run `saltlite master request` first"),
        (renamed, ["good"], 2, "set `master_name: m2` in its configuration"),
        (holder, ["good"], 6, "good is for another master, m2"),
        (newcomer, ["good", "--fleet", "-".join(["AAAAA"] * 8)], 6, "not AAAAA-AAAAA"),
    ):
        assert (machine.run("join", "-y", *words), sentence in said()) == (code, True), sentence
    assert not Path(newcomer.pki, "master.cert").exists()


def test_a_machine_with_a_fleet_of_its_own_joins_no_other(
    holder: Machine, newcomer: Machine, said: Callable[[], str]
) -> None:
    assert holder.run("request") == 2
    assert "this machine's master has a fleet of its own" in said()
    assert holder.run("invite", "m2", "-y") == 0
    write_secret(f"{newcomer.pki}/fleet.key", b"f" * 32)
    assert newcomer.run("join", "m2.invitation", "-y") == 2
    assert "this machine's master has a fleet of its own" in said()
    assert not (newcomer.folder / "master.d").exists(), "nothing is configured"


@pytest.mark.parametrize(
    ("dsn", "is_local"),
    [
        (DSN, False),
        ("dbname=saltlite", True),
        ("host=/run/postgresql dbname=saltlite", True),
        ("host=localhost,db2", False),
        ("postgresql:///saltlite", True),
        ("postgresql://saltlite@localhost:5432/saltlite", True),
        ("postgresql://[::1]:5432/saltlite", True),
        ("postgresql://%2Frun%2Fpostgresql/saltlite?sslmode=disable", True),
        ("postgresql:///saltlite?host=/run/postgresql", True),
        ("postgresql:///saltlite?host=db1", False),
        ("postgresql://saltlite@db1,localhost/saltlite", False),
    ],
)
def test_a_database_of_this_machine_only_is_told_from_others(dsn: str, is_local: bool) -> None:
    assert _is_local(dsn) is is_local


@pytest.mark.parametrize("shares", [True, False])
def test_a_new_fleet_key_says_what_the_other_masters_need(
    holder: Machine, capsys: pytest.CaptureFixture[str], shares: bool
) -> None:
    if not shares:
        Path(holder.pki, identity.SHARED_KEY).unlink()
    assert main(["key", "fleet", "rotate", "-c", str(holder.folder), "-y"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert ("get new certificates within seconds; until then jobs between masters are refused" in said) is shares
    assert ("need fleet.chain and fleet.key" in said) is not shares
