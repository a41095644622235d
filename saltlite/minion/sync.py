"""The documents that a minion and its master exchange: grains and resources to the master, the pillar from it.

In each session the minion sends the digests of its documents (`digest`), and the master requests those that it lacks
(`fetch`). Later changes are sent at once. The master confirms a document by its SHA-256; until then it is sent again,
in this session or a later one. The pillar is requested in each session and on demand. The answer names the grains that
it was compiled with; if these are outdated, the grains are sent and the pillar is requested once more.

Nothing here blocks, and one piece is in flight at a time: a document of a few KiB takes one round trip.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

import msgpack  # type: ignore[import-untyped]  # msgpack ships no types

from saltlite.errors import CommandExecutionError, LocalProtocolError, ProtocolError, RemoteProtocolError
from saltlite.minion.custom_grains import custom_grains
from saltlite.minion.processes.ipc_messages import FORGED
from saltlite.model.dataclass import dataclass
from saltlite.model.sha256 import sha256
from saltlite.platform import logs
from saltlite.platform.process import Child, keep_only, set_parent_death_signal
from saltlite.platform.reactor import Reactor
from saltlite.plugins.grains.collect import collect, static_grains, static_grains_version
from saltlite.wire.codec import decode_document, document_digest, encode_document
from saltlite.wire.limits import CHUNK, DOC_MAX
from saltlite.wire.messages import Message

log = logging.getLogger(__name__)

Kind = Literal["grains", "resources"]
Done = Callable[[], None]
PillarDone = Callable[[str], None]
"""Called with "" when the pillar has arrived, or with the reason why it could not be fetched so far."""
Ask = Callable[[Message, Callable[[Message], None]], None]
"""Sends a request to the master, and calls back with the `response`; never if the session ends first."""

AGAIN_S = 1.0
"""Seconds until a document that the master could not take or give is tried again; the delay doubles …"""
AGAIN_MAX_S = 60.0
"""… up to this maximum."""
HOLDS_S = 300.0
"""Seconds after which digests are sent again: the master may have lost its copy, or accept now what it refused."""


class Timers(Protocol):
    """What is used of the reactor."""

    def call_later(self, seconds: float, callback: Done) -> object: ...


@dataclass(frozen=True, slots=True)
class DocumentCallbacks:
    """`pillar` gets each fetched pillar, changed or not. `registered` gets whether the master accepted the resources,
    the reasons against all or some of them, and which it withholds (`saltlite.model.resourcelook.bits_of`)."""

    pillar: Callable[[dict[str, Any]], None] = lambda _pillar: None
    registered: Callable[[bool, Sequence[str], bytes], None] = lambda _ok, _reasons, _withheld: None
    look_again: Callable[[], None] = lambda: None
    """The master wants another discovery before it believes that some resources are gone."""


@dataclass(slots=True)
class _Document:
    """One document of this minion. `known` is the digest that the master knows in this session, "" for none."""

    data: bytes = b""
    digest: str = ""
    known: str = ""
    sending: bool = False
    retry: object = None
    """Identifies the pending retry, None without one."""
    wait_s: float = AGAIN_S
    settled: list[Done] = field(default_factory=list)


@dataclass(slots=True)
class _Pillar:
    """The pillar in transfer. `asked`: a newer one than the one in transfer is needed."""

    data: bytearray = field(default_factory=bytearray)
    sha256: bytes = b""
    size: int = 0
    """Both are from the first piece, which is signed and covers the later ones."""
    fetching: bool = False
    asked: bool = False
    retry: object = None
    """Identifies the pending retry, None without one."""
    wait_s: float = AGAIN_S
    now: list[PillarDone] = field(default_factory=list)
    """Called when the one in transfer has arrived, or has failed."""
    next: list[PillarDone] = field(default_factory=list)


class DocumentSync:
    """`ask` sends a request to the master, `tell` a message without a response."""

    def __init__(self, timers: Timers, ask: Ask, tell: Callable[[Message], None], hooks: DocumentCallbacks) -> None:
        self._timers = timers
        self._put_question = ask
        self._tell = tell
        self._hooks = hooks
        self._session = 0
        self._documents: dict[str, _Document] = {"grains": _Document(), "resources": _Document()}
        self._pillar = _Pillar()
        self._logged: tuple[str, tuple[str, ...]] = ("", ())
        self._sent_for_pillar = ""

    # -- what happens

    def connected(self) -> None:
        """Start a session: this master knows nothing yet, and transfers are lost."""
        self._session += 1
        for document in self._documents.values():
            document.known, document.sending, document.retry, document.wait_s = "", False, None, AGAIN_S
        self._pillar.fetching, self._pillar.retry, self._pillar.wait_s = False, None, AGAIN_S
        self._sent_for_pillar = ""
        self._holds()
        for what, document in self._documents.items():
            if document.settled:
                # A caller waits for an answer, which will not come for a document that this master may already have.
                self._send(what)
        self._in_session(HOLDS_S, self._holds_again)
        self._pillar.asked = True
        self._fetch()

    def wanted(self, what: str) -> None:
        """Send a document that the master requests."""
        if what in self._documents:
            self._send(what)

    def grains_are(self, grains: Mapping[str, Any]) -> None:
        """Send new grains."""
        try:
            data = encode_document(grains)
        except LocalProtocolError as error:
            log.error("the master does not get the grains of this minion: %s", error)  # noqa: TRY400 - a sentence
            data = encode_document({"id": grains["id"]})
        self._is_now("grains", data)
        self._fetch()

    def resources_are(self, data: bytes) -> None:
        """Send new resources; `data` is the document that registers them."""
        if len(data) > DOC_MAX:
            reason = f"its resources make a document of {len(data)} bytes, the limit is {DOC_MAX}"
            self._registered(document_digest(data), [reason], ok=False)
            return
        self._is_now("resources", data)

    def refresh_pillar(self, done: PillarDone) -> None:
        """Fetch the pillar, in the next session if there is none, until it has arrived.

        A pending retry is made at once. `done` is called when the pillar has arrived, or at the first failure with its
        reason.
        """
        pillar = self._pillar
        pillar.next.append(done)
        pillar.asked = True
        if pillar.retry is not None:
            # Somebody may have mended what failed, and waits for this.
            pillar.fetching, pillar.retry = False, None
        self._fetch()

    def settled(self, what: Kind, done: Done) -> None:
        """Call `done` when the master has answered to the newest grains or resources; at once if it has."""
        document = self._documents[what]
        if document.sending:
            document.settled.append(done)
        else:
            done()

    def registered(self, done: Done) -> None:
        """Call `done` when the master has answered to the current resources. They are sent for that in any case,
        without a session in the next one."""
        document = self._documents["resources"]
        if document.data:
            document.settled.append(done)
            if self._session:
                self._send("resources")
        else:
            done()

    # -- what the master keeps

    def _is_now(self, what: Kind, data: bytes) -> None:
        document = self._documents[what]
        document.data, document.digest = data, document_digest(data)
        if not self._session or document.known == document.digest:
            return
        if document.known:
            self._send(what)
        else:
            # Most minions that reconnect have nothing new, and a digest is cheaper than the document.
            self._holds()

    def _holds(self) -> None:
        digests = {what: document.digest for what, document in self._documents.items()}
        if not any(digests.values()):
            return
        for document in self._documents.values():
            document.known = document.digest
        self._tell({"t": "digest", **digests})

    def _holds_again(self) -> None:
        self._holds()
        self._in_session(HOLDS_S, self._holds_again)

    def _send(self, what: str) -> None:
        """Send a document, unless it is being sent. A pending retry is made at once."""
        document = self._documents[what]
        if document.data and (not document.sending or document.retry is not None):
            document.sending, document.retry = True, None
            self._piece(what, document.data, 0)

    def _send_later(self, what: str, reasons: Sequence[str]) -> None:
        document = self._documents[what]
        if reasons and document.wait_s == AGAIN_S:  # once, and not at each retry
            log.warning("the master does not take the %s of this minion so far: %s", what, "; ".join(reasons))
        retry = document.retry = object()
        self._in_session(document.wait_s, lambda: self._send(what) if document.retry is retry else None)
        document.wait_s = min(2 * document.wait_s, AGAIN_MAX_S)

    def _piece(self, what: str, data: bytes, offset: int) -> None:
        message = {
            "t": "doc_put",
            "n": 0,
            "kind": what,
            "size": len(data),
            "sha256": sha256(data),
            "offset": offset,
            "data": data[offset : offset + CHUNK],
        }
        self._ask(message, lambda response: self._piece_answered(what, data, response))

    def _piece_answered(self, what: str, data: bytes, response: Message) -> None:
        document = self._documents[what]
        if data is not document.data:
            self._piece(what, document.data, 0)
        elif response["state"] == "busy":
            self._send_later(what, response["names"])
        elif response["state"] != "ok":
            self._answered(what, document, response, ok=False)
        elif response["sha256"]:
            self._answered(what, document, response, ok=True)
            if what == "resources" and response["more"]:
                self._hooks.look_again()
        else:
            self._piece(what, data, min(response["size"], len(data)))

    def _answered(self, what: str, document: _Document, response: Message, *, ok: bool) -> None:
        reasons = response["names"]
        document.sending, document.wait_s = False, AGAIN_S
        document.known = document.digest
        if what == "resources":
            self._registered(document.digest, reasons, ok=ok, withheld=response["data"])
        elif not ok:
            log.error("the master refuses the grains of this minion, and keeps the old ones: %s", "; ".join(reasons))
        settled, document.settled = document.settled, []
        for done in settled:
            done()

    def _registered(self, digest: str, reasons: Sequence[str], *, ok: bool, withheld: bytes = b"") -> None:
        if reasons and self._logged != (digest, tuple(reasons)):
            verdict = "did not take all resources" if ok else "refuses the resources"
            log.error("the master %s of this minion: %s", verdict, "; ".join(reasons))
        self._logged = (digest, tuple(reasons))
        self._hooks.registered(ok, reasons, withheld)

    # -- the pillar

    def _fetch(self) -> None:
        """Start to fetch the pillar, if it is needed and nothing prevents it."""
        pillar = self._pillar
        if not self._session or not pillar.asked or pillar.fetching or not self._documents["grains"].data:
            return
        pillar.fetching, pillar.asked = True, False
        pillar.now += pillar.next
        pillar.next = []
        self._from_start()

    def _from_start(self) -> None:
        self._pillar.data.clear()
        self._pillar.sha256, self._pillar.size, self._pillar.retry = b"", 0, None
        self._rest()

    def _rest(self) -> None:
        pillar = self._pillar
        message = {"t": "doc_get", "n": 0, "kind": "pillar", "sha256": pillar.sha256, "offset": len(pillar.data)}
        self._ask({**message, "nonce": b""}, self._pillar_answered)

    def _pillar_answered(self, response: Message) -> None:
        pillar = self._pillar
        if response["state"] == FORGED:
            self._pillar_later("no master of this minion signed what came")
            return
        if response["state"] != "ok" or response["size"] > DOC_MAX:
            self._pillar_later("; ".join(response["names"]))
            return
        if not pillar.sha256:
            if self._was_made_without(response["names"]):
                return
            pillar.sha256, pillar.size = response["sha256"], response["size"]
        pillar.data += response["data"]
        if len(pillar.data) >= pillar.size:
            self._whole_pillar()
        elif response["data"]:
            self._rest()
        else:
            self._pillar_later("it came to an end too early")

    def _was_made_without(self, grains: Sequence[str]) -> bool:
        """Whether the master compiled it with other grains than these; it is fetched again once the master has them."""
        mine = self._documents["grains"].digest
        if not grains or grains[0] == mine or self._sent_for_pillar == mine:
            return False
        self._sent_for_pillar = mine
        self._send("grains")
        session = self._session
        self.settled("grains", lambda: self._from_start() if session == self._session else None)
        return True

    def _whole_pillar(self) -> None:
        pillar = self._pillar
        if sha256(bytes(pillar.data)) != pillar.sha256:
            self._pillar_later("its pieces do not fit together")
            return
        try:
            content = decode_document(bytes(pillar.data))
        except RemoteProtocolError as error:
            self._pillar_later(str(error))
            return
        pillar.data.clear()
        pillar.fetching, pillar.wait_s = False, AGAIN_S
        now, pillar.now = pillar.now, []
        self._hooks.pillar(content)
        for done in now:
            done("")
        self._fetch()

    def _pillar_later(self, why: str) -> None:
        pillar = self._pillar
        if why:
            log.warning("the pillar could not be fetched, and is asked for again: %s", why)
            waiting, pillar.now, pillar.next = pillar.now + pillar.next, [], []
            for done in waiting:
                done(why)
        retry = pillar.retry = object()
        self._in_session(pillar.wait_s, lambda: self._from_start() if pillar.retry is retry else None)
        pillar.wait_s = min(2 * pillar.wait_s, AGAIN_MAX_S)

    # -- sessions

    def _ask(self, message: Message, answered: Callable[[Message], None]) -> None:
        session = self._session
        self._put_question(message, lambda response: answered(response) if session == self._session else None)

    def _in_session(self, seconds: float, callback: Done) -> None:
        """Call back later, unless this session has ended by then."""
        session = self._session
        self._timers.call_later(seconds, lambda: callback() if session == self._session else None)


GRAIN = "salt_resources"
INVENTORY_BYTES_MAX = 128 * 1024
"""Bytes of all ids. With more, the grain is dropped, because the grains would be too large for a master."""


def inventory_grain(inventory: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """{GRAIN: {type: [bare ids]}}; empty without resources, and for too many."""
    if not inventory:
        return {}
    size = sum(len(bare_id.encode()) + 2 for ids in inventory.values() for bare_id in ids)
    if size > INVENTORY_BYTES_MAX:
        log.warning("there are too many resources for the grain %s; it is missing: target them by T@ or M@", GRAIN)
        return {}
    return {GRAIN: {name: list(ids) for name, ids in inventory.items()}}


# -- The copy of the last pillar for `saltlite call`, if the configuration asks for it
#
# Only the owner can read the file; without read permission there is no pillar.


FILE = "pillar"


def keep_pillar(cachedir: str, pillar: Mapping[str, Any]) -> None:
    """Store the pillar in place of the old one. Raises CommandExecutionError when it cannot be written."""
    path = os.path.join(cachedir, FILE)
    fresh = f"{path}.new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:
            stream.write(encode_document(pillar))
        os.replace(fresh, path)
    except OSError as error:
        raise CommandExecutionError(f"the pillar cannot be kept in {path}: {error.strerror}") from error


def forget_pillar(cachedir: str) -> None:
    """Delete the copy."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(cachedir, FILE))


