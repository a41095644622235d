"""The master's keys and its certificate: creation, renewal, and rotation of the fleet key.

fleet.key     Ed25519 seed: the fleet. Its holder can impersonate any master. Readable by root only, used here only
fleet.chain   the successions of fleet keys (`saltlite.wire.certificates`); absent before the first rotation
fleet.id      the fingerprint of the present fleet key, for people
master.key    X25519: authenticates the link process
job.key       Ed25519 seed: MWorkers sign jobs with it
master.cert   the certificate that the fleet key signed for the two
shared.key    32 bytes that all masters of one store have: it seals tokens of logins, keys of minions and pillar values
fleet.holder  on a master that was invited: the name of the master that has the fleet key, in place of the key
fleet.invited  on the master that has it: which others it has invited, with their keys (`renewal`)

The fleet key is made on the first start and never again. If it is missing, damaged, or of another fleet than the files
beside it, the master does not start, because minions trust no other key. The other two keys are the master's own: a
missing one is made anew, with a certificate that names it.

The commit point of `rotate` is the rename of `fleet.chain`; `fleet.key.next` is written before it. After any
interruption the next `ensure_identity` completes the rotation if the chain names the new key, and else rolls it back.
"""

from __future__ import annotations

import fcntl
import hmac
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from saltlite.errors import MisconfiguredError, ProtocolError, StartupError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import Fingerprint, fingerprint, parse_fingerprint
from saltlite.platform.privileges import SECRET_MAX, read_secret, write_secret
from saltlite.wire.certificates import (
    CERTIFICATE_MAX_DAYS,
    CertificateContent,
    MasterCertificate,
    Succession,
    decode_chain,
    encode_chain,
    is_name,
    issue,
    succeed,
)
from saltlite.wire.limits import SUCCESSION_BYTES
from saltlite.wire.noise import public_of
from saltlite.wire.primitives import ed25519_private
from saltlite.wire.signatures import BUNDLE_DOMAIN, sign

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig

log = logging.getLogger(__name__)

DAY_S = 86_400
RENEW_DAYS = 30
"""A certificate that expires sooner is renewed."""
KEY_BYTES = 32
CHAIN_KEPT = SECRET_MAX // SUCCESSION_BYTES
"""Successions kept on disk; minions get the newest of them."""
FLEET_FILES = ("fleet.key", "fleet.chain", "fleet.id", "master.cert")
"""The files that define the fleet of this master."""
HOLDER = "fleet.holder"
INVITED = "fleet.invited"
"""The masters that this one has invited (`renewal`)."""
ANSWER_FILE = "renewed-certificate.json"
"""In data_dir: the new certificate that was offered to an invited master."""
SHARED_KEY, NEW_SHARED_KEY = "shared.key", "shared.key.new"
LOST = ".lost"
"""The suffix of files of a lost fleet key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFiles:
    """The fleet files of a folder. `accepted` is the number of accepted keys in the store."""

    folder: str
    key: bytes | None
    chain: tuple[Succession, ...]
    certificate: MasterCertificate | None
    id: Fingerprint | None
    present: tuple[str, ...]
    """The FLEET_FILES that exist, readable or not."""
    accepted: int = 0
    holder: str = ""
    """On a master that was invited: the name of the master that has the fleet key."""

    @property
    def was_invited(self) -> bool:
        """Whether another master has the fleet key, and signed the certificate of this one."""
        return self.key is None and bool(self.holder) and self.certificate is not None

    @property
    def public(self) -> bytes | None:
        """The present fleet key, None when it is missing or damaged."""
        if self.was_invited and self.certificate is not None:
            return self.certificate.fleet_public
        return ed25519_public(self.key) if self.key is not None and len(self.key) == KEY_BYTES else None

    def behind(self) -> tuple[str, ...]:
        """The files that name another fleet key than the present one: a former one, if there is no problem."""
        if self.public is None:
            return ()
        fleet = fingerprint(self.public)
        return tuple(name for name in ("fleet.id", "master.cert") if self._named(name) not in (None, fleet))

    def _named(self, name: str) -> Fingerprint | None:
        """The fleet that this file names."""
        if name == "fleet.id":
            return self.id
        return fingerprint(self.certificate.fleet_public) if self.certificate is not None else None

    def problem(self) -> str:
        """Why no master may run with these files, and the remedy; "" if it may."""
        where = os.path.join(self.folder, "fleet.key")
        public = self.public
        if public is None:
            return self._without_key(where)
        fleet = fingerprint(public)
        if self.chain and self.chain[-1].new_public != public:
            return (
                f"fleet.chain in {self.folder} leads to fleet {fingerprint(self.chain[-1].new_public)}, and fleet.key "
                f"is that of {fleet}: restore both from the same backup"
            )
        former = {fingerprint(record.old_public) for record in self.chain}
        for name in self.behind():
            other = self._named(name)
            if other not in former:
                return (
                    f"{name} in {self.folder} names fleet {other}, and fleet.key is that of {fleet}, which no minion "
                    f"of the other one believes: restore the fleet.key of {other} from a backup; or, if this master is "
                    f"to be one of {fleet} from now on, remove fleet.id and master.cert"
                )
        return ""

    def _without_key(self, where: str) -> str:
        beside = [name for name in self.present if name != "fleet.key"]
        if self.accepted:
            beside.append(f"{self.accepted} accepted keys of minions in the store")
        if self.key is None and not beside:
            return ""
        out = (
            "no minion would believe a new one: restore it from a backup; only if it is lost for good, make a new "
            "fleet by `saltlite key fleet new --lost`, whose fingerprint each minion then needs"
        )
        if self.key is not None:
            return f"{where} is damaged: it has {len(self.key)} bytes, and a key has {KEY_BYTES}; {out}"
        return f"there is no {where}, beside {', '.join(beside)}; {out}"


def name_of(config: MasterConfig) -> str:
    """The name in this master's certificate."""
    return config.master_name or socket.gethostname().lower()


