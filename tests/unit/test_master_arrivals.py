"""Minions that connect at the same time are handled together, and a bad message costs its own minion only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from saltlite.errors import StoreError, UsageError
from saltlite.master.handlers.delivery import handle_pull
from saltlite.master.handlers.keys import handle_decide
from saltlite.master.handlers.minions import PresenceChange, record
from saltlite.master.processes.arrivals import Arrivals
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.store.ports import MinionRow
from saltlite.model.ids import MinionId
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.platform.shared_memory import TurnBoard
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.framing import IpcMessage
from tests.support.inventory import inventory
from tests.support.keys import certificate
from tests.support.store import NOW, job, key, publish

WEBS = tuple(MinionId(f"web{number:02d}") for number in range(20))
MARKS = TurnBoard(["mworker"]).marks("mworker")


class Link:
    """Notes verdicts, and the parts that minions were given."""

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}
        self.given: dict[str, list[str]] = {}

    def decided(self, session: int, state: str, minion: str, gone: Sequence[str] = ()) -> None:
        self.verdicts[minion] = state

    def pulled(self, minion: str, jobs: Any, *, starved: bool, rest: str | None) -> None:
        self.given[minion] = [one.part for one, _proof, _left_ms in jobs]

    def fetch(self, minion: str, what: str) -> None: ...


class Store(MemoryStore):
    """Counts its transactions and the times that rows of minions are read, and fails in the first few transactions."""

    writes = fails = reads = 0

    def minions(self, among: Collection[MinionId] | None = None) -> list[MinionRow]:
        self.reads += 1
        return super().minions(among)

    def write(self, *, appends_only: bool = False) -> Any:
        self.writes += 1
        if self.writes <= self.fails:
            raise StoreError("the disk is full")
        return super().write(appends_only=appends_only)


class Site:
    """A master with accepted keys of all minions, and a job for two of them."""

    def __init__(self) -> None:
        signed = certificate(NOW)
        who = MasterIdentity(fingerprint(signed.fleet_public), signed, bytes(32))
        self.link, self.store = Link(), Store()
        link: Any = self.link
        config = HandlerConfig(5.0, 60.0, frozenset({0}))
        self.master = Master(self.store, ManualClock(wall=NOW), who, config, link, *inventory())
        with self.store.write() as tx:
            for minion in WEBS:
                tx.put_key(key(minion))
        publish(self.store, job(1, WEBS[:2]))
        self.store.writes = 0

    def one(self, message: IpcMessage) -> None:
        """Handle a message alone."""
        match message["t"]:
            case "decide":
                handle_decide(self.master, message)
            case "presence":
                record(self.master, [PresenceChange(*row) for row in message["items"]], whole=False)
            case "pull":
                handle_pull(self.master, message)

    def up(self) -> set[str]:
        return {row.id for row in self.store.minions() if row.up}


def session(minion: str, handshake: int = 1, *, up: bool = True) -> list[Any]:
    print_ = key(MinionId(minion)).fingerprint
    return [minion, print_, up, "10.0.0.1", "1.0", "boot", "disk", "", 1, handshake, "" if up else "stopped"]


def decide(minion: str) -> IpcMessage:
    hello = {"id": minion, "token": b""}
    return {"t": "decide", "session": 1, "public": key(MinionId(minion)).public, "address": "10.0.0.1", "hello": hello}


def presence(*rows: list[Any], record: bool = True, whole: bool = False) -> IpcMessage:
    return {"t": "presence", "record": record, "whole": whole, "items": list(rows)}


def pull(minion: str, handshake: int = 1) -> IpcMessage:
    return {"t": "pull", "id": minion, "session": session(minion, handshake), "since": ""}


def messages(minions: Sequence[str]) -> list[IpcMessage]:
    """What the link process says about each of these."""
    return [one for minion in minions for one in (decide(minion), presence(session(minion)), pull(minion))]


@pytest.fixture
def site() -> Site:
    return Site()


def test_many_that_connect_at_once_take_one_transaction(site: Site) -> None:
    arrivals = Arrivals()
    assert all(arrivals.take(message) for message in messages(WEBS))
    assert arrivals.handle(site.master, MARKS, site.one)
    assert site.store.writes == 1
    assert site.up() == set(WEBS)
    assert site.link.verdicts == dict.fromkeys(WEBS, "accepted")
    assert site.link.given == {minion: [job(1).jid] if minion in WEBS[:2] else [] for minion in WEBS}
    assert set(site.master.present) == set(WEBS)
    assert not arrivals.handle(site.master, MARKS, site.one), "nothing waits any more"


def test_sessions_that_were_stored_in_this_turn_are_not_looked_for_before_their_jobs(site: Site) -> None:
    arrivals = Arrivals()
    for message in messages(WEBS):
        arrivals.take(message)
    site.store.reads = 0
    arrivals.handle(site.master, MARKS, site.one)
    assert site.store.reads == 0
    assert site.link.given[WEBS[0]] == [job(1).jid]


@pytest.mark.parametrize("before", [[], [presence(session(WEBS[0], handshake=1)), presence(session(WEBS[1]))]])
def test_a_session_that_was_not_stored_in_this_turn_is_stored_before_its_jobs_are_sent(
    site: Site, before: list[IpcMessage]
) -> None:
    arrivals = Arrivals()
    for message in (*before, pull(WEBS[0], handshake=2), pull(WEBS[1])):
        arrivals.take(message)
    arrivals.handle(site.master, MARKS, site.one)
    assert {row.id: row.handshake for row in site.store.minions()} == {WEBS[0]: 2, WEBS[1]: 1}
    assert site.link.given == {minion: [job(1).jid] for minion in WEBS[:2]}


def test_what_a_store_refuses_together_is_tried_one_by_one(site: Site) -> None:
    arrivals = Arrivals()
    for message in messages(WEBS[:3]):
        arrivals.take(message)
    site.store.fails = 1
    arrivals.handle(site.master, MARKS, site.one)
    assert site.up() == set(WEBS[:3])
    assert set(site.link.given) == set(WEBS[:3])


def test_a_bad_message_costs_its_own_minion_only(site: Site) -> None:
    arrivals = Arrivals()
    bad = {**decide("web00"), "hello": {"id": "../web00", "token": b""}}
    refused: list[str] = []

    def one(message: IpcMessage) -> None:
        try:
            site.one(message)
        except UsageError:
            refused.append(message["hello"]["id"])

    for message in (bad, *map(decide, WEBS)):
        arrivals.take(message)
    arrivals.handle(site.master, MARKS, one)
    assert refused == ["../web00"]
    assert site.link.verdicts == dict.fromkeys(WEBS, "accepted")


@pytest.mark.parametrize(
    "message",
    [
        presence(session(WEBS[0], up=False)),
        presence(whole=True),
        {**pull(WEBS[0]), "session": None},
        {"t": "elsewhere", "items": [], "anew": True},
    ],
)
def test_what_changes_the_meaning_of_those_that_wait_comes_after_them(message: IpcMessage) -> None:
    arrivals = Arrivals()
    assert not arrivals.take(message)
    assert arrivals.lets_pass(message), "nothing waits"
    arrivals.take(pull(WEBS[0]))
    assert not arrivals.lets_pass(message)
    assert arrivals.lets_pass({"t": "wake_up", "jobs": None})
