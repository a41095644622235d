"""Foreign text as it may be shown on a terminal."""

from __future__ import annotations

# Whatever could move the cursor, set a title or recolour a terminal, shown as `?`, as Salt does with ESC.
_CONTROLS = (*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0))
# What turns the direction of writing: with it a text can look like another one.
BIDI_CONTROLS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNPRINTABLE = dict.fromkeys([*_CONTROLS, *BIDI_CONTROLS], "?")


def printable(text: str) -> str:
    """One line of foreign text without control characters (a tab stays), those of the writing direction included."""
    return text.translate(_UNPRINTABLE)
