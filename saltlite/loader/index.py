"""The index of plug-in files on the search path, and what each file provides, read from its syntax tree.

The index is plain data: it can be pickled and costs no import, and a refresh parses only files whose modification time
or size changed. The minion's job server holds it and the processes that it forks read it. A copy in `cachedir` saves a
new process from parsing again. The copy is optional: one that is missing, damaged, or written by another version or
user is ignored.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

import saltlite
from saltlite.loader import scan
from saltlite.loader.failure import Failure, FailureKind, failure_of
from saltlite.loader.formats import ArchiveError, read_main
from saltlite.loader.scan import MODULE_BYTES_MAX, joined_tree, parse_module, part_text, scan_module
from saltlite.loader.search_path import MODULES, SHIPPED, Form, Layer, module_files
from saltlite.model.dataclass import dataclass
from saltlite.model.signature import (
    FUNCTION_TEXT_MAX,
    OMITTED,
    PARAMETERS_MAX,
    TYPES,
    Parameter,
    ParameterKind,
    Signature,
    format_signature,
    is_function_name,
    outputter_of,
    parse_signature,
)

if TYPE_CHECKING:
    from saltlite.loader.salt_compat import SaltFiles


_DRY_RUN = "test"
_PLACED = (ParameterKind.POSITIONAL_ONLY, ParameterKind.EITHER)


def united(signatures: Sequence[Signature | None]) -> Signature | None:
    """What takes all that one of them takes; None where one is not known.

    Where not all have a dry run, the result has none: it takes `test` as any other word, so that `--test` is refused. A
    function that takes a dry run for any other word would do what was to be told only.
    """
    known = [one for one in signatures if one is not None]
    if len(known) < len(signatures):
        return None
    mixed = len({one.named(_DRY_RUN) is None for one in known}) > 1
    placed = [[one for one in signature.parameters if one.kind in _PLACED] for signature in known]
    front: list[Parameter] = []
    for column in zip_longest(*placed):
        if None in column or len({(one.name, one.kind) for one in column}) > 1:
            break
        default = None if all(one.default is None for one in column) else _default(column)
        front.append(Parameter(column[0].name, column[0].kind, _types(column), default))
    rest = [found for one in known if (found := one.of_kind(ParameterKind.REST))]
    further = any(len(one) > len(front) for one in placed)
    names = {one.name for one in front}
    made = list(front)
    if rest or further:
        # Arguments behind the common ones go to parameters of different names: nothing is known of their types.
        made.append(Parameter(rest[0].name if rest else "args", ParameterKind.REST, () if further else _types(rest)))
    made += [one for one in _keywords(known, names) if not (mixed and one.name == _DRY_RUN)]
    made += (
        [Parameter("kwargs", ParameterKind.KEYWORDS)]
        if mixed or any(one.of_kind(ParameterKind.KEYWORDS) for one in known)
        else []
    )
    return Signature(made) if len(made) <= PARAMETERS_MAX else None


def _keywords(known: Sequence[Signature], taken: set[str]) -> list[Parameter]:
    found: dict[str, list[Parameter]] = {}
    for signature in known:
        for one in signature.parameters:
            if one.kind in (ParameterKind.EITHER, ParameterKind.KEYWORD_ONLY) and one.name not in taken:
                found.setdefault(one.name, []).append(one)
    made = []
    for name, column in found.items():
        needed = len(column) == len(known) and all(
            one.kind is ParameterKind.KEYWORD_ONLY and one.default is None for one in column
        )
        made.append(Parameter(name, ParameterKind.KEYWORD_ONLY, _types(column), None if needed else _default(column)))
    return made


def _types(column: Sequence[Parameter]) -> tuple[str, ...]:
    if not all(one.types for one in column):
        return ()
    return tuple(name for name in TYPES if any(name in one.types for one in column))


def _default(column: Sequence[Parameter]) -> str:
    found = {one.default for one in column}
    return (found.pop() or OMITTED) if len(found) == 1 else OMITTED


log = logging.getLogger(__name__)

SALT_RANK = 1000
"""Rank of the first layer of Salt's own files."""


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """One module file with its scan; see `saltlite.loader.scan.Scan` for the fields.

    `path` of a package is its `__init__.py`. `rank` is the position of its layer, 0 being asked first. `failure` is set
    when the file cannot be parsed.
    """

    path: str
    stem: str
    layer: str
    rank: int
    form: Form
    mtime_ns: int
    size: int
    functions: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    checked: bool = False
    undetermined: bool = False
    replaces: bool = False
    failure: Failure | None = None

    @property
    def is_salt_file(self) -> bool:
        """Whether it was written for Salt's own loader, and is loaded only for what no other file offers."""
        return self.rank >= SALT_RANK


