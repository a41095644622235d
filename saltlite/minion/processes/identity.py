"""Who this minion is: its key, its id, and the fleet that it belongs to.

minion.key    X25519, 32 bytes, made on the first start; it never leaves
minion_id     the id of the first start, so that a changed host name does not make another minion
fleet.pin     the fleet that this minion has joined, and its former keys; the network process cannot write it
"""

from __future__ import annotations

import logging
import os
import socket

from saltlite.config.minion import MinionConfig
from saltlite.errors import MisconfiguredError, RemoteProtocolError, StartupError, UsageError
from saltlite.model.clock import Clock
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.model.keys import (
    Fingerprint,
    JoinToken,
    fingerprint_bytes,
    format_fingerprint,
    parse_fingerprint,
    parse_token,
    unspell_fingerprint,
)
from saltlite.platform.privileges import read_secret, write_secret
from saltlite.wire.certificates import MasterCertificate, successors
from saltlite.wire.noise import public_of
from saltlite.wire.signatures import prove

log = logging.getLogger(__name__)

KEY_BYTES = 32

FORMER_KEPT = 1000
"""Former fleet keys that a minion remembers: far more than a fleet ever has."""


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
    """The fleet that this minion belongs to, how it came to know it, and the fleets of which it is the successor.

    The file names the pinned fleet in its first line, and in the others the former ones that led there, newest first.
    A former one in the configuration or in a join token means the present one: whoever holds a former fleet key, which
    may be why it was changed, can never have this minion back.
    """

    def __init__(self, config: MinionConfig, token: JoinToken | None) -> None:
        self._path = os.path.join(config.pki_dir, "fleet.pin")
        self._may_trust_first = config.trust_on_first_use
        self._kept, self.former = read_pin(self._path)
        self.pinned = pinned_fleet(config, self._kept, self.former)
        if self.pinned != self._kept:
            self.former = ()
        self._choose(token)

    def _choose(self, token: JoinToken | None) -> None:
        if token is not None and self.pinned is None:
            self.pinned = token.fleet
        if token is not None and token.fleet not in (self.pinned, *self.former):
            raise MisconfiguredError(
                f"the join token is one of fleet {token.fleet}, and this minion belongs to {self.pinned}: "
                f"if it really moves, remove {self._path} or correct `fleet`; if only the key of its fleet was "
                "changed, remove the token: the minion learns the new key from its master"
            )
        if self.pinned is None and not self._may_trust_first:
            raise MisconfiguredError(
                "this minion knows no fleet: set `join_token` to what `saltlite key token create` prints on the "
                "master, or `fleet` to what `saltlite key finger` prints, or `trust_on_first_use: true` in a lab"
            )

    def raw(self) -> bytes | None:
        """The 25 bytes to prove against, None for a first contact."""
        return unspell_fingerprint(self.pinned) if self.pinned is not None else None

    def believe(self, certificate: MasterCertificate, chain: bytes, now_s: int) -> None:
        """Verify what a master showed, and pin its fleet: at first contact, or as the successor of the pinned one.

        `chain` holds the encoded successions, `now_s` is seconds since 1970. Raises RemoteProtocolError.
        """
        pinned = self.raw()
        if pinned is None and not self._may_trust_first:
            raise RemoteProtocolError("wrong-fleet", "no fleet is pinned")
        begin = pinned if pinned is not None else fingerprint_bytes(certificate.fleet_public)
        way = (begin, *successors(begin, certificate.fleet_public, chain))
        certificate.verify(way[-1], now_s)
        *former, fleet = [format_fingerprint(raw) for raw in way]
        if fleet != self.pinned:
            self.pinned, self.former = fleet, (*reversed(former), *self.former)[:FORMER_KEPT]
            log.warning("this minion belongs to fleet %s from now on%s", fleet, _why(former))
        if fleet != self._kept:
            try:
                self._write(fleet)
            except StartupError as error:
                # In memory it holds already; the next handshake tries again.
                log.error("the pinned fleet is not on the disk yet: %s", error)  # noqa: TRY400 - a sentence

    def keep(self) -> None:
        """Remember a fleet that came by token, so that the token may be removed. Raises StartupError."""
        if self.pinned is not None and self._kept is None:
            self._write(self.pinned)

    def _write(self, fleet: Fingerprint) -> None:
        write_secret(self._path, "".join(f"{each}\n" for each in (fleet, *self.former)).encode())
        self._kept = fleet


def read_pin(path: str) -> tuple[Fingerprint | None, tuple[Fingerprint, ...]]:
    """The pinned fleet that the file names, and the former ones, newest first. Raises StartupError."""
    raw = read_secret(path)
    if raw is None:
        return None, ()
    try:
        pinned, *former = [parse_fingerprint(line) for line in raw.decode(errors="replace").splitlines() or [""]]
    except UsageError as error:
        raise StartupError(f"{path} is damaged: {error}") from error
    return pinned, tuple(former)


def pinned_fleet(config: MinionConfig, kept: Fingerprint | None, former: tuple[Fingerprint, ...]) -> Fingerprint | None:
    """The fleet that a minion belongs to which keeps these: the configured one, unless that is a former one."""
    if not config.fleet:
        return kept
    configured = parse_fingerprint(config.fleet)
    return kept if configured in former else configured


def _why(former: list[Fingerprint]) -> str:
    return f": its key took the place of that of {former[-1]}" if former else ", the first one that it met"
