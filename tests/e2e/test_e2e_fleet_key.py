"""The fleet key on a real fleet: changed, lost, missing, leaked."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.support.fleet import BIN, Fleet, Said, alive, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

PKI = "etc/saltlite/pki/master"


def pki(fleet: Fleet, master: str = "master") -> Path:
    return fleet.root(master) / PKI


def pin(fleet: Fleet, minion: str) -> list[str]:
    """The lines of the minion's pin: its fleet, and the former ones."""
    return (fleet.root(minion) / "etc/saltlite/pki/minion/fleet.pin").read_text().split()


def rotate(fleet: Fleet, master: str = "master") -> str:
    """Change the fleet key; the new fingerprint."""
    said = fleet.cli("key", "fleet", "rotate", "-y", "--out", "json", master=master)
    assert said.code == 0, said.err
    return str(said.json()["fleet"])


def pings(fleet: Fleet, minion: str) -> bool:
    answer: dict[str, bool] = fleet.cli("--out", "json", minion, "test.ping").json()
    return answer == {minion: True}


def start_refused(fleet: Fleet, master: str = "master") -> Said:
    """Start a master that must not start."""
    argv = [str(BIN / "saltlite-master"), "-c", str(fleet.folder / master)]
    done = subprocess.run(argv, capture_output=True, text=True, env=fleet.environment(), timeout=60, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


def test_a_change_reaches_minions_that_are_up_and_those_that_missed_two(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("here", "gone")
    first = fleet.fleet_id()
    fleet.daemons["gone"].stop()

    second = rotate(fleet)
    third = rotate(fleet)

    assert len({first, second, third}) == 3
    wait_until(lambda: pin(fleet, "here") == [third, second, first], "the minion that was up has followed twice")
    fleet.wait_up("here")
    assert pings(fleet, "here")
    assert pin(fleet, "gone") == [first]
    fleet.restart_minion("gone")
    fleet.wait_up("gone")
    assert pings(fleet, "gone")
    assert pin(fleet, "gone") == [third, second, first]
    wait_until(lambda: fleet.fleet_id() == third, "every MWorker shows the new key")
    shown = fleet.cli("key", "fleet", "show", "--out", "json").json()
    assert shown["fleet"] == third
    assert [(one["serial"], one["old"], one["new"]) for one in shown["changes"]] == [
        (1, first, second),
        (2, second, third),
    ]


def test_doctor_on_a_minion_that_missed_a_change_knows_the_successor(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    fleet.daemons["m"].stop()
    second = rotate(fleet)
    found = fleet.cli("doctor", "minion", "--out", "json", master="m").json()["sides"]["minion"]
    said = {one["sentence"] for one in found if one["check"] == f"master {fleet.address()}"}
    assert [one for one in said if f"{second} succeeds this minion's fleet" in one]


def test_an_old_fleet_in_configuration_and_token_means_its_successor(fleet: Fleet) -> None:
    fleet.start_master()
    first = fleet.fleet_id()
    token = fleet.token("--uses", "2")
    second = rotate(fleet)

    def has_followed(minion: str) -> bool:
        return pin(fleet, minion) == [second, first]

    fleet.start_minion("by-token", join_token=token)
    fleet.start_minion("by-fleet", fleet=first)

    fleet.wait_up("by-token")
    fleet.wait_key("by-fleet", "pending")
    for minion in ("by-token", "by-fleet"):
        wait_until(partial(has_followed, minion), f"{minion} has followed")
        fleet.daemons[minion].stop()
        fleet.restart_minion(minion)
    fleet.wait_up("by-token")
    assert pin(fleet, "by-fleet") == [second, first]


def test_a_leaked_old_fleet_key_has_no_minion_back(fleet: Fleet) -> None:
    fleet.start_master()
    first = fleet.fleet_id()
    fleet.join("m")
    other = pki(fleet, "thief")
    other.mkdir(mode=0o700, parents=True)
    shutil.copy(pki(fleet) / "fleet.key", other)
    second = rotate(fleet)
    wait_until(lambda: pin(fleet, "m") == [second, first], "the minion has followed")
    fleet.daemons["m"].stop()
    fleet.start_master("thief")

    # Its configuration still names the old fleet.
    fleet.start_minion("m", fleet=first, master=[fleet.address("thief"), fleet.address()])

    fleet.wait_up("m")
    assert f"{fleet.address('thief')} closed the connection" in fleet.daemons["m"].log()
    assert fleet.key_rows("thief") == []
    assert pin(fleet, "m") == [second, first]


KILLED = """
import os, sys, time
from saltlite.master.processes import identity
whole, left = identity.write_secret, [int(sys.argv[2])]
def dying(path, data):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), 9)
    whole(path, data)
identity.write_secret = dying
identity.rotate(sys.argv[1], os.uname().nodename.lower(), time.time())
"""


def test_a_change_that_is_killed_anywhere_leaves_the_old_key_or_the_new_one(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    fleets = [fleet.fleet_id()]
    took_place = []

    def followed() -> bool:
        return pin(fleet, "m") == fleets[::-1]

    for write in range(1, 7):
        argv = [str(BIN / "python"), "-c", KILLED, str(pki(fleet)), str(write)]
        done = subprocess.run(argv, env=fleet.environment(), timeout=60, check=False)
        killed = done.returncode == -signal.SIGKILL
        shown = wait_until(lambda: _settled(fleet), "the running master shows what is on the disk")
        took_place.append(shown != fleets[-1])
        fleets += [shown] if took_place[-1] else []
        wait_until(followed, "the minion has followed, or has not moved")
        fleet.wait_up("m")
        if not killed:
            break
    # The successor, the chain, the key, the certificate, the fingerprint: the second of these writes decides.
    assert took_place == [False, False, True, True, True, True]
    assert pings(fleet, "m")


def _settled(fleet: Fleet) -> str:
    said = fleet.cli("key", "fleet", "show", "--out", "json")
    shown = said.json()
    on_disk = (pki(fleet) / "fleet.id").read_text().strip()
    settled = said.code == 0 and shown["fleet"] == on_disk == fleet.fleet_id() and not list(pki(fleet).glob("*.next"))
    return str(shown["fleet"]) if settled else ""


def test_a_master_that_is_killed_after_a_change_was_decided_goes_on_with_the_new_key(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    first = fleet.fleet_id()
    fleet.daemons["master"].kill_whole()
    argv = [str(BIN / "python"), "-c", KILLED, str(pki(fleet)), "3"]
    assert subprocess.run(argv, env=fleet.environment(), timeout=60, check=False).returncode == -signal.SIGKILL

    fleet.restart_master()

    assert fleet.fleet_id() != first
    # The store says that it is up, as before the kill, until the new master knows better.
    wait_until(lambda: pin(fleet, "m") == [fleet.fleet_id(), first], "the minion has followed")
    fleet.wait_up("m")


def test_a_missing_fleet_key_stops_the_master_and_its_backup_starts_it(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    fleet.daemons["master"].stop()
    key = pki(fleet) / "fleet.key"
    backup = key.rename(fleet.root("master") / "backup")

    said = start_refused(fleet)

    assert said.code == 1
    assert said.err.count("\n") == 1
    assert f"there is no {key}, beside fleet.id, master.cert, 1 accepted keys" in said.err
    assert "restore it from a backup" in said.err
    assert "key fleet new" in said.err
    assert not key.exists()
    found = fleet.cli("doctor", "master", "--out", "json").json()["sides"]["master"]
    (problem,) = [one["sentence"] for one in found if one["check"] == "fleet"]
    assert f"there is no {key}, beside fleet.id, master.cert; " in problem
    backup.rename(key)
    fleet.restart_master()
    fleet.wait_up("m")


def test_a_lost_pki_folder_beside_accepted_keys_stops_the_master(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    fleet.daemons["master"].stop()
    shutil.rmtree(pki(fleet))

    said = start_refused(fleet)

    assert said.code == 1
    assert "beside 1 accepted keys of minions in the store" in said.err


def test_a_lost_fleet_key_is_replaced_by_the_documented_procedure(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    first = fleet.fleet_id()
    fleet.daemons["master"].stop()
    (pki(fleet) / "fleet.key").unlink()

    assert fleet.cli("key", "fleet", "rotate", "-y").code != 0
    said = fleet.cli("key", "fleet", "new", "--lost", "-y")

    assert said.code == 0, said.err
    second = said.out.removeprefix("fleet: ").strip()
    assert "No minion believes this fleet yet" in said.err
    fleet.restart_master()
    assert fleet.fleet_id() == second != first
    fleet.daemons["m"].stop()
    fleet.start_minion("m", fleet=second)
    fleet.wait_up("m")
    assert [row["state"] for row in fleet.key_rows()] == ["accepted"]
    # From now on without the option, too.
    wait_until(lambda: pin(fleet, "m") == [second], "the new pin is written")
    fleet.daemons["m"].stop()
    fleet.start_minion("m")
    fleet.wait_up("m")


def test_a_fleet_key_that_is_there_is_not_taken_for_lost(fleet: Fleet) -> None:
    fleet.start_master()
    first = fleet.fleet_id()
    said = fleet.cli("key", "fleet", "new", "--lost", "-y")
    assert said.code == 2
    assert "is not lost" in said.err
    assert fleet.cli("key", "fleet", "new", "-y").code == 2
    assert fleet.fleet_id() == first


@pytest.mark.parametrize("name", ["master.key", "job.key"])
def test_another_key_that_is_missing_is_made_anew_with_its_certificate(fleet: Fleet, name: str) -> None:
    fleet.start_master()
    fleet.join("m")
    first = fleet.fleet_id()
    fleet.daemons["master"].stop()
    (pki(fleet) / name).unlink()

    fleet.restart_master()

    assert f"{name} was missing: it was made anew, and so is the certificate" in fleet.daemons["master"].log()
    assert fleet.fleet_id() == first
    fleet.wait_up("m")
    assert pings(fleet, "m")


def test_two_masters_change_their_fleet_key_together(fleet: Fleet) -> None:
    fleet.start_master("one")
    second = pki(fleet, "two")
    second.mkdir(mode=0o700, parents=True)
    shutil.copy(pki(fleet, "one") / "fleet.key", second)
    fleet.start_master("two")
    token = fleet.token(master="one")
    fleet.start_minion("m", master=[fleet.address("one"), fleet.address("two")], join_token=token)
    fleet.wait_up("m", master="one")
    key = fleet.key_rows("one")[0]["fingerprint"]
    assert fleet.cli("key", "preaccept", "m", key, master="two").code == 0

    new = rotate(fleet, "one")
    for name in ("fleet.chain", "fleet.key"):
        shutil.copy(pki(fleet, "one") / name, second / "copied")
        os.rename(second / "copied", second / name)

    wait_until(lambda: fleet.fleet_id("two") == new, "the second master uses the new key, while it runs")
    # Which of the two the minion tries first depends on when each of them has the new key.
    wait_until(lambda: "m" in fleet.up_now("one") | fleet.up_now("two"), "m is up")
    chosen, other = ("one", "two") if "m" in fleet.up("one") else ("two", "one")
    assert fleet.daemons[chosen].stop() == 0
    fleet.wait_up("m", master=other)
    assert alive(fleet.daemons[other].pid)
