"""`salt.payload`: plain data, dates and sets as msgpack."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from saltlite.salt.exceptions import SaltDeserializationError
from saltlite.salt.utils import msgpack
from saltlite.salt.utils.immutabletypes import ImmutableList, ImmutableSet

_DATE = 78
_DATE_FORMAT = "%Y%m%dT%H:%M:%S.%f"
_MOST = 2**64


def package(payload: Any) -> bytes:
    return msgpack.dumps(payload)


def unpackage(package_: bytes) -> Any:
    return msgpack.loads(package_, use_list=True)


def format_payload(enc: str, **kwargs: Any) -> bytes:
    """The message `{"enc": …, "load": keywords}`."""
    return package({"enc": enc, "load": kwargs})


def loads(msg: bytes, encoding: str | None = None, raw: bool = False) -> Any:
    """What a message means; bytes that are text become text unless `raw`. Raises SaltDeserializationError."""
    try:
        found = msgpack.unpackb(msg, use_list=True, ext_hook=_extended, raw=True)
    except Exception as error:
        raise SaltDeserializationError(f"Could not deserialize msgpack message: {error}") from error
    return found if raw and encoding is None else _texts(found)


def _extended(code: int, data: bytes) -> Any:
    return datetime.datetime.strptime(data.decode(), _DATE_FORMAT) if code == _DATE else data  # noqa: DTZ007 - it has no zone


def _texts(found: Any) -> Any:
    if isinstance(found, dict):
        return {_texts(key): _texts(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(map(_texts, found))
    if not isinstance(found, bytes):
        return found
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found


def dumps(msg: Any, use_bin_type: bool = False) -> bytes:
    """The message of plain data, dates, sets and mappings; numbers beyond 64 bits are texts."""
    try:
        return msgpack.packb(msg, default=_plain, use_bin_type=use_bin_type)
    except (OverflowError, ValueError):
        return msgpack.packb(_short(msg, frozenset()), default=_plain, use_bin_type=use_bin_type)


def _plain(obj: Any) -> Any:
    if isinstance(obj, int):
        return str(obj)
    if isinstance(obj, datetime.date):
        return msgpack.ExtType(_DATE, obj.strftime(_DATE_FORMAT).encode())
    if isinstance(obj, set | frozenset | ImmutableSet):
        return tuple(obj)
    if isinstance(obj, ImmutableList):
        return list(obj)
    return dict(obj) if isinstance(obj, Mapping) else obj


def _short(obj: Any, above: frozenset[int]) -> Any:
    """The data without what contains itself, and with large numbers as texts."""
    if isinstance(obj, int) and not -_MOST < obj < _MOST:
        return str(obj)
    if not isinstance(obj, dict | list | tuple):
        return obj
    if id(obj) in above:
        return f"<Recursion on {type(obj).__name__} with id={id(obj)}>"
    inside = above | {id(obj)}
    if isinstance(obj, dict):
        return {key: _short(value, inside) for key, value in obj.items()}
    return [_short(value, inside) for value in obj]


def load(fn_: Any) -> Any:
    """What an open file means, which is closed; None for an empty one."""
    with fn_:
        data = fn_.read()
    return loads(data, encoding="utf-8") if data else None


def dump(msg: Any, fn_: Any) -> None:
    """Write the message to an open file, and close it."""
    with fn_:
        fn_.write(dumps(msg, use_bin_type=True))
