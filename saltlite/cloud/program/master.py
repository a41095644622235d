"""The master, as this package asks it: from several threads, and from processes that were forked off."""

from __future__ import annotations

import threading
from typing import Any

from saltlite.client.local import LocalClient


class Master:
    """Asks verbs of the operator protocol, one at a time. Raises what `LocalClient.call` raises."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __call__(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Ask one verb; the answer's fields."""
        with self._lock:
            return self._client.call(verb, **fields)

    def forked(self) -> None:
        """This process was forked off: the connection belongs to the other one."""
        self._lock = threading.Lock()
        self._client.close()
