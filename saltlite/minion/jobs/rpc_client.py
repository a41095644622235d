"""Requests of a process of a job to its job server (`saltlite.minion.jobs.rpc_server`), the events that it sends, and
what it asks of the master.

Answers may arrive in another order than the requests, and several threads of a function may wait at once.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from saltlite.errors import CommandExecutionError, LocalProtocolError, SaltInvocationError, UsageError
from saltlite.loader.encode import RETURN_MAX, decode_return, encode_whole
from saltlite.minion.processes.ipc_messages import FORGED
from saltlite.model.events import parse_tag
from saltlite.model.sha256 import sha256
from saltlite.wire import codec
from saltlite.wire.framing import IpcMessage, framed, pack, read_frame, unpack
from saltlite.wire.limits import CHUNK, EVENT_DATA_MAX, EVENT_TAG_MAX, FILE_ASKS_MAX
from saltlite.wire.messages import Message

ASK = b"?"
"""The prefix of a request on the socket; its length and the message follow."""
PATIENCE_S = 600.0
"""Seconds to wait for an answer: a master may restart meanwhile, and its minions reconnect slowly."""
REFRESH_S = 150.0
"""Seconds to wait for a refresh: longer than a resource type may take for discovery."""
UNSIGNED = "An answer came that no master of this minion has signed, and was not used: the minion's log says more."
BUSY_S = 0.5
"""Seconds until a request that the master was too busy for is sent again."""


class RpcClient:
    """The requests of one process of a job. `fd` is its socket."""

    def __init__(self, fd: int, patience_s: float = PATIENCE_S) -> None:
        self._fd = fd
        self._patience_s = patience_s
        self._numbers = 0
        self._answers: dict[int, IpcMessage] = {}
        self._unwanted: set[int] = set()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._saying = threading.Lock()
        self._hearing = threading.Lock()

    @property
    def is_unused(self) -> bool:
        """Whether nothing was ever said here, so that no late answer can come."""
        return self._numbers == 0

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        """Send `file_request` and `file_put` messages (`n` is set here) and return the answers of the master, in order.

        Several are in flight at once. Raises CommandExecutionError when the minion or the master does not answer.
        """
        ahead: deque[tuple[int, Message]] = deque()
        try:
            for question in questions:
                ahead.append((self._say(question), question))
                if len(ahead) == FILE_ASKS_MAX:
                    yield self._settled(ahead)
            while ahead:
                yield self._settled(ahead)
        finally:
            self._unwanted.update(number for number, _question in ahead)

    def event(self, message: Message, patience_s: float) -> Message | None:
        """Send an `event` (`n` is set here); the answer of the master, None without one in that time. The minion keeps
        sending it, so the master may still store it."""
        number = self._say(message)
        answer = self._answer_within(number, patience_s)
        if answer is None:
            self._unwanted.add(number)
        return answer

    def refresh(self, what: str) -> IpcMessage:
        """Have the minion refresh its "modules", "grains", "pillar" or "resources"; its report about the refresh.

        Raises CommandExecutionError when it fails or takes longer than REFRESH_S. The minion tries again by itself.
        """
        number = self._say({"t": "refresh", "what": what})
        patience_s = min(REFRESH_S, self._patience_s)
        answer = self._answer_within(number, patience_s)
        if answer is None:
            self._unwanted.add(number)
        return refreshed(answer, what, patience_s)

    def request(self, message: Message) -> Message:
        """Send one message and return the answer of the master, as `ask` does."""
        (answer,) = self.ask([message])
        return answer

    def timers(self, about: str, operation: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the minion to a request about its "schedule" or "beacons". Raises CommandExecutionError."""
        number = self._say({"t": "timers", "about": about, "operation": operation, "fields": dict(fields)})
        return timers_answer(self._answer(number))

    def _settled(self, ahead: deque[tuple[int, Message]]) -> Message:
        number, question = ahead.popleft()
        give_up_at = time.monotonic() + self._patience_s
        answer = self._answer(number)
        while answer["state"] == "busy":
            if time.monotonic() + BUSY_S > give_up_at:
                raise still_busy(answer, self._patience_s)
            time.sleep(BUSY_S)
            answer = self._answer(self._say(question))
        if answer["state"] == FORGED:
            raise CommandExecutionError(UNSIGNED)
        return answer

    def _say(self, message: Message) -> int:
        with self._saying:
            self._numbers += 1
            data = pack({**message, "n": self._numbers})
            rest = memoryview(ASK + framed(data))
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except BrokenPipeError:
                raise _minion_gone() from None
            return self._numbers

    def _answer(self, number: int) -> IpcMessage:
        answer = self._answer_within(number, self._patience_s)
        if answer is None:
            text = f"The master has not answered for {self._patience_s:g} s: look at the minion's log."
            raise CommandExecutionError(text)
        return answer

    def _answer_within(self, number: int, patience_s: float) -> IpcMessage | None:
        give_up_at = time.monotonic() + patience_s
        while True:
            with self._hearing:
                if number in self._answers:
                    return self._answers.pop(number)
                left = give_up_at - time.monotonic()
                if left <= 0 or not self._poll.poll(left * 1000):
                    return None
                data = read_frame(partial(os.read, self._fd))
                if data is None:
                    raise _minion_gone()
                answer = unpack(data)
            if answer["n"] in self._unwanted:
                self._unwanted.discard(answer["n"])
            else:
                self._answers[answer["n"]] = answer


