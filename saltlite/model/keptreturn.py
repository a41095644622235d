"""The file of a return that was too large to travel: `<jid>.kept` in the minion's folder `kept`.

    file    magic(8) | SHA-256 of the rest (32) | the whole return, encoded as returns are

It is written by the process of the job and read by `saltutil.kept_return`, which imports neither of the layers that
write it, so what both must agree on is here.
"""

from __future__ import annotations

FOLDER = "kept"
"""Name of the folder, below `data_dir`."""

SUFFIX = ".kept"
MAGIC = b"SLKEPT1\n"
HEADER_BYTES = len(MAGIC) + 32

TRUNCATED = "$truncated"
"""The key by which a program knows a return that was cut: `{"$truncated": {"bytes": n, "kept": bool}, "head": …}`."""

TRUNCATED_NOTE = "truncated:"
"""How the reason of every return begins that was cut, texts included."""


def header(digest: bytes) -> bytes:
    """The first HEADER_BYTES of a file whose rest has this SHA-256."""
    return MAGIC + digest


def digest_of(head: bytes) -> bytes:
    """The SHA-256 that the header names. Raises ValueError for bytes that are no header."""
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise ValueError("it does not begin as a kept return does")
    return head[len(MAGIC) : HEADER_BYTES]
