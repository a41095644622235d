"""Listen to the master's events, and send some.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.model.events import matches, text_of

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__

COUNT_MAX = 10_000
"""Events of one answer: they are held in memory until it is complete."""
TIMEOUT_MAX_S = 86_400.0
BYTES_MAX = 32 * 1024 * 1024
"""Characters of data after which an answer is complete."""


def listen(
    tag: str = "*",
    count: int = 1,
    timeout: float = 60.0,
    data: dict[str, Any] | None = None,
    since: float | None = None,
) -> list[dict[str, Any]]:
    """Wait for ``count`` events whose tag matches the glob ``tag``, for ``timeout`` seconds at most, and return those
    that came, as ``seq``, ``tag``, ``data`` and ``at``.

    ``data`` keeps those apart whose data do not match: a map from fields, with dots for what is inside, to globs.
    With ``since``, a time of so many seconds ago, events of the past are returned too.

    CLI Example::

        saltlite-run event.listen 'minion/*/app/deployed'
        saltlite-run event.listen 'salt/job/*/ret/*' count=10 timeout=30 data='{retcode: "1"}'
        saltlite-run event.listen 'salt/auth' since=3600 timeout=1 count=100
    """
    if not 1 <= count <= COUNT_MAX:
        raise SaltInvocationError(f"count is a number from 1 to {COUNT_MAX}.")
    if not 0 < timeout <= TIMEOUT_MAX_S:
        raise SaltInvocationError(f"timeout is a number of seconds up to {TIMEOUT_MAX_S:g}.")
    wanted = _globs(data or {})
    begin = None if since is None else time.time() - since
    found: list[dict[str, Any]] = []
    size = 0
    events = __client__.events(tag, timeout, begin)
    for event in events:
        if matches(event["data"], wanted):
            found.append(event)
            size += len(repr(event["data"]))
        if len(found) >= count or size > BYTES_MAX:
            break
    return found


def send(tag: str, data: dict[str, Any] | None = None, **kwargs: Any) -> bool:
    """Write an event into the master's event log: ``data``, the keyword arguments, and in ``_user`` who sent it.

    Tags that begin with ``salt``, ``minion`` or ``resource`` are the master's own.

    CLI Example::

        saltlite-run event.send app/released '{version: 1.2}'
    """
    if data is not None and not isinstance(data, Mapping):
        raise SaltInvocationError("The data of an event is a map, as in '{version: 1.2}'.")
    more = {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}
    __client__.call("event_send", tag=tag, data={**more, **(data or {})})
    return True


def _globs(data: Mapping[str, Any]) -> dict[str, str]:
    globs = {}
    for path, value in data.items():
        text = text_of(value)
        if text is None:
            raise SaltInvocationError(f"{path} is matched by a glob, not by a list or a map.")
        globs[str(path)] = text
    return globs
