"""`salt.utils.tarfileutil`: archives that cannot write outside of their folder."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from typing import Any


def extractall(
    tar: tarfile.TarFile, path: str = "", members: Iterable[Any] | None = None, *, numeric_owner: bool = False
) -> None:
    """Extract all or these members. Raises tarfile.FilterError for one that would get outside of the folder."""
    tar.extractall(path, members, numeric_owner=numeric_owner, filter="data")


def extract(
    tar: tarfile.TarFile, member: Any, path: str = "", *, set_attrs: bool = True, numeric_owner: bool = False
) -> None:
    """Extract one member. Raises tarfile.FilterError if it would get outside of the folder."""
    tar.extract(member, path, set_attrs=set_attrs, numeric_owner=numeric_owner, filter="data")
