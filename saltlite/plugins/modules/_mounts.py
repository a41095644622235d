"""Reads mounts from `/proc/self/mountinfo`, and escapes white space as that file and fstab do."""

from __future__ import annotations

import re
from typing import NamedTuple

from saltlite.plugins.modules import _machinefiles

_WRITTEN = str.maketrans({" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"})


class Mount(NamedTuple):
    """A mount, with unescaped texts."""

    mountid: str
    parentid: str
    major: str
    minor: str
    root: str
    point: str
    options: list[str]
    fstype: str
    device: str
    superoptions: list[str]


def mounts() -> list[Mount]:
    """Return all mounts of this process in mount order. Raises CommandExecutionError."""
    found = []
    for line in _machinefiles.read("/proc/self/mountinfo").splitlines():
        columns = line.split(" ")
        dash = columns.index("-", 6)
        major, _, minor = columns[2].partition(":")
        fstype, device, superoptions = [*columns[dash + 1 : dash + 4], "", ""][:3]
        found.append(
            Mount(
                mountid=columns[0],
                parentid=columns[1],
                major=major,
                minor=minor,
                root=plain(columns[3]),
                point=plain(columns[4]),
                options=plain(columns[5]).split(","),
                fstype=plain(fstype),
                device=plain(device),
                superoptions=plain(superoptions).split(","),
            )
        )
    return found


def by_point() -> dict[str, Mount]:
    """Mount point -> the visible mount, which is the last one there."""
    return {mount.point: mount for mount in mounts()}


def options_of(mount: Mount) -> list[str]:
    """Return the options as `/proc/self/mounts` has them: of the mount, then of the file system, without repetition."""
    return list(dict.fromkeys([*mount.options, *(each for each in mount.superoptions if each not in {"rw", "ro"})]))


def plain(text: str) -> str:
    """Unescape a column: `a\\040b` becomes `a b`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def written(text: str) -> str:
    r"""Escape a column: `a b` becomes `a\040b`. Text that has an escape stays."""
    return text if re.search(r"\\[0-7]{3}", text) else text.translate(_WRITTEN)
