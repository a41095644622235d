"""A machine's /etc with other users, for processes in a mount namespace of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def own_etc(folder: Path, files: Mapping[str, str]) -> str:
    """Copy /etc into `folder`, with these texts for its files; the shell command that mounts it in the place of /etc.

    The whole folder is mounted: when somebody adds a user to the machine, which replaces a file, Linux takes away
    everything that is mounted on that file, in all namespaces.
    """
    # What ends in a number or in .lock is a file of somebody who adds a user now, and is gone at any moment.
    passing = shutil.ignore_patterns("*.[0-9]*", "*.lock")
    try:
        shutil.copytree(
            "/etc",
            folder,
            symlinks=True,
            ignore=lambda at, names: {*files, *passing(at, names)} if at == "/etc" else set(),
        )
    except shutil.Error as error:
        # Other tests add services to this machine and remove them meanwhile.
        if any(os.path.lexists(source) for source, _to, _why in error.args[0]):
            raise
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        path.chmod({"shadow": 0o600, "sudoers": 0o440}.get(name, 0o644))
    return f"mount --bind {folder} /etc"
