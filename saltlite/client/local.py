"""The client of the master's Unix socket: publish jobs, follow them, read events, send any verb.

A publish is idempotent by its request id, so it is sent again when the connection ends before the answer. A broken
stream is resumed at its cursor: a job does not depend on this connection, and no event is lost or read twice.
"""

from __future__ import annotations

import os
import time

from saltlite.client.connection import ANSWER_TIMEOUT_S, Connection, ConnectionLostError, FleetClock
from saltlite.client.follower import (
    RESUME_PAUSE_S,
    Follower,
    Open,
    Progress,
    Published,
    WaitPolicy,
)
from saltlite.errors import (
    LoginError,
    NoTargetError,
    RefusedError,
    RemoteProtocolError,
    SaltliteError,
    UncallableError,
    UnreachableError,
    UsageError,
)

TYPE_CHECKING = False  # importing typing takes as long as the rest of the client
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Self, TypeAlias

    LastSeen: TypeAlias = tuple[dict[str, float | None], dict[str, str]]

    from saltlite.client.follower import Reply

PROTOCOL_VERSION = 1

SEEN_MAX = 1000
"""For how many minions the master answers in one request when it last saw them."""

_VERBS_OF_RUNNERS = frozenset({"publish", "event_send"})
"""Verbs whose request names the runner that asks."""

_ERRORS: dict[int, type[SaltliteError]] = {
    kind.exit_code: kind for kind in (UsageError, NoTargetError, RefusedError, UnreachableError)
}


class JobCall:
    """One or several function calls on one target, as the request carries them."""

    __slots__ = ("calls", "options", "tgt", "tgt_type")

    def __init__(
        self,
        tgt: str | Sequence[str],
        fun: str,
        *,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        more: Sequence[tuple[str, Sequence[Any], Mapping[str, Any]]] = (),
        tgt_type: str = "glob",
        **options: Any,
    ) -> None:
        """`tgt_type` is one of `saltlite.model.job.TargetKind`; a sequence of ids or SRNs as `tgt` goes with `list`.

        `more`: functions with arguments and keyword arguments that run after the first, in the same process.
        `options`: further fields of the request, omitted when None: `deliver_ms` and `run_ms` (milliseconds), `subset`
        (a number of random targets), `origin` (where the request comes from), `batch` (a map of `size`, `percent`,
        `wait_ms`, `failhard`), `module_executors` (one name or a list, which replaces the minions' own),
        `executor_opts` (a map) and `ret` (names of returners of the master that get each return).
        """
        self.tgt = tgt if isinstance(tgt, str) else ",".join(tgt)
        self.tgt_type = tgt_type
        every = [(fun, arg, kwarg or {}), *more]
        self.calls = [[name, list(args), dict(kwargs)] for name, args, kwargs in every]
        self.options = {name: value for name, value in options.items() if value is not None}

    @property
    def fun(self) -> str:
        """The names of its functions, separated by commas."""
        return ",".join(str(call[0]) for call in self.calls)

    def fields(self) -> dict[str, Any]:
        """The fields of the request."""
        return {"tgt": self.tgt, "tgt_type": self.tgt_type, "calls": self.calls, **self.options}


