"""How a store in PostgreSQL is brought to a newer format, alone and beside masters of an older saltlite."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from saltlite.errors import StoreError
from saltlite.master.store.postgres import PostgresStore, connection, formats, schema, statements
from saltlite.master.store.postgres.locks import STATEMENT_S, seconds
from saltlite.master.store.postgres.schema import Step
from saltlite.master.store.sharing import MasterRow, MasterState
from tests.support import other_version
from tests.support.postgres import Server, running_server
from tests.support.store import WEB1, commit, job, publish, ret, row

Opened = Callable[..., PostgresStore]
BEFORE = "7c41c7a02863"
"""The last commit of format 11."""
LEAST, THIS, NEXT = 10, schema.FORMAT, schema.FORMAT + 1
"""Formats."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def dsn(server: Server) -> str:
    return server.new_schema()


@pytest.fixture
def opened() -> Iterator[Opened]:
    stores: list[PostgresStore] = []

    def open_one(dsn: str, name: str = "", master: int = 1) -> PostgresStore:
        stores.append(PostgresStore(dsn, master=master, waits_s=0.0, name=name, several=bool(name)))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def formats_in(server: Server, dsn: str) -> tuple[int, ...]:
    """The oldest format that can use the store, and that of its tables."""
    least, expanded = server.sql("SELECT format, expanded FROM store", dsn).split("|")
    return int(least), int(expanded)


# What makes the tables of this format those of an older one.
AS_FORMAT_9 = """
    ALTER TABLE masters DROP COLUMN format, DROP COLUMN format_start, DROP COLUMN renewed;
    ALTER TABLE store DROP COLUMN expanded;
    DROP TABLE login_limits, runner_requests;
    UPDATE store SET format = 9;
"""
AS_FORMAT_1 = """
    DROP TABLE masters, inventory, bank_values, resources, copy_pieces, readers, login_limits, runner_requests;
    ALTER TABLE keys DROP COLUMN seal;
    ALTER TABLE tokens DROP COLUMN seal;
    ALTER TABLE preaccepts DROP COLUMN seal;
    ALTER TABLE minions DROP COLUMN master, DROP COLUMN run, DROP COLUMN handshake, DROP COLUMN end_reason;
    ALTER TABLE store DROP COLUMN targets, DROP COLUMN expanded;
    ALTER TABLE returns DROP CONSTRAINT returns_pkey;
    ALTER TABLE returns ADD CONSTRAINT returns_pkey PRIMARY KEY (seq);
    CREATE INDEX returns_by_job ON returns (jid, seq);
    DROP INDEX jobs_listing;
    ALTER TABLE jobs ADD CONSTRAINT jobs_jid_key UNIQUE (jid);
    CREATE INDEX jobs_listing ON jobs (jid, created_at, "user", fun);
    DROP INDEX job_targets_unfinished;
    CREATE INDEX job_targets_unfinished ON job_targets (minion, rank, jid, part) WHERE rank < 9;
    CREATE INDEX job_targets_open ON job_targets (rank, jid) WHERE rank < 9;
    UPDATE store SET format = 1;
"""


def tables(server: Server, dsn: str) -> tuple[str, str]:
    """All columns, and all indexes, of the schema."""
    columns = (
        "SELECT table_name, column_name, data_type, collation_name, column_default, is_nullable FROM"
        " information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2"
    )
    indexes = "SELECT replace(indexdef, schemaname, '') FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1"
    return server.sql(columns, dsn), server.sql(indexes, dsn)


