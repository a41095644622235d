"""An MWorker: the process that runs every handler of operators and minions.

It has a store connection, a channel to the link process, and accepts clients from a Unix socket that all MWorkers
share. The reports and new jobs of one turn of its loop are committed together. It can be killed at any time: clients
repeat their requests under the same request id, and the link process passes uncommitted batches to another MWorker.
"""

from __future__ import annotations

import functools
import gc
import logging
import socket
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import (
    CostlyRuleError,
    DamagedError,
    LoginError,
    ProtocolError,
    RefusedError,
    SaltliteError,
    StoreError,
    UncallableError,
)
from saltlite.files.server import FileServer
from saltlite.master.handlers import minions
from saltlite.master.handlers.auth import WRONG
from saltlite.master.handlers.delivery import handle_pull, release_due
from saltlite.master.handlers.documents import FOR_FILES, DocumentBuffer, answer
from saltlite.master.handlers.events import EventStream, report_ended_turns
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.handlers.keys import handle_decide, handle_suspect
from saltlite.master.handlers.operator_verbs import checked_request, dispatch
from saltlite.master.handlers.results import (
    Reported,
    ReportWrite,
    Settled,
    TransientStates,
    has_only_returns,
    report_rejected,
    store_reports,
    store_transient_states,
)
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.arrivals import Arrivals
from saltlite.master.processes.auth_process import Backends, PasswordVerdict
from saltlite.master.processes.context import Answer, Follow, LoginCheck, Master, Question, StoreWrite, Stream, Watch
from saltlite.master.processes.group_commit import GroupCommit, GroupPart
from saltlite.master.processes.link_channel import LinkAddress, LinkChannel
from saltlite.master.processes.local_clients import UNREAD_MAX, ClientQueue, LocalClients, RequestScheduler
from saltlite.master.processes.turns import (
    refusal,
    refuse_ended,
    turn_of_batch,
    turn_of_link,
    turn_of_question,
    turn_of_report,
    turn_of_request,
)
from saltlite.master.store.ports import StoreWriter
from saltlite.model.dataclass import dataclass
from saltlite.model.events import tag_audit_head
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import Return
from saltlite.model.keys import Fingerprint
from saltlite.platform.logs import DEFECT, log_context, log_defect, supervised
from saltlite.platform.process import trim_heap
from saltlite.platform.reactor import Reactor
from saltlite.platform.shared_memory import NAMELESS, Marks, TurnBoard, TurnLabel
from saltlite.platform.stream import Acceptor, Channel, Peer
from saltlite.wire import codec
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.messages import Message, response_message
from saltlite.wire.signatures import signed

# -- storing reports. A bad report may cost only its own minion (S8): one that raises, or whose turn the supervisor has
# ended, is not acknowledged, so its minion keeps it (G6), while the other reports of its batch are stored.

log = logging.getLogger(__name__)


def settle(master: Master, reported: Sequence[Reported], transient: TransientStates, marks: Marks) -> Settled:
    """Store the reports that can be stored. Raises StoreError; then none may be acknowledged."""
    if marks.board.is_careful():
        return _together(_alone(master, item, transient, marks) for item in reported)
    if not marks.board.is_refusing():
        return _batch(master, reported, transient, marks)
    kept = [item for item in reported if not _is_refused(item, marks)]
    settled = _batch(master, kept, transient, marks) if kept else Settled([], moved=frozenset())
    return replace(settled, rejected=settled.rejected + len(reported) - len(kept))


def _batch(master: Master, reported: Sequence[Reported], transient: TransientStates, marks: Marks) -> Settled:
    with marks.named(turn_of_batch(reported)):
        try:
            return store_reports(master, reported, transient)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - named supervision point: they are tried one by one, where what raises is logged
            log.debug("a batch with a report that cannot be stored is stored one by one")
    return _together(_alone(master, item, transient, marks) for item in reported)


