"""The documents of minions on the master: grains and resource registrations that they send, and the pillar they fetch.

A minion announces the digests of its grains and resources; the master asks for a document whose digest differs. A
document arrives in pieces and is handled when it is complete. Pillar goes the other way: the first piece of each fetch
evaluates it for the minion's own id and grains, later pieces come from the copy that this MWorker remembers. The result
is stored in the bank `pillar`, for targeting. Pillar values are never logged.

All pieces of a document go to the same MWorker while it lives; the next one has none of them and says so, and the
minion starts again. Incomplete documents fill at most DOCUMENTS_MEMORY, and one is dropped IDLE_S after its last piece.
Each minion has a share of the memory; one minion at a time may exceed it. When memory is short, documents that arrive
too slowly are dropped, and a small document displaces the largest one. A piece that does not fit is answered with
`busy`, and is sent again.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError, RemoteProtocolError, SaltliteError, StoreError, UsageError
from saltlite.limits import RateLimiter
from saltlite.master.handlers.asks import answer_ask, report_ended
from saltlite.master.handlers.events import answer_event
from saltlite.master.handlers.registration import Taken, register
from saltlite.master.processes.context import Answer, Later, Master
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.pillar.evaluation import Evaluation, EvaluationRequest
from saltlite.targeting.banks import GRAINS, GRAINS_MAX, KEY_NAMES_MAX, LEAVES_MAX, PILLAR, Banks, leaves_of
from saltlite.wire.codec import decode_document, document_digest, encode_document
from saltlite.wire.limits import CHUNK, DOC_MAX, KIB, MIB
from saltlite.wire.messages import Message, response_message

DOCUMENTS_MEMORY = 2 * DOC_MAX
"""Bytes of incomplete documents in one MWorker."""
SHARES = 8
"""A minion's share of the memory is 1/SHARES. Only one minion at a time may exceed it."""
IDLE_S = 60.0
"""An incomplete document is dropped this long after its last piece."""
RATE_MIN = 128 * KIB
"""Bytes per second that a document older than IDLE_S needs, to keep its memory when another one needs it."""
SMALL = MIB
"""Bytes up to which a document is small. Larger ones do not displace each other: none would ever complete."""
AT_ONCE = 30
"""The burst of documents of one kind that a minion may send …"""
EVERY_S = 2.0
"""… and seconds until it may send another one. The answer to any further one is `busy`."""
BYTES_PER_MINUTE = DOC_MAX
"""Bytes of documents per minion and minute."""

_SIZE_MAX = {"grains": GRAINS_MAX, "resources": DOC_MAX}

_Key = tuple[MinionId, str]


@dataclass(frozen=True, slots=True)
class Document:
    """A complete document whose digest is right; its content is not checked yet."""

    kind: str
    data: bytes


@dataclass(slots=True)
class _Arriving:
    digest: bytes
    size: int
    begun_at: float
    touched_at: float
    """When its last piece arrived."""
    data: bytearray = field(default_factory=bytearray)


class _Window:
    """The documents of one minion in the last minute: when, and how many bytes."""

    def __init__(self) -> None:
        self._sent: deque[tuple[float, int]] = deque()

    def problem(self, size: int, now: float) -> str:
        """Why a document of that size exceeds the rate, "" if it does not."""
        sent = self._sent
        while sent and now - sent[0][0] >= 60.0:
            sent.popleft()
        if sent and size + sum(size for _, size in sent) > BYTES_PER_MINUTE:
            return f"the master takes {BYTES_PER_MINUTE} bytes of documents of a minion in a minute"
        return ""

    def add(self, size: int, now: float) -> None:
        self._sent.append((now, size))

    def is_over(self, now: float) -> bool:
        """Whether the last minute is empty."""
        return not self._sent or now - self._sent[-1][0] >= 60.0


