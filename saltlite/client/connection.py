"""One connection to the master's Unix stream socket, and the decoding of what the master sends.

A frame is a u32 big-endian length and that many bytes of msgpack, always one map with text keys. The master stores the
bytes of a return unchecked, so `decode_value` checks them: every outputter can print what it returns
(`saltlite.model.plain`), and one bad return does not affect the others.
"""

from __future__ import annotations

import _socket  # socket itself imports enum and selectors, which take longer than a request
import sys
import time

from saltlite.client import short_messages
from saltlite.errors import RefusedError, RemoteProtocolError, UnreachableError, UsageError
from saltlite.model.plain import DEPTH_MAX

TYPE_CHECKING = False  # importing typing takes as long as the rest of the client
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class FleetClock:
    """The clock by which the times in the master's answers were written, in seconds since 1970.

    It is that of this machine, except where several masters share a database: the clock of the database, which may
    differ, is in each of their answers then.
    """

    __slots__ = ("_own", "ahead_s")

    def __init__(self, own: Callable[[], float] = time.time) -> None:
        self._own = own
        self.ahead_s = 0.0
        """By how many seconds it is ahead of this machine's."""

    def __call__(self) -> float:
        return self._own() + self.ahead_s

    def read(self, answer: dict[str, Any]) -> None:
        """Take the time out of an answer that has just come."""
        now = answer.pop("now", None)
        if now is not None:
            self.ahead_s = now - self._own()


CONTAINERS_MAX = 1_000_000
"""Lists and maps in one value; an empty one takes a byte in the message and 64 in memory."""

ANSWER_TIMEOUT_S = 60.0
"""How long the master may take to answer a request; a publish includes resolving the target and one fsync."""

_NOT_CONTAINERS = bytes(i for i in range(256) if not (0x80 <= i <= 0x9F or 0xDC <= i <= 0xDF))
_MSGPACK = "msgpack"
"""Once it is loaded, it is faster for short messages, too."""
_SECONDS = 1
"""msgpack's name for reading its timestamps as plain numbers; minions send none."""


def decode_value(body: bytes, *, containers_max: int = CONTAINERS_MAX) -> Any:
    """The value in the body of a return. Raises RemoteProtocolError("bad-return")."""
    try:
        # Each list and map has its own header byte; so few bytes that could be headers need no counting.
        if len(body.translate(None, _NOT_CONTAINERS)) <= DEPTH_MAX:
            return _unpack(body)
        count = _counter(containers_max)
        value = _unpack(body, list_hook=count, object_hook=count)
    except (ValueError, TypeError) as error:  # TypeError: a list as the key of a map
        raise RemoteProtocolError("bad-return", str(error) or type(error).__name__) from error
    _check_depth(value)
    return value


def decode_message(frame: bytes) -> dict[str, Any]:
    """One message of the master. Raises RemoteProtocolError.

    An older version may have stored what it carries, so keys of any kind and damaged text are accepted.
    """
    try:
        message = _unpack(frame)
    except (ValueError, TypeError) as error:
        raise RemoteProtocolError("not-msgpack", str(error) or type(error).__name__) from error
    if not isinstance(message, dict):
        raise RemoteProtocolError("not-a-map", f"the master sent {type(message).__name__}")
    return message


def _unpack(body: bytes, **hooks: Any) -> Any:
    if _MSGPACK not in sys.modules and not hooks:
        value = _SHORT.unpack(body)
        if value is not short_messages.NOT_SHORT:
            return value
    import msgpack  # type: ignore[import-untyped]  # slow to import; and the package ships no type information

    return msgpack.unpackb(
        body, strict_map_key=False, unicode_errors="replace", ext_hook=_no_extension, timestamp=_SECONDS, **hooks
    )