def test_a_store_of_an_older_format_is_brought_to_this_one(server: Server, dsn: str, opened: Opened) -> None:
    first = opened(dsn)
    publish(first, job(1))
    commit(first, ret(job(1), WEB1))
    first.close()
    made = tables(server, dsn)
    server.sql(AS_FORMAT_1, dsn)
    before = tables(server, dsn)[0]
    assert before != made[0]
    store = opened(dsn)
    assert tables(server, dsn) == made
    # The copy is the store of before.
    copy = server.dsn(f"{server.sql('SELECT current_schema()', dsn)}_format_1")
    assert tables(server, copy)[0] == before
    assert server.sql("SELECT format FROM store", copy) == "1"
    assert server.sql("SELECT jid FROM returns", copy) == server.sql("SELECT jid FROM returns", dsn)
    with store.write() as tx:
        tx.claim([row(WEB1, master="a", run=3)])
    assert store.minion(WEB1) == row(WEB1, master="a", run=3, up=True)
    assert [found.id for found in store.returns(job(1).jid)] == [WEB1]
    assert formats_in(server, dsn) == (LEAST, THIS)


def test_a_step_to_this_format_may_take_longer_than_any_answer(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(dsn).close()
    server.sql(AS_FORMAT_1, dsn)
    monkeypatch.setattr(connection, "ANSWER_S", 3.0)
    limit = f"statement_timeout = '{seconds(STATEMENT_S)}'"
    assert limit in connection._SETTINGS
    monkeypatch.setattr(connection, "_SETTINGS", connection._SETTINGS.replace(limit, "statement_timeout = '2500ms'"))
    monkeypatch.setitem(schema.STEPS, 3, schema.Step(f"{schema.STEPS[3].sql}; SELECT pg_sleep(4)", alone=True))
    store = opened(dsn)
    assert store.last_seq() == 0
    with pytest.raises(StoreError, match="took too long"):
        store._read_side.value("SELECT 1 FROM pg_sleep(4)")


def test_an_older_store_that_cannot_be_copied_is_brought_to_this_format_with_a_warning(
    server: Server, dsn: str, opened: Opened, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(dsn).close()
    server.sql(AS_FORMAT_1, dsn)
    monkeypatch.setattr(formats, "COPY_MAX", 0)
    opened(dsn).close()
    assert "there is no copy of it: it has more than 0 MiB" in caplog.text
    monkeypatch.undo()
    server.sql(AS_FORMAT_1, dsn)
    server.sql(f"CREATE SCHEMA {server.sql('SELECT current_schema()', dsn)}_format_1")
    opened(dsn).close()
    assert '_format_1" already exists' in caplog.text
    assert formats_in(server, dsn) == (LEAST, THIS)


# --- beside masters of an older saltlite -----------------------------------------------------------


def renewed(store: PostgresStore, name: str, **changes: Any) -> MasterRow:
    """That master renews its lease."""
    with store.write() as tx:
        return tx.renew(replace(MasterRow(name, 1, b"c", "a:1", "1", MasterState.UP, applied=0), **changes))


def is_of(monkeypatch: pytest.MonkeyPatch, form: int, *steps: Step) -> None:
    """This process is a saltlite of that format, to which the last of these steps leads."""
    for number, step in enumerate(steps, form - len(steps)):
        monkeypatch.setitem(schema.STEPS, number, step)
    for module in (schema, formats, statements):
        monkeypatch.setattr(module, "FORMAT", form)


COLOUR = Step("ALTER TABLE minions ADD COLUMN colour text; CREATE TABLE colours (name text NOT NULL)")
BY_COLOUR = Step(
    "ALTER TABLE minions ADD COLUMN shade bigint NOT NULL DEFAULT 0", "ALTER TABLE minions DROP COLUMN end_reason"
)
RENAMED = Step("ALTER TABLE minions RENAME COLUMN up TO is_up", alone=True)


def test_an_older_master_goes_on_while_a_newer_one_has_expanded_the_tables(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = opened(dsn, "a")
    renewed(older, "a")
    with monkeypatch.context() as newer:
        is_of(newer, NEXT, COLOUR)
        newer.setattr(schema, "TABLES", (*schema.TABLES, "colours"))
        renewed(opened(dsn, "b"), "b")
        assert formats_in(server, dsn) == (LEAST, NEXT)
    publish(older, job(1))
    commit(older, ret(job(1), WEB1))
    assert renewed(older, "a").renewals == 2
    # It connects again, and so does another master of its version, although there is a table that it does not know.
    assert opened(dsn, "a").last_seq() == older.last_seq()
    assert [found.name for found in opened(dsn, "c").masters()] == ["a", "b"]
    assert server.sql("SELECT colour IS NULL FROM minions LIMIT 1", dsn) in ("", "t")
    copies = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE current_schema() || '_format_%'"
    assert server.sql(copies, dsn) == "0", "nothing was copied"


@pytest.mark.parametrize("older_is", ["up", "joining", "draining"])
def test_nothing_that_an_older_master_uses_goes_before_it_has(
    older_is: str, server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = opened(dsn, "a")
    renewed(older, "a", state=MasterState(older_is))
    with monkeypatch.context() as newer:
        is_of(newer, NEXT, BY_COLOUR)
        second = opened(dsn, "b")
        renewed(second, "b")
        assert formats_in(server, dsn) == (LEAST, NEXT)
        with older.write() as tx:
            tx.claim([row(WEB1, master="a", run=1)])
        # It leaves; the next start of any newer one finds no other that is older.
        with second.write() as tx:
            assert tx.fence_master("a")
        opened(dsn, "c")
        assert formats_in(server, dsn) == (NEXT, NEXT)
        assert server.sql("SELECT shade FROM minions", dsn) == "0"
    with pytest.raises(StoreError, match=f"has format {NEXT}, this saltlite reads format {THIS} and older"):
        opened(dsn, "d")
    assert "end_reason" not in tables(server, dsn)[0]


def test_the_last_master_that_is_upgraded_contracts(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        renewed(opened(dsn, name), name)
    before = opened(dsn, "b")
    is_of(monkeypatch, NEXT, BY_COLOUR)
    renewed(opened(dsn, "a"), "a", start=2)
    assert formats_in(server, dsn) == (LEAST, NEXT)
    before.close()
    opened(dsn, "b")
    assert formats_in(server, dsn) == (NEXT, NEXT)


def test_a_master_that_went_back_counts_as_older(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "z"):
        renewed(opened(dsn, name), name)
    is_of(monkeypatch, NEXT, BY_COLOUR)
    newer = opened(dsn, "b")
    renewed(opened(dsn, "a"), "a", start=2)
    # The older saltlite leaves alone what it does not know of.
    server.sql("UPDATE masters SET start = 3 WHERE name = 'a'", dsn)
    with newer.write() as tx:
        assert tx.fence_master("z")
    opened(dsn, "c")
    assert formats_in(server, dsn) == (LEAST, NEXT)


def test_a_change_that_no_older_master_bears_is_refused_while_one_runs(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = opened(dsn, "a")
    renewed(older, "a")
    before = tables(server, dsn)
    is_of(monkeypatch, NEXT, RENAMED)
    # The older one renews while the newer one looks.
    monkeypatch.setattr("time.sleep", lambda _s: renewed(older, "a") and None)
    with pytest.raises(StoreError, match=r"which a cannot use any more .* stop the masters of the older saltlite"):
        opened(dsn, "b")
    assert tables(server, dsn) == before
    assert formats_in(server, dsn) == (LEAST, THIS)


def test_a_change_that_no_older_master_bears_is_refused_if_one_starts_meanwhile(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = opened(dsn, "a")
    before = tables(server, dsn)
    look = formats._older
    looks: list[str] = []

    def older_starts(connection: Any, present: Any, me: str, than: int) -> Any:
        found = look(connection, present, me, than)
        if not looks:
            renewed(older, "a")
        looks.append(me)
        return found

    is_of(monkeypatch, NEXT, RENAMED)
    monkeypatch.setattr(formats, "_older", older_starts)
    with pytest.raises(StoreError, match="which a cannot use any more"):
        opened(dsn, "b")
    assert len(looks) > 1
    assert tables(server, dsn) == before


def test_a_master_that_takes_new_tables_for_those_of_another_program_is_not_left_with_them(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of format 9 could not connect again. Those of format 10 can, and need not be stopped."""
    first = opened(dsn, "a")
    renewed(first, "a")
    renewed(first, "b")
    server.sql("DROP TABLE login_limits, runner_requests; UPDATE store SET format = 9, expanded = 11", dsn)
    server.sql("UPDATE masters SET format = 10; UPDATE masters SET format = NULL WHERE name = 'a'", dsn)
    before = tables(server, dsn)
    monkeypatch.setattr("time.sleep", lambda _s: renewed_by_hand(server, dsn) and None)
    with pytest.raises(StoreError, match=r"has format 9, which a cannot use any more .* stop the masters"):
        opened(dsn, "c")
    assert tables(server, dsn) == before
    server.sql("UPDATE masters SET state = 'fenced' WHERE name = 'a'", dsn)
    opened(dsn, "c")
    assert formats_in(server, dsn) == (LEAST, THIS)


def renewed_by_hand(server: Server, dsn: str) -> str:
    return server.sql("UPDATE masters SET renewals = renewals + 1", dsn)


def test_an_older_master_that_hangs_gets_no_connection_after_such_a_change(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = opened(dsn, "a")
    renewed(hung, "a")
    with monkeypatch.context() as newer:
        is_of(newer, NEXT, RENAMED)
        newer.setattr(formats, "LOST_S", 0.3)
        opened(dsn, "b")
        assert formats_in(server, dsn) == (NEXT, NEXT)
    with suppress(StoreError):
        renewed(hung, "a")
    with pytest.raises(StoreError):
        renewed(hung, "a")
    assert server.sql("SELECT renewals FROM masters WHERE name = 'a'", dsn) == "1"


def test_a_master_that_is_refused_changes_no_tables(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(dsn, master=1)
    before = tables(server, dsn)
    is_of(monkeypatch, NEXT, RENAMED)
    with pytest.raises(StoreError, match="another master uses"):
        opened(dsn, master=2)
    assert tables(server, dsn) == before


OLDER_MASTER = """
import sys
from saltlite.master.store.postgres import PostgresStore
from saltlite.master.store.sharing import MasterRow, MasterState
store = PostgresStore(sys.argv[1], master=1, name="old", several=True)
row = MasterRow("old", 1, b"c", "a:1", "0", MasterState.UP, applied=0)
for line in sys.stdin:
    again = PostgresStore(sys.argv[1], master=1, name="old", several=True)
    with again.write() as tx:
        renewals = tx.renew(row).renewals
        tx.put_event("app/x", {"n": renewals}, 1.0)
    print(renewals, again.last_seq(), [found.name for found in store.masters()], flush=True)
    again.close()
"""


def test_a_master_of_the_format_before_goes_on(server: Server, dsn: str, opened: Opened, tmp_path: Path) -> None:
    """The saltlite of format 11 as it was, beside this one."""
    tree = other_version.of_commit(tmp_path, BEFORE)
    if tree is None:
        pytest.skip(f"this clone does not have the commit {BEFORE}")
    command = [sys.executable, "-P", "-c", OLDER_MASTER, dsn]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(tree)}
    ) as old:
        assert old.stdin is not None
        assert old.stdout is not None

        def acts() -> str:
            old.stdin.write("\n")  # type: ignore[union-attr]  # see above
            old.stdin.flush()  # type: ignore[union-attr]  # as above
            return old.stdout.readline().strip()  # type: ignore[union-attr]  # as above

        assert acts() == "1 1 ['old']"
        assert formats_in(server, dsn) == (9, 11)
        new = opened(dsn, "new")
        assert formats_in(server, dsn) == (LEAST, THIS)
        renewed(new, "new")
        assert acts() == "2 2 ['new', 'old']"
        assert [event.data["n"] for event in new.events(0, 10)] == [1, 2]
        old.stdin.close()
        assert old.wait(60) == 0
