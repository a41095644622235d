"""Loaders over files that a test writes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import MODULES, PLAIN_FORMS, Form, Layer, search_layers

SEED = Path(__file__).parent / "data" / "modules"
"""Listings of the documents that the loader implements, as their readers type them."""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Relative path -> text; a path without an ending is a `.py` file."""
    for name, source in files.items():
        path = folder / (name if "." in name else f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    return folder


def loader_over(*folders: Path, opts: Mapping[str, Any] | None = None, **given: Any) -> Loader:
    """A loader over these folders, the one that is asked first at the front, with every form of module enabled."""
    layers = [
        Layer(f"layer{number}", str(folder), given.get("kind", MODULES), PLAIN_FORMS | {Form.ZIP, Form.CYTHON})
        for number, folder in enumerate(folders)
    ]
    return Loader(build_index(layers), opts or {}, given.get("grains", {}), given.get("pillar", {}))


def loader_from(opts: Mapping[str, Any]) -> Loader:
    """A loader as the configuration `opts` makes it, without what comes with saltlite."""
    layers = [layer for layer in search_layers(opts) if layer.name != "shipped"]
    return Loader(build_index(layers), opts, {}, {})
