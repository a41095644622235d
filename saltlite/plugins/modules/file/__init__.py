"""Files, folders and links of a minion: reading, writing, comparing, finding, placing, owning.

What is written, is written whole or not at all. Paths are absolute, or begin with ``~``. A symbolic link is
followed where its target is meant, and is never followed by what removes or owns a tree.

What belongs here: the functions of ``file``, one idea a part, and what several of them share, in parts whose names
begin with an underscore. What does not: what other modules need of files; they call it through ``__salt__``.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

__parts__ = {
    "backups": ["delete_backup", "list_backup", "list_backups", "list_backups_dir", "remove_backup", "restore_backup"],
    "blocks": ["blockreplace"],
    "contents": ["append", "prepend", "read", "seek_read", "seek_write", "touch", "truncate", "write"],
    "devices": ["mknod", "mknod_blkdev", "mknod_chrdev", "mknod_fifo"],
    "finding": ["find"],
    "hashing": ["check_hash", "extract_hash", "get_hash", "get_source_sum", "get_sum"],
    "lines": ["comment", "comment_line", "line", "uncomment"],
    "managed": [
        "apply_template_on_contents",
        "check_file_meta",
        "check_managed",
        "check_managed_changes",
        "get_managed",
        "source_list",
    ],
    "managing": ["manage_file"],
    "names": ["basename", "dirname", "join", "normpath", "pardir"],
    "owning": ["chattr", "check_perms", "chgrp", "chown", "lchown", "lsattr", "set_mode"],
    "patching": ["get_diff", "patch"],
    "placing": ["copy", "link", "makedirs", "makedirs_perms", "mkdir", "move", "remove", "rename", "rmdir", "symlink"],
    "replacing": ["contains", "contains_glob", "contains_regex", "replace", "search"],
    "sed": ["grep", "psed", "sed", "sed_contains"],
    "stats": [
        "access",
        "directory_exists",
        "file_exists",
        "get_devmm",
        "get_gid",
        "get_group",
        "get_mode",
        "get_selinux_context",
        "get_uid",
        "get_user",
        "gid_to_group",
        "group_to_gid",
        "is_blkdev",
        "is_chrdev",
        "is_fifo",
        "is_hardlink",
        "is_link",
        "lstat",
        "path_exists_glob",
        "readdir",
        "readlink",
        "stats",
        "statvfs",
        "uid_to_user",
        "user_to_uid",
    ],
    "using": ["diskusage", "open_files"],
}