def fleet_files(pki_dir: str, accepted: int = 0) -> FleetFiles:
    """Read the fleet files of a folder. Raises StartupError for an unreadable one."""
    raw = {name: read_secret(_path(pki_dir, name)) for name in FLEET_FILES if name != "fleet.id"}
    raw["fleet.id"] = _public_file(_path(pki_dir, "fleet.id"))
    holder = _public_file(_path(pki_dir, HOLDER)) or b""
    try:
        chain = decode_chain(raw["fleet.chain"] or b"")
    except ProtocolError as error:
        raise StartupError(
            f"{_path(pki_dir, 'fleet.chain')} is damaged ({error}): restore it from a backup, or move it away; minions "
            "that were away since the fleet key was changed need a new pin then"
        ) from error
    try:
        named = parse_fingerprint((raw["fleet.id"] or b"").decode(errors="replace"))
    except UsageError:
        named = None
    return FleetFiles(
        folder=pki_dir,
        key=raw["fleet.key"],
        chain=chain,
        certificate=_decoded(raw["master.cert"]),
        id=named,
        present=tuple(name for name in FLEET_FILES if raw[name] is not None),
        accepted=accepted,
        holder=holder.decode(errors="replace").strip(),
    )


def ensure_identity(pki_dir: str, name: str, now: float, accepted: int = 0) -> bool:
    """Create missing keys and renew the certificate; whether the certificate is new.

    `now` is seconds since 1970, `accepted` the number of accepted keys in the store. Raises StartupError for keys that
    are damaged, readable by others, or missing and not replaceable.
    """
    with locked(pki_dir):
        return _ensure(pki_dir, name, now, accepted)


def rotate(pki_dir: str, name: str, now: float) -> Succession:
    """Make a successor of the fleet key, signed by it, and a certificate under it.

    Raises StartupError as `ensure_identity`, and UsageError where there is no fleet key yet.
    """
    with locked(pki_dir):
        if not fleet_files(pki_dir).present:
            raise UsageError(f"there is no fleet key in {pki_dir} yet: the master makes it on its first start")
        _ensure(pki_dir, name, now, 0)
        former = fleet_key(pki_dir)
        chain = fleet_files(pki_dir).chain
        successor = secrets.token_bytes(KEY_BYTES)
        serial = chain[-1].serial + 1 if chain else 1
        record = succeed(former, successor, serial=serial, time=int(now))
        write_secret(_path(pki_dir, "fleet.key.next"), successor)
        write_secret(_path(pki_dir, "fleet.chain"), encode_chain([*chain, record][-CHAIN_KEPT:]))
        _ensure(pki_dir, name, now, 0)
        return record