class DocumentBuffer:
    """The incomplete documents of one MWorker."""

    def __init__(self, clock: Clock, memory: int = DOCUMENTS_MEMORY) -> None:
        """`memory`: bytes for incomplete documents."""
        self._clock = clock
        self._memory = memory
        self._arriving: OrderedDict[_Key, _Arriving] = OrderedDict()
        """The longest idle one comes first."""
        self._held = 0
        self._windows: OrderedDict[MinionId, _Window] = OrderedDict()
        """The latest sender comes last."""
        self._rate = RateLimiter(1 / EVERY_S, AT_ONCE)

    def put(self, minion: MinionId, message: Message) -> Message | Document:
        """Add a piece. Returns the document after the last one, else the response; its `size` is the next offset."""
        n, kind, size, data = message["n"], message["kind"], message["size"], message["data"]
        if not 0 < size <= _SIZE_MAX[kind]:
            return response_message(
                n, "refused", names=[f"{kind} of {size} bytes are too large: {_SIZE_MAX[kind]} may be"]
            )
        place, now = (minion, kind), self._clock.monotonic()
        self._forget_old(now)
        if message["offset"] == 0 and (problem := self._problem(minion, kind, size, now)):
            return response_message(n, "busy", names=[problem])
        arriving = self._arriving.get(place)
        if arriving is None or arriving.digest != message["sha256"]:
            self._forget(place)
            arriving = self._arriving[place] = _Arriving(message["sha256"], size, now, now)
        if data and message["offset"] == len(arriving.data) and len(arriving.data) + len(data) <= size:
            if not self._has_room(place, len(data), now):
                return response_message(n, "busy", size=len(arriving.data))
            arriving.touched_at = now
            self._arriving.move_to_end(place)
            arriving.data += data
            self._held += len(data)
        if len(arriving.data) < size:
            return response_message(n, "ok", size=len(arriving.data))
        self._forget(place)
        self._rate.spend(place, now)
        self._windows.setdefault(minion, _Window()).add(size, now)
        self._windows.move_to_end(minion)
        if hashlib.sha256(arriving.data).digest() != arriving.digest:
            return response_message(n, "ok", size=0)
        return Document(kind, bytes(arriving.data))

    def _problem(self, minion: MinionId, kind: str, size: int, now: float) -> str:
        """Why a document of this size comes too soon; "" if it does not."""
        if self._rate.wait_s((minion, kind), now):
            return f"the master takes {AT_ONCE} times {kind} of a minion at once, and then one every {EVERY_S:g} s"
        return self._windows[minion].problem(size, now) if minion in self._windows else ""

    def _has_room(self, place: _Key, more: int, now: float) -> bool:
        """Whether `more` bytes fit; drops other documents that have to yield."""
        minion, others = place[0], [other for other in self._arriving if other != place]
        if self._of(minion) + more > self._share():
            before = [other for other in others if other[0] != minion and self._of(other[0]) > self._share()]
            kept = [other for other in before if not self._yields(other, now)]
            if kept:
                return False
        if self._held + more <= self._memory:
            return True
        for other in others:
            self._yields(other, now)
        if self._held + more > self._memory and self._arriving[place].size <= SMALL:
            large = [other for other, one in self._arriving.items() if other != place and one.size > SMALL]
            if large:
                self._forget(max(large, key=self._size))
        return self._held + more <= self._memory

    def _yields(self, place: _Key, now: float) -> bool:
        """Whether this document arrives too slowly; if so, it is dropped."""
        arriving = self._arriving.get(place)
        if arriving is None:
            return True
        age = now - arriving.begun_at
        slow = age > IDLE_S and len(arriving.data) < age * RATE_MIN
        if slow:
            self._forget(place)
        return slow

    def _share(self) -> int:
        return self._memory // SHARES

    def _size(self, place: _Key) -> int:
        return len(self._arriving[place].data)

    def _of(self, minion: MinionId) -> int:
        return sum(self._size((minion, kind)) for kind in _SIZE_MAX if (minion, kind) in self._arriving)

    def _forget_old(self, now: float) -> None:
        while self._arriving and now - next(iter(self._arriving.values())).touched_at > IDLE_S:
            self._forget(next(iter(self._arriving)))
        while self._windows and next(iter(self._windows.values())).is_over(now):
            self._windows.popitem(last=False)

    def _forget(self, place: _Key) -> None:
        gone = self._arriving.pop(place, None)
        if gone is not None:
            self._held -= len(gone.data)


