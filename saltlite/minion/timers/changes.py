"""Changes of the schedule or the beacons by functions. They are stored in a file, and override the configuration."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from saltlite.errors import UsageError

log = logging.getLogger(__name__)


class KeptChanges:
    """Changes by name: an entry, or None for a deleted one; and whether everything is enabled. `more` are further
    values of the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        found = self._read()
        self._saved: dict[str, Any] = found.get("changes", {})
        self._saved_switch: bool | None = found.get("enabled")
        self.more: dict[str, Any] = found.get("more", {})
        self.entries: dict[str, Any] = {}
        self.configured = True
        """Whether the configuration enables everything. A switch by a function overrides it."""
        self._switch: bool | None = None
        self.reload()

    @property
    def enabled(self) -> bool:
        """Whether everything is enabled."""
        return self.configured if self._switch is None else self._switch

    def apply(self, configured: Mapping[str, Any]) -> dict[str, Any]:
        """The entries of the configuration with the changes."""
        found = {name: entry for name, entry in configured.items() if self.entries.get(name, entry) is not None}
        return {**found, **{name: entry for name, entry in self.entries.items() if entry is not None}}

    def put(self, name: str, entry: Any, *, persist: bool) -> None:
        """Change an entry; None deletes it. Raises UsageError if it cannot be stored."""
        with self._undone_by_failure():
            self.entries[name] = entry
            if persist:
                self._saved[name] = entry
                self.write()

    def switch(self, *, enabled: bool, persist: bool) -> None:
        """Enable or disable everything. Raises UsageError if it cannot be stored."""
        with self._undone_by_failure():
            self._switch = enabled
            if persist:
                self._saved_switch = enabled
                self.write()

    def save(self) -> None:
        """Store all changes. Raises UsageError if they cannot be stored."""
        with self._undone_by_failure():
            self._saved, self._saved_switch = dict(self.entries), self._switch
            self.write()

    def reload(self) -> None:
        """Drop changes that were not stored."""
        self.entries, self._switch = dict(self._saved), self._saved_switch

    def reset(self) -> None:
        """Drop all changes. Raises UsageError if that cannot be stored."""
        with self._undone_by_failure():
            self._saved, self._saved_switch = {}, None
            self.reload()
            self.write()

    def write(self) -> None:
        """Write the file. Raises UsageError if that fails."""
        content = {"changes": self._saved, "enabled": self._saved_switch, "more": self.more}
        fresh = f"{self._path}.new"
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(content, file, default=str)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(fresh)
            raise UsageError(f"the change cannot be stored in {self._path}: {error.strerror}") from error

    @contextmanager
    def _undone_by_failure(self) -> Iterator[None]:
        before = dict(self.entries), self._switch, dict(self._saved), self._saved_switch
        try:
            yield
        except Exception:
            self.entries, self._switch, self._saved, self._saved_switch = before
            raise

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.error("the changes in %s are not used: %s", self._path, error)  # noqa: TRY400 - a sentence
            return {}
        return found if isinstance(found, dict) else {}
