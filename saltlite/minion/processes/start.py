"""The start of the minion: the network process is forked before the job server loads most of its code.

A page that either of two processes writes to exists twice, and Python writes to an object whenever it is used. Forked
this early, the network process has no page of the loader and of the jobs, and both processes load their own modules at
the same time. It has no network socket, and reads no key, until the job server has sent it the minion's id and key.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from saltlite import __version__
from saltlite.errors import StartupError
from saltlite.minion.processes import identity
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.model.clock import Clock
from saltlite.model.keys import fingerprint
from saltlite.model.masters import format_address, parse_address
from saltlite.platform import logs, versions
from saltlite.platform.daemon import InstanceLock, SystemClock
from saltlite.platform.privileges import UserAccount, account_of, drop_to, private_dir, start_log
from saltlite.platform.process import SETTLED_S, trim_heap, unmap_clean_pages
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel
from saltlite.platform.supervision import Children, Spec
from saltlite.wire.framing import read_frame, unpack
from saltlite.wire.noise import public_of

if TYPE_CHECKING:
    from saltlite.config.minion import MinionConfig


def run_minion(config: MinionConfig, opts: dict[str, Any], on_ready: Callable[[], None] = lambda: None) -> None:
    """Run the minion until it is stopped; `opts` are `opts_of` the configuration. Raises StartupError when it cannot
    start."""
    clock = SystemClock()
    me, account = UserAccount("", os.geteuid(), os.getegid()), account_of(config.user)
    for folder in (config.pki_dir, config.data_dir, config.cachedir, running_dir(config)):
        private_dir(folder, me.uid, me.gid)
    # Not before: the file in data_dir says what runs, so no other user may write there.
    versions.enter(config.data_dir)
    start_log(config.log_level, config.log_file, account, config.log_format)
    lock = InstanceLock(os.path.join(config.data_dir, "lock"), program="saltlite-minion", root_dir=config.root_dir)
    reactor = Reactor()
    network = NetworkChild(reactor, config, clock)
    network.start()
    from saltlite.minion.processes.app import MinionDaemon  # noqa: PLC0415 - not before the fork

    daemon = MinionDaemon(reactor, network, config, opts, clock, on_ready)
    daemon.run()
    lock.close()
    if daemon.gave_up:
        versions.start_base(config.data_dir)


def running_dir(config: MinionConfig) -> str:
    """The folder with a file for each running job."""
    return os.path.join(config.data_dir, "running")


class NetworkChild:
    """Keeps the network process running, and gives the job server the socket to each new one."""

    def __init__(self, reactor: Reactor, config: MinionConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._connect: Callable[[socket.socket], None] | None = None
        self._on_ready: Callable[[], None] = lambda: None
        self._on_failed: Callable[[str], None] = lambda _sentence: None
        self._children = Children(
            reactor,
            [Spec("minion link", self._run, self._keeps, self._make_pair, self._attach)],
            on_ready=self._ready,
            on_failed=self._failed,
        )

    def start(self) -> None:
        """Fork it. It waits for the message `start`."""
        self._children.start()

    def use(
        self,
        connect: Callable[[socket.socket], None],
        *,
        on_ready: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Call `connect` with the socket to the network process, now and after each restart.

        `on_ready` is called once, when it has started; `on_failed(sentence)` if it cannot start before that.
        """
        self._connect, self._on_ready, self._on_failed = connect, on_ready, on_failed
        self._attach()

    def stop(self, done: Callable[[], None]) -> None:
        """End it, then call `done()`."""
        self._children.stop(done)

    def _ready(self) -> None:
        self._on_ready()

    def _failed(self, sentence: str) -> None:
        self._on_failed(sentence)

    def _make_pair(self) -> None:
        self._pair = socket.socketpair()

    def _keeps(self) -> tuple[int, ...]:
        # Above all not the journal, and not the sockets at which processes with all rights wait for their jobs.
        return () if self._pair is None else (self._pair[1].fileno(),)

    def _attach(self) -> None:
        if self._pair is None or self._connect is None:
            return
        ours, theirs = self._pair
        theirs.close()
        self._pair = None
        self._connect(ours)

    def _run(self, ready: Callable[[], None]) -> None:
        """The life of the network process."""
        # Now, because `user` may not be able to read Python's folders.
        from saltlite.minion.processes.network import NetworkProcess  # noqa: PLC0415 - only this process needs them
        from saltlite.minion.protocol.connection import ConnectionMachine, MinionIdentity  # noqa: PLC0415 - as above
        from saltlite.platform.zmq_link import DealerLink  # noqa: PLC0415 - only this process loads ZeroMQ
        from saltlite.wire.directory import from_rows  # noqa: PLC0415 - as above

        if self._pair is None:
            raise StartupError("the network process was started without a way to the job server")
        ours, theirs = self._pair
        ours.close()
        raw = read_frame(partial(os.read, theirs.fileno()))
        if raw is None:
            return  # the job server could not start, and has said why
        start = unpack(raw)
        logs.set_log_context(id=start["id"])
        me = MinionIdentity(
            id=start["id"],
            private=identity.minion_key(self._config.pki_dir, self._clock.entropy),
            boot=start["boot"],
            incarnation=start["incarnation"],
            run=start["run"],
            version=__version__,
            functions=start["functions"]["digest"],
            token=start["proof"],
        )
        drop_to(self._config.user)
        reactor = Reactor()
        known = from_rows(start["masters"])
        connection = ConnectionMachine(me, masters_of(self._config), start["fleet"], self._clock, known)
        network = NetworkProcess(
            reactor,
            connection,
            lambda owner: DealerLink(reactor, owner.on_up, owner.on_frame, owner.on_down),
            start["functions"],
            key=fingerprint(public_of(me.private)),
        )
        channel = Channel(
            reactor,
            theirs,
            network.on_batch,
            network.on_closed,
            message_max=ipc.MESSAGE_MAX,
            send_buffer_max=ipc.BUFFER_MAX,
        )
        reactor.on_signal(signal.SIGTERM, network.stop)
        # Ctrl-C reaches the whole group; the job server decides.
        reactor.on_signal(signal.SIGINT, lambda: None)
        ready()
        trim_heap()
        network.start(channel)
        reactor.call_later(SETTLED_S, unmap_clean_pages)
        reactor.run()


def masters_of(config: MinionConfig) -> tuple[str, ...]:
    """`host:port` of each configured master, in order."""
    pairs = [parse_address(text, config.port) for text in config.master]
    return tuple(format_address(host, port) for host, port in pairs)
