"""The master's composition root: the only place that builds adapters for its processes.

Each process is forked from a parent that has opened no store and no ZeroMQ context, reads the one key that it
needs, drops root's rights, and only then reads data of others.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import pwd
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from saltlite import __version__
from saltlite.auth.acl import PEER, Granted, read_blacklist, read_peer_runs, read_peers, read_rules
from saltlite.auth.logins import guess_limiter
from saltlite.config.opts import opts_of, shown_opts
from saltlite.errors import MisconfiguredError, RefusedError, StartupError
from saltlite.master.processes import identity
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.audit import AuditTrail, audit_dir, digest_of_options
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.processes.own_certificate import ensure_identity_of, keep_certificate
from saltlite.master.processes.store_opening import (
    clock_of,
    load_postgres,
    loaded_areas,
    loaded_inventory,
    prepare_store,
    seal_key_of,
)
from saltlite.master.processes.supervisor import (
    HOOKS,
    LOOK_S,
    MAINTENANCE,
    MEMBERSHIP,
    MWORKER,
    Supervisor,
    Watchdog,
    board_of,
    mworkers,
    without_board,
)
from saltlite.master.protocol.handshakes import Balancers, Handshakes
from saltlite.master.protocol.session_manager import SessionManager
from saltlite.master.store.ports import Store
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import InstanceLock, SystemClock
from saltlite.platform.files import CursorFile, EventLogCursor
from saltlite.platform.logs import LogRelay
from saltlite.platform.privileges import (
    UserAccount,
    account_of,
    drop_to,
    private_dir,
    read_secret,
    require_trusted,
    start_log,
)
from saltlite.platform.process import (
    PR_SET_DUMPABLE,
    SETTLED_S,
    freeze_heap,
    prctl,
    raise_open_files,
    return_freed_memory,
    unmap_clean_pages,
    write_no_files,
)
from saltlite.platform.reactor import Reactor
from saltlite.platform.shared_memory import SharedFillTimes, TurnBoard
from saltlite.platform.stream import Acceptor, Channel, Peer, PortInUseError, listen_tcp, listen_unix
from saltlite.platform.supervision import Spec
from saltlite.resources.registry.admission import RegistrationRules
from saltlite.resources.registry.registry import Conflict
from saltlite.targeting.banks import Banks

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig
    from saltlite.master.store.sharing import SharedStore
    from saltlite.resources.registry.mmap import ResourceRegistry


def returner_names(config: MasterConfig) -> list[str]:
    """Every returner that the configuration names, sorted."""
    return sorted({*config.returner_config, *config.master_returners, *config.event_return})


@dataclass(frozen=True, slots=True)
class Paths:
    """Files and folders of a master."""

    config: MasterConfig

    @property
    def store(self) -> str:
        """The SQLite file."""
        return os.path.join(self.config.data_dir, "store.sqlite")

    @property
    def lock(self) -> str:
        """The lock of the one master of this data_dir."""
        return os.path.join(self.config.data_dir, "lock")

    @property
    def copies(self) -> str:
        """Files in transit of `saltlite cp`."""
        return os.path.join(self.config.cachedir, "copies")

    @property
    def minions(self) -> str:
        """Files that minions sent, one folder each."""
        return os.path.join(self.config.cachedir, "minions")

    @property
    def audit(self) -> str:
        """The folder of the audit log."""
        return audit_dir(self.config.data_dir)

    @property
    def hooks(self) -> str:
        """The cursor of the process of hooks in the event log."""
        return os.path.join(self.config.data_dir, "hooks.json")

    def returner(self, name: str) -> str:
        """The cursor of that returner in the event log."""
        return os.path.join(self.config.data_dir, "returners", f"{name}.json")

    @property
    def readers(self) -> dict[str, str]:
        """The processes that follow the event log, and the file of each one's cursor."""
        of_returners = {f"returner {name}": self.returner(name) for name in returner_names(self.config)}
        return of_returners | ({HOOKS: self.hooks} if self.config.hooks else {})

    @property
    def client_socket(self) -> str:
        """Where the CLI and the API connect."""
        return os.path.join(self.config.sock_dir, "master.ipc")

    @property
    def auth_socket(self) -> str:
        """Where the auth process listens."""
        return os.path.join(self.config.sock_dir, "auth.ipc")

    @property
    def evaluator_socket(self) -> str:
        """Where the evaluators listen."""
        return os.path.join(self.config.sock_dir, "evaluators.ipc")

    @property
    def runner_socket(self) -> str:
        """The socket of the process that runs runners for minions."""
        return os.path.join(self.config.sock_dir, "runners.ipc")

    @property
    def link_socket(self) -> str:
        """Where the link process listens."""
        return os.path.join(self.config.sock_dir, "link.ipc")


