"""What the cache banks must do: over files, over memory, and over files that follow a store which masters share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import UsageError
from saltlite.master.store.banks import LocalBanks
from saltlite.master.store.projection import Projection
from saltlite.targeting.banks import DIGEST_MAX, GRAINS_MAX, NAMES, VALUE_DEPTH_MAX, Bank, Banks
from saltlite.testing.banks import MemoryBanks, MemoryCache
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from tests.contract.conftest import SEAL_KEY

OpenBanks = Callable[[], Banks]

NASTY = [
    *(
        "..",
        ".",
        ".new",
        ".feed",
        ".lock",
        "/",
        "../../etc/passwd",
        "a/b",
        "a\nb",
        "a\0b",
        "%2E",
        "%",
        "a%00b",
        "A",
        "a",
    ),
    *("~", "-rf", "ssh:web-1", "é", "日本", " ", "a b", "*", "\x7f", ".damaged-a", "x" * 128),
]


@pytest.fixture(params=["memory", "files", "shared"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenBanks]:
    """Opens the same banks again and again, as several MWorkers or a restarted master do."""
    opened: list[Banks] = []
    cache = MemoryCache(time.time)

    disk = MemoryStoreDisk()

    def open_one() -> Banks:
        banks: Banks
        if request.param == "memory":
            banks = MemoryBanks(cache)
        elif request.param == "files":
            banks = LocalBanks(str(tmp_path))
        else:
            banks = Projection(MemoryStore(disk).inventory(), {"cachedir": str(tmp_path)}, SEAL_KEY).banks
        opened.append(banks)
        return banks

    yield open_one
    for banks in opened:
        banks.close()


@pytest.fixture
def bank(reopen: OpenBanks) -> Bank:
    return reopen().bank("grains")


def test_what_was_put_is_there_for_everybody_with_its_digest(reopen: OpenBanks) -> None:
    value: dict[Any, object] = {"os": "Debian", "n": 5, "deep": {"list": [1, 2.5, None, True, b"\xff"]}, 7: "number"}
    reopen().bank("grains").put("web-1", value, "abc")
    other = reopen().bank("grains")
    assert other.get("web-1") == value
    assert other.digest("web-1") == "abc"
    assert other.keys() == ["web-1"]


def test_banks_are_apart(reopen: OpenBanks) -> None:
    banks = reopen()
    for name in NAMES:
        banks.bank(name).put("m", {"bank": name})
    assert [banks.bank(name).get("m") for name in NAMES] == [{"bank": name} for name in NAMES]


def test_what_was_never_put_is_nothing(bank: Bank) -> None:
    assert (bank.get("m"), bank.digest("m"), bank.changed_at("m"), bank.delete("m"), bank.keys()) == (
        *(None, "", None, False),
        [],
    )


def test_a_put_takes_the_place_of_what_was_there_and_of_its_digest(bank: Bank) -> None:
    bank.put("m", {"a": 1, "b": 2}, "first")
    bank.put("m", {"a": 3})
    assert (bank.get("m"), bank.digest("m")) == ({"a": 3}, "")


def test_what_was_deleted_is_gone(reopen: OpenBanks) -> None:
    bank = reopen().bank("grains")
    bank.put("m", {"a": 1}, "digest")
    assert bank.delete("m")
    other = reopen().bank("grains")
    assert (other.get("m"), other.digest("m"), other.keys(), other.delete("m")) == (None, "", [], False)


def test_the_time_of_the_last_put_is_known(bank: Bank) -> None:
    before = time.time() - 1
    bank.put("m", {})
    assert before <= (bank.changed_at("m") or 0.0) <= time.time() + 1


@pytest.mark.parametrize("key", NASTY)
def test_any_text_can_be_a_key_and_meets_no_other(bank: Bank, key: str) -> None:
    bank.put("A%2Fb", {"other": True})
    bank.put(key, {"key": key}, "d")
    assert bank.get(key) == {"key": key}
    assert bank.get("A%2Fb") == {"other": True}
    assert bank.keys() == sorted([key, "A%2Fb"])
    assert bank.changes("").keys == {key, "A%2Fb"}
    assert bank.delete(key)
    assert bank.keys() == ["A%2Fb"]


def test_an_empty_text_is_no_key(bank: Bank) -> None:
    for call in (bank.get, bank.digest, bank.delete, bank.changed_at, lambda key: bank.put(key, {})):
        with pytest.raises(UsageError):
            call("")


def test_a_value_of_exactly_the_limit_is_kept_and_a_larger_one_refused(bank: Bank) -> None:
    overhead = len(b"\x81\xa1a\xc6....")
    bank.put("m", {"a": b"x" * (GRAINS_MAX - overhead)})
    with pytest.raises(UsageError, match=str(GRAINS_MAX)):
        bank.put("m", {"a": b"x" * (GRAINS_MAX - overhead + 1)})
    assert len((bank.get("m") or {})["a"]) == GRAINS_MAX - overhead


def test_a_value_is_as_deep_as_the_limit_and_no_deeper(bank: Bank) -> None:
    deep: dict[str, object] = {}
    for _ in range(VALUE_DEPTH_MAX - 1):
        deep = {"a": deep}
    bank.put("m", deep)
    assert bank.get("m") == deep
    with pytest.raises(UsageError, match="deep"):
        bank.put("m", {"a": deep})
    assert bank.get("m") == deep


def test_grains_of_a_resource_may_be_as_deep_as_those_of_a_minion(reopen: OpenBanks) -> None:
    deep: dict[str, object] = {}
    for _ in range(VALUE_DEPTH_MAX - 1):
        deep = {"a": deep}
    bank = reopen().bank("resource_grains")
    bank.put("m", {"ssh:a": {"grains": deep, "stale_since": None}})
    assert (bank.get("m") or {})["ssh:a"]["grains"] == deep


@pytest.mark.parametrize("value", [{"a": object()}, {"a": {1.5: "x"}}, {"a": {None: 1}}, {"a": 2**64}, {"a": "\ud800"}])
def test_what_could_not_be_read_again_is_refused(bank: Bank, value: dict[str, object]) -> None:
    bank.put("m", {"old": True})
    with pytest.raises(UsageError, match="cannot be cached"):
        bank.put("m", value)
    assert bank.get("m") == {"old": True}


@pytest.mark.parametrize("digest", ["x" * (DIGEST_MAX + 1), "é", "a\0b"])
def test_a_digest_that_cannot_be_kept_is_refused(bank: Bank, digest: str) -> None:
    bank.put("m", {}, "x" * DIGEST_MAX)
    with pytest.raises(UsageError, match="digest"):
        bank.put("m", {}, digest)
    assert bank.digest("m") == "x" * DIGEST_MAX


def test_a_bank_that_does_not_exist_is_refused(reopen: OpenBanks) -> None:
    with pytest.raises(UsageError, match=r"no cache bank '\.\./x'"):
        reopen().bank("../x")


# -- changes


def test_who_never_asked_gets_all_keys(bank: Bank) -> None:
    bank.put("a", {})
    bank.put("b", {})
    bank.delete("a")
    changes = bank.changes("")
    assert (set(changes.keys), changes.whole) == ({"b"}, True)


def test_a_cursor_sees_each_change_of_any_process_once(reopen: OpenBanks) -> None:
    writer, reader = reopen().bank("grains"), reopen().bank("grains")
    writer.put("a", {})
    cursor = reader.changes("").cursor
    assert (reader.changes(cursor).keys, reader.changes(cursor).cursor) == (frozenset(), cursor)
    writer.put("b", {})
    writer.put("b", {"again": 1})
    writer.delete("a")
    changes = reader.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"a", "b"}, False)
    assert reader.changes(changes.cursor).keys == frozenset()


def test_a_cursor_outlives_its_process(reopen: OpenBanks) -> None:
    first = reopen().bank("grains")
    first.put("a", {})
    cursor = first.changes("").cursor
    reopen().bank("grains").put("b", {})
    changes = reopen().bank("grains").changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"b"}, False)


def test_a_refused_value_is_no_change(bank: Bank) -> None:
    cursor = bank.changes("").cursor
    with pytest.raises(UsageError):
        bank.put("a", {"x": object()})
    assert not bank.changes(cursor).keys


@pytest.mark.parametrize("cursor", ["x", "-1", "99999999", ":", "abc:5", "0" * 32 + ":0"])
def test_a_cursor_of_somewhere_else_gets_the_whole_bank(bank: Bank, cursor: str) -> None:
    bank.put("a", {})
    changes = bank.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"a"}, True)
