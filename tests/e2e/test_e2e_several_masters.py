"""Masters that share a database: each reaches the minions of all, and the loss of one loses nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from saltlite.auth.logins import WRONG_AT_ONCE
from saltlite.cli.exitcodes import UNREACHABLE
from saltlite.client.connection import ANSWER_TIMEOUT_S
from saltlite.errors import LoginError
from saltlite.master.store.postgres.seals import UNSEALED
from tests.support.api import Api
from tests.support.cloud import Lab
from tests.support.fleet import Fleet, done_once, wait_until
from tests.support.postgres import running_server
from tests.support.several_masters import MASTERS, Site, returned

pytestmark = pytest.mark.e2e

HOMES = {"ann": "one", "bob": "two", "dan": "three"}
"""The minions, and the masters that they belong to by their names."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_server() as server:
        fleet = Fleet(tmp_path_factory.mktemp("several"))
        try:
            yield Site(fleet, server, HOMES)
        finally:
            fleet.close()


ALL = dict.fromkeys(HOMES, True)


def test_a_job_of_any_master_reaches_the_minions_of_all(site: Site) -> None:
    assert [site.ping(name) for name in MASTERS] == [ALL] * len(MASTERS)
    batch = site.fleet.cli("-b", "1", "*", "test.ping", "--out", "json", master="two")
    assert returned(batch) == ALL


def test_any_master_tells_when_a_minion_was_last_seen(site: Site) -> None:
    for name in MASTERS:
        with site.fleet.client(name) as client:
            seen = client.call("last_seen", ids=[*ALL, "nobody"])["silent_s"]
        assert seen.pop("nobody") is None
        assert {minion: isinstance(ago, float) and ago < 60 for minion, ago in seen.items()} == ALL


def test_a_kill_reaches_a_minion_of_another_master(site: Site) -> None:
    fleet = site.fleet
    jid = fleet.cli("--async", "--out", "json", "bob", "test.sleep", "60", master="one").json()["jid"]
    wait_until(lambda: fleet.running_jobs("bob"), "it runs")
    killed = fleet.cli("job", "kill", jid, master="three")
    assert killed.code == 0, killed.err
    wait_until(lambda: not fleet.running_jobs("bob"), "it has ended")
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


def test_a_hook_fires_once_whichever_master_has_the_event(site: Site) -> None:
    for number, name in enumerate(MASTERS):
        site.fire(name, number)
    assert site.holder("hooks") in MASTERS
    assert site.holder("maintenance") in MASTERS
    jobs = site.server.sql("SELECT count(*) FROM jobs WHERE fun = 'test.echo'")
    assert jobs == str(len(MASTERS))


def test_a_login_on_one_master_holds_on_the_others_until_it_is_revoked(site: Site) -> None:
    with site.fleet.client("one") as one, site.fleet.client("two") as two:
        answer = one.log_in("file", "carol", "correct horse", keep=True)
        two.token = answer["token"]
        assert two.cmd("*", "test.ping") == ALL
        (row,) = one.call("auth_token_list")["tokens"]
        assert one.call("auth_token_revoke", ids=[row["id"]])["revoked"] == [row["id"]]
        with pytest.raises(LoginError):
            two.cmd("*", "test.ping")


def test_wrong_passwords_of_all_masters_count_together(site: Site) -> None:
    with site.fleet.client("one") as one, site.fleet.client("two") as two:
        for client in [one, two] * (WRONG_AT_ONCE // 2):
            with pytest.raises(LoginError, match="name or the password is wrong"):
                client.log_in("file", "dave", "wrong")
        for client in (one, two):
            with pytest.raises(LoginError, match="too many wrong passwords for this name"):
                client.log_in("file", "dave", "battery staple")
        assert one.log_in("file", "carol", "correct horse")["token"], "nobody else waits"
    assert site.server.sql("SELECT count(*) FROM login_limits WHERE name LIKE '%dave%'") == "0", "names are not stored"


def test_a_key_that_was_accepted_in_the_database_lets_nobody_in(site: Site) -> None:
    fleet, server = site.fleet, site.server
    fleet.start_minion("stranger", master=site.homes("two"), fleet=fleet.fleet_id("two"))
    fleet.wait_key("stranger", "pending", master="one")
    server.sql("UPDATE keys SET state = 'accepted' WHERE id = 'stranger'")
    server.sql("UPDATE store SET accepted_version = accepted_version + 1")
    fleet.daemons["stranger"].stop()
    fleet.restart_minion("stranger")
    wait_until(lambda: "rejected" in fleet.daemons["stranger"].log(), "it is sent away")
    for name in MASTERS:
        (key,) = [row for row in fleet.key_rows(name) if row["id"] == "stranger"]
        assert (key["state"], key["how"]) == ("rejected", UNSEALED)
        assert "stranger" not in fleet.up(name)
        with fleet.client(name) as client:
            assert client.cmd("*", "test.ping") == ALL, "nobody waits for it"
    fleet.daemons["stranger"].stop()
    assert fleet.cli("key", "delete", "stranger", "-y", master="three").code == 0


def test_files_are_copied_to_the_minions_of_all_masters(site: Site, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 * 1024 * 1024))
    for minion in ALL:
        copied = tmp_path / minion
        assert returned(site.fleet.cli("cp", minion, str(source), str(copied), "--out", "json", master="one"))
        assert copied.read_bytes() == source.read_bytes()
    assert site.server.sql("SELECT count(*) FROM copy_pieces") == "0"