class LocalClient:
    """A client of the master on this machine, and a context manager. It connects on demand.

    Every method raises UnreachableError when the master cannot be reached, RefusedError when the caller may not do
    this, and the error that the master answered, with its exit code.
    """

    def __init__(self, socket_path: str) -> None:
        self.path = socket_path
        self.token = ""
        """The token of a login, part of every request; "" for the user of this process."""
        self.runner = ""
        """The jid of the runner that asks; the master records it with the jobs and events that it publishes."""
        self.clock = FleetClock()
        """What compares the times in answers with now; it is right once the master has answered anything."""
        self._ends_login = False
        self._trusted: frozenset[int] | None = None
        self._connection: Connection | None = None
        self._followed = ""
        """The jid whose stream the connection carries, "" for none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        if self._ends_login:
            self._end_login()
        self.close()

    def _end_login(self) -> None:
        try:
            self.call("logout")
        except SaltliteError:
            return  # a login that is not ended here expires

    def another(self) -> LocalClient:
        """A second client of the same master, which acts as the same user and runner."""
        other = LocalClient(self.path)
        other.token, other.runner, other._trusted = self.token, self.runner, self._trusted
        other.clock = self.clock
        return other

    def require_server(self, uids: frozenset[int]) -> None:
        """From now on connect only to a master that one of these users started."""
        self.close()
        self._trusted = uids

    def log_in(self, backend: str, username: str, password: str, *, keep: bool = False) -> dict[str, Any]:
        """Act as that user from now on. Without `keep` the login ends with this context manager. Raises LoginError."""
        answer = self.call("login", backend=backend, username=username, password=password)
        self.token, self._ends_login = answer["token"], not keep
        return answer

    def close(self) -> None:
        """End the connection. The next call opens another."""
        self._followed = ""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Send one verb of the operator protocol; the fields of the answer.

        After `follow`, or with a true field `follow`, the connection carries a stream, for `messages`.
        """
        self._followed = ""
        try:
            who = {"token": self.token} if self.token else {}
            if self.runner and verb in _VERBS_OF_RUNNERS:
                who["runner"] = self.runner
            answer = self._request({"v": PROTOCOL_VERSION, "verb": verb, **who, **fields})
        except BaseException:  # whatever it was, the next answer on this connection is not ours
            self.close()
            raise
        if (verb == "follow" and not fields.get("once")) or fields.get("follow"):
            self._followed = answer.get("jid", "")
        return answer

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            self._connection = Connection(self.path, self._trusted)
        self._connection.send(request)
        answer = self._connection.receive(ANSWER_TIMEOUT_S)
        if answer is None:
            raise UnreachableError(
                f"the master took the request and did not answer in {ANSWER_TIMEOUT_S:g}s; look at its log"
            )
        if answer.get("ok") is True:
            self.clock.read(answer)
            return answer
        raise error_of(answer)

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message of the stream that the last `call` opened; None when none came in `timeout_s`.

        Raises ConnectionLostError: the caller opens another stream where this one ended.
        """
        if self._connection is None:
            raise ConnectionLostError("there is no connection to the master any more")
        try:
            return self._connection.receive(timeout_s)
        except BaseException:
            self.close()
            raise

    def publish(self, job: JobCall, *, follow: bool = False) -> Published:
        """Publish a job; with `follow` the connection then carries its stream, for `watch`.

        The request is sent again, under the same id, when the connection ends before the answer.
        """
        return Published(self._publish(job, follow=follow), fun=job.fun, target=job.tgt)

    def publish_or_ask(
        self, job: JobCall, consent: Iterable[str], *, untyped: bool = False, follow: bool = False
    ) -> Published | dict[str, Any]:
        """Publish a job as `publish` does, or answer the question that comes first: the fields of the verb `describe`.

        That is where a function carries a risk that is not in `consent`; and with `untyped`, which says that the
        arguments were read from words without signatures, where the signatures could change them, or where minions
        that have just connected are still reporting theirs (`awaited` counts them).
        """
        answer = self._publish(job, follow=follow, consent=sorted(consent), untyped=untyped)
        question: dict[str, Any] | None = answer.get("question")
        return Published(answer, fun=job.fun, target=job.tgt) if question is None else question

    def _publish(self, job: JobCall, **fields: Any) -> dict[str, Any]:
        request = {"request_id": os.urandom(16).hex(), **fields, **job.fields()}
        try:
            return self.call("publish", **request)
        except ConnectionLostError:
            try:
                return self.call("publish", **request)
            except UnreachableError as error:
                raise UnreachableError(
                    "the master went away before it answered, so the job may have been published or not: "
                    "look at its log before you run it again"
                ) from error

    def messages(
        self, progress: Progress, policy: WaitPolicy, *, tick_s: float | None = None
    ) -> Generator[dict[str, Any] | None]:
        """The stream's messages for `progress.apply`, until every target is settled or the waiting is over.

        `progress` comes from a publish with `follow`, and its times from `time.monotonic`. With `tick_s` it yields
        None after that many seconds without a message. After the generator was closed, the next call resumes where
        `progress` stands. Raises UnreachableError when the stream broke and the master did not come back.
        """
        live = self._connection is not None and self._followed == progress.published.jid
        follower = Follower(progress, policy, tick_s=tick_s, live=live)
        try:
            while (action := follower.next(time.monotonic())) is not None:
                if isinstance(action, Open):
                    self._open(follower, action)
                    message = None
                else:
                    message = self._read(follower, action.timeout_s)
                if message is not None or tick_s is not None:
                    yield message
        finally:
            if not progress.ended:
                self.close()  # the rest of the stream would be read as the next answer

    def _open(self, follower: Follower, action: Open) -> None:
        if not follower.idle or self._followed:
            self.close()  # messages of the old stream would be read as the answer
        try:
            self.call("follow", **action.fields)
        except UnreachableError as error:
            follower.failed(error, time.monotonic())
            time.sleep(RESUME_PAUSE_S)
        else:
            follower.opened(action)

    def _read(self, follower: Follower, timeout_s: float | None) -> dict[str, Any] | None:
        try:
            message = self.receive(timeout_s)
        except ConnectionLostError:
            follower.lost()
            return None
        if message is not None and message.get("ok") is False:
            raise error_of(message)
        follower.received(message)
        return message

    def watch(self, progress: Progress, policy: WaitPolicy) -> Iterator[Reply]:
        """Replies as they arrive; ends as `messages` does. Afterwards `progress` knows who is missing."""
        for message in self.messages(progress, policy):
            if message is not None:
                yield from progress.apply(message, now=time.monotonic()).replies

    def stored(self, jid: str) -> list[Reply]:
        """The replies that the master has stored for a job so far."""
        progress = Progress(Published(self.call("follow", jid=jid, after=0, once=True)), now=time.monotonic())
        follower = Follower(progress, WaitPolicy(0.0), live=False, stored=True)
        replies: list[Reply] = []
        try:
            while not follower.idle:
                message = self.receive(ANSWER_TIMEOUT_S)
                follower.received(message)
                replies += progress.apply(message or {}, now=time.monotonic()).replies
        finally:
            self.close()
        return replies

    def cmd(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run a function; `{id: return}` of the minions and resources that returned, as Salt's `cmd`.

        Text of the form `name=value` in `arg` is a keyword argument where the function takes one of that name, and so
        are the items of a map with `__kwarg__: True`; `kwarg` has precedence.
        The key of a resource is its id without the type, or its SRN where another target of the job has that id.
        `timeout`: how long to wait for silent minions, in seconds. None takes the master's setting, and does not wait
        for minions that are away.
        """
        replies = self.replies(tgt, fun, arg, kwarg, tgt_type, timeout)
        return {reply.name: reply.value for reply in replies if reply.has_value}

    def replies(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> Iterator[Reply]:
        """As `cmd`: each reply as it comes."""
        return self.wait_for(self.publish(self.job(tgt, fun, arg, kwarg, tgt_type), follow=True), timeout)

    def wait_for(self, published: Published, timeout: float | None) -> Iterator[Reply]:
        """The replies to a job that was published with `follow`, as they come; `timeout` as for `cmd`."""
        policy = WaitPolicy(published.timeout_s) if timeout is None else WaitPolicy(timeout, away_quiet_s=timeout)
        return self.watch(Progress(published, now=time.monotonic()), policy)

    def cmd_async(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
    ) -> str:
        """Publish a job, with arguments as for `cmd`; its jid, at once."""
        return self.publish(self.job(tgt, fun, arg, kwarg, tgt_type)).jid

    def job(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any],
        kwarg: Mapping[str, Any] | None,
        tgt_type: str,
        **options: Any,
    ) -> JobCall:
        """The job with arguments as for `cmd`; `options` as for JobCall."""
        job = JobCall(tgt, fun, arg=arg, kwarg=kwarg, tgt_type=tgt_type, **options)
        if not arg:
            return job
        from saltlite.client import arguments  # reading signatures costs as much as the rest of this file

        if any(map(arguments.looks_like_keywords, arg)):
            known = self.call("describe", tgt=job.tgt, tgt_type=tgt_type, funs=[fun])["functions"][fun]
            positional, keywords = arguments.read_keywords(arg, known["signatures"])
            job.calls = [[fun, positional, {**keywords, **(kwarg or {})}]]
        return job

    def time(self) -> float:
        """The time by the clock of the fleet, which the master is asked for."""
        self.call("whoami")
        return self.clock()

    def last_seen(self, minions: Sequence[str]) -> LastSeen:
        """How many seconds ago the master last saw each of the first SEEN_MAX minions, None without a session; and for
        the latter why they have none."""
        answer = self.call("last_seen", ids=list(minions[:SEEN_MAX]))
        return answer["silent_s"], answer.get("absences", {})


def error_of(answer: Mapping[str, Any]) -> SaltliteError:
    """The error in an answer, or RemoteProtocolError for an answer that has none."""
    code, text = answer.get("exit"), answer.get("error")
    if answer.get("ok") is not False or not isinstance(code, int) or not isinstance(text, str):
        return RemoteProtocolError("bad-answer", f"the master answered {sorted(answer)}")
    if answer.get("login"):
        return LoginError(text)
    if "targets" in answer:
        return UncallableError(text, answer["targets"], answer["missing"])
    return _ERRORS.get(code, SaltliteError)(text)
