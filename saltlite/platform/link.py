"""The port of the network link, which carries complete frames in order between the master and its minions.

It knows nothing about keys or sessions. `saltlite.platform.zmq_link` implements it with ZeroMQ, `saltlite.testing.link`
in memory; one contract suite tests both.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from saltlite.errors import LinkError

LINK_FRAME_MAX: Final = 132 * 1024
"""Bytes of one frame; the link disconnects a peer that sends a longer one."""

QUEUE_FRAMES: Final = 64
"""Frames that may be queued for one peer in each direction; then `send` returns FULL. Long queues belong in the store.

ZeroMQ frees its queue in halves, so `send` may return FULL when more than half as many are queued.
"""

DATA_PREFIX: Final = b"\x02\x04"
"""The first bytes of a frame in an established session (frame version 1, type 4), which is the only frequent kind."""

NO_CONNECTION: Final = -1
"""The connection number of DATA frames, for which it is not looked up, because this would cost time."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[IPv6]:port`. Raises LinkError for any other form."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise LinkError(f"{address!r} is not the address of a master: write host:port or [IPv6 address]:port")
    return host, int(port)


class SendResult(Enum):
    """The result of sending a frame."""

    OK = "ok"
    """Queued in order; it may still be lost with the connection."""
    FULL = "full"
    """Not queued, because the peer does not keep up; the owner retries later."""
    GONE = "gone"
    """Not queued, because the connection does not exist (any more)."""


OnServerFrame = Callable[[bytes, int, str, bytes], None]
"""route, connection, address, frame. DATA frames come with connection -1 and address ""."""


OnConnect = Callable[[int, str], None]
"""connection, address."""


def no_limit(_connection: int, _address: str) -> None:
    """The `on_connect` of an owner that does not limit connections."""


class ServerLink(Protocol):
    """The master's end: many peers, each with an opaque route that is never reused.

    The owner passes `on_frame(route, connection, address, frame)`, `on_hangup(connection)`, and optionally
    `on_connect(connection, address)`, which is called before the first frame of a connection. `connection` is the
    number of an open connection, which may be reused later; `address` is the peer's IP address without a port. A hangup
    may be reported before the last frames; sending to the route returns GONE when the connection is really closed.
    """

    @property
    def bad_shape(self) -> int:
        """The number of messages that were dropped because they were not exactly one frame of a known peer."""
        ...

    def send(self, route: bytes, frame: bytes) -> SendResult: ...

    def rest(self) -> None:
        """Frames that arrive may wait a little for each other, until the next `send`: nobody waits for one."""
        ...

    def hang_up(self, connection: int, address: str) -> None:
        """Close the connection now, if it still belongs to that address."""
        ...

    def close(self) -> None: ...


class ClientLink(Protocol):
    """The minion's end: one connection at a time.

    The owner passes `on_up()`, `on_frame(frame)` and `on_down(reason)`. `on_up` is called before the first frame of a
    connection; `on_down` at most once per `open`, with a sentence, and never after `close`. Events of an earlier
    connection are never reported for a later one. The link does not reconnect by itself.
    """

    def open(self, address: str) -> None:
        """Connect to `host:port` or `[IPv6]:port`. An open connection is closed first, without `on_down`.

        Raises LinkError for an address of another form. All other errors are reported by `on_down`.
        """
        ...

    def send(self, frame: bytes) -> SendResult: ...

    def close(self) -> None: ...
