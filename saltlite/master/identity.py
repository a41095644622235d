"""The master's own keys: made once, read by the process that needs each, and by no other.

fleet.key     Ed25519 seed: the fleet. Whoever has it can pose as any master. Root's, used here only
fleet.id      its fingerprint, for people
master.key    X25519: the link process proves itself with it
job.key       Ed25519 seed: MWorkers sign jobs with it
master.cert   the certificate that the fleet key signed for the two
"""

from __future__ import annotations

import os

from saltlite.adapters.privileges import read_secret, write_secret
from saltlite.core.ports import Clock
from saltlite.errors import MisconfiguredError, ProtocolError, StartupError
from saltlite.model.keys import fingerprint
from saltlite.wire.certificate import CERTIFICATE_MAX_DAYS, CertificateTerms, MasterCertificate, is_name, issue
from saltlite.wire.noise import public_of

DAY_S = 86_400
RENEW_DAYS = 30
"""A certificate with less than that left is made anew."""
KEY_BYTES = 32


def ensure_identity(pki_dir: str, name: str, clock: Clock) -> bool:
    """Make what is missing and renew what runs out; whether the certificate is a new one.

    Raises StartupError for keys that are damaged, or that others may read.
    """
    fleet_private = _ensure_key(pki_dir, "fleet.key", clock)
    _ensure_key(pki_dir, "master.key", clock)
    _ensure_key(pki_dir, "job.key", clock)
    now = int(clock.wall())
    old = _stored_certificate(pki_dir)
    if old is not None and old.name == name and old.not_before <= now <= old.not_after - RENEW_DAYS * DAY_S:
        return False
    # A renewal does not make the certificates before it unbelievable, least of all those of the other masters.
    epoch = old.epoch if old is not None else 1
    if not is_name(name):
        raise MisconfiguredError(f"{name[:80]!r} cannot be the name of a master: set `master_name` (at most 64 bytes)")
    certificate = issue(
        fleet_private,
        CertificateTerms(
            static_public=public_of(_key(pki_dir, "master.key")),
            job_public=ed25519_public(_key(pki_dir, "job.key")),
            name=name,
            serial=int.from_bytes(clock.entropy(7), "big"),
            epoch=epoch,
            not_before=now - DAY_S,
            not_after=now - DAY_S + CERTIFICATE_MAX_DAYS * DAY_S,
        ),
    )
    write_secret(_path(pki_dir, "master.cert"), certificate.encode())
    with open(_path(pki_dir, "fleet.id"), "w", encoding="ascii") as file:
        file.write(fingerprint(certificate.fleet_public) + "\n")
    return True


def certificate_of(pki_dir: str) -> MasterCertificate:
    """This master's certificate."""
    certificate = _stored_certificate(pki_dir)
    if certificate is None:
        raise StartupError(f"{pki_dir} holds no master.cert")
    return certificate


def link_key(pki_dir: str) -> bytes:
    """The key that the link process proves itself with."""
    return _key(pki_dir, "master.key")


def job_key(pki_dir: str) -> bytes:
    """The seed that jobs are signed with."""
    return _key(pki_dir, "job.key")


def ed25519_public(seed: bytes) -> bytes:
    """The public key of an Ed25519 seed, 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - start-up time

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _path(pki_dir: str, name: str) -> str:
    return os.path.join(pki_dir, name)


def _ensure_key(pki_dir: str, name: str, clock: Clock) -> bytes:
    if read_secret(_path(pki_dir, name)) is None:
        write_secret(_path(pki_dir, name), clock.entropy(KEY_BYTES))
    return _key(pki_dir, name)


def _key(pki_dir: str, name: str) -> bytes:
    key = read_secret(_path(pki_dir, name))
    if key is None or len(key) != KEY_BYTES:
        raise StartupError(f"{_path(pki_dir, name)} is not a key of {KEY_BYTES} bytes: restore it from a backup")
    return key


def _stored_certificate(pki_dir: str) -> MasterCertificate | None:
    raw = read_secret(_path(pki_dir, "master.cert"))
    try:
        return MasterCertificate.decode(raw) if raw is not None else None
    except ProtocolError:
        return None