def kept_pillar(cachedir: str) -> dict[str, Any]:
    """The copy; empty if there is none. Raises CommandExecutionError when it exists and cannot be read."""
    path = os.path.join(cachedir, FILE)
    try:
        with open(path, "rb") as stream:
            return decode_document(stream.read())
    except FileNotFoundError:
        return {}
    except (OSError, ProtocolError) as error:
        raise CommandExecutionError(f"the pillar in {path} cannot be read: {error}") from error


# -- Start of jobs: after the grains were found and a pillar has arrived
#
# Without them, a job could do something else than intended. If a connected master sends no pillar, jobs start after
# PILLAR_WAIT_S all the same, so that an operator can use them to find the reason.


PILLAR_WAIT_S = 5.0
"""Seconds that jobs wait for the first pillar, from the first session on."""
MASTER_WAIT_S = 60.0
"""Seconds that jobs wait for the first session. Then the schedule, the beacons and recorded jobs start without it."""


class JobGate:
    """Calls `open_jobs` once, and `use_kept` before if no master has answered for MASTER_WAIT_S."""

    def __init__(self, timers: Timers, open_jobs: Callable[[], None], use_kept: Callable[[], None]) -> None:
        self._timers = timers
        self._open_jobs = open_jobs
        self._use_kept = use_kept
        self._grains = False
        self._pillar = False
        self._connected = False
        self._open = False
        timers.call_later(MASTER_WAIT_S, self._without_master)

    def grains_found(self) -> None:
        self._grains = True
        self._look()

    def pillar_came(self) -> None:
        self._pillar = True
        self._look()

    def connected(self) -> None:
        """Start the limit for the first pillar."""
        if not self._connected:
            self._connected = True
            self._timers.call_later(PILLAR_WAIT_S, self._without_pillar)

    def _without_pillar(self) -> None:
        if not self._pillar:
            log.warning("jobs start without a pillar: the master gave none within %g s", PILLAR_WAIT_S)
            self.pillar_came()

    def _without_master(self) -> None:
        if not self._connected:
            log.warning("jobs start without a master: none has answered for %g s", MASTER_WAIT_S)
            self._use_kept()
            self.pillar_came()

    def _look(self) -> None:
        if self._grains and self._pillar and not self._open:
            self._open = True
            self._open_jobs()


