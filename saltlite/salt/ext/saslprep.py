"""`salt.ext.saslprep`: SASLprep, the preparation of names and passwords for comparison.

RFC 4013 defines it as a profile of stringprep; the tables are those of RFC 3454, in `stringprep` of Python.
"""

from __future__ import annotations

import stringprep as rfc3454
import unicodedata
from typing import Any

HAVE_STRINGPREP = True


def saslprep(data: Any, prohibit_unassigned_code_points: bool = True) -> Any:
    """Return the prepared form of a text, and anything else unchanged. Raises ValueError for a prohibited text."""
    if not isinstance(data, str):
        return data
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", "".join(map(_mapped, data)))
    for character in prepared:
        if _is_prohibited(character):
            raise ValueError(f"RFC 4013, section 2.3, prohibits the character U+{ord(character):04X}.")
        if prohibit_unassigned_code_points and rfc3454.in_table_a1(character):
            raise ValueError(f"RFC 4013, section 2.5: U+{ord(character):04X} is unassigned in Unicode 3.2.")
    _check_direction(prepared)
    return prepared


def _mapped(character: str) -> str:
    """Section 2.1: other spaces become a space, and what is commonly mapped to nothing disappears."""
    if rfc3454.in_table_b1(character):
        return ""
    return " " if rfc3454.in_table_c12(character) else character


def _is_prohibited(character: str) -> bool:
    """Section 2.3. The ASCII space (C.1.1) is allowed."""
    return (
        rfc3454.in_table_c12(character)  # other spaces
        or rfc3454.in_table_c21_c22(character)  # control characters
        or rfc3454.in_table_c3(character)  # private use
        or rfc3454.in_table_c4(character)  # no characters
        or rfc3454.in_table_c5(character)  # surrogates
        or rfc3454.in_table_c6(character)  # inappropriate for plain text
        or rfc3454.in_table_c7(character)  # inappropriate for canonical representation
        or rfc3454.in_table_c8(character)  # changes of the display, deprecated characters
        or rfc3454.in_table_c9(character)  # tags
    )


def _check_direction(text: str) -> None:
    """RFC 3454, section 6: a text with right-to-left characters begins and ends with one, and has no left-to-right."""
    right_to_left = [rfc3454.in_table_d1(character) for character in text]
    if not any(right_to_left):
        return
    if any(map(rfc3454.in_table_d2, text)):
        raise ValueError("RFC 3454, section 6: right-to-left and left-to-right characters are mixed.")
    if not (right_to_left[0] and right_to_left[-1]):
        raise ValueError("RFC 3454, section 6: a right-to-left text must begin and end with a right-to-left character.")
