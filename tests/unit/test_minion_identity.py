"""The fleet that a minion belongs to: pinned, followed to its successor, and never left for a former one."""

from __future__ import annotations

from pathlib import Path

import pytest

from saltlite.config.minion import MinionConfig
from saltlite.errors import MisconfiguredError, RemoteProtocolError, StartupError
from saltlite.minion.processes import identity
from saltlite.minion.processes.identity import PinnedFleet
from saltlite.model.keys import Fingerprint, JoinToken, fingerprint
from saltlite.wire.certificates import encode_chain, succeed
from saltlite.wire.directory import NOWHERE, Directory, MasterEntry
from tests.support.keys import FLEET_PRIVATE, FLEET_PUBLIC, NOW, certificate, seed

FIRST, SECOND, THIRD, OTHER = FLEET_PRIVATE, seed("second"), seed("third"), seed("other")
ONE, TWO = succeed(FIRST, SECOND, serial=1, time=0), succeed(SECOND, THIRD, serial=2, time=0)
FIRST_ID, SECOND_ID, THIRD_ID = fingerprint(FLEET_PUBLIC), fingerprint(ONE.new_public), fingerprint(TWO.new_public)


def fleet_of(
    folder: Path, *, first_use: bool = False, token: Fingerprint | None = None, fleet: str = ""
) -> PinnedFleet:
    """The minion is started."""
    config = MinionConfig(pki_dir=str(folder), fleet=fleet, trust_on_first_use=first_use)
    return PinnedFleet(config, JoinToken(token, "t" * 8, "s" * 32) if token is not None else None)


def believe(fleet: PinnedFleet, key: bytes, chain: bytes = b"") -> None:
    """A master shows a certificate by that fleet key."""
    fleet.believe(certificate(NOW, fleet=key), chain, int(NOW))


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    """The folder of a minion that has joined the first fleet."""
    fleet_of(tmp_path, token=FIRST_ID).keep()
    return tmp_path


def pin(folder: Path) -> list[str]:
    return (folder / "fleet.pin").read_text().split()


def test_the_successor_is_pinned_on_the_disk_with_the_way_to_it(joined: Path) -> None:
    believe(fleet_of(joined), THIRD, encode_chain([ONE, TWO]))
    assert pin(joined) == [THIRD_ID, SECOND_ID, FIRST_ID]
    assert fleet_of(joined).pinned == THIRD_ID


def test_the_way_goes_on_from_change_to_change(joined: Path) -> None:
    believe(fleet_of(joined), SECOND, ONE.encode())
    believe(fleet_of(joined), THIRD, TWO.encode())
    assert pin(joined) == [THIRD_ID, SECOND_ID, FIRST_ID]


@pytest.mark.parametrize("chain", [b"", ONE.encode(), encode_chain([ONE, TWO])])
def test_a_former_fleet_key_is_refused_from_then_on(joined: Path, chain: bytes) -> None:
    believe(fleet_of(joined), SECOND, ONE.encode())
    with pytest.raises(RemoteProtocolError, match="wrong-fleet"):
        believe(fleet_of(joined), FIRST, chain)
    with pytest.raises(RemoteProtocolError):
        believe(fleet_of(joined, fleet=FIRST_ID, token=FIRST_ID), FIRST, chain)
    assert pin(joined) == [SECOND_ID, FIRST_ID]


def test_a_certificate_that_the_successor_did_not_sign_moves_no_pin(joined: Path) -> None:
    from dataclasses import replace

    fleet = fleet_of(joined)
    forged = replace(certificate(NOW), fleet_public=ONE.new_public)
    with pytest.raises(RemoteProtocolError, match="bad-signature"):
        fleet.believe(forged, ONE.encode(), int(NOW))
    assert (fleet.pinned, pin(joined)) == (FIRST_ID, [FIRST_ID])


def test_a_first_contact_pins_only_what_was_proved(tmp_path: Path) -> None:
    from dataclasses import replace

    fleet = fleet_of(tmp_path, first_use=True)
    with pytest.raises(RemoteProtocolError, match="bad-signature"):
        fleet.believe(replace(certificate(NOW), fleet_public=ONE.new_public), b"", int(NOW))
    assert fleet.pinned is None
    believe(fleet, FIRST)
    assert pin(tmp_path) == [FIRST_ID]


def test_a_former_fleet_in_the_configuration_or_a_token_means_the_present_one(joined: Path) -> None:
    believe(fleet_of(joined), THIRD, encode_chain([ONE, TWO]))
    for former in (FIRST_ID, SECOND_ID, THIRD_ID):
        assert fleet_of(joined, fleet=former).pinned == THIRD_ID
        assert fleet_of(joined, token=former).pinned == THIRD_ID


def test_another_fleet_in_the_configuration_moves_the_minion_once_a_master_proves_it(joined: Path) -> None:
    believe(fleet_of(joined), SECOND, ONE.encode())
    other = certificate(NOW, fleet=OTHER)
    fleet = fleet_of(joined, fleet=fingerprint(other.fleet_public))
    assert pin(joined) == [SECOND_ID, FIRST_ID]
    fleet.believe(other, b"", int(NOW))
    assert pin(joined) == [fingerprint(other.fleet_public)]


def test_a_token_of_another_fleet_is_refused_with_the_way_out(joined: Path) -> None:
    with pytest.raises(MisconfiguredError, match="if only the key of its fleet was changed, remove the token"):
        fleet_of(joined, token=SECOND_ID)


def test_a_disk_that_does_not_take_the_pin_is_asked_again(joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_of(joined)
    with monkeypatch.context() as patches:

        def full(_path: str, _data: bytes) -> None:
            raise StartupError("no space left")

        patches.setattr(identity, "write_secret", full)
        believe(fleet, SECOND, ONE.encode())
    assert (fleet.pinned, pin(joined)) == (SECOND_ID, [FIRST_ID])
    believe(fleet, SECOND)
    assert pin(joined) == [SECOND_ID, FIRST_ID]


@pytest.mark.parametrize("content", ["", "nonsense\n", f"{FIRST_ID}\nnonsense\n"])
def test_a_damaged_pin_is_a_sentence(joined: Path, content: str) -> None:
    (joined / "fleet.pin").write_text(content)
    with pytest.raises(StartupError, match="is damaged"):
        fleet_of(joined)


def test_the_host_name_is_looked_up_for_the_first_start_without_an_id_only(tmp_path: Path) -> None:
    asked: list[str] = []

    def full_host_name() -> str:
        asked.append("asked")
        return "Web1.Example.org"

    with_id = MinionConfig(pki_dir=str(tmp_path), id="db1")
    assert identity.minion_id(with_id, full_host_name) == "db1"
    assert asked == []
    without = MinionConfig(pki_dir=str(tmp_path))
    assert [identity.minion_id(without, full_host_name) for _ in range(2)] == ["web1.example.org"] * 2
    assert asked == ["asked"]


def test_the_number_of_the_directory_is_kept_with_it_also_when_it_has_no_masters(tmp_path: Path) -> None:
    for known in (Directory((MasterEntry("m1", "m1:4515", 100, True),), 1000), Directory((), 1000)):
        identity.keep_masters(str(tmp_path), FIRST_ID, known)
        assert identity.kept_masters(str(tmp_path), [FIRST_ID]) == known
        assert identity.kept_masters(str(tmp_path), [SECOND_ID]) == NOWHERE
