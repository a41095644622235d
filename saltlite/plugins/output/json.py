"""JSON with its keys sorted; of a job one object `{id: return}`, where those that did not return are absent."""

from __future__ import annotations

import base64
import json
import math

from saltlite.model.display import BIDI_CONTROLS
from saltlite.model.plain import with_text_keys

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

INDENT = 4
"""Spaces a level, where nobody says."""

# JSON leaves these as they are, and terminals obey them; outside of strings a document has none of them.
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *BIDI_CONTROLS)}


def output(data: Any, indent: int | None = None, **_kwargs: Any) -> str:
    """The data as a document; bytes are `{"$bytes": base64}`. With an indent below 0 all of it is one line."""
    if indent is not None and indent < 0:
        return line(data)
    return value_text(data, 0, INDENT if indent is None else indent) + "\n"


def document(value: Any) -> str:
    """Any value as an indented JSON document with a newline at its end.

    Keys that are not text become text. NaN and the infinities, which JSON does not have, become null.
    """
    return value_text(value) + "\n"


def line(value: Any) -> str:
    """Any value as JSON on one line with a newline at its end, otherwise as `document`."""
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, allow_nan=False).translate(_CONTROLS) + "\n"


def value_text(value: Any, depth: int = 0, indent: int = INDENT) -> str:
    """A value as it stands in an indented document, so many levels deep."""
    text = json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, indent=indent, allow_nan=False)
    return _deeper(text.translate(_CONTROLS), depth * indent)


def object_text(members: Mapping[str, str], depth: int = 0, indent: int = INDENT) -> str:
    """An object from the texts of its values, so many levels deep, that are one level deeper.

    Large documents are put together so: of each value there is its text in memory, and nothing else.
    """
    if not members:
        return "{}"
    margin, inner = " " * (indent * depth), " " * (indent * (depth + 1))
    lines = [f"{inner}{value_text(key)}: {members[key]}" for key in sorted(members)]
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def _deeper(text: str, spaces: int) -> str:
    # A newline inside of a JSON string is written as an escape: those in the text are all between lines.
    return text.replace("\n", "\n" + " " * spaces) if spaces else text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return with_text_keys(value, _plain)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
