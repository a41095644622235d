"""A minion whose disk is full, returns that are too large to travel, and jobs whose children leave their session."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, alive, wait_until

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024
DATA_DIR = "var/lib/saltlite/minion"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB for the minion `a`."""
    folder = tmp_path / "a/root" / DATA_DIR
    folder.mkdir(parents=True, mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "saltlite-test", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """Take all that is left on it."""
    filler = disk / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for size in (65536, 4096, 1):
        try:
            while os.write(descriptor, bytes(size)):
                pass
        except OSError:
            continue
    os.close(descriptor)
    return filler


def test_on_a_full_disk_a_minion_stays_up_refuses_and_recovers(small_disk: Path, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    try:
        fleet.start_master()
        fleet.join("a")
        pid = fleet.daemons["a"].pid
        fill(small_disk)
        assert fleet.cli("a", "test.ping").code == 0, "a small result has its room"
        lost = fleet.cli("a", "cmd.run", "head -c 1000000 /dev/zero")
        assert "a: its result could not be written: No space left on device" in lost.err
        # As when somebody else was faster to take the room that a result has just given back.
        wait_until((small_disk / "spool/reserve").exists, "the result has given its room back")
        (small_disk / "spool/reserve").unlink()
        filler = fill(small_disk)
        refused = fleet.cli("a", "test.ping")
        assert refused.code == 6
        assert "the minion's disk is full (No space left on device)" in refused.err
        filler.unlink()
        assert fleet.cli("a", "test.ping").code == 0
        assert alive(pid)
        assert fleet.daemons["a"].log().count("new jobs are refused, because the disk is full") == 1
    finally:
        fleet.close()


def test_a_return_of_fifty_mebibytes_is_cut_says_so_and_can_be_fetched_whole(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("a", return_max=MIB)
    before = _peak_kib(fleet.daemons["a"].pid)
    said = fleet.cli("--out", "json", "a", "probe.big", str(50 * MIB))
    text = said.json()["a"]
    assert len(text) <= MIB
    found = re.search(
        r"\[(\d+) of 52428800 bytes are missing here; all of it: saltlite job fetch (\d{20}) a\]\n$", text
    )
    assert found is not None
    target = tmp_path / "whole"
    fetched = fleet.cli("job", "fetch", found[2], "--out-file", str(target))
    assert (fetched.code, fetched.out) == (0, "")
    assert target.stat().st_size == 50 * MIB
    assert target.read_bytes().strip(b"x") == b""
    assert _peak_kib(fleet.daemons["a"].pid) - before < 20 * 1024


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def test_a_return_that_was_not_cut_cannot_be_fetched_and_the_reason_is_said(shared: Fleet) -> None:
    jid = shared.publish("a", "test.ping")
    shared.wait_state(jid, "a", "returned")
    said = shared.cli("job", "fetch", jid, "a")
    assert (said.code, said.out) == (3, "")
    assert f"This minion keeps no return of job {jid}: it was not too large to travel" in said.err


def test_of_several_minions_one_has_to_be_named_for_fetch(shared: Fleet) -> None:
    jid = shared.publish("*", "test.ping")
    said = shared.cli("job", "fetch", jid)
    assert (said.code, f"saltlite job fetch {jid} MINION" in said.err) == (2, True)


def test_a_killed_job_takes_children_with_it_that_left_its_session(shared: Fleet, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 300' & (setsid sleep 300 & echo $! >> {pids}) ; sleep 300"
    jid = shared.publish("a", "cmd.run", command, "python_shell=True")
    wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "both children run")
    children = [int(word) for word in pids.read_text().split()]
    assert all(map(alive, children))
    shared.cli("job", "kill", jid)
    shared.wait_state(jid, "a", "cancelled")
    wait_until(lambda: not any(map(alive, children)), "children in sessions of their own are gone")


def test_what_is_logged_of_a_job_names_the_minion_and_the_job(shared: Fleet) -> None:
    jid = shared.publish("a", "test.sleep", "300")
    shared.wait_state(jid, "a", "running")
    shared.cli("job", "kill", jid)
    shared.wait_state(jid, "a", "cancelled")
    shared.wait_log("a", f"[id=a jid={jid}] signal 15 to its processes")
