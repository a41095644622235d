"""One value as the content of its file: a head with the digest and checksums, and the value in msgpack.

4 bytes   which format this is
64 bytes  the digest that came with the value, filled up with zeros
4 bytes   length of the value
4 bytes   CRC-32 of the value
4 bytes   CRC-32 of all of the head before it
"""

from __future__ import annotations

import struct
from zlib import crc32

from saltlite.targeting.banks import DIGEST_MAX

MAGIC = b"SLB\x01"
_HEAD = struct.Struct(f">4s{DIGEST_MAX}sII")
_CHECK = struct.Struct(">I")
HEAD_BYTES = _HEAD.size + _CHECK.size


def entry(value: bytes, digest: str) -> bytes:
    """The content of the file."""
    head = _HEAD.pack(MAGIC, digest.encode("ascii"), len(value), crc32(value))
    return head + _CHECK.pack(crc32(head)) + value


def digest_in(content: bytes) -> str | None:
    """The digest in the first HEAD_BYTES of a file, None when they are damaged."""
    if not _head_is_whole(content):
        return None
    digest: bytes = _HEAD.unpack_from(content)[1]
    return digest.rstrip(b"\0").decode("ascii")


def value_in(content: bytes) -> bytes | None:
    """The value in a file, None when it is damaged."""
    if not _head_is_whole(content):
        return None
    _, _, size, check = _HEAD.unpack_from(content)
    value = content[HEAD_BYTES:]
    return value if len(value) == size and crc32(value) == check else None


def _head_is_whole(content: bytes) -> bool:
    if len(content) < HEAD_BYTES or not content.startswith(MAGIC):
        return False
    check: int = _CHECK.unpack_from(content, _HEAD.size)[0]
    return crc32(content[: _HEAD.size]) == check
