"""The way of an event from `saltlite call` to the master: through the daemon of this machine, which has the session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from saltlite.client.connection import Connection
from saltlite.errors import CommandExecutionError, RefusedError, UnreachableError
from saltlite.minion.processes.callers import SOCKET_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping


class ThroughDaemon:
    """Hands events to the minion whose folder `data_dir` is."""

    def __init__(self, data_dir: str) -> None:
        self._path = os.path.join(data_dir, SOCKET_NAME)

    def event(self, message: Mapping[str, Any], patience_s: float) -> dict[str, Any] | None:
        """What the master says to an `event`, None when it says nothing in that time.

        Raises CommandExecutionError when no minion runs here, or this user may not speak for it.
        """
        try:
            connection = Connection(self._path)
            try:
                connection.send(dict(message))
                return connection.receive(patience_s)
            finally:
                connection.close()
        except (UnreachableError, RefusedError) as error:
            raise CommandExecutionError(
                f"The event was not sent: that takes a running saltlite-minion here, and its user's rights "
                f"({self._path})."
            ) from error
