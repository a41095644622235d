"""The index on disk, so that a process that starts reads only the files that changed since the last one.

It is a help and nothing more: what is missing, damaged, written by another version or by another user is ignored, and
a folder that cannot be written to is left as it is. A row counts for a file of the same path, time and size.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from types import ModuleType
from typing import Any, TypeVar

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

import saltlite
from saltlite.loader import joined, parameters, scan
from saltlite.loader.failure import Failure, FailureKind
from saltlite.loader.finder import Index, ModuleFile, build_index
from saltlite.loader.places import Form, Layer

log = logging.getLogger(__name__)

INDEX_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is not ours; 500 modules take 200 KiB."""

Made = TypeVar("Made")

_FIELDS = [field.name for field in fields(ModuleFile)]


def remembered_index(layers: Sequence[Layer], cachedir: str) -> Index:
    """The index over the layers, with what `<cachedir>/index` remembers of them; remembers it for the next one."""
    kind = layers[0].kind if layers else ""
    return index_kept_in(os.path.join(cachedir, "index", kind) if cachedir and kind else "", layers)


def index_kept_in(path: str, layers: Sequence[Layer], *, first_rank: int = 0) -> Index:
    """The index over the layers, with what the file at `path` remembers of them; "" remembers nothing."""
    before = _read(path) if path else None
    index = build_index(layers, before, first_rank=first_rank)
    if index is not before and path:
        with contextlib.suppress(OSError):
            _write(path, index)
    return index


def is_own_folder(folder: str) -> bool:
    """Whether this user keeps the folder: in another one's, or where there is none, nothing is to be written."""
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except OSError:
        return False


def stamp_of(*readers: ModuleType) -> list[Any]:
    """What is remembered depends on this beside the file: how it is read, by these modules."""
    files = [os.stat(str(module.__file__)) for module in readers]
    return [saltlite.__version__, sys.version, [[one.st_mtime_ns, one.st_size] for one in files]]


def read_remembered(path: str, stamp: Sequence[Any], made: Callable[..., Made]) -> Made | None:
    """What `made` makes of the values that the file at `path` has behind this stamp; None where it is of no use."""
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


def write_remembered(path: str, stamp: Sequence[Any], *values: Any) -> None:
    """Keep these values, which are plain data, behind the stamp, whole or not at all.

    Raises OSError, and ValueError for a text that is none.
    """
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
    return [*stamp_of(scan, parameters, joined), _FIELDS]


def _read(path: str) -> Index | None:
    return read_remembered(path, _stamp(), _index)


def _index(layers: Sequence[Any], rows: Sequence[Any]) -> Index:
    return Index([_layer(*row) for row in layers], [_file(row) for row in rows])


def _write(path: str, index: Index) -> None:
    layers = [
        [layer.name, layer.path, layer.kind, sorted(layer.forms), layer.installed, layer.salt] for layer in index.layers
    ]
    write_remembered(path, _stamp(), layers, [astuple(file) for file in index.files])


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
