"""The master certificate: a minion believes what its pinned fleet key signed, now, and nothing else (S3)."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire.certificates import CERTIFICATE_MAX_DAYS, CertificateContent, MasterCertificate, issue
from saltlite.wire.limits import MASTER_NAME_MAX
from saltlite.wire.noise import PAYLOAD_MAX

FLEET = hashlib.sha256(b"fleet").digest()
PIN = fingerprint_bytes(Ed25519PrivateKey.from_private_bytes(FLEET).public_key().public_bytes_raw())
NOW = 1_800_000_000
DAY = 86_400

CONTENT = CertificateContent(
    static_public=b"s" * 32,
    job_public=b"j" * 32,
    name="master-1.example",
    serial=7,
    epoch=3,
    not_before=NOW,
    not_after=NOW + 30 * DAY,
)


def refusal(certificate: MasterCertificate, now_s: int = NOW, pin: bytes = PIN, minimum_epoch: int = 0) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        certificate.verify(pin, now_s, minimum_epoch)
    return caught.value.reason


def test_an_issued_certificate_reads_back_and_verifies() -> None:
    certificate = MasterCertificate.decode(issue(FLEET, CONTENT).encode())
    certificate.verify(PIN, NOW)
    assert certificate.static_public == CONTENT.static_public
    assert certificate.job_public == CONTENT.job_public
    assert (certificate.name, certificate.serial, certificate.epoch) == ("master-1.example", 7, 3)
    assert (certificate.not_before, certificate.not_after) == (NOW, NOW + 30 * DAY)


def test_a_changed_byte_anywhere_is_refused() -> None:
    raw = issue(FLEET, CONTENT).encode()
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 0x01
        with pytest.raises(RemoteProtocolError) as caught:
            MasterCertificate.decode(bytes(damaged)).verify(PIN, NOW)
        assert caught.value.reason in {"bad-certificate", "bad-signature", "wrong-fleet"}


def test_a_certificate_of_another_fleet_is_refused() -> None:
    assert refusal(issue(hashlib.sha256(b"other").digest(), CONTENT)) == "wrong-fleet"


def test_a_signature_over_the_same_bytes_for_another_purpose_is_refused() -> None:
    genuine = issue(FLEET, CONTENT)
    bare = Ed25519PrivateKey.from_private_bytes(FLEET).sign(genuine.encode()[:-64])
    assert refusal(dataclasses.replace(genuine, signature=bare)) == "bad-signature"


def test_validity_has_its_first_and_its_last_second() -> None:
    certificate = issue(FLEET, CONTENT)
    certificate.verify(PIN, CONTENT.not_before)
    certificate.verify(PIN, CONTENT.not_after)
    assert refusal(certificate, CONTENT.not_before - 1) == "not-yet-valid"
    assert refusal(certificate, CONTENT.not_after + 1) == "expired"


def test_an_epoch_below_one_already_seen_is_refused() -> None:
    certificate = issue(FLEET, CONTENT)
    certificate.verify(PIN, NOW, 3)
    assert refusal(certificate, minimum_epoch=4) == "old-epoch"


@pytest.mark.parametrize("seconds", [CERTIFICATE_MAX_DAYS * DAY + 1, 0, -1])
def test_a_lifetime_outside_the_limit_is_not_issued(seconds: int) -> None:
    with pytest.raises(LocalProtocolError, match="90 days"):
        issue(FLEET, dataclasses.replace(CONTENT, not_after=NOW + seconds))


def test_the_longest_lifetime_is_issued() -> None:
    content = dataclasses.replace(CONTENT, not_after=NOW + CERTIFICATE_MAX_DAYS * DAY)
    issue(FLEET, content).verify(PIN, NOW)


def test_a_lifetime_above_the_limit_is_refused_even_with_a_good_signature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("saltlite.wire.certificates._MAX_S", 1000 * DAY)
    long = issue(FLEET, dataclasses.replace(CONTENT, not_after=NOW + 91 * DAY))
    monkeypatch.undo()
    assert refusal(long) == "bad-lifetime"


def test_the_longest_name_fits_the_handshake_with_room_to_spare() -> None:
    raw = issue(FLEET, dataclasses.replace(CONTENT, name="n" * MASTER_NAME_MAX, serial=2**64 - 1)).encode()
    assert MasterCertificate.decode(raw).name == "n" * MASTER_NAME_MAX
    assert len(raw) <= 300 < PAYLOAD_MAX


@pytest.mark.parametrize(
    "name", ["", "n" * (MASTER_NAME_MAX + 1), "ü" * (MASTER_NAME_MAX // 2 + 1), "line\nbreak", "\x1b[31m"]
)
def test_a_name_that_cannot_be_shown_is_not_issued(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="name"):
        issue(FLEET, dataclasses.replace(CONTENT, name=name))


def test_a_name_with_control_characters_is_not_read() -> None:
    raw = issue(FLEET, dataclasses.replace(CONTENT, name="abc")).encode().replace(b"abc", b"a\x1bc")
    with pytest.raises(RemoteProtocolError, match="name"):
        MasterCertificate.decode(raw)


def test_bytes_that_are_no_certificate_are_refused() -> None:
    raw = issue(FLEET, CONTENT).encode()
    for data in (b"", raw[:-1], raw + b"\x00", bytes(len(raw)), raw[:64], raw * 2):
        with pytest.raises(RemoteProtocolError) as caught:
            MasterCertificate.decode(data)
        assert caught.value.reason == "bad-certificate"


def test_keys_and_numbers_of_the_wrong_size_are_not_issued() -> None:
    with pytest.raises(LocalProtocolError, match="seed"):
        issue(FLEET[:-1], CONTENT)
    with pytest.raises(LocalProtocolError, match="public keys"):
        issue(FLEET, dataclasses.replace(CONTENT, job_public=b"short"))
    with pytest.raises(LocalProtocolError, match="64 bits"):
        issue(FLEET, dataclasses.replace(CONTENT, epoch=-1))
