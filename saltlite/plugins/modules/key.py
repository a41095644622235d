"""Fingerprints of this minion's key and of its fleet.

They have the form in which the master shows them, so that both sides can be compared by eye. Only the minion's own
user and root read the files of keys.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model import keys

if TYPE_CHECKING:
    from saltlite.loader.hints import __minion_key__, __opts__

_KEY, _PIN = "minion.key", "fleet.pin"


def finger(hash_type: str | None = None) -> str:
    """Return the fingerprint of this minion's key, as ``saltlite key finger ID`` prints it on the master.

    Called by ``saltlite-call`` before the minion has ever started, it makes the key, which the minion then takes. So
    the fingerprint can be accepted on the master before there is a connection. ``hash_type`` is ``sha256``, the only
    kind of fingerprint.

    CLI Example: ``saltlite '*' key.finger``
    """
    _refuse_hash(hash_type)
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    # A job of a minion whose key was removed makes none: the fingerprint would not be that of its session.
    raw = __minion_key__() if isinstance(__minion_key__, Callable) else _content(_KEY)  # type: ignore[arg-type]  # an empty dict in a job
    try:
        public = X25519PrivateKey.from_private_bytes(raw).public_key().public_bytes_raw()
    except ValueError as error:
        raise CommandExecutionError(f"{_path(_KEY)} is not a key of 32 bytes.") from error
    return keys.fingerprint(public)


def finger_master(hash_type: str | None = None) -> str:
    """Return the fingerprint of the fleet that this minion belongs to, as ``saltlite key finger`` prints it on the
    master. Each master of the fleet proves to the minion that its key was signed by this one.

    CLI Example: ``saltlite '*' key.finger_master``
    """
    _refuse_hash(hash_type)
    lines = _content(_PIN).decode(errors="replace").splitlines()
    try:
        return keys.parse_fingerprint(lines[0] if lines else "")
    except UsageError as error:
        raise CommandExecutionError(f"{_path(_PIN)} is damaged: {error}.") from error


def _refuse_hash(hash_type: str | None) -> None:
    if hash_type not in (None, "sha256"):
        raise SaltInvocationError("Fingerprints are made with sha256 only.")


def _path(name: str) -> str:
    if not __opts__.get("pki_dir"):
        raise CommandExecutionError("This call runs without a minion, so there is no key.")
    return os.path.join(str(__opts__["pki_dir"]), name)


def _content(name: str) -> bytes:
    path = _path(name)
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise CommandExecutionError(
            f"There is no {path}: the minion makes its key at its first start, and then pins the fleet of its master."
        ) from error
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}.") from error
