"""S10: whoever takes over the master's link process gets nothing that a minion, an MWorker or an operator believes.

The attacker's code is `taken_over.py`; it runs in the link process of a real master, beside a real minion.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.model.keys import fingerprint
from tests.e2e.taken_over import EVIL_KEYS
from tests.support.fleet import BIN, Fleet, wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives the link process a user of its own"),
]

NOBODY, DAEMON = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")
PLUGIN = "def f():\n    return {!r}\n"
SENTENCE = "no master of this minion has signed"


class Site:
    """A fleet of one minion with files, plug-ins and a pillar, whose master's link process takes orders."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.folder = folder = fleet.folder
        self.orders = folder / "orders"
        self.orders.write_text("")
        self._ordered = 0
        self.fleet.through = [sys.executable, Path(__file__).with_name("taken_over.py"), self.orders]
        self.files, pillar = folder / "files", folder / "pillar"
        (self.files / "_modules").mkdir(parents=True)
        pillar.mkdir()
        (self.files / "f").write_text("good")
        self.plugin = self.files / "_modules" / "mine.py"
        self.plugin.write_text(PLUGIN.format("first"))
        (pillar / "top.sls").write_text("base:\n  '*': [role]\n")
        (pillar / "role.sls").write_text("role: web\n")
        self.fleet.start_master(
            user="nobody",
            link_user="daemon",
            publisher_acl={"somebody": ["test.ping"]},
            file_roots={"base": [str(self.files)]},
            pillar_roots={"base": [str(pillar)]},
        )
        self.fleet.join("a")
        assert self.call("pillar.get", "role") == "web"

    def order(self, word: str) -> None:
        """Have the link process do that from now on."""
        whole = self.orders.with_suffix(".new")
        whole.write_text(word)
        whole.rename(self.orders)
        self._ordered += 1
        self.fleet.wait_log("master", f"attack order {self._ordered}: {word or 'be honest'}")

    def call(self, *words: str) -> object:
        """What the minion returned."""
        return self.fleet.cli("a", *words, "--out", "json").json()["a"]

    def doctor(self) -> str:
        """What `saltlite doctor` says on the machine of the minion."""
        done = subprocess.run(
            [BIN / "saltlite", "-c", self.fleet.folder / "a", "doctor"], capture_output=True, text=True, check=False
        )
        return str(done.stdout)

    def fresh(self) -> None:
        """Bring the minion what the master has: a plug-in that says "first", and the file as it was."""
        (self.files / "f").write_text("good")
        self.plugin.write_text(PLUGIN.format("first"))
        assert self.call("saltutil.sync_modules") in ([], ["modules.mine"])
        assert self.call("mine.f") == "first"

    def tried(self) -> dict[str, str]:
        """What the link process tried, and what became of it."""
        return dict(re.findall(r"attack tried to (.*?): (.*)", self.fleet.daemons["master"].log()))


@pytest.fixture(scope="module")
def shared() -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="saltlite-e2e-"))
    folder.chmod(0o755)
    fleet = Fleet(folder)
    try:
        yield Site(fleet)
    finally:
        fleet.close()
        shutil.rmtree(folder)


@pytest.fixture
def site(shared: Site) -> Site:
    """The one fleet of this file, with an honest link process and the plug-in as the minion has it."""
    if shared.orders.read_text():
        shared.order("")
    shared.fresh()
    return shared


def test_it_opens_no_file_no_socket_and_no_process_of_the_master(site: Site) -> None:
    Path(site.fleet.socket_path()).chmod(0o666)
    site.order(f"files {site.folder}")
    site.fleet.wait_log("master", "attack all was tried")
    tried = site.tried()
    assert len(tried) >= 17 + 3 * 3
    assert {name: said for name, said in tried.items() if not said.startswith(("refused", "found nothing"))} == {}
    assert {name for name, said in tried.items() if said == "found nothing"} == {
        "hold a file",
        "write to a file of the fleet",
    }
    assert "the master's own processes run as this user" in tried["publish a job"]
    assert site.fleet.cli("a", "test.ping", "--out", "json").json() == {"a": True}


@pytest.mark.parametrize("lie", ["evil_bytes", "evil_file", "evil_mode", "no_file", "sign"])
def test_it_changes_no_file_that_a_minion_fetches(site: Site, lie: str) -> None:
    dest = site.folder / "dest"
    dest.write_text("old")
    site.order(lie)
    said = site.call("cp.get_file", "salt://f", str(dest))
    assert SENTENCE in str(said) or "changes on the master while it is fetched" in str(said)
    assert dest.read_text() == "old"
    site.order("")
    assert site.call("cp.get_file", "salt://f", str(dest)) == str(dest)
    assert dest.read_text() == "good"


@pytest.mark.parametrize("lie", ["evil_bytes", "evil_file", "no_file", "no_names", "sign"])
def test_it_changes_and_removes_no_plug_in(site: Site, lie: str) -> None:
    site.plugin.write_text(PLUGIN.format("second"))
    site.order(lie)
    said = str(site.call("saltutil.sync_modules"))
    assert SENTENCE in said or "changes on the master while it is fetched" in said
    assert site.call("mine.f") == "first"
    site.order("")
    assert site.call("saltutil.sync_modules") == ["modules.mine"]
    assert site.call("mine.f") == "second"


@pytest.mark.parametrize("lie", ["evil_pillar", "sign"])
def test_it_changes_no_pillar(site: Site, lie: str) -> None:
    site.order(lie)
    site.fleet.publish("a", "saltutil.refresh_pillar")
    site.fleet.wait_log("a", "an answer about pillar was not signed by a master that this minion trusts")
    assert site.call("pillar.get", "role") == "web"
    assert "signatures" in site.doctor()
    site.order("")
    wait_until(lambda: site.call("saltutil.refresh_pillar") is True, "the pillar comes from an honest link")
    assert site.call("pillar.get", "role") == "web"


def test_it_cannot_say_again_what_was_true_before(site: Site) -> None:
    dest = site.folder / "dest"
    assert site.call("cp.get_file", "salt://f", str(dest)) == str(dest)
    (site.files / "f").write_text("mended")
    site.order("replay")
    assert SENTENCE in str(site.call("cp.get_file", "salt://f", str(dest)))
    site.order("")
    assert site.call("cp.get_file", "salt://f", str(dest)) == str(dest)
    assert dest.read_text() == "mended"


def test_a_token_that_it_sees_lets_in_no_key_of_its_own(site: Site) -> None:
    site.order("steal")
    token = site.fleet.token("--uses", "5")
    site.fleet.start_minion("b", join_token=token)
    site.fleet.wait_up("a", "b")
    rows = site.fleet.key_rows()
    assert sorted(row["id"] for row in rows if row["state"] == "accepted") == ["a", "b"]
    evil = {row["id"]: row["state"] for row in rows if row["fingerprint"] in map(fingerprint, EVIL_KEYS)}
    assert evil in ({"b": "pending", "thief": "pending"}, {"b": "conflict", "thief": "pending"})
    with site.fleet.store() as store:
        left = store.token(token.split(".")[2])
        assert left is not None
        assert left.uses_left == 4