def replace_lost(pki_dir: str, name: str, now: float) -> Fingerprint:
    """Create a new fleet after the loss of the fleet key; its fingerprint. Old files are renamed.

    Raises UsageError if the fleet key is not lost.
    """
    with locked(pki_dir):
        found = fleet_files(pki_dir)
        if found.was_invited:
            fleet_key(pki_dir)
        if found.public is not None and not found.problem():
            raise UsageError(
                f"the fleet key in {pki_dir} is not lost: `saltlite key fleet rotate` changes it, and minions follow"
            )
        # The key last: until then the folder lacks its key, which stops the master, but not a repetition of this.
        for lost in ("fleet.key.next", "fleet.chain", "master.cert", "fleet.key"):
            with suppress(FileNotFoundError):
                os.rename(_path(pki_dir, lost), _path(pki_dir, lost + LOST))
        key = secrets.token_bytes(KEY_BYTES)
        write_secret(_path(pki_dir, "fleet.key"), key)
        _write_id(pki_dir, ed25519_public(key))
        _ensure(pki_dir, name, now, 0)
        return fingerprint(ed25519_public(key))


def sign_bundle(pki_dir: str, manifest: bytes) -> tuple[bytes, bytes]:
    """The fleet's public key, and its signature over the manifest of a bundle. Raises StartupError."""
    seed = fleet_key(pki_dir)
    return ed25519_public(seed), sign(seed, BUNDLE_DOMAIN, manifest)


def fleet_key(pki_dir: str) -> bytes:
    """The seed of the fleet key. Raises UsageError on a master that was invited, and StartupError."""
    found = fleet_files(pki_dir)
    if found.was_invited:
        raise UsageError(
            f"this master does not have the fleet key, the master {found.holder} does: run this command on its machine"
        )
    return _key(pki_dir, "fleet.key")


def own_keys(pki_dir: str) -> tuple[bytes, bytes]:
    """The public keys of this master, for its link process and for jobs. Missing keys are created. Raises
    StartupError."""
    with locked(pki_dir):
        renewed = _decoded(read_secret(_path(pki_dir, "master.cert"))) is not None
        for own in ("master.key", "job.key"):
            _ensure_own(pki_dir, own, renewed=renewed)
    return public_of(link_key(pki_dir)), ed25519_public(job_key(pki_dir))


def install_invited(pki_dir: str, certificate: MasterCertificate, chain: bytes, shared: bytes, holder: str) -> None:
    """Write the files of an invited master to this pki_dir. Raises StartupError.

    The certificate is written last. Until then no master starts here, and the call can be repeated.
    """
    with locked(pki_dir):
        write_secret(_path(pki_dir, SHARED_KEY), shared)
        write_secret(_path(pki_dir, HOLDER), f"{holder}\n".encode())
        if chain:
            write_secret(_path(pki_dir, "fleet.chain"), chain)
        _write_id(pki_dir, certificate.fleet_public)
        write_secret(_path(pki_dir, "master.cert"), certificate.encode())


def replace_certificate(pki_dir: str, certificate: MasterCertificate, chain: bytes) -> None:
    """Use this verified certificate for this invited master. A successor of the fleet key may have signed it. The
    caller holds the lock (`locked`), and repeats the call after an interruption. Raises StartupError."""
    if certificate.fleet_public != certificate_of(pki_dir).fleet_public:
        write_secret(_path(pki_dir, "fleet.chain"), chain)
        _write_id(pki_dir, certificate.fleet_public)
    write_secret(_path(pki_dir, "master.cert"), certificate.encode())


def holder_of(pki_dir: str) -> str:
    """The name of the master that has the fleet key; "" if there is none yet. Raises StartupError."""
    found = fleet_files(pki_dir)
    if found.was_invited or found.certificate is None:
        return found.holder
    return found.certificate.name


def sign_certificate(pki_dir: str, name: str, static_public: bytes, job_public: bytes, now: float) -> MasterCertificate:
    """A certificate for another master of this fleet. Raises StartupError, and UsageError without the fleet key."""
    epoch = certificate_of(pki_dir).epoch
    return issue(fleet_key(pki_dir), _content_for(name, static_public, job_public, int(now), epoch))


def shared_key(pki_dir: str) -> bytes | None:
    """The secret that all masters of one store share; None if this master never shared a store. Raises StartupError."""
    path = _path(pki_dir, SHARED_KEY)
    key = read_secret(path)
    if key is not None and len(key) != KEY_BYTES:
        raise StartupError(
            f"{path} is damaged: it has {len(key)} bytes, and a key has {KEY_BYTES}; copy it from another master of "
            "the same store, or restore it from a backup"
        )
    return key