class Index:
    """Every visible module file, and which of them may provide a virtual name."""

    def __init__(self, layers: Sequence[Layer], files: Sequence[ModuleFile]) -> None:
        self.layers = tuple(layers)
        self.kind = layers[0].kind if layers else MODULES
        """The type of its plug-ins."""
        self.files = tuple(files)
        self._by_stem = {file.stem: file for file in files}
        claims: dict[str, list[ModuleFile]] = {}
        for file in files:
            for name in file.claims:
                claims.setdefault(name, []).append(file)
        for name, claimants in claims.items():
            claimants.sort(key=functools.partial(_order, name))
        written = {layer.name for layer in self.layers if not layer.installed}
        self.written = frozenset((file.path, file.mtime_ns, file.size) for file in files if file.layer in written)
        """Path, time and size of the files in folders that may change while a daemon runs."""
        self._claims = {name: tuple(claimants) for name, claimants in claims.items()}
        self.undetermined = tuple(file for file in files if file.undetermined)
        self.salt_files = self._salt_files()
        """The files written for Salt, below all others, if there are any; read at the first use."""
        self.whole = not self.undetermined and self.salt_files is None and not any(file.failure for file in files)
        """Whether the names of all functions are known. A broken file's are not, and its callers read why."""

    def names(self) -> list[str]:
        """Every virtual name that some file claims, sorted."""
        return sorted(self._claims)

    def claimants(self, name: str) -> tuple[ModuleFile, ...]:
        """The files that may provide the virtual name, in order of precedence.

        Within one layer the file of that name comes first, the others follow by file name.
        """
        return self._claims.get(name, ())

    def all_claimants(self, name: str) -> Iterator[ModuleFile]:
        """As `claimants`, followed by Salt's files."""
        yield from self.claimants(name)
        if self.salt_files is not None:
            yield from self.salt_files.claimants(name)

    def all_names(self) -> list[str]:
        """As `names`, including those that only Salt's files claim."""
        return sorted({*self.names(), *(self.salt_files.names() if self.salt_files is not None else ())})

    def file(self, stem: str) -> ModuleFile | None:
        """The visible file with that file name (without `.py`)."""
        return self._by_stem.get(stem)

    def _salt_files(self) -> SaltFiles | None:
        is_salt_file = next((layer for layer in self.layers if layer.salt), None)
        if is_salt_file is None:
            return None
        from saltlite.loader.salt_compat import SaltFiles  # noqa: PLC0415 - few machines have Salt

        # A custom file hides Salt's file of that name, as in Salt; a shipped one does not.
        return SaltFiles(is_salt_file, frozenset(file.stem for file in self.files if file.layer != SHIPPED))

    def function_names(self) -> list[str]:
        """Every `module.function` in the text of the files, sorted, whether or not they load here."""
        return sorted({f"{name}.{fun}" for file in self.files for name in file.claims for fun in file.functions})

    def function_texts(self, providers: Mapping[str, str]) -> list[str]:
        """The text of `saltlite.model.signature` for every function, sorted by name; `providers` is that option.

        Where only running the files would tell which one provides a function, the text takes what any of them takes.
        """
        texts: dict[str, str] = {}
        for name in {*self._claims, *providers}:
            for fun, found in self._possible(name, providers).items():
                texts[f"{name}.{fun}"] = _module_text(name, fun, found)
        return [texts[name] for name in sorted(texts)]

    def function_text(self, function: str, providers: Mapping[str, str]) -> str | None:
        """The text of one `module.function` among `function_texts`, without the work for the others; None if no file
        has the function."""
        module, _, fun = function.partition(".")
        found = self._possible(module, providers).get(fun)
        return None if found is None else _module_text(module, fun, found)

    def _possible(self, module: str, providers: Mapping[str, str]) -> dict[str, list[str]]:
        forced = self.file(str(providers[module])) if module in providers else None
        return _possible(self.claimants(module) if forced is None else (forced,))


def _possible(files: Sequence[ModuleFile]) -> dict[str, list[str]]:
    """Function -> its texts in the files that may provide it, in order of precedence."""
    found: dict[str, list[str]] = {}
    settled: set[str] = set()
    settled_rank = -1
    for file in files:
        if file.rank == settled_rank:
            continue  # its layer has a provider already
        for fun, text in zip(file.functions, file.texts, strict=True):
            if fun not in settled:
                found.setdefault(fun, []).append(text)
        if not file.checked and not file.undetermined and file.failure is None:
            settled.update(file.functions)
            settled_rank = file.rank
            if file.replaces:
                break
    return found


