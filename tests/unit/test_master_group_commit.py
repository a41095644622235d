"""Parts that share one transaction: when it is committed, what follows the commit, and which parts an error affects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from saltlite.errors import StoreError
from saltlite.master.processes.group_commit import PARTS_MAX, WAIT_S, GroupCommit, GroupPart
from saltlite.master.store.ports import StoreWriter
from saltlite.testing.memory_store import MemoryStore


class Turns:
    """A reactor whose turns are the test's."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.soon: list[Callable[[], None]] = []

    def now(self) -> float:
        return self.clock

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Site:
    """A store that counts its transactions and may fail, and what became of each part, in order."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.store = MemoryStore()
        self.more_is_due = False
        self.commits = GroupCommit(cast("Any", self.turns), cast("Any", self), lambda: self.more_is_due)
        self.transactions: list[str] = []
        self.fails = False
        self.told: list[str] = []

    @contextmanager
    def write(self, *, appends_only: bool = False) -> Iterator[StoreWriter]:
        self.transactions.append("begun")
        with self.store.write() as writer:
            yield writer
            if self.fails:
                self.fails = False
                raise StoreError("the disk is full")
        self.transactions[-1] = "committed"

    def part(self, tag: str, *, bad: bool = False) -> GroupPart:
        def store(writer: StoreWriter) -> str:
            writer.put_event(tag, {}, 1.0)
            if bad:
                raise ValueError(tag)
            return tag

        def alone() -> None:
            try:
                with self.write() as writer:
                    store(writer)
            except (ValueError, StoreError) as error:
                self.told.append(f"{tag} failed: {error}")
            else:
                self.told.append(f"{tag} alone")

        return GroupPart(store, lambda result: self.told.append(f"{result} {self.transactions[-1]}"), alone)

    def add(self, *tags: str) -> None:
        for tag in tags:
            self.commits.add(self.part(tag))

    def stored(self) -> list[str]:
        return [event.tag for event in self.store.events(0, 100)]


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_parts_of_a_turn_share_one_transaction_and_hear_of_it_after_its_commit(site: Site) -> None:
    site.add("a", "b", "c")
    assert (site.told, site.transactions) == ([], [])
    site.turns.turn()
    assert site.told == ["a committed", "b committed", "c committed"]
    assert (site.transactions, site.stored()) == (["committed"], ["a", "b", "c"])


def test_a_part_that_is_alone_takes_its_own_transaction(site: Site) -> None:
    site.add("a")
    site.turns.turn()
    assert (site.told, site.transactions) == (["a alone"], ["committed"])


def test_an_error_of_one_part_costs_that_part_only_and_each_is_stored_once(site: Site) -> None:
    site.add("a")
    site.commits.add(site.part("b", bad=True))
    site.add("c")
    site.turns.turn()
    assert site.told == ["a alone", "b failed: b", "c alone"]
    assert site.stored() == ["a", "c"]


def test_a_commit_that_fails_is_tried_again_for_each_part_and_nothing_was_told_before(site: Site) -> None:
    site.fails = True
    site.add("a", "b")
    site.turns.turn()
    assert (site.told, site.stored()) == (["a alone", "b alone"], ["a", "b"])


def test_a_transaction_waits_for_requests_that_are_due_but_not_for_long(site: Site) -> None:
    site.more_is_due = True
    site.add("a")
    site.turns.turn()
    site.add("b")
    site.turns.turn()
    assert site.transactions == []
    site.turns.clock += 2 * WAIT_S
    site.turns.turn()
    assert (site.told, site.transactions) == (["a committed", "b committed"], ["committed"])


def test_a_transaction_that_is_large_enough_waits_for_no_more(site: Site) -> None:
    site.more_is_due = True
    site.add(*map(str, range(PARTS_MAX)))
    site.turns.turn()
    assert len(site.told) == PARTS_MAX


def test_what_a_part_adds_when_it_hears_of_its_commit_is_committed_too(site: Site) -> None:
    first = site.part("a")
    site.commits.add(GroupPart(first.store, first.stored, lambda: site.add("b")))
    site.turns.turn()
    site.turns.turn()
    assert site.told == ["b alone"]
