"""Messages over Unix stream sockets: between the processes of one daemon, and from the CLI to the master.

A message is its length as an unsigned 32-bit big-endian number, followed by its bytes. The kernel identifies the peer
(`Peer`), so there is no authentication here. No descriptors are passed.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import stat
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from saltlite.errors import LocalProtocolError, RefusedError, StartupError, UnreachableError
from saltlite.model.dataclass import dataclass
from saltlite.platform.logs import supervised
from saltlite.platform.reactor import Reactor, Timer
from saltlite.wire.framing import LENGTH, IpcMessage, pack, unpack

READ_CHUNK: Final = 64 * 1024
READ_TURN: Final = 256 * 1024
"""Bytes read from one channel in one turn; a batch is the complete messages among them."""

ACCEPTS_A_TURN: Final = 4
"""Connections accepted in one turn; few, so that processes that share a listening socket share the load."""

ACCEPT_PAUSE_S: Final = 1.0
"""Seconds before the next accept when the process is out of descriptors."""

CONNECTIONS_MAX: Final = 512
"""Concurrent connections of one acceptor; further ones wait in the kernel until one ends."""

BACKLOG: Final = 1024
MINIONS_BACKLOG: Final = 4096
"""Minions that may wait to be accepted: a whole fleet may reconnect at once."""
_BUFFERS_A_WRITE = 512
_CREDENTIALS = struct.Struct("3i")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected, at the time of the connection."""

    pid: int
    uid: int
    gid: int


