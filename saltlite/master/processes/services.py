"""The processes that MWorkers ask through a socket: one checks passwords, the other one has pillars made."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable

from saltlite.config.master import MasterConfig
from saltlite.config.opts import opts_of
from saltlite.errors import RefusedError, StartupError
from saltlite.platform.children import Spec
from saltlite.platform.privileges import drop_to, read_secret
from saltlite.platform.process import PR_SET_DUMPABLE, prctl
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Acceptor, Channel, Peer
from saltlite.platform.trust import require_trusted

AUTH = "auth"
EVALUATORS = "evaluators"


def auth_spec(config: MasterConfig, listener: socket.socket) -> Spec:
    """The process that checks passwords; it listens there."""
    return Spec(AUTH, lambda ready: _run_auth(config, listener, ready), lambda: (listener.fileno(),))


def evaluators_spec(config: MasterConfig, listener: socket.socket) -> Spec:
    """The process that has pillars made; it listens there."""
    return Spec(EVALUATORS, lambda ready: _run_evaluators(config, listener, ready), lambda: (listener.fileno(),))


def _run_auth(config: MasterConfig, mworkers: socket.socket, ready: Callable[[], None]) -> None:
    """Keeps its rights: PAM needs them, and files that MWorkers may not read."""
    from saltlite.loader.index import build_index  # noqa: PLC0415 - the other processes never load a plug-in
    from saltlite.loader.loader import Loader  # noqa: PLC0415 - as above
    from saltlite.loader.search_path import search_layers  # noqa: PLC0415 - as above
    from saltlite.master.processes.auth_process import AuthProcess  # noqa: PLC0415 - as above
    from saltlite.master.processes.backends import MESSAGE_MAX  # noqa: PLC0415 - as above

    opts = {**opts_of(config, "master"), "sharedsecret": _sharedsecret(config)}
    try:
        require_trusted([*config.module_dirs, *config.auth_dirs, config.extension_modules])
    except RefusedError as error:
        raise StartupError(f"no backend of external_auth can be loaded: {error}") from error
    loader = Loader(build_index(search_layers(opts, AUTH)), opts, {}, {})
    for backend in config.external_auth:
        if f"{backend}.auth" not in loader:
            reason = loader.not_loaded().get(backend, "there is no such file among the folders of backends")
            raise StartupError(f"external_auth names the backend {backend!r}, which cannot be used: {reason}")
        _ = loader[f"{backend}.auth"]
    prctl(PR_SET_DUMPABLE, 0)
    reactor = Reactor()
    process = AuthProcess(reactor, loader)
    _accept_mworkers(reactor, mworkers, process.add, message_max=MESSAGE_MAX, send_buffer_max=16 * MESSAGE_MAX)
    until_sigterm(reactor, ready)


def _sharedsecret(config: MasterConfig) -> str:
    """What the backend `sharedsecret` asks for; "" is no secret, and lets nobody in."""
    if not config.sharedsecret_file:
        return ""
    raw = read_secret(config.sharedsecret_file)
    if raw is None:
        raise StartupError(f"sharedsecret_file names {config.sharedsecret_file}, and there is no such file")
    try:
        return raw.decode().strip()
    except UnicodeDecodeError:
        raise StartupError(f"{config.sharedsecret_file} is not text in UTF-8") from None


def _run_evaluators(config: MasterConfig, mworkers: socket.socket, ready: Callable[[], None]) -> None:
    """Opens no store: what is evaluated here is text that somebody wrote."""
    from saltlite.master.processes.evaluators import BUFFER_MAX, MESSAGE_MAX, Evaluators  # noqa: PLC0415 - as above
    from saltlite.pillar.compiler import has_top  # noqa: PLC0415 - as above
    from saltlite.pillar.files import DiskPillarFiles  # noqa: PLC0415 - as above
    from saltlite.pillar.jinja_templates import load_jinja  # noqa: PLC0415 - the other processes never load it

    files = DiskPillarFiles(config.pillar_roots)
    if has_top(files):
        load_jinja()
    drop_to(config.user)
    reactor = Reactor()
    process = Evaluators(reactor, files, config.nodegroups)
    _accept_mworkers(reactor, mworkers, process.add, message_max=MESSAGE_MAX, send_buffer_max=BUFFER_MAX)
    until_sigterm(reactor, ready)
    process.close()


def _accept_mworkers(
    reactor: Reactor,
    mworkers: socket.socket,
    add: Callable[[Callable[[Callable[[list[bytes]], None], Callable[[str], None]], Channel]], None],
    *,
    message_max: int,
    send_buffer_max: int,
) -> None:
    """Have each MWorker that connects added, with what makes the channel to it."""

    def accept(sock: socket.socket, _peer: Peer) -> None:
        def make_channel(on_batch: Callable[[list[bytes]], None], on_close: Callable[[str], None]) -> Channel:
            def closed(reason: str) -> None:
                acceptor.released()
                on_close(reason)

            return Channel(reactor, sock, on_batch, closed, message_max=message_max, send_buffer_max=send_buffer_max)

        add(make_channel)

    acceptor = Acceptor(reactor, mworkers, accept)


def until_sigterm(reactor: Reactor, ready: Callable[[], None]) -> None:
    """Run the loop until the supervisor asks this process to end."""
    reactor.on_signal(signal.SIGTERM, reactor.stop)
    # Ctrl-C reaches the whole group; the supervisor is who decides.
    reactor.on_signal(signal.SIGINT, lambda: None)
    ready()
    reactor.run()
