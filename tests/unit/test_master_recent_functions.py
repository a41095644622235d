"""Function sets that an MWorker remembers: read once, and no more of them than there may be."""

from __future__ import annotations

from typing import cast

from saltlite.master.processes.context import FUNCTION_SETS_KEPT, RecentFunctions
from saltlite.master.store.ports import FunctionSet, StoreReader


class Store:
    """Has a set for every digest but "none", and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def functions(self, digest: str) -> FunctionSet | None:
        self.asked.append(digest)
        return FunctionSet(digest, {"test.ping": "test.ping()"}, whole=True) if digest != "none" else None


def asked_for(*digests: str) -> list[str]:
    """What the store is asked when these are wanted one after the other."""
    store, recent = Store(), RecentFunctions()
    for digest in digests:
        found = recent.of(digest, cast(StoreReader, store))
        assert (found.digest if found else "none") == digest
    return store.asked


def test_a_set_is_read_once() -> None:
    assert asked_for("a", "b", "a", "b") == ["a", "b"]


def test_one_that_is_not_there_yet_is_asked_for_again() -> None:
    assert asked_for("none", "none") == ["none", "none"]


def test_the_longest_unused_one_goes_when_there_are_too_many() -> None:
    some = [str(number) for number in range(FUNCTION_SETS_KEPT)]
    assert asked_for(*some, "0", "more", "0", "1") == [*some, "more", "1"]
