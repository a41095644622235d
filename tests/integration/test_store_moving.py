"""`saltlite store migrate`: a store that moves from its file to a database, and back, with all that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from saltlite.cli.main import main
from saltlite.config.load import load_master
from saltlite.config.master import MasterConfig
from saltlite.errors import StartupError, StoreError, UsageError
from saltlite.master.processes import identity
from saltlite.master.processes.store_moving import MOVED, move_store
from saltlite.master.processes.store_opening import SEALED_KEYS, prepare_store
from saltlite.master.store.ports import FunctionSet, Store, TargetRow
from saltlite.master.store.postgres import PostgresStore
from saltlite.master.store.postgres.seals import UNSEALED
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId
from saltlite.model.job import Batch, TargetState
from saltlite.model.keys import AuthToken, KeyState
from saltlite.platform.daemon import InstanceLock
from saltlite.platform.privileges import write_secret
from tests.property.test_store_twins import everything
from tests.support.postgres import Server, running_server
from tests.support.store import NOW, WEB1, WEB2, WEB3, commit, had_sessions, job, key, publish, ret, row, srns, token

MANY = tuple(MinionId(f"m{n:03d}") for n in range(150))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def config(server: Server, tmp_path: Path) -> MasterConfig:
    (tmp_path / "var/lib/saltlite/master").mkdir(parents=True)
    (tmp_path / "master").write_text(f'root_dir: {tmp_path}\nuser: root\ndatabase: "{server.new_schema()}"\n')
    return load_master(str(tmp_path)).config


def path_of(config: MasterConfig) -> str:
    return f"{config.data_dir}/store.sqlite"


def filled(store: Store) -> None:
    """Something in each table."""
    publish(store, job(1), job(2, MANY, batch=Batch(5)), job(3, (WEB3,), resources={WEB3: srns(40)}))
    commit(store, ret(job(1), WEB1, body=b"x" * 70_000), ret(job(1), WEB2, retcode=3, reason="so"))
    with store.write() as tx:
        tx.put_key(key(MinionId("old"), KeyState.REVOKED, epoch=tx.next_epoch()))
        tx.put_token(token())
        tx.put_preaccept(WEB3, key(WEB3).fingerprint, "root")
        tx.put_auth_token(AuthToken("t", "pam", "alice", ("ops",), NOW, NOW + 9, "seal"), 5)
        had_sessions(tx, [row(WEB1, up=True, functions="d1")])
        tx.put_functions(FunctionSet("d1", {"test.ping": "test.ping()"}, True))
        tx.set_targets([(job(2).jid, TargetRow(MANY[0], TargetState.QUEUED, "", NOW + 4))])
        tx.mark_reducible(job(1).jid)
        tx.put_event("last", {"n": 1}, NOW + 5)
        tx.prune_events(2)


def seen(store: Store) -> dict[str, object]:
    """All that a store answers, besides its own size."""
    more = {"id": store.store_id(), "logins": store.auth_tokens(), "reducible": store.reducible(9)}
    news = {"moves": store.news(job(2).jid, 0, 9), "open": [store.open_targets(job(n).jid) for n in (1, 2, 3)]}
    return everything(store) | more | news


def test_a_store_moves_to_the_database_and_back_with_all_that_it_holds(config: MasterConfig, server: Server) -> None:
    store = SqliteStore(path_of(config))
    filled(store)
    before = seen(store)
    store.close()
    Path(config.pki_dir).mkdir(parents=True)
    write_secret(f"{config.pki_dir}/{identity.SHARED_KEY}", b"s" * 32)
    held = move_store(config, to_database=True).tables
    assert (held["job_targets"].rows, held["returns"].rows, held["job_counts"].rows) == (193, 2, 1)
    assert not Path(path_of(config)).exists()
    assert Path(path_of(config) + MOVED).exists()
    moved = PostgresStore(config.database, master=1, seal_key=identity.seal_key(config.pki_dir, "keys of minions"))
    assert seen(moved) == before
    assert moved.size() > 70_000
    with moved.write() as tx:
        assert tx.next_epoch() == 2
        assert tx.put_event("later", {}, NOW + 6) == before["seq"] + 1  # type: ignore[operator]  # a number
    later = seen(moved)
    moved.close()
    assert move_store(config, to_database=False).unsealed == 0
    back = SqliteStore(path_of(config))
    assert seen(back) == later
    with back.write() as tx:
        assert tx.next_epoch() == 3
        assert tx.put_event("last", {}, NOW + 7) == before["seq"] + 2  # type: ignore[operator]  # as above
    back.close()
    with pytest.raises(StoreError, match="was moved to a file"):
        PostgresStore(config.database, master=1)
    assert sorted(path.name for path in Path(config.data_dir).iterdir() if ".new" in path.name) == []


def test_what_a_stranger_wrote_into_the_database_lets_nobody_in_after_the_way_back(
    config: MasterConfig, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    store, pending = SqliteStore(path_of(config)), key(WEB2, KeyState.PENDING)
    with store.write() as tx:
        tx.put_key(key(WEB1))
        tx.put_key(pending)
        tx.put_token(token())
        tx.put_preaccept(WEB3, key(WEB3).fingerprint, "root")
    store.close()
    Path(config.pki_dir).mkdir(parents=True)
    write_secret(f"{config.pki_dir}/{identity.SHARED_KEY}", b"s" * 32)
    move_store(config, to_database=True)
    for statement in (
        "UPDATE keys SET state = 'accepted' WHERE id = 'web2'",
        "INSERT INTO tokens SELECT 'strange1', public, '*', 9, 1, 9e9, 'root', seal FROM tokens",
        "INSERT INTO preaccepts VALUES ('web9', 'AAAAA', 'root')",
    ):
        server.sql(statement, config.database)
    assert main(["store", "migrate", "sqlite", "-c", str(Path(config.root_dir))]) == 0
    assert "No master had sealed 3 of these rows" in capsys.readouterr().err
    back = SqliteStore(path_of(config))
    assert back.holder(WEB1) == key(WEB1)
    assert [(one.state, one.how) for one in back.keys_of(WEB2)] == [(KeyState.REJECTED, UNSEALED)]
    assert (back.token(token().token_id), back.token("strange1")) == (token(), None)
    assert (back.preaccepted(WEB3), back.preaccepted(MinionId("web9"))) == (key(WEB3).fingerprint, None)
    back.close()


def test_on_the_way_to_a_file_and_back_to_an_empty_database_the_store_gets_another_shared_key(
    config: MasterConfig, server: Server
) -> None:
    """The procedure of `several-masters.md` for one that has leaked."""
    store = SqliteStore(path_of(config))
    with store.write() as tx:
        tx.put_key(key(WEB1))
        tx.put_token(token())
    store.close()
    Path(config.pki_dir).mkdir(parents=True)
    leaked = Path(config.pki_dir, identity.SHARED_KEY)
    write_secret(str(leaked), b"s" * 32)
    former = identity.seal_key(config.pki_dir, SEALED_KEYS)
    move_store(config, to_database=True)
    move_store(config, to_database=False)
    leaked.unlink()
    config = replace(config, database=server.new_schema(), several_masters=True)
    move_store(config, to_database=True)

    def opened(seal_key: bytes | None) -> PostgresStore:
        return PostgresStore(config.database, master=1, several=True, name="m1", seal_key=seal_key)

    assert prepare_store(config, lambda seal_key: lambda: opened(seal_key)) == 1
    assert identity.shared_key(config.pki_dir) not in (None, b"s" * 32)
    for seal_key, state, token_id in (
        (identity.seal_key(config.pki_dir, SEALED_KEYS), KeyState.ACCEPTED, token().token_id),
        (former, KeyState.REJECTED, None),
    ):
        moved = opened(seal_key)
        found, kept = moved.key(key(WEB1).fingerprint), moved.token(token().token_id)
        assert (found and found.state, kept and kept.token_id) == (state, token_id)
        moved.close()


def test_a_store_that_is_in_use_stays_where_it_is(config: MasterConfig) -> None:
    SqliteStore(path_of(config)).close()
    lock = InstanceLock(f"{config.data_dir}/lock", program="saltlite-master", root_dir=config.root_dir)
    with pytest.raises(StartupError, match="already runs"):
        move_store(config, to_database=True)
    lock.close()
    master = PostgresStore(config.database, master=1)
    with pytest.raises(StoreError, match="another master uses"):
        move_store(config, to_database=True)
    master.close()
    assert Path(path_of(config)).exists()


def test_a_database_with_a_store_and_a_file_that_is_there_are_not_replaced(config: MasterConfig) -> None:
    store = SqliteStore(path_of(config))
    publish(store, job(1))
    store.close()
    master = PostgresStore(config.database, master=1)
    publish(master, job(2))
    master.close()
    with pytest.raises(StoreError, match="has a store already"):
        move_store(config, to_database=True)
    with pytest.raises(UsageError, match="exists: move it away"):
        move_store(config, to_database=False)
    kept = SqliteStore(path_of(config))
    assert kept.job(job(1).jid) == job(1)
    kept.close()


def test_a_copy_that_differs_is_no_move(config: MasterConfig, server: Server) -> None:
    store = SqliteStore(path_of(config))
    publish(store, job(1))
    store.close()
    PostgresStore(config.database, master=1).close()
    server.sql(
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN NEW.reason := 'other'; RETURN NEW; END $$;"
        "CREATE TRIGGER spoil BEFORE INSERT ON job_targets FOR EACH ROW EXECUTE FUNCTION spoil()",
        config.database,
    )
    with pytest.raises(StoreError, match="the copy of the table job_targets"):
        move_store(config, to_database=True)
    assert Path(path_of(config)).exists()
    assert server.sql("SELECT count(*) FROM jobs", config.database) == "0"


def test_without_a_database_or_a_store_nothing_moves(config: MasterConfig, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no store to move"):
        move_store(config, to_database=True)
    left = Path(f"{path_of(config)}{MOVED}")
    left.parent.mkdir(parents=True, exist_ok=True)
    left.touch()
    with pytest.raises(
        UsageError, match=r"the store has been moved already: .*store\.sqlite\.moved is the file that it left"
    ):
        move_store(config, to_database=True)
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    with pytest.raises(UsageError, match="names no `database`"):
        move_store(load_master(str(tmp_path)).config, to_database=True)
