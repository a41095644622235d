"""JSON with sorted keys. A job is one object `{id: return}` without those that did not return."""

from __future__ import annotations

import base64
import json
import math

from saltlite.model.plain import BIDI_CONTROLS, with_text_keys

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

INDENT = 4
"""Default spaces per level."""

# JSON permits these characters in strings, but terminals obey them.
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *BIDI_CONTROLS)}


def output(data: Any, indent: int | None = None, **_kwargs: Any) -> str:
    """Return the data as a document; bytes are `{"$bytes": base64}`. A negative indent gives one line."""
    if indent is not None and indent < 0:
        return line(data)
    return value_text(data, 0, INDENT if indent is None else indent) + "\n"


def document(value: Any) -> str:
    """Return any value as an indented JSON document that ends with a newline.

    Keys become text. NaN and the infinities become null, because JSON lacks them.
    """
    return value_text(value) + "\n"


def line(value: Any) -> str:
    """Return any value as JSON on one line that ends with a newline; else like `document`."""
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, allow_nan=False).translate(_CONTROLS) + "\n"


def value_text(value: Any, depth: int = 0, indent: int = INDENT) -> str:
    """Return a value as text that fits into an indented document at this depth."""
    text = json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, indent=indent, allow_nan=False)
    return _deeper(text.translate(_CONTROLS), depth * indent)


def object_text(members: Mapping[str, str], depth: int = 0, indent: int = INDENT) -> str:
    """Return an object at this depth from the texts of its values, which are one level deeper.

    Large documents are built from texts, so that the values themselves need not stay in memory.
    """
    if not members:
        return "{}"
    margin, inner = " " * (indent * depth), " " * (indent * (depth + 1))
    lines = [f"{inner}{value_text(key)}: {members[key]}" for key in sorted(members)]
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def _deeper(text: str, spaces: int) -> str:
    # Newlines in JSON strings are escaped, so those in the text are all between lines.
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
