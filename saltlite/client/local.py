"""The client of the master's Unix socket: publish jobs, follow them, ask the other verbs.

A publish is idempotent by its request id, so it is sent once more when the connection ends before the answer.
A stream that breaks is taken up again where it stood: the job does not depend on this connection.
"""

from __future__ import annotations

import contextlib
import os
import time

from saltlite.client.connection import Connection, ConnectionLostError
from saltlite.client.waiting import Progress, Published, WaitPolicy
from saltlite.errors import (
    LoginError,
    NoTargetError,
    RefusedError,
    RemoteProtocolError,
    SaltliteError,
    UnreachableError,
    UsageError,
)

TYPE_CHECKING = False  # typing costs as much start-up time as the whole client
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from typing import Any, Self

    from saltlite.client.waiting import Reply

PROTOCOL_VERSION = 1

ANSWER_TIMEOUT_S = 60.0
"""How long the master may take to answer a request; a publish includes resolving the target and one fsync."""

RESUME_FOR_S = 15.0
"""How long to look for the master again after a stream broke; a restart takes less."""

SEEN_MAX = 1000
"""How many minions the master answers for when it is asked when it last saw them."""

_RESUME_PAUSE_S = 0.2
_SAY_RUNNER = frozenset({"publish", "event_send"})
"""Verbs that are told by which runner they are asked."""

_ERRORS: dict[int, type[SaltliteError]] = {
    kind.exit_code: kind for kind in (UsageError, NoTargetError, RefusedError, UnreachableError)
}


class JobCall:
    """One or several function calls on one target, as they are handed to the master."""

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
        """`tgt_type` is one of `saltlite.model.target.TargetKind`; a sequence of ids or SRNs as `tgt` goes with `list`.

        `more` are functions with arguments and keyword arguments that run after the first, in the same process.
        `options` are further fields of the request, left out where they are None: `deliver_ms` and `run_ms`
        (milliseconds), `subset` (on so many targets, chosen by chance), `origin` (from where it is asked for), `batch`
        (on some at a time: a map of `size`, `percent`, `wait_ms`, `failhard`), `module_executors` (a list of names, or
        one, that minions are to use in place of their own), `executor_opts` (a map of what these are told) and `ret`
        (names of returners of the master that are to get each return).
        """
        self.tgt = tgt if isinstance(tgt, str) else ",".join(tgt)
        self.tgt_type = tgt_type
        every = [(fun, arg, kwarg or {}), *more]
        self.calls = [[name, list(args), dict(kwargs)] for name, args, kwargs in every]
        self.options = {name: value for name, value in options.items() if value is not None}

    @property
    def fun(self) -> str:
        """The names of its functions, with commas between them."""
        return ",".join(str(call[0]) for call in self.calls)

    def fields(self) -> dict[str, Any]:
        """The fields of the request."""
        return {"tgt": self.tgt, "tgt_type": self.tgt_type, "calls": self.calls, **self.options}


