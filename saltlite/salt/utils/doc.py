"""`salt.utils.doc`: docstrings."""

from __future__ import annotations

import re
from typing import Any

_LABELS = {
    "note": "Note:",
    "warning": "Warning:",
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
}
_DIRECTIVE = re.compile(rf"(?P<code> *\.\. code-block:: \S+\n\n?)|\.\. (?P<label>{'|'.join(_LABELS)})::")
_FIELD = ":depends:"
_ITEM = re.compile(r"- (\w+)")
_REQUIRED = "Required python modules: "


def strip_rst(docs: dict[str, Any]) -> dict[str, Any]:
    """Replace the directives of reStructuredText in function -> docstring; the dict itself is changed and returned."""
    for name, text in docs.items():
        docs[name] = _DIRECTIVE.sub(_label, text) if text else text
    return docs


def _label(directive: re.Match[str]) -> str:
    return "" if directive["code"] else _LABELS[directive["label"]]


def parse_docstring(docstring: str) -> dict[str, Any]:
    """`{"full": …, "deps": …}`: the docstring, and the Python modules that it says it needs."""
    needed = _field_items(docstring.split("\n")[:-1])  # as in Salt, lines of the field end with a newline
    if not needed:
        stripped = (line.strip() for line in docstring.splitlines())
        sentence = next((line for line in stripped if line.startswith(_REQUIRED)), "")
        needed = sentence.removeprefix(_REQUIRED).split(", ") if sentence else []
    return {"full": docstring, "deps": needed}


def _field_items(lines: list[str]) -> list[str]:
    """The first words of the items of the field `:depends:`, which may go on in the lines below it."""
    for number, line in enumerate(lines):
        before, field, first = line.partition(_FIELD)
        if not field or not first[:1].isspace() or not (item := _ITEM.match(first.strip())):
            continue
        indent = before[len(before.rstrip()) :]
        found = [item[1]]
        for below in lines[number + 1 :]:
            rest = below.removeprefix(indent)
            if not below.startswith(indent) or not rest[:1].isspace() or not (item := _ITEM.match(rest.strip())):
                break
            found.append(item[1])
        return found
    return []
