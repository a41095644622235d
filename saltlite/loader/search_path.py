"""The search path: the folders of plug-in files, and the files in them.

For a plug-in type the folders are, in order of precedence:

    module_dirs           the last one first; `<type>/` in each or, if there is none, `_<type>/`
    extension_modules     `<type>/` in it
    <type>_dirs           such as `utils_dirs`, folders for this type only; the last one first
    entry points          of installed packages, group `saltlite.loader`
    shipped               the plug-ins of saltlite
    Salt's                of installed packages, group `salt.loader`, and of Salt (`saltlite.loader.salt_compat`)

The first folder with a file name provides it. No folder is put on `sys.path`: a module named like a library would then
import itself.

An entry point names a package with a folder for each type, or a function:

    [saltlite.loader]
    mine = mypackage                 a package
    mine = mypackage.places:folders  a function that returns {type: [folder, …]}
    module_dirs = mypackage:old      the older form, named after the option: a function that returns [folder, …]

A package is found without being imported. A function is imported and called when the index is built, in the older form
only for plug-ins of its option; one that fails is logged once and skipped. Entry points are read from the metadata
folders on `sys.path`, because `importlib.metadata` would make every process import libraries for mail, zip and csv.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Any

import saltlite
from saltlite.loader.failure import DeadlineError, load_deadline
from saltlite.loader.formats import cython_is_installed
from saltlite.model.dataclass import dataclass

log = logging.getLogger(__name__)

OURS = "saltlite.loader"
SALTS = "salt.loader"
GROUPS = (OURS, SALTS)

_METADATA = (".dist-info", ".egg-info")
_OPTION = "_dirs"
"""Ends the names of the older form."""
CONTRIBUTIONS_KEPT = 256
"""Entry points whose folders are cached."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The folders of one entry point: `packages` have a folder for each type, the others list folders."""

    name: str
    packages: Sequence[str] = ()
    by_type: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_option: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def folders(self, kind: str, option: str) -> list[str]:
        """Its folders for plug-ins of the type, whose option `<type>_dirs` is `option`."""
        inside = [os.path.join(package, kind) for package in self.packages]
        given = [*self.by_type.get(kind, ()), *self.by_option.get(option, ())]
        return [folder for folder in inside if os.path.isdir(folder)] + [str(folder) for folder in given]


def entry_folders(group: str, kind: str, option: str) -> list[tuple[str, str]]:
    """(name, folder) of every entry point of the group with a folder of the type, sorted by name."""
    stamps = installed()
    found: dict[str, Contribution] = {}
    for its_group, name, value in _lines_of(stamps):
        # A function may import much, which would stay in a daemon: one for another option is not called.
        if its_group != group or name in found or (name.endswith(_OPTION) and name != option):
            continue
        contribution = _contribution(name, value, stamps)
        if contribution is not None:
            found[name] = contribution
    return [(one.name, folder) for one in found.values() for folder in one.folders(kind, option)]


def any_entries(group: str) -> bool:
    """Whether an installed package has an entry point of the group; runs no code of it."""
    return any(found == group for found, _, _ in _lines_of(installed()))


def installed() -> tuple[tuple[str, int], ...]:
    """The folders of `sys.path` with their times, which change when a package is installed or removed."""
    stamps = []
    for folder in sys.path:
        try:
            stamps.append((folder, os.stat(folder or ".").st_mtime_ns))
        except OSError:
            continue  # a path entry may well be no folder, or not exist
    return tuple(stamps)


@functools.lru_cache(maxsize=1)
def _lines_of(stamps: tuple[tuple[str, int], ...]) -> list[tuple[str, str, str]]:
    """(group, name, value) of all entry points of GROUPS, sorted."""
    return sorted(_entry_points([folder for folder, _ in stamps]))


@functools.lru_cache(maxsize=CONTRIBUTIONS_KEPT)
def _contribution(name: str, value: str, _stamps: tuple[tuple[str, int], ...]) -> Contribution | None:
    """The folders of an entry point; None for one that does not work, which is logged once."""
    try:
        with load_deadline():
            return _loaded(name, value)
    except KeyboardInterrupt:
        raise
    except (Exception, SystemExit, DeadlineError) as error:  # noqa: BLE001 - supervision point: foreign packages
        log.warning("Entry point %s = %s is skipped: %s: %s", name, value, type(error).__name__, error)
        return None


