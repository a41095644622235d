"""What the master answers, and return values as they come from minions.

The master stores the bytes of a return as they came, so whoever shows it checks it: one that is no value must not end
what others said. What is read here can be shown by every outputter: plain values (`saltlite.model.plain`).
"""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import RemoteProtocolError
from saltlite.model.plain import DEPTH_MAX

TYPE_CHECKING = False  # typing costs as much start-up time as the whole client
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTAINERS_MAX = 1_000_000
"""Lists and maps in one value: an empty one is a byte on the way and 64 in memory."""

_NOT_CONTAINERS = bytes(i for i in range(256) if not (0x80 <= i <= 0x9F or 0xDC <= i <= 0xDF))
_SECONDS = 1
"""msgpack's name for reading its timestamps as plain numbers; minions send none."""


def decode_value(body: bytes, *, containers_max: int = CONTAINERS_MAX) -> Any:
    """The value in the body of a return. Raises RemoteProtocolError("bad-return") for one that is none."""
    try:
        # Each list and map has a header byte of its own; with so few bytes that could be one nothing is to be counted.
        if len(body.translate(None, _NOT_CONTAINERS)) <= DEPTH_MAX:
            return _unpack(body)
        count = _counter(containers_max)
        value = _unpack(body, list_hook=count, object_hook=count)
    except (ValueError, TypeError) as error:  # TypeError: a list as the key of a map
        raise RemoteProtocolError("bad-return", str(error) or type(error).__name__) from error
    _check_depth(value)
    return value


def decode_message(frame: bytes) -> dict[str, Any]:
    """One message of the master, whatever values it carries. Raises RemoteProtocolError.

    What is shown may have been stored by an older version, so keys of any kind are taken, and text that is damaged.
    """
    try:
        message = _unpack(frame)
    except (ValueError, TypeError) as error:
        raise RemoteProtocolError("not-msgpack", str(error) or type(error).__name__) from error
    if not isinstance(message, dict):
        raise RemoteProtocolError("not-a-map", f"the master sent {type(message).__name__}")
    return message


def _unpack(body: bytes, **hooks: Any) -> Any:
    return msgpack.unpackb(
        body, strict_map_key=False, unicode_errors="replace", ext_hook=_no_extension, timestamp=_SECONDS, **hooks
    )


def _counter(most: int) -> Callable[[Any], Any]:
    """Lets so many lists and maps through while they are made, so that a flood stops before it fills the memory."""
    left = most

    def count(container: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise ValueError(f"more than {most} lists and maps")
        return container

    return count


def _no_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"msgpack extension type {code}")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        inside = (one.values() if type(one) is dict else one for one in level if type(one) in (dict, list))
        level = [item for items in inside for item in items if type(item) in (dict, list)]
        if not level:
            return
    raise RemoteProtocolError("bad-return", f"more than {DEPTH_MAX} levels of lists and maps")
