"""A TCP line between minions and a master that can be cut: both ways, one way, or torn off.

A cut holds the bytes back instead of dropping them, as TCP does behind a silent firewall: when the line is whole
again they arrive late. New connections are accepted by the kernel and then hear nothing, as behind a router that
swallows.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

Pair = tuple[socket.socket, socket.socket]

TO_MASTER = "to the master"
TO_MINION = "to the minion"
_READ_BYTES = 65536


class Proxy:
    """Listens on a port of its own and connects on to `port`, on this machine. Close it at the end."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.passed = {TO_MASTER: 0, TO_MINION: 0}
        """Bytes that went through so far."""
        self._open = {TO_MASTER: threading.Event(), TO_MINION: threading.Event()}
        self._pairs: dict[Pair, int] = {}
        """How many threads still carry for each; the last one closes it."""
        self._lock = threading.Lock()
        self.mend()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *directions: str) -> None:
        """Hold back what goes in these directions."""
        for direction in directions:
            self._open[direction].clear()

    def mend(self) -> None:
        """Let everything through again, what was held back first."""
        for gate in self._open.values():
            gate.set()

    def tear(self) -> None:
        """End every connection with a reset on both sides."""
        with self._lock:
            for end in (end for pair in self._pairs for end in pair):
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    # The threads that wait in recv wake up by this, and close the socket, which resets it.
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening, end all connections and the threads that carry them."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.mend()
        self.tear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(theirs,), daemon=True).start()

    def _connect(self, theirs: socket.socket) -> None:
        for gate in self._open.values():
            gate.wait()
        try:
            ours = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            theirs.close()
            return
        pair = (theirs, ours)
        with self._lock:
            self._pairs[pair] = len(pair)
        for source, sink, direction in ((theirs, ours, TO_MASTER), (ours, theirs, TO_MINION)):
            threading.Thread(target=self._carry, args=(source, sink, direction, pair), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, direction: str, pair: Pair) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_READ_BYTES):
                self._open[direction].wait()
                sink.sendall(data)
                self.passed[direction] += len(data)
        self._open[direction].wait()
        with self._lock:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            self._pairs[pair] -= 1
            if not self._pairs[pair]:
                del self._pairs[pair]
                source.close()
                sink.close()
