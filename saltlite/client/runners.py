"""What a runner sees of the client, and what it returns."""

from __future__ import annotations

import contextlib
import time

from saltlite.client.events import EventReader
from saltlite.errors import CommandExecutionError, SaltliteError, UnreachableError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the client
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, ClassVar

    from saltlite.client.follower import Reply
    from saltlite.client.local import LocalClient


class RunnerClient:
    """The `__client__` of runners: every method raises CommandExecutionError with the sentence of the error."""

    latest: ClassVar[RunnerClient | None] = None
    """That of the last runner of this process, for files that make Salt's `LocalClient`."""

    def __init__(self, client: LocalClient, timeout_s: float | None = None) -> None:
        """`timeout_s` is for jobs of runners that name no timeout."""
        self._client = client
        self._timeout_s = timeout_s
        self.unreachable = False
        """Whether a request did not reach the master."""
        RunnerClient.latest = self

    def another(self) -> LocalClient:
        """A client of the same master, which acts as this runner."""
        return self._client.another()

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Send one verb of the operator protocol; the fields of the answer."""
        with self._sentences():
            return self._client.call(verb, **fields)

    def time(self) -> float:
        """The time by the clock of the fleet, in seconds since 1970."""
        with self._sentences():
            return self._client.time()

    def cmd(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run a function on the fleet: `{id: return}` of those that returned, as `LocalClient.cmd`."""
        with self._sentences():
            return self._client.cmd(tgt, fun, arg, kwarg, tgt_type, self._timeout_s if timeout is None else timeout)

    def run(
        self,
        tgt: str | Sequence[str],
        fun: str,
        arg: Sequence[Any] = (),
        kwarg: Mapping[str, Any] | None = None,
        tgt_type: str = "glob",
        timeout: float | None = None,
    ) -> dict[str, dict[str, Any]]:
        """As `cmd`, with the form of `results`."""
        with self._sentences():
            replies = self._client.replies(tgt, fun, arg, kwarg, tgt_type, timeout)
            return {reply.name: _result(reply) for reply in replies if reply.has_value}

    def returns(self, jid: str) -> dict[str, Any]:
        """`{id: return}` of what a job has returned so far, keyed as by `cmd`."""
        return {name: found["return"] for name, found in self.results(jid).items()}

    def results(self, jid: str) -> dict[str, dict[str, Any]]:
        """`{id: {"return": value, "retcode": 0, "success": True}}` of what a job has returned so far."""
        with self._sentences():
            return {reply.name: _result(reply) for reply in self._client.stored(jid) if reply.has_value}

    def events(self, pattern: str, timeout_s: float, since: float | None = None) -> Iterator[dict[str, Any]]:
        """Events whose tag matches the glob, as `seq`, `tag`, `data` and `at`, for that many seconds.

        They begin at the time `since` (seconds since 1970), by default now.
        """
        give_up_at = time.monotonic() + timeout_s
        try:
            with self._sentences():
                reader = EventReader(self._client, pattern, since=since)
            while True:
                with self._sentences():
                    event = reader.within(max(0.0, give_up_at - time.monotonic()))
                if event is None:
                    return
                yield event
        finally:
            self._client.close()

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except SaltliteError as error:
            self.unreachable = self.unreachable or isinstance(error, UnreachableError)
            raise CommandExecutionError(str(error)) from error


def without_outputter(value: Any) -> tuple[Any, str]:
    """A runner's return without the outputter that it names ("" for none).

    Salt's runners may return both together, as `{"outputter": name, "data": value}`.
    """
    if isinstance(value, dict) and value.keys() == {"outputter", "data"} and isinstance(value["outputter"], str):
        return value["data"], value["outputter"]
    return value, ""


def _result(reply: Reply) -> dict[str, Any]:
    return {"return": reply.value, "retcode": reply.retcode, "success": not reply.failed()}
