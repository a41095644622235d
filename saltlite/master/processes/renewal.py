"""Renewal of the certificates of invited masters by the one master that has the fleet key, the holder.

The holder keeps a list of the masters that it has invited, with their keys (`fleet.invited` in pki_dir, which `saltlite
master invite` writes and only root reads). When its membership process starts, it is still root. It signs a certificate
for each of them, and then drops its rights. These certificates are not secret: they are useless without the private
keys, which never leave their machines.

The certificate in a master's row of `masters` is its request. When it expires within RENEW_DAYS, or when a former fleet
key signed it, the holder stores the new certificate in that row, with the successions of fleet keys. The membership
process of the other master writes it to a file for the supervisor, which is root. The supervisor verifies it, replaces
`master.cert`, and restarts the processes that present it.

The database decides only when to renew. Someone who can write to it cannot have another name or key signed, because
both come from the list. Nor can they make a master accept an older certificate, or one that the fleet key did not sign
for that master's keys.

A master that was removed is deleted from the list: by `saltlite master remove` on the machine of the holder, or by the
holder when it reads the event of a removal on another machine, even one that happened while the holder was down.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import struct
from collections.abc import Iterable, Mapping, Sequence

from saltlite.errors import ProtocolError, RefusedError, SaltliteError, StartupError
from saltlite.master.processes import identity
from saltlite.master.processes.identity import ANSWER_FILE, DAY_S, INVITED, RENEW_DAYS
from saltlite.master.store.sharing import MasterRow, SharedStore
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.events import Event, MasterEvent, tag_master
from saltlite.model.keys import fingerprint_bytes
from saltlite.platform.files import CursorFile
from saltlite.platform.privileges import SECRET_MAX, read_secret, write_secret
from saltlite.wire.certificates import MasterCertificate, encode_chain, successors
from saltlite.wire.limits import FLEET_CHAIN_BYTES, FLEET_CHAIN_RECORDS

log = logging.getLogger(__name__)

REMOVED_FILE = "removed-masters.json"
"""In data_dir of the holder: the removed masters, and the last event that was read."""
LOOK_S = 5.0
"""How often the holder looks for certificates that are due, and the other masters for new ones."""
KEEP_S = 60.0
"""How often the holder stores the number of the last event that it has read."""
EVENTS = 1_000
"""Events per page when the holder reads those from while it was down."""
_LENGTH = struct.Struct(">H")
_ANSWER_MAX = _LENGTH.size + 258 + FLEET_CHAIN_BYTES
_FILE_MAX = 256 * 1024
"""The largest file in data_dir that is read, in bytes."""


@dataclass(frozen=True, slots=True)
class Invited:
    """A master that this one has invited."""

    number: str
    """Random, so that the removal of an earlier invitation does not match this one."""
    name: str
    static_public: bytes
    job_public: bytes


@dataclass(frozen=True, slots=True)
class Renewed:
    """A new certificate, and the successions that lead to the fleet key that signed it."""

    certificate: MasterCertificate
    chain: bytes

    def encode(self) -> bytes:
        """The content of `MasterRow.renewed`."""
        raw = self.certificate.encode()
        return _LENGTH.pack(len(raw)) + raw + self.chain

    @classmethod
    def decode(cls, data: bytes) -> Renewed:
        """Decode it without verification. Raises RemoteProtocolError, and RefusedError for data of a wrong length."""
        if not _LENGTH.size < len(data) <= _ANSWER_MAX:
            raise RefusedError(f"it has {len(data)} bytes")
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        return cls(MasterCertificate.decode(data[_LENGTH.size : end]), data[end:])


def checked(own: MasterCertificate, answer: bytes, now: int) -> Renewed | None:
    """The verified certificate that replaces `own`; None if `own` is as good.

    Raises RefusedError and RemoteProtocolError if it is not for this master, or not by its fleet.
    """
    found = Renewed.decode(answer)
    new = found.certificate
    if new == own:
        return None
    if (new.name, new.static_public, new.job_public) != (own.name, own.static_public, own.job_public):
        raise RefusedError("it is for another name or other keys")
    way = successors(fingerprint_bytes(own.fleet_public), new.fleet_public, found.chain)
    new.verify(fingerprint_bytes(new.fleet_public), now, own.epoch)
    if not way and (new.not_after <= own.not_after or not _is_due(own, now)):
        return None
    return found


def _is_due(certificate: MasterCertificate, now: float) -> bool:
    return certificate.not_after - now < RENEW_DAYS * DAY_S


# -- what only root does


def invited(pki_dir: str) -> list[Invited]:
    """The masters that this one has invited. Raises StartupError."""
    path = os.path.join(pki_dir, INVITED)
    raw = read_secret(path)
    try:
        rows = json.loads(raw or b"[]")
        return [
            Invited(row["number"], row["name"], bytes.fromhex(row["static"]), bytes.fromhex(row["job"])) for row in rows
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise StartupError(
            f"{path} is damaged: restore it from a backup, or move it away and invite the other masters again, whose "
            "certificates are not renewed otherwise"
        ) from error


def add_invited(pki_dir: str, name: str, static_public: bytes, job_public: bytes) -> None:
    """Add that master to the list: its certificate is renewed from now on, for these keys only. Raises StartupError."""
    with identity.locked(pki_dir):
        kept = [one for one in invited(pki_dir) if one.name != name]
        _write(pki_dir, [*kept, Invited(secrets.token_hex(8), name, static_public, job_public)])


def remove_invited(pki_dir: str, name: str) -> bool:
    """Remove that master from the list. Its certificate is not renewed unless it is invited again. Returns whether it
    was on the list. Raises StartupError."""
    with identity.locked(pki_dir):
        found = invited(pki_dir)
        kept = [one for one in found if one.name != name]
        if kept != found:
            _write(pki_dir, kept)
        return kept != found


def _write(pki_dir: str, rows: Iterable[Invited]) -> None:
    said = [
        {"number": one.number, "name": one.name, "static": one.static_public.hex(), "job": one.job_public.hex()}
        for one in rows
    ]
    raw = json.dumps(said).encode()
    if len(raw) > SECRET_MAX:
        raise StartupError(
            f"{len(said)} masters are more than one list holds: remove some first (saltlite master remove)"
        )
    write_secret(os.path.join(pki_dir, INVITED), raw)


def sign_for_invited(pki_dir: str, data_dir: str, now: float) -> dict[str, tuple[str, Renewed]]:
    """name -> (number on the list, new certificate) of each invited master; empty without the fleet key.

    Deletes the masters whose removal the membership process has seen. Raises SaltliteError.
    """
    found = identity.fleet_files(pki_dir)
    if found.key is None:
        return {}
    removed = _removed(_said(os.path.join(data_dir, REMOVED_FILE)))
    with identity.locked(pki_dir):
        rows = invited(pki_dir)
        kept = [one for one in rows if one.number not in removed]
        if kept != rows:
            _write(pki_dir, kept)
    chain = encode_chain(found.chain[-FLEET_CHAIN_RECORDS:])
    return {
        one.name: (
            one.number,
            Renewed(identity.sign_certificate(pki_dir, one.name, one.static_public, one.job_public, now), chain),
        )
        for one in kept
    }


def adopt(pki_dir: str, data_dir: str, now: float) -> None:
    """On an invited master, use the certificate that the holder has signed, if there is one. Raises StartupError."""
    said = _said(os.path.join(data_dir, ANSWER_FILE)).get("answer")
    if not isinstance(said, str):
        return
    with identity.locked(pki_dir):
        found = identity.fleet_files(pki_dir)
        if not found.was_invited or found.certificate is None:
            return
        try:
            renewed = checked(found.certificate, bytes.fromhex(said), int(now))
        except (ValueError, RefusedError, ProtocolError) as error:
            log.warning("a new certificate of this master is not used: %s", error)
            return
        if renewed is not None:
            identity.replace_certificate(pki_dir, renewed.certificate, renewed.chain)


def _said(path: str) -> Mapping[str, object]:
    """The content of a file that an unprivileged process wrote; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            found = json.loads(file.read(_FILE_MAX))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _removed(said: Mapping[str, object]) -> set[str]:
    found = said.get("removed")
    return {str(number) for number in found} if isinstance(found, list) else set()


