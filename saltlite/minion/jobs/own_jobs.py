"""Jobs that the minion begins by itself, for its schedule: they run, and are kept, like those of a master.

The master learns of such a job by a request (`own_job`), which it may get long after the job ran. Until it has
answered, the result stays in the spool, and a file in `own` says what to tell the master; it is deleted when the
result is acknowledged. If another job has the same jid, the master gives this one another: from then on messages to
and from the master are translated.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from saltlite.errors import ProtocolError, UsageError
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import jid_at
from saltlite.platform.logs import log_context
from saltlite.platform.reactor import Reactor, Timer
from saltlite.wire.codec import decode_document, encode_document
from saltlite.wire.framing import IpcMessage
from saltlite.wire.job_body import FunctionCall, JobBody, encode_body
from saltlite.wire.merkle import HASH_BYTES
from saltlite.wire.messages import Message

log = logging.getLogger(__name__)

FOLDER = "own"
WAIT_MS = 600_000
"""Milliseconds that such a job waits for a free slot, or for a restart of the minion."""
UNREPORTED_MAX = 1000
"""Jobs that the master does not know yet. While it is away and there are so many, no further ones begin."""
AGAIN_S = 5.0
"""Seconds until the master is told again of a job that it was too busy for."""

Ask = Callable[[Message, Callable[[Message], None]], None]


@dataclass(slots=True)
class _OwnJob:
    """What the master is told of a job. `known` as soon as it has answered."""

    about: dict[str, Any]
    known: bool = False


class OwnJobs:
    """`ask` sends a request to the master; `ended` is called with the jid when a job has ended or will not run."""

    def __init__(self, reactor: Reactor, jobs: JobMachine, ask: Ask, clock: Clock, data_dir: str) -> None:
        self.ended: Callable[[str], None] = lambda _jid: None
        self._reactor = reactor
        self._jobs = jobs
        self._ask = ask
        self._clock = clock
        self._folder = os.path.join(data_dir, FOLDER)
        self._reported: dict[str, _OwnJob] = {}
        self._silent: set[str] = set()
        """Jobs whose results are dropped."""
        self._theirs: dict[str, str] = {}
        """Our jid -> that of the master, where they differ."""
        self._ours: dict[str, str] = {}
        self._untold: deque[str] = deque()
        """Jobs that the master is still to be told of in this session, one at a time."""
        self._asked = ""
        """The job that the master has not answered yet."""
        self._again: Timer | None = None
        self._connected = False

    def open(self) -> None:
        """Read what an earlier job server left."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return
        for name in names:
            path = os.path.join(self._folder, name)
            try:
                with open(path, "rb") as file:
                    self._reported[name] = _OwnJob(decode_document(file.read()))
            except (OSError, ProtocolError) as error:
                log.error("a job of the schedule stays unknown to the master: %s cannot be read: %s", path, error)  # noqa: TRY400 - a sentence
                with suppress(OSError):
                    os.unlink(path)

    def begin(self, call: FunctionCall, *, origin: str, metadata: Mapping[str, Any], report: bool) -> str:
        """Begin a job; returns its jid. Without `report` its result is dropped, and the master does not learn of it.

        Raises UsageError for arguments that no job can have, and when the minion takes no further jobs.
        """
        jid = self._jobs.free_jid(jid_at(int(self._clock.wall() * 1_000_000)))
        user = f"minion:{self._jobs.minion}"
        body = JobBody(
            jid=jid, calls=(call,), user=user, audience=bytes(HASH_BYTES), run_ms=0, deliver_ms=WAIT_MS,
            metadata=dict(metadata),
        )  # fmt: skip
        encoded = encode_body(body)
        if report and len(self._reported) >= UNREPORTED_MAX:
            raise UsageError(f"{UNREPORTED_MAX} results wait for the master already")
        refusal = self._jobs.refusal()
        if refusal:
            raise UsageError(refusal)
        if report:
            about = {"jid": jid, "calls": [[call.fun, call.args, call.kwargs]], "metadata": dict(metadata)}
            self._keep(jid, {**about, "origin": origin})
        else:
            self._silent.add(jid)
        self._jobs.begin(body, encoded, WAIT_MS)
        if report and self._connected:
            self._untold.append(jid)
            self._tell_next()
        return jid

    def connected(self) -> None:
        """Start a session: tell the master of all jobs again, as it may be another one."""
        self._connected = True
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for job in self._reported.values():
            job.known = False
        self._untold, self._asked = deque(self._reported), ""
        self._tell_next()

    def may_offer(self, jid: str) -> bool:
        """Whether the master may get that result now. That of a silent job is dropped instead."""
        if jid in self._silent:
            self._silent.discard(jid)
            self._jobs.acknowledged(jid)
            return False
        job = self._reported.get(jid)
        return job is None or job.known

    def acknowledged(self, jid: str) -> None:
        """The master has the result, or ended the job."""
        if self._reported.pop(jid, None) is not None:
            self._ours.pop(self._theirs.pop(jid, ""), None)
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, jid))

    def refused(self, jid: str) -> None:
        """The job will not run, and the master was told so if it knows the job."""
        self.ended(jid)
        self._silent.discard(jid)
        if jid in self._reported and self._reported[jid].known:
            self.acknowledged(jid)

    def outgoing(self, message: IpcMessage) -> IpcMessage:
        """A message to the master with the master's jid."""
        theirs = self._theirs.get(message.get("jid", ""))
        return {**message, "jid": theirs} if theirs else message

    def incoming(self, message: Message) -> Message:
        """A message of the master with our jids."""
        if not self._ours:
            return message
        if "jids" in message:
            return {**message, "jids": [self._ours.get(jid, jid) for jid in message["jids"]]}
        ours = self._ours.get(message.get("jid", ""))
        return {**message, "jid": ours} if ours else message

    def _keep(self, jid: str, about: dict[str, Any]) -> None:
        path = os.path.join(self._folder, jid)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "wb") as file:
                file.write(encode_document(about))
                file.flush()
                os.fsync(file.fileno())
        except (OSError, ProtocolError) as error:
            with suppress(OSError):
                os.unlink(path)
            raise UsageError(f"it cannot be noted in {path}: {error}") from error
        self._reported[jid] = _OwnJob(about)

    def _tell_next(self) -> None:
        """Tell the master of the next job, unless it has yet to answer, or was too busy a moment ago."""
        if self._asked or self._again is not None:
            return
        while self._untold and self._untold[0] not in self._reported:
            self._untold.popleft()
        if not self._untold:
            return
        jid = self._asked = self._untold.popleft()
        job = self._reported[jid]
        message = {
            "t": "ask",
            "n": 0,
            "what": "own_job",
            "data": encode_document(job.about),
            "sha256": b"",
            "offset": 0,
        }
        self._ask({**message, "nonce": b""}, lambda response: self._answered(jid, response))

    def _answered(self, jid: str, response: Message) -> None:
        self._asked = ""
        job = self._reported.get(jid)
        if job is not None:
            self._take_answer(jid, job, response)
        self._tell_next()

    def _take_answer(self, jid: str, job: _OwnJob, response: Message) -> None:
        if response["state"] == "ok":
            theirs = str(decode_document(response["data"])["jid"])
            if theirs != jid:
                self._theirs[jid], self._ours[theirs] = theirs, jid
            job.known = True
            self._jobs.offer_again(jid)
        elif response["state"] == "refused":
            with log_context(jid=jid):
                log.error("the master takes no job of this minion: %s", " ".join(response["names"]))
            self.acknowledged(jid)
            self._jobs.acknowledged(jid)
        else:
            self._untold.appendleft(jid)
            self._again = self._reactor.call_later(AGAIN_S, self._tell_again)

    def _tell_again(self) -> None:
        self._again = None
        self._tell_next()
