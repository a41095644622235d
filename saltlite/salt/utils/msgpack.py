"""`salt.utils.msgpack`: msgpack, whose texts are read as bytes unless `raw=False`."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped] # it has no types
from msgpack import exceptions

HAS_MSGPACK = True
version = msgpack.version
Packer = msgpack.Packer
ExtType = msgpack.ExtType

__all__ = [
    "HAS_MSGPACK",
    "ExtType",
    "Packer",
    "Unpacker",
    "dump",
    "dumps",
    "exceptions",
    "load",
    "loads",
    "pack",
    "packb",
    "unpack",
    "unpackb",
    "version",
]


def _reading(kwargs: dict[str, Any]) -> dict[str, Any]:
    kwargs.pop("encoding", None)
    return {"raw": True, "strict_map_key": False, **kwargs}


class Unpacker(msgpack.Unpacker):  # type: ignore[misc] # as above
    """Reads several messages of one stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **_reading(kwargs))

    def __new__(cls, *args: Any, **kwargs: Any) -> Unpacker:
        made: Unpacker = super().__new__(cls, *args, **_reading(kwargs))
        return made


def pack(o: Any, stream: Any, **kwargs: Any) -> None:
    kwargs.pop("encoding", None)
    msgpack.pack(o, stream, **kwargs)


def packb(o: Any, **kwargs: Any) -> bytes:
    kwargs.pop("encoding", None)
    packed: bytes = msgpack.packb(o, **kwargs)
    return packed


def unpack(stream: Any, **kwargs: Any) -> Any:
    return msgpack.unpack(stream, **_reading(kwargs))


def unpackb(packed: bytes, **kwargs: Any) -> Any:
    return msgpack.unpackb(packed, **_reading(kwargs))


load, loads, dump, dumps = unpack, unpackb, pack, packb
