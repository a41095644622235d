"""Reading a ZeroMQ socket from the reactor at full speed, without ever losing a wake-up.

The descriptor of a ZeroMQ socket does not say "there is a message". It says "there is a signal", once, and
any call on the socket may use that signal up, `send` included. Three rules keep messages from being left
behind, and they are all of this file:

1. a drain ends only when `recv` said EAGAIN (that call has processed every pending signal, so the next one
   makes the descriptor readable), or
2. it ends on its budget and has asked the reactor to come back, and
3. after each send the owner calls `kick`, which asks the reactor to come back once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import zmq

from saltlite.platform.reactor import Reactor

DRAIN_BUDGET: Final = 256
"""Messages taken in one turn before other callbacks of the reactor get theirs."""

PARTS_KEPT: Final = 3
"""Parts of one message that are handed on; no message of ours has as many, so the rest is thrown away."""

OnMessage = Callable[[list[zmq.Frame]], None]


class DrainReader:
    """Hands every message of `socket` to `on_message` as its list of parts (at most PARTS_KEPT)."""

    def __init__(
        self,
        reactor: Reactor,
        socket: zmq.Socket[bytes],
        on_message: OnMessage,
        *,
        budget: int = DRAIN_BUDGET,
    ) -> None:
        self._reactor = reactor
        self._socket = socket
        self._on_message = on_message
        self._budget = budget
        self._kicked = False
        self._closed = False
        self._fd = socket.FD
        reactor.add_reader(self._fd, self.drain)
        # Signals that came before the descriptor was watched may have been used up by earlier calls.
        self.kick()

    def kick(self) -> None:
        """Look for messages in the next turn of the reactor. To be called after each send on the socket."""
        if not self._kicked and not self._closed:
            self._kicked = True
            self._reactor.call_soon(self._drain_kicked)

    def drain(self) -> None:
        """Hand over what is there, up to the budget."""
        recv, on_message = self._socket.recv, self._on_message
        for _ in range(self._budget):
            if self._closed:
                return
            try:
                part = recv(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            parts = [part]
            while part.more:
                # The parts of one message arrive together, so this never has to wait.
                part = recv(zmq.DONTWAIT, copy=False)
                if len(parts) < PARTS_KEPT:
                    parts.append(part)
            on_message(parts)
        self.kick()

    def close(self) -> None:
        """Stop reading. To be called before the socket is closed; the socket stays the owner's."""
        if not self._closed:
            self._closed = True
            self._reactor.remove_reader(self._fd)

    def _drain_kicked(self) -> None:
        self._kicked = False
        self.drain()
