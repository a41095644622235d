"""The file of a backup: a line that says what it is, then blocks with a tar in them.

    saltlite-backup {"format": 1, "saltlite": "0.1.0", "salt": "…" or null}\\n
    block                   4 bytes length, then so many bytes; the highest bit of the length marks the last block
    digest                  32 bytes, SHA-256 of everything before; not in an encrypted file

With a passphrase each block is sealed with ChaCha20-Poly1305: the key is made by scrypt, the nonce is the number of the
block and whether it is the last one, and the first line is authenticated with every block. So no block can be changed,
removed, moved, or added. Without one the digest finds damage, but not a person who makes another digest as well.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import struct
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from saltlite import __version__
from saltlite.errors import RefusedError, SaltliteError

FORMAT = 1
MAGIC = b"saltlite-backup "
HEADER_MAX = 1024
"""Bytes of the first line."""
BLOCK = 1024 * 1024
"""Bytes of data in a block."""
TAG = 16
SALT = 16
DIGEST = 32
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**17, 8, 1
"""128 MiB of memory and a few tenths of a second for each guess of a passphrase."""
PASSPHRASE_MIN = 8
"""Bytes."""
_LENGTH = struct.Struct(">I")
_NONCE = struct.Struct(">3xQ?")
_LAST = 1 << 31


class ArchiveWriter:
    """A stream that a tar is written to. `close` completes the file."""

    def __init__(self, file: BinaryIO, passphrase: bytes | None) -> None:
        salt = None if passphrase is None else os.urandom(SALT)
        fields = {"format": FORMAT, "saltlite": __version__, "salt": salt and salt.hex()}
        self._header = MAGIC + json.dumps(fields).encode() + b"\n"
        self._seal = None if passphrase is None or salt is None else ChaCha20Poly1305(_key(passphrase, salt))
        self._file = file
        self._digest = hashlib.sha256()
        self._number = 0
        self._waiting = bytearray()
        self._put(self._header)

    def write(self, data: bytes) -> int:
        """Write plain data. Raises OSError."""
        self._waiting += data
        while len(self._waiting) > BLOCK:
            self._put_block(bytes(self._waiting[:BLOCK]), last=False)
            del self._waiting[:BLOCK]
        return len(data)

    def close(self) -> None:
        """Write what is left. Raises OSError."""
        self._put_block(bytes(self._waiting), last=True)
        if self._seal is None:
            self._file.write(self._digest.digest())

    def _put_block(self, data: bytes, *, last: bool) -> None:
        if self._seal is not None:
            data = self._seal.encrypt(_NONCE.pack(self._number, last), data, self._header)
        self._number += 1
        self._put(_LENGTH.pack(len(data) | (_LAST if last else 0)))
        self._put(data)

    def _put(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)


class ArchiveReader:
    """A stream that a tar is read from. What it returns of an encrypted file was authenticated.

    Raises SaltliteError for a file that is no backup, is damaged, or was made by a newer saltlite, and RefusedError for
    a wrong passphrase or an encrypted file without one.
    """

    def __init__(self, file: BinaryIO, path: str, passphrase: bytes | None) -> None:
        self._file = file
        self._path = path
        self._digest = hashlib.sha256()
        self._header, fields = read_header(file, path)
        self._digest.update(self._header)
        self._seal = None
        if fields["salt"] is not None:
            if passphrase is None:
                raise RefusedError(f"{path} is encrypted: give its passphrase with --passphrase-file")
            self._seal = ChaCha20Poly1305(_key(passphrase, bytes.fromhex(fields["salt"])))
        self._number = 0
        self._waiting = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the end."""
        found = bytearray()
        while len(found) < size and (self._waiting or not self._ended):
            if not self._waiting:
                self._waiting = self._block()
            part = self._waiting[: size - len(found)]
            self._waiting = self._waiting[len(part) :]
            found += part
        return bytes(found)

    def finish(self) -> None:
        """Read to the end, which is checked."""
        while not self._ended:
            self._block()
        if self._file.read(1):
            raise self._altered()

    def _block(self) -> bytes:
        length = _LENGTH.unpack(self._exactly(_LENGTH.size))[0]
        last, length = bool(length & _LAST), length & ~_LAST
        if length > BLOCK + TAG:
            raise self._altered()
        data = self._exactly(length)
        if self._seal is not None:
            try:
                data = self._seal.decrypt(_NONCE.pack(self._number, last), data, self._header)
            except InvalidTag:
                if self._number == 0:
                    raise RefusedError(
                        f"{self._path} does not open with this passphrase, or its beginning was altered; nothing was "
                        "restored"
                    ) from None
                raise self._altered() from None
        elif last:
            digest = self._digest.digest()
            if not hmac.compare_digest(self._exactly(DIGEST), digest):
                raise self._altered()
        self._number += 1
        self._ended = last
        return data

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise self._altered()
        self._digest.update(data)
        return data

    def _altered(self) -> SaltliteError:
        return SaltliteError(
            f"{self._path} was altered or cut off after it was made: it is not what was backed up, and nothing was "
            "restored; use another backup"
        )


def read_header(file: BinaryIO, path: str) -> tuple[bytes, dict[str, str | None]]:
    """The first line of a backup, and its fields `saltlite` and `salt`. Raises SaltliteError."""
    line = file.readline(HEADER_MAX)
    try:
        fields = json.loads(line[len(MAGIC) :]) if line.startswith(MAGIC) and line.endswith(b"\n") else {}
        number, version = int(fields["format"]), str(fields["saltlite"])
        salt = None if fields["salt"] is None else bytes.fromhex(fields["salt"]).hex()
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SaltliteError(f"{path} is no backup of saltlite, or its first line was altered") from None
    if number > FORMAT:
        raise newer(path, version)
    return line, {"saltlite": version, "salt": salt}


def newer(path: str, version: str) -> SaltliteError:
    """The error for a backup that this version cannot read."""
    return SaltliteError(
        f"{path} was made by saltlite {version[:40]}, which is newer than this one ({__version__}): restore it with "
        "that version; nothing was restored"
    )


def _key(passphrase: bytes, salt: bytes) -> bytes:
    return Scrypt(salt=salt, length=32, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P).derive(passphrase)
