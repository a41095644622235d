"""What modules say of themselves, read from their files: nothing is imported, no minion is asked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.loader.documents import read_descriptions, read_docstring
from saltlite.loader.formats import ArchiveError
from saltlite.loader.index import build_index
from saltlite.loader.search_path import MODULES, Form, Layer, search_layers
from saltlite.model.signature import parse_signature, show_signature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saltlite.loader.documents import Description
    from saltlite.loader.index import Index, ModuleFile

_GONE = (SyntaxError, OSError, ArchiveError)
"""A file that was there a moment ago, and cannot be read any more."""


class Provided(NamedTuple):
    """A function as one file has it."""

    file: str
    """The file's name without its ending."""
    layer: str
    path: str
    signature: str
    """For people; the name alone where the text of the file does not tell what it takes."""
    risk: str
    doc: str


def index_of(opts: Mapping[str, Any]) -> Index:
    """The execution modules of a configuration: those in `_modules` of its file_roots, and those of the loader."""
    forms = search_layers(opts)[0].forms
    roots = [folder for folders in (opts.get("file_roots") or {}).values() for folder in folders]
    synced = [Layer("file_roots", os.path.join(root, f"_{MODULES}"), MODULES, forms) for root in roots]
    return build_index([*synced, *search_layers(opts)])


def providers_of(index: Index, fun: str) -> list[Provided]:
    """The function in each file that may provide it, first asked first."""
    module, _, function = fun.partition(".")
    found = []
    for file in index.all_claimants(module):
        texts = dict(zip(file.functions, file.texts, strict=True))
        if function not in texts:
            continue
        name, signature, risk = parse_signature(f"{module}.{texts[function]}")
        described = _descriptions(file).get(function)
        doc = described.doc if described is not None and described.doc is not None else ""
        shown = name if signature is None else show_signature(name, signature)
        found.append(Provided(file.stem, file.layer, file.path, shown, risk, doc))
    return found


def function_summaries(index: Index, module: str) -> dict[str, str]:
    """`module.function` -> the first line of its docstring, for every function that some file promises; sorted."""
    found: dict[str, str] = {}
    for file in index.all_claimants(module):
        described = _descriptions(file)
        for function in file.functions:
            doc = described[function].doc if function in described else None
            found.setdefault(f"{module}.{function}", _first_line(doc))
    return dict(sorted(found.items()))


def module_summaries(index: Index) -> dict[str, str]:
    """Module -> the first line of its docstring."""
    return {name: _summary(next(index.all_claimants(name))) for name in index.all_names()}


def _summary(file: ModuleFile) -> str:
    if file.failure is not None:
        return file.failure.sentence(file.stem)
    if file.form in (Form.EXTENSION, Form.CYTHON):
        return ""
    try:
        return _first_line(read_docstring(file))
    except _GONE:
        return ""


def _first_line(doc: str | None) -> str:
    """The first paragraph on one line."""
    return " ".join((doc or "").strip().partition("\n\n")[0].split())


def _descriptions(file: ModuleFile) -> dict[str, Description]:
    try:
        return read_descriptions(file)
    except _GONE:
        return {}
