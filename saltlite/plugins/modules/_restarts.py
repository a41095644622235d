"""Services whose processes run programs or libraries that an upgrade has replaced, found in /proc.

What belongs here: reading the folders of processes. It knows no package manager and starts no program.
"""

from __future__ import annotations

import contextlib
import os
import re

# Code of a program or library; a deleted file elsewhere is no upgrade but something that a program made for itself.
_REPLACED = re.compile(r" r-xp .* (?:/usr|/opt|/lib\w*|/s?bin)/.* \(deleted\)$", re.MULTILINE)
_SERVICE = re.compile(r"/([^/\n]+)\.service$", re.MULTILINE)


def services(procfs: str = "/proc") -> list[str]:
    """Names of the systemd services with such processes, sorted. Processes that may not be looked at are left out."""
    found = set()
    for pid in filter(str.isdigit, os.listdir(procfs)):
        if _REPLACED.search(_text(f"{procfs}/{pid}/maps")):
            match = _SERVICE.search(_text(f"{procfs}/{pid}/cgroup"))
            if match and not match[1].startswith("user@"):
                found.add(match[1])
    return sorted(found)


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()
    return ""
