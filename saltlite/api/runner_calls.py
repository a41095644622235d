"""Calls of runners that their callers do not wait for, and their returns.

Such a call goes on when its caller closes the page. The API keeps its return for the user who started it, until newer
ones need its place or the API ends.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from functools import partial
from typing import Any

from saltlite.api.formats import as_json
from saltlite.errors import SaltliteError, UsageError
from saltlite.model.dataclass import dataclass

CALLS_KEPT = 200
RETURNS_KEPT = 64 * 1024 * 1024
"""Bytes of the returns that are kept."""


@dataclass(slots=True)
class FollowedCall:
    """A call that its caller comes back to."""

    jid: str
    fun: str
    user: str
    began: float
    ended: float | None = None
    retcode: int | None = None
    text: str = "null"
    """Its return as JSON."""

    def shown(self) -> dict[str, Any]:
        """The row of a list."""
        return {name: getattr(self, name) for name in ("jid", "fun", "began", "ended", "retcode")}


class FollowedCalls:
    """The calls that were started and not waited for."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, FollowedCall] = OrderedDict()

    def follow(self, call: FollowedCall, work: asyncio.Task[dict[str, Any]]) -> None:
        """Keep what this work will return."""
        self._calls[call.jid] = call
        work.add_done_callback(partial(self._end, call))

    def _end(self, call: FollowedCall, work: asyncio.Task[dict[str, Any]]) -> None:
        call.ended, call.retcode = time.time(), 1
        try:
            found = work.result()
            call.retcode, call.text = found["retcode"], json.dumps(as_json(found["value"]))
        except SaltliteError as error:
            call.text = json.dumps(str(error))
        except asyncio.CancelledError:
            call.text = json.dumps("the API was stopped")
        kept = sum(len(one.text) for one in self._calls.values())
        while len(self._calls) > CALLS_KEPT or kept > RETURNS_KEPT:
            kept -= len(self._calls.popitem(last=False)[1].text)

    def of(self, user: str) -> list[FollowedCall]:
        """Those of a user, the newest first."""
        return [one for one in reversed(self._calls.values()) if one.user == user]

    def one(self, jid: str, user: str) -> FollowedCall:
        """One of them. Raises UsageError."""
        call = self._calls.get(jid)
        if call is None or call.user != user:
            raise UsageError(f"the API has no return of runner {jid}: it keeps the last ones until it is restarted")
        return call