def peer_of(sock: socket.socket) -> Peer:
    """The process at the other end of a connected Unix socket."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))


class Channel:
    """A connected socket as a bidirectional sequence of messages. The channel owns the socket.

    `on_batch(messages)` receives all messages that were completed in one turn, in order, so that the owner can commit
    them together. `on_close(reason)` is called once when the channel ends for any reason except `close`, and never
    during a call by the owner.

    A message longer than `message_max` bytes ends the channel. So does a peer that does not read while more than
    `send_buffer_max` bytes are queued: it can reconnect and ask again, and the daemon neither blocks nor grows.
    """

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        on_batch: Callable[[list[bytes]], None],
        on_close: Callable[[str], None],
        *,
        message_max: int,
        send_buffer_max: int,
    ) -> None:
        self._reactor = reactor
        self._socket = sock
        self._on_batch = on_batch
        self._on_close = on_close
        self._message_max = message_max
        self._send_buffer_max = send_buffer_max
        self._read_turn = READ_TURN
        self._on_large: Callable[[], None] | None = None
        self._under_way = 0
        """Bytes of the incomplete message, including its length prefix."""
        self._received = bytearray()
        self._outgoing: deque[bytes | memoryview[int]] = deque()
        self._buffered = 0
        self._flush_due = False
        self._paused = False
        self._closed = False
        sock.setblocking(False)
        reactor.add_reader(sock.fileno(), self._readable)

    @property
    def buffered(self) -> int:
        """Bytes in the send queue."""
        return self._buffered

    @property
    def closed(self) -> bool:
        return self._closed

    def read_little(self, read_turn: int, on_large: Callable[[], None]) -> None:
        """Read at most `read_turn` bytes per turn, and more only to complete a message.

        `on_large()` is called when a longer message begins. The owner may then pause the channel: at most `read_turn`
        bytes of the message are buffered.
        """
        self._read_turn = read_turn
        self._on_large = on_large

    def send(self, payload: bytes) -> None:
        """Queue a message; those of one turn are written together. On a closed channel this has no effect.

        Raises LocalProtocolError for a message longer than `message_max`.
        """
        if len(payload) > self._message_max:
            raise LocalProtocolError(f"a message of {len(payload)} bytes is over the limit of {self._message_max}")
        if self._closed:
            return
        self._outgoing.append(LENGTH.pack(len(payload)))
        if payload:
            self._outgoing.append(payload)
        self._buffered += LENGTH.size + len(payload)
        if self._buffered > self._send_buffer_max:
            self._write()
        if self._buffered > self._send_buffer_max:
            self._end(f"the peer does not read: {self._buffered} bytes wait for it")
        elif not self._flush_due:
            self._flush_due = True
            self._reactor.call_soon(self._flush)

    def flush(self) -> None:
        """Write as much of the queue as the kernel accepts, so that the peer can start while this turn continues."""
        if not self._closed:
            self._write()

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`; the kernel's full buffers slow the peer down."""
        if not self._paused and not self._closed:
            self._paused = True
            self._reactor.remove_reader(self._socket.fileno())

    def resume_reading(self) -> None:
        if self._paused and not self._closed:
            self._paused = False
            self._reactor.add_reader(self._socket.fileno(), self._readable)

    def close(self) -> None:
        """Close the channel without `on_close`. Data that the kernel accepts at once is sent, the rest dropped."""
        if not self._closed:
            self._write()
            self._shut()

    def _shut(self) -> None:
        if self._closed:
            return
        self._closed = True
        fd = self._socket.fileno()
        self._reactor.remove_reader(fd)
        self._reactor.remove_writer(fd)
        self._socket.close()
        self._outgoing.clear()
        self._received.clear()
        self._buffered = 0

    def _end(self, reason: str) -> None:
        if not self._closed:
            self._shut()
            self._reactor.call_soon(lambda: self._on_close(reason))

    def _flush(self) -> None:
        self._flush_due = False
        if self._closed:
            return
        self._write()
        if self._outgoing and not self._closed:
            self._flush_due = True
            self._reactor.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        self._write()
        if not self._outgoing and not self._closed:
            self._flush_due = False
            self._reactor.remove_writer(self._socket.fileno())

    def _write(self) -> None:
        while self._outgoing:
            try:
                sent = self._socket.sendmsg(list(islice(self._outgoing, _BUFFERS_A_WRITE)))
            except BlockingIOError:
                return
            except OSError as error:
                self._outgoing.clear()
                self._buffered = 0
                reason = f"the connection broke: {error.strerror}"
                self._reactor.call_soon(partial(self._broke, reason))
                return
            self._buffered -= sent
            self._drop_sent(sent)

    def _broke(self, reason: str) -> None:
        # Messages that the peer sent before it disconnected still count.
        if not self._closed and not self._paused:
            self._readable()
        self._end(reason)

    def _drop_sent(self, sent: int) -> None:
        while sent:
            first = self._outgoing.popleft()
            if len(first) > sent:
                self._outgoing.appendleft(memoryview(first)[sent:])
                return
            sent -= len(first)

    def _readable(self) -> None:
        was_under_way = self._under_way > 0
        ended = self._receive()
        batch, broken = self._whole_messages()
        began_large = self._under_way > LENGTH.size + self._read_turn and (batch or not was_under_way)
        if batch:
            self._on_batch(batch)
        if broken or ended:
            self._end(broken or ended)
        elif began_large and self._on_large is not None:
            self._on_large()

    def _receive(self) -> str:
        """Read the available data; the reason why there will be no more, or ""."""
        left = min(max(self._read_turn, self._under_way - len(self._received)), READ_TURN)
        while left > 0:
            size = min(left, READ_CHUNK)
            try:
                chunk = self._socket.recv(size)
            except BlockingIOError:
                return ""
            except OSError as error:
                return f"the connection broke: {error.strerror}"
            if not chunk:
                return "the other side closed the connection"
            self._received += chunk
            left -= len(chunk)
            if len(chunk) < size:
                return ""
        return ""

    def _whole_messages(self) -> tuple[list[bytes], str]:
        batch: list[bytes] = []
        received, at = self._received, 0
        self._under_way = 0
        while len(received) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(received, at)
            if length > self._message_max:
                return batch, f"a message of {length} bytes is over the limit of {self._message_max}"
            end = at + LENGTH.size + length
            if len(received) < end:
                self._under_way = end - at
                break
            batch.append(bytes(received[at + LENGTH.size : end]))
            at = end
        del received[:at]
        return batch, ""


