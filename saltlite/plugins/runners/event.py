"""Wait for events of the master, and send events.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.model.events import matches, text_of

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__

COUNT_MAX = 10_000
"""Maximum events in one answer, which is held in memory."""
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
    """Wait up to ``timeout`` seconds for ``count`` events whose tag matches the glob ``tag``; return their ``seq``,
    ``tag``, ``data`` and ``at``.

    ``data`` filters by a map from fields to globs; dots lead into nested fields. ``since`` also returns events of that
    many seconds before now.

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
    begin = None if since is None else __client__.time() - since
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
    """Write an event to the master's event log. ``data`` and keyword arguments are its data, ``_user`` is the sender.

    Tags that begin with ``salt``, ``minion`` or ``resource`` are reserved for the master.

    CLI Example: ``saltlite-run event.send app/released '{version: 1.2}'``
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