def _module_text(module: str, fun: str, found: Sequence[str]) -> str:
    text = f"{module}.{found[0]}"
    # The scan checked it as "m.", so only the longer module name can exceed a limit.
    fits = len(text) <= FUNCTION_TEXT_MAX and is_function_name(f"{module}.{fun}")
    if fits and len(set(found)) == 1:
        return text
    known = [parse_signature(f"m.{each}") for each in dict.fromkeys(found)]
    risk = next((one[2] for one in known if one[2]), "")
    outs = {outputter_of(each) for each in found}
    out = outs.pop() if len(outs) == 1 else ""
    text = format_signature(f"{module}.{fun}", united([one[1] for one in known]), risk, out)
    return text if len(text) <= FUNCTION_TEXT_MAX else format_signature(f"{module}.{fun}", None, risk, out)


def build_index(
    layers: Sequence[Layer],
    previous: Index | None = None,
    *,
    first_rank: int = 0,
    only: Container[str] | None = None,
) -> Index:
    """Index the layers, reading only files that changed since `previous`; `only` limits it to files of these names.

    Returns `previous` itself when nothing changed, so that callers can compare by identity.
    """
    known = {file.path: file for file in previous.files} if previous else {}
    visible: dict[str, ModuleFile] = {}
    for rank, layer in enumerate(layers, first_rank):
        for found in module_files(layer):
            if found.stem in visible or (only is not None and found.stem not in only):
                continue
            old = known.get(found.path)
            if old and (old.form, old.mtime_ns, old.size) == (found.form, found.mtime_ns, found.size):
                visible[found.stem] = replace(old, layer=layer.name, rank=rank)
            else:
                visible[found.stem] = _scanned(
                    ModuleFile(found.path, found.stem, layer.name, rank, found.form, found.mtime_ns, found.size)
                )
    files = tuple(sorted(visible.values(), key=lambda file: (file.rank, file.stem)))
    if previous and previous.files == files and previous.layers == tuple(layers):
        return previous
    return Index(layers, files)


def refreshed_index(previous: Index) -> Index:
    """`previous` with the changes in folders that operators write to; itself when nothing changed.

    Cheap enough for every job: it looks neither at installed folders nor for new folders.
    """
    written = [layer for layer in previous.layers if not layer.installed]
    found = {(one.path, one.mtime_ns, one.size) for layer in written for one in module_files(layer)}
    return previous if previous.written == found else build_index(previous.layers, previous)


def _order(name: str, file: ModuleFile) -> tuple[int, bool, str]:
    return file.rank, file.stem != name, file.stem


def _scanned(blank: ModuleFile) -> ModuleFile:
    """The file with its scan. Machine code has none: only loading tells what it offers."""
    unread = replace(blank, claims=(blank.stem,), checked=True, undetermined=True)
    if blank.form is Form.EXTENSION:
        return unread
    try:
        scan = scan_module(module_tree(blank), blank.stem)
    except (SyntaxError, OSError, ArchiveError) as error:
        if blank.form is Form.CYTHON:
            return unread  # Cython's language is larger than Python's
        failure = failure_of(FailureKind.NOT_IMPORTED, error, blank.path)
        log.warning("%s", failure.sentence(blank.stem))
        return replace(blank, claims=(blank.stem,), failure=failure)
    return replace(
        blank,
        functions=scan.functions,
        texts=scan.texts,
        claims=scan.claims,
        checked=scan.checked,
        undetermined=scan.undetermined,
        replaces=scan.replaces,
    )


def module_text(file: ModuleFile) -> bytes:
    """The Python text of a file that is not machine code. Raises OSError and ArchiveError."""
    if file.form is Form.ZIP:
        return read_main(file.path, file.stem)
    with open(file.path, "rb") as stream:
        return stream.read(MODULE_BYTES_MAX + 1)


def module_tree(file: ModuleFile) -> ast.Module:
    """The syntax tree of a file that is not machine code, joined with the submodules of a package.

    Raises SyntaxError, OSError and ArchiveError.
    """
    tree = parse_module(module_text(file), _text_path(file))
    if file.form is not Form.PACKAGE:
        return tree
    return joined_tree(tree, functools.partial(part_text, os.path.dirname(file.path)))


