"""The index on disk, so that a process that starts reads only the files that changed since the last one.

It is a help and nothing more: what is missing, damaged, written by another version or by another user is ignored, and
a folder that cannot be written to is left as it is. A row counts for a file of the same path, time and size.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

import saltlite
from saltlite.loader import joined, parameters, scan
from saltlite.loader.failure import Failure, FailureKind
from saltlite.loader.finder import Index, ModuleFile, build_index
from saltlite.loader.places import Form, Layer

log = logging.getLogger(__name__)

INDEX_BYTES_MAX = 64 * 1024 * 1024
"""A larger file is not ours; 500 modules take 200 KiB."""

_FIELDS = [field.name for field in fields(ModuleFile)]


def remembered_index(layers: Sequence[Layer], cachedir: str) -> Index:
    """The index over the layers, with what `<cachedir>/index` remembers of them; remembers it for the next one."""
    kind = layers[0].kind if layers else ""
    path = os.path.join(cachedir, "index", kind)
    before = _read(path)
    index = build_index(layers, before)
    if index is not before and cachedir and kind:
        with contextlib.suppress(OSError):
            _write(path, index)
    return index


def _stamp() -> list[Any]:
    """What a row depends on beside the file: how it is read."""
    readers = [os.stat(str(module.__file__)) for module in (scan, parameters, joined)]
    return [saltlite.__version__, sys.version, _FIELDS, [[one.st_mtime_ns, one.st_size] for one in readers]]


def _read(path: str) -> Index | None:
    try:
        with open(path, "rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022 or status.st_size > INDEX_BYTES_MAX:
                log.warning("%s is not used: it must belong to this user, who alone may write to it.", path)
                return None
            stamp, layers, rows = msgpack.unpackb(stream.read(), use_list=False)
        if msgpack.packb(stamp) != msgpack.packb(_stamp()):
            return None
        return Index([_layer(*row) for row in layers], [_file(row) for row in rows])
    except OSError:
        return None
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        log.info("%s is not used: %s", path, error)
        return None


def _write(path: str, index: Index) -> None:
    layers = [[layer.name, layer.path, layer.kind, sorted(layer.forms), layer.installed] for layer in index.layers]
    data: bytes = msgpack.packb([_stamp(), layers, [astuple(file) for file in index.files]])
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


def _layer(name: str, path: str, kind: str, forms: Sequence[str], installed: bool) -> Layer:
    return Layer(name, path, kind, frozenset(Form(form) for form in forms), installed=installed)


def _file(row: Sequence[Any]) -> ModuleFile:
    given = dict(zip(_FIELDS, row, strict=True))
    given["form"] = Form(given["form"])
    if given["failure"] is not None:
        kind, reason, path, line = given["failure"]
        given["failure"] = Failure(FailureKind(kind), reason, path, line)
    return ModuleFile(**given)
