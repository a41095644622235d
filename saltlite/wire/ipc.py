"""Maps between the processes of one daemon, as bytes.

Both ends are our own, so nothing is checked here; what strangers send is read by `saltlite.wire.codec`.
"""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

Inside = dict[str, Any]
"""One message: `t` says which."""


def pack(message: Inside) -> bytes:
    """Encode one message."""
    packed: bytes = msgpack.packb(message, use_bin_type=True)
    return packed


def unpack(data: bytes) -> Inside:
    """Decode one message of another process of this daemon."""
    message: Inside = msgpack.unpackb(data, raw=False, strict_map_key=False)
    return message
