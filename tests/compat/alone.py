"""How many of Salt's execution modules import without Salt, and what the others ask for.

    python -m tests.compat.alone FOLDER      FOLDER is `salt/modules` of Salt's source, which must not be installed

prints the number of files and of those that import, then a line for each name of Salt that is missing, the one that
most files need first. Names that a file only uses inside of functions are listed apart.
"""

from __future__ import annotations

import ast
import importlib
import logging
import os
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from saltlite.loader.failure import Failure
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.registry import LoadedModule, ModuleRegistry
from saltlite.loader.salt_names import serve_salt_names
from saltlite.loader.search_path import Layer, salt_is_installed


def failures(folder: Path) -> dict[str, str]:
    """File name (without `.py`) -> the error of its body, "" for none; `__virtual__` may refuse."""
    index = build_index([Layer("salts", str(folder))])
    loader = Loader(index, {"id": "m1"}, {"os": "Debian", "os_family": "Debian", "kernel": "Linux"}, {})
    registry = ModuleRegistry(index, loader._names, lambda _stem: None)
    return {file.stem: _failure(registry.load(file)) for file in index.files}


def _failure(loaded: LoadedModule | Failure) -> str:
    if isinstance(loaded, LoadedModule) or loaded.kind.name != "NOT_IMPORTED":
        return ""
    return loaded.reason


def missing_names(folder: Path) -> dict[str, set[str]]:
    """Name of Salt that is not served -> files that use it anywhere."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    served: dict[str, bool] = {}
    for path in sorted(folder.glob("*.py")):
        for name in set(_names_of(ast.parse(path.read_text(encoding="utf-8")))):
            if not served.setdefault(name, _is_served(name)):
                found[name].add(path.stem)
    return found


def _names_of(tree: ast.Module) -> Iterator[str]:
    """`salt.utils.files.fopen` for each use of a name of Salt."""
    aliases: dict[str, str] = {}
    for item in ast.walk(tree):
        match item:
            case ast.Import(names=names):
                aliases |= {
                    one.asname or "salt": one.name if one.asname else "salt" for one in names if _is_salt(one.name)
                }
                yield from (one.name for one in names if _is_salt(one.name))
            case ast.ImportFrom(module=str(module), names=names, level=0) if _is_salt(module):
                aliases |= {one.asname or one.name: f"{module}.{one.name}" for one in names}
                yield from (f"{module}.{one.name}" for one in names if one.name != "*")
    yield from _attributes(tree, aliases)


def _attributes(tree: ast.Module, aliases: Mapping[str, str]) -> Iterator[str]:
    inner = {id(item.value) for item in ast.walk(tree) if isinstance(item, ast.Attribute)}
    for item in ast.walk(tree):
        if isinstance(item, ast.Attribute) and id(item) not in inner:
            first, _, rest = ast.unparse(item).partition(".")
            if first in aliases and rest.replace(".", "").replace("_", "").isalnum():
                yield f"{aliases[first]}.{rest}"


def _is_salt(name: str) -> bool:
    return name == "salt" or name.startswith("salt.")


def _is_served(name: str) -> bool:
    """Whether each part of the name is a module or an attribute of the one before; methods of objects count."""
    parts = name.split(".")
    found: object = importlib.import_module("salt")
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:number]))
            except ImportError:
                return False
        found = getattr(found, part)
        if not isinstance(found, type(os)):
            return True
    return True


def main() -> None:
    """See the docstring of the file."""
    logging.disable(logging.CRITICAL)
    folder = Path(sys.argv[1])
    if salt_is_installed():
        sys.exit("Salt is installed here, so this would count its own modules.")
    serve_salt_names()
    found = failures(folder)
    broken = {stem: text for stem, text in found.items() if text}
    print(f"{len(found) - len(broken)} of {len(found)} import without Salt")
    for stem, text in sorted(broken.items(), key=lambda item: item[1]):
        print(f"    {stem}: {text}")
    missing = missing_names(folder)
    print(f"{len(missing)} names are missing")
    for name, files in sorted(missing.items(), key=lambda item: (-len(item[1]), item[0])):
        print(f"    {len(files):3} {name}  {', '.join(sorted(files))}")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        traceback.clear_frames(sys.exc_info()[2])