log = logging.getLogger(__name__)

FOR_FILES = frozenset({"file_request", "file_put"})
"""Messages that the file server answers."""
MESSAGE_MAX = 500
"""Characters of one reason that is sent to a minion."""
NO_PILLAR = encode_document({})

Respond = Callable[[Message], None]
"""Called once with the response to a minion's message."""


def answer(master: Master, documents: DocumentBuffer, minion: MinionId, message: Message, respond: Respond) -> None:
    """Answer a message of that minion: `respond` is called once, now or in a later turn."""
    match message["t"]:
        case "doc_put":
            respond(answer_document(master, documents, minion, message))
        case "doc_get":
            answer_pillar(master, minion, message, respond)
        case "ask":
            answer_ask(master, minion, message, respond)
        case _:
            respond(answer_event(master, minion, message))


# -- grains


def take_grains(master: Master, minion: MinionId, data: bytes) -> list[str]:
    """Store the document in `data` as the grains of the minion, as a whole.

    Raises RefusedError for invalid grains, and StoreError; then the old ones stay.
    """
    try:
        grains = decode_document(data)
    except RemoteProtocolError as error:
        raise RefusedError(f"the grains could not be read: {error}") from None
    if master.store.holder(minion) is None:
        raise RefusedError("the key is not accepted any more")
    strange = [name for name in grains if not isinstance(name, str)]
    if strange:
        raise RefusedError(f"{str(strange[0])[:40]!r} is not the name of a grain: it is not text")
    if len(grains) > KEY_NAMES_MAX:
        raise RefusedError(f"there are {len(grains)} grains, and there may be {KEY_NAMES_MAX}")
    try:
        leaves = leaves_of(grains)
        if leaves > LEAVES_MAX:
            raise RefusedError(f"the grains have {leaves} values, and there may be {LEAVES_MAX}")
        # The id follows from the minion's key, and not from what it claims.
        master.banks.bank(GRAINS).put(minion, {**grains, "id": minion}, document_digest(data))
    except UsageError as error:
        raise RefusedError(str(error)) from None
    return []


def answer_document(master: Master, documents: DocumentBuffer, minion: MinionId, message: Message) -> Message:
    """The response to a `doc_put`: "ok", with refused parts in `names`, and `more` if the minion should look for its
    resources again, and `data` with `Taken.withheld`; "refused", with the reasons; or "busy", and the minion sends it
    again."""
    n = message["n"]
    document = documents.put(minion, message)
    if not isinstance(document, Document):
        return document
    try:
        if document.kind == "grains":
            taken = Taken(take_grains(master, minion, document.data), look_again=False)
        else:
            taken = register(master, minion, document.data)
    except RefusedError as error:
        return response_message(n, "refused", names=_lines(str(error).splitlines()))
    except StoreError as error:
        log.error("%s of %s cannot be kept for now: %s", document.kind, minion, error)  # noqa: TRY400 - the message is complete
        return response_message(n, "busy", names=_lines([f"the master cannot keep them for now: {error}"]))
    size, sha256, lines = len(document.data), message["sha256"], _lines(taken.sentences)
    data = taken.withheld if len(taken.withheld) <= CHUNK else b""
    return response_message(n, "ok", size=size, sha256=sha256, names=lines, more=taken.look_again, data=data)


def _lines(sentences: list[str]) -> list[str]:
    return [sentence[:MESSAGE_MAX] for sentence in sentences]


# -- digests


def handle_digests(master: Master, minion: MinionId, digests: dict[str, Any]) -> None:
    """Ask for the minion's grains or resources if its digest differs. Raises StoreError.

    An empty digest means that the minion does not know it yet, and will announce it.
    """
    if digests["grains"] and digests["grains"] != master.banks.bank(GRAINS).digest(minion):
        master.link.fetch(minion, "grains")
    known = digests["resources"] == master.registrations.digest(minion) and agrees(master, minion)
    if digests["resources"] and not known:
        master.link.fetch(minion, "resources")


