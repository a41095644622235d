"""The documents of modules on disk, so that asking for all of them parses only the files that changed since.

As the index on disk (`saltlite.loader.indexfile`) it is a help and nothing more. They are not kept in the index
itself: it is in the memory of every minion, and documents are asked for by people. There is a file for each module,
because most ask about one.
"""

from __future__ import annotations

import ast
import contextlib
import os
from collections.abc import Mapping
from typing import Any

from saltlite.loader import describe, joined, scan
from saltlite.loader.describe import Description, Documents, read_documents
from saltlite.loader.finder import ModuleFile
from saltlite.loader.indexfile import is_own_folder, read_remembered, stamp_of, write_remembered


def remembered_documents(file: ModuleFile, cachedir: str, kind: str) -> Documents:
    """The documents of a module file, which `cachedir` may remember; it remembers them for the next one.

    Raises as `read_documents`.
    """
    if not is_own_folder(cachedir):
        return read_documents(file)
    path = os.path.join(cachedir, "index", f"{kind}.docs", file.stem)
    stamp = [*stamp_of(describe, joined, scan), file.path, file.mtime_ns, file.size]
    found = read_remembered(path, stamp, _documents)
    if found is None:
        found = read_documents(file)
        with contextlib.suppress(OSError, ValueError):  # a docstring may hold what is no text: half of a surrogate pair
            write_remembered(path, stamp, found.doc, {name: _row(one) for name, one in found.functions.items()})
    return found


def _row(found: Description) -> list[Any]:
    # As a text where msgpack would give back something else than was put in, such as a tuple for a list.
    plain = found.defaults is None or all(isinstance(one, str | int | float | None) for one in found.defaults)
    defaults = found.defaults if plain and not _is_large(found.defaults) else repr(found.defaults)
    return [found.doc, found.args, defaults, found.varargs, found.kwargs]


def _is_large(defaults: tuple[Any, ...] | None) -> bool:
    """Whether a number among them is none that msgpack has."""
    return any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in defaults or ())


def _documents(doc: str | None, rows: Mapping[str, tuple[Any, ...]]) -> Documents:
    return Documents(doc, {name: _description(*row) for name, row in rows.items()})


def _description(doc: str | None, args: tuple[str, ...], defaults: Any, *further: Any) -> Description:
    varargs, kwargs = further
    known = ast.literal_eval(defaults) if isinstance(defaults, str) else defaults
    return Description(doc, args, known, varargs, kwargs)
