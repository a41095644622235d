"""What providers said of their machines when they were last asked: a file for each machine.

It serves those who want no answer from a provider (`-Q --cached`), and has which minion belongs to a machine. It is
never what a decision about a name is made by: machines come and go without us.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

FOLDER = "active"
MINION_ID = "minion_id"


class MachineCache:
    """The cache below a folder. What cannot be read counts as not there, what cannot be written is not kept."""

    def __init__(self, cachedir: str) -> None:
        self._root = os.path.join(cachedir, FOLDER)

    def put(self, provider: str, machine: str, details: Mapping[str, Any], **own: Any) -> None:
        """Keep what is known of a machine of `alias:driver`, without secrets; `own` is what only we know."""
        before = self._read(self._path(provider, machine))
        record = {"at": time.time(), "own": {**before.get("own", {}), **own}, "details": dict(details)}
        with contextlib.suppress(OSError):
            self._write(self._path(provider, machine), record)

    def put_all(self, provider: str, machines: Mapping[str, Mapping[str, Any]]) -> None:
        """These are all machines of `alias:driver`: the others are not listed any more."""
        for name, details in machines.items():
            self.put(provider, name, details)
        for name in self.names(provider):
            if name not in machines:
                self.unlist(provider, name)

    def unlist(self, provider: str, machine: str) -> None:
        """Its provider did not list this machine. What only we know of it stays: a listing may miss one for once."""
        own = self.own(provider, machine)
        if not own:
            self.drop(provider, machine)
            return
        with contextlib.suppress(OSError):
            self._write(self._path(provider, machine), {"at": time.time(), "own": own, "unlisted": True})

    def drop(self, provider: str, machine: str) -> None:
        """Forget a machine."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(provider, machine))

    def own(self, provider: str, machine: str) -> dict[str, Any]:
        """What only we know of a machine, such as `minion_id`; `id` is what its provider called it then."""
        found: dict[str, Any] = self._read(self._path(provider, machine)).get("own", {})
        return found

    def machines(self, provider: str) -> dict[str, dict[str, Any]]:
        """`{name: details}` of what is kept of `alias:driver`."""
        return {name: self._read(self._path(provider, name)).get("details", {}) for name in self.names(provider)}

    def names(self, provider: str) -> list[str]:
        """The names of the machines that were listed last, sorted."""
        try:
            found = os.listdir(self._folder(provider))
        except OSError:
            return []
        names = (urllib.parse.unquote(one.removesuffix(".json")) for one in found if one.endswith(".json"))
        return sorted(name for name in names if not self._read(self._path(provider, name)).get("unlisted"))

    def clear(self) -> None:
        """Forget all machines."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _folder(self, provider: str) -> str:
        return os.path.join(self._root, *(_file_name(part) for part in provider.split(":")))

    def _path(self, provider: str, machine: str) -> str:
        return os.path.join(self._folder(provider), f"{_file_name(machine)}.json")

    @staticmethod
    def _read(path: str) -> dict[str, Any]:
        try:
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    @staticmethod
    def _write(path: str, record: Mapping[str, Any]) -> None:
        _make_private(os.path.dirname(path))
        half = f"{path}.{os.getpid()}"
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(record, file, default=str)
        os.replace(half, path)


def _make_private(folder: str) -> None:
    """Make a folder and those above it; `os.makedirs` would give its mode to the last one only."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _file_name(text: str) -> str:
    """Any text as the name of one file: no slash, no dot first, at most what a file system takes."""
    quoted = urllib.parse.quote(text, safe="").replace(".", "%2E")
    return quoted[:200]
