"""Machines of cloud providers: from a profile to an accepted minion, and back (`saltlite cloud`).

`rules` decides without IO, `program` runs the commands, `deploy` turns a machine into a minion, `api` is what drivers
import, and `drivers` holds one file for each provider. Runners see the `LazyCloud` below as `__cloud__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.client.local import LocalClient


class LazyCloud:
    """The attributes of `saltlite.cloud.program.app.CloudClient`."""

    def __init__(self, config_dir: str, client: LocalClient) -> None:
        self._config_dir = config_dir
        self._client = client
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._made is None:
            from saltlite.cloud.program.app import CloudClient  # noqa: PLC0415 - see above

            self._made = CloudClient(self._config_dir, self._client, foreign=True)
        return getattr(self._made, name)
