"""`salt.utils.fsutils`: file systems, their devices and mounts."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
from collections.abc import Mapping
from typing import Any

from saltlite.errors import CommandExecutionError
from saltlite.salt.utils.files import fopen

log = logging.getLogger(__name__)


def _verify_run(out: Mapping[str, Any], cmd: str | None = None) -> None:
    """Raises CommandExecutionError for what `cmd.run_all` returned of a command that failed."""
    if out.get("retcode", 0) and out["stderr"]:
        log.debug("Command %r returned %s: %s", cmd, out.get("retcode"), out["stderr"])
        raise CommandExecutionError(out["stderr"])


def _get_mounts(fs_type: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Device -> its mounts, of all file systems or of one kind."""
    mounts: dict[str, list[dict[str, Any]]] = {}
    with fopen("/proc/mounts") as file:
        for line in file:
            device, point, kind, options = line.split(" ")[:4]
            if fs_type and kind != fs_type:
                continue
            row = {"mount_point": point, "options": options.split(",")}
            mounts.setdefault(device, []).append(row if fs_type else {**row, "type": kind})
    return mounts


def _blkid_output(out: str, fs_type: str | None = None) -> dict[str, Any]:
    """Device -> its properties, from what `blkid -o export` prints."""
    devices = {}
    for block in filter(str.strip, out.split("\n\n")):
        pairs = (line.partition("=") for line in filter(str.strip, block.strip().split("\n")))
        properties = {name.lower(): value for name, _, value in pairs}
        if not fs_type or properties.get("type", "") == fs_type:
            if fs_type:
                properties.pop("type", None)
            devices[properties.pop("devname")] = properties
    return _with_mounts(devices, fs_type)


def _with_mounts(devices: dict[str, Any], fs_type: str | None) -> dict[str, Any]:
    for device, mounts in _get_mounts(fs_type).items() if fs_type else ():
        if devices.get(device):
            devices[device]["mounts"] = mounts
    return devices


def _blkid(fs_type: str | None = None) -> dict[str, Any]:
    """Device -> its properties, with its mounts for one kind of file system."""
    done = subprocess.run(["blkid", "-o", "export"], capture_output=True, text=True, check=False)
    return _with_mounts(_blkid_output(done.stdout), fs_type)


def _is_device(path: str) -> bool:
    """Whether the path is a block device."""
    try:
        return stat.S_ISBLK(os.stat(path).st_mode)
    except OSError:
        return False