def _text_path(file: ModuleFile) -> str:
    """The path for syntax errors."""
    return os.path.join(file.path, file.stem, "__init__.py") if file.form is Form.ZIP else file.path


INDEX_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is ignored; 500 modules take 200 KiB."""

Made = TypeVar("Made")

_FIELDS = [field.name for field in fields(ModuleFile)]


def cached_index(
    layers: Sequence[Layer], cachedir: str, *, elsewhere: Callable[[Callable[[], object]], object] | None = None
) -> Index:
    """The index over the layers, read from `<cachedir>/index` where it is current, and written there.

    `elsewhere` runs a function in another process: there a whole index is built, so that the memory which that takes
    is not part of this process. Without the file that it leaves, the index is built here.
    """
    kind = layers[0].kind if layers else ""
    path = os.path.join(cachedir, "index", kind) if cachedir and kind else ""
    if elsewhere is not None and path and _read_index(path) is None:
        elsewhere(functools.partial(cached_index_at, path, layers))
    return cached_index_at(path, layers)


def cached_index_at(path: str, layers: Sequence[Layer], *, first_rank: int = 0) -> Index:
    """As `cached_index`, with the cache file at `path`; "" for none."""
    before = _read_index(path) if path else None
    index = build_index(layers, before, first_rank=first_rank)
    if index is not before and path:
        with contextlib.suppress(OSError):
            _write_index(path, index)
    return index


def index_beside(layers: Sequence[Layer], cachedir: str) -> Index:
    """As `cached_index`, for a reader that writes nothing into the cachedir."""
    kind = layers[0].kind if layers else ""
    return build_index(layers, _read_index(os.path.join(cachedir, "index", kind)) if cachedir and kind else None)


def is_own_folder(folder: str) -> bool:
    """Whether the folder exists and belongs to this user; nothing is written into others."""
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except OSError:
        return False


def cache_stamp(*readers: str) -> list[Any]:
    """The versions of saltlite, Python and the reading code at these paths, which invalidate a cache."""
    files = [os.stat(path) for path in readers]
    return [saltlite.__version__, sys.version, [[one.st_mtime_ns, one.st_size] for one in files]]


def read_cache(path: str, stamp: Sequence[Any], made: Callable[..., Made]) -> Made | None:
    """`made` of the values in the cache file at `path`; None if the file is missing, damaged or has another stamp."""
    try:
        with open(path, "rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022 or status.st_size > INDEX_BYTES_MAX:
                log.warning("%s is not used: it must belong to this user, who alone may write to it.", path)
                return None
            known, *values = msgpack.unpackb(stream.read(), use_list=False)
        if msgpack.packb(known) != msgpack.packb(stamp):
            return None
        return made(*values)
    except OSError:
        return None
    except (ValueError, TypeError, KeyError, SyntaxError, msgpack.UnpackException) as error:
        log.info("%s is not used: %s", path, error)
        return None


def write_cache(path: str, stamp: Sequence[Any], *values: Any) -> None:
    """Write these plain values behind the stamp, atomically. Raises OSError, and ValueError for an invalid text."""
    data: bytes = msgpack.packb([stamp, *values])
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    fresh = f"{path}.{os.getpid()}"
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
        os.replace(fresh, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def _stamp() -> list[Any]:
    return [*cache_stamp(scan.__file__), _FIELDS]


def _read_index(path: str) -> Index | None:
    return read_cache(path, _stamp(), _index)


def _index(layers: Sequence[Any], rows: Sequence[Any]) -> Index:
    return Index([_layer(*row) for row in layers], [_file(row) for row in rows])


def _write_index(path: str, index: Index) -> None:
    layers = [
        [layer.name, layer.path, layer.kind, sorted(layer.forms), layer.installed, layer.salt] for layer in index.layers
    ]
    write_cache(path, _stamp(), layers, [astuple(file) for file in index.files])


def _layer(name: str, path: str, kind: str, forms: Sequence[str], *flags: bool) -> Layer:
    installed, salt = flags
    return Layer(name, path, kind, frozenset(Form(form) for form in forms), installed=installed, salt=salt)


def _file(row: Sequence[Any]) -> ModuleFile:
    given = dict(zip(_FIELDS, row, strict=True))
    given["form"] = Form(given["form"])
    if given["failure"] is not None:
        kind, reason, path, line = given["failure"]
        given["failure"] = Failure(FailureKind(kind), reason, path, line)
    return ModuleFile(**given)
