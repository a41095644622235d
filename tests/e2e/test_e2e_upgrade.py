"""`saltlite upgrade` with real minions of an older version, two of which the new one does not work for."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from saltlite import __version__
from tests.support.fleet import Fleet, wait_until
from tests.support.other_version import OLD, launcher, of_commit, older, replace

pytestmark = pytest.mark.e2e

WITHIN_S = 12
NOWHERE = "127.0.0.1:1"
PREVIOUS = "6f1ca0a4b52e4d032b8c4954e797aecfcfa60b9e"
"""No version is released yet: the commit that packages and upgrades were built on stands in for it."""
MASTER_BEFORE = "87fb339e1cc4886b3a63f86c932395a3c686ed81"
"""Its masters take minions of this version; those of PREVIOUS refuse them, as the upgrade notes of CHANGELOG say."""


def test_minions_get_the_version_of_the_master_or_go_back_by_themselves(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    token = fleet.token("--uses", "5")
    old = older(tmp_path / "old")
    # The new version knows no such option, and ends; it has no way to the master, and does not connect.
    former = r'\n    former: bool = option(False, "", FlagKind())\1'
    replace(old / "saltlite/config/minion.py", r"(\n    root_dir: str = )", former)
    way = rf'\n    if config.master == ["{NOWHERE}"]:\n        return ("{fleet.address()}",)\1'
    replace(old / "saltlite/minion/processes/start.py", r"(\n    pairs = )", way)
    fleet.through = launcher(old)
    fleet.start_minion("ended", join_token=token, former=True)
    fleet.start_minion("lost", join_token=token, master=NOWHERE)
    fleet.start_minion("web1", join_token=token)
    fleet.wait_up("ended", "lost", "web1")
    for name in ("away", "late"):
        fleet.start_minion(name, join_token=token)
        fleet.wait_up(name)
        fleet.daemons[name].stop()
    assert fleet.cli("*", "test.version", "--out", "json").json()["web1"] == OLD

    with ThreadPoolExecutor(1) as pool:
        upgrade = pool.submit(fleet.cli, "upgrade", "*", "--within", f"{WITHIN_S}s", "--out", "json")
        # Its turn comes after that of those that were connected, two of which take WITHIN_S.
        wait_until(lambda: "upgrade.install" in fleet.cli("job", "list").out, "the upgrade has begun")
        fleet.start_minion("late", join_token=token)
        said = upgrade.result()

    found = said.json()
    assert {name: row["state"] for name, row in found.items()} == {
        "away": "not reached",
        "ended": "back on the old",
        "late": "upgraded",
        "lost": "back on the old",
        "web1": "upgraded",
    }, said
    assert said.code == 4
    assert found["ended"]["reason"] == "it ended before it was connected"
    assert found["lost"]["reason"].startswith(f"it was not connected within {WITHIN_S}s")
    assert found["away"]["reason"] == "it is not connected"
    wait_until(lambda: fleet.up_now() >= {"web1", "ended", "lost"}, "all are back")
    versions = fleet.cli("ended,lost,web1", "test.version", "-L", "--out", "json").json()
    assert versions == {"ended": OLD, "lost": OLD, "web1": __version__}

    # It stays when the minion starts again, as after a power failure, and it is the end of it for the others.
    said = fleet.cli("upgrade", "web1")
    assert (said.code, said.out) == (0, "web1: current\n")
    state = json.loads((fleet.root("web1") / "var/lib/saltlite/minion/version.json").read_text())
    assert state["current"].startswith(f"{__version__}-")
    assert state["trial"] is None
    assert state["last"]["outcome"] == "upgraded"


def test_a_minion_of_the_version_before_works_with_this_master(fleet: Fleet, tmp_path: Path) -> None:
    old = of_commit(tmp_path / "old", PREVIOUS)
    if old is None:
        pytest.skip(f"neither this clone nor its origin has the commit {PREVIOUS}")
    fleet.start_master()
    fleet.through = launcher(old)
    works(fleet)


def test_this_minion_works_with_a_master_of_the_version_before(fleet: Fleet, tmp_path: Path) -> None:
    old = of_commit(tmp_path / "old", MASTER_BEFORE)
    if old is None:
        pytest.skip(f"neither this clone nor its origin has the commit {MASTER_BEFORE}")
    fleet.through = launcher(old)
    fleet.start_master()
    fleet.through = ()
    works(fleet)


def test_a_shallow_clone_gets_the_version_before_from_its_origin(tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"

    def git(*words: str, at: Path = origin) -> str:
        done = subprocess.run(
            ["git", "-C", at, "-c", "user.name=t", "-c", "user.email=t@localhost", *words],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    origin.mkdir()
    git("init", "-q")
    for name in ("saltlite", "daemons"):
        (origin / name).mkdir()
        (origin / name / "version").write_text("before")
    git("add", ".")
    git("commit", "-qm", "before")
    before = git("rev-parse", "HEAD")
    (origin / "saltlite/version").write_text("now")
    git("commit", "-qam", "now")
    git("clone", "-q", "--depth", "1", f"file://{origin}", str(clone))
    found = of_commit(tmp_path / "old", before, clone)
    assert found is not None
    assert (found / "saltlite/version").read_text() == "before"
    assert of_commit(tmp_path / "none", "0" * 40, clone) is None


def test_a_minion_of_the_next_version_works_with_this_master(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    new = older(tmp_path / "new")
    more = r'\1\n            "more": [1, "x"],'
    replace(new / "saltlite/minion/protocol/connection.py", r'(\n            "id": me.id,)', more)
    fleet.through = launcher(new)
    works(fleet)


def works(fleet: Fleet) -> None:
    """A minion joins, answers, fetches a file, and shows its grains to the master."""
    (fleet.root("master") / "srv/salt").mkdir(parents=True)
    (fleet.root("master") / "srv/salt/motd").write_text("hello")
    fleet.join("a")
    assert fleet.cli("*", "cmd.run", "echo done", "--out", "json").json() == {"a": "done"}
    assert fleet.cli("G@id:a", "cp.get_file_str", "salt://motd", "-C", "--out", "json").json() == {"a": "hello"}
