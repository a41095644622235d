"""Messages on byte streams between processes of one machine: a u32 length, big endian, then that many bytes.

Between processes of one daemon the bytes are one msgpack map, whose key `t` names the message (`pack`, `unpack`). Both
ends are ours, so nothing is checked; input from elsewhere is decoded by `saltlite.wire.codec`.
"""

from __future__ import annotations

import struct

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

TYPE_CHECKING = False  # the command line imports this file, and typing costs it start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    IpcMessage: TypeAlias = dict[str, Any]
else:
    IpcMessage = dict

LENGTH = struct.Struct(">I")

PACK_BYTES = 4096
"""The first size of the buffer of a message. By default it has 256 KiB, which two system calls get and give back."""

_packers: list[Any] = []
"""Packers that are not in use. Creating one takes as long as packing a small message."""


def packed(value: object) -> bytes:
    """The msgpack bytes of a value. Raises TypeError, ValueError or OverflowError for one that cannot be encoded."""
    try:
        packer = _packers.pop()
    except IndexError:
        packer = msgpack.Packer(buf_size=PACK_BYTES)
    data: bytes = packer.pack(value)
    # The buffer of a packer never shrinks. A packer that raised an exception is not used again.
    if len(data) <= PACK_BYTES:
        _packers.append(packer)
    return data


def pack(message: IpcMessage) -> bytes:
    """Encode one message."""
    return packed(message)


def unpack(data: bytes | memoryview) -> IpcMessage:
    """Decode one message of another process of this daemon."""
    message: IpcMessage = msgpack.unpackb(data, raw=False, strict_map_key=False)
    return message


def framed(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return LENGTH.pack(len(payload)) + payload


def next_end(received: bytes | bytearray, at: int = 0) -> int | None:
    """The end of the frame that starts at `at`, or None while its length is incomplete."""
    if len(received) - at < LENGTH.size:
        return None
    return int(at + LENGTH.size + LENGTH.unpack_from(received, at)[0])


def take_frame(received: bytearray, at: int = 0) -> bytes | None:
    """Remove everything up to the end of the frame at `at`; its payload, or None while it is incomplete."""
    end = next_end(received, at)
    if end is None or len(received) < end:
        return None
    payload = bytes(received[at + LENGTH.size : end])
    del received[:end]
    return payload


def read_frame(read: Callable[[int], bytes], longest: int | None = None) -> bytes | None:
    """The payload of the next frame from a blocking `read`, which returns at most so many bytes and b"" at the end.

    None when the stream ends first, and for a frame of more than `longest` bytes.
    """
    header = _read_exactly(read, LENGTH.size)
    if header is None:
        return None
    size = LENGTH.unpack(header)[0]
    return _read_exactly(read, size) if longest is None or size <= longest else None


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = read(size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)