def _alone(master: Master, item: Reported, transient: TransientStates, marks: Marks) -> Settled:
    if _is_refused(item, marks):
        return Settled([], moved=frozenset(), rejected=1)
    with marks.named(turn_of_report(marks.board, item)):
        try:
            return store_reports(master, [item], transient)
        except StoreError:
            raise
        except Exception:  # named supervision point: what one minion says must not end MWorkers (S8)
            log.exception("a report of %s cannot be stored and is skipped: please report this", item.id)
            return Settled([], moved=frozenset())


def _is_refused(item: Reported, marks: Marks) -> bool:
    board = marks.board
    ended = board.ended(turn_of_report(board, item).digest)
    if ended is None:
        return False
    # Its minion sends it again and again, and each time it would block an MWorker.
    board.renew(ended)
    log.error(
        "%s is skipped, because it held %s for %.0f s: please report this", ended.text, ended.process, ended.held_s
    )
    return True


def _together(every: Iterable[Settled]) -> Settled:
    found = list(every)
    return Settled(
        [pair for settled in found for pair in settled.acknowledge],
        moved=frozenset(jid for settled in found for jid in settled.moved),
        batches=frozenset(jid for settled in found for jid in settled.batches),
        rejected=sum(settled.rejected for settled in found),
    )


NEWS_S = 0.02
"""The least interval between messages of a stream; what happens in between goes into one message."""
LOOK_S = 1.0
"""How often streams are read without a wake-up, which can be lost with the link process."""
TRANSIENT_S = 0.1
"""Intermediate states of jobs are stored together after this time."""
LINK_WAIT_S = 1.0
"""How long clients of a new MWorker wait for the presence of minions."""
CLIENT_MESSAGE_MAX = 32 * 1024 * 1024
USER_MESSAGE_MAX = 512 * 1024
"""The largest request of a user: a job with 64 KiB of arguments and a list of ten thousand targets."""
RECHECK_S = 5.0
"""How often the tokens of open streams are checked."""
USER_COLLECT_ABOVE = 4096
"""Bytes of a user's request after which garbage is collected at once. A large request leaves parts of its values in
Python's free lists, spread over memory that can only be returned without them."""
USER_COLLECT_CPU_S = 0.01
"""CPU seconds of a user's request with the same effect: the automaton of a costly pattern is garbage in cycles."""
USER_READ_TURN = 8 * 1024
"""Bytes of a user's connection that are read in one turn: requests wait in the kernel rather than in the MWorker."""
USER_UNREAD_MAX = 32 * 1024 * 1024
"""Unsent bytes of all connections of one user. Above it, the one with the most is disconnected."""
CLIENT_BUFFER_MAX = 128 * 1024 * 1024
"""Unsent bytes above which a client is disconnected. It reconnects with its cursor, and loses nothing."""


AUDIT_HEAD_S = 60.0
"""Seconds between two checks for new entries of the audit log. The store is then told the last one."""
REFUSED_FIELDS = ("verb", "backend", "username", "tgt", "tgt_type", "fun", "id", "jid", "action", "path", "tag")
"""The fields of a refused request in the audit log, without arguments of functions, which may be secrets."""
NAME_MAX = 256
"""The longest of these fields in an entry, in characters."""


@dataclass(eq=False, slots=True)
class Client:
    """A connected client."""

    channel: Channel
    principal: Principal
    stream: Stream | None = None
    queue: ClientQueue | None = None
    """The queue of its requests; None for an operator, whose requests run when they arrive."""
    token: str = ""
    """The token of the stream, which ends with it."""
    sent_at: float = 0.0
    news_due: bool = False
    is_behind: bool = False
    """Whether reading its stream failed the last time."""
    turn: TurnLabel = NAMELESS
    """The turn of its last request."""
    watches: bool = False
    """Whether other processes commit what its stream is about: `_is_of_others`."""
    writing: bool = False
    """Whether its last request waits for the commit."""
    asked: tuple[str, Mapping[str, Any]] = ("", {})
    """The sender of its last request, if that is known, and the request."""


