"""Certificates of invited masters are renewed by the one that has the fleet key, over the store that they share."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from saltlite.config.load import load_master
from saltlite.config.master import MasterConfig
from saltlite.errors import StartupError
from saltlite.master.processes import identity, invitation, renewal
from saltlite.master.processes.renewal import LOOK_S, Renewals, Renewed
from saltlite.master.store.sharing import MasterRow, MasterState, SharedStore
from saltlite.model.events import MasterEvent, tag_master
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.platform.privileges import private_dir, write_secret
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire.certificates import MasterCertificate
from tests.support.fleet import ME
from tests.support.keys import NOW

DAY = 86_400.0


class Site:
    """The files of masters, their database, and a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock(wall=NOW)
        self.store = cast("SharedStore", MemoryStore(MemoryStoreDisk(store_id="0" * 32)))
        self.running: dict[str, Renewals] = {}
        self.make("m1", "database: host=db1\nseveral_masters: true\n")
        private_dir(self.pki("m1"), os.geteuid(), os.getegid())
        identity.ensure_identity(self.pki("m1"), "m1", NOW)
        write_secret(f"{self.pki('m1')}/{identity.SHARED_KEY}", b"s" * 32)

    def make(self, name: str, more: str = "") -> None:
        (self.folder / name).mkdir()
        text = f"root_dir: {self.folder}/{name}/root\nuser: {ME}\nlink_user: {ME}\nmaster_name: {name}\n{more}"
        (self.folder / name / "master").write_text(text)
        os.makedirs(self.config(name).data_dir)

    def config(self, name: str) -> MasterConfig:
        return load_master(str(self.folder / name)).config

    def pki(self, name: str) -> str:
        return self.config(name).pki_dir

    def invite(self, name: str) -> None:
        """Have it join, as the commands do, by the clock of the test."""
        now, file = self.clock.wall(), self.folder / f"{name}.invitation"
        private_dir(self.pki(name), os.geteuid(), os.getegid())
        request = invitation.request_of(self.pki(name), name)
        renewal.add_invited(self.pki("m1"), name, request.static_public, request.job_public)
        file.write_text(invitation.invite(self.pki("m1"), request, "host=db1", now))
        invitation.join(self.pki(name), invitation.read_invitation(str(file), self.pki(name), name, now))

    def certificate(self, name: str) -> MasterCertificate:
        return identity.certificate_of(self.pki(name))

    def start(self, name: str) -> None:
        """As the supervisor starts its membership process, which stores its row."""
        config = self.config(name)
        signed = renewal.sign_for_invited(config.pki_dir, config.data_dir, self.clock.wall())
        own = self.certificate(name)
        self.running[name] = Renewals(self.store, self.clock, own, config.data_dir, signed)
        row = MasterRow(name, 1, own.encode(), f"{name}:4515", "1", MasterState.UP, applied=0)
        with self.store.write() as tx:
            tx.renew(row)

    def look(self) -> None:
        """A turn of every membership process, twice; then each supervisor sees the file that its own has left."""
        for _ in range(2):
            self.clock.advance(LOOK_S)
            for one in self.running.values():
                one.look(self.store.masters())
        for name in self.running:
            config = self.config(name)
            renewal.adopt(config.pki_dir, config.data_dir, self.clock.wall())

    def row(self, name: str) -> MasterRow:
        return next(row for row in self.store.masters() if row.name == name)

    def forge(self, of: str, **changes: Any) -> None:
        """What somebody with the rights of a master in the database writes."""
        row = replace(self.row(of), **changes)
        with self.store.write() as tx:
            tx.renew(row)
            tx.offer_certificate(row.name, row.renewed)

    def remove(self, name: str) -> None:
        """As `saltlite master remove` on another master."""
        with self.store.write() as tx:
            tx.delete_master(name)
            tx.put_event(tag_master(name, MasterEvent.REMOVED), {"name": name}, self.clock.wall())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The holder m1 and m2, which it has invited; both run."""
    site = Site(tmp_path)
    site.make("m2")
    site.invite("m2")
    for name in ("m1", "m2"):
        site.start(name)
    return site


def test_a_certificate_is_renewed_in_its_last_thirty_days_and_not_before(site: Site) -> None:
    first = site.certificate("m2")
    site.clock.advance(58 * DAY)
    site.start("m1")
    site.look()
    assert (site.certificate("m2"), site.row("m2").renewed) == (first, b"")
    site.clock.advance(2 * DAY)
    site.start("m1")
    site.look()
    second = site.certificate("m2")
    assert second.not_after - site.clock.wall() > 88 * DAY
    assert replace(second, serial=0, not_before=0, not_after=0, signature=b"") == replace(
        first, serial=0, not_before=0, not_after=0, signature=b""
    )
    identity.ensure_identity(site.pki("m2"), "m2", site.clock.wall())
    site.start("m2")
    writes = site.store.last_seq()
    site.look()
    assert site.certificate("m2") == second, "once"
    assert site.store.last_seq() == writes


def test_a_master_that_is_renewed_again_and_again_outlives_its_first_certificate(site: Site) -> None:
    for _ in range(5):
        site.clock.advance(61 * DAY)
        identity.ensure_identity(site.pki("m1"), "m1", site.clock.wall())
        site.start("m1")
        site.look()
        identity.ensure_identity(site.pki("m2"), "m2", site.clock.wall())
        site.start("m2")
    assert site.certificate("m2").not_before - NOW > 200 * DAY


def test_other_masters_follow_a_change_of_the_fleet_key(site: Site) -> None:
    identity.rotate(site.pki("m1"), "m1", site.clock.wall())
    new = fingerprint(site.certificate("m1").fleet_public)
    site.start("m1")
    site.look()
    assert fingerprint(site.certificate("m2").fleet_public) == new
    assert identity.fleet_files(site.pki("m2")).problem() == ""
    assert not identity.ensure_identity(site.pki("m2"), "m2", site.clock.wall())


def test_a_change_of_the_fleet_key_that_was_interrupted_is_completed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity.rotate(site.pki("m1"), "m1", site.clock.wall())
    site.start("m1")

    def full(_pki_dir: str, _public: bytes) -> None:
        raise StartupError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(identity, "_write_id", full)
        with pytest.raises(StartupError, match="full"):
            site.look()
    site.look()
    assert identity.fleet_files(site.pki("m2")).problem() == ""
    assert site.certificate("m2").fleet_public == site.certificate("m1").fleet_public


@pytest.mark.parametrize("how", ["while the holder runs", "while it is away", "on its machine"])
def test_a_master_that_was_removed_is_never_signed_for_again(site: Site, how: str) -> None:
    site.look()
    row = site.row("m2")
    if how == "while it is away":
        site.clock.advance(renewal.KEEP_S)
    seen = site.store.last_seq()
    if how == "on its machine":
        assert renewal.remove_invited(site.pki("m1"), "m2")
        assert not renewal.remove_invited(site.pki("m1"), "m2")
        site.start("m1")
    else:
        site.remove("m2")
        if how == "while the holder runs":
            site.running["m1"].on_events(site.store.events(seen))
    # It comes back, as it still reaches the database, and the holder starts again.
    for starts in range(2):
        site.clock.advance(70 * DAY if not starts else 0.0)
        with site.store.write() as tx:
            tx.renew(row)
        site.look()
        if how != "while it is away" or starts:
            assert site.row("m2").renewed == b""
        site.start("m1")
    site.look()
    assert site.row("m2").renewed == b""
    assert renewal.sign_for_invited(site.pki("m1"), site.config("m1").data_dir, NOW) == {}


def test_an_invitation_after_a_removal_counts(site: Site) -> None:
    site.look()
    seen = site.store.last_seq()
    site.remove("m2")
    site.running["m1"].on_events(site.store.events(seen))
    site.invite("m2")
    site.start("m1")
    assert list(renewal.sign_for_invited(site.pki("m1"), site.config("m1").data_dir, NOW)) == ["m2"]


# -- who can write to the database, and has no key but that of m2


def test_no_other_name_and_no_other_key_is_signed(site: Site) -> None:
    site.make("m3")
    site.invite("m3")
    mine, stranger = site.certificate("m2"), replace(site.certificate("m2"), name="m9")
    for name in ("m1", "m3"):
        site.start(name)
    site.clock.advance(70 * DAY)
    site.start("m1")
    # A name that was not invited; the name of another master with the keys of m2; rubbish.
    site.forge("m2", name="m9", certificate=stranger.encode())
    with site.store.write() as tx:
        tx.renew(replace(site.row("m9"), name="m3", certificate=replace(mine, name="m3").encode()))
        tx.renew(replace(site.row("m9"), name="m2", certificate=b"rubbish"))
    site.look()
    assert {row.name: row.renewed for row in site.store.masters()} == dict.fromkeys(("m1", "m2", "m3", "m9"), b"")


def test_a_master_takes_nothing_but_what_its_fleet_signed_for_its_keys(
    site: Site, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    site.make("m3")
    site.invite("m3")
    site.clock.advance(70 * DAY)
    del site.running["m1"]
    own = site.certificate("m2")
    static, job = own.static_public, own.job_public
    other = tmp_path / "strange"
    private_dir(str(other), os.geteuid(), os.getegid())
    identity.ensure_identity(str(other), "m1", site.clock.wall())
    stale = identity.sign_certificate(site.pki("m1"), "m2", static, job, NOW - 100 * DAY)
    keys = site.certificate("m3").static_public, site.certificate("m3").job_public
    theirs = identity.sign_certificate(site.pki("m1"), "m2", *keys, site.clock.wall())
    late = identity.sign_certificate(site.pki("m1"), "m2", static, job, site.clock.wall())
    answers = [
        Renewed(identity.sign_certificate(str(other), "m2", static, job, site.clock.wall()), b"").encode(),
        Renewed(replace(late, not_after=late.not_after + 1), b"").encode(),
        Renewed(theirs, b"").encode(),
        Renewed(stale, b"").encode(),
        b"\xff\xff" * 30,
        b"x" * 100_000,
        b"\x00",
    ]
    for answer in answers:
        site.forge("m2", renewed=answer)
        site.look()
        # The supervisor does not trust the process that leaves the file either.
        (Path(site.config("m2").data_dir) / identity.ANSWER_FILE).write_text(json.dumps({"answer": answer.hex()}))
        site.look()
        assert site.certificate("m2") == own
    assert "is refused" in caplog.text
    site.forge("m2", renewed=Renewed(late, b"").encode())
    site.look()
    assert site.certificate("m2") == late


def test_a_master_with_a_good_certificate_takes_no_other_one(site: Site) -> None:
    own = site.certificate("m2")
    site.clock.advance(10 * DAY)
    good = identity.sign_certificate(site.pki("m1"), "m2", own.static_public, own.job_public, site.clock.wall())
    site.forge("m2", renewed=Renewed(good, b"").encode())
    site.look()
    assert site.certificate("m2") == own, "its processes would restart each time"


def test_a_link_in_place_of_the_answer_is_not_followed(site: Site, tmp_path: Path) -> None:
    site.clock.advance(70 * DAY)
    own = site.certificate("m2")
    good = identity.sign_certificate(site.pki("m1"), "m2", own.static_public, own.job_public, site.clock.wall())
    (tmp_path / "elsewhere").write_text(json.dumps({"answer": Renewed(good, b"").encode().hex()}))
    config = site.config("m2")
    path = Path(config.data_dir) / identity.ANSWER_FILE
    path.symlink_to(tmp_path / "elsewhere")
    renewal.adopt(config.pki_dir, config.data_dir, site.clock.wall())
    assert site.certificate("m2") == own
    path.unlink()
    (tmp_path / "elsewhere").rename(path)
    renewal.adopt(config.pki_dir, config.data_dir, site.clock.wall())
    assert site.certificate("m2") == good


def test_a_damaged_list_stops_no_master(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    write_secret(f"{site.pki('m1')}/{identity.INVITED}", b"{")
    config = site.config("m1")
    assert renewal.signed_as_root(config.pki_dir, config.data_dir, NOW) == {}
    assert "is damaged: restore it from a backup" in caplog.text