class Acceptor:
    """Accepts connections from a listening socket, which belongs to the caller and may be shared between processes.

    The owner calls `released` when a connection ends; at `connections_max` no more are accepted.
    """

    def __init__(
        self,
        reactor: Reactor,
        listener: socket.socket,
        on_accept: Callable[[socket.socket, Peer], None],
        *,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self._reactor = reactor
        self._listener = listener
        self._on_accept = on_accept
        self._connections_max = connections_max
        self._open = 0
        self._listening = False
        self._closed = False
        listener.setblocking(False)
        self._listen()

    def released(self) -> None:
        """One of the accepted connections has ended."""
        self._open -= 1
        self._listen()

    def close(self) -> None:
        """Accept no more connections."""
        self._rest()
        self._closed = True

    def _listen(self) -> None:
        if not self._listening and not self._closed and self._open < self._connections_max:
            self._listening = True
            self._reactor.add_listener(self._listener.fileno(), self._acceptable)

    def _rest(self) -> None:
        if self._listening:
            self._listening = False
            self._reactor.remove_reader(self._listener.fileno())

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            if self._open >= self._connections_max:
                self._rest()
            if not self._listening:
                return
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                log.warning("connections must wait: %s (increase LimitNOFILE)", error.strerror)
                self._rest()
                self._reactor.call_later(ACCEPT_PAUSE_S, self._listen)
                return
            self._open += 1
            self._on_accept(sock, peer_of(sock))


class PortInUseError(StartupError):
    """Another process listens on the port, for now."""


def listen_tcp(interface: str, port: int) -> socket.socket:
    """A TCP socket that listens on `interface` (an address or a name, v4 or v6) for the network link.

    `::` accepts IPv4 peers as well. Raises StartupError, which says what to do, and PortInUseError if waiting may help.
    """
    try:
        found = socket.getaddrinfo(interface.encode(), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StartupError(f"interface {interface} is not a network address: {error.strerror}") from error
    family, _, _, _, where = found[0]
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(where)
        listener.listen(MINIONS_BACKLOG)
    except OSError as error:
        listener.close()
        kind = PortInUseError if error.errno == errno.EADDRINUSE else StartupError
        raise kind(_why_no_listener(error, interface, port)) from error
    return listener


def _why_no_listener(error: OSError, interface: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {interface} is in use by another program: "
            f"find it with `ss -ltnp sport = :{port}`, or set another `port`"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {interface} may not be opened: run as root, or set a `port` above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"this machine has no address {interface} for port {port}: set `interface` to one of its addresses"
    return f"port {port} on {interface} cannot be opened: {error.strerror}"


def listen_unix(path: str, mode: int, *, parent_mode: int = 0o755) -> socket.socket:
    """A listening Unix socket at `path` with these permissions; a missing parent folder is created.

    The socket of a dead process is replaced. Raises StartupError if another process answers on it, if there is another
    kind of file, or if the path cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        _make_parent(path, parent_mode)
        _remove_stale(path)
        listener.bind(path)
        # No process can connect before `listen`, so the permissions are never wider than `mode`.
        os.chmod(path, mode)
        listener.listen(BACKLOG)
    except StartupError:
        listener.close()
        raise
    except OSError as error:
        listener.close()
        raise StartupError(_why_no_socket(error, path)) from error
    return listener


def connect_unix(path: str, *, made_by: int | None = None) -> socket.socket:
    """Connect to the process that listens on `path`, without waiting.

    Raises UnreachableError if no process answers, RefusedError if this user may not connect, or if a user other than
    `made_by` listens there (None: any user).
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        sock.connect(path)
    except PermissionError as error:
        sock.close()
        raise RefusedError(f"user {os.geteuid()} may not connect to {path}: ask its owner for access") from error
    except BlockingIOError as error:
        sock.close()
        raise UnreachableError(f"too many connections wait at {path}: try again soon") from error
    except OSError as error:
        sock.close()
        raise UnreachableError(f"no process answers on {path}: {error.strerror or error}; is the daemon up?") from error
    found = peer_of(sock).uid
    if made_by is not None and found != made_by:
        sock.close()
        raise RefusedError(f"{path} is not the daemon's: user {found} listens there, and not user {made_by}")
    return sock


class ProcessClient:
    """Numbered requests to another process of this daemon, each answered once; the answer carries the number as `n`.

    The process that listens at `path` must belong to the user `uid`. `purpose` completes the log entry when it cannot
    be reached: "no user can log in".
    """

    def __init__(
        self, reactor: Reactor, path: str, uid: int, purpose: str, *, message_max: int, send_buffer_max: int
    ) -> None:
        self._reactor = reactor
        self._path = path
        self._uid = uid
        self._purpose = purpose
        self._message_max = message_max
        self._send_buffer_max = send_buffer_max
        self._channel: Channel | None = None
        self._pending: dict[int, tuple[Callable[[IpcMessage | None], None], Timer]] = {}
        self._numbers = 0

    def ask(self, request: IpcMessage, within_s: float, done: Callable[[IpcMessage | None], None]) -> None:
        """`done` gets the answer, or None when the process does not answer in time or cannot be reached.

        Raises LocalProtocolError for a request that is too large to send.
        """
        if self._channel is None:
            self._connect()
        if self._channel is None:
            done(None)
            return
        self._numbers += 1
        number = self._numbers
        self._channel.send(pack({**request, "n": number}))
        self._pending[number] = done, self._reactor.call_later(within_s, lambda: self._answered(number, None))

    def _answered(self, number: int, answer: IpcMessage | None) -> None:
        done, timer = self._pending.pop(number, (None, None))
        if done is not None and timer is not None:
            timer.cancel()
            done(answer)

    def _connect(self) -> None:
        try:
            # The folder of the socket belongs to the master's user, so a compromised process could replace the socket.
            sock = connect_unix(self._path, made_by=self._uid)
        except (UnreachableError, RefusedError) as error:
            log.error("%s: %s", self._purpose, error)  # noqa: TRY400 - the sentence says it all
            return
        self._channel = Channel(
            self._reactor,
            sock,
            self._on_batch,
            self._closed,
            message_max=self._message_max,
            send_buffer_max=self._send_buffer_max,
        )

    def _on_batch(self, batch: list[bytes]) -> None:
        for data in batch:
            supervised("an answer of another process", partial(self._take, data))

    def _take(self, data: bytes) -> None:
        answer = unpack(data)
        self._answered(answer["n"], answer)

    def _closed(self, _reason: str) -> None:
        self._channel = None
        for number in list(self._pending):
            self._answered(number, None)


def _make_parent(path: str, mode: int) -> None:
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        os.makedirs(parent, exist_ok=True)
        os.chmod(parent, mode)


def _remove_stale(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StartupError(f"{path} exists and is not a socket: move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return
        except FileNotFoundError:
            return
        except BlockingIOError:
            pass  # its backlog is full, so the process is alive
    raise StartupError(f"another process answers on {path}: stop it, or set another `sock_dir`")


def _why_no_socket(error: OSError, path: str) -> str:
    if error.errno is None:  # Python itself refuses a path that does not fit into sockaddr_un
        length = len(os.fsencode(path))
        return f"{path} has {length} bytes and a Unix socket's path may have 107: set a shorter `sock_dir`"
    if isinstance(error, PermissionError):
        return f"no socket can be created at {path}: run as root, or set `sock_dir` to a folder of yours"
    return f"no socket can be created at {path}: {error.strerror}"
