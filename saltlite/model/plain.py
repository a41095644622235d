"""Plain values: the one law of what is stored, travels and is shown. Whatever a door takes, every reader can read.

    value     nil, booleans, integers of 64 bits (-2^63 to 2^64-1), floats (NaN and the infinities too), text, bytes,
              lists, maps
    text      Unicode: no half of a surrogate pair
    keys      text, and integers of 64 bits; in one map no key twice
    depth     DEPTH_MAX lists and maps inside each other
    length    KEY_MAX for a key; for everything else the limit of the door

Two kinds of doors. Requests of clients, messages of minions and bodies of the API are refused when they hold anything
else: their sender gets the error, and no other party notices. What modules and files of the operator make (returns,
grains, pillar, events that modules send) is made plain where it leaves Python (`saltlite.loader.encode`,
`saltlite.wire.codec`): times become ISO 8601 text, sets and tuples lists, larger integers their digits, halves of
surrogate pairs U+FFFD, objects their text. A key that is bytes is decoded; None, booleans, floats and other keys become
their text. When that is the text of another key, ` (2)`, ` (3)` … follows it.

Readers take what the law allows and what older versions stored. Where a format has no integer keys (JSON), they become
text, as in Salt; msgpack, YAML and `raw` keep them. JSON has no bytes and no NaN: each JSON output says in its own
description what stands for them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from typing import Any


DEPTH_MAX = 64
"""Lists and maps inside each other. Outputs call themselves once or twice a level, so this also bounds their stack."""

KEY_MAX = 64 * 1024
"""Characters of one key of a map. A longer one is refused, or cut where values are made plain."""

INT_MIN, INT_MAX = -(2**63), 2**64 - 1
"""What msgpack can carry."""


def is_plain_key(key: object) -> bool:
    """Whether a map may have that key."""
    if type(key) is str:
        return len(key) <= KEY_MAX
    return type(key) is int and INT_MIN <= key <= INT_MAX


def key_of(key: Any) -> str | int:
    """A key of any kind as one that a map may have, but for its length and its surrogates."""
    if type(key) is str or (type(key) is int and INT_MIN <= key <= INT_MAX):
        return key
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    if isinstance(key, int) and not isinstance(key, bool):
        return int(key) if INT_MIN <= key <= INT_MAX else digits(key)
    return str(key)


def free_key(name: str, taken: Container[Any]) -> str:
    """The name, or the name with a number behind it where it is taken."""
    free, number = name, 2
    while free in taken:
        free = f"{name} ({number})"
        number += 1
    return free


def digits(value: int) -> str:
    """An integer of any size as text."""
    try:
        return str(value)
    except ValueError:  # Python refuses to print more than 4300 decimal digits
        return hex(value)


def with_text_keys(value: Mapping[Any, Any], inside: Callable[[Any], Any]) -> dict[str, Any]:
    """The map for a format whose keys are text; `inside` makes its values. No entry is lost to another."""
    for key in value:
        if type(key) is not str:
            break
    else:
        return {key: inside(item) for key, item in value.items()}
    # Keys that are text keep it, whatever else becomes the same text.
    found: dict[str, Any] = {key: None for key in value if type(key) is str}
    for key, item in value.items():
        found[key if type(key) is str else free_key(_spelled(key), found)] = inside(item)
    return found


_AS_JSON = {None: "null", True: "true", False: "false"}


def _spelled(key: Any) -> str:
    return _AS_JSON[key] if key is None or isinstance(key, bool) else str(key_of(key))


# -- Text in a terminal


# Whatever could move the cursor, set a title or recolour a terminal, shown as `?`, as Salt does with ESC.
_CONTROLS = (*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0))
# What turns the direction of writing: with it a text can look like another one.
BIDI_CONTROLS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNPRINTABLE = dict.fromkeys([*_CONTROLS, *BIDI_CONTROLS], "?")


def printable(text: str) -> str:
    """One line of foreign text without control characters (a tab stays), those of the writing direction included."""
    return text.translate(_UNPRINTABLE)


def labels(minions: Iterable[str], srns: Iterable[str]) -> dict[str, str]:
    """For each target what it is called: a minion by its id, a resource by its bare id where nothing else of this job
    has that name, and by its SRN otherwise."""
    names = {minion: minion for minion in minions}
    bare = {srn: srn.partition(":")[2] for srn in srns}
    taken: dict[str, int] = dict.fromkeys(names, 1)
    for name in bare.values():
        taken[name] = taken.get(name, 0) + 1
    # A bare id may have a colon, and look like the SRN of another resource.
    return {**names, **{srn: name if taken[name] == 1 and name not in bare else srn for srn, name in bare.items()}}
