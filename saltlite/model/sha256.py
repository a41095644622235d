"""SHA-256 and HMAC without OpenSSL, which `hashlib` and `hmac` load: 4 MiB of a process's memory.

The cryptography package brings an OpenSSL of its own, whose hashes cost 2 µs each from Python. Python has SHA-256 as a
module in C for builds without OpenSSL, under a name that depends on the version. For short data it is as fast as
`hashlib`.
"""

from __future__ import annotations

import sys
from _operator import _compare_digest as compare_digest

TYPE_CHECKING = False  # the command imports this file, and typing costs it start-up time
if TYPE_CHECKING:
    from hashlib import sha256 as _sha256
else:
    try:
        from _sha2 import sha256 as _sha256  # Python 3.12 and later
    except ImportError:
        try:
            from _sha256 import sha256 as _sha256
        except ImportError:
            from hashlib import sha256 as _sha256

__all__ = ["compare_digest", "hmac_sha256", "sha256"]

SHORT_MAX = 512
"""Bytes that are hashed without OpenSSL, even if the process has loaded it."""
LONG_MAX = 256 * 1024
"""Bytes that are hashed without OpenSSL if the process has not loaded it: 1.3 ms, less than loading it takes."""
_BLOCK_BYTES = 64
_INNER = bytes(0x36 ^ byte for byte in range(256))
_OUTER = bytes(0x5C ^ byte for byte in range(256))


def sha256(data: bytes) -> bytes:
    """The SHA-256 of the data, 32 bytes."""
    if len(data) > SHORT_MAX and ("_hashlib" in sys.modules or len(data) > LONG_MAX):
        import hashlib  # noqa: PLC0415 - see above

        return hashlib.sha256(data).digest()
    return _sha256(data).digest()


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256 (RFC 2104) of the data, 32 bytes."""
    if len(key) > _BLOCK_BYTES:
        key = sha256(key)
    block = key.ljust(_BLOCK_BYTES, b"\0")
    return sha256(block.translate(_OUTER) + sha256(block.translate(_INNER) + data))
