"""The client of the master's Unix socket: publish jobs, follow them, ask the other verbs.

A publish is idempotent by its request id, so it is sent once more when the connection ends before the answer.
A stream that breaks is taken up again where it stood: the job does not depend on this connection.
"""

from __future__ import annotations

import os
import time

from saltlite.client.connection import Connection, ConnectionLostError
from saltlite.client.waiting import Progress, Published
from saltlite.errors import (
    NoTargetError,
    RefusedError,
    RemoteProtocolError,
    SaltliteError,
    UnreachableError,
    UsageError,
)

TYPE_CHECKING = False  # typing costs as much start-up time as the whole client
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Self

    from saltlite.client.waiting import Reply

PROTOCOL_VERSION = 1

ANSWER_TIMEOUT_S = 60.0
"""How long the master may take to answer a request; a publish includes resolving the target and one fsync."""

RESUME_FOR_S = 15.0
"""How long to look for the master again after a stream broke; a restart takes less."""

_RESUME_PAUSE_S = 0.2

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
        """`tgt_type` is `glob`, `list` or `pcre`; a sequence of ids as `tgt` goes with `list`.

        `more` are functions with arguments and keyword arguments that run after the first, in the same process.
        `options` are further fields of the request, left out where they are None: `deliver_ms` and `run_ms`
        (milliseconds), `subset` (on so many minions, chosen by chance), `origin` (from where it is asked for).
        """
        self.tgt = tgt if isinstance(tgt, str) else ",".join(tgt)
        self.tgt_type = tgt_type
        every = [(fun, arg, kwarg or {}), *more]
        self.calls = [[name, list(args), dict(kwargs)] for name, args, kwargs in every]
        self.options = {name: value for name, value in options.items() if value is not None}

    def fields(self) -> dict[str, Any]:
        """The fields of the request."""
        return {"tgt": self.tgt, "tgt_type": self.tgt_type, "calls": self.calls, **self.options}


class LocalClient:
    """A client of the master on this machine. Use it as a context manager; it connects when it must.

    Every method raises UnreachableError when the master is not there, RefusedError when the caller may not,
    and the error that the master answered, with its exit code.
    """

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. The next call makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Ask one verb of the operator protocol and give back the answer's fields."""
        try:
            return self._ask({"v": PROTOCOL_VERSION, "verb": verb, **fields})
        except BaseException:  # whatever it was, the next answer on this connection is not ours
            self.close()
            raise

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
        return Published(answer)

    def watch(self, progress: Progress, timeout_s: float) -> Iterator[Reply]:
        """Replies as they arrive, until every target is settled or waiting is over by the rule of `waiting`.

        `progress` comes from a publish with `follow`, and its times from `time.monotonic`. Afterwards it says
        who is missing. Raises UnreachableError when the stream broke and the master did not come back.
        """
        try:
            while (patience_s := progress.patience_s(timeout_s, now=time.monotonic())) != 0.0:
                message = self._next_message(progress, patience_s)
                if message is not None:
                    yield from progress.apply(message, now=time.monotonic())
        finally:
            if not progress.ended:
                self.close()  # the rest of the stream would be read as the next answer

    def cmd(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run a function and give back `{minion id: return}` of those that returned, as Salt's `cmd` does.

        `timeout` is how long to wait for silent minions, in seconds; None takes the master's setting.
        """
        job = JobCall(tgt, fun, arg=arg, kwarg=kwarg, tgt_type=tgt_type)
        published = self.publish(job, follow=True)
        progress = Progress(published, now=time.monotonic())
        replies = self.watch(progress, published.timeout_s if timeout is None else timeout)
        return {reply.id: reply.value for reply in replies if reply.has_value}

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

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._connection is None:
            self._connection = Connection(self._path)
        self._connection.send(request)
        answer = self._connection.receive(ANSWER_TIMEOUT_S)
        if answer is None:
            raise UnreachableError(
                f"the master took the request and did not answer in {ANSWER_TIMEOUT_S:g}s; look at its log"
            )
        if answer.get("ok") is True:
            return answer
        raise _error_of(answer)

    def _next_message(self, progress: Progress, patience_s: float | None) -> dict[str, Any] | None:
        if self._connection is not None:
            try:
                return self._connection.receive(patience_s)
            except ConnectionLostError:
                self.close()
        self._resume(progress)
        return None

    def _resume(self, progress: Progress) -> None:
        jid = progress.published.jid
        give_up_at = time.monotonic() + RESUME_FOR_S
        while True:
            time.sleep(_RESUME_PAUSE_S)
            try:
                self.call("follow", jid=jid, after=progress.seq)
            except UnreachableError as error:
                if time.monotonic() >= give_up_at:
                    raise UnreachableError(
                        f"the master went away while job {jid} was followed; the job goes on, and minions "
                        "keep their returns until the master is back"
                    ) from error
            else:
                return


def _error_of(answer: Mapping[str, Any]) -> SaltliteError:
    code, text = answer.get("exit"), answer.get("error")
    if answer.get("ok") is not False or not isinstance(code, int) or not isinstance(text, str):
        return RemoteProtocolError("bad-answer", f"the master answered {sorted(answer)}")
    return _ERRORS.get(code, SaltliteError)(text)