def _is_of_others(wanted: Follow | Watch) -> bool:
    """Whether the link process may not know that this MWorker has a stream of it: it does of a job that was published
    here. Of a batch, whoever sends it to its next targets counts as the publisher."""
    return isinstance(wanted, Watch) or not wanted.is_new or wanted.job is None or wanted.job.batch is not None


class MWorker:
    """Connects store, link process, clients and file server. `master.link` is this MWorker's LinkChannel."""

    def __init__(
        self,
        reactor: Reactor,
        make_master: Callable[[LinkChannel], Master],
        files: FileServer,
        link: LinkAddress,
        *,
        backends: Backends | None = None,
        marks: Marks | None = None,
    ) -> None:
        """`backends` check passwords; None disables logins. `marks` announce each turn to the watchdog."""
        self._marks = marks or TurnBoard([ipc.MWORKER]).marks(ipc.MWORKER)
        self._reactor = reactor
        self._link = LinkChannel(reactor, link, ipc.MWORKER, self._from_link)
        self._master = make_master(self._link)
        self._files = files
        self._backends = backends
        self._documents = DocumentBuffer(self._master.clock)
        self._clients: dict[Client, None] = {}
        self._local_clients = LocalClients(self._master.config.realm)
        self._scheduler = RequestScheduler(reactor)
        self._commits = GroupCommit(reactor, self._master.store, self._scheduler.is_due)
        self._transient = TransientStates()
        self._transient_due = False
        self._listener: socket.socket | None = None
        self._acceptor: Acceptor | None = None
        self._tick()
        self._look_at_audit()
        self._check_tokens()

    def serve(self, listener: socket.socket) -> None:
        """Accept clients from this shared socket once the link process has sent the presence of minions.

        Before that, every minion would be called away. Without a link process clients are accepted after LINK_WAIT_S.
        """
        self._listener = listener
        self._reactor.call_later(LINK_WAIT_S, self._take_clients)

    def _take_clients(self) -> None:
        if self._acceptor is None and self._listener is not None:
            self._acceptor = Acceptor(self._reactor, self._listener, self._accept)

    # -- the link

    def _from_link(self, batch: list[bytes]) -> None:
        numbers: list[int] = []
        reported: list[Reported] = []
        arrivals = Arrivals()
        board = self._marks.board
        is_suspicious = board.is_refusing() or board.is_careful()
        for data in batch:
            message = unpack(data)
            if message["t"] == "reports":
                numbers.append(message["n"])
                reported += [
                    Reported(MinionId(minion), Fingerprint(key), report, body)
                    for minion, key, report, body in message["items"]
                ]
            elif is_suspicious or not arrivals.take(message):
                if not arrivals.lets_pass(message):
                    self._arrived(arrivals)
                self._alone_from_link(message)
        self._arrived(arrivals)
        if not numbers:
            return
        if is_suspicious:
            self._reports(numbers, reported)
        else:
            self._commits.add(self._part_of_reports(numbers, reported))

    def _arrived(self, arrivals: Arrivals) -> None:
        if arrivals.handle(self._master, self._marks, self._alone_from_link):
            self._committed(None)

    def _alone_from_link(self, message: IpcMessage) -> None:
        # The message contains data of a minion, which must not end the MWorker (S8).
        supervised(f"the message {message['t']} of the link", functools.partial(self._one_from_link, message))

    def _one_from_link(self, message: dict[str, Any]) -> None:
        if message["t"] == "request":
            self._ask(MinionId(message["id"]), message["session"], message["message"])
            return
        turn = turn_of_link(self._marks.board, message)
        with self._marks.named(turn):
            ended = self._marks.board.ended(turn.digest)
            if ended is not None:
                log.error("%s is skipped, because it held %s for %.0f s", ended.text, ended.process, ended.held_s)
                return
            self._carry_out(message)

    def _carry_out(self, message: dict[str, Any]) -> None:
        match message["t"]:
            case "decide":
                handle_decide(self._master, message)
            case "pull":
                self._logged(lambda: handle_pull(self._master, message))
            case "presence":
                changes = [minions.PresenceChange(*row) for row in message["items"]]
                if message["whole"] and self._master.shared is not None:
                    # Later commits are reported by `elsewhere`.
                    self._logged(lambda: minions.read_elsewhere(self._master))
                minions.notice(self._master, changes, whole=message["whole"])
                self._take_clients()
                if message["whole"]:
                    self._logged(lambda: self._link.fleet(len(self._master.store.accepted_ids())))
                if message["record"]:
                    self._logged(lambda: minions.record(self._master, changes, whole=message["whole"]))
                    self._committed(None)
            case "keys_done" | "last_seen" | "stats":
                self._link.answered(message["n"], message)
            case "suspect":
                self._logged(lambda: handle_suspect(self._master, message))
                self._committed(None)
            case "wake_up":
                self._wake_streams(message["jobs"])
            case "elsewhere":
                minions.notice_elsewhere(self._master, message["items"])
                if message["anew"]:
                    self._logged(lambda: minions.read_elsewhere(self._master))

    def _ask(self, minion: MinionId, session: int, message: Message) -> None:
        """Handle a request of a minion."""
        say = functools.partial(self._answer_minion, minion, session, message)
        turn = turn_of_question(self._marks.board, minion, message)
        ended = self._marks.board.ended(turn.digest)
        if ended is not None:
            log.warning("%s is refused, for it held %s for %.0f s", ended.text, ended.process, ended.held_s)
            say(response_message(message["n"], "refused", names=[refusal(ended)]))
            return
        with self._marks.named(turn), log_context(id=minion):
            self._answer_question(minion, message, say)

    def _answer_question(self, minion: MinionId, message: Message, say: Callable[[Message], None]) -> None:
        try:
            if message["t"] in FOR_FILES:
                self._files.ask(minion, message, say)
            else:
                answer(self._master, self._documents, minion, message, say)
        except SaltliteError as error:
            log.error("a question of %s cannot be answered for now: %s", minion, error)  # noqa: TRY400 - a sentence
            say(response_message(message["n"], "busy"))
        except Exception:  # noqa: BLE001 - named supervision point: the minion gets an answer, and may ask for something else
            log_defect(f"the question {message['t']} of {minion}")
            say(response_message(message["n"], "refused", names=[DEFECT]))
        if message["t"] in ("event", "ask"):
            self._committed(())

    def _answer_minion(self, minion: MinionId, session: int, question: Message, response: Message) -> None:
        # Signed here, so that the link process, which passes it on, cannot forge responses.
        self._link.respond(session, signed(self._master.identity.job_private, minion, question, response))

    def _logged(self, work: Callable[[], object]) -> None:
        try:
            work()
        except StoreError as error:
            log.error("%s", error)  # noqa: TRY400 - the sentence says it all, and the link asks again
        except Exception:  # noqa: BLE001 - named supervision point: one piece of work must not end the MWorker
            log_defect("work of an MWorker")

    def _part_of_reports(self, numbers: list[int], reported: list[Reported]) -> GroupPart:
        def store(writer: StoreWriter) -> ReportWrite:
            with self._marks.named(turn_of_batch(reported)):
                batch = ReportWrite(self._master, reported, self._transient)
                batch.store(writer)
            return batch

        def stored(batch: ReportWrite) -> None:
            with self._marks.named(turn_of_batch(reported)):
                try:
                    settled = batch.settled()
                except Exception:  # noqa: BLE001 - named supervision point: as of `_batch`; what is stored already stays as it is
                    log.debug("a batch with a report that cannot be settled is stored one by one")
                    self._reports(numbers, reported)
                else:
                    self._settled(numbers, settled)

        again = functools.partial(self._reports, numbers, reported)
        return GroupPart(store, stored, again, appends_only=has_only_returns(reported))

    def _reports(self, numbers: list[int], reported: list[Reported]) -> None:
        try:
            settled = settle(self._master, reported, self._transient, self._marks)
        except StoreError as error:
            # Not acknowledged: the minions keep their results, and the link process tries again (G6).
            log.error("%d reports cannot be stored for now: %s", len(reported), error)  # noqa: TRY400 - as above
            for number in numbers:
                self._link.uncommitted(number)
            return
        self._settled(numbers, settled)

    def _settled(self, numbers: list[int], settled: Settled) -> None:
        """Reports are committed."""
        if settled.moved:
            if settled.batches:
                self._logged(lambda: self._release(settled.batches))
            self._committed(settled.moved | settled.batches, settled.returned)
        # Last, because clients wait for their streams, and nothing waits for an acknowledgement.
        for number in numbers[:-1]:
            self._link.committed(number, [])
        self._link.committed(numbers[-1], settled.acknowledge, settled.rejected)
        if self._transient.rows and not self._transient_due:
            self._transient_due = True
            self._reactor.call_later(TRANSIENT_S, self._store_transient_states)

    def _release(self, jids: frozenset[Jid]) -> None:
        master = self._master
        release_due(master.store, master.clock, self._link, master.proofs, among=jids, me=master.name_among_others)

    def _store_transient_states(self) -> None:
        self._transient_due = False
        try:
            moved = store_transient_states(self._master, self._transient)
        except StoreError as error:
            log.error("states of jobs could not be stored: %s", error)  # noqa: TRY400 - as above
            return
        except Exception:  # noqa: BLE001 - named supervision point: what one minion says must not end MWorkers (S8)
            log_defect("the states of jobs")
            return
        if moved:
            self._committed(moved)

    def _committed(self, jobs: Collection[Jid] | None, returned: Sequence[tuple[int, Return]] = ()) -> None:
        """Call this after a commit: send news to this MWorker's clients, and wake up the other MWorkers.

        `jobs` are those in which a target changed its state or returned; None for any. `returned` are some of the
        returns.
        """
        by_job: dict[Jid, list[tuple[int, Return]]] = {}
        for seq, ret in returned:
            by_job.setdefault(ret.jid, []).append((seq, ret))
        for stream in [client.stream for client in self._clients] if by_job else ():
            if isinstance(stream, JobFollower):
                stream.stored(by_job.get(stream.jid, ()))
        self._wake_streams(jobs)
        self._link.wake_up(jobs)

    def _report_rejected(self) -> None:
        if report_rejected(self._master):
            self._committed(())

    def _tell_ended(self) -> None:
        if report_ended_turns(self._master, self._marks):
            self._committed(())

    def _tick(self) -> None:
        self._logged(self._report_rejected)
        self._logged(self._tell_ended)
        if not self._master.knows_elsewhere:
            self._logged(lambda: minions.read_elsewhere(self._master))
        self._wake_streams(None)
        self._link.watch(wanted=any(client.stream is not None and client.watches for client in self._clients))
        self._reactor.call_later(LOOK_S, self._tick)

    def _tell_audit_head(self) -> None:
        """Store the last entry of the audit log, so that missing entries at its end are detected."""
        if self._master.audit is not None and (head := self._master.audit.new_head()) is not None:
            data = {"chain": head.chain, "number": head.number, "hash": head.hash}
            with self._master.store.write() as store:
                store.put_event(tag_audit_head(), data, self._master.clock.wall())
            self._committed(())

    def _look_at_audit(self) -> None:
        self._logged(self._tell_audit_head)
        self._reactor.call_later(AUDIT_HEAD_S, self._look_at_audit)

    def _check_tokens(self) -> None:
        """End the streams whose token expired or was revoked."""
        for client in [client for client in self._clients if client.stream is not None and client.token]:
            try:
                self._master.logins.holder(self._master.store, client.token, self._master.clock.wall())
            except LoginError as error:
                client.stream = None
                self._refuse(client, error)
            except StoreError as error:
                log.error("tokens could not be looked at: %s", error)  # noqa: TRY400 - the sentence says it all
        self._reactor.call_later(RECHECK_S, self._check_tokens)

    def _wake_streams(self, jobs: Collection[Jid] | None) -> None:
        for client in list(self._clients):
            stream = client.stream
            if stream is None or client.news_due or not (jobs is None or stream.may_have_news(jobs)):
                continue
            wait_s = client.sent_at + NEWS_S - self._reactor.now()
            if wait_s <= 0:
                self._send_news(client)
            else:
                self._send_later(client, wait_s)

    # -- clients

    def _accept(self, sock: socket.socket, peer: Peer) -> None:
        is_user = peer.uid not in self._master.config.operators
        if is_user and self._local_clients.is_full(peer.uid):
            sock.close()
            self._reactor.call_soon(self._released)
            return
        client: Client

        def on_batch(batch: list[bytes]) -> None:
            if client.queue is not None:
                self._scheduler.arrived(client.queue, batch)
                return
            for data in batch:
                self._request(client, data)

        def on_close(_reason: str) -> None:
            self._forget(client)

        channel = Channel(
            self._reactor,
            sock,
            on_batch,
            on_close,
            message_max=USER_MESSAGE_MAX if is_user else CLIENT_MESSAGE_MAX,
            send_buffer_max=USER_UNREAD_MAX if is_user else CLIENT_BUFFER_MAX,
        )
        client = Client(channel, self._local_clients.came(peer.uid, self._reactor.now(), is_user=is_user))
        if is_user:
            client.queue = ClientQueue(channel, peer.uid, functools.partial(self._request, client))
            channel.read_little(USER_READ_TURN, functools.partial(self._scheduler.large_began, client.queue))
        self._clients[client] = None

    def _forget(self, client: Client) -> None:
        if client in self._clients:
            del self._clients[client]
            if client.queue is not None:
                self._scheduler.left(client.queue)
                self._local_clients.went(client.principal.uid)
            self._released()

    def _released(self) -> None:
        if self._acceptor is not None:
            self._acceptor.released()

    def _request(self, client: Client, data: bytes) -> None:
        if client.writing:
            # Requests of one connection are answered in order.
            self._commits.commit()
        client.stream = None
        client.sent_at = 0.0
        client.token = ""
        try:
            request = codec.decode(data, codec.LOCAL if client.queue is None else codec.USER)
        except ProtocolError as error:
            self._send(client, {"ok": False, "exit": 2, "error": f"the request could not be read: {error}"})
            return
        client.turn = turn_of_request(self._marks.board, client.principal, request)
        began = time.process_time()
        self._supervised(client, lambda: self._handle(client, request))
        if client.queue is not None and (
            len(data) > USER_COLLECT_ABOVE or time.process_time() - began > USER_COLLECT_CPU_S
        ):
            self._commits.commit()
            del request
            gc.collect()
            trim_heap()

    def _handle(self, client: Client, request: object) -> None:
        refuse_ended(self._marks.board, client.turn)
        if client.queue is not None:
            client.queue.user = client.principal.uid
        client.asked = str(client.principal), request if isinstance(request, dict) else {}
        principal, verb, fields = checked_request(self._master, client.principal, request)
        client.asked = str(principal), fields
        if client.queue is not None:
            # Users of the API share a uid; their logins distinguish them. A token that is not valid distinguishes none.
            client.queue.user = principal.uid
        client.token = fields.get("token", "")
        jid = fields.get("jid")
        with log_context(**({"jid": jid} if isinstance(jid, str) else {})):
            self._answer(client, dispatch(self._master, principal, verb, fields))

    def _supervised(self, client: Client, work: Callable[[], None]) -> None:
        """Do `work` for a client; any exception becomes its answer, and rolls back an open transaction."""
        with self._marks.named(client.turn):
            try:
                work()
            except SaltliteError as error:
                client.stream = None
                self._refuse(client, error)
            except Exception:  # noqa: BLE001 - named supervision point: a request costs its caller, not the MWorker
                client.stream = None
                log_defect(f"a request of {client.principal}")
                self._send(client, {"ok": False, "exit": 1, "error": DEFECT})

    def _refuse(self, client: Client, error: SaltliteError) -> None:
        if self._master.audit is not None and isinstance(error, RefusedError | LoginError):
            who, fields = client.asked
            about = {name: fields[name][:NAME_MAX] for name in REFUSED_FIELDS if isinstance(fields.get(name), str)}
            self._master.audit.refused(who, about.pop("verb", ""), str(error), about)
        refusal = {"ok": False, "exit": error.exit_code, "error": str(error)}
        if isinstance(error, UncallableError):
            refusal |= {"targets": list(error.targets), "missing": error.missing}
        self._send(client, {**refusal, "login": True} if isinstance(error, LoginError) else refusal)
        if isinstance(error, RefusedError):
            # A rule that cannot be evaluated concerns the operator; a lack of rights is ordinary.
            log.log(logging.WARNING if isinstance(error, CostlyRuleError) else logging.INFO, "refused: %s", error)

    def _part_of_request(self, client: Client, write: StoreWrite) -> GroupPart:
        turn, user = client.turn, None if client.queue is None else client.queue.user

        def store(writer: StoreWriter) -> object:
            with self._charged(user), self._marks.named(turn):
                return write.store(writer)

        def answer(answered: Callable[[], Answer]) -> None:
            client.writing = False
            with self._charged(user):
                self._supervised(client, lambda: self._answer(client, answered()))

        client.writing = True
        return GroupPart(
            store,
            lambda stored: answer(lambda: write.committed(stored)),
            lambda: answer(lambda: write.alone(self._master.store)),
            appends_only=write.appends_only,
        )

    def _charged(self, user: Hashable | None) -> AbstractContextManager[None]:
        """The CPU time of this block is this user's; None is an operator."""
        return nullcontext() if user is None else self._scheduler.spending(user)

    def _answer(self, client: Client, answer: Answer) -> None:
        if answer.write is not None:
            self._commits.add(self._part_of_request(client, answer.write))
            return
        if answer.committed:
            self._committed(answer.moved)
        question = answer.question
        if question is not None:
            self._ask_link(client, question)
            return
        if answer.login is not None:
            self._log_in(client, answer.login)
            return
        if answer.later is not None:
            answer.later.begin(lambda fields: self._supervised(client, lambda: self._succeed(client, fields())))
            return
        self._succeed(client, answer.fields)
        if answer.follow is not None:
            client.watches = _is_of_others(answer.follow)
            if client.watches:
                # Before the stream is read: a later commit wakes it up.
                self._link.watch(wanted=True)
            client.stream = self._open_stream(answer.follow)
            self._send_news(client)

    def _succeed(self, client: Client, fields: Mapping[str, Any]) -> None:
        """Answer a request. Times in the answer are those of the store: where that has a clock of its own, the answer
        says what it shows now, so that the client can tell how long ago they were."""
        answer = {"ok": True, **fields}
        if self._master.shared is not None:
            with suppress(StoreError):
                answer["now"] = self._master.clock.wall()
        self._send(client, answer)

    def _ask_link(self, client: Client, question: Question) -> None:
        shared = self._master.shared

        def answer(reply: IpcMessage | None, *, known: bool = True) -> None:
            def finish() -> None:
                if not known:
                    raise StoreError("the change is stored; whether every other master has applied it is unknown")
                self._succeed(client, question.fields(reply))

            self._supervised(client, finish)

        def done(reply: IpcMessage | None) -> None:
            if shared is None or reply is None or not (question.everywhere or question.elsewhere):
                answer(reply)
                return
            from saltlite.master.processes.other_masters import OtherMasters  # noqa: PLC0415 - for a shared store only

            others = OtherMasters(self._reactor, shared, self._master.clock, self._master.name_among_others)
            self._supervised(client, lambda: others.ask(question, reply, answer))

        self._link.ask(question.message, done)

    def _log_in(self, client: Client, login: LoginCheck) -> None:
        limiter = self._master.login_limiter

        def let_in(verdict: PasswordVerdict) -> None:
            # With a reason, the password was not checked.
            if not verdict.ok and not verdict.reason and limiter is not None:
                limiter.count(login.backend, login.user)
            if not verdict.ok:
                raise LoginError(verdict.reason or WRONG)
            self._succeed(client, login.fields(verdict.groups))

        def done(verdict: PasswordVerdict) -> None:
            self._supervised(client, lambda: let_in(verdict))

        if self._backends is None:
            raise LoginError("this master checks no passwords: set external_auth")
        if limiter is not None:
            limiter.refuse_guesses(login.backend, login.user)
        self._backends.check(login.backend, login.user, login.password, done)

    def _open_stream(self, wanted: Follow | Watch) -> Stream:
        return EventStream(self._master, wanted) if isinstance(wanted, Watch) else JobFollower(self._master, wanted)

    def _send_news(self, client: Client) -> None:
        """Send one message of the client's stream; if there was one, schedule the next."""
        client.news_due = False
        if client.stream is None or client not in self._clients:
            return
        if client.channel.buffered > UNREAD_MAX:
            self._send_later(client, NEWS_S)
            return
        stream = client.stream
        if client.queue is None:
            self._supervised(client, lambda: self._send_next(client, stream))
            return
        wait_s = self._scheduler.wait_s(client.queue.user)
        if wait_s > 0:
            self._send_later(client, wait_s)
            return
        with self._scheduler.spending(client.queue.user):
            self._supervised(client, lambda: self._send_next(client, stream))

    def _send_next(self, client: Client, stream: Stream) -> None:
        try:
            news = stream.news()
        except DamagedError:
            raise
        except StoreError as error:
            # The database is unreachable, or a disk is full. The next look, after LOOK_S, continues from here.
            if not client.is_behind:
                log.warning("the stream of %s waits: %s", client.principal, error)
            client.is_behind = True
            return
        client.is_behind = False
        if news is None:
            return
        client.sent_at = self._reactor.now()
        self._send(client, news)
        if news.get("end") or news.get("so_far"):
            client.stream = None
        else:
            self._send_later(client, 0.0)

    def _send_later(self, client: Client, wait_s: float) -> None:
        client.news_due = True
        self._reactor.call_later(wait_s, functools.partial(self._send_news, client))

    def _send(self, client: Client, message: dict[str, Any]) -> None:
        # Our own answers are encoded without the limits for data of strangers.
        client.channel.send(pack(message))
        # While every connection is below its share, all of them together are below the limit.
        if client.queue is not None and client.channel.buffered * len(self._clients) > USER_UNREAD_MAX:
            self._limit_unread(client.queue.user)

    def _limit_unread(self, user: Hashable) -> None:
        """Disconnect the connection of this user with the most unsent bytes, if all of them together have too many."""
        every = [client for client in self._clients if client.queue is not None and client.queue.user == user]
        if sum(client.channel.buffered for client in every) <= USER_UNREAD_MAX:
            return
        slowest = max(every, key=lambda client: client.channel.buffered)
        log.info("a connection of %s is closed: its client does not read", slowest.principal)
        slowest.stream = None
        slowest.channel.close()
        self._forget(slowest)