def refreshed(answer: IpcMessage | None, what: str, waited_s: float) -> IpcMessage:
    """The report in the answer to a request for a refresh; None for no answer so far. Raises CommandExecutionError."""
    if answer is None:
        raise CommandExecutionError(
            f"The minion still refreshes its {what} after {waited_s:g} s, and goes on with it: its log says what "
            "it waits for, and `saltlite doctor` there whether it has a master."
        )
    found: IpcMessage = answer["answer"]
    if "error" in found:
        raise CommandExecutionError(found["error"])
    return found


def timers_answer(answer: IpcMessage) -> dict[str, Any]:
    """The answer to a request about the schedule or the beacons. Raises CommandExecutionError with its error."""
    found: dict[str, Any] = answer["answer"]
    if "error" in found:
        raise CommandExecutionError(found["error"])
    return found


def still_busy(answer: Mapping[str, Any], waited_s: float) -> CommandExecutionError:
    """The error for a master that has answered "busy" for so long, with the reason that it gave."""
    reason = " ".join(answer.get("names", ())).rstrip(".")
    return CommandExecutionError(f"The master could not take the request for {waited_s:g} s{reason and f': {reason}'}.")


def _minion_gone() -> CommandExecutionError:
    return CommandExecutionError("The minion was restarted while this function ran: run it again.")


# -- Events: what execution modules know as `__events__`


"""Seconds until an event that the master was too busy for is sent again."""


class EventTransport(Protocol):
    """Sends an `event` message; the answer of the master, None without one in `patience_s` seconds."""

    def event(self, message: Message, patience_s: float) -> Message | None: ...


class RpcEventSender:
    """Sends events; `jid` is the job that the modules run under now, "" for none."""

    def __init__(self, way: EventTransport, jid: str = "") -> None:
        self.jid = jid
        self._way = way

    def send(self, tag: str, data: Mapping[str, Any] | str, timeout_s: float) -> None:
        """Send an event; it is in the master's event log when this returns.

        Raises SaltInvocationError for an invalid event, CommandExecutionError without an answer in `timeout_s` seconds.
        """
        message = event_message(tag, data, self.jid)
        give_up_at = time.monotonic() + timeout_s
        while True:
            answer = self._way.event(message, max(0.0, give_up_at - time.monotonic()))
            if answer is None:
                raise CommandExecutionError(f"The master has not acknowledged the event in {timeout_s:g} s.")
            if answer["state"] == "ok":
                return
            if answer["state"] != "busy":
                raise SaltInvocationError(" ".join(answer["names"]) or "The master refused the event.")
            if time.monotonic() + BUSY_S > give_up_at:
                raise CommandExecutionError(f"The master takes no more events of this minion for {timeout_s:g} s.")
            time.sleep(BUSY_S)