# -- what the membership process does


class Renewals:
    """Offers the other masters their new certificates if this one is the holder, and accepts the one for this master.

    `signed` is what `sign_for_invited` returned.
    """

    def __init__(
        self,
        store: SharedStore,
        clock: Clock,
        own: MasterCertificate,
        data_dir: str,
        signed: Mapping[str, tuple[str, Renewed]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._own = own
        self._signed = dict(signed)
        self._removed_file = CursorFile(os.path.join(data_dir, REMOVED_FILE))
        self._answer_file = CursorFile(os.path.join(data_dir, ANSWER_FILE))
        self._answered = b""
        """The last offer to this master that was handled."""
        self._look_at = clock.monotonic()
        self._keep_at = clock.monotonic()
        known = self._removed_file.read() if signed else {}
        self._removed_numbers = _removed(known)
        self._seq = known["seq"] if isinstance(known.get("seq"), int) else None
        """The last event that was searched for removals."""
        self._has_caught_up = not signed

    def look(self, masters: Sequence[MasterRow]) -> None:
        """Offer and take what is due. Raises StoreError."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        for row in masters:
            if row.name == self._own.name:
                self._take(row.renewed)
        if not self._has_caught_up:
            self._catch_up()
        if not self._has_caught_up:
            # Nobody gets a certificate before it is known who was removed.
            self._look_at = now
            return
        offers = {row.name: offer for row in masters if (offer := self._offer(row))}
        if offers:
            with self._store.write() as writer:
                for name, offer in offers.items():
                    writer.offer_certificate(name, offer)
            log.info("new certificates are offered to %s", ", ".join(sorted(offers)))

    def on_events(self, events: Sequence[Event]) -> None:
        """Handle these events. Raises StoreError."""
        if not self._signed or not events:
            return
        is_changed = False
        for event in events:
            name = str(event.data.get("name", ""))
            if event.tag == tag_master(name, MasterEvent.REMOVED) and name in self._signed:
                number, _renewed = self._signed.pop(name)
                self._removed_numbers.add(number)
                is_changed = True
                log.warning("the master %s was removed: its certificate is not renewed any more", name)
        if self._has_caught_up:
            self._seq = events[-1].seq
        if is_changed or (self._has_caught_up and self._clock.monotonic() >= self._keep_at):
            self._keep()

    def _catch_up(self) -> None:
        last = self._store.last_seq()
        if self._seq is None or self._seq >= last:
            self._seq, self._has_caught_up = last, True
            self._keep()
            return
        events = self._store.events(self._seq, EVENTS)
        self.on_events(events)
        self._seq = events[-1].seq if events else last
        self._has_caught_up = len(events) < EVENTS

    def _keep(self) -> None:
        self._keep_at = self._clock.monotonic() + KEEP_S
        self._removed_file.write({"seq": self._seq, "removed": sorted(self._removed_numbers)})

    def _offer(self, row: MasterRow) -> bytes:
        """The next offer to that master; empty if none is due."""
        _number, renewed = self._signed.get(row.name, ("", None))
        if renewed is None:
            return b""
        try:
            present = MasterCertificate.decode(row.certificate)
        except ProtocolError:
            return b""
        new, offer = renewed.certificate, renewed.encode()
        if (new.static_public, new.job_public) != (present.static_public, present.job_public):
            return b""
        is_better = _is_due(present, self._clock.wall()) and new.not_after > present.not_after
        is_needed = is_better or present.fleet_public != new.fleet_public
        return offer if is_needed and row.renewed != offer else b""

    def _take(self, answer: bytes) -> None:
        if not answer or answer == self._answered:
            return
        try:
            if checked(self._own, answer, int(self._clock.wall())) is None:
                return
            self._answer_file.write({"answer": answer.hex()})
        except (RefusedError, ProtocolError) as error:
            log.warning("the new certificate that this master was offered is refused: %s", error)
        self._answered = answer


def signed_as_root(pki_dir: str, data_dir: str, now: float) -> dict[str, tuple[str, Renewed]]:
    """As `sign_for_invited`, but an error is only logged, because this master needs its lease even if it cannot renew
    certificates of others."""
    try:
        return sign_for_invited(pki_dir, data_dir, now)
    except SaltliteError as error:
        log.error("no certificate of another master is renewed: %s", error)  # noqa: TRY400 - a sentence
        return {}
