"""The identity of this minion: its key, its id, and the fleet that it belongs to.

minion.key    X25519, 32 bytes, created on the first start or by key.finger before it; it never leaves the minion
minion_id     the id of the first start, so that a changed host name does not change the id
fleet.pin     the fleet of this minion, and its former keys; the network process cannot write it

and, in the data_dir, the state of the connection and the directory of masters.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from saltlite.errors import MisconfiguredError, ProtocolError, RemoteProtocolError, StartupError, UsageError
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
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
from saltlite.model.resourcelook import TypeReport, read_report
from saltlite.platform.privileges import read_secret, secret_made_once, write_secret
from saltlite.wire.certificates import MasterCertificate, successors
from saltlite.wire.directory import NOWHERE, Directory, from_rows
from saltlite.wire.noise import public_of
from saltlite.wire.signatures import prove

if TYPE_CHECKING:
    from saltlite.config.minion import MinionConfig

log = logging.getLogger(__name__)

KEY_BYTES = 32

FORMER_KEPT = 1000
"""Former fleet keys that a minion remembers: far more than a fleet ever has."""


def minion_key(pki_dir: str, entropy: Callable[[int], bytes]) -> bytes:
    """The private key, created if there is none. Raises StartupError."""
    path = os.path.join(pki_dir, "minion.key")
    key = secret_made_once(path, partial(entropy, KEY_BYTES))
    if len(key) != KEY_BYTES:
        raise StartupError(f"{path} is not a key of {KEY_BYTES} bytes: move it away, and the minion makes a new one")
    return key


def minion_id(config: MinionConfig, full_host_name: Callable[[], str]) -> MinionId:
    """The configured id, else the id of the first start, else the host name, which is stored."""
    if config.id:
        return parse_minion_id(config.id)
    path = os.path.join(config.pki_dir, "minion_id")
    kept = read_secret(path)
    try:
        if kept is not None:
            return parse_minion_id(kept.decode(errors="replace").strip())
        found = parse_minion_id((full_host_name() or socket.gethostname()).lower())
    except UsageError as error:
        raise MisconfiguredError(f"this minion's id cannot be made from its host name: {error}; set `id`") from error
    write_secret(path, found.encode() + b"\n")
    return found


def join_token(config: MinionConfig) -> JoinToken | None:
    """The join token of the configuration. Raises StartupError, without the token in its message."""
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
    """The proof of the join token for this minion's key; b"" without a token. Creates the key if there is none."""
    private = minion_key(pki_dir, clock.entropy)
    return prove(token, name, public_of(private)) if token is not None else b""


class PinnedFleet:
    """The fleet of this minion, how it was learnt, and the former keys of this fleet.

    The first line of the file is the pinned fleet; the others are its former keys, newest first. A former key in the
    configuration or in a join token stands for the present one: a holder of a former key, which may be the reason for
    the change, can never take this minion back.
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
        """The pinned fingerprint (25 bytes), None for a first contact."""
        return unspell_fingerprint(self.pinned) if self.pinned is not None else None

    def believe(self, certificate: MasterCertificate, chain: bytes, now_s: int) -> None:
        """Verify the certificate of a master, and pin its fleet at first contact, or as the successor of the pinned
        one.

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
                # It is valid in memory already; the next handshake tries again.
                log.error("the pinned fleet is not on the disk yet: %s", error)  # noqa: TRY400 - a sentence

    def keep(self) -> None:
        """Store a fleet that came with a token, so that the token may be removed. Raises StartupError."""
        if self.pinned is not None and self._kept is None:
            self._write(self.pinned)

    def _write(self, fleet: Fingerprint) -> None:
        write_secret(self._path, "".join(f"{each}\n" for each in (fleet, *self.former)).encode())
        self._kept = fleet


def read_pin(path: str) -> tuple[Fingerprint | None, tuple[Fingerprint, ...]]:
    """The pinned fleet in the file, and its former keys, newest first. Raises StartupError."""
    raw = read_secret(path)
    if raw is None:
        return None, ()
    try:
        pinned, *former = [parse_fingerprint(line) for line in raw.decode(errors="replace").splitlines() or [""]]
    except UsageError as error:
        raise StartupError(f"{path} is damaged: {error}") from error
    return pinned, tuple(former)


