"""The layout of the registry's file, and its views, without a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from zlib import crc32

import pytest

from saltlite.errors import DamagedError, StoreError
from saltlite.resources.registry.layout import (
    CAPACITY_MAX,
    CAPACITY_MIN,
    HEADERS,
    LAST,
    LOAD_MAX,
    PAGE,
    RECORD_MAX,
    SPARE_SLOTS,
    STATES,
    VERSION,
    Change,
    Header,
    NoRoomError,
    State,
    capacity_for,
    changes_in,
    encoded,
    fingerprint,
    fingerprints,
    is_possible,
    owner_in,
    pack_sorted,
    payload,
    probe,
    read,
    read_header,
    read_state,
    shift_for,
    whole_records,
)
from saltlite.resources.registry.registry import Views

VALUE = payload("m1", "dummy")
CHANGES: list[Change] = [(b"dummy:a", VALUE), (b"dummy:bb", VALUE), (b"dummy:a", None)]


def test_the_payload_is_the_documents_json_without_spaces() -> None:
    assert VALUE == b'{"m":"m1","t":"dummy"}'
    assert json.loads(VALUE) == {"m": "m1", "t": "dummy"}
    assert owner_in(VALUE) == ("m1", "dummy")


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"m":1,"t":"x"}', b'{"m":"x"}', b"\xff", b"[" * 100_000])
def test_a_value_that_names_no_owner_is_damage(value: bytes) -> None:
    with pytest.raises(DamagedError):
        owner_in(value)


def test_a_transaction_is_read_as_it_was_written() -> None:
    log = b"".join(encoded(CHANGES))
    assert list(changes_in(log, 0, len(log))) == CHANGES
    assert len(log) % 8 == 0


def test_only_the_last_record_of_a_transaction_ends_it() -> None:
    lines = encoded(CHANGES)
    assert [bool(read(line, 0, len(line))[1] & LAST) for line in lines] == [False, False, True]


def test_a_record_that_is_cut_off_anywhere_is_damage() -> None:
    line = encoded(CHANGES[:1])[0]
    for end in range(len(line)):
        with pytest.raises(DamagedError):
            read(line[:end], 0, end)


def test_a_record_with_one_flipped_bit_is_damage() -> None:
    line = encoded(CHANGES[:1])[0]
    for bit in range(len(line) * 8):
        damaged = bytearray(line)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedError):
            read(bytes(damaged), 0, len(line))


def test_behind_a_damaged_record_the_next_whole_one_is_found() -> None:
    lines = encoded([(f"dummy:r{number}".encode(), VALUE) for number in range(5)])
    lines[2] = bytes(len(lines[2]))
    log = b"".join(lines)
    assert [key for _, _, key, _ in whole_records(log, 0, len(log))] == [
        b"dummy:r0",
        b"dummy:r1",
        b"dummy:r3",
        b"dummy:r4",
    ]


def test_a_row_that_is_too_long_for_a_record_is_refused_and_the_longest_is_not() -> None:
    room = RECORD_MAX - len(VALUE) - 12
    line = encoded([(b"k" * room, VALUE)])[0]
    assert len(line) == RECORD_MAX
    assert read(line, 0, len(line))[2] == b"k" * room
    with pytest.raises(StoreError, match="shorten the id"):
        encoded([(b"k" * (room + 1), VALUE)])


@pytest.mark.parametrize(
    ("key", "possible"), [(b"dummy:a", True), (b"ssh:a", False), (b"dummy", False), (b"dummy:\xff", False)]
)
def test_a_row_belongs_under_its_type(key: bytes, *, possible: bool) -> None:
    assert is_possible(key, VALUE) is possible


HEADER = Header(CAPACITY_MIN, b"i" * 16, b"k" * 16, b"p" * 16, 9000)
STATE = State(7, HEADER.log_start + 100, 3, 4, 5, HEADER.log_start, 1, b"b" * 16)


def page(*states: State) -> bytearray:
    content = bytearray(2 * PAGE)
    for start in HEADERS:
        content[start : start + len(HEADER.pack())] = HEADER.pack()
    for state in states:
        start = STATES[state.commit & 1]
        content[start : start + len(state.pack())] = state.pack()
    return content


def test_headers_are_read_as_they_were_written() -> None:
    content = bytes(page(STATE))
    assert read_header(content) == HEADER
    assert read_state(content, HEADER) == STATE


def test_one_of_two_headers_is_enough() -> None:
    for start in HEADERS:
        content = page(STATE)
        content[start + 20] ^= 1
        assert read_header(bytes(content)) == HEADER


def test_a_state_that_is_torn_leaves_the_one_before() -> None:
    later = State(8, HEADER.log_start + 200, 4, 4, 6, HEADER.log_start, 0, b"b" * 16)
    content = page(STATE, later)
    assert read_state(bytes(content), HEADER) == later
    content[STATES[0] + 10] ^= 1
    assert read_state(bytes(content), HEADER) == STATE
    content[STATES[1] + 10] ^= 1
    with pytest.raises(DamagedError, match="state"):
        read_state(bytes(content), HEADER)


def resealed(content: bytearray, change: Callable[[bytearray], None]) -> bytes:
    """The page with its headers changed and their checks right."""
    for start in HEADERS:
        header = bytearray(content[start : start + len(HEADER.pack()) - 4])
        change(header)
        content[start : start + len(header) + 4] = header + crc32(header).to_bytes(4, "little")
    return bytes(content)


def test_a_file_of_another_format_says_so() -> None:
    def other_version(header: bytearray) -> None:
        header[8] = VERSION + 1

    with pytest.raises(DamagedError, match=f"format {VERSION + 1}"):
        read_header(resealed(page(STATE), other_version))


def test_a_file_of_a_machine_that_writes_numbers_the_other_way_is_not_read() -> None:
    def other_order(header: bytearray) -> None:
        header[12:16] = header[12:16][::-1]

    with pytest.raises(DamagedError):
        read_header(resealed(page(STATE), other_order))


def test_a_capacity_that_is_no_power_of_two_is_not_believed() -> None:
    def odd(header: bytearray) -> None:
        header[16] += 1

    with pytest.raises(DamagedError):
        read_header(resealed(page(STATE), odd))


def test_fingerprints_depend_on_the_key_of_the_file() -> None:
    assert fingerprint(b"a" * 16, b"dummy:x") != fingerprint(b"b" * 16, b"dummy:x")
    assert fingerprints(b"a" * 16, [b"x", b"y"]) == [fingerprint(b"a" * 16, b"x"), fingerprint(b"a" * 16, b"y")]


def test_a_table_has_room_for_its_rows_and_some_more() -> None:
    for rows in (0, 1, 89, 90, 1000, 1_000_000):
        capacity = capacity_for(rows)
        assert capacity >= CAPACITY_MIN
        assert capacity & (capacity - 1) == 0
        assert capacity * LOAD_MAX >= rows
    assert capacity_for(10, 5000) == 8192
    with pytest.raises(OverflowError):
        capacity_for(CAPACITY_MAX)


def test_a_packed_table_has_every_row_at_its_home_or_right_behind_others() -> None:
    capacity = 128
    numbers = sorted(fingerprint(b"k" * 16, str(number).encode()) for number in range(80))
    words = pack_sorted(zip(numbers, range(1, 81), strict=True), capacity)
    assert len(words) == 2 * (capacity + SPARE_SLOTS)
    for offset, number in enumerate(numbers, 1):
        at = probe(words, number, shift_for(capacity), lambda _: True)
        assert words[at + 1] == offset
    stored = [number for number in words[0::2] if number]
    assert stored == numbers


def test_a_missing_key_is_told_by_an_empty_slot() -> None:
    words = pack_sorted([(1 << 63, 5)], 128)
    at = probe(words, (1 << 63) + 1, shift_for(128), lambda _: False)
    assert words[at] == 0
    # The same fingerprint of another key: the slot behind it.
    assert probe(words, 1 << 63, shift_for(128), lambda _: False) == at


def test_rows_do_not_wrap_around_the_end_of_the_table() -> None:
    top = (1 << 64) - 1
    fitting = [(top - number, 1) for number in reversed(range(SPARE_SLOTS + 1))]
    words = pack_sorted(fitting, 128)
    assert words[0] == 0
    with pytest.raises(NoRoomError):
        pack_sorted([*fitting, (top, 1)], 128)
    with pytest.raises(NoRoomError):
        probe(words, top, shift_for(128), lambda _: False)


def views(*changes: Change) -> Views:
    found = Views()
    found.apply(changes)
    return found


def test_views_follow_a_row_from_owner_to_owner() -> None:
    found = views((b"dummy:a", VALUE), (b"dummy:a", payload("m2", "dummy")), (b"ssh:a", payload("m3", "ssh")))
    assert {held.type: held.minion for held in found.holdings("a")} == {"dummy": "m2", "ssh": "m3"}
    assert found.by_minion.keys() == {"m2", "m3"}
    assert found.by_type.keys() == {"dummy", "ssh"}


def test_views_forget_minions_and_types_that_have_nothing_left() -> None:
    found = views((b"dummy:a", VALUE), (b"dummy:a", None))
    assert (found.by_minion, found.by_type, found.holdings("a"), len(found)) == ({}, {}, (), 0)


def test_a_minion_that_lost_everything_can_get_something_again() -> None:
    found = views((b"dummy:a", VALUE), (b"dummy:a", None), (b"dummy:b", VALUE))
    assert found.by_minion["m1"]["dummy"].ids == {"b"}
    assert list(found.ids_of_type("dummy")) == ["b"]


def test_changes_that_come_twice_change_nothing() -> None:
    changes: list[Change] = [
        (b"dummy:a", VALUE),
        (b"dummy:a", payload("m2", "dummy")),
        (b"ssh:a", None),
        (b"dummy:b", VALUE),
    ]
    found = views(*changes)
    found.apply(changes)
    assert {minion: held["dummy"].ids for minion, held in found.by_minion.items()} == {"m1": {"b"}, "m2": {"a"}}


@pytest.mark.parametrize(
    "change",
    [
        (b"ssh:a", VALUE),
        (b"dummy:\xff", VALUE),
        (b"dummy:a", b'{"m": "m1", "t": "dummy"}'),
        (b"dummy:a", b"x"),
        (b"\xff", None),
    ],
)
def test_rows_that_no_registry_writes_are_damage(change: Change) -> None:
    with pytest.raises(DamagedError):
        views(change)
