"""The keys of a master: made once, renewed, changed, lost; and what stops a master instead of making a new fleet."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from saltlite.errors import RemoteProtocolError, StartupError, UsageError
from saltlite.master.processes import identity
from saltlite.master.processes.identity import CHAIN_KEPT, ensure_identity, fleet_files, replace_lost, rotate
from saltlite.model.keys import fingerprint, fingerprint_bytes
from saltlite.platform.privileges import write_secret
from saltlite.wire.certificates import MasterCertificate, successors
from saltlite.wire.noise import public_of

NOW = 1_800_000_000.0
DAY = 86_400.0


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """The folder of a master that was started once."""
    tmp_path.chmod(0o700)
    assert ensure_identity(str(tmp_path), "m1", NOW)
    return tmp_path


def fleet(pki: Path) -> str:
    return (pki / "fleet.id").read_text().strip()


def certificate(pki: Path) -> MasterCertificate:
    """The certificate, which is one of the fleet that the folder names."""
    found = identity.certificate_of(str(pki))
    found.verify(fingerprint_bytes(found.fleet_public), int(NOW))
    assert fingerprint(found.fleet_public) == fleet(pki)
    return found


def refused(pki: Path, accepted: int = 0) -> str:
    before = sorted(path.name for path in pki.iterdir())
    with pytest.raises(StartupError) as caught:
        ensure_identity(str(pki), "m1", NOW, accepted)
    assert sorted(path.name for path in pki.iterdir()) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_second_start_changes_nothing(pki: Path) -> None:
    before = {path.name: path.read_bytes() for path in pki.iterdir()}
    assert not ensure_identity(str(pki), "m1", NOW + DAY)
    assert {path.name: path.read_bytes() for path in pki.iterdir()} == before


@pytest.mark.parametrize("left", ["fleet.id", "master.cert"])
def test_a_missing_fleet_key_is_not_made_anew_beside_what_it_left(pki: Path, left: str) -> None:
    for name in ("fleet.key", *({"fleet.id", "master.cert"} - {left})):
        (pki / name).unlink()
    said = refused(pki)
    assert f"there is no {pki}/fleet.key, beside {left}; " in said
    assert "restore it from a backup" in said


def test_a_missing_fleet_key_is_not_made_anew_beside_a_chain(pki: Path) -> None:
    rotate(str(pki), "m1", NOW)
    for name in ("fleet.key", "fleet.id", "master.cert"):
        (pki / name).unlink()
    assert "beside fleet.chain" in refused(pki)


def test_a_missing_fleet_key_is_not_made_anew_beside_accepted_minions(tmp_path: Path) -> None:
    assert "3 accepted keys of minions in the store" in refused(tmp_path, accepted=3)


def test_a_damaged_fleet_key_is_not_replaced(pki: Path) -> None:
    (pki / "fleet.key").write_bytes(b"x" * 31)
    assert "is damaged: it has 31 bytes" in refused(pki)


@pytest.mark.parametrize("name", ["fleet.id", "master.cert"])
def test_a_fleet_key_of_another_fleet_than_the_files_beside_it_stops_the_master(pki: Path, name: str) -> None:
    other = fleet(pki)
    (pki / "fleet.key").write_bytes(b"y" * 32)
    (pki / ({"fleet.id", "master.cert"} - {name}).pop()).unlink()
    said = refused(pki)
    assert f"{name} in {pki} names fleet {other}" in said
    assert "restore the fleet.key" in said


def test_a_chain_that_leads_to_another_key_stops_the_master(pki: Path) -> None:
    before = (pki / "fleet.key").read_bytes()
    rotate(str(pki), "m1", NOW)
    (pki / "fleet.key").write_bytes(before)
    assert "fleet.chain" in refused(pki)


def test_a_damaged_chain_stops_the_master(pki: Path) -> None:
    rotate(str(pki), "m1", NOW)
    (pki / "fleet.chain").write_bytes((pki / "fleet.chain").read_bytes()[:-1])
    assert "fleet.chain is damaged" in refused(pki)


def test_a_damaged_certificate_and_a_missing_id_are_renewed_by_the_same_key(pki: Path) -> None:
    before = fleet(pki)
    (pki / "master.cert").write_bytes(b"nonsense")
    (pki / "fleet.id").unlink()
    assert ensure_identity(str(pki), "m1", NOW)
    assert fleet(pki) == before
    certificate(pki)


@pytest.mark.parametrize("name", ["master.key", "job.key"])
def test_a_missing_key_of_the_master_is_made_anew_with_its_certificate(
    pki: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = certificate(pki)
    (pki / name).unlink()
    assert ensure_identity(str(pki), "m1", NOW)
    after = certificate(pki)
    assert after.fleet_public == before.fleet_public
    assert (after.static_public != before.static_public) == (name == "master.key")
    assert (after.job_public != before.job_public) == (name == "job.key")
    assert f"{name} was missing: it was made anew, and so is the certificate" in caplog.text


@pytest.mark.parametrize("name", ["master.key", "job.key"])
def test_a_damaged_key_of_the_master_stops_it_with_the_way_out(pki: Path, name: str) -> None:
    (pki / name).write_bytes(b"")
    said = refused(pki)
    assert f"{name} is damaged" in said
    assert "or remove it" in said


def test_another_key_of_the_master_from_a_backup_gets_a_certificate(pki: Path) -> None:
    (pki / "master.key").write_bytes(b"k" * 32)
    assert ensure_identity(str(pki), "m1", NOW)
    assert certificate(pki).static_public == public_of(b"k" * 32)


# -- changing the fleet key


def follows(pki: Path, pinned: bytes) -> bool:
    """Whether a minion that pins this fleet believes the master."""
    raw = (pki / "fleet.chain").read_bytes() if (pki / "fleet.chain").exists() else b""
    try:
        successors(pinned, certificate(pki).fleet_public, raw)
    except RemoteProtocolError:
        return False
    return True


def test_a_changed_fleet_key_is_one_that_every_former_one_leads_to(pki: Path) -> None:
    pins = [fingerprint_bytes(certificate(pki).fleet_public)]
    for number in range(3):
        record = rotate(str(pki), "m1", NOW + number)
        assert (record.serial, record.time) == (number + 1, int(NOW) + number)
        pins.append(fingerprint_bytes(record.new_public))
    assert len(set(pins)) == 4
    assert all(follows(pki, pin) for pin in pins)
    assert not ensure_identity(str(pki), "m1", NOW)


def test_the_former_fleet_key_is_not_kept(pki: Path) -> None:
    before = (pki / "fleet.key").read_bytes()
    rotate(str(pki), "m1", NOW)
    assert not [path for path in pki.iterdir() if before in path.read_bytes()]
    assert {oct(path.stat().st_mode & 0o777) for path in pki.iterdir()} == {"0o600"}


class Killed(BaseException):
    """The process is gone."""


def dying_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the process die before the step with that number among those that change the folder."""
    left = [step]

    def counted(whole: Callable[..., None]) -> Callable[..., None]:
        def change(*args: object) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            whole(*args)

        return change

    monkeypatch.setattr("saltlite.master.processes.identity.write_secret", counted(write_secret))
    monkeypatch.setattr("os.unlink", counted(os.unlink))
    monkeypatch.setattr("os.rename", counted(os.rename))