def event_message(tag: str, data: Mapping[str, Any] | str, jid: str) -> Message:
    """The `event` message, within its limits. Raises SaltInvocationError."""
    try:
        parse_tag(tag)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error
    if len(tag) > EVENT_TAG_MAX:
        raise SaltInvocationError(f"The tag of an event has at most {EVENT_TAG_MAX} characters.")
    # Encoded like a return, so that any value becomes plain.
    plain = decode_return(encode_whole(data if isinstance(data, str) else dict(data), RETURN_MAX).body, 2 * RETURN_MAX)
    try:
        encoded = codec.encode_checked(plain, codec.EVENT)
    except LocalProtocolError as error:
        raise SaltInvocationError(
            f"The data of an event has at most {EVENT_DATA_MAX // 1024} KiB, and this has not: {error}"
        ) from error
    return {"t": "event", "n": 0, "tag": tag, "data": encoded, "jid": jid}


# -- Requests to the master in the name of this minion: what execution modules know as `__master__`


ATTEMPTS = 3
"""How often a request is repeated whose answer the master forgot before all pieces were fetched."""


class RequestTransport(Protocol):
    """Sends an `ask` message until the master has taken it, and returns the answer."""

    def request(self, message: Message) -> Message: ...


class MasterRequests:
    """Requests to the master. Repeating one must be harmless: after a lost connection it is sent again."""

    def __init__(self, way: RequestTransport, jid: Callable[[], str] = lambda: "") -> None:
        """`jid` returns the job that the modules run under now, "" for none."""
        self._way = way
        self._jid = jid

    def decoded(self, body: bytes) -> Any:
        """The value of an encoded return."""
        return decode_return(body)

    def encoded(self, value: Any) -> bytes:
        """A value as a return has it."""
        return encode_whole(value, RETURN_MAX).body

    def ask(self, what: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to the request `what`, one of `wire.messages.ASKS`.

        Raises CommandExecutionError with the master's reason when it refuses, and without a connection to it.
        """
        try:
            data = codec.encode_document({**fields, "by": self._jid()})
        except LocalProtocolError as error:
            raise SaltInvocationError(f"This cannot be sent to the master: {error}") from error
        if len(data) > CHUNK:
            raise SaltInvocationError(
                f"A request to the master has at most {CHUNK // 1024} KiB, not {len(data)} bytes."
            )
        for _attempt in range(ATTEMPTS):
            content = self._fetched(what, data)
            if content is not None:
                return codec.decode_document(content)
        raise CommandExecutionError("The master forgot its answer before all of it had arrived: try again.")

    def _fetched(self, what: str, data: bytes) -> bytes | None:
        first = self._piece(what, data, b"", 0)
        content = bytearray(first["data"])
        while len(content) < first["size"]:
            piece = self._piece(what, b"", first["sha256"], len(content))
            if piece["state"] == "absent" or not piece["data"]:
                return None
            content += piece["data"]
        return bytes(content) if sha256(bytes(content)) == first["sha256"] else None

    def _piece(self, what: str, data: bytes, digest: bytes, offset: int) -> Message:
        message = {"t": "ask", "n": 0, "what": what, "data": data, "sha256": digest, "offset": offset, "nonce": b""}
        answer = self._way.request(message)
        if answer["state"] in ("ok", "absent"):
            return answer
        refusal = UNSIGNED if answer["state"] == FORGED else " ".join(answer["names"])
        raise CommandExecutionError(refusal or "The master refused the request.")
