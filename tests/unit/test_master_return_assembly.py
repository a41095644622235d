"""Large returns: places are granted in turn within a budget, parts come in order, and nobody keeps a place idle."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.master.protocol.sessions import ANNOUNCED_MAX, COMMIT_S, GRANT_S, PART_BYTES_PER_S, ReturnAssembly
from saltlite.wire.limits import CHUNK, MIB, RETURN_CREDIT, RETURN_MAX, RETURN_MEMORY

BIG = RETURN_MAX
PLACES = RETURN_MEMORY // BIG


def ret(jid: str, size: int) -> dict[str, Any]:
    return {"t": "return", "jid": jid, "size": size}


def part(jid: str, offset: int, data: bytes) -> dict[str, Any]:
    return {"t": "return_chunk", "jid": jid, "offset": offset, "data": data}


def full() -> ReturnAssembly:
    """All memory is granted, one large return to each of the sessions 1, 2 …"""
    it = ReturnAssembly()
    for session in range(1, PLACES + 1):
        assert it.announce(session, ret("a", BIG), 0.0) == [(session, "a")]
    return it


def test_parts_in_order_make_the_whole() -> None:
    it = ReturnAssembly()
    assert it.announce(1, ret("a", 5), 0.0) == [(1, "a")]
    assert it.part(1, part("a", 0, b"he"), 0.0) is None
    assert it.part(1, part("a", 2, b"llo"), 0.0) == (ret("a", 5), b"hello")


@pytest.mark.parametrize(
    ("offset", "data"), [(0, b"xx"), (1, b"x"), (3, b"x"), (2, b"xxxx")], ids=["again", "back", "gap", "more"]
)
def test_a_part_out_of_order_or_beyond_the_end_is_refused(offset: int, data: bytes) -> None:
    it = ReturnAssembly()
    it.announce(1, ret("a", 5), 0.0)
    it.part(1, part("a", 0, b"he"), 0.0)
    with pytest.raises(RemoteProtocolError, match="bad-part"):
        it.part(1, part("a", offset, data), 0.0)


def test_a_part_that_was_not_granted_is_refused() -> None:
    it = full()
    it.announce(99, ret("a", BIG), 0.0)
    for session, jid in ((99, "a"), (1, "b"), (100, "a")):
        with pytest.raises(RemoteProtocolError, match="bad-part"):
            it.part(session, part(jid, 0, b"x"), 0.0)


def test_a_part_after_the_whole_is_refused() -> None:
    it = ReturnAssembly()
    it.announce(1, ret("a", 1), 0.0)
    it.part(1, part("a", 0, b"x"), 0.0)
    with pytest.raises(RemoteProtocolError, match="bad-part"):
        it.part(1, part("a", 1, b"x"), 0.0)


def test_an_announcement_again_starts_over() -> None:
    it = ReturnAssembly()
    it.announce(1, ret("a", 4), 0.0)
    it.part(1, part("a", 0, b"xx"), 0.0)
    assert it.announce(1, ret("a", 4), 0.0) == [(1, "a")]
    assert it.part(1, part("a", 0, b"done"), 0.0) == (ret("a", 4), b"done")


def test_an_announcement_of_what_is_whole_and_not_committed_yet_is_not_granted_again() -> None:
    it = ReturnAssembly()
    it.announce(1, ret("a", 2), 0.0)
    it.part(1, part("a", 0, b"xx"), 0.0)
    assert it.announce(1, ret("a", 2), 0.0) == []
    it.expire(COMMIT_S)
    assert it.announce(1, ret("a", 2), COMMIT_S) == [(1, "a")]


def test_an_announcement_with_another_size_is_a_new_one_and_takes_no_more_memory_than_it_says() -> None:
    it = full()
    assert it.announce(1, ret("a", CHUNK), 0.0) == [(1, "a")]
    # The rest of what session 1 had is free now.
    assert it.announce(99, ret("b", BIG - CHUNK), 0.0) == [(99, "b")]
    assert it.announce(100, ret("c", 1), 0.0) == []


def test_above_the_budget_the_next_waits_until_a_return_is_committed() -> None:
    it = full()
    assert it.announce(99, ret("b", BIG), 0.0) == []
    assert it.release(1, "a", 0.0) == [(99, "b")]


def test_who_waits_is_not_overtaken_by_who_wants_less() -> None:
    it = full()
    assert it.announce(99, ret("big", BIG), 0.0) == []
    assert it.announce(100, ret("small", CHUNK), 0.0) == []
    assert it.release(1, "a", 0.0) == [(99, "big")]
    assert it.release(2, "a", 0.0) == [(100, "small")]


def test_one_minion_has_at_most_its_credit_under_way() -> None:
    it = ReturnAssembly()
    size = RETURN_CREDIT // 4
    granted = [key for number in range(9) for key in it.announce(1, ret(str(number), size), 0.0)]
    assert granted == [(1, "0"), (1, "1"), (1, "2"), (1, "3")]
    assert it.release(1, "0", 0.0) == [(1, "4")]


def test_a_return_larger_than_the_credit_is_granted_alone() -> None:
    it = ReturnAssembly()
    assert it.announce(1, ret("big", RETURN_CREDIT + 1), 0.0) == [(1, "big")]
    assert it.announce(1, ret("small", 1), 0.0) == []
    assert it.release(1, "big", 0.0) == [(1, "small")]


def test_minions_take_turns() -> None:
    it = full()
    for number in range(100):
        it.announce(50, ret(f"{number:03d}", BIG), 0.0)
    it.announce(51, ret("mine", BIG), 0.0)
    assert it.release(1, "a", 0.0) == [(50, "000")]
    assert it.release(2, "a", 0.0) == [(51, "mine")]


def test_the_end_of_a_session_gives_everything_back() -> None:
    it = full()
    it.announce(1, ret("b", BIG), 0.0)
    it.announce(99, ret("c", BIG), 0.0)
    assert it.forget(1, 0.0) == [(99, "c")]
    assert it.forget(1, 0.0) == []


def test_a_session_may_announce_so_many_and_no_more() -> None:
    it = full()
    for number in range(ANNOUNCED_MAX):
        it.announce(99, ret(str(number), 1), 0.0)
    it.announce(99, ret("0", 1), 0.0)
    with pytest.raises(RemoteProtocolError, match="too-many-returns"):
        it.announce(99, ret("one more", 1), 0.0)


def test_tiny_returns_cannot_take_places_without_end() -> None:
    it = ReturnAssembly()
    granted = sum(len(it.announce(session, ret("a", 1), 0.0)) for session in range(RETURN_MEMORY // CHUNK + 9))
    assert granted == RETURN_MEMORY // CHUNK


def test_a_place_that_is_not_used_is_taken_back() -> None:
    it = full()
    it.announce(99, ret("b", BIG), 0.0)
    assert it.expire(GRANT_S - 1.0) == []
    assert it.expire(GRANT_S)[0] == (99, "b")


def test_who_may_not_have_heard_of_its_place_is_given_another_one_behind_the_others() -> None:
    it = full()
    it.announce(99, ret("b", BIG), 0.0)
    granted = it.expire(GRANT_S)
    assert granted[0] == (99, "b")
    assert (1, "a") in granted


def test_who_stopped_in_the_middle_loses_its_place() -> None:
    it = ReturnAssembly()
    it.announce(1, ret("a", BIG), 0.0)
    it.part(1, part("a", 0, b"x"), 0.0)
    assert it.expire(GRANT_S + 1.0) == []
    with pytest.raises(RemoteProtocolError, match="bad-part"):
        it.part(1, part("a", 1, b"x"), GRANT_S + 1.0)


def test_a_slow_return_keeps_its_place_while_its_parts_come_fast_enough() -> None:
    it = full()
    it.announce(99, ret("b", BIG), 0.0)
    now = 0.0
    for at in range(0, BIG, CHUNK):
        now += CHUNK / PART_BYTES_PER_S
        assert (1, "a") not in it.expire(now)
        whole = it.part(1, part("a", at, b"x" * CHUNK), now)
    assert whole is not None
    assert len(whole[1]) == BIG


def test_a_return_that_comes_drop_by_drop_loses_its_place() -> None:
    it = ReturnAssembly()
    it.announce(1, ret("a", MIB), 0.0)
    for second in range(int(GRANT_S) + 1):
        it.part(1, part("a", second, b"x"), float(second))
    it.expire(GRANT_S + 1.0)
    with pytest.raises(RemoteProtocolError, match="bad-part"):
        it.part(1, part("a", int(GRANT_S) + 1, b"x"), GRANT_S + 1.0)


def test_a_whole_return_that_is_never_committed_gives_its_place_back() -> None:
    it = full()
    it.announce(99, ret("b", BIG), 0.0)
    it.announce(2, ret("a", BIG), 100.0)
    for session in range(3, PLACES + 1):
        it.announce(session, ret("a", BIG), 100.0)
    for at in range(0, BIG, CHUNK):
        it.part(1, part("a", at, b"x" * CHUNK), 5.0)
    assert it.expire(5.0 + COMMIT_S - 1.0) == []
    assert it.expire(5.0 + COMMIT_S) == [(99, "b")]
