"""One connection to the master's Unix stream socket: frames out, frames in.

A frame is a u32 big-endian length and that many bytes of msgpack, always one map with text keys.
"""

from __future__ import annotations

import socket
import struct
import time

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.client.values import decode_message
from saltlite.errors import RefusedError, RemoteProtocolError, UnreachableError, UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as the whole client
if TYPE_CHECKING:
    from typing import Any

FRAME_MAX_BYTES = 64 * 1024 * 1024
"""The largest frame that is taken; a longer one ends the connection."""

SEND_TIMEOUT_S = 10
"""How long the master may take to accept a connection, or to take a request from it."""

_LENGTH = struct.Struct(">I")
_READ_BYTES = 256 * 1024


class ConnectionLostError(UnreachableError):
    """The connection was there and ended: what was asked may have been done or not."""


class Connection:
    """A connected socket. After any exception from it, close it and make a new one."""

    def __init__(self, path: str, trusted: frozenset[int] | None = None) -> None:
        """Connect to the socket at `path`. Raises UnreachableError, or RefusedError for a lack of rights.

        With `trusted` it is also a RefusedError when who listens there is none of these users.
        """
        self._path = path
        self._buffer = bytearray()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            # A socket with a Python timeout is not blocking, and then a full backlog is an error at once.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", SEND_TIMEOUT_S, 0))
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise _connect_error(path, error) from error
        listening = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if trusted is not None and listening not in trusted:
            self._socket.close()
            raise RefusedError(
                f"user {listening} listens on {path}, who is neither root nor the owner of the configuration: "
                "nothing was sent there, least of all a password"
            )

    def close(self) -> None:
        """Close the socket; a second time does nothing."""
        self._socket.close()

    def send(self, message: dict[str, Any]) -> None:
        """Send one frame. Raises ConnectionLostError, or UsageError for a value without a msgpack form."""
        try:
            payload = msgpack.packb(message)
        except (TypeError, ValueError, OverflowError) as error:  # text that is not UTF-8 is a ValueError
            raise UsageError(f"an argument cannot be sent to the master: {error}") from error
        try:
            self._socket.settimeout(SEND_TIMEOUT_S)
            self._socket.sendall(_LENGTH.pack(len(payload)) + payload)
        except OSError as error:
            raise self._lost() from error

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next frame, or None when it is not complete after `timeout_s` seconds (None waits for ever).

        Raises ConnectionLostError at the end of the stream, RemoteProtocolError for a frame that is not one.
        """
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            frame = self._take_frame()
            if frame is not None:
                return decode_message(frame)
            left = None if give_up_at is None else max(0.0, give_up_at - time.monotonic())
            try:
                self._socket.settimeout(left)
                chunk = self._socket.recv(_READ_BYTES)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError as error:
                raise self._lost() from error
            if not chunk:
                raise self._lost()
            self._buffer += chunk

    def _take_frame(self) -> bytes | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > FRAME_MAX_BYTES:
            raise RemoteProtocolError("oversize", f"a frame of {length} bytes from {self._path}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        frame = bytes(memoryview(self._buffer)[_LENGTH.size : end])
        del self._buffer[:end]
        return frame

    def _lost(self) -> ConnectionLostError:
        return ConnectionLostError(f"the master closed the connection on {self._path} before it answered")


def _connect_error(path: str, error: OSError) -> UnreachableError | RefusedError:
    if isinstance(error, PermissionError):
        return RefusedError(f"you may not use {path}: run this as root, or as the user who started saltlite-master")
    if isinstance(error, BlockingIOError):
        return UnreachableError(
            f"the master did not take a connection on {path} within {SEND_TIMEOUT_S}s: "
            "it is overloaded or stopped; look at its log"
        )
    said = "" if isinstance(error, FileNotFoundError | ConnectionRefusedError) else f" ({error.strerror or error})"
    return UnreachableError(
        f"the master does not answer on {path}{said}: is saltlite-master running? "
        "Start it, or name its configuration folder with -c"
    )
