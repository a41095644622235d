"""The index of the registry's file: open addressing with linear probing over pairs of words.

A slot is (fingerprint, offset of the key's newest record); a deleted key keeps its slot until the next compaction.
The home of a key is made of the top bits of its fingerprint, so a table in order of its slots is nearly in order of
its fingerprints, and is packed again without hashing any key.

Readers take no lock. A new slot gets its offset first and its fingerprint last, each one as one aligned word: that
store is what makes it visible. A change of a key's row is a change of its offset, one word as well.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

from saltlite.resources.registry.layout import SPARE_SLOTS

EMPTY = 0

KeyAt = Callable[[int], bytes]
"""The key of the record at an offset; it raises DamagedError."""


class NoRoomError(Exception):
    """The slots behind the last home are used up: the table has to grow. Never leaves the registry."""


def shift_for(capacity: int) -> int:
    """How far a fingerprint is shifted to give its home in a table of that many homes."""
    return 64 - (capacity.bit_length() - 1)


def probe(words: Sequence[int], fingerprint: int, shift: int, has_key: Callable[[int], bool]) -> int:
    """The number of the word where that key's slot begins, or where it is to begin: that word is EMPTY then.

    `words` begins with the first slot. `has_key` tells whether the record at an offset is of the key in question.
    Raises NoRoomError when there is neither.
    """
    at, end = 2 * (fingerprint >> shift), len(words)
    while at < end:
        found = words[at]
        if found == EMPTY or (found == fingerprint and has_key(words[at + 1])):
            return at
        at += 2
    raise NoRoomError


def pack_sorted(entries: Iterable[tuple[int, int]], capacity: int) -> array[int]:
    """A table of (fingerprint, offset) that come in ascending order: each stands at its home or right behind the last.

    Raises NoRoomError when they run over the end.
    """
    words = array("Q", bytes(16 * (capacity + SPARE_SLOTS)))
    shift, place = 64 - capacity.bit_length(), -2
    for fingerprint, offset in entries:
        # One bit less of a shift, and the lowest bit away: the number of the word, not of the slot.
        home = fingerprint >> shift & -2
        place = home if home > place else place + 2
        try:
            words[place] = fingerprint
        except IndexError:
            raise NoRoomError from None
        words[place + 1] = offset
    return words
