"""The folders of the option `pillar_roots` (`saltlite.pillar.compiler.PillarFiles`), and the YAML in them.

The first line says how a file is rendered: `#!yaml`, or `#!jinja|yaml`, which is the default. Files are opened below
their root only. Text and data are cached until the file changes.

YAML is read as in the configuration, with Salt's two differences: `yes`, `no`, `on` and `off` are booleans, and a key
that is a whole number is an int. Every mistake names `file:line:col`.
"""

from __future__ import annotations

import copy
import importlib
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.config.written import Map, PlacedError, Scalar, Written, resolve
from saltlite.config.written import Sequence as ListNode
from saltlite.errors import RenderError, UsageError
from saltlite.files.roots import FileRoots
from saltlite.model.dataclass import dataclass
from saltlite.model.files import parse_path
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import pillar_of
from saltlite.pillar.functions import TemplateFunctions
from saltlite.pillar.jinja_templates import Source, Templates, has_markup, load_jinja
from saltlite.wire.codec import decode_document, encode_pillar

# -- YAML


_BOOLEANS = {
    **{word: True for text in ("yes", "on") for word in (text, text.capitalize(), text.upper())},
    **{word: False for text in ("no", "off") for word in (text, text.capitalize(), text.upper())},
}


def read_yaml(text: str, name: str) -> Any:
    """The data in `text`; None if it is empty. Raises RenderError, which contains no values."""
    from saltlite.config.yamlfile import parse  # noqa: PLC0415 - MWorkers import this file, and parse no YAML

    try:
        written, twice = parse(text.encode("utf-8", "surrogatepass"))
    except PlacedError as error:
        raise _misread(name, error) from error
    if twice:
        raise _misread(name, twice[0])
    return None if written is None else _value(written)


def _misread(name: str, error: PlacedError) -> RenderError:
    return RenderError(f"{name}:{error.where.line}:{error.where.column}: {error}")


def _value(written: Written) -> Any:
    match written:
        case Scalar():
            return written.text if written.quoted else _BOOLEANS.get(written.text, resolve(written.text))
        case ListNode():
            return [_value(item) for item in written.items]
        case Map():
            return {_key(key): _value(value) for key, value in written.pairs}


def _key(key: Scalar) -> str | int:
    value = key.text if key.quoted else resolve(key.text)
    return value if type(value) is int else key.text


FILE_BYTES_MAX = 1024 * 1024
"""Bytes of one file, and of its rendered text."""
REMEMBERED = 500
"""Files whose text and data are cached."""

_JINJA, _PLAIN = ("jinja", "yaml"), ("yaml",)


@dataclass(slots=True)
class _File:
    """A cached file. `data` is set after its first use, if the file is not a template."""

    identity: tuple[int, ...]
    text: str
    plain: bool
    data: Any = None
    parsed: bool = False


class DiskPillarFiles:
    """`roots`: environment -> its folders; the first one that has a file wins."""

    def __init__(self, roots: Mapping[str, Sequence[str]]) -> None:
        self._disk = FileRoots(roots)
        self._envs = tuple(roots)
        self._remembered: OrderedDict[tuple[str, str], _File] = OrderedDict()
        self._templates: dict[str, Templates] = {}
        self._functions = TemplateFunctions()

    def load(self, *, functions: bool) -> None:
        """Import now what rendering needs, with `functions` also what templates may call."""
        importlib.import_module("saltlite.config.yamlfile")
        load_jinja()
        if functions:
            self._functions.load()

    def envs(self) -> Sequence[str]:
        return self._envs

    def has(self, env: str, path: str) -> bool:
        file = self._disk.open(env, _checked(path))
        if file is None:
            return False
        file.close()
        return True

    def names(self, env: str) -> Sequence[str]:
        return self._disk.names(env, "", folders=False)

    def render(self, env: str, path: str, context: Mapping[str, Any]) -> Any:
        file = self._read(env, path)
        if file.plain:
            if not file.parsed:
                file.data, file.parsed = read_yaml(file.text, path), True
            # Templates see pillar, and may change what they see.
            return copy.deepcopy(file.data)
        text = self._templates_of(env).render(path, context)
        if len(text) > FILE_BYTES_MAX:
            raise RenderError(f"{path} makes more than {FILE_BYTES_MAX} bytes of YAML: make it smaller")
        return read_yaml(text, path)

    def _templates_of(self, env: str) -> Templates:
        if env not in self._templates:
            self._templates[env] = Templates(lambda path: self._source(env, path), self._functions)
        return self._templates[env]

    def _source(self, env: str, path: str) -> Source | None:
        """A file that a template includes or imports."""
        if not self.has(env, path):
            return None
        file = self._read(env, path)
        return Source(file.text, lambda: self._read(env, path) is file)

    def _read(self, env: str, path: str) -> _File:
        opened = self._disk.open(env, _checked(path))
        if opened is None:
            raise RenderError(f"{path} in environment {env!r} is not there")
        try:
            known = self._remembered.get((env, path))
            if known is not None and known.identity == opened.identity:
                self._remembered.move_to_end((env, path))
                return known
            if opened.size > FILE_BYTES_MAX:
                raise RenderError(f"{path} is larger than {FILE_BYTES_MAX} bytes: split it")
            file = _file(path, opened.identity, opened.read(0, FILE_BYTES_MAX))
        except OSError as error:
            raise RenderError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error
        finally:
            opened.close()
        self._remembered[env, path] = file
        if len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)
        return file


def pillar_here(roots: Mapping[str, Sequence[str]], minion: str, grains: Mapping[str, Any]) -> dict[str, Any]:
    """The pillar that a master with these folders would compile; empty without folders."""
    if not roots:
        return {}
    pillar = pillar_of(DiskPillarFiles(roots), MinionId(minion), grains, {})
    return decode_document(encode_pillar(pillar))


def _file(path: str, identity: tuple[int, ...], content: bytes) -> _File:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RenderError(f"{path}:{line}: this is not UTF-8; save the file as UTF-8") from error
    first, newline, rest = text.partition("\n")
    if not first.startswith("#!"):
        return _File(identity, text, plain=not has_markup(text))
    renderers = tuple(part.strip() for part in first[2:].split("|"))
    if renderers not in (_JINJA, _PLAIN):
        raise RenderError(f"{path}:1: {first[:60]!r} is not known here: begin with #!yaml or #!jinja|yaml")
    # The line stays, empty, so that positions are those of the file.
    text = newline + rest
    return _File(identity, text, plain=renderers == _PLAIN or not has_markup(text))


def _checked(path: str) -> str:
    try:
        return parse_path(path)
    except UsageError as error:
        raise RenderError(str(error)) from error
