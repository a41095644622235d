"""Where plug-in files are looked for, and which files of a folder are one.

The places of a type, in the order in which they are asked; the first that has a file name wins it:

    module_dirs           the last one given first; each offers `<type>/` or, if there is none, `_<type>/`
    extension_modules     `<type>/` in it
    <type>_dirs           such as `utils_dirs`: folders of that type alone; the last one given first
    entry points          of installed packages, group `saltlite.loader` (`saltlite.loader.entrypoints`)
    shipped               what comes with saltlite
    Salt's                of installed packages, group `salt.loader`, and Salt's own (`saltlite.loader.salt_files`)

No folder of them is ever put on `sys.path`: a module named like a library would then import itself.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

import saltlite
from saltlite.loader.entrypoints import OURS, SALTS, any_entries, entry_folders
from saltlite.loader.extension import cython_is_installed
from saltlite.loader.salt_names import salt_is_installed

log = logging.getLogger(__name__)

SHIPPED = "shipped"
"""Name of the layer that comes with saltlite."""

SALT = "salt"
"""Name of the layer that is Salt itself, and of what stands for all layers of Salt."""

MODULES = "modules"
"""The type of execution modules."""

GRAINS = "grains"
"""The type of files whose functions return grains."""

OUTPUT = "output"
"""The type of outputters."""

SALT_KINDS = frozenset({MODULES, GRAINS, OUTPUT, "utils"})
"""Types of which Salt's own files are loaded."""

_OURS_ALONE = frozenset({"interfaces"})
"""Types that nothing written for Salt has."""


class Form(StrEnum):
    """What a module is made of; of several with one name in one folder the first wins.

    A compiled `.pyc` is none: it would stay behind, and be called, when its source is removed.
    """

    PACKAGE = "package"
    EXTENSION = "extension"
    SOURCE = "source"
    CYTHON = "cython"
    ZIP = "zip"


_RANK = {form: number for number, form in enumerate(Form)}

PLAIN_FORMS = frozenset({Form.PACKAGE, Form.EXTENSION, Form.SOURCE})
"""What is a module without an option."""

_ENDINGS = (
    *((suffix, Form.EXTENSION) for suffix in EXTENSION_SUFFIXES),
    (".py", Form.SOURCE),
    (".pyx", Form.CYTHON),
    (".zip", Form.ZIP),
)

_IRREGULAR = {"grains": "grains_dirs", "utils": "utils_dirs", "output": "outputter_dirs"}

_SHIPPED_IN = {
    "auth": os.path.join("auth", "backends"),
    "clouds": os.path.join("cloud", "drivers"),
    "interfaces": "interfaces",
    "resources": os.path.join("resources", "types"),
}
"""Where plug-ins that come with saltlite are, below its package, if not in `plugins/<type>`."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One folder of the search path; `name` becomes part of the names of its modules, `kind` is their type."""

    name: str
    path: str
    kind: str = MODULES
    forms: frozenset[Form] = PLAIN_FORMS
    installed: bool = False
    """Whether it belongs to an installed package: such a folder does not change while a daemon runs."""
    salt: bool = False
    """It is no folder but stands for all that was written for Salt's loader, which the index finds when it is asked for
    it. `path` is the folder in which that is remembered, "" for none."""


@dataclass(frozen=True, slots=True)
class Found:
    """One file of a layer. `path` of a package is its `__init__.py`; time and size are those of all its files."""

    stem: str
    path: str
    form: Form
    mtime_ns: int
    size: int


def search_layers(opts: Mapping[str, Any], kind: str = MODULES) -> tuple[Layer, ...]:
    """The search path for plug-ins of a type, the layer that is asked first at the front."""
    forms = _forms(opts)
    places = [(f"dir{number}", _folder_of(base, kind)) for number, base in enumerate(_last_first(opts, "module_dirs"))]
    extensions = opts.get("extension_modules")
    if extensions:
        places.append(("extmods", os.path.join(extensions, kind)))
    if kind != MODULES:
        folders = _last_first(opts, dirs_option(kind))
        places += [(f"own{number}", folder) for number, folder in enumerate(folders)]
    installed = entry_places(OURS, kind)
    installed.append((SHIPPED, shipped_folder(kind)))
    salts = []
    if opts.get("salt_compat", "auto") != "off":
        if kind not in SALT_KINDS and kind not in _OURS_ALONE:
            installed += entry_places(SALTS, kind)
        elif kind in SALT_KINDS and (any_entries(SALTS) or salt_is_installed()):
            cachedir = opts.get("cachedir") or ""
            remembered = os.path.join(cachedir, "index") if cachedir else ""
            salts = [Layer(SALT, remembered, kind, PLAIN_FORMS, installed=True, salt=True)]
    written = [Layer(name, path, kind, forms) for name, path in places]
    return (*written, *(Layer(name, path, kind, forms, installed=True) for name, path in installed), *salts)


