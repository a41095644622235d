"""Mount file systems, say what is mounted, and edit the tables of what is mounted at a start.

What is mounted comes from `/proc/self/mountinfo`. The tables are exchanged whole: a reader sees the old one or the new
one. White space in paths is written as these files want it, and read back as it was.

What belongs here: the functions of Salt's module, a file a subject. What does not: file systems themselves, which
`disk` knows.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       mount, umount, swapon, swapoff
:platform:      Linux
"""

from __future__ import annotations

__parts__ = {
    "automounts": ["automaster", "rm_automaster", "set_automaster"],
    "remembered": ["delete_mount_cache", "read_mount_cache", "write_mount_cache"],
    "running": [
        "active",
        "get_device_from_path",
        "get_mount_from_path",
        "is_fuse_exec",
        "is_mounted",
        "mount",
        "remount",
        "swapoff",
        "swapon",
        "swaps",
        "umount",
    ],
    "table": ["fstab", "rm_fstab", "set_fstab"],
}
