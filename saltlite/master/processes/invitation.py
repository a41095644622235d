"""How another master joins a fleet: its request, the invitation that answers it, and the files that joining writes.

Both are small JSON files that a person copies from one machine to the other. A request contains the public keys of the
new master. An invitation contains its certificate, `shared.key` and the address of the database. It is signed by the
fleet key and encrypted to the key of the request (X25519 with a fresh key, HKDF-SHA256, ChaCha20-Poly1305), so that
only the requesting machine can use it. Neither file proves who made it. A person compares the fingerprint of the
request when making the invitation, and the fingerprint of the fleet when using it.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from saltlite.errors import RefusedError, RemoteProtocolError, StartupError, UsageError
from saltlite.master.processes import identity
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import Fingerprint, fingerprint, fingerprint_bytes
from saltlite.wire.certificates import MasterCertificate, is_name
from saltlite.wire.signatures import is_signed, sign

FILE_MAX = 64 * 1024
"""Bytes of a request or an invitation."""
VERSION = 1
EXPIRES_S = 86_400.0
"""How long an invitation is valid by default."""
_REQUEST, _INVITATION = "master request", "master invitation"
_DOMAIN = b"saltlite master invitation 1\0"


@dataclass(frozen=True, slots=True)
class MasterRequest:
    """The request of a master for an invitation: its name and public keys."""

    name: str
    static_public: bytes
    job_public: bytes

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint that a person compares. It covers the name and both keys."""
        return fingerprint(self.static_public + self.job_public + self.name.encode())

    def encode(self) -> str:
        """The content of the request file."""
        fields = {"name": self.name, "static": self.static_public.hex(), "job": self.job_public.hex()}
        return json.dumps({"saltlite": _REQUEST, "version": VERSION, **fields}) + "\n"


@dataclass(frozen=True, slots=True)
class MasterInvitation:
    """The content of an invitation."""

    certificate: MasterCertificate
    chain: bytes
    """The successions of fleet keys."""
    shared_key: bytes
    database: str
    """As in the option of that name."""
    holder: str
    """The name of the master that has the fleet key."""

    @property
    def fleet(self) -> Fingerprint:
        return fingerprint(self.certificate.fleet_public)


def request_of(pki_dir: str, name: str) -> MasterRequest:
    """The request of this machine's master. Missing keys are created. Raises SaltliteError."""
    if not is_name(name):
        raise UsageError(f"{name[:80]!r} cannot be the name of a master: set `master_name` (at most 64 bytes)")
    refuse_fleet_of_its_own(pki_dir)
    return MasterRequest(name, *identity.own_keys(pki_dir))


def read_request(path: str) -> MasterRequest:
    """The request in a file. Raises UsageError."""
    fields = _fields(path, _REQUEST, "make it by `saltlite master request` on the machine of the new master")
    try:
        found = MasterRequest(str(fields["name"]), bytes.fromhex(fields["static"]), bytes.fromhex(fields["job"]))
    except (KeyError, TypeError, ValueError):
        found = MasterRequest("", b"", b"")
    if not is_name(found.name) or {len(found.static_public), len(found.job_public)} != {identity.KEY_BYTES}:
        raise UsageError(f"{path} is a damaged request: make it anew by `saltlite master request`")
    return found


def invite(pki_dir: str, request: MasterRequest, database: str, now: float, expires_s: float = EXPIRES_S) -> str:
    """The text of the invitation that answers a request. Raises SaltliteError."""
    own = identity.certificate_of(pki_dir)
    if request.name == own.name:
        raise UsageError(
            f"{request.name} is the name of this master: give the new one another name (`master_name` in its "
            "configuration), and make its request anew"
        )
    if not database:
        raise UsageError(
            "this master has its store in a file, which no other master can use: move it to PostgreSQL first (saltlite "
            "help several-masters)"
        )
    shared = identity.shared_key(pki_dir)
    if shared is None:
        raise UsageError(
            "this master does not share its store yet: set `several_masters: true`, restart it, and invite then"
        )
    seed = identity.fleet_key(pki_dir)
    certificate = identity.sign_certificate(pki_dir, request.name, request.static_public, request.job_public, now)
    content = json.dumps(
        {
            "certificate": certificate.encode().hex(),
            "chain": identity.chain_of(pki_dir).hex(),
            "shared_key": shared.hex(),
            "database": database,
            "holder": own.name,
            "expires_at": now + expires_s,
        }
    ).encode()
    ephemeral = X25519PrivateKey.from_private_bytes(secrets.token_bytes(32))
    public = ephemeral.public_key().public_bytes_raw()
    cipher = _cipher(ephemeral, request.static_public, public, request.static_public)
    sealed = cipher.encrypt(bytes(12), sign(seed, _DOMAIN, content) + content, _DOMAIN)
    fields = {"name": request.name, "for": fingerprint(request.static_public), "key": public.hex()}
    return json.dumps({"saltlite": _INVITATION, "version": VERSION, **fields, "sealed": sealed.hex()}) + "\n"


