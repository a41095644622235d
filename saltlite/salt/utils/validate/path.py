"""`salt.utils.validate.path`: what this process may do with a path."""

from __future__ import annotations

import os


def is_writeable(path: str, check_parent: bool = False) -> bool:
    """Whether the path can be written or, with `check_parent`, be made in its folder."""
    if os.path.exists(path):
        return os.access(path, os.W_OK)
    return check_parent is not False and os.access(os.path.dirname(path), os.W_OK)


def is_readable(path: str) -> bool:
    return os.access(path, os.R_OK)


def is_executable(path: str) -> bool:
    return os.access(path, os.X_OK)