def test_a_change_that_ends_anywhere_leaves_the_old_key_or_the_new_one(pki: Path) -> None:
    took_place = []
    for step in range(20):
        old = certificate(pki).fleet_public
        with pytest.MonkeyPatch.context() as patches, suppress(Killed):
            dying_at(patches, step)
            rotate(str(pki), "m1", NOW)
        ensure_identity(str(pki), "m1", NOW)
        took_place.append(certificate(pki).fleet_public != old)
        assert follows(pki, fingerprint_bytes(old))
        assert not list(pki.glob("*.next"))
    assert took_place == sorted(took_place)
    assert set(took_place) == {False, True}


def test_a_fleet_key_that_is_not_there_cannot_be_changed(pki: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (pki / "fleet.key").unlink()
    with pytest.raises(StartupError, match="there is no"):
        rotate(str(pki), "m1", NOW)
    with pytest.raises(UsageError, match="on its first start"):
        rotate(str(tmp_path_factory.mktemp("empty")), "m1", NOW)


def test_the_chain_on_the_disk_has_a_limit(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CHAIN_KEPT > 300
    monkeypatch.setattr(identity, "CHAIN_KEPT", 2)
    for number in range(4):
        rotate(str(pki), "m1", NOW + number)
    assert [record.serial for record in fleet_files(str(pki)).chain] == [3, 4]


# -- a lost one


def test_a_lost_fleet_key_is_replaced_only_where_somebody_asks(pki: Path) -> None:
    before = fleet(pki)
    with pytest.raises(UsageError, match="is not lost"):
        replace_lost(str(pki), "m1", NOW)
    rotate(str(pki), "m1", NOW)
    (pki / "fleet.key").unlink()

    made = replace_lost(str(pki), "m1", NOW)

    assert made == fleet(pki) != before
    assert certificate(pki)
    assert not (pki / "fleet.chain").exists()
    assert not ensure_identity(str(pki), "m1", NOW, accepted=5)


def test_replacing_a_lost_key_may_end_anywhere_and_be_done_again(pki: Path) -> None:
    for step in range(12):
        (pki / "fleet.key").unlink()
        with pytest.MonkeyPatch.context() as patches, suppress(Killed):
            dying_at(patches, step)
            replace_lost(str(pki), "m1", NOW)
        if fleet_files(str(pki)).problem():
            assert "fleet" in refused(pki)
            replace_lost(str(pki), "m1", NOW)
        ensure_identity(str(pki), "m1", NOW)
        certificate(pki)


def test_what_a_lost_key_left_is_kept_aside(pki: Path) -> None:
    (pki / "fleet.key").write_bytes(b"damaged")
    replace_lost(str(pki), "m1", NOW)
    assert (pki / "fleet.key.lost").read_bytes() == b"damaged"
