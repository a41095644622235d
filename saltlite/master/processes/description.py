"""The description of a master for the others: digests of what must be equal on all masters, how far its clock is off,
and which master has the fleet key.

It is stored as JSON in the master's row of `masters`, and renewed every DESCRIBE_S seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from saltlite.master.store.sharing import SharedStore
from saltlite.model.clock import Clock

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig

DESCRIBE_S = 60.0
DESCRIBE_FIRST_S = 2.0
"""Seconds until the first description after a start, because the previous one may be out of date. The master has its
row by then."""
HASHED_MAX = 1024 * 1024
"""The digest of a folder covers the content of files below this size in bytes, and only the size of larger ones."""

UNCOMPARED = frozenset({".git", ".hg", ".svn", "__pycache__"})
"""Folders in roots that differ between machines."""


class SelfDescription:
    """Makes and stores the description of this master."""

    def __init__(self, config: MasterConfig, store: SharedStore, clock: Clock, me: str, holder: str = "") -> None:
        """`holder` is the master that has the fleet key, as far as this one knows."""
        self._config = config
        self._store = store
        self._clock = clock
        self._me = me
        self._holder = holder
        self._hashes: dict[str, tuple[tuple[int, int, int], str]] = {}
        """path -> (inode, size and time of the file, its hash)"""

    def renew(self) -> None:
        """Raises StoreError."""
        offset = self._clock.wall() - self._store.clock()
        said = {"digests": self._digests(), "clock_s": round(offset, 1), "holder": self._holder}
        about = json.dumps(said, sort_keys=True)
        if about != {row.name: row.about for row in self._store.masters()}.get(self._me):
            with self._store.write() as store:
                store.describe_master(self._me, about)

    def _digests(self) -> dict[str, str]:
        config = self._config
        access = [config.publisher_acl, config.external_auth, config.publisher_acl_blacklist]
        peers = [config.peer, config.peer_run, config.peer_run_as]
        external = [config.ext_pillar, config.ext_pillar_first, config.on_demand_ext_pillar]
        return {
            "access rules": _digest([*access, *peers]),
            "external pillars": _digest(external),
            "nodegroups": _digest(config.nodegroups),
            "hooks": _digest(config.hooks),
            "file_roots": self._of_roots(config.file_roots),
            "pillar_roots": self._of_roots(config.pillar_roots),
        }

    def _of_roots(self, roots: Mapping[str, Iterable[str]]) -> str:
        found = []
        for env, folders in sorted(roots.items()):
            for number, folder in enumerate(folders):
                for top, names, files in os.walk(folder):
                    names[:] = sorted(name for name in names if name not in UNCOMPARED)
                    place = env, number, os.path.relpath(top, folder)
                    found += [(*place, name, self._of_file(os.path.join(top, name))) for name in sorted(files)]
        return _digest(found)

    def _of_file(self, path: str) -> str:
        try:
            seen = os.stat(path)
            stamp = seen.st_ino, seen.st_size, seen.st_mtime_ns
            known = self._hashes.get(path)
            if known is None or known[0] != stamp:
                content = b""
                if seen.st_size < HASHED_MAX:
                    with open(path, "rb") as file:
                        content = file.read(HASHED_MAX)
                known = self._hashes[path] = stamp, hashlib.sha256(content).hexdigest()
        except OSError as error:
            return str(error.strerror)
        return f"{seen.st_size} {known[1]}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
