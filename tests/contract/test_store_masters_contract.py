"""What every store that several masters share promises about them."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from saltlite.errors import CursorLostError
from saltlite.master.store.readers import LOOK_S, SEQ_END, SharedCursor
from saltlite.master.store.sharing import RUNNER_REQUESTS_KEPT_S, MasterRow, MasterState, ReaderRow, SharedStore
from saltlite.model.ids import MinionId, RequestId
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from tests.support.store import NOW, WEB1, WEB2

OpenShared = Callable[[], SharedStore]
A = MasterRow(
    name="a", start=1, certificate=b"c", address="10.0.0.1:4515", version="1.0", state=MasterState.JOINING, applied=0
)
B = replace(A, name="b", address="10.0.0.2:4515")


@pytest.fixture(params=["memory", "postgres"])
def open_shared(request: pytest.FixtureRequest) -> Iterator[OpenShared]:
    """Opens the same store again and again, as several masters do."""
    if request.param == "memory":
        disk = MemoryStoreDisk()
        yield lambda: MemoryStore(disk)
        return
    from saltlite.master.store.postgres import PostgresStore

    dsn = request.getfixturevalue("postgres").new_schema()
    opened: list[PostgresStore] = []

    def open_one() -> SharedStore:
        name = f"m{len(opened)}"
        opened.append(PostgresStore(dsn, master=len(opened) + 1, name=name, several=True, waits_s=0.0))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def shared(open_shared: OpenShared) -> SharedStore:
    return open_shared()


def test_a_master_is_there_once_it_was_renewed_and_each_renewal_counts(shared: SharedStore) -> None:
    with shared.write() as tx:
        assert tx.renew(B) == replace(B, renewals=1)
        assert tx.renew(A) == replace(A, renewals=1)
    later = replace(A, state=MasterState.UP, applied=7, version="1.1", certificate=b"renewed")
    with shared.write() as tx:
        assert tx.renew(later) == replace(later, renewals=2)
    assert shared.masters() == [replace(later, renewals=2), replace(B, renewals=1)]


def test_a_start_that_was_fenced_is_never_renewed(shared: SharedStore) -> None:
    with shared.write() as tx:
        tx.renew(A)
        assert tx.fence_master("a")
        assert not tx.fence_master("a")
        assert not tx.fence_master("b")
    fenced = replace(A, state=MasterState.FENCED, renewals=1)
    with shared.write() as tx:
        assert tx.renew(replace(A, state=MasterState.UP, applied=9)) == fenced
    assert shared.masters() == [fenced]


def test_another_start_of_a_master_that_was_fenced_joins_again(shared: SharedStore) -> None:
    again = replace(A, start=2)
    with shared.write() as tx:
        tx.renew(A)
        tx.fence_master("a")
        assert tx.renew(again) == replace(again, renewals=2)
    assert shared.masters() == [replace(again, renewals=2)]


def test_a_master_that_is_drained_stays_so_while_it_renews_until_that_ends(shared: SharedStore) -> None:
    up = replace(A, state=MasterState.UP)
    with shared.write() as tx:
        tx.renew(A)
        assert not tx.drain_master("a"), "it joins"
        tx.renew(up)
        assert tx.drain_master("a")
        assert not tx.drain_master("a")
        assert not tx.drain_master("b")
        assert tx.renew(up).state is MasterState.DRAINING
    with shared.write() as tx:
        assert tx.drain_master("a", ends=True)
        assert not tx.drain_master("a", ends=True)
        assert tx.renew(replace(A, state=MasterState.DRAINING)).state is MasterState.UP
        tx.drain_master("a")
        assert tx.renew(replace(A, start=2)).state is MasterState.JOINING, "the next start is not drained"
        assert tx.renew(replace(up, start=2)).state is MasterState.UP


def test_a_renewal_keeps_what_is_known_about_a_master(shared: SharedStore) -> None:
    with shared.write() as tx:
        tx.renew(replace(A, weight=50))
        tx.describe_master("a", '{"x": 1}')
        tx.describe_master("b", "of nobody")
        tx.renew(replace(A, start=2))
    assert shared.masters() == [replace(A, start=2, renewals=2, about='{"x": 1}')]


def test_a_certificate_that_a_master_was_offered_stays_until_the_next_offer(shared: SharedStore) -> None:
    with shared.write() as tx:
        tx.renew(A)
        tx.offer_certificate("a", b"\x00new")
        tx.offer_certificate("b", b"for a master without a row")
        tx.renew(replace(A, start=2, renewed=b"its own idea"))
    assert [row.renewed for row in shared.masters()] == [b"\x00new"]
    with shared.write() as tx:
        tx.offer_certificate("a", b"next")
        assert tx.renew(replace(A, start=2)).renewed == b"next"
        tx.delete_master("a")
        tx.renew(A)
    assert [row.renewed for row in shared.masters()] == [b""], "a master that comes back was offered nothing"


def test_a_master_that_was_removed_is_gone(shared: SharedStore) -> None:
    with shared.write() as tx:
        tx.renew(A)
        assert tx.delete_master("a")
        assert not tx.delete_master("a")
    assert shared.masters() == []


def test_an_event_of_another_master_is_signalled(open_shared: OpenShared) -> None:
    one, other = open_shared(), open_shared()
    signal = one.listen()

    def came() -> bool:
        return bool(select.select([signal.fileno()], [], [], 5.0)[0])

    with other.write() as tx:
        tx.put_event("salt/key", {}, NOW)
    assert came()
    signal.clear()
    assert not select.select([signal.fileno()], [], [], 0.0)[0]
    with other.write() as tx:
        tx.put_event("salt/key", {}, NOW)
    assert came()
    signal.close()
    with other.write() as tx:
        tx.put_event("salt/key", {}, NOW)
    assert [event.seq for event in one.events()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("state", "has_lease"),
    [
        (MasterState.JOINING, False),
        (MasterState.UP, True),
        (MasterState.DRAINING, True),
        (MasterState.FENCED, False),
    ],
)
def test_a_master_may_act_while_it_is_up_or_drained(state: MasterState, has_lease: bool) -> None:
    assert replace(A, state=state).has_lease is has_lease


# -- work that one master does for all


def test_the_row_of_a_reader_is_replaced(open_shared: OpenShared) -> None:
    first, second = open_shared(), open_shared()
    assert first.reader("hooks") is None
    row = ReaderRow("hooks", "a", 1, 1, "{}")
    for one in (row, replace(row, master="b", start=7, fence=2, data='{"seq": 3}')):
        with first.write() as tx:
            tx.put_reader(one)
        assert second.reader("hooks") == one
    assert second.reader("returner x") is None


def up(store: SharedStore, *rows: MasterRow) -> None:
    with store.write() as tx:
        for row in rows:
            tx.renew(replace(row, state=MasterState.UP))


def test_one_master_does_the_work_until_its_lease_is_over(open_shared: OpenShared) -> None:
    store, clock = open_shared(), ManualClock()
    a = SharedCursor(store, clock, "hooks", "a", lambda: {"seq": 5})
    b = SharedCursor(open_shared(), clock, "hooks", "b")
    assert a.read() is None, "it has not joined yet"
    up(store, A, B)
    assert a.read() == {"seq": 5}
    assert (a.is_held(), b.is_held()) == (True, False)
    a.write({"seq": 6})
    assert (b.read(), a.read()) == (None, {"seq": 6})
    with store.write() as tx:
        tx.fence_master("a")
    clock.advance(LOOK_S)
    assert (a.is_held(), b.read()) == (False, {"seq": 6})
    # The first one was stopped in the middle of its work, and goes on.
    with pytest.raises(CursorLostError):
        a.write({"seq": 7})
    b.write({"seq": 8})
    up(store, replace(A, start=2))
    clock.advance(LOOK_S)
    assert (a.read(), b.read()) == (None, {"seq": 8})


def test_the_next_process_of_a_master_takes_its_work_over_at_once(open_shared: OpenShared) -> None:
    store, clock = open_shared(), ManualClock()
    up(store, A)
    first, second = (SharedCursor(store, clock, "hooks", "a") for _ in range(2))
    assert first.read() == {}
    first.write({"seq": 1})
    assert second.read() == {"seq": 1}
    with pytest.raises(CursorLostError):
        first.write({"seq": 0})


def test_another_start_of_the_holder_does_not_keep_the_work_from_others(open_shared: OpenShared) -> None:
    store, clock = open_shared(), ManualClock()
    up(store, A, B)
    assert SharedCursor(store, clock, "hooks", "a").is_held()
    up(store, replace(A, start=2))
    assert SharedCursor(store, clock, "hooks", "b").is_held()


@pytest.mark.parametrize(
    "data",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"seq": "last"}',
        '{"seq": true}',
        '{"seq": -1}',
        f'{{"seq": {SEQ_END}}}',
        '{"seq": 1, "jobs": 5}',
        '{"seq": 1, "jobs": [[]]}',
        '{"seq": 1, "starts": "x"}',
    ],
)
def test_a_cursor_that_no_master_wrote_is_read_as_empty(shared: SharedStore, data: str) -> None:
    up(shared, A)
    assert SharedCursor(shared, ManualClock(), "hooks", "a", lambda: {"seq": 5}).read() == {"seq": 5}
    row = shared.reader("hooks")
    assert row is not None
    with shared.write() as tx:
        tx.put_reader(replace(row, data=data))
    assert SharedCursor(shared, ManualClock(), "hooks", "a").read() == {}


def test_a_cursor_goes_up_to_the_highest_number_of_an_event(shared: SharedStore) -> None:
    up(shared, A)
    last = {"seq": SEQ_END - 1, "jobs": ["20260131235959123456"], "starts": 0}
    cursor = SharedCursor(shared, ManualClock(), "hooks", "a", lambda: last)
    assert cursor.read() == last
    assert shared.events(SEQ_END - 1) == []


# -- wrong passwords, and runners of minions


def names_known(shared: SharedStore, *names: str) -> dict[str, float]:
    return {name: shared.login_full_at(name) for name in names}


def test_wrong_passwords_of_a_name_are_known_to_all_masters_until_its_bucket_is_full(open_shared: OpenShared) -> None:
    one, other = open_shared(), open_shared()
    with one.write() as tx:
        tx.put_login_full_at("a", NOW + 6, NOW)
        tx.put_login_full_at("b", NOW + 60, NOW)
    assert names_known(other, "a", "b", "c") == {"a": NOW + 6, "b": NOW + 60, "c": 0.0}
    with other.write() as tx:
        tx.put_login_full_at("b", NOW + 66, NOW + 6)
    assert names_known(one, "a", "b") == {"a": 0.0, "b": NOW + 66}, "what waits for nothing is forgotten"


def test_of_too_many_names_those_are_forgotten_that_would_wait_least(
    shared: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("saltlite.testing.memory_store", "saltlite.master.store.postgres.statements"):
        monkeypatch.setattr(f"{module}.LOGIN_NAMES_MAX", 3)
    with shared.write() as tx:
        tx.put_login_full_at("victim", NOW + 60, NOW)
        for number in range(9):
            tx.put_login_full_at(f"x{number}", NOW + 6 + number, NOW)
    known = names_known(shared, "victim", *(f"x{number}" for number in range(9)))
    assert {name for name, at in known.items() if at} == {"victim", "x7", "x8"}
    with shared.write() as tx:
        tx.put_login_full_at("new", NOW + 6, NOW)
    assert shared.login_full_at("new") == NOW + 6, "the name of now always counts"
    assert shared.login_full_at("victim") == NOW + 60


def test_a_request_for_a_runner_is_new_once_on_all_masters(
    open_shared: OpenShared, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_shared(), open_shared()
    request, next_request = RequestId("1" * 32), RequestId("2" * 32)

    def enters(store: SharedStore, minion: MinionId, request_id: RequestId, at: float = NOW) -> bool:
        with store.write() as tx:
            return tx.enter_runner_request(minion, request_id, at)

    assert enters(one, WEB1, request)
    assert not enters(other, WEB1, request)
    assert not enters(one, WEB1, request, NOW + RUNNER_REQUESTS_KEPT_S)
    assert enters(other, WEB2, request), "the requests of minions have nothing to do with each other"
    assert enters(other, WEB1, next_request)
    assert enters(one, WEB1, request, NOW + RUNNER_REQUESTS_KEPT_S + 1), "by then nobody repeats it"


def test_a_request_for_a_runner_that_was_rolled_back_is_new_again(shared: SharedStore) -> None:
    request = RequestId("1" * 32)

    def enter_and_fail() -> None:
        with shared.write() as tx:
            assert tx.enter_runner_request(WEB1, request, NOW)
            raise CursorLostError("rolled back")

    with pytest.raises(CursorLostError):
        enter_and_fail()
    with shared.write() as tx:
        assert tx.enter_runner_request(WEB1, request, NOW)