# -- Grains are found in a process of their own, so that a grain function cannot break the job server
#
# The process reports its findings piece by piece: if one function hangs, only later ones are lost. Custom grains come
# after the shipped ones, which they see as `__grains__` (and as the argument `grains`), and override them. A file or
# function that fails or hangs loses its own grains only, and is logged. The files of Salt and its extensions come last
# and only add grains.


DEADLINE_S = 30.0
"""Seconds for all grains; then jobs start with those found so far."""

_READ_BYTES = 65_536


class GrainFinder:
    """Finds grains. `found` gets all of them each time; those of the configuration, and the id, take precedence."""

    def __init__(self, reactor: Reactor, opts: Mapping[str, Any], found: Callable[[dict[str, Any]], None]) -> None:
        self._reactor = reactor
        self._opts = opts
        self._found = found
        self._looking = False
        self._next: list[Callable[[], None]] = []
        self._kept: tuple[int, ...] = ()

    def find(self, done: Callable[[], None] = lambda: None) -> None:
        """Find the grains; `done` is called after `found`. If a search is running, another one follows it."""
        self._next.append(done)
        if not self._looking:
            self._look()

    def find_if_static_changed(self) -> None:
        """Find them if the file of set grains has changed since the last time."""
        if self._kept != static_grains_version(self._opts):
            self.find()

    def _look(self) -> None:
        self._looking = True
        self._kept = static_grains_version(self._opts)
        waiting, self._next = self._next, []
        reading, writing = os.pipe2(os.O_CLOEXEC)
        pid = _fork_finder(self._opts, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        raw = bytearray()

        def finish() -> None:
            self._reactor.remove_reader(reading)
            os.close(reading)
            deadline.cancel()
            child.signal(signal.SIGKILL)
            self._found({**_grains_in(bytes(raw)), **self._opts.get("grains", {}), "id": self._opts["id"]})
            for done in waiting:
                done()
            self._looking = False
            if self._next:
                self._look()

        def readable() -> None:
            while chunk := _read(reading):
                raw.extend(chunk)
            if chunk == b"":
                finish()

        child = Child(self._reactor, pid, lambda _status: None)
        deadline = self._reactor.call_later(DEADLINE_S, finish)
        self._reactor.add_reader(reading, readable)


def _fork_finder(opts: Mapping[str, Any], writing: int) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            # A grain that hangs must not outlive the minion, nor hold its lock.
            set_parent_death_signal(signal.SIGKILL, parent)
            keep_only([writing, *logs.descriptors()])
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                shipped = collect(opts)
                pipe.write(msgpack.packb(shipped, default=str))
                for piece in custom_grains(opts, shipped):
                    pipe.write(msgpack.packb(piece, default=str))
                pipe.write(msgpack.packb(static_grains(opts), default=str))
            logs.report_repeats()
            status = 0
        finally:
            os._exit(status)
    return pid


def _grains_in(raw: bytes) -> dict[str, Any]:
    """The grains in what the process has reported so far."""
    grains: dict[str, Any] = {}
    pieces = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
    pieces.feed(raw)
    try:
        for piece in pieces:
            grains.update(piece)
    except ValueError as error:
        log.error("grains were found that cannot be read: %s", error)  # noqa: TRY400 - a sentence
    if not grains:
        log.error("the grains could not be found; only those of the configuration are there")
    return grains


def _read(fd: int) -> bytes | None:
    """The available bytes, b"" at the end, None for none yet."""
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None
