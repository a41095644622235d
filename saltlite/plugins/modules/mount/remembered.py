"""What was mounted with which options, as a caller wants it remembered until the next call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _machinefiles

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__


def read_mount_cache(name: str) -> dict[str, Any]:
    """
    What is remembered of a mount point: ``{device, fstype, mkmnt, opts}``, or an empty dict.

    CLI Example::

        saltlite '*' mount.read_mount_cache /srv/share
    """
    row: dict[str, Any] = _remembered().get(str(name), {})
    return row


def write_mount_cache(real_name: str, device: str, mkmnt: bool, fstype: str, mount_opts: str | Sequence[str]) -> bool:
    """
    Remember how a mount point was mounted.

    CLI Example::

        saltlite '*' mount.write_mount_cache /srv/share /dev/sda1 False ext4 defaults,nosuid
    """
    known = _remembered()
    known[str(real_name)] = {"device": device, "fstype": fstype, "mkmnt": mkmnt, "opts": mount_opts}
    _remember(known)
    return True


def delete_mount_cache(real_name: str) -> bool:
    """
    Forget a mount point.

    CLI Example::

        saltlite '*' mount.delete_mount_cache /srv/share
    """
    known = _remembered()
    if known.pop(str(real_name), None) is not None:
        _remember(known)
    return True


def _remember(known: dict[str, Any]) -> None:
    import json

    _machinefiles.replace(_place(), json.dumps({"mounts": known}), mode=0o600)


def _remembered() -> dict[str, Any]:
    import json

    text = _machinefiles.read_if_there(_place())
    try:
        found: dict[str, Any] = json.loads(text)["mounts"] if text else {}
    except (ValueError, KeyError, TypeError) as error:
        raise CommandExecutionError(f"{_place()} is damaged; remove it, and nothing is remembered.") from error
    return found


def _place() -> str:
    folder = __opts__.get("cachedir")
    if not folder:
        raise CommandExecutionError("This minion has no folder for caches (option cachedir).")
    return os.path.join(str(folder), "mounts")
