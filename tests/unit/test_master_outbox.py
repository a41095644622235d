"""The outbox of one session: a window in bytes and deliveries, sent again until acknowledged."""

from __future__ import annotations

import itertools

from saltlite.master.protocol.sessions import (
    DELIVERIES_MAX,
    DELIVERIES_PER_S,
    RESEND_MAX_S,
    RESEND_MIN_S,
    Delivery,
    Outbox,
)
from saltlite.wire.limits import SEND_WINDOW


def delivery(jid: str, size: int = 10, until: float = 1e9) -> Delivery:
    return Delivery(jid, b"b" * size, b"s" * 64, [b"p" * 32], until)


def jids(outbox: Outbox, now: float, under_way: int = 1) -> list[str]:
    return [delivery.jid for delivery in outbox.due(now, under_way)]


def test_a_parcel_says_how_long_it_may_still_take() -> None:
    message = delivery("1", until=100.0).message(98.5)
    assert (message["jid"], message["deliver_ms"], message["proof"]) == ("1", 1500, [b"p" * 32])


def test_a_parcel_that_is_too_late_says_zero_and_not_less() -> None:
    assert delivery("1", until=100.0).message(200.0)["deliver_ms"] == 0


def test_a_parcel_is_due_at_once_and_then_ever_more_seldom() -> None:
    outbox = Outbox()
    outbox.put(delivery("1"))
    times = [now / 2 for now in range(2000) if jids(outbox, now / 2)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] == 0.0
    assert gaps[:5] == [2.0, 4.0, 8.0, 16.0, 32.0]
    assert set(gaps[5:]) == {RESEND_MAX_S}


def test_a_settled_parcel_is_not_sent_again() -> None:
    outbox = Outbox()
    outbox.put(delivery("1"))
    outbox.settle("1")
    assert jids(outbox, 1e6) == []
    assert len(outbox) == 0


def test_a_parcel_is_taken_once() -> None:
    outbox = Outbox()
    assert outbox.put(delivery("1"))
    assert not outbox.put(delivery("1"))
    assert len(outbox) == 1
    assert not outbox.starved


def test_above_the_window_the_rest_stays_outside_and_is_asked_for_below_half_of_it() -> None:
    outbox = Outbox()
    quarter = SEND_WINDOW // 4
    assert all(outbox.put(delivery(str(number), quarter)) for number in range(4))
    assert not outbox.put(delivery("4", 1))
    assert outbox.starved
    assert [outbox.settle(str(number)) for number in range(4)] == [False, True, False, False]


def test_many_small_parcels_have_a_limit_of_their_own() -> None:
    outbox = Outbox()
    taken = sum(outbox.put(delivery(str(number), 1)) for number in range(2 * DELIVERIES_MAX))
    assert taken == DELIVERIES_MAX
    assert outbox.starved


def test_a_body_larger_than_the_window_goes_alone() -> None:
    outbox = Outbox()
    assert outbox.put(delivery("1", SEND_WINDOW + 1))
    assert not outbox.put(delivery("2", 1))
    assert outbox.settle("1")
    assert outbox.put(delivery("2", 1))


def test_room_is_not_announced_to_a_store_that_has_nothing_more() -> None:
    outbox = Outbox()
    outbox.put(delivery("1"))
    assert not outbox.settle("1")
    assert not outbox.settle("unknown")


def test_whoever_is_starved_is_asked_for_when_the_last_parcel_is_settled() -> None:
    outbox = Outbox()
    outbox.put(delivery("1", SEND_WINDOW))
    outbox.starved = True
    assert outbox.settle("1")


def test_a_blocked_parcel_is_tried_again_soon_and_does_not_count_as_sent() -> None:
    outbox = Outbox()
    outbox.put(delivery("1"))
    assert jids(outbox, 0.0) == ["1"]
    outbox.blocked("1", 0.05)
    outbox.blocked("unknown", 0.05)
    assert jids(outbox, 0.04) == []
    assert jids(outbox, 0.05) == ["1"]
    assert jids(outbox, 0.05 + RESEND_MIN_S) == ["1"]


def test_a_parcel_is_sent_again_later_while_thousands_of_others_are_under_way() -> None:
    outbox = Outbox()
    outbox.put(delivery("1"))
    assert jids(outbox, 0.0, under_way=10_000) == ["1"]
    assert jids(outbox, 10_000 / DELIVERIES_PER_S - 0.01) == []
    assert jids(outbox, 10_000 / DELIVERIES_PER_S) == ["1"]


def test_what_is_behind_a_blocked_parcel_waits_with_it() -> None:
    outbox = Outbox()
    for jid in ("1", "2"):
        outbox.put(delivery(jid))
    assert jids(outbox, 10.0) == ["1", "2"]
    outbox.blocked("2", until=10.05)
    outbox.put(delivery("3"))
    assert jids(outbox, 10.01) == []
    assert jids(outbox, 10.05) == ["2", "3"]


def test_a_fresh_pull_goes_on_with_the_first_job_that_had_no_room() -> None:
    outbox = Outbox()
    outbox.put(delivery("0", SEND_WINDOW - 25))
    outbox.refill([delivery("0"), delivery("1"), delivery("2"), delivery("3"), delivery("4")], starved=True, rest="5")
    assert (len(outbox), outbox.rest, outbox.starved) == (3, "3", True)


def test_where_a_fresh_pull_left_off_is_not_forgotten_by_another_pull() -> None:
    outbox = Outbox()
    outbox.refill([delivery("1")], starved=True, rest="2")
    outbox.refill([delivery("9")], starved=False, rest=None)
    assert (outbox.rest, outbox.starved) == ("2", True)
    outbox.refill([delivery("2")], starved=False, rest="")
    assert outbox.rest == ""