AUTH = "auth"
EVALUATORS = "evaluators"
PEER_RUNNERS = "peer runners"


def auth_spec(config: MasterConfig, listener: socket.socket) -> Spec:
    """The process that checks passwords; it listens there."""
    return Spec(AUTH, lambda ready: _run_auth(config, listener, ready), lambda: (listener.fileno(),))


def evaluators_spec(config: MasterConfig, listener: socket.socket) -> Spec:
    """The process that renders pillars; it listens there.

    It starts when an MWorker first asks for a pillar. MWorkers ask only if there is a top file, so a master without
    pillars does not start it. It imports all that it needs before it drops its rights: `user` may not be able to read
    the folders of Python. With external pillars it starts at once, which shows whether they can be loaded.
    """
    return Spec(
        EVALUATORS,
        lambda ready: _run_evaluators(config, listener, ready),
        lambda: (listener.fileno(),),
        serves=None if config.ext_pillar or config.on_demand_ext_pillar else listener,
    )


def _run_peer_runners(
    config: MasterConfig, mworkers: socket.socket, config_dir: str, ready: Callable[[], None]
) -> None:
    """Keeps its rights, to become the user of `peer_run_as`."""
    from saltlite.master.processes.runners import serve_peer_runs  # noqa: PLC0415 - most masters run none for minions

    user = config.peer_run_as or pwd.getpwuid(os.geteuid()).pw_name
    prctl(PR_SET_DUMPABLE, 0)
    signal.signal(signal.SIGTERM, lambda _signum, _frame: os._exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uid = account_of(config.user).uid
    ready()
    serve_peer_runs(mworkers, uid, _granted(config, frozenset()), user, config_dir)


def _run_auth(config: MasterConfig, mworkers: socket.socket, ready: Callable[[], None]) -> None:
    """Keeps its rights, for PAM and for files that MWorkers may not read."""
    from saltlite.loader.index import build_index  # noqa: PLC0415 - the other processes never load a plug-in
    from saltlite.loader.loader import Loader  # noqa: PLC0415 - as above
    from saltlite.loader.search_path import search_layers  # noqa: PLC0415 - as above
    from saltlite.master.processes.auth_process import MESSAGE_MAX, AuthProcess  # noqa: PLC0415 - as above

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
    """The secret of the backend `sharedsecret`; with "" it accepts no login."""
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
    """Opens no store, because it evaluates templates of users."""
    from saltlite.master.processes.evaluators import BUFFER_MAX, MESSAGE_MAX, Evaluators  # noqa: PLC0415 - as above
    from saltlite.pillar.files import DiskPillarFiles  # noqa: PLC0415 - as above

    files, external = DiskPillarFiles(config.pillar_roots), None
    if config.ext_pillar or config.on_demand_ext_pillar:
        from saltlite.pillar.external import ExternalPillars  # noqa: PLC0415 - most masters have none

        try:
            require_trusted([*config.module_dirs, *config.pillar_dirs, config.extension_modules])
        except RefusedError as error:
            raise StartupError(f"no external pillar can be loaded: {error}") from error
        external = ExternalPillars(opts_of(config, "master"))
    files.load(functions=account_of(config.user).uid != os.geteuid())
    drop_to(config.user)
    reactor = Reactor()
    process = Evaluators(reactor, files, config.nodegroups, external)
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
    """Call `add` for each MWorker that connects, with a function that makes its channel."""

    def accept(sock: socket.socket, _peer: Peer) -> None:
        def make_channel(on_batch: Callable[[list[bytes]], None], on_close: Callable[[str], None]) -> Channel:
            def closed(reason: str) -> None:
                acceptor.released()
                on_close(reason)

            return Channel(reactor, sock, on_batch, closed, message_max=message_max, send_buffer_max=send_buffer_max)

        add(make_channel)

    acceptor = Acceptor(reactor, mworkers, accept)


def until_sigterm(reactor: Reactor, ready: Callable[[], None]) -> None:
    """Run the loop until the supervisor stops this process."""
    reactor.on_signal(signal.SIGTERM, reactor.stop)
    # Ctrl-C reaches the whole process group; only the supervisor acts on it.
    reactor.on_signal(signal.SIGINT, lambda: None)
    ready()
    reactor.call_later(SETTLED_S, unmap_clean_pages)
    reactor.run()


log = logging.getLogger(__name__)

SEALED_TOKENS = "tokens of logins"
"""What `identity.seal_key` makes a key for."""
OPEN_FILES = 65_536
"""Descriptors of the link process: one per minion. The unit allows as many."""
SOCKET_MODE = 0o600
OPEN_SOCKET_MODE = 0o666
"""Mode of the clients' socket when users who are not operators have rights; the kernel tells who connects."""
MIB = 1024 * 1024
LINK = "master link"
PORT_WAIT_S = 2.0
"""How long to wait for the port: a killed master's link process holds it for its last frames."""
PORT_RETRY_S = 0.05
MWORKER_MODULES = (
    "saltlite.files.server",
    "saltlite.master.processes.auth_process",
    "saltlite.master.processes.evaluators",
    "saltlite.master.processes.maintenance",
    "saltlite.master.processes.mworker",
    "saltlite.master.store.banks",
    "saltlite.pillar.files",
    "saltlite.resources.registry.mmap",
)
"""What MWorkers and maintenance load, and the link process does not."""
SHARED_USER = (
    "`link_user` and `user` are the same user: a compromised link process could change the store and cachedir; create "
    "a separate user (`useradd --system --no-create-home saltlite-link`) and set link_user to it"
)


@dataclass(frozen=True, slots=True)
class Inherited:
    """What processes of a master inherit by fork: its start, in wall-clock seconds since 1970, and shared memory."""

    started_at: float
    incarnation: int
    """The number of this start, by which a database tells this master from others."""
    fill_times: SharedFillTimes
    board: TurnBoard


def run_master(config: MasterConfig, config_dir: str, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run the master until a signal stops it. Raises StartupError.

    `config_dir` is where its configuration was read; runners of hooks read it too.
    """
    return_freed_memory()
    if config.several_masters and not config.database:
        raise MisconfiguredError("`several_masters` is set, and needs the `database` that the masters share")
    account, link_account = accounts_of(config)
    private_dir(config.pki_dir, os.geteuid(), os.getegid())
    for folder, mode in ((config.data_dir, 0o700), (config.cachedir, 0o700), (config.sock_dir, 0o755)):
        private_dir(folder, account.uid, account.gid, mode)
    private_dir(audit_dir(config.data_dir), account.uid, account.gid)
    start_log(config.log_level, config.log_file, account, config.log_format)
    paths = Paths(config)
    lock = InstanceLock(paths.lock, program="saltlite-master", root_dir=config.root_dir)
    incarnation = int.from_bytes(os.urandom(4), "big") >> 1
    inherited = Inherited(SystemClock().wall(), incarnation, SharedFillTimes(), board_of(config.worker_threads))
    accepted = prepare_store(config, functools.partial(_loaded_store, paths, inherited))
    ensure_identity_of(config, SystemClock().wall(), accepted)
    if os.geteuid() == 0 and link_account.uid == account.uid:
        log.warning("%s", SHARED_USER)
    relay = LogRelay(LINK)
    network = listen_for_minions(config)
    link_listener = listen_unix(paths.link_socket, SOCKET_MODE)
    open_to_all = bool(config.publisher_acl or config.external_auth)
    client_listener = listen_unix(paths.client_socket, OPEN_SOCKET_MODE if open_to_all else SOCKET_MODE)
    auth_listener = listen_unix(paths.auth_socket, SOCKET_MODE) if config.external_auth else None
    evaluator_listener = listen_unix(paths.evaluator_socket, SOCKET_MODE)
    runner_listener = listen_unix(paths.runner_socket, SOCKET_MODE) if config.peer_run else None
    sockets = [paths.link_socket, paths.client_socket, paths.evaluator_socket]
    if auth_listener is not None:
        sockets.append(paths.auth_socket)
    if runner_listener is not None:
        sockets.append(paths.runner_socket)
    for path in sockets if os.geteuid() == 0 else ():
        os.chown(path, account.uid, account.gid)
    before_fork = functools.partial(_import_for_mworkers, of_database=bool(config.database))
    specs = [
        Spec(
            LINK,
            lambda ready: _run_link(config, network, link_listener, relay, ready),
            lambda: (network.fileno(), link_listener.fileno(), relay.fileno()),
        ),
        *(
            Spec(
                name,
                functools.partial(_run_mworker, config, paths, client_listener, name, inherited),
                lambda: (client_listener.fileno(),),
                before_fork=before_fork,
            )
            for name in mworkers(config.worker_threads)
        ),
        Spec(
            MAINTENANCE,
            lambda ready: _run_maintenance(config, paths, inherited, ready),
            tuple,
            before_fork=before_fork,
        ),
        evaluators_spec(config, evaluator_listener),
    ]
    config_dir = os.path.abspath(config_dir)
    specs += _event_log_specs(config, paths, config_dir, inherited)
    if runner_listener is not None:
        run = functools.partial(_run_peer_runners, config, runner_listener, config_dir)
        specs.append(Spec(PEER_RUNNERS, run, lambda: (runner_listener.fileno(),)))
    if auth_listener is not None:
        specs.append(auth_spec(config, auth_listener))
    reactor = Reactor()
    relay.listen(reactor)
    supervisor = Supervisor(reactor, without_board(specs, inherited.board), what="the master", on_ready=on_ready)
    supervisor.every(LOOK_S, Watchdog(inherited.board, supervisor.children, reactor.now).look)
    showing = [spec.name for spec in specs if _shows_certificate(spec.name)]
    keep_certificate(config, SystemClock().wall, supervisor, showing)
    problem = supervisor.run()
    for path in sockets:
        os.unlink(path)
    lock.close()
    if problem:
        raise StartupError(problem)


def _event_log_specs(config: MasterConfig, paths: Paths, config_dir: str, inherited: Inherited) -> list[Spec]:
    """The processes that follow the event log: returners, hooks, and the membership process."""
    names = returner_names(config)
    specs = [
        Spec(f"returner {name}", functools.partial(_run_returner, config, paths, inherited, name), tuple)
        for name in names
    ]
    if config.hooks:
        run = functools.partial(_run_hooks, config, paths, config_dir, inherited)
        specs.append(Spec(HOOKS, run, tuple))
    if config.several_masters:
        specs.append(Spec(MEMBERSHIP, functools.partial(_run_membership, config, paths, inherited), tuple))
    return specs


def _shows_certificate(process: str) -> bool:
    return process in (LINK, HOOKS, MEMBERSHIP) or process.startswith(MWORKER)


def listen_for_minions(config: MasterConfig) -> socket.socket:
    """The listening socket. Retries a port in use for PORT_WAIT_S. Raises StartupError."""
    give_up_at = time.monotonic() + PORT_WAIT_S
    while True:
        try:
            return listen_tcp(config.interface, config.port)
        except PortInUseError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(PORT_RETRY_S)


def _loaded_store(paths: Paths, inherited: Inherited, seal_key: bytes | None = None) -> Callable[[], Store]:
    """How to open the store. Imports it, and reads what it is sealed with, before root's rights are dropped: the user
    may read neither Python's folders nor pki_dir.

    Raises MisconfiguredError if what `database` needs is not installed.
    """
    if not paths.config.database:
        from saltlite.master.store.sqlite import SqliteStore  # noqa: PLC0415 - the link process never loads SQLite

        return lambda: SqliteStore(paths.store)
    PostgresStore = load_postgres().PostgresStore  # noqa: N806 - a class
    name = identity.name_of(paths.config)
    seal_key = seal_key or seal_key_of(paths.config)
    return lambda: PostgresStore(
        paths.config.database,
        master=inherited.incarnation,
        application=f"saltlite master {name}",
        name=name,
        several=paths.config.several_masters,
        seal_key=seal_key,
    )


def _rules(config: MasterConfig) -> RegistrationRules:
    return RegistrationRules(
        conflict=Conflict(config.resource_conflict),
        policy=config.resource_policy,
        quota=config.resource_quota,
        events=config.minion_data_cache_events,
    )


def accounts_of(config: MasterConfig) -> tuple[UserAccount, UserAccount]:
    """The accounts of the master's processes and of the link process. Raises MisconfiguredError."""
    account = account_of(config.user)
    instead = f"set `link_user: {config.user}`, which gives up the protection of a separate user"
    link_account = account_of(config.link_user, instead)
    if link_account.uid == 0 and account.uid != 0 and os.geteuid() == 0:
        raise MisconfiguredError(
            "link_user is root, which would give the process that reads what strangers send every right: name a user "
            "that owns nothing, as `saltlite-link` is"
        )
    return account, link_account


def _run_link(
    config: MasterConfig, network: socket.socket, mworkers: socket.socket, relay: LogRelay, ready: Callable[[], None]
) -> None:
    from saltlite.master.processes.link import LinkProcess  # noqa: PLC0415 - only this process loads ZeroMQ
    from saltlite.platform.zmq_link import RouterLink  # noqa: PLC0415 - as above

    certificate = identity.certificate_of(config.pki_dir)
    chain = identity.chain_of(config.pki_dir)
    private = identity.link_key(config.pki_dir)
    raise_open_files(OPEN_FILES)
    mworker_uid = account_of(config.user).uid
    relay.become_child(config.log_level)
    drop_to(config.link_user)
    write_no_files()
    reactor = Reactor()
    clock = SystemClock()
    if config.several_masters:
        from saltlite.master.protocol.sharing import sharing  # noqa: PLC0415 - for a shared store only
    manager = SessionManager(
        Handshakes(
            fleet_public=certificate.fleet_public,
            certificate=certificate.encode(),
            private=private,
            handshakes_per_address=config.handshakes_per_address,
            clock=clock,
            chain=chain,
            balancers=Balancers(config.trusted_balancers),
        ),
        clock,
        sharing(clock, certificate.encode()) if config.several_masters else None,
    )
    link = LinkProcess(
        reactor, manager, lambda owner: RouterLink(reactor, network, owner.on_frame, owner.on_hangup, owner.on_connect)
    )

    def accept(sock: socket.socket, peer: Peer) -> None:
        if peer.uid != mworker_uid:
            log.error(
                "user %d connected to the link process, which serves processes of the master only: refused", peer.uid
            )
            sock.close()
            reactor.call_soon(acceptor.released)
            return

        def make_channel(on_batch: Callable[[list[bytes]], None], on_close: Callable[[str], None]) -> Channel:
            return Channel(
                reactor,
                sock,
                on_batch,
                on_close,
                message_max=ipc.MESSAGE_MAX,
                send_buffer_max=ipc.BUFFER_MAX,
            )

        link.add_mworker(make_channel, acceptor.released)

    acceptor = Acceptor(reactor, mworkers, accept)
    reactor.on_signal(signal.SIGTERM, link.stop)
    reactor.on_signal(signal.SIGINT, lambda: None)
    ready()
    reactor.call_later(SETTLED_S, unmap_clean_pages)
    reactor.run()
    link.close()


def _import_for_mworkers(*, of_database: bool) -> None:
    """Import in the supervisor what MWorkers and maintenance need: once, so that they share the time and the memory.

    The link process is forked before, and has none of it.
    """
    for module in MWORKER_MODULES:
        importlib.import_module(module)
    importlib.import_module("saltlite.master.store.postgres" if of_database else "saltlite.master.store.sqlite")
    freeze_heap()


def _run_mworker(
    config: MasterConfig,
    paths: Paths,
    clients: socket.socket,
    name: str,
    inherited: Inherited,
    ready: Callable[[], None],
) -> None:
    from saltlite.files.roots import FileRoots  # noqa: PLC0415 - the link process never loads handlers
    from saltlite.files.server import CopyAreas, FileServer, FileService, Uploads  # noqa: PLC0415 - as above
    from saltlite.master.processes.auth_process import Backends  # noqa: PLC0415 - as above
    from saltlite.master.processes.evaluators import Evaluations  # noqa: PLC0415 - as above
    from saltlite.master.processes.fleet import AskingEverywhere  # noqa: PLC0415 - as above
    from saltlite.master.processes.mworker import MWorker  # noqa: PLC0415 - as above

    started_as = os.geteuid()
    place = ipc.LinkAddress(paths.link_socket, started_as)
    make_master, close = _open_master(config, paths, inherited)
    marks = inherited.board.marks(name)
    reactor = Reactor(marks=marks)
    roots = FileRoots(
        config.file_roots,
        ignore=config.file_ignore_glob,
        largest=config.fileserver_max * MIB,
        areas=paths.copies,
    )
    uploads = Uploads(paths.minions, config.file_recv_max_size * MIB) if config.file_recv else None
    files = FileServer(reactor, FileService(roots), uploads, marks)
    backends = Backends(reactor, paths.auth_socket, started_as) if config.external_auth else None

    evaluations = Evaluations(reactor, paths.evaluator_socket, started_as)
    peer_runs = None
    if config.peer_run:
        from saltlite.master.processes.runners import PeerRuns  # noqa: PLC0415 - most masters run none for minions

        peer_runs = PeerRuns(reactor, paths.runner_socket, started_as)

    def make_with_files(link: ipc.LinkChannel) -> Master:
        master = make_master(link)
        master.files = roots
        roots.bring = CopyAreas(paths.copies, master.shared_areas).bring
        chain = f"{master.identity.certificate.name}.{name}"
        room = config.audit_max * MIB // config.worker_threads
        if master.shared is not None:
            from saltlite.master.processes.login_limiter import LoginLimiter  # noqa: PLC0415 - for a shared store only

            me = master.identity.certificate.name
            master.login_limiter = LoginLimiter(master.shared, master.logins)
            master.asking = AskingEverywhere(reactor, link, master.shared, master.clock, me)
        master.audit = AuditTrail(paths.audit, chain, room, master.clock.wall)
        master.audit.record(name, "start", {"version": __version__, "options": digest_of_options(master.config.shown)})
        master.pillar_guesses = guess_limiter(inherited.fill_times)
        master.pillars.evaluator = evaluations
        master.peer_runs = peer_runs
        return master

    mworker = MWorker(reactor, make_with_files, files, place, backends=backends, marks=marks)
    mworker.serve(clients)
    until_sigterm(reactor, ready)
    close()


def _open_master(
    config: MasterConfig, paths: Paths, inherited: Inherited
) -> tuple[Callable[[ipc.LinkChannel], Master], Callable[[], None]]:
    """The context of handlers in a process that drops its rights here, and a function that closes it."""
    from saltlite.pillar.evaluation import Pillars  # noqa: PLC0415 - as above
    from saltlite.pillar.files import DiskPillarFiles  # noqa: PLC0415 - as in _run_mworker

    pki_dir = config.pki_dir
    certificate = identity.certificate_of(pki_dir)
    who = MasterIdentity(fingerprint(certificate.fleet_public), certificate, identity.job_key(pki_dir))
    if identity.shared_key(pki_dir) is not None:
        who = replace(who, login_secret=identity.seal_key(pki_dir, SEALED_TOKENS), chain=identity.chain_of(pki_dir))
    open_store = _loaded_store(paths, inherited)
    open_inventory, open_areas = loaded_inventory(config), loaded_areas(config)
    operators, link_uid = frozenset({0, os.geteuid()}), accounts_of(config)[1].uid
    pillars = Pillars(
        DiskPillarFiles(config.pillar_roots),
        cached=config.minion_data_cache,
        external=bool(config.ext_pillar),
        on_demand=frozenset(config.on_demand_ext_pillar),
    )
    became = drop_to(config.user)
    store = open_store()
    registry, banks = open_inventory(store)
    handler_config = HandlerConfig(
        timeout_s=config.timeout,
        deliver_s=config.deliver_by,
        operators=operators,
        store_max=config.store_max * MIB,
        mworkers=config.worker_threads,
        started_at=inherited.started_at,
        copies_dir=paths.copies,
        nodegroups=config.nodegroups,
        resources=_rules(config),
        granted=_granted(config, frozenset({became.uid, link_uid})),
        login_s=config.token_expire,
        keep_job_args=config.keep_job_args,
        returners=frozenset(returner_names(config)),
        readers=paths.readers,
        shown=shown_opts(config, f"{certificate.name}_master"),
        realm=certificate.name if config.several_masters and not config.shared_accounts else "",
    )

    def make_master(link: ipc.LinkChannel) -> Master:
        master = Master(store, clock_of(config, store), who, handler_config, link, registry, banks, pillars)
        master.shared = cast("SharedStore", store) if config.several_masters else None
        master.shared_areas = open_areas(store)
        return master

    def close() -> None:
        registry.close()
        banks.close()
        store.close()

    return make_master, close


def _granted(config: MasterConfig, own: frozenset[int]) -> Granted:
    """The rights that the configuration grants; `own` are the uids of the master's processes."""
    return Granted(
        publisher=read_rules(config.publisher_acl, "publisher_acl", patterns=True),
        external={
            **{name: read_rules(users, f"external_auth.{name}") for name, users in config.external_auth.items()},
            PEER: read_peers(config.peer),
        },
        peer_run=read_peer_runs(config.peer_run),
        blacklist=read_blacklist(config.publisher_acl_blacklist),
        barred=own,
    )


def _run_hooks(
    config: MasterConfig, paths: Paths, config_dir: str, inherited: Inherited, ready: Callable[[], None]
) -> None:
    from saltlite.hooks import read_hooks  # noqa: PLC0415 - the other processes have no hooks
    from saltlite.master.processes.hooks import (  # noqa: PLC0415 - as above
        HookRunners,
        Hooks,
        start_starter,
    )

    place = ipc.LinkAddress(paths.link_socket, os.geteuid())
    hooks = read_hooks(config.hooks)
    sock = start_starter(hooks, config_dir)
    make_master, close = _open_master(config, paths, inherited)
    reactor = Reactor(marks=inherited.board.marks(HOOKS))
    link = ipc.LinkChannel(reactor, place, ipc.MAINTENANCE, lambda _batch: None)
    runners = HookRunners(reactor, sock) if sock is not None else None
    master = make_master(link)
    cursor = _cursor_in(config, master.store, HOOKS, paths.hooks)
    Hooks(reactor, master, hooks, cursor, runners=runners, wake_up=link.wake_up).look()
    until_sigterm(reactor, ready)
    close()


def _cursor_in(config: MasterConfig, store: Store, name: str, path: str) -> EventLogCursor:
    """The cursor of that reader of the event log: a file, or a row of the store that masters share."""
    file = CursorFile(path)
    if not config.several_masters:
        return file
    from saltlite.master.store.readers import SharedCursor  # noqa: PLC0415 - for a shared store only

    # This master may have been the only one before.
    return SharedCursor(cast("SharedStore", store), SystemClock(), name, identity.name_of(config), file.read)


def _run_returner(
    config: MasterConfig, paths: Paths, inherited: Inherited, name: str, ready: Callable[[], None]
) -> None:
    from saltlite.master.processes.returner import run_returner  # noqa: PLC0415 - the other processes never load a plug-in

    def cursor_in(store: Store) -> EventLogCursor:
        return _cursor_in(config, store, f"returner {name}", paths.returner(name))

    run_returner(config, name, cursor_in, _loaded_store(paths, inherited), ready)


def _run_membership(config: MasterConfig, paths: Paths, inherited: Inherited, ready: Callable[[], None]) -> None:
    from saltlite.master.processes.membership import run_membership  # noqa: PLC0415 - for a shared store only

    place = ipc.LinkAddress(paths.link_socket, os.geteuid())
    run_membership(config, _loaded_store(paths, inherited), place, SystemClock(), inherited.incarnation, ready)


def _run_maintenance(config: MasterConfig, paths: Paths, inherited: Inherited, ready: Callable[[], None]) -> None:
    from saltlite.master.processes.description import (  # noqa: PLC0415 - as in _run_mworker
        DESCRIBE_FIRST_S,
        DESCRIBE_S,
        SelfDescription,
    )
    from saltlite.master.processes.maintenance import begin_maintenance  # noqa: PLC0415 - as in _run_mworker

    open_store = _loaded_store(paths, inherited)
    open_inventory = loaded_inventory(config)
    place = ipc.LinkAddress(paths.link_socket, os.geteuid())
    holder = identity.holder_of(config.pki_dir) if config.several_masters else ""
    drop_to(config.user)
    store = open_store()
    reactor = Reactor(marks=inherited.board.marks(MAINTENANCE))
    link = ipc.LinkChannel(reactor, place, ipc.MAINTENANCE, lambda _batch: None)
    opened = functools.partial(_opened, open_inventory, store)
    kept = begin_maintenance(config, reactor, store, SystemClock(), link, opened, paths.copies)
    if config.several_masters:
        described = SelfDescription(config, cast("SharedStore", store), SystemClock(), identity.name_of(config), holder)
        kept.repeat(DESCRIBE_S, described.renew, first_s=DESCRIBE_FIRST_S)
    until_sigterm(reactor, ready)
    store.close()


@contextmanager
def _opened(
    open_inventory: Callable[[Store], tuple[ResourceRegistry, Banks]], store: Store
) -> Iterator[tuple[ResourceRegistry, Banks]]:
    registry, banks = open_inventory(store)
    try:
        yield registry, banks
    finally:
        registry.close()
        banks.close()
