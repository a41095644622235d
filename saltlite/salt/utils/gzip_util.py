"""`salt.utils.gzip_util`: gzip."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

from saltlite.salt.utils.itertools import read_file
from saltlite.salt.utils.stringutils import to_bytes

GzipFile = gzip.GzipFile
open = gzip.open


def open_fileobj(fileobj: Any, mode: str = "rb", compresslevel: int = 9) -> gzip.GzipFile:
    """A compressed file in another open file."""
    return gzip.GzipFile(filename="", mode=mode, fileobj=fileobj, compresslevel=compresslevel)


def compress(data: Any, compresslevel: int = 9) -> bytes:
    """A text or bytes, compressed."""
    return gzip.compress(to_bytes(data), compresslevel)


def uncompress(data: bytes) -> bytes:
    return gzip.decompress(data)


def compress_file(fh_: Any, compresslevel: int = 9, chunk_size: int = 1048576) -> Iterator[bytes]:
    """Each block of an open file or a path, compressed by itself; joined, they are the compressed file."""
    for block in read_file(fh_, chunk_size):
        yield gzip.compress(block, compresslevel)
