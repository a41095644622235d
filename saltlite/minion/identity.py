"""Who this minion is: its key, its id, and the fleet that it belongs to.

minion.key    X25519, 32 bytes, made on the first start; it never leaves
minion_id     the id of the first start, so that a changed host name does not make another minion
fleet.pin     the fleet that this minion has joined; the network process cannot write it
"""

from __future__ import annotations

import os
import socket

from saltlite.adapters.privileges import read_secret, write_secret
from saltlite.config.minion import MinionConfig
from saltlite.core.ports import Clock
from saltlite.errors import MisconfiguredError, RemoteProtocolError, StartupError, UsageError
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.model.keys import (
    Fingerprint,
    JoinToken,
    fingerprint,
    parse_fingerprint,
    parse_token,
    unspell_fingerprint,
)
from saltlite.wire.certificate import MasterCertificate
from saltlite.wire.joinproof import prove
from saltlite.wire.noise import public_of

KEY_BYTES = 32


def minion_key(pki_dir: str, clock: Clock) -> bytes:
    """The private key, made if there is none. Raises StartupError."""
    path = os.path.join(pki_dir, "minion.key")
    key = read_secret(path)
    if key is None:
        key = clock.entropy(KEY_BYTES)
        write_secret(path, key)
    if len(key) != KEY_BYTES:
        raise StartupError(f"{path} is not a key of {KEY_BYTES} bytes: move it away, and the minion makes a new one")
    return key


def minion_id(config: MinionConfig, fqdn: str) -> MinionId:
    """The configured id; else the one of the first start; else the host name, which is kept from now on."""
    if config.id:
        return parse_minion_id(config.id)
    path = os.path.join(config.pki_dir, "minion_id")
    kept = read_secret(path)
    try:
        if kept is not None:
            return parse_minion_id(kept.decode(errors="replace").strip())
        found = parse_minion_id((fqdn or socket.gethostname()).lower())
    except UsageError as error:
        raise MisconfiguredError(f"this minion's id cannot be made from its host name: {error}; set `id`") from error
    write_secret(path, found.encode() + b"\n")
    return found


def join_token(config: MinionConfig) -> JoinToken | None:
    """The join token of the configuration. Raises StartupError; the token is in no message."""
    if config.join_token:
        return parse_token(config.join_token)
    if not config.join_token_file:
        return None
    raw = read_secret(config.join_token_file)
    if raw is None:
        return None
    try:
        return parse_token(raw.decode(errors="replace"))
    except UsageError as error:
        raise StartupError(f"{config.join_token_file}: {error}") from error


def join_proof(pki_dir: str, clock: Clock, token: JoinToken | None, name: MinionId) -> bytes:
    """What lets this minion's key in by its join token; b"" without one. Makes the key if there is none."""
    private = minion_key(pki_dir, clock)
    return prove(token, name, public_of(private)) if token is not None else b""


class Fleet:
    """The fleet that this minion belongs to, and how it came to know it."""

    def __init__(self, config: MinionConfig, token: JoinToken | None) -> None:
        self._path = os.path.join(config.pki_dir, "fleet.pin")
        self._may_trust_first = config.trust_on_first_use
        pinned = read_secret(self._path)
        try:
            self.pinned = parse_fingerprint(pinned.decode(errors="replace")) if pinned is not None else None
        except UsageError as error:
            raise StartupError(f"{self._path} is damaged: {error}") from error
        self._choose(config, token)

    def _choose(self, config: MinionConfig, token: JoinToken | None) -> None:
        if config.fleet:
            self.pinned = parse_fingerprint(config.fleet)
        if token is not None and self.pinned is None:
            self.pinned = token.fleet
        if token is not None and token.fleet != self.pinned:
            raise MisconfiguredError(
                f"the join token is one of fleet {token.fleet}, and this minion belongs to {self.pinned}: "
                f"if it really moves, remove {self._path} or correct `fleet`"
            )
        if self.pinned is None and not self._may_trust_first:
            raise MisconfiguredError(
                "this minion knows no fleet: set `join_token` to what `saltlite key token create` prints on the "
                "master, or `fleet` to what `saltlite key finger` prints, or `trust_on_first_use: true` in a lab"
            )

    def raw(self) -> bytes | None:
        """The 25 bytes to prove against, None for a first contact."""
        return unspell_fingerprint(self.pinned) if self.pinned is not None else None

    def of(self, certificate: MasterCertificate) -> bytes:
        """The fingerprint that this certificate must verify against; a first contact is pinned here."""
        if self.pinned is None:
            if not self._may_trust_first:
                raise RemoteProtocolError("wrong-fleet", "no fleet is pinned")
            self.pin(fingerprint(certificate.fleet_public))
        if self.pinned is None:
            raise RemoteProtocolError("wrong-fleet", "no fleet is pinned")
        return unspell_fingerprint(self.pinned)

    def pin(self, fleet: Fingerprint) -> None:
        """Belong to that fleet from now on."""
        self.pinned = fleet
        write_secret(self._path, fleet.encode() + b"\n")

    def keep(self) -> None:
        """Remember a fleet that came by token, so that the token may be removed."""
        if self.pinned is not None and read_secret(self._path) is None:
            self.pin(self.pinned)
