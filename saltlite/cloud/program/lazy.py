"""What runners know as `__cloud__`: read and imported when one of them uses it, which few do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.client.local import LocalClient


class LazyCloud:
    """The attributes of `saltlite.cloud.program.client.CloudClient`."""

    def __init__(self, config_dir: str, client: LocalClient) -> None:
        self._config_dir = config_dir
        self._client = client
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._made is None:
            from saltlite.cloud.program.client import CloudClient  # noqa: PLC0415 - see above

            self._made = CloudClient(self._config_dir, self._client)
        return getattr(self._made, name)