def _loaded(name: str, value: str) -> Contribution:
    module, _, attribute = value.partition(":")
    if not attribute:
        spec = importlib.util.find_spec(module)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {module!r}")
        if spec.submodule_search_locations is None:
            raise TypeError(f"{module} is a module; a package or a function is expected")
        return Contribution(name, packages=tuple(spec.submodule_search_locations))
    loaded: Any = importlib.import_module(module)
    for part in attribute.split("."):
        loaded = getattr(loaded, part)
    if isinstance(loaded, ModuleType):
        return Contribution(name, packages=tuple(getattr(loaded, "__path__", ())))
    answer = loaded()
    if isinstance(answer, Mapping):
        return Contribution(name, by_type={str(kind): tuple(folders) for kind, folders in answer.items()})
    if isinstance(answer, list | tuple):
        return Contribution(name, by_option={name: tuple(answer)})
    raise TypeError(f"it returned a {type(answer).__name__} instead of {{type: [folder]}}")


def _entry_points(folders: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(group, name, value) of the lines of GROUPS."""
    for folder in folders:
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith(_METADATA))
        except OSError:
            continue  # as above
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8", errors="replace") as stream:
                    text = stream.read()
            except OSError:
                continue  # most packages have none
            yield from _lines(text)


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group in GROUPS and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            # Extras may follow the object: `package:object [extra]`.
            yield group, name.strip(), value.partition("[")[0].strip()


def salt_is_installed() -> bool:
    """Whether `import salt` finds a whole Salt. A plain folder of that name, such as /srv/salt, does not count."""
    imported = sys.modules.get("salt")
    return (imported is not None and imported.__name__ == "salt") or bool(salt_folder())


def salt_folder() -> str:
    """The folder of the package `salt`, found without importing it; "" if there is none."""
    return _salt_folders(installed())[0]


def partial_salt_folder() -> str:
    """The folder of a package `salt` that is not Salt, but has modules of the user's own; "" if there is none."""
    return _salt_folders(installed())[1]


@functools.lru_cache(maxsize=1)
def _salt_folders(_installed: tuple[tuple[str, int], ...]) -> tuple[str, str]:
    """The folder of Salt, and that of a partial one; at most one of them."""
    # Finders of older Pythons, such as one of Salt's, have no such method.
    finders = [one for one in sys.meta_path if hasattr(one, "find_spec") and not hasattr(one, "stands_in_for")]
    specs = (finder.find_spec("salt", None) for finder in finders)
    spec = next((spec for spec in specs if spec is not None and spec.origin), None)
    if spec is None or spec.origin is None:
        return "", ""
    folder = os.path.dirname(spec.origin)
    if os.path.exists(os.path.join(folder, "exceptions.py")):
        return folder, ""
    log.warning(
        "The package salt in %s is not Salt, because it has no exceptions.py: files that import salt get saltlite's "
        "modules, and from there only those that saltlite does not have.",
        folder,
    )
    return "", folder


SHIPPED = "shipped"
"""Name of the layer of shipped plug-ins."""

SALT = "salt"
"""Name of the layer of Salt itself, and of the layer that stands for all of Salt's."""

MODULES = "modules"
GRAINS = "grains"
OUTPUT = "output"

SALT_KINDS = frozenset({MODULES, GRAINS, OUTPUT, "utils", "beacons", "pillar"})
"""Types whose files in Salt are loaded."""

_NOT_IN_SALT = frozenset({"interfaces"})


class Form(StrEnum):
    """The form of a module file; of several with one name in a folder the first form wins.

    A compiled `.pyc` does not count: it would still be called after its source was removed.
    """

    PACKAGE = "package"
    EXTENSION = "extension"
    SOURCE = "source"
    CYTHON = "cython"
    ZIP = "zip"


_RANK = {form: number for number, form in enumerate(Form)}

PLAIN_FORMS = frozenset({Form.PACKAGE, Form.EXTENSION, Form.SOURCE})
"""Forms that need no option."""

_ENDINGS = (
    *((suffix, Form.EXTENSION) for suffix in EXTENSION_SUFFIXES),
    (".py", Form.SOURCE),
    (".pyx", Form.CYTHON),
    (".zip", Form.ZIP),
)

_OPTIONS = {Form.ZIP: "enable_zip_modules", Form.CYTHON: "cython_enable"}
"""The options of the other forms."""

_IRREGULAR = {"grains": "grains_dirs", "utils": "utils_dirs", "output": "outputter_dirs"}

_SHIPPED_IN = {
    "auth": os.path.join("auth", "backends"),
    "clouds": os.path.join("cloud", "drivers"),
    "interfaces": "interfaces",
    "resources": os.path.join("resources", "types"),
}
"""Folders of shipped plug-ins that are not in `plugins/<type>`."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One folder of the search path; `name` is part of its modules' names, `kind` is their plug-in type."""

    name: str
    path: str
    kind: str = MODULES
    forms: frozenset[Form] = PLAIN_FORMS
    installed: bool = False
    """Whether it belongs to an installed package, whose files do not change while a daemon runs."""
    salt: bool = False
    """Whether it stands for all files written for Salt; `path` is then the folder of their cache, or ""."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file of a layer. `path` of a package is its `__init__.py`; time and size cover all its files."""

    stem: str
    path: str
    form: Form
    mtime_ns: int
    size: int


def search_layers(opts: Mapping[str, Any], kind: str = MODULES) -> tuple[Layer, ...]:
    """The search path for plug-ins of a type, in order of precedence."""
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
    if kind == MODULES and has_states(opts):
        installed.append((SHIPPED, os.path.join(shipped_folder("states"), MODULES)))
    if kind.startswith("resources/"):
        # Every resource type has these, too.
        installed.append((SHIPPED, os.path.join(os.path.dirname(shipped_folder("resources")), "slots")))
    salts = []
    if opts.get("salt_compat", "auto") != "off":
        if kind not in SALT_KINDS and kind not in _NOT_IN_SALT:
            installed += entry_places(SALTS, kind)
        elif kind in SALT_KINDS and (any_entries(SALTS) or salt_is_installed()):
            cachedir = opts.get("cachedir") or ""
            remembered = os.path.join(cachedir, "index") if cachedir else ""
            salts = [Layer(SALT, remembered, kind, PLAIN_FORMS, installed=True, salt=True)]
    written = [Layer(name, path, kind, forms) for name, path in places]
    return (*written, *(Layer(name, path, kind, forms, installed=True) for name, path in installed), *salts)


def has_states(opts: Mapping[str, Any]) -> bool:
    """Whether a Salt beside this minion can apply states."""
    if opts.get("salt_compat", "auto") == "off" or opts.get("__role", "minion") != "minion":
        return False
    return bool(opts.get("salt_python")) or salt_is_installed()


def shipped_folder(kind: str) -> str:
    """The folder of the shipped plug-ins of a type."""
    first = kind.partition("/")[0]  # slots of a resource type are in `resources/<type>/modules`
    folder = _SHIPPED_IN.get(first, os.path.join("plugins", first))
    return os.path.join(os.path.dirname(saltlite.__file__), folder + kind.removeprefix(first))


def entry_places(group: str, kind: str) -> list[tuple[str, str]]:
    """(layer name, folder) of every entry point of the group with a folder of the type."""
    return [(re.sub(r"\W", "_", name), folder) for name, folder in entry_folders(group, kind, dirs_option(kind))]


def dirs_option(kind: str) -> str:
    """The name of the option `<type>_dirs`: `runner_dirs` for runners."""
    return _IRREGULAR.get(kind, f"{kind.removesuffix('s')}_dirs")


def module_files(layer: Layer) -> list[FoundFile]:
    """The plug-in files of a layer, one for each name.

    A missing folder is empty; one that this user may not read is logged.
    """
    best: dict[str, FoundFile] = {}
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
    except PermissionError:
        log.warning("The plug-ins in %s are left out, because this user may not read the folder.", layer.path)
    return list(best.values())


def _found(entries: Iterator[os.DirEntry[str]], forms: frozenset[Form]) -> Iterator[FoundFile]:
    for entry in entries:
        stem, form = _form_of(entry.name)
        if form not in forms or not stem or stem.startswith("_") or "." in stem:
            continue
        try:
            if form is Form.PACKAGE:
                yield _package(stem, entry.path)
            elif entry.is_file():
                status = entry.stat()
                yield FoundFile(stem, entry.path, form, status.st_mtime_ns, status.st_size)
        except (FileNotFoundError, NotADirectoryError):
            continue  # not a package, removed meanwhile, or a dangling link


def _package(stem: str, folder: str) -> FoundFile:
    """A package, with the time of its latest file and the size of all."""
    path = os.path.join(folder, "__init__.py")
    os.stat(path)
    with os.scandir(folder) as entries:
        found = [entry.stat() for entry in entries if entry.name.endswith(".py")]
    return FoundFile(stem, path, Form.PACKAGE, max(one.st_mtime_ns for one in found), sum(one.st_size for one in found))


def needed_option(layers: Iterable[Layer], stem: str) -> str:
    """The option that makes a file of that name a module, "" where there is no such file."""
    for layer in layers:
        for ending, form in _ENDINGS:
            option = _OPTIONS.get(form)
            if option and form not in layer.forms and os.path.isfile(os.path.join(layer.path, f"{stem}{ending}")):
                return option
    return ""


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
            _log_missing_cython()
    return frozenset(forms)


@functools.cache
def _log_missing_cython() -> None:
    log.info("Option cython_enable: Cython is not installed here, so .pyx files are no modules.")


def _folder_of(base: str, kind: str) -> str:
    plain = os.path.join(base, kind)
    return plain if os.path.isdir(plain) else os.path.join(base, f"_{kind}")


def _last_first(opts: Mapping[str, Any], option: str) -> list[str]:
    return [str(folder) for folder in reversed(opts.get(option) or ())]
