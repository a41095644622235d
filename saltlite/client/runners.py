"""The master as runners see it: a client whose errors are sentences, as those of any function are."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from saltlite.client.events import EventReader
from saltlite.client.local import ANSWER_TIMEOUT_S, LocalClient
from saltlite.client.waiting import Published, Reply
from saltlite.errors import CommandExecutionError, SaltliteError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class RunnerClient:
    """What runners know as `__client__`.

    Every method raises CommandExecutionError with the sentence of whatever went wrong.
    """

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self.unreachable = False
        """Whether the master was asked and could not be reached."""

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Ask one verb of the operator protocol; the answer's fields."""
        with self._sentences():
            return self._client.call(verb, **fields)

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
            return self._client.cmd(tgt, fun, arg, kwarg, tgt_type, timeout)

    def returns(self, jid: str) -> dict[str, Any]:
        """`{id: return}` of what a job has returned until now, keyed as by `cmd`."""
        return {name: found["return"] for name, found in self.results(jid).items()}

    def results(self, jid: str) -> dict[str, dict[str, Any]]:
        """The same with how it ended: `{id: {"return": value, "retcode": 0, "success": True}}`."""
        found: dict[str, dict[str, Any]] = {}
        with self._sentences():
            published = Published(self._client.call("follow", jid=jid, after=0, once=True))
            try:
                while True:
                    message = self._client.receive(ANSWER_TIMEOUT_S)
                    if message is None:
                        raise UnreachableError(f"the master did not say in {ANSWER_TIMEOUT_S:g}s what it has stored")
                    replies = [Reply(row, published) for row in message["returns"]]
                    found.update({reply.name: _result(reply) for reply in replies if reply.has_value})
                    if message.get("end") or message.get("so_far"):
                        return found
            finally:
                self._client.close()

    def events(self, pattern: str, timeout_s: float, since: float | None = None) -> Iterator[dict[str, Any]]:
        """Events whose tag matches the glob, as `seq`, `tag`, `data` and `at`, until so many seconds are over.

        They begin at the time `since` (seconds since 1970), without it now.
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
    """What a runner returned, and the outputter that it wants for it ("" for none).

    Salt's runners may return both together, as `{"outputter": name, "data": value}`.
    """
    if isinstance(value, dict) and value.keys() == {"outputter", "data"} and isinstance(value["outputter"], str):
        return value["data"], value["outputter"]
    return value, ""


def _result(reply: Reply) -> dict[str, Any]:
    return {"return": reply.value, "retcode": reply.retcode, "success": not reply.failed()}
