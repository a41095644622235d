"""Files, folders and links of a minion: read, edit, compare, find, copy, remove, set permissions.

Files are written as a whole or not at all. Paths are absolute or begin with ``~``. Symbolic links are followed where
the target is meant; removing or changing a tree never follows them.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from .backups import delete_backup, list_backup, list_backups, list_backups_dir, remove_backup, restore_backup
from .find import find
from .labels import get_selinux_context, restorecon, set_selinux_context

from .lines import (  # isort: skip
    append, blockreplace, comment, comment_line, line, prepend, read, seek_read, seek_write, touch, truncate, uncomment,
    write,
)  # fmt: skip
from .managed import (  # isort: skip
    apply_template_on_contents, check_file_meta, check_managed, check_managed_changes, get_diff, get_managed,
    manage_file, patch, source_list,
)  # fmt: skip
from .paths import (  # isort: skip
    copy, link, makedirs, makedirs_perms, mkdir, mknod, mknod_blkdev, mknod_chrdev, mknod_fifo, move, remove, rename,
    rmdir, symlink,
)  # fmt: skip
from .permissions import chattr, check_perms, chgrp, chown, lchown, lsattr, set_mode

from .stats import (  # isort: skip
    access, basename, check_hash, directory_exists, dirname, diskusage, extract_hash, file_exists, get_devmm, get_gid,
    get_group, get_hash, get_mode, get_source_sum, get_sum, get_uid, get_user, gid_to_group,
    group_to_gid, is_blkdev, is_chrdev, is_fifo, is_hardlink, is_link, join, lstat, normpath, open_files, pardir,
    path_exists_glob, readdir, readlink, stats, statvfs, uid_to_user, user_to_uid,
)  # fmt: skip
from .text import contains, contains_glob, contains_regex, grep, psed, replace, search, sed, sed_contains

__all__ = [
    "access", "append", "apply_template_on_contents", "basename", "blockreplace", "chattr", "check_file_meta",
    "check_hash", "check_managed", "check_managed_changes", "check_perms", "chgrp", "chown", "comment",
    "comment_line", "contains", "contains_glob", "contains_regex", "copy", "delete_backup", "directory_exists",
    "dirname", "diskusage", "extract_hash", "file_exists", "find", "get_devmm", "get_diff", "get_gid", "get_group",
    "get_hash", "get_managed", "get_mode", "get_selinux_context", "get_source_sum", "get_sum", "get_uid", "get_user",
    "gid_to_group", "grep", "group_to_gid", "is_blkdev", "is_chrdev", "is_fifo", "is_hardlink", "is_link", "join",
    "lchown", "line", "link", "list_backup", "list_backups", "list_backups_dir", "lsattr", "lstat", "makedirs",
    "makedirs_perms", "manage_file", "mkdir", "mknod", "mknod_blkdev", "mknod_chrdev", "mknod_fifo", "move",
    "normpath", "open_files", "pardir", "patch", "path_exists_glob", "prepend", "psed", "read", "readdir", "readlink",
    "remove", "remove_backup", "rename", "replace", "restore_backup", "restorecon", "rmdir", "search", "sed",
    "sed_contains", "seek_read", "seek_write", "set_mode", "set_selinux_context", "source_list", "stats", "statvfs",
    "symlink", "touch", "truncate", "uid_to_user", "uncomment", "user_to_uid", "write",
]  # fmt: skip
