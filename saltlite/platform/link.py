"""The port of the network link: what the two ends of a minion's connection are to the rest of saltlite.

A link carries whole frames in order, both ways, and says who is there. It knows nothing of keys or sessions.
`saltlite.platform.zmq_link` puts ZeroMQ behind it, `saltlite.testing.link` a queue; one contract
suite runs against both.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from saltlite.errors import LinkError

LINK_FRAME_MAX: Final = 132 * 1024
"""Bytes of one frame on the link; a peer that sends a longer one is disconnected by the link itself."""

QUEUE_FRAMES: Final = 64
"""Frames that may wait for one peer each way; then `send` answers FULL. Big queues belong in the store.

ZeroMQ gives room back in halves, so that FULL may come when more than half as many wait.
"""

DATA_PREFIX: Final = b"\x02\x04"
"""How a frame of an established session begins (frame version 1, type 4): the only kind that is frequent."""

NO_CONNECTION: Final = -1
"""Stands for the connection number of a DATA frame, which is not looked up because that costs time."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[IPv6]:port`. Raises LinkError for any other form."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise LinkError(f"{address!r} is no address of a master: write host:port or [IPv6 address]:port")
    return host, int(port)


class SendResult(Enum):
    """What became of a frame that was handed to the link."""

    OK = "ok"
    """Queued in order; it may still be lost with the connection."""
    FULL = "full"
    """Not taken: the peer does not keep up. Nothing was sent; the owner keeps the frame and tries later."""
    GONE = "gone"
    """Not taken: there is no such connection (any more)."""


OnServerFrame = Callable[[bytes, int, str, bytes], None]
"""route, connection, address, frame. DATA frames come with connection -1 and address ""."""


OnConnect = Callable[[int, str], None]
"""connection, address."""


def nobody_counts(_connection: int, _address: str) -> None:
    """For an owner that does not limit connections."""


class ServerLink(Protocol):
    """The master's end: many peers, each known by an opaque route that is never used twice.

    The owner gives `on_frame(route, connection, address, frame)`, `on_hangup(connection)`, and may give
    `on_connect(connection, address)`, which comes before the first frame of that connection. `connection` is
    a number that belongs to one open connection and may be used again for a later one; `address` is the
    peer's IP address without a port. A hangup is only a bell: it may come before the last frames, so that
    whoever wants to be sure sends to the route and looks for GONE.
    """

    @property
    def bad_shape(self) -> int:
        """How many messages were thrown away because they were not exactly one frame of a known peer."""
        ...

    def send(self, route: bytes, frame: bytes) -> SendResult: ...

    def hang_up(self, connection: int, address: str) -> None:
        """End that connection now, if it still belongs to that address; the peer sees a disconnection."""
        ...

    def close(self) -> None: ...


class ClientLink(Protocol):
    """The minion's end: one connection at a time, made anew by every `open`.

    The owner gives `on_up()`, `on_frame(frame)` and `on_down(reason)`. `on_up` comes before the first frame
    of a connection; `on_down` at most once an `open`, with a sentence, and never after `close`. Nothing of an
    earlier connection is ever reported for a later one. The link never reconnects by itself.
    """

    def open(self, address: str) -> None:
        """Connect to `host:port` or `[IPv6]:port`; an open connection is closed first, silently.

        Raises LinkError for an address of another form. Everything else that fails is reported by `on_down`.
        """
        ...

    def send(self, frame: bytes) -> SendResult: ...

    def close(self) -> None: ...
