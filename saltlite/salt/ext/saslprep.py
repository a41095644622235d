"""`salt.ext.saslprep`: names and passwords by RFC 4013."""

from __future__ import annotations

import stringprep
import unicodedata
from typing import Any

HAVE_STRINGPREP = True

_PROHIBITED = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
    stringprep.in_table_c9,
)  # fmt: skip


def saslprep(data: Any, prohibit_unassigned_code_points: bool = True) -> Any:
    """The text as it is compared; anything else as it is. Raises ValueError for characters that are not allowed."""
    if not isinstance(data, str):
        return data
    mapped = "".join(" " if stringprep.in_table_c12(one) else one for one in data if not stringprep.in_table_b1(one))
    text = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if not text:
        return text
    is_right_to_left = stringprep.in_table_d1(text[0])
    if is_right_to_left and not stringprep.in_table_d1(text[-1]):
        raise ValueError("SASLprep: failed bidirectional check")
    direction = stringprep.in_table_d2 if is_right_to_left else stringprep.in_table_d1
    unassigned = (stringprep.in_table_a1,) if prohibit_unassigned_code_points else ()
    tables = (*_PROHIBITED, *unassigned, direction)
    if any(table(one) for one in text for table in tables):
        raise ValueError("SASLprep: failed prohibited character check")
    return text
