"""`x509` on certificates of the test's own, compared with what openssl says of them."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

INDEX = build_index(search_layers({}))
START = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
PASSPHRASE = "sesame-x509"


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {}), f"x509.{fun}", args, kwargs)


def named(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Exämple"),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def private(key: Any, passphrase: str | None = None) -> bytes:
    closed = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    raw: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, closed)
    return raw


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, a certificate of it, a request, a list, and keys of all kinds."""
    folder = tmp_path_factory.mktemp("pki")
    ca, web = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)
    ed, soon = ed25519.Ed25519PrivateKey.generate(), START + datetime.timedelta(1)
    later = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(days=10)
    made: dict[str, Any] = {
        "ca.crt": x509.CertificateBuilder(named("CA"), named("CA"), ca.public_key(), 255, START, later)
        .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True).sign(ca, hashes.SHA256()),
        "web.crt": x509.CertificateBuilder(named("CA"), named("web"), web.public_key(), 0xABCDEF, START, later)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("web.example.org"), x509.IPAddress(ipaddress.ip_address("192.0.2.1"))]
            ), critical=False,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.KeyUsage(True, False, True, False, False, False, False, False, False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(web.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key()), critical=False)
        .sign(ca, hashes.SHA256()),
        "ed.crt": x509.CertificateBuilder(named("ed"), named("ed"), ed.public_key(), 3, START, soon)
        .sign(ed, None),
        "web.csr": x509.CertificateSigningRequestBuilder(named("web"))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("web.example.org")]), critical=False)
        .sign(web, hashes.SHA256()),
        "ca.crl": x509.CertificateRevocationListBuilder(named("CA"), START, later)
        .add_revoked_certificate(
            x509.RevokedCertificateBuilder(0xABCDEF, START)
            .add_extension(x509.CRLReason(x509.ReasonFlags.key_compromise), critical=False).build()
        )
        .add_extension(x509.CRLNumber(7), critical=False).sign(ca, hashes.SHA256()),
    }  # fmt: skip
    for name, each in made.items():
        (folder / name).write_bytes(each.public_bytes(serialization.Encoding.PEM))
    (folder / "web.der").write_bytes(made["web.crt"].public_bytes(serialization.Encoding.DER))
    (folder / "web.key").write_bytes(private(web))
    (folder / "closed.key").write_bytes(private(web, PASSPHRASE))
    (folder / "ed.key").write_bytes(private(ed))
    (folder / "both.pem").write_bytes(private(web) + (folder / "web.crt").read_bytes())
    (folder / "nothing").write_text("nothing")
    return folder