def agrees(master: Master, minion: MinionId) -> bool:
    """Whether the registry has as many resources of the minion as it registered last.

    It does not after damage, after an operator transferred some, or after its file was removed.
    """
    row = master.registrations.of(minion)
    held = master.registry.views().by_minion.get(minion, {})
    return row is not None and row.count == sum(len(one.ids) for one in held.values())


# -- pillar


def handle_pillar_show(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `pillar`, as a minion with this id would get it now; `top`, {environment: names of its files}; and
    `mistakes` in top files."""
    minion = parse_minion_id(request["id"])
    if not master.pillars.any_to_make():
        return Answer({"pillar": {}, "top": {}, "mistakes": []})
    grains = master.banks.bank(GRAINS).get(minion) or {}
    wanted = EvaluationRequest(f"user {principal.label}", minion, grains, names=True)

    def fields(made: Evaluation) -> dict[str, Any]:
        report_ended(master, minion, made)
        if made.problem:
            raise SaltliteError(f"the pillar of {minion} cannot be shown: {made.problem}")
        # As it is sent: dates and similar values have become text.
        return {"pillar": decode_document(made.data), "top": dict(made.top), "mistakes": list(made.mistakes)}

    return Answer(
        later=Later(lambda done: master.pillars.evaluator.evaluate(wanted, lambda made: done(lambda: fields(made))))
    )


def answer_pillar(master: Master, minion: MinionId, message: Message, respond: Respond) -> None:
    """Respond to a `doc_get`, now or when the pillar is evaluated. The first piece has in `names` the digest of the
    grains that it was evaluated with."""
    n, offset = message["n"], message["offset"]
    if message["sha256"]:
        data = master.pillars.remembered(minion, message["sha256"])
        if data is None:
            respond(response_message(n, "absent"))
            return
        if offset + CHUNK >= len(data):
            master.pillars.forget(minion, message["sha256"])
        respond(_piece(n, message["sha256"], data, offset))
        return
    if not master.pillars.may_make(minion, master.clock.monotonic()):
        respond(response_message(n, "busy"))
        return
    if not master.pillars.any_to_make():
        respond(_first_piece(master, minion, n, Evaluation(NO_PILLAR), ()))
        return
    grains = master.banks.bank(GRAINS)
    # The digest is read first: if newer grains are stored in between, the minion asks again.
    digest = grains.digest(minion)
    wanted = EvaluationRequest(f"minion {minion}", minion, grains.get(minion) or {})
    master.pillars.evaluator.evaluate(wanted, lambda made: respond(_first_piece(master, minion, n, made, (digest,))))


def _first_piece(master: Master, minion: MinionId, n: int, made: Evaluation, made_with: Sequence[str]) -> Message:
    """The first piece of the pillar, or why there is none."""
    report_ended(master, minion, made)
    if made.unsendable:
        log.error("the pillar of %s cannot be sent: %s", minion, made.problem)
        return response_message(n, "refused", names=["the master cannot send it: its log says why"])
    if made.problem:
        log.error("the pillar of %s cannot be made: %s", minion, made.problem)
        return response_message(n, "busy", names=[made.problem[:MESSAGE_MAX]])
    if made.errors:
        log.error("the pillar of %s is not whole: %s", minion, " ".join(made.errors))
    if master.pillars.cached:
        _cache(master.banks, minion, made.data)
    sha256 = hashlib.sha256(made.data).digest()
    if len(made.data) > CHUNK:
        master.pillars.remember(minion, sha256, made.data)
    return _piece(n, sha256, made.data, 0, *made_with)


def _piece(n: int, sha256: bytes, data: bytes, offset: int, *names: str) -> Message:
    piece = data[offset : offset + CHUNK]
    return response_message(n, "ok", size=len(data), sha256=sha256, data=piece, names=list(names))


def _cache(banks: Banks, minion: MinionId, data: bytes) -> None:
    """Store the pillar for targeting. The minion gets it even if this fails."""
    digest = document_digest(data)
    try:
        bank = banks.bank(PILLAR)
        known = bank.digest(minion)
        if known != digest and (known or data != NO_PILLAR):
            bank.put(minion, decode_document(data), digest)
    except SaltliteError as error:
        log.warning("targets by pillar do not see %s as it is now: %s", minion, error)
