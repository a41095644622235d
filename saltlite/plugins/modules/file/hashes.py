"""Digests of files, and digests listed in sum files of downloads."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, sentence, shown

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


# --- Arguments of Salt's functions that are not supported ---

_SELINUX = "labels of SELinux are kept, and not set: run chcon or semanage"
_WEB = "it is for files from the web, which are not fetched here"
_SIGNED = "signatures are not checked here: give a source_hash"
_ALIKE = "files are managed to the last byte here: file.get_diff compares in this way"

_UNSERVED: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("seuser", "serole", "setype", "serange"), (None, _SELINUX)),
    "verify_ssl": (True, _WEB),
    "use_etag": (False, _WEB),
    **dict.fromkeys(
        ("signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome"), (None, _SIGNED)
    ),
    "sig_backend": ("gpg", _SIGNED),
    **dict.fromkeys(("ignore_ordering", "ignore_whitespace"), (False, _ALIKE)),
    "ignore_comment_characters": (None, _ALIKE),
}
"""Name -> its default, and the message for any other value."""


def refuse_unserved(given: Mapping[str, Any]) -> None:
    """Raise SaltInvocationError if one of these arguments in `given` differs from its default."""
    for name, (default, reason) in _UNSERVED.items():
        value = given.get(name, default)
        if value and value != default:
            raise SaltInvocationError(f"{name}={value!r} cannot be: {reason}.")


HASHES = {"sha512": 128, "sha384": 96, "sha256": 64, "sha224": 56, "sha1": 40, "md5": 32}
"""Name of a digest -> its number of hexadecimal digits."""

_BY_LENGTH = {length: name for name, length in HASHES.items()}

_SUPPORTED = ", ".join(f"{name} ({length} digits)" for name, length in HASHES.items())

_REMOTE = ("salt", "http", "https", "ftp")


def get_hash(path: str, form: str = "sha256", chunk_size: int = 65536) -> str:
    """Return the digest of a file in hexadecimal; ``form`` is md5, sha1, sha224, sha256, sha384 or sha512.

    CLI Example::

        saltlite '*' file.get_hash /etc/shadow
        saltlite '*' file.get_hash /etc/shadow sha512
    """
    import hashlib

    name = checked_path(path)
    try:
        digest = hashlib.new(form, usedforsecurity=False)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"Invalid hash type: {form}. There are {', '.join(HASHES)}.") from error
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise SaltInvocationError(f"chunk_size is a number of bytes, not {chunk_size!r}.")
    try:
        if stat.S_ISFIFO(os.stat(name).st_mode):
            raise CommandExecutionError(f"{shown(name)} is a named pipe: reading it would wait for who writes to it.")
        with open(name, "rb") as stream:
            while block := stream.read(chunk_size):
                digest.update(block)
    except OSError as error:
        raise sentence(name, "read", error) from error
    return digest.hexdigest()


def get_sum(path: str, form: str = "sha256") -> str:
    """Like ``file.get_hash``, but returns the text ``File not found`` for a path that is no file.

    CLI Example::

        saltlite '*' file.get_sum /etc/passwd sha512
    """
    return get_hash(path, form) if os.path.isfile(checked_path(path)) else "File not found"


def check_hash(path: str, file_hash: str) -> bool:
    """Return whether a file has this digest, given as digits, ``md5=digits`` or ``md5:digits``.

    CLI Example::

        saltlite '*' file.check_hash /etc/fstab e138491e9d5b97023cea823fe17bac22
        saltlite '*' file.check_hash /etc/fstab md5=e138491e9d5b97023cea823fe17bac22
    """
    if not isinstance(file_hash, str):
        raise SaltInvocationError("hash must be a string")
    parts = re.split("[:=]", file_hash, maxsplit=1)
    kind = parts[0].strip() if len(parts) == 2 else _BY_LENGTH.get(len(file_hash))
    if kind is None:
        raise SaltInvocationError(
            f"Hash {file_hash} (length: {len(file_hash)}) could not be matched to a supported hash type: {_SUPPORTED}."
        )
    return get_hash(path, kind) == parts[-1].strip().lower()


def get_source_sum(  # noqa: PLR0913, PLR0917 - Salt's arguments
    file_name: str = "",
    source: str = "",
    source_hash: str | None = None,
    source_hash_name: str | None = None,
    saltenv: str = "base",
    verify_ssl: bool = True,
    source_hash_sig: str | None = None,
    signed_by_any: str | list[str] | None = None,
    signed_by_all: str | list[str] | None = None,
    keyring: str | None = None,
    gnupghome: str | None = None,
    sig_backend: str = "gpg",
) -> dict[str, str]:
    """Return the expected digest of a source as ``hash_type`` and ``hsum``.

    ``source_hash`` is the digest, ``md5=digits``, or the address of a sum file, which is searched for
    ``source_hash_name``, ``file_name`` or ``source``.

    CLI Example::

        saltlite '*' file.get_source_sum /tmp/a.gz source=salt://a.gz source_hash=499ae16dcae71eeb7c3a30c75ea7a1a6
        saltlite '*' file.get_source_sum /tmp/a.gz source=salt://a.gz source_hash=salt://hashes.md5
    """
    refuse_unserved(locals())
    value = str(source_hash or "").strip()
    listing = _listing(value, saltenv)
    if not listing:
        return _expression(value)
    found = extract_hash(listing, "", file_name, source, source_hash_name)
    if found is None:
        raise _unusable(value)
    return {**found, "hsum": found["hsum"].lower()}


def extract_hash(
    hash_fn: str,
    hash_type: str = "sha256",
    file_name: str = "",
    source: str = "",
    source_hash_name: str | None = None,
) -> dict[str, str] | None:
    """Search for a digest in a sum file, as ``sha256sum`` writes it, or in a Debian ``.dsc``.

    ``source_hash_name`` has precedence over ``file_name``, and that over ``source``. If none is found, the first digest
    of the file is returned, or None. An empty ``hash_type`` matches any.

    CLI Example::

        saltlite '*' file.extract_hash /path/to/hash/file sha512 /etc/foo
    """
    length = HASHES.get(hash_type)
    digits = str(length) if length else f"{min(_BY_LENGTH)},{max(_BY_LENGTH)}"
    digest = re.compile(rf"(?<![a-z0-9])([a-f0-9]{{{digits}}})(?![a-z0-9])", re.IGNORECASE)
    wanted = [_line_of(str(source_hash_name), r"\s")] if source_hash_name else []
    wanted += [_line_of(str(each), r"[\s\\/*]") for each in (file_name, source) if each]
    found: dict[int, dict[str, str]] = {}
    name = checked_path(hash_fn)
    try:
        with open(name, encoding="utf-8", errors="replace") as stream:
            for raw in stream:
                line = raw.strip()
                match = digest.search(line)
                kind = _BY_LENGTH.get(len(match[1])) if match else None
                if match and kind:
                    # The first digest of the file is the last choice.
                    places = [place for place, pattern in enumerate(wanted) if pattern.search(line)]
                    for place in (*places, len(wanted)):
                        found.setdefault(place, {"hsum": match[1], "hash_type": kind})
    except OSError as error:
        raise sentence(name, "read", error) from error
    return found[min(found)] if found else None


def _listing(value: str, saltenv: str) -> str:
    """Return the local path of the sum file in `source_hash`; empty when it names none."""
    if os.path.isabs(value):
        return value
    scheme, colon, path = value.partition("://")
    if not colon:
        return ""
    if scheme == "file":
        return path
    if scheme not in _REMOTE:
        raise _unusable(value)
    kept: str = __salt__["cp.cache_file"](value, saltenv)
    if not kept:
        raise CommandExecutionError(f"Source hash file {value} not found")
    return kept


def _line_of(name: str, separator: str) -> re.Pattern[str]:
    """Match a line that ends with the base name, or begins with the full name."""
    last = os.path.basename(name.rstrip("/")) if separator != r"\s" else name
    return re.compile(rf"{separator}{re.escape(last)}$|^{re.escape(name)}\s")


def _expression(value: str) -> dict[str, str]:
    kind, equals, digits = (part.strip() for part in value.partition("="))
    if not equals:
        kind, digits = _BY_LENGTH.get(len(value), ""), value
        if not kind:
            raise _unusable(value)
    if not re.fullmatch("[0-9a-fA-F]+", digits):
        raise _unusable(value)
    if kind not in HASHES:
        raise CommandExecutionError(f"Invalid hash type '{kind}': there are {_SUPPORTED}.")
    if len(digits) != HASHES[kind]:
        fitting = _BY_LENGTH.get(len(digits))
        hint = f"; that of {fitting} has" if fitting else ""
        raise CommandExecutionError(
            f"Invalid length ({len(digits)}) for hash type '{kind}', which has {HASHES[kind]} digits{hint}."
        )
    return {"hash_type": kind, "hsum": digits.lower()}


def _unusable(value: str) -> CommandExecutionError:
    return CommandExecutionError(
        f"Source hash {value} format is invalid: give the digest, type=digest, or the address of a file of digests. "
        f"There are {_SUPPORTED}."
    )
