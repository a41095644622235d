"""The directory of masters: what is believed, and which master a minion belongs to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.model.ids import MinionId
from saltlite.wire import codec, directory
from saltlite.wire.directory import AHEAD_MS, MASTERS_LISTED, NOWHERE, Directory, MasterEntry, from_rows, read, signed
from saltlite.wire.limits import DIRECTORY_BYTES, MASTER_NAME_MAX, MASTER_WEIGHT_MAX, MASTERS_MAX
from saltlite.wire.signatures import sign
from tests.support.keys import JOB_PRIVATE, JOB_PUBLIC, seed

MINIONS = [MinionId(f"web{number}") for number in range(6000)]


def entries(**weights: int) -> tuple[MasterEntry, ...]:
    return tuple(MasterEntry(name, f"{name}.example:4515", weight, True) for name, weight in weights.items())


def homes(known: Directory) -> Counter[str]:
    return Counter(map(known.home, MINIONS))


def reason(content: bytes, signature: bytes, key: bytes = JOB_PUBLIC) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        read(content, signature, [key])
    return caught.value.reason


def test_a_directory_is_read_as_it_was_signed() -> None:
    masters = entries(a=100, b=50)
    assert read(*signed(JOB_PRIVATE, reversed(masters)), [seed("other"), JOB_PUBLIC]).masters == masters


def test_a_directory_that_no_trusted_master_signed_is_refused() -> None:
    content, signature = signed(JOB_PRIVATE, entries(a=100))
    assert reason(content, signature, seed("other")) == "bad-directory"
    assert reason(content[:-1] + b"\xc2", signature) == "bad-directory"
    assert reason(*signed(seed("a thief"), entries(a=100))) == "bad-directory"


ENTRY = ["a", "a:1", 100, True]


@pytest.mark.parametrize(
    "rows",
    [
        {}, "x", [1], [ENTRY, ENTRY], [[*ENTRY, 1]], [["", *ENTRY[1:]]], [["a\n", *ENTRY[1:]]],
        [["n" * (MASTER_NAME_MAX + 1), *ENTRY[1:]]], [["a", "a", 100, True]], [["a", ":1", 100, True]],
        [["a", "h" * 300 + ":1", 100, True]], [["a", "a b\n:1", 100, True]], [["a", "a:1", 0, True]],
        [["a", "a:1", MASTER_WEIGHT_MAX + 1, True]], [["a", "a:1", True, True]], [["a", "a:1", 100, 1]],
        [[f"m{number}", *ENTRY[1:]] for number in range(MASTERS_MAX + 1)],
        [["signed at 5", "a:1", 1, True], ENTRY], [["signed at 5", "a:1", 1, False]],
        [["signed at 5", "a:1", 1, False], ["signed at 6", "a:1", 1, False], ENTRY],
    ],
)  # fmt: skip
def test_a_directory_of_another_form_is_refused_even_when_a_master_signed_it(rows: Any) -> None:
    content = codec.encode(rows)
    assert reason(content, sign(JOB_PRIVATE, directory._DOMAIN, content)) == "bad-directory"


def test_the_largest_directory_fits_into_its_message_and_further_masters_are_omitted() -> None:
    many = [
        MasterEntry(f"{number:03d}".rjust(MASTER_NAME_MAX, "x"), "h" * 256 + ":65535", MASTER_WEIGHT_MAX, True)
        for number in range(MASTERS_MAX + 5)
    ]
    content, signature = signed(JOB_PRIVATE, reversed(many), 10**15 - 1)
    assert len(content) <= DIRECTORY_BYTES
    assert read(content, signature, [JOB_PUBLIC]).masters == tuple(many[:MASTERS_LISTED])


def test_minions_spread_over_the_masters_by_weight() -> None:
    found = homes(Directory(entries(a=100, b=100, c=200)))
    assert all(abs(found[name] - share) < 150 for name, share in {"a": 1500, "b": 1500, "c": 3000}.items())


def test_the_minions_of_a_lost_master_spread_over_the_others_and_no_other_moves() -> None:
    masters = entries(a=100, b=100, c=100)
    before = Directory(masters)
    lost = Directory((MasterEntry("a", "a.example:4515", 100, False), *masters[1:]))
    moved = [minion for minion in MINIONS if before.home(minion) != lost.home(minion)]
    assert all(before.home(minion) == "a" for minion in moved)
    assert abs(Counter(map(lost.home, moved))["b"] - len(moved) / 2) < 150
    assert all(lost.ranked(minion)[-1].name == "a" for minion in MINIONS[:50])
    assert all(before.ranked(minion)[0].name == before.home(minion) for minion in MINIONS[:50])


def test_a_master_that_is_added_takes_its_share_and_no_minion_moves_between_the_others() -> None:
    before, after = Directory(entries(a=100, b=100)), Directory(entries(a=100, b=100, c=100))
    moved = [minion for minion in MINIONS if before.home(minion) != after.home(minion)]
    assert all(after.home(minion) == "c" for minion in moved)
    assert abs(len(moved) - 2000) < 200


def test_without_a_master_that_is_up_a_minion_has_no_home() -> None:
    down = MasterEntry("a", "a:1", 100, False)
    assert (NOWHERE.home(MINIONS[0]), Directory((down,)).home(MINIONS[0])) == ("", "")
    assert from_rows(Directory((down,)).rows()) == Directory((down,))


@pytest.mark.parametrize("digest", [b"\xff" * 32, b"\0" * 32])
def test_the_ends_of_the_hash_have_a_rank(digest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "sha256", lambda _data: digest)
    known = Directory((MasterEntry("one", "one:4515", 1, True), MasterEntry("two", "two:4515", 100, True)))
    assert {known.home(MinionId("w")), known.ranked(MinionId("w"))[0].name} <= {"one", "two"}


# -- the number, which keeps an earlier directory from being used again

NOW = 1_800_000_000.0
BEFORE, AFTER = Directory(entries(a=100, b=100), 1_799_999_000_000), Directory(entries(a=100), 1_799_999_500_000)


def kept(*signed_ones: Directory, now: float = NOW) -> Directory:
    """What a minion has that got these directories in turn."""
    known = NOWHERE
    for one in signed_ones:
        known = one.after(known, now) or known
    return known


def test_the_number_is_signed_and_a_minion_of_the_version_before_takes_it_for_a_master_that_is_not_up() -> None:
    assert read(*signed(JOB_PRIVATE, AFTER.masters, AFTER.number), [JOB_PUBLIC]) == AFTER
    # The form that it knows: each entry has four plain values, and the address is one that it tries anyway.
    content, _signature = signed(JOB_PRIVATE, AFTER.masters, AFTER.number)
    assert codec.decode(content) == [
        ["signed at 1799999500000", "a.example:4515", 1, False],
        ["a", "a.example:4515", 100, True],
    ]


def test_an_earlier_directory_is_not_used_and_one_without_a_number_neither() -> None:
    assert kept(BEFORE, AFTER) == AFTER
    assert kept(AFTER, BEFORE) == AFTER
    assert kept(AFTER, Directory(entries(a=100, b=100))) == AFTER
    assert kept(Directory(entries(a=100, b=100)), BEFORE) == BEFORE
    # Its masters are not told to anybody by one without masters, and an earlier one is still refused after it.
    assert kept(AFTER, NOWHERE).masters == ()
    assert kept(AFTER, NOWHERE, BEFORE).masters == ()
    assert kept(AFTER, NOWHERE, AFTER) == AFTER


def test_the_same_list_that_another_master_signed_before_is_used_with_the_number_that_is_known() -> None:
    assert replace(AFTER, number=AFTER.number - 1).after(AFTER, NOW) == AFTER


def test_a_number_far_ahead_is_forgotten_after_an_hour() -> None:
    poison = Directory(entries(thief=100), 10**15 - 1)
    assert kept(poison).number == int(NOW * 1000) + AHEAD_MS
    assert kept(poison, AFTER).masters == poison.masters
    later = NOW + AHEAD_MS / 1000 + 1
    repaired = Directory(entries(a=100), int(later * 1000))
    assert repaired.after(kept(poison), later) == repaired


def test_a_number_that_was_remembered_while_the_clock_was_ahead_locks_nobody_out() -> None:
    ahead = kept(Directory(entries(a=100), int((NOW + 10**8) * 1000)), now=NOW + 10**8)
    assert AFTER.after(ahead, NOW) == AFTER