def pinned_fleet(config: MinionConfig, kept: Fingerprint | None, former: tuple[Fingerprint, ...]) -> Fingerprint | None:
    """The fleet to use: the configured one, unless it is a former one of the stored fleet."""
    if not config.fleet:
        return kept
    configured = parse_fingerprint(config.fleet)
    return kept if configured in former else configured


def _why(former: list[Fingerprint]) -> str:
    return f": its key took the place of that of {former[-1]}" if former else ", the first one that it met"


# -- The status file: where the connection is, for `saltlite doctor`. Nothing acts on it, so it is written without a
# sync, and a disk that refuses it costs the file only


NAME = "status.json"
STOPPED = "stopped"
"""The phase after a planned stop; the others are those of `saltlite.minion.protocol.connection.Phase`."""
READY = "ready"
"""The phase with a session."""

TEXT_MAX = 512
"""Characters of each text: the exposed network process supplies them."""

_FILE_MAX = 512 * 1024


@dataclass(frozen=True, slots=True)
class Status:
    """`phase` since `at` (wall-clock seconds since 1970), with a sentence why, "" for none."""

    phase: str
    reason: str
    at: float
    resources: str = ""
    """Why the master refused the resources of this minion, or some of them; "" if it has them all."""
    refused: int = 0
    """The number of refused answers that no master had signed."""
    types: Mapping[str, TypeReport] = field(default_factory=dict)
    """The report of each resource type."""
    looked_at: str = ""
    """Why there is no resource type, "" if there is one."""


def write_status(data_dir: str, status: Status) -> None:
    """Write the file atomically; longer texts than TEXT_MAX are truncated."""
    texts = {name: getattr(status, name)[:TEXT_MAX] for name in ("phase", "reason", "resources", "looked_at")}
    types = {name: report.to_map() for name, report in status.types.items()}
    _write(os.path.join(data_dir, NAME), {**texts, "at": status.at, "refused": status.refused, "types": types})


def _write(path: str, document: object) -> None:
    temporary = f"{path}.new"
    with contextlib.suppress(OSError):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")
        os.rename(temporary, path)


def read_status(data_dir: str) -> Status | None:
    """The content of the file; None if there is none, or it cannot be read."""
    try:
        with open(os.path.join(data_dir, NAME), encoding="utf-8") as file:
            document = json.loads(file.read(_FILE_MAX))
        types = {str(name): read_report(one) for name, one in document.get("types", {}).items()}
        texts = {name: str(document.get(name, "")) for name in ("phase", "reason", "resources", "looked_at")}
        return Status(**texts, at=float(document["at"]), refused=int(document.get("refused", 0)), types=types)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


# -- The directory of the masters that share a store (`saltlite.wire.directory`): the minion tries them in its own order
# when it starts, and uses no directory that was signed earlier. The job server verifies it before it keeps it; the
# network process cannot write it. Without the file, the minion begins with the masters of its configuration.


MASTERS = "masters.json"


def keep_masters(data_dir: str, fleet: Fingerprint, known: Directory) -> None:
    """Write the file atomically, and sync it; `fleet` is the one whose master signed the directory. Raises
    StartupError."""
    document = {"fleet": fleet, "number": known.number, "masters": known.rows()}
    write_secret(os.path.join(data_dir, MASTERS), json.dumps(document).encode() + b"\n")


def kept_masters(data_dir: str, fleets: Collection[Fingerprint]) -> Directory:
    """The directory in the file; that without masters if there is none, if it cannot be read, or if it is that of
    another fleet than these."""
    try:
        with open(os.path.join(data_dir, MASTERS), encoding="utf-8") as file:
            document = json.loads(file.read(_FILE_MAX))
        if document["fleet"] not in fleets:
            return NOWHERE
        return Directory(from_rows(document["masters"]).masters, int(document.get("number", 0)))
    except (OSError, ValueError, KeyError, TypeError, ProtocolError):
        return NOWHERE