class _ShortMessages:
    """Decodes what a short command reads. A longer one has enough to read that loading msgpack pays."""

    def __init__(self) -> None:
        self._left = short_messages.SHORT_BYTES

    def unpack(self, body: bytes) -> Any:
        """The value, or NOT_SHORT."""
        self._left -= len(body)
        return short_messages.NOT_SHORT if self._left < 0 else short_messages.unpack(body)


_SHORT = _ShortMessages()


def _pack(message: dict[str, Any]) -> bytes:
    if _MSGPACK not in sys.modules:
        packed = short_messages.pack(message)
        if packed is not short_messages.NOT_SHORT:
            return packed
    import msgpack

    return bytes(msgpack.packb(message))


def _counter(most: int) -> Callable[[Any], Any]:
    """A hook that raises ValueError after this many lists and maps, before a flood of them fills the memory."""
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


FRAME_MAX_BYTES = 64 * 1024 * 1024
"""The largest frame that is accepted; a longer one ends the connection."""

SEND_TIMEOUT_S = 10
"""How long the master may take to accept a connection, or to read a request."""

_LENGTH_BYTES = 4
_INT_BYTES = 4
_LONG_BYTES = 8 if sys.maxsize > 1 << 32 else 4
_READ_BYTES = 256 * 1024


class ConnectionLostError(UnreachableError):
    """The connection ended before the answer: the request may or may not have been executed."""


class Connection:
    """A connected socket. After any exception from it, close it and open a new one."""

    def __init__(self, path: str, trusted: frozenset[int] | None = None) -> None:
        """Connect to the socket at `path`. Raises UnreachableError, or RefusedError without the rights.

        With `trusted`, also raises RefusedError when none of these users listens there.
        """
        self._path = path
        self._buffer = bytearray()
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        timeval = SEND_TIMEOUT_S.to_bytes(_LONG_BYTES, sys.byteorder) + bytes(_LONG_BYTES)  # seconds, microseconds
        try:
            # A Python timeout makes the socket non-blocking, and then a full backlog is an error at once.
            self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, timeval)
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise _connect_error(path, error) from error
        if trusted is not None and (listening := self._listening_user()) not in trusted:
            self._socket.close()
            raise RefusedError(
                f"user {listening} listens on {path} and is neither root nor the owner of the configuration: "
                "nothing was sent there, and no password"
            )

    def _listening_user(self) -> int:
        credentials = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * _INT_BYTES)
        return int.from_bytes(credentials[_INT_BYTES : 2 * _INT_BYTES], sys.byteorder)  # between pid and group

    def close(self) -> None:
        """Close the socket; may be called twice."""
        self._socket.close()

    def send(self, message: dict[str, Any]) -> None:
        """Send one frame. Raises ConnectionLostError, or UsageError for a value that msgpack cannot encode."""
        try:
            payload = _pack(message)
        except (TypeError, ValueError, OverflowError) as error:  # text that is not UTF-8 is a ValueError
            raise UsageError(f"an argument cannot be sent to the master: {error}") from error
        try:
            self._socket.settimeout(SEND_TIMEOUT_S)
            self._socket.sendall(len(payload).to_bytes(_LENGTH_BYTES, "big") + payload)
        except OSError as error:
            raise self._lost() from error

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next frame, or None when it is not complete after `timeout_s` seconds (None: no limit).

        Raises ConnectionLostError at the end of the stream, RemoteProtocolError for a malformed frame.
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
        if len(self._buffer) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
        if length > FRAME_MAX_BYTES:
            raise RemoteProtocolError("oversize", f"a frame of {length} bytes from {self._path}")
        end = _LENGTH_BYTES + length
        if len(self._buffer) < end:
            return None
        frame = bytes(memoryview(self._buffer)[_LENGTH_BYTES:end])
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
    detail = "" if isinstance(error, FileNotFoundError | ConnectionRefusedError) else f" ({error.strerror or error})"
    return UnreachableError(
        f"the master does not answer on {path}{detail}: is saltlite-master running? "
        "Start it, or name its configuration folder with -c"
    )
