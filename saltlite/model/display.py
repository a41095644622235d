"""Foreign text for a terminal, and the labels of a job's targets in the output of a client."""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Iterable


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