def shipped_folder(kind: str) -> str:
    """The folder of the plug-ins of a type that come with saltlite."""
    first = kind.partition("/")[0]  # the slots of a resource type are `resources/<type>/modules`
    folder = _SHIPPED_IN.get(first, os.path.join("plugins", first))
    return os.path.join(os.path.dirname(saltlite.__file__), folder + kind.removeprefix(first))


def entry_places(group: str, kind: str) -> list[tuple[str, str]]:
    """(name of the layer, folder) of every entry point of the group that has a folder of the type."""
    return [(re.sub(r"\W", "_", name), folder) for name, folder in entry_folders(group, kind, dirs_option(kind))]


def dirs_option(kind: str) -> str:
    """The name of the option `<type>_dirs`: `runner_dirs` for runners."""
    return _IRREGULAR.get(kind, f"{kind.removesuffix('s')}_dirs")


def module_files(layer: Layer) -> list[Found]:
    """The plug-in files of a layer, one for a name; a folder that does not exist is empty."""
    best: dict[str, Found] = {}
    if layer.salt:
        return []
    try:
        with os.scandir(layer.path) as entries:
            for found in _found(entries, layer.forms):
                other = best.get(found.stem)
                if other is None or _RANK[found.form] < _RANK[other.form]:
                    best[found.stem] = found
    except (FileNotFoundError, NotADirectoryError):
        pass
    return list(best.values())


def _found(entries: Iterator[os.DirEntry[str]], forms: frozenset[Form]) -> Iterator[Found]:
    for entry in entries:
        stem, form = _form_of(entry.name)
        if form not in forms or not stem or stem.startswith("_") or "." in stem:
            continue
        try:
            if form is Form.PACKAGE:
                yield _package(stem, entry.path)
            elif entry.is_file():
                status = entry.stat()
                yield Found(stem, entry.path, form, status.st_mtime_ns, status.st_size)
        except (FileNotFoundError, NotADirectoryError):
            continue  # no package, removed since the listing, or a dangling link


def _package(stem: str, folder: str) -> Found:
    """A package: the time of its latest file and the size of all, for what it offers may stand in any of them."""
    path = os.path.join(folder, "__init__.py")
    os.stat(path)
    with os.scandir(folder) as entries:
        found = [entry.stat() for entry in entries if entry.name.endswith(".py")]
    return Found(stem, path, Form.PACKAGE, max(one.st_mtime_ns for one in found), sum(one.st_size for one in found))


def _form_of(name: str) -> tuple[str, Form]:
    for ending, form in _ENDINGS:
        if name.endswith(ending):
            return name[: -len(ending)], form
    return name, Form.PACKAGE


def _forms(opts: Mapping[str, Any]) -> frozenset[Form]:
    forms = set(PLAIN_FORMS)
    if opts.get("enable_zip_modules"):
        forms.add(Form.ZIP)
    if opts.get("cython_enable"):
        if cython_is_installed():
            forms.add(Form.CYTHON)
        else:
            _say_that_cython_is_missing()
    return frozenset(forms)


@functools.cache
def _say_that_cython_is_missing() -> None:
    log.info("Option cython_enable: Cython is not installed here, so .pyx files are no modules.")


def _folder_of(base: str, kind: str) -> str:
    plain = os.path.join(base, kind)
    return plain if os.path.isdir(plain) else os.path.join(base, f"_{kind}")


def _last_first(opts: Mapping[str, Any], option: str) -> list[str]:
    return [str(folder) for folder in reversed(opts.get(option) or ())]
