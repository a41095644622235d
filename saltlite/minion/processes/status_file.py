"""Where the connection is, in a small file of the minion's data folder: for people, who read it by `saltlite doctor`.

Nothing acts on it, so it is written without a sync, and a disk that refuses it costs the file only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from saltlite.model.resourcelook import TypeReport, read_report

NAME = "status.json"
STOPPED = "stopped"
"""The phase after a planned stop; the others are those of `saltlite.minion.protocol.connection.Phase`."""
READY = "ready"
"""The phase with a session."""

TEXT_MAX = 512
"""Characters of each text: the exposed network process supplies them."""

_FILE_MAX = 512 * 1024


@dataclass(frozen=True, slots=True)
class Status:
    """`phase` since `at` (wall-clock seconds since 1970), with a sentence why, "" for none."""

    phase: str
    reason: str
    at: float
    resources: str = ""
    """Why the master refused the resources of this minion, or some of them; "" if it has them all."""
    refused: int = 0
    """The number of refused answers that no master had signed."""
    types: Mapping[str, TypeReport] = field(default_factory=dict)
    """The report of each resource type."""
    looked_at: str = ""
    """Why there is no resource type, "" if there is one."""


def write_status(data_dir: str, status: Status) -> None:
    """Write the file atomically; longer texts than TEXT_MAX are truncated."""
    path = os.path.join(data_dir, NAME)
    temporary = f"{path}.new"
    texts = {name: getattr(status, name)[:TEXT_MAX] for name in ("phase", "reason", "resources", "looked_at")}
    types = {name: report.to_map() for name, report in status.types.items()}
    text = json.dumps({**texts, "at": status.at, "refused": status.refused, "types": types})
    with contextlib.suppress(OSError):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.rename(temporary, path)


def read_status(data_dir: str) -> Status | None:
    """The content of the file; None if there is none, or it cannot be read."""
    try:
        with open(os.path.join(data_dir, NAME), encoding="utf-8") as file:
            said = json.loads(file.read(_FILE_MAX))
        types = {str(name): read_report(one) for name, one in said.get("types", {}).items()}
        texts = {name: str(said.get(name, "")) for name in ("phase", "reason", "resources", "looked_at")}
        return Status(**texts, at=float(said["at"]), refused=int(said.get("refused", 0)), types=types)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