def openssl(path: Path, *words: str) -> str:
    argv = ["openssl", "x509", "-noout", "-in", str(path), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.strip().partition("=")[2]


def test_a_certificate_is_read_in_salts_shape(pki: Path) -> None:
    path = pki / "web.crt"
    said = run("read_certificate", str(path)).value
    until = datetime.datetime.strptime(openssl(path, "-enddate"), "%b %d %H:%M:%S %Y %Z")  # noqa: DTZ007 - both are UTC
    extensions = said.pop("extensions")
    public = said.pop("public_key")
    hashes_of_names = {said.pop("subject_hash"), said.pop("issuer_hash")}
    assert said == {
        "version": 3, "key_size": 2048, "key_type": "rsa", "serial_number": "AB:CD:EF",
        "fingerprints": {
            kind: openssl(path, "-fingerprint", f"-{kind}") for kind in ("sha1", "sha256", "md5")
        },
        "subject": {"C": "DE", "O": "Exämple", "CN": "web"}, "subject_str": "CN=web,O=Exämple,C=DE",
        "issuer": {"C": "DE", "O": "Exämple", "CN": "CA"}, "issuer_str": "CN=CA,O=Exämple,C=DE",
        "not_before": "2026-01-02 03:04:05", "not_after": until.strftime("%Y-%m-%d %H:%M:%S"),
        "signature_algorithm": "ecdsa-with-SHA256",
    }  # fmt: skip
    assert len(hashes_of_names) == 2
    assert public == run("get_public_key", str(pki / "web.key")).value
    assert extensions["subjectAltName"] == {"critical": False, "value": ["DNS:web.example.org", "IP:192.0.2.1"]}
    assert extensions["extendedKeyUsage"] == {"critical": False, "value": ["serverAuth"]}
    assert extensions["keyUsage"]["critical"] is True
    assert extensions["keyUsage"]["keyEncipherment"] is True
    assert len(extensions["subjectKeyIdentifier"]["value"].split(":")) == 20
    assert extensions["authorityKeyIdentifier"]["issuer"] is None
    assert run("read_certificate", str(pki / "ca.crt")).value["extensions"] == {
        "basicConstraints": {"critical": True, "ca": True, "pathlen": 1}
    }


def test_all_forms_of_a_certificate_are_the_same(pki: Path) -> None:
    import base64

    path, der = pki / "web.crt", (pki / "web.der").read_bytes()
    forms = [
        str(path), path.read_text(), path.read_text().replace("\n", "\\n"), path.read_text().replace("\n", ""),
        str(pki / "web.der"), der.hex(), "b64:" + base64.b64encode(der).decode(), base64.b64encode(der).decode(),
        str(pki / "both.pem"),
    ]  # fmt: skip
    assert {run("read_certificate", form).value["serial_number"] for form in forms} == {"AB:CD:EF"}


def test_requests_and_lists_are_read(pki: Path) -> None:
    asked = run("read_csr", str(pki / "web.csr")).value
    assert (asked["key_type"], asked["key_size"], asked["subject"]["CN"]) == ("rsa", 2048, "web")
    assert asked["extensions"] == {"subjectAltName": {"critical": False, "value": ["DNS:web.example.org"]}}
    said = run("read_crl", str(pki / "ca.crl")).value
    assert said["revoked_certificates"] == {
        "ABCDEF": {
            "revocation_date": "2026-01-02 03:04:05",
            "extensions": {"CRLReason": {"critical": False, "value": "keyCompromise"}},
        }
    }
    assert said["extensions"] == {"cRLNumber": {"critical": False, "value": 7}}
    assert said["last_update"] == "2026-01-02 03:04:05"
    assert said["issuer"]["CN"] == "CA"


def test_several_certificates_are_read_and_others_left_out(pki: Path) -> None:
    assert set(run("read_certificates", f"{pki}/*.crt").value) == {f"{pki}/{name}.crt" for name in ("ca", "web", "ed")}
    assert run("read_certificates", f"{pki}/nothing").value == {}
    assert set(run("get_pem_entries", f"{pki}/[wn]*").value) == {f"{pki}/web.crt", f"{pki}/web.csr"}


def test_entries_are_taken_from_a_file_and_keys_when_they_are_asked_for(pki: Path) -> None:
    assert run("get_pem_entry", str(pki / "both.pem")).value == (pki / "web.crt").read_bytes()
    assert run("get_pem_entry", str(pki / "both.pem"), "PRIVATE KEY").value == (pki / "web.key").read_bytes()
    in_a_line = (pki / "web.crt").read_text().replace("\n", "")
    assert run("get_pem_entry", in_a_line).value == (pki / "web.crt").read_bytes()


def test_signatures_and_keys_are_verified(pki: Path) -> None:
    ca, web, ed = (str(pki / f"{name}.crt") for name in ("ca", "web", "ed"))
    said = [
        run("verify_signature", web, ca).value, run("verify_signature", ca).value, run("verify_signature", ed).value,
        run("verify_signature", web).value, run("verify_signature", web, ed).value,
        run("verify_signature", ca, web).value,
        run("verify_crl", str(pki / "ca.crl"), ca).value, run("verify_crl", str(pki / "ca.crl"), web).value,
        run("verify_private_key", str(pki / "web.key"), web).value,
        run("verify_private_key", str(pki / "closed.key"), str(pki / "web.csr"), PASSPHRASE).value,
        run("verify_private_key", str(pki / "web.key"), ca).value,
    ]  # fmt: skip
    assert said == [True, True, True, False, False, False, True, False, True, True, False]


def test_sizes_and_public_keys_of_keys(pki: Path) -> None:
    assert run("get_private_key_size", str(pki / "web.key")) == Outcome(2048, 0)
    assert run("get_private_key_size", str(pki / "closed.key"), PASSPHRASE).value == 2048
    assert run("get_private_key_size", str(pki / "ed.key")).value is None
    keys = {
        run("get_public_key", str(pki / name), passphrase).value
        for name, passphrase in (("web.key", None), ("closed.key", PASSPHRASE), ("web.crt", None), ("web.csr", None))
    }
    assert len(keys) == 1


def test_the_end_of_a_certificate_is_seen_before_it_comes(pki: Path) -> None:
    web, ed = str(pki / "web.crt"), str(pki / "ed.crt")
    assert run("expired", web).value == {"path": web, "cn": "web", "expired": False}
    assert run("expired", ed).value["expired"] is True
    assert run("will_expire", web, 9).value == {"check_days": 9, "path": web, "cn": "web", "will_expire": False}
    assert run("will_expire", web, 11).value["will_expire"] is True
    assert [run("expires", web).value, run("expires", web, 11).value] == [False, True]
    assert "path" not in run("expired", (pki / "web.crt").read_text()).value


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        ("read_certificate", ("nothing",), "not a readable certificate"),
        ("read_certificate", ("nosuch",), "neither a file"),
        ("read_certificate", ("a\0b; '",), "neither a file"),
        ("read_certificate", ("web.csr",), "A certificate is needed, and this is a certificate request"),
        ("read_csr", ("web.crt",), "A certificate request is needed"),
        ("read_crl", ("web.crt",), "A revocation list is needed"),
        ("get_public_key", ("nothing",), "Could not load key"),
        ("get_public_key", ("closed.key",), "has a passphrase, and none was given"),
        ("get_private_key_size", ("closed.key", "wrong-" + PASSPHRASE), "not a readable private key"),
        ("get_private_key_size", ("web.key", PASSPHRASE), "has no passphrase"),
        ("get_private_key_size", ("web.crt",), "A private key is needed"),
        ("get_pem_entry", ("nothing",), "no PEM entry"),
        ("get_pem_entry", ("web.key",), "private keys, whose type has to be named"),
        ("will_expire", ("web.crt", "soon"), "number of days"),
        ("will_expire", ("web.crt", float("nan")), "number of days"),
    ],
)
def test_what_is_none_is_refused_with_what_it_is(pki: Path, fun: str, args: Any, words: str) -> None:
    given = str(pki / args[0]) if (pki / args[0].replace("\0", "")).exists() else args[0]
    outcome = run(fun, given, *args[1:])
    assert outcome.retcode == 1
    assert words in outcome.value
    assert PASSPHRASE not in outcome.value


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(16 * 1024 * 1024 + 1)
    assert "more than" in run("read_certificate", str(path)).value


@pytest.mark.parametrize("filler", [b" ", b"A", b"a: b\n", b"-----BEGIN CERTIFICATE-----\nA\n"])
def test_a_file_that_means_harm_takes_no_time_by_its_length_squared(tmp_path: Path, filler: bytes) -> None:
    file = tmp_path / "hostile.pem"
    file.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + filler * 300_000)  # otherwise it is days
    assert "not a readable certificate" in run("read_certificate", str(file)).value