class LocalClient:
    """A client of the master on this machine. Use it as a context manager; it connects when it must.

    Every method raises UnreachableError when the master is not there, RefusedError when the caller may not,
    and the error that the master answered, with its exit code.
    """

    def __init__(self, socket_path: str) -> None:
        self.path = socket_path
        self.token = ""
        """Of a login, "" for the user of this process; it stands in every request."""
        self.runner = ""
        """The jid of the runner that asks; the master notes it with jobs that it publishes and events that it sends."""
        self._ends_login = False
        self._trusted: frozenset[int] | None = None
        self._connection: Connection | None = None
        self._followed = ""
        """The job whose stream the connection carries, "" for none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        if self._ends_login:
            # What is not ended here ends by itself.
            with contextlib.suppress(SaltliteError):
                self.call("logout")
        self.close()

    def require_server(self, uids: frozenset[int]) -> None:
        """From now on talk to nobody but a master that was started by one of these users."""
        self.close()
        self._trusted = uids

    def log_in(self, backend: str, username: str, password: str, *, keep: bool = False) -> dict[str, Any]:
        """Be that user from now on. Without `keep` the login ends when this context manager does.

        Raises LoginError when the master does not let the user in.
        """
        answer = self.call("login", backend=backend, username=username, password=password)
        self.token, self._ends_login = answer["token"], not keep
        return answer

    def close(self) -> None:
        """End the connection. The next call makes a new one."""
        self._followed = ""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Ask one verb of the operator protocol and give back the answer's fields.

        After `follow`, or with a true field `follow`, the connection carries a stream, for `messages`.
        """
        self._followed = ""
        try:
            who = {"token": self.token} if self.token else {}
            if self.runner and verb in _SAY_RUNNER:
                who["runner"] = self.runner
            answer = self._ask({"v": PROTOCOL_VERSION, "verb": verb, **who, **fields})
        except BaseException:  # whatever it was, the next answer on this connection is not ours
            self.close()
            raise
        if (verb == "follow" and not fields.get("once")) or fields.get("follow"):
            self._followed = answer.get("jid", "")
        return answer

    def publish(self, job: JobCall, *, follow: bool = False) -> Published:
        """Publish a job; with `follow` the connection then carries its stream, for `watch`.

        Sent a second time, under the same request id, when the connection ends before the answer.
        """
        request = {"request_id": os.urandom(16).hex(), "follow": follow, **job.fields()}
        try:
            answer = self.call("publish", **request)
        except ConnectionLostError:
            try:
                answer = self.call("publish", **request)
            except UnreachableError as error:
                raise UnreachableError(
                    "the master went away before it answered, so the job may have been published or not: "
                    "look at its log before you run it again"
                ) from error
        return Published(answer, fun=job.fun, target=job.tgt)

    def messages(
        self, progress: Progress, patience: WaitPolicy, *, tick_s: float | None = None
    ) -> Generator[dict[str, Any] | None]:
        """The stream's messages for `progress.apply`, until every target is settled or waiting is over.

        `progress` comes from a publish with `follow`, and its times from `time.monotonic`. With `tick_s` there is
        a None whenever nothing came for so many seconds. A stream that was left (a generator that was closed) is
        taken up where `progress` stands by the next call. Before waiting is over there is a last look at what the
        master has stored (G9). Raises UnreachableError when the stream broke and the master did not come back.
        """
        looked = False
        try:
            while (left_s := progress.patience_s(patience, now=time.monotonic())) != 0.0 or not looked:
                if progress.ended:
                    return
                looked = left_s == 0.0
                if looked:
                    yield from self._last_look(progress)
                    continue
                waits = [seconds for seconds in (left_s, tick_s) if seconds is not None]
                message = self._next_message(progress, min(waits, default=None))
                if message is not None or tick_s is not None:
                    yield message
        finally:
            if not progress.ended:
                self.close()  # the rest of the stream would be read as the next answer

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message of the stream that the last `call` has opened, None when none came in `timeout_s`.

        Raises ConnectionLostError: the caller opens another where this one ended.
        """
        if self._connection is None:
            raise ConnectionLostError("there is no connection to the master any more")
        try:
            return self._connection.receive(timeout_s)
        except BaseException:
            self.close()
            raise

    def watch(self, progress: Progress, patience: WaitPolicy) -> Iterator[Reply]:
        """Replies as they arrive; ends as `messages` does. Afterwards `progress` says who is missing."""
        for message in self.messages(progress, patience):
            if message is not None:
                yield from progress.apply(message, now=time.monotonic()).replies

    def cmd(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run a function and give back `{id: return}` of the minions and resources that returned, as Salt's `cmd` does.

        The key of a resource is its id without the type, or its SRN where another target of the job has that id.
        `timeout` is how long to wait for minions of which there is no news, in seconds. None takes the master's
        setting, and does not wait for those that are away.
        """
        job = JobCall(tgt, fun, arg=arg, kwarg=kwarg, tgt_type=tgt_type)
        published = self.publish(job, follow=True)
        progress = Progress(published, now=time.monotonic())
        patience = WaitPolicy(published.timeout_s) if timeout is None else WaitPolicy(timeout, away_quiet_s=timeout)
        replies = self.watch(progress, patience)
        return {reply.name: reply.value for reply in replies if reply.has_value}

    def cmd_async(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
    ) -> str:
        """Publish a job and give back its jid at once."""
        return self.publish(JobCall(tgt, fun, arg=arg, kwarg=kwarg, tgt_type=tgt_type)).jid

    def seen_ago(self, minions: Sequence[str]) -> dict[str, float | None]:
        """How many seconds ago the master last saw each of the first SEEN_MAX minions; None without a session."""
        found: dict[str, float | None] = self.call("heard", ids=list(minions[:SEEN_MAX]))["heard"]
        return found

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            self._connection = Connection(self.path, self._trusted)
        self._connection.send(request)
        answer = self._connection.receive(ANSWER_TIMEOUT_S)
        if answer is None:
            raise UnreachableError(
                f"the master took the request and did not answer in {ANSWER_TIMEOUT_S:g}s; look at its log"
            )
        if answer.get("ok") is True:
            return answer
        raise error_of(answer)

    def _last_look(self, progress: Progress) -> Iterator[dict[str, Any]]:
        """What the store has now and this stream did not say yet."""
        self.close()  # messages of the stream that are on their way would be read as the answer
        while True:
            if self._connection is None:
                self._resume(progress, once=True)
            try:
                message = self.receive(ANSWER_TIMEOUT_S)
            except ConnectionLostError:
                continue
            if message is None:
                raise UnreachableError(f"the master did not say in {ANSWER_TIMEOUT_S:g}s what it has stored")
            yield message
            if message.get("so_far") or message.get("end"):
                return

    def _next_message(self, progress: Progress, patience_s: float | None) -> dict[str, Any] | None:
        if self._connection is not None and self._followed == progress.published.jid:
            try:
                return self._connection.receive(patience_s)
            except ConnectionLostError:
                self.close()
        self._resume(progress)
        return None

    def _resume(self, progress: Progress, **how: bool) -> None:
        jid = progress.published.jid
        give_up_at = time.monotonic() + RESUME_FOR_S
        while True:
            try:
                self.call("follow", jid=jid, after=progress.seq, **how)
            except UnreachableError as error:
                if time.monotonic() >= give_up_at:
                    raise UnreachableError(
                        f"the master went away while job {jid} was followed; the job goes on, and minions "
                        "keep their returns until the master is back"
                    ) from error
                time.sleep(_RESUME_PAUSE_S)
            else:
                return


def error_of(answer: Mapping[str, Any]) -> SaltliteError:
    """The error in an answer that is one, or RemoteProtocolError."""
    code, text = answer.get("exit"), answer.get("error")
    if answer.get("ok") is not False or not isinstance(code, int) or not isinstance(text, str):
        return RemoteProtocolError("bad-answer", f"the master answered {sorted(answer)}")
    if answer.get("login"):
        return LoginError(text)
    return _ERRORS.get(code, SaltliteError)(text)
