"""Digests, signatures and base64 of texts and files.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_DIGESTS = ("md5", "sha256", "sha512")

_ENCODED_BYTES_MAX = 12 * 1024 * 1024
"""Maximum file size; encoded it must fit into a return."""


def digest(instr: str, checksum: str = "md5") -> str:
    """Return the digest of a text in hexadecimal: ``md5``, ``sha256`` or ``sha512``.

    CLI Example::

        saltlite '*' hashutil.digest 'get salted'
        saltlite '*' hashutil.digest 'get salted' sha256
    """
    return _digest(_bytes(instr), _checksum(checksum))


def digest_file(infile: str, checksum: str = "md5") -> str:
    """Return the digest of a file, like ``hashutil.digest``.

    CLI Example: ``saltlite '*' hashutil.digest_file /path/to/file``
    """
    kind = _checksum(checksum)
    if not __salt__["file.file_exists"](infile):
        raise CommandExecutionError(f"File path '{infile}' not found.")
    found: str = __salt__["file.get_hash"](infile, kind)
    return found


def md5_digest(instr: str) -> str:
    """Return the MD5 digest of a text.

    CLI Example: ``saltlite '*' hashutil.md5_digest 'get salted'``
    """
    return _digest(_bytes(instr), "md5")


def sha256_digest(instr: str) -> str:
    """Return the SHA-256 digest of a text.

    CLI Example: ``saltlite '*' hashutil.sha256_digest 'get salted'``
    """
    return _digest(_bytes(instr), "sha256")


def sha512_digest(instr: str) -> str:
    """Return the SHA-512 digest of a text.

    CLI Example: ``saltlite '*' hashutil.sha512_digest 'get salted'``
    """
    return _digest(_bytes(instr), "sha512")


def base64_b64encode(instr: str) -> str:
    """Encode a text in base64, on one line.

    CLI Example: ``saltlite '*' hashutil.base64_b64encode 'get salted'``
    """
    return base64.b64encode(_bytes(instr)).decode()


def base64_b64decode(instr: str) -> str | bytes:
    """Decode base64 to a text, or to bytes if it is not UTF-8.

    CLI Example::

        saltlite '*' hashutil.base64_b64decode 'Z2V0IHNhbHRlZA=='
        saltlite '*' hashutil.base64_decodestring instr='Z2V0IHNhbHRlZAo='
    """
    return _text_if_possible(_decoded(instr))


def base64_encodestring(instr: str) -> str:
    """Encode a text in base64, in lines of 76 characters that end with a newline.

    CLI Example: ``saltlite '*' hashutil.base64_encodestring 'get salted'``
    """
    return base64.encodebytes(_bytes(instr)).decode()


base64_decodestring = base64_b64decode


def base64_encodefile(fname: str) -> str:
    """Encode a file of up to 12 MiB in base64, like ``hashutil.base64_encodestring``.

    CLI Example: ``saltlite '*' hashutil.base64_encodefile /path/to/binary_file``
    """
    path = os.path.expanduser(str(fname))
    if not __salt__["file.file_exists"](path):
        raise CommandExecutionError(f"File path '{fname}' not found.")
    if os.path.getsize(path) > _ENCODED_BYTES_MAX:
        raise CommandExecutionError(
            f"{fname} has more than {_ENCODED_BYTES_MAX} bytes, and would not fit into a return."
        )
    return base64_encodestring(__salt__["file.read"](path, binary=True))


def base64_decodefile(instr: str, outfile: str, *, test: bool = False) -> bool | str:
    """Decode base64 into a file.

    CLI Example: ``saltlite '*' hashutil.base64_decodefile instr='Z2V0IHNhbHRlZAo=' outfile=/path/to/binary_file``
    """
    content = _decoded(instr)
    if test:
        return f"{len(content)} bytes would be written to {outfile}"
    done = __salt__["file.manage_file"](
        name=outfile, sfn="", ret=None, source=None, source_sum=None, user=None, group=None, mode=None, attrs=None,
        saltenv="base", backup=False, contents=content, show_changes=False,
    )  # fmt: skip
    if done["result"] is False:
        raise CommandExecutionError(str(done["comment"]))
    return True


def hmac_compute(string: str, shared_secret: str) -> str:
    """Return the HMAC-SHA256 of a text and a secret in hexadecimal.

    CLI Example: ``saltlite '*' hashutil.hmac_compute 'get salted' 'shared secret'``
    """
    return _hmac(string, shared_secret, "sha256").hex()


def hmac_signature(string: str, shared_secret: str, challenge_hmac: str) -> bool:
    """Return whether a value is the HMAC-SHA256 of a text and a secret, in base64.

    CLI Example::

        saltlite '*' hashutil.hmac_signature 'get salted' 'shared secret' 'eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ='
    """
    return _same(base64.b64encode(_hmac(string, shared_secret, "sha256")), _bytes(challenge_hmac))


def github_signature(string: str, shared_secret: str, challenge_hmac: str) -> bool:
    """Return whether a value is the signature of a GitHub webhook: digest name, ``=`` and the HMAC in hexadecimal.

    CLI Example::

        saltlite '*' hashutil.github_signature '{}' secret challenge_hmac=sha1=bc6550fc290acf5b42283fa8deaf55cea0f8c206
    """
    kind, equals, challenge = str(challenge_hmac).partition("=")
    if not equals or kind not in {"sha1", "sha256", "sha512"}:
        raise SaltInvocationError("A signature begins with sha1=, sha256= or sha512=.")
    return _same(_hmac(string, shared_secret, kind).hex().encode(), challenge.encode())


def _bytes(value: Any) -> bytes:
    """Accept bytes from other modules. An annotation of bytes would make a number of `1.50` on the command line."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogateescape")


def _checksum(name: str) -> str:
    if name not in _DIGESTS:
        raise CommandExecutionError(f"Hash func '{name}' is not supported: there are {', '.join(_DIGESTS)}.")
    return name


def _digest(content: bytes, kind: str) -> str:
    import hashlib

    return hashlib.new(kind, content, usedforsecurity=False).hexdigest()


def _hmac(string: str, shared_secret: str, kind: str) -> bytes:
    import hmac

    return hmac.digest(_bytes(shared_secret), _bytes(string), kind)


def _same(first: bytes, second: bytes) -> bool:
    import hmac

    return hmac.compare_digest(first, second)


def _decoded(instr: str) -> bytes:
    try:
        return base64.b64decode(_bytes(instr))
    except binascii.Error as error:
        raise SaltInvocationError(f"This is not base64: {error}.") from error


def _text_if_possible(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content