def seal_key(pki_dir: str, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose, the same on all masters of the store. Raises StartupError without
    shared.key."""
    secret = shared_key(pki_dir)
    if secret is None:
        raise StartupError(
            f"there is no {_path(pki_dir, SHARED_KEY)}: restore it from a backup, or copy it from another master of "
            "the same store"
        )
    return derived_key(secret, purpose)


def derived_key(secret: bytes, purpose: str) -> bytes:
    """The key for one purpose. HKDF-Expand with SHA-256 is enough, because the secret is uniformly random."""
    return hmac.digest(secret, b"saltlite several masters: " + purpose.encode() + b"\x01", "sha256")


def begin_shared_key(pki_dir: str) -> bytes:
    """Create a shared.key that is not in use yet, or return the one of an interrupted call. Raises StartupError."""
    with locked(pki_dir):
        path = _path(pki_dir, NEW_SHARED_KEY)
        key = read_secret(path)
        if key is None or len(key) != KEY_BYTES:
            key = secrets.token_bytes(KEY_BYTES)
            write_secret(path, key)
        return key


def use_shared_key(pki_dir: str) -> None:
    """Use the key of `begin_shared_key` from now on: the store is sealed with it. Raises StartupError."""
    with locked(pki_dir):
        write_secret(_path(pki_dir, SHARED_KEY), _key(pki_dir, NEW_SHARED_KEY))
        os.unlink(_path(pki_dir, NEW_SHARED_KEY))


def stamps(pki_dir: str, *beside: str) -> tuple[tuple[int, int] | None, ...]:
    """Identifies the versions of the fleet files and of the files `beside` them. Every change replaces the file."""
    names = (*FLEET_FILES, HOLDER, SHARED_KEY, "fleet.key.next")
    return tuple(stamp(path) for path in (*(_path(pki_dir, name) for name in names), *beside))


def stamp(path: str) -> tuple[int, int] | None:
    """Identifies the version of a file that changes only by replacement; None if the file does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def certificate_of(pki_dir: str) -> MasterCertificate:
    """This master's certificate."""
    certificate = _decoded(read_secret(_path(pki_dir, "master.cert")))
    if certificate is None:
        raise StartupError(f"{pki_dir} holds no master.cert")
    return certificate


def chain_of(pki_dir: str) -> bytes:
    """The successions that lead to the present fleet key, encoded."""
    return read_secret(_path(pki_dir, "fleet.chain")) or b""


def link_key(pki_dir: str) -> bytes:
    """The key that authenticates the link process."""
    return _key(pki_dir, "master.key")


def job_key(pki_dir: str) -> bytes:
    """The seed that jobs are signed with."""
    return _key(pki_dir, "job.key")


def ed25519_public(seed: bytes) -> bytes:
    """The public key of an Ed25519 seed, 32 bytes."""
    return ed25519_private(seed).public_key().public_bytes_raw()


def _ensure(pki_dir: str, name: str, now: float, accepted: int) -> bool:
    _finish_rotation(pki_dir)
    found = fleet_files(pki_dir, accepted)
    problem = found.problem()
    if problem:
        raise StartupError(problem)
    if found.was_invited and found.certificate is not None:
        _check_invited(pki_dir, name, int(now), found.certificate, found.holder)
        return False
    if found.key is None:
        write_secret(_path(pki_dir, "fleet.key"), secrets.token_bytes(KEY_BYTES))
    fleet_private = _key(pki_dir, "fleet.key")
    fleet_public = ed25519_public(fleet_private)
    for own in ("master.key", "job.key"):
        _ensure_own(pki_dir, own, renewed=found.certificate is not None)
    content = _content(pki_dir, name, int(now), found.certificate)
    renewed = not _still_good(found.certificate, fleet_public, content)
    if renewed:
        write_secret(_path(pki_dir, "master.cert"), issue(fleet_private, content).encode())
    if found.id != fingerprint(fleet_public):
        _write_id(pki_dir, fleet_public)
    return renewed


def _check_invited(pki_dir: str, name: str, now: int, certificate: MasterCertificate, holder: str) -> None:
    """Raises StartupError if the certificate of an invited master is for another one, or has expired."""
    again = (
        f"run `saltlite master request` here, `saltlite master invite` on the machine of {holder}, and "
        "`saltlite master join` here"
    )
    if certificate.name != name:
        raise MisconfiguredError(
            f"the certificate in {pki_dir} is of the master {certificate.name}, and this one is named {name}: set "
            f"`master_name: {certificate.name}`, or ask for another invitation: {again}"
        )
    for own, of_private, public in (
        ("master.key", public_of, certificate.static_public),
        ("job.key", ed25519_public, certificate.job_public),
    ):
        key = read_secret(_path(pki_dir, own))
        if key is None or len(key) != KEY_BYTES or of_private(key) != public:
            raise StartupError(
                f"{_path(pki_dir, own)} is missing, or the certificate names another key: restore it from a backup, or "
                f"ask for another invitation: {again}"
            )
    days = (certificate.not_after - now) / DAY_S
    if days < 0:
        raise StartupError(f"the certificate of this master expired {-days:.0f} days ago: {again}")
    if days < RENEW_DAYS:
        log.warning(
            "the certificate of this master expires in %.0f days; %s renews it while both reach the database. If it "
            "does not: %s",
            days,
            holder,
            again,
        )


def _content(pki_dir: str, name: str, now: int, old: MasterCertificate | None) -> CertificateContent:
    static, job = public_of(_key(pki_dir, "master.key")), ed25519_public(_key(pki_dir, "job.key"))
    # A renewal does not invalidate earlier certificates, nor those of other masters.
    return _content_for(name, static, job, now, old.epoch if old is not None else 1)


def _content_for(name: str, static_public: bytes, job_public: bytes, now: int, epoch: int) -> CertificateContent:
    if not is_name(name):
        raise MisconfiguredError(f"{name[:80]!r} cannot be the name of a master: set `master_name` (at most 64 bytes)")
    return CertificateContent(
        static_public=static_public,
        job_public=job_public,
        name=name,
        serial=int.from_bytes(secrets.token_bytes(7), "big"),
        epoch=epoch,
        not_before=now - DAY_S,
        not_after=now - DAY_S + CERTIFICATE_MAX_DAYS * DAY_S,
    )


def _still_good(old: MasterCertificate | None, fleet_public: bytes, content: CertificateContent) -> bool:
    """Whether the old certificate equals a new one, and is valid for RENEW_DAYS more."""
    if old is None:
        return False
    now = content.not_before + DAY_S
    says = (old.fleet_public, old.static_public, old.job_public, old.name)
    wanted = (fleet_public, content.static_public, content.job_public, content.name)
    return says == wanted and old.not_before <= now <= old.not_after - RENEW_DAYS * DAY_S


def _finish_rotation(pki_dir: str) -> None:
    """Complete an interrupted rotation of the fleet key, or roll it back."""
    path = _path(pki_dir, "fleet.key.next")
    successor = read_secret(path)
    if successor is None:
        return
    chain = fleet_files(pki_dir).chain
    if len(successor) == KEY_BYTES and chain and chain[-1].new_public == ed25519_public(successor):
        write_secret(_path(pki_dir, "fleet.key"), successor)
    os.unlink(path)


def _ensure_own(pki_dir: str, name: str, *, renewed: bool) -> None:
    """Create a missing key of the master itself; `renewed`: it had one before."""
    path = _path(pki_dir, name)
    key = read_secret(path)
    if key is not None and len(key) != KEY_BYTES:
        raise StartupError(
            f"{path} is damaged: it has {len(key)} bytes, and a key has {KEY_BYTES}; restore it from a backup, or "
            "remove it: then the master makes a new one, and a certificate that names it"
        )
    if key is not None:
        return
    write_secret(path, secrets.token_bytes(KEY_BYTES))
    if renewed:
        also = "; jobs signed with the former one that wait for minions are refused there" if name == "job.key" else ""
        log.warning("%s was missing: it was made anew, and so is the certificate, by the same fleet key%s", path, also)


def _write_id(pki_dir: str, fleet_public: bytes) -> None:
    write_secret(_path(pki_dir, "fleet.id"), f"{fingerprint(fleet_public)}\n".encode())


@contextmanager
def locked(pki_dir: str) -> Iterator[None]:
    """An exclusive lock: a command may rotate the fleet key while the master renews its certificate."""
    try:
        folder = os.open(pki_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StartupError(f"{pki_dir} cannot be opened ({error.strerror}): run as root or set `root_dir`") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _path(pki_dir: str, name: str) -> str:
    return os.path.join(pki_dir, name)


def _public_file(path: str) -> bytes | None:
    """The content of a public file, None if it does not exist. Raises StartupError."""
    try:
        with open(path, "rb") as file:
            return file.read(SECRET_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartupError(f"{path} cannot be read ({error.strerror}): run as root or set `root_dir`") from error


def _key(pki_dir: str, name: str) -> bytes:
    key = read_secret(_path(pki_dir, name))
    if key is None or len(key) != KEY_BYTES:
        raise StartupError(f"{_path(pki_dir, name)} is not a key of {KEY_BYTES} bytes: restore it from a backup")
    return key


def _decoded(raw: bytes | None) -> MasterCertificate | None:
    try:
        return MasterCertificate.decode(raw) if raw is not None else None
    except ProtocolError:
        return None