def test_a_machine_of_saltlite_cloud_whose_minion_joins_another_master_is_up(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(site.fleet, capfd, "one")
    lab.profile("small", minion={"master": [site.fleet.address("three")]})
    try:
        said = lab.run_apart("-p", "small", "cloudy")
        assert said.code == 0, said
        held = site.server.sql("SELECT master FROM minions WHERE id = 'cloudy' AND up = 1")
        assert held == "three"
        assert returned(site.fleet.cli("cloudy", "test.ping", "--out", "json", master="one")) == {"cloudy": True}
    finally:
        assert lab.run_apart("-d", "cloudy", "-y").code == 0


CLONES = "SELECT count(*) FROM events WHERE position('clone-suspect'::bytea IN data) > 0"


def test_of_a_minion_and_its_copy_at_another_master_one_stays_and_each_job_runs_once(
    site: Site, tmp_path: Path
) -> None:
    fleet = site.fleet
    kept = fleet.root("bob") / "var/lib/saltlite/minion/masters.json"
    wait_until(kept.exists, "bob knows the masters")
    fleet.daemons["bob"].stop()
    shutil.copytree(fleet.root("bob"), fleet.root("copy"), ignore=shutil.ignore_patterns("*.ipc", "masters.json"))
    fleet.restart_minion("bob")
    wait_until(lambda: "bob" in site.sessions(), "bob is up")
    held = site.sessions()["bob"]
    other = next(name for name in MASTERS if name != held)
    copy = fleet.start_minion("copy", id="bob", master=fleet.address(other), fleet=fleet.fleet_id("two"))
    runs = tmp_path / "runs"
    count = 0
    while "another machine uses this minion's key" not in copy.log():
        said = fleet.cli("bob", "cmd.run", f"echo {count} >> {runs}", master=MASTERS[count % len(MASTERS)])
        assert said.code == 0, said
        count += 1
        assert count < 500
    copy.stop()
    assert runs.read_text().split() == [str(number) for number in range(count)]
    assert site.sessions()["bob"] == held
    assert site.server.sql(CLONES) == "1"


def test_the_minions_of_a_master_that_drains_move_and_are_never_without_a_session(site: Site) -> None:
    fleet = site.fleet
    for name in HOMES:
        kept = fleet.root(name) / "var/lib/saltlite/minion/masters.json"
        wait_until(kept.exists, f"{name} knows the masters")
    drained = site.sessions()["bob"]
    before = fleet.daemons["bob"].log().count("backoff")
    assert fleet.cli("master", "drain", drained, master="one").code == 0
    wait_until(lambda: site.sessions().get("bob") not in (None, drained), "it has moved")
    assert drained not in site.sessions().values()
    assert [site.ping(name) for name in MASTERS] == [ALL] * len(MASTERS)
    assert "connection: ready (moved to" in fleet.daemons["bob"].log()
    assert fleet.daemons["bob"].log().count("backoff") == before, "it had a session all the time"
    assert "takes no new sessions: because it drains" in fleet.cli("doctor", "master", master=drained).out
    assert fleet.cli("master", "drain", drained, "--undo", master="one").code == 0


AWAY_S = 10.0


def test_a_database_that_is_away_for_ten_seconds_costs_no_session_and_no_result(site: Site, tmp_path: Path) -> None:
    fleet, server = site.fleet, site.server
    ready = [fleet.daemons[minion].log().count(": ready [") for minion in ALL]
    go = tmp_path / "go"
    jid = fleet.cli("--async", "--out", "json", "*", "cmd.run", done_once(go), master="one").json()["jid"]
    wait_until(lambda: all(fleet.running_jobs(minion) for minion in ALL), "all run it")
    server.stop()
    go.touch()
    away_since = time.monotonic()
    for name in MASTERS:
        wait_until(lambda name=name: fleet.cli("*", "test.ping", master=name).code != 0, "the database is away")  # type: ignore[misc]
        asked = time.monotonic()
        refused = fleet.cli("*", "test.ping", master=name)
        assert time.monotonic() - asked < ANSWER_TIMEOUT_S / 2
        assert refused.code != 0
        assert "cannot be reached" in refused.err
        assert "Traceback" not in refused.err
    wait_until(lambda: time.monotonic() - away_since > AWAY_S, "it was away for long enough")
    server.start()
    for name in MASTERS:
        wait_until(lambda name=name: fleet.cli("*", "test.ping", master=name).code == 0, f"{name} goes on")  # type: ignore[misc]
    returns = f"SELECT count(*) FROM returns WHERE jid = '{jid}' AND state = 'returned'"  # noqa: S608 - a jid
    wait_until(lambda: server.sql(returns) == "3", "all results are there")
    assert [fleet.daemons[minion].log().count(": ready [") for minion in ALL] == ready, "no session has ended"


def test_a_killed_master_makes_nothing_silent_and_loses_nothing(site: Site, tmp_path: Path) -> None:
    fleet, killed = site.fleet, site.holder("hooks")
    first, second = (name for name in MASTERS if name != killed)
    go = tmp_path / "go"
    words = ("--out", "json", "-t", "60", "*", "cmd.run", done_once(go))
    with fleet.start_cli(*words, master=first) as follower, fleet.start_cli(*words, master=killed) as left:
        wait_until(lambda: all(len(fleet.running_jobs(minion)) == 2 for minion in ALL), "all run both")
        fleet.daemons[killed].kill_whole()
        go.touch()
        out, err = follower.communicate(timeout=90)
        _out, said = left.communicate(timeout=90)
    assert follower.returncode == 0, err
    assert json.loads(out) == dict.fromkeys(ALL, "done")
    assert left.returncode == UNREACHABLE, said
    assert "Traceback" not in said
    (jid,) = re.findall(r"See it with `saltlite job watch (\d+)`", said)
    watched = fleet.cli("job", "watch", jid, "--out", "json", master=first)
    assert returned(watched) == dict.fromkeys(ALL, "done")
    for name in (first, second):
        assert site.ping(name) == ALL
    site.fire(first, 7)
    assert site.holder("hooks") in (first, second)
    fleet.restart_master(killed)
    site.wait_joined(killed)
    assert site.ping(killed) == ALL


def test_a_stream_of_the_api_goes_on_at_another_master_when_its_own_dies(site: Site) -> None:
    fleet, killed = site.fleet, site.sessions()["ann"]
    other = next(name for name in MASTERS if name != killed)
    with fleet.client(killed) as client:
        token = client.log_in("file", "carol", "correct horse", keep=True)["token"]
    there, here = (Api(fleet.start_api(name), token) for name in (killed, other))

    def event(number: int) -> str:
        assert fleet.cli("runner", "event.send", f"app/{number}", "{}", master=other).code == 0
        return f"app/{number}"

    with there.events(tag="app/") as stream:
        sent = [event(1), event(2)]
        seen = [next(stream) for _ in sent]
        fleet.daemons[killed].kill_whole()
    sent += [event(3), event(4)]
    with here.events(after=seen[-1]["id"], tag="app/") as stream:
        seen += [next(stream), next(stream)]
        sent.append(event(5))
        seen.append(next(stream))
    assert [one["tag"] for one in seen] == sent
    fleet.restart_master(killed)
    site.wait_joined(killed)


def test_a_master_that_stood_still_fires_no_hook_that_another_one_has_fired(site: Site) -> None:
    stopped = site.holder("hooks")
    other = next(name for name in MASTERS if name != stopped)
    with site.standing_still(stopped):
        site.fire(other, 8)
        assert site.holder("hooks") != stopped
    site.wait_joined(stopped)
    # It fires what comes next, if it is its turn, and nothing of before.
    site.fire(stopped, 9)
    echoes = "SELECT count(*) FROM jobs WHERE fun = 'test.echo' AND created_at > extract(epoch FROM now()) - 600"
    echoed = site.server.sql(echoes)
    site.fire(other, 10)
    assert int(site.server.sql(echoes)) == int(echoed) + 1


def test_targets_select_by_what_a_minion_told_another_master(site: Site) -> None:
    """The last test: the resources stay."""
    fleet = site.fleet
    lamps = {"lamp-1": True, "lamp-2": True}

    def declare(*ids: str) -> None:
        for name in MASTERS:
            pillar = fleet.root(name) / "srv/pillar"
            pillar.mkdir(parents=True, exist_ok=True)
            (pillar / "top.sls").write_text("base:\n  bob: [lamps]\n")
            (pillar / "lamps.sls").write_text(
                json.dumps({"role": "light", "resources": {"dummy": {"resource_ids": ids}}})
            )
        assert returned(fleet.cli("bob", "saltutil.refresh_pillar", "--out", "json", master="two")) == {"bob": True}

    def selected(master: str, *target: str) -> object:
        said = fleet.cli(*target, "test.ping", "--out", "json", master=master)
        return said.json() if said.code == 0 else said

    declare("lamp-1")
    wait_until(lambda: selected("two", "lamp-1") == {"lamp-1": True}, "registered")
    for name in MASTERS:
        assert selected(name, "-G", "id:bob") == {"bob": True}
        wait_until(lambda name=name: selected(name, "-I", "role:light") == {"bob": True}, "its pillar is stored")  # type: ignore[misc]
        assert selected(name, "lamp-1") == {"lamp-1": True}
    # The registry of a master that has to copy the next change is gone.
    (registry,) = fleet.root("three").glob("**/resource_index.by_id.mmap")
    registry.unlink()
    declare("lamp-1", "lamp-2")
    wait_until(lambda: selected("two", "-C", "T@dummy") == lamps, "the second one is registered")
    assert selected("three", "-C", "T@dummy") == lamps
    assert registry.exists()