def read_invitation(path: str, pki_dir: str, name: str, now: float) -> MasterInvitation:
    """The invitation in a file, checked to be valid and for this machine's master. The caller has to check who made it.
    Raises UsageError, and RefusedError for an invitation that has expired or was altered."""
    again = "make a new one by `saltlite master invite` from the request of this machine"
    fields = _fields(path, _INVITATION, "`saltlite master invite` makes it")
    try:
        own = identity.link_key(pki_dir)
        job = identity.ed25519_public(identity.job_key(pki_dir))
    except StartupError as error:
        raise UsageError(
            f"this machine has no keys of a master in {pki_dir} yet: run `saltlite master request` first, and have it "
            "answered"
        ) from error
    static = X25519PrivateKey.from_private_bytes(own).public_key().public_bytes_raw()
    if fields.get("for") != fingerprint(static):
        raise RefusedError(f"{path} is for another master, {str(fields.get('name'))[:80]}, not for this one: {again}")
    try:
        public, sealed = bytes.fromhex(fields["key"]), bytes.fromhex(fields["sealed"])
        plain = _cipher(X25519PrivateKey.from_private_bytes(own), public, public, static).decrypt(
            bytes(12), sealed, _DOMAIN
        )
        signature, content = plain[:64], plain[64:]
        said = json.loads(content)
        certificate = MasterCertificate.decode(bytes.fromhex(said["certificate"]))
        certificate.verify(fingerprint_bytes(certificate.fleet_public), certificate.not_before)
        if not is_signed(certificate.fleet_public, _DOMAIN, content, signature):
            raise RefusedError(f"{path} was not signed by the key of its fleet: do not use it; {again}")
        found = MasterInvitation(
            certificate,
            bytes.fromhex(said["chain"]),
            bytes.fromhex(said["shared_key"]),
            str(said["database"]),
            str(said["holder"]),
        )
        expires_at = float(said["expires_at"])
    except (KeyError, TypeError, ValueError, InvalidTag, RemoteProtocolError) as error:
        raise RefusedError(f"{path} was altered or cut off after it was made: {again}") from error
    if certificate.static_public != static or certificate.job_public != job:
        raise RefusedError(f"{path} answers a former request of this machine, which has other keys now: {again}")
    if now >= expires_at:
        raise RefusedError(f"{path} has expired: {again}")
    if certificate.name != name:
        raise UsageError(
            f"{path} is for the name {certificate.name}, and this master is named {name}: set `master_name: "
            f"{certificate.name}` in its configuration, or {again}"
        )
    return found


def join(pki_dir: str, invitation: MasterInvitation) -> None:
    """Let this machine's master join that fleet. Raises SaltliteError."""
    refuse_fleet_of_its_own(pki_dir)
    identity.install_invited(
        pki_dir, invitation.certificate, invitation.chain, invitation.shared_key, invitation.holder
    )


def refuse_fleet_of_its_own(pki_dir: str) -> None:
    """Raises UsageError for a machine with a fleet key."""
    found = identity.fleet_files(pki_dir)
    if found.key is not None:
        raise UsageError(
            f"there is a fleet.key in {pki_dir}: this machine's master has a fleet of its own, or is the one that "
            "invites others; to give the fleet up, move that folder away first"
        )


def _fields(path: str, kind: str, hint: str) -> dict[str, Any]:
    """The fields of a request or an invitation. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            raw = file.read(FILE_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): {hint}") from error
    try:
        fields = json.loads(raw) if len(raw) <= FILE_MAX else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or fields.get("saltlite") != kind:
        raise UsageError(f"{path} is no {kind} of saltlite: {hint}")
    if fields.get("version") != VERSION:
        raise UsageError(f"{path} was made by another version of saltlite: use the same version on both machines")
    return fields


def _cipher(own: X25519PrivateKey, other: bytes, ephemeral: bytes, static: bytes) -> ChaCha20Poly1305:
    """The cipher of one invitation, whose key is used once. Raises ValueError for an invalid public key."""
    shared = own.exchange(X25519PublicKey.from_public_bytes(other))
    return ChaCha20Poly1305(HKDF(SHA256(), 32, salt=ephemeral + static, info=_DOMAIN).derive(shared))
