"""SRNs: the composite names of resources, `type:id`, and what a type and an id may be.

The first colon splits, so an id may have further ones. A bare id alone names no resource: several types may use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from saltlite.errors import UsageError

RESOURCE_TYPE_MAX = 64
"""Characters of a type's name."""

RESOURCE_ID_MAX = 255
"""Bytes of a bare id in UTF-8."""

_TYPE = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{RESOURCE_TYPE_MAX - 1}}}", re.ASCII)
# No space and no comma (lists), no wildcards (globs), no slashes (file names), no half of a surrogate pair (no UTF-8).
_ID = re.compile(rf"[^\s\x00-\x1f\x7f-\x9f/\\,*?\[\]\ud800-\udfff]{{1,{RESOURCE_ID_MAX}}}")
_IDS = re.compile(rf"{_ID.pattern}(?:\n{_ID.pattern})*+")
_WORDS_OF_TARGETS = frozenset({".", "..", "and", "or", "not", "(", ")"})


class Srn(NamedTuple):
    """What a `T@` pattern or an SRN says; a part that it does not say is None."""

    type: str | None
    id: str | None


def parse_srn(pattern: object) -> Srn:
    """Take `type:id` apart: `x` and `x:` are a type, `:y` an id without a type, anything that is no text is nothing."""
    if not isinstance(pattern, str):
        return Srn(None, None)
    kind, _, bare_id = pattern.partition(":")
    return Srn(kind or None, bare_id or None)


def resource_index_srn_key(resource_type: str, resource_id: str) -> str:
    """The SRN of a resource, which is its key in the registry and in the bank `resource_grains`."""
    return f"{resource_type}:{resource_id}"


def check_resource_type(text: object) -> str:
    """`text`, when it can name a resource type. Raises UsageError."""
    if isinstance(text, str) and _TYPE.fullmatch(text):
        return text
    raise UsageError(
        f"{_shown(text)} is not a resource type: use 1 to {RESOURCE_TYPE_MAX} of A-Z a-z 0-9 _ and start with a letter"
    )


def check_resource_id(text: object) -> str:
    """`text`, when it can be the bare id of a resource. Raises UsageError."""
    looks_right = isinstance(text, str) and _ID.fullmatch(text) and text not in _WORDS_OF_TARGETS
    # What nobody can see or that turns text around (Cf, Co, Cn, Z) would make one id look like another.
    if isinstance(text, str) and looks_right and text.isprintable() and len(text.encode()) <= RESOURCE_ID_MAX:
        return text
    raise UsageError(
        f"{_shown(text)} is not a resource id: use 1 to {RESOURCE_ID_MAX} bytes without spaces, control and invisible "
        "characters and / \\ , * ? [ ], and none of the words . .. and or not ( )"
    )


def check_resource_ids(texts: Iterable[object]) -> list[str]:
    """`check_resource_id` of many, at once. Raises UsageError that names the first that cannot be one."""
    ids = list(texts)
    try:
        lines = "\n".join(ids)  # type: ignore[arg-type]  # what is no text raises TypeError
    except TypeError:
        lines = ""
    # One match for all: no id has a line break, so as many lines as texts that all look like ids are those texts.
    alone = lines.count("\n") == len(ids) - 1 and lines.isascii()
    if alone and _IDS.fullmatch(lines) and _WORDS_OF_TARGETS.isdisjoint(ids):
        return ids  # type: ignore[return-value]  # they were joined
    return [check_resource_id(text) for text in ids]


def _shown(value: object) -> str:
    return repr(value[:80] if isinstance(value, str) else value)[:100]
