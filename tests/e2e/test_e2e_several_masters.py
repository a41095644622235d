"""Masters that share a database: each reaches the minions of all, and the loss of one loses nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from tests.support.fleet import Fleet, Said, wait_until
from tests.support.postgres import Server, running_server

pytestmark = pytest.mark.e2e

MASTERS = ("one", "two", "three")


class Site:
    """Three masters on one database, and a minion of each: m1, m2, m3."""

    def __init__(self, fleet: Fleet, server: Server) -> None:
        self.fleet = fleet
        self.server = server
        for name in MASTERS:
            pki = fleet.root(name) / "etc/saltlite/pki/master"
            if name != "one":
                pki.mkdir(mode=0o700, parents=True)
                for file in ("fleet.key", "shared.key"):
                    shutil.copy(fleet.root("one") / "etc/saltlite/pki/master" / file, pki)
            fleet.start_master(name, master_name=name, database=server.dsn(), several_masters=True)
        for number, name in enumerate(MASTERS, 1):
            fleet.join(f"m{number}", at=name, master=self.homes(name))
        for name in MASTERS:
            fleet.wait_up("m1", "m2", "m3", master=name)

    def homes(self, first: str) -> list[str]:
        """The addresses of all masters, that one first."""
        return [self.fleet.address(name) for name in (first, *(name for name in MASTERS if name != first))]

    def ping(self, master: str) -> object:
        """What `'*' test.ping` prints there."""
        return returned(self.fleet.cli("*", "test.ping", "--out", "json", master=master))


def returned(said: Said) -> object:
    assert said.code == 0, said.err
    return json.loads(said.out)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_server() as server:
        fleet = Fleet(tmp_path_factory.mktemp("several"))
        try:
            yield Site(fleet, server)
        finally:
            fleet.close()


ALL = {"m1": True, "m2": True, "m3": True}


def test_a_job_of_any_master_reaches_the_minions_of_all(site: Site) -> None:
    assert [site.ping(name) for name in MASTERS] == [ALL] * len(MASTERS)
    batch = site.fleet.cli("-b", "1", "*", "test.ping", "--out", "json", master="two")
    assert returned(batch) == ALL


def test_a_kill_reaches_a_minion_of_another_master(site: Site) -> None:
    fleet = site.fleet
    jid = fleet.cli("--async", "--out", "json", "m2", "test.sleep", "60", master="one").json()["jid"]
    wait_until(lambda: fleet.running_jobs("m2"), "it runs")
    killed = fleet.cli("job", "kill", jid, master="three")
    assert killed.code == 0, killed.err
    wait_until(lambda: not fleet.running_jobs("m2"), "it has ended")
    assert "killed" in fleet.cli("job", "show", jid, master="one").out


def test_a_revoked_key_is_void_on_every_master_when_the_command_returns(site: Site) -> None:
    fleet = site.fleet
    fleet.join("gone", at="three", master=site.homes("three"))
    fleet.wait_up("gone", master="one")
    assert fleet.cli("key", "revoke", "gone", "-y", master="one").code == 0
    for name in MASTERS:
        assert "gone" not in fleet.up(name)
        assert site.ping(name) == ALL
    assert fleet.cli("key", "delete", "gone", "-y", master="two").code == 0
    fleet.daemons["gone"].stop()
