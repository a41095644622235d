"""Files, folders and links of a minion: reading, writing, comparing, finding, placing, owning.

What is written, is written whole or not at all. Paths are absolute, or begin with ``~``. A symbolic link is
followed where its target is meant, and is never followed by what removes or owns a tree.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from .blocks import blockreplace
from .contents import append, prepend, read, seek_read, seek_write, touch, truncate, write
from .lines import comment, comment_line, line, uncomment
from .patching import get_diff, patch
from .replacing import contains, contains_glob, contains_regex, replace, search
from .sed import grep, psed, sed, sed_contains

__all__ = [
    "append",
    "blockreplace",
    "comment",
    "comment_line",
    "contains",
    "contains_glob",
    "contains_regex",
    "get_diff",
    "grep",
    "line",
    "patch",
    "prepend",
    "psed",
    "read",
    "replace",
    "search",
    "sed",
    "sed_contains",
    "seek_read",
    "seek_write",
    "touch",
    "truncate",
    "uncomment",
    "write",
]
