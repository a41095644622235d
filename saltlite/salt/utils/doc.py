"""`salt.utils.doc`: docstrings."""

from __future__ import annotations

import re
from typing import Any

_PLAIN = (
    (r" *.. code-block:: \S+\n{1,2}", ""),
    (".. note::", "Note:"),
    (".. warning::", "Warning:"),
    (".. versionadded::", "New in version"),
    (".. versionchanged::", "Changed in version"),
)
_DEPENDS = re.compile(r"([ \t]*):depends:[ \t]+- (\w+)[^\n]*\n(\1[ \t]+- (\w+)[^\n]*\n)*", re.MULTILINE)
_REQUIRED = "Required python modules: "


def strip_rst(docs: dict[str, Any]) -> dict[str, Any]:
    """Function -> docstring, without the directives of reStructuredText; the dict itself is changed."""
    for name, text in docs.items():
        plain = text
        for directive, word in _PLAIN if text else ():
            plain = re.sub(directive, word, plain)
        docs[name] = plain
    return docs


def parse_docstring(docstring: str) -> dict[str, Any]:
    """`{"full": …, "deps": …}`: the docstring, and the modules of Python that it says it needs."""
    found = _DEPENDS.search(docstring)
    if found:
        return {"full": docstring, "deps": re.findall(r"- (\w+)", found[0])}
    lines = (line.strip() for line in docstring.splitlines())
    line = next((line for line in lines if line.startswith(_REQUIRED)), "")
    return {"full": docstring, "deps": line.removeprefix(_REQUIRED).split(", ") if line else []}
