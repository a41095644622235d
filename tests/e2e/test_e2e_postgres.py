"""A master whose store is in PostgreSQL: everyday work, restarts, kills, and a database that is away for a while."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from saltlite.client.connection import ANSWER_TIMEOUT_S
from tests.support.fleet import Fleet, Said, done_once, wait_until
from tests.support.postgres import Server, running_server

pytestmark = pytest.mark.e2e

AWAY_S = 10.0


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server(fsync="on") as running:
        yield running


@pytest.fixture
def on_postgres(fleet: Fleet, server: Server) -> Fleet:
    """A master with its store in a database, and two minions that are up."""
    fleet.start_master(database=server.dsn())
    fleet.join("m", "n")
    return fleet


def returned(said: Said) -> object:
    assert said.code == 0, said.err
    return json.loads(said.out)


def ping(fleet: Fleet) -> object:
    return returned(fleet.cli("*", "test.ping", "--out", "json"))


BOTH = {"m": True, "n": True}


def test_everyday_work_and_restarts(on_postgres: Fleet, server: Server) -> None:
    fleet = on_postgres
    assert ping(fleet) == BOTH
    assert not (fleet.root("master") / "var/lib/saltlite/master/store.sqlite").exists()
    jid = fleet.publish("m", "cmd.run", "echo done")
    fleet.cli("job", "follow", jid)
    fleet.daemons["master"].stop()
    fleet.restart_master()
    fleet.wait_up("m", "n")
    assert ping(fleet) == BOTH
    assert "done" in fleet.cli("job", "show", jid).out
    fleet.daemons["master"].kill_whole()
    fleet.restart_master()
    fleet.wait_up("m", "n")
    assert fleet.keys() == {"m": ["accepted"], "n": ["accepted"]}
    assert "done" in fleet.cli("job", "show", jid).out
    assert returned(fleet.cli("-b", "1", "*", "test.ping", "--out", "json")) == BOTH
    assert fleet.cli("key", "revoke", "n", "-y").code == 0
    assert ping(fleet) == {"m": True}
    assert fleet.cli("status").code == 0
    assert "answers (PostgreSQL " in fleet.cli("doctor", "master").out
    applications = set(server.sql("SELECT DISTINCT application_name FROM pg_stat_activity").splitlines())
    assert any(name.startswith("saltlite master ") for name in applications)


def test_a_database_that_is_away_for_ten_seconds_costs_no_session_and_no_result(
    on_postgres: Fleet, server: Server, tmp_path: Path
) -> None:
    fleet, go = on_postgres, tmp_path / "go"
    jid = fleet.publish("*", "cmd.run", done_once(go))
    running = f"SELECT count(*) FROM job_targets WHERE jid = '{jid}' AND state = 'running'"  # noqa: S608 - a jid
    wait_until(lambda: server.sql(running) == "2", "both run it")
    server.stop()
    go.touch()
    away_since = time.monotonic()
    wait_until(lambda: fleet.cli("m", "test.ping").code != 0, "the database is away")
    asked = time.monotonic()
    refused = fleet.cli("m", "test.ping")
    assert time.monotonic() - asked < ANSWER_TIMEOUT_S / 2
    assert refused.code != 0
    assert "cannot be reached" in refused.err
    assert "Traceback" not in refused.err
    wait_until(lambda: time.monotonic() - away_since > AWAY_S, "it was away for long enough")
    server.start()
    wait_until(lambda: fleet.cli("*", "test.ping").code == 0, "all goes on")
    returns = f"SELECT count(*) FROM returns WHERE jid = '{jid}' AND state = 'returned'"  # noqa: S608 - as above
    wait_until(lambda: server.sql(returns) == "2", "both results are there")
    assert "done" in fleet.cli("job", "show", jid).out
    assert [fleet.daemons[name].log().count(": ready [") for name in ("m", "n")] == [1, 1], "no session has ended"
    assert fleet.daemons["master"].process.poll() is None
    assert "Traceback" not in fleet.daemons["master"].log()


def test_a_store_that_moves_to_the_database_keeps_keys_and_jobs(fleet: Fleet, server: Server) -> None:
    fleet.start_master()
    fleet.join("m", "n")
    jid = fleet.publish("m", "cmd.run", "echo done")
    fleet.cli("job", "follow", jid)
    with (fleet.folder / "master/master").open("a") as file:
        file.write(f'\ndatabase: "{server.dsn()}"\n')
    running = fleet.cli("store", "migrate", "postgresql")
    assert running.code == 1
    assert "already runs" in running.err
    fleet.daemons["master"].stop()
    moved = fleet.cli("store", "migrate", "postgresql", "--out", "json")
    assert moved.code == 0, moved.err
    assert json.loads(moved.out)["rows"]["keys"] == 2
    fleet.restart_master()
    fleet.wait_up("m", "n")
    assert ping(fleet) == BOTH
    assert "done" in fleet.cli("job", "show", jid).out
    assert fleet.cli("store", "migrate", "elsewhere").code == 2
    backup = fleet.cli("backup", str(fleet.folder / "backup"))
    assert backup.code == 1
    assert "back up that with pg_dump" in backup.err


def test_a_second_master_and_a_wrong_database_are_sentences(on_postgres: Fleet, server: Server, tmp_path: Path) -> None:
    second = Fleet(tmp_path / "second")
    with pytest.raises(AssertionError, match="another master uses the database postgres on"):
        second.start_master(database=server.dsn())
    assert second.daemons["master"].ended() == 1
    with pytest.raises(AssertionError, match="`several_masters` is set, and needs the `database`"):
        second.start_master(several_masters=True)
    with pytest.raises(AssertionError, match="cannot be reached"):
        second.start_master(database="host=127.0.0.1 port=1 dbname=x")
    server.sql("CREATE SCHEMA other; CREATE TABLE other.accounts (n int)")
    with pytest.raises(AssertionError, match="tables of another program, such as accounts,"):
        second.start_master(database=server.dsn("other"))
    assert "Traceback" not in second.daemons["master"].log()
    second.close()
    assert ping(on_postgres) == BOTH
