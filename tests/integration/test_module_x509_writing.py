"""`x509` creates keys, certificates, requests and lists, which openssl judges."""

from __future__ import annotations

import base64
import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.model.redaction import is_secret_argument

INDEX = build_index(search_layers({}))
PASSPHRASE = "sesame-x509"
POLICIES = {
    "www": [{"minions": "*"}, {"CN": "of the policy"}, {"basicConstraints": "critical, CA:FALSE"}],
    "map": {"subject": {"CN": "of the policy"}, "signing_private_key": "ca.key", "signing_cert": "ca.crt"},
    "list": {"subject": ["C=DE", "O=Example"]},
    "text": {"subject": "CN=of the policy"},
    "former": {"commonName": "of the policy", "keyUsage": None},
}


AUTHORITY = {
    "minions": "web*", "signing_private_key": "ca.key", "signing_cert": "ca.crt", "O": "of the policy",
}  # fmt: skip


def asks(user: str, policy: dict[str, Any], given: Any, *, only_policy: bool = False) -> Any:
    """What the authority answers to a job of this user."""
    loader = Loader(INDEX, {}, {}, {"x509_signing_policies": {"www": policy}})
    words = ("www", given, only_policy)
    return call(loader, "x509.sign_remote_certificate", words, {}, pub={"user": user}).value


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {"x509_signing_policies": POLICIES}), f"x509.{fun}", args, kwargs)


def made(fun: str, *args: Any, **kwargs: Any) -> Any:
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 0, outcome.value
    return outcome.value


def openssl(*words: str, given: bytes = b"") -> str:
    done = subprocess.run(["openssl", *words], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def the(certificate: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate.encode())


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, made by the module, and the key of a server."""
    folder = tmp_path_factory.mktemp("pki")
    made("create_private_key", "ec", path=f"{folder}/ca.key")
    made("create_private_key", "rsa", path=f"{folder}/web.key")
    made("create_private_key", "rsa", passphrase=PASSPHRASE, path=f"{folder}/closed.key")
    made(
        "create_certificate", signing_private_key=f"{folder}/ca.key", CN="CA", O="Exämple", C="DE",
        path=f"{folder}/ca.crt", basicConstraints="critical, CA:TRUE, pathlen:1",
        keyUsage="critical, cRLSign, keyCertSign", subjectKeyIdentifier="hash", subjectAltName="email:ca@example.org",
    )  # fmt: skip
    return folder


def signed(pki: Path, **kwargs: Any) -> dict[str, Any]:
    """Arguments for a certificate that the authority signs for the server."""
    parties = {"signing_private_key": "ca.key", "signing_cert": "ca.crt", "private_key": "web.key"}
    return {**{name: str(pki / file) for name, file in parties.items()}, **kwargs}


@pytest.mark.parametrize(
    ("algo", "keysize", "words"),
    [
        ("rsa", None, "2048 bit"), ("rsa", 3072, "3072 bit"), ("ec", None, "256 bit"), ("ec", 384, "384 bit"),
        ("ec", 521, "521 bit"), ("ed25519", None, "ED25519"), ("ed448", None, "ED448"),
    ],
)  # fmt: skip
def test_a_private_key_is_one_for_openssl(algo: str, keysize: int | None, words: str) -> None:
    key = made("create_private_key", algo, keysize)
    assert key.startswith("-----BEGIN PRIVATE KEY-----")
    assert words in openssl("pkey", "-noout", "-text", given=key.encode())


def test_a_private_key_has_the_encoding_and_the_passphrase_that_are_wanted() -> None:
    closed = made("create_private_key", "ec", passphrase=PASSPHRASE)
    assert closed.startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    opened = openssl("pkey", "-passin", f"pass:{PASSPHRASE}", given=closed.encode())
    assert made("encode_private_key", closed, private_key_passphrase=PASSPHRASE) == opened
    der = base64.b64decode(made("encode_private_key", opened, "der"))
    assert openssl("pkey", "-inform", "DER", given=der) == opened
    assert made("encode_private_key", opened, "der", raw=True) == der
    for compatible in (False, True):
        box = made("encode_private_key", opened, "pkcs12", PASSPHRASE, pkcs12_encryption_compat=compatible)
        argv = ("pkcs12", "-nocerts", "-nodes", "-passin", f"pass:{PASSPHRASE}")
        shown = openssl(*argv, *(["-info"] if compatible else []), given=base64.b64decode(box))
        assert opened in shown
        assert made("encode_private_key", box, private_key_passphrase=PASSPHRASE) == opened
        assert made("get_private_key_size", box, PASSPHRASE) == 256


@pytest.mark.parametrize("encoding", ["pem", "der", "pkcs12"])
def test_only_its_owner_reads_a_private_key(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "key"
    said = made("create_private_key", "ed25519", encoding=encoding, path=str(path))
    assert said.endswith(f"written to {path}")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    before = path.read_bytes()
    made("create_private_key", "ed25519", encoding=encoding, path=str(path))
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_bytes() != before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("algo", ["rsa", "ec", "ed25519", "ed448"])
def test_a_certificate_that_signs_itself(algo: str, tmp_path: Path) -> None:
    key = made("create_private_key", algo)
    cert = made("create_certificate", signing_private_key=key, CN="self", authorityKeyIdentifier="keyid:always")
    (tmp_path / "self.crt").write_text(cert)
    assert openssl("verify", "-CAfile", str(tmp_path / "self.crt"), str(tmp_path / "self.crt")).endswith(": OK\n")
    assert made("verify_signature", cert) is True
    assert made("verify_private_key", key, cert) is True
    assert (the(cert).not_valid_after_utc - the(cert).not_valid_before_utc).days == 365


@pytest.mark.parametrize("source", ["private_key", "closed", "public_key", "csr"])
def test_an_authority_signs_for_a_key_from_each_source(pki: Path, source: str, tmp_path: Path) -> None:
    arguments = signed(pki, CN="web", digest="sha384", days_valid=2)
    if source == "closed":
        arguments |= {"private_key": str(pki / "closed.key"), "private_key_passphrase": PASSPHRASE}
    elif source != "private_key":
        key = str(arguments.pop("private_key"))
        arguments[source] = made("create_csr" if source == "csr" else "get_public_key", key)
    path = tmp_path / "web.crt"
    assert made("create_certificate", **arguments, path=str(path)) == f"PEM written to {path}"
    assert openssl("verify", "-CAfile", str(pki / "ca.crt"), str(path)).endswith(": OK\n")
    read = made("read_certificate", str(path))
    assert (read["issuer_str"], read["subject_str"]) == ("CN=CA,O=Exämple,C=DE", "CN=web")
    assert read["signature_algorithm"] == "ecdsa-with-SHA384"
    assert made("verify_signature", str(path), str(pki / "ca.crt")) is True
    assert [made("expires", str(path), days) for days in (1, 3)] == [False, True]


EXTENSIONS: list[tuple[str, list[Any], str]] = [
    (
        "basicConstraints",
        ["critical, CA:TRUE, pathlen:1", "critical CA:true,pathlen:1", {"critical": True, "ca": True, "pathlen": 1}],
        "critical|CA:TRUE, pathlen:1",
    ),
    (
        "keyUsage",
        ["critical, cRLSign, keyCertSign", ["critical", "cRLSign", "keyCertSign"],
         {"critical": True, "cRLSign": True, "keyCertSign": True, "keyAgreement": False}],
        "critical|Certificate Sign, CRL Sign",
    ),
    (
        "extendedKeyUsage", ["serverAuth, 1.2.3.4", ["serverAuth", "1.2.3.4"]],
        "|TLS Web Server Authentication, 1.2.3.4",
    ),
    ("subjectKeyIdentifier", ["01:ab:ff", "01ABFF"], "|01:AB:FF"),
    (
        "subjectAltName",
        ["DNS:*.example.org, email:me@example.org, IP:192.0.2.1, URI:https://example.org/a, RID:1.2.3.4",
         ["dns:*.example.org", {"email": "me@example.org"}, "ip:192.0.2.1", "URI:https://example.org/a",
          {"rid": "1.2.3.4"}]],
        "|DNS:*.example.org|email:me@example.org|IP Address:192.0.2.1|URI:https://example.org/a|Registered ID",
    ),
    ("subjectAltName", ["critical, DNS:a.example", ["critical", "DNS:a.example"]], "critical|DNS:a.example"),
    ("subjectAltName", [[{"dirName": {"CN": "a", "C": "DE"}}], [{"dirName": "CN=a,C=DE"}]], "|DirName:/C=DE/CN=a"),
    ("issuerAltName", ["issuer:copy", ["email:ca@example.org"]], "|email:ca@example.org"),
    (
        "authorityInfoAccess",
        ["OCSP;URI:http://ocsp.example/,caIssuers;URI:http://ca.example/",
         {"OCSP": "URI:http://ocsp.example/", "caIssuers": "URI:http://ca.example/"},
         [{"OCSP": "URI:http://ocsp.example/"}, {"caIssuers": "URI:http://ca.example/"}]],
        "|OCSP - URI:http://ocsp.example/|CA Issuers - URI:http://ca.example/",
    ),
    (
        "crlDistributionPoints",
        ["URI:http://a.example/ca.crl", ["URI:http://a.example/ca.crl"], [{"fullname": "URI:http://a.example/ca.crl"}]],
        "|Full Name:|URI:http://a.example/ca.crl",
    ),
    (
        "crlDistributionPoints",
        [[{"relativename": "CN=a", "crlissuer": "DNS:b.example", "reasons": ["keyCompromise"]}]],
        "|Relative Name:|CN = a|Reasons:|Key Compromise|CRL Issuer:|DNS:b.example",
    ),
    (
        "certificatePolicies", ["critical, 1.2.4.5, 1.1.3.4", {"critical": True, "1.2.4.5": [], "1.1.3.4": None}],
        "critical|Policy: 1.2.4.5|Policy: 1.1.3.4",
    ),
    (
        "certificatePolicies",
        [{"1.2.3.4": ["https://a.example/cps", {"organization": "Ours", "noticeNumbers": [1, 2], "text": "Mind"}]}],
        "|Policy: 1.2.3.4|CPS: https://a.example/cps|User Notice:|Organization: Ours|Numbers: 1, 2|Explicit Text: Mind",
    ),
    ("certificatePolicies", [{"1.2.3.4": "https://a.example/cps"}], "|Policy: 1.2.3.4|CPS: https://a.example/cps"),
    (
        "policyConstraints",
        ["requireExplicitPolicy:3,inhibitPolicyMapping:1", {"requireExplicitPolicy": 3, "inhibitPolicyMapping": 1}],
        "|Require Explicit Policy:3, Inhibit Policy Mapping:1",
    ),
    ("inhibitAnyPolicy", ["critical, 0", {"critical": True, "value": 0}], "critical|0"),
    ("inhibitAnyPolicy", [0, "0"], "|0"),
    (
        "nameConstraints",
        ["critical,permitted;IP:192.168.0.0/255.255.0.0,permitted;email:.example.org,excluded;DNS:example.net",
         {"critical": True, "permitted": ["IP:192.168.0.0/16", "email:.example.org"], "excluded": ["DNS:example.net"]}],
        "critical|Permitted:|IP:192.168.0.0/255.255.0.0|email:.example.org|Excluded:|DNS:example.net",
    ),
    ("nameConstraints", ["permitted;DNS:.example.org"], "|Permitted:|DNS:.example.org"),
    ("noCheck", [True, "yes"], "|No Check"),
    ("tlsfeature", ["status_request", ["status_request"]], "|status_request"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "forms", "words"), EXTENSIONS, ids=[each[0] for each in EXTENSIONS])
def test_extensions_in_all_their_forms(pki: Path, name: str, forms: list[Any], words: str) -> None:
    for form in forms:
        cert = made("create_certificate", **signed(pki, CN="web", **{name: form}))
        shown = openssl("x509", "-noout", "-text", given=cert.encode())
        critical, *values = words.split("|")
        for value in values:
            assert value.replace(" ", "") in shown.replace(" ", ""), form
        assert the(cert).extensions[0].critical is bool(critical)


def test_names_of_hosts_are_written_in_ascii(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "idna", None)
    refused = run("create_certificate", **signed(pki, subjectAltName="DNS:bücher.example"))
    assert "needs the Python package idna" in refused.value
    monkeypatch.undo()
    for given, written in (
        ("DNS:bücher.example", "DNS:xn--bcher-kva.example"),
        ("email:me@bücher.example", "mail:me@xn--bcher-kva.example"),
        ("URI:https://me@bücher.example:8443/a", "URI:https://me@xn--bcher-kva.example:8443/a"),
    ):
        found = made("read_certificate", made("create_certificate", **signed(pki, subjectAltName=given)))
        assert found["extensions"]["subjectAltName"]["value"] == [written]


def test_places_of_information_are_read_without_their_type(pki: Path) -> None:
    access = {"authorityInfoAccess": [{"OCSP": "URI:http://a.example/"}, {"caIssuers": "dirName:CN=a"}]}
    found = made("read_certificate", made("create_certificate", **signed(pki, **access)))
    assert found["extensions"]["authorityInfoAccess"] == {
        "critical": False, "value": [{"OCSP": "http://a.example/"}, {"caIssuers": "dirName:CN=a"}],
    }  # fmt: skip


def test_the_identifier_of_the_authority_comes_from_its_certificate(pki: Path) -> None:
    mine = made("read_certificate", str(pki / "ca.crt"))
    for given, keyid, issuer in (
        ("keyid:always", True, False), ("keyid,issuer", True, False), ("keyid, issuer:always", True, True),
        ({"issuer": "always"}, False, True),
    ):  # fmt: skip
        cert = made("create_certificate", **signed(pki, authorityKeyIdentifier=given))
        found = made("read_certificate", cert)["extensions"]["authorityKeyIdentifier"]
        assert found["keyid"] == (mine["extensions"]["subjectKeyIdentifier"]["value"] if keyid else None)
        assert found["issuer"] == (["dirName:CN=CA,O=Exämple,C=DE"] if issuer else None)
        assert found["issuer_sn"] == (mine["serial_number"] if issuer else None)


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"subject": "CN=web,OU=a+OU=b,C=DE"}, "CN=web,OU=a+OU=b,C=DE"),
        ({"subject": ["C=DE", "O=Example", "CN=web"]}, "CN=web,O=Example,C=DE"),
        ({"subject": {"CN": "web", "C": "DE"}, "CN": "other"}, "CN=web,C=DE"),
        ({"CN": 12, "C": "DE", "MAIL": "me@example.org"}, "1.2.840.113549.1.9.1=me@example.org,CN=12,C=DE"),
        ({"subject": "CN=web,SERIALNUMBER=7,MAIL=a@b.example"}, "CN=web,2.5.4.5=7,1.2.840.113549.1.9.1=a@b.example"),
        ({}, ""),
    ],
)
def test_the_subject_in_all_its_forms(pki: Path, given: dict[str, Any], subject: str) -> None:
    assert the(made("create_certificate", **signed(pki, **given))).subject.rfc4514_string() == subject
    request = x509.load_pem_x509_csr(made("create_csr", str(pki / "web.key"), **given).encode())
    assert request.subject.rfc4514_string() == subject


def test_times_and_serial_numbers_are_those_given(pki: Path) -> None:
    times = {"not_before": "2026-01-02 03:04:05", "not_after": "2036-01-02 03:04:05"}
    cert = the(made("create_certificate", **signed(pki, **times, serial_number="DE:AD:BE:EF")))
    assert cert.not_valid_before_utc == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert cert.not_valid_after_utc == datetime.datetime(2036, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert cert.serial_number == 0xDEADBEEF
    assert the(made("create_certificate", **signed(pki, serial_number=77))).serial_number == 77


def test_a_request_is_one_for_openssl_and_its_extensions_are_taken_over(pki: Path) -> None:
    outcome = run(
        "create_csr", str(pki / "closed.key"), PASSPHRASE, CN="web", subjectAltName="DNS:web.example.org",
        keyUsage="digitalSignature", crlDistributionPoints="URI:http://a.example/", basicConstraints="CA:TRUE",
    )  # fmt: skip
    assert outcome.warnings == ("Not part of a request, and ignored: crlDistributionPoints.",)
    openssl("req", "-verify", "-noout", given=outcome.value.encode())
    arguments = signed(pki, csr=outcome.value, CN="web", basicConstraints="critical, CA:FALSE")
    arguments.pop("private_key")
    found = made("read_certificate", made("create_certificate", **arguments))["extensions"]
    assert set(found) == {"subjectAltName", "keyUsage", "basicConstraints"}
    assert found["basicConstraints"] == {"critical": True, "ca": False, "pathlen": None}
    der = made("encode_csr", outcome.value, "der")
    broken = base64.b64decode(der).replace(b"web.example.org", b"bad.example.org").hex()
    assert "signature of the request is not valid" in run("create_certificate", **{**arguments, "csr": broken}).value
    assert made("encode_csr", der) == outcome.value
    assert made("create_csr", str(pki / "web.key"), encoding="der", raw=True)[:1] == b"0"


def test_a_revocation_list_is_one_for_openssl(pki: Path, tmp_path: Path) -> None:
    old = made("create_certificate", **signed(pki, not_before="2020-01-01 00:00:00", not_after="2020-02-01 00:00:00"))
    new = made("create_certificate", **signed(pki, serial_number=255))
    revoked = [
        {"certificate": old, "extensions": {"CRLReason": "superseded"}},
        {"certificate": new, "revocation_date": "2026-01-02 03:04:05"},
        {
            "serial_number": "01337A",
            "extensions": {"CRLReason": "keyCompromise", "invalidityDate": "2026-01-01 00:00:00"},
        },
        {"serial_number": 4711, "not_after": "2020-01-01 00:00:00"},
    ]
    path = tmp_path / "ca.crl"
    extensions = {
        "cRLNumber": 7, "authorityKeyIdentifier": "keyid:always", "CRLNumber": 8,
        "issuingDistributionPoint": {"critical": True, "fullname": ["URI:http://a.example/ca.crl"], "onlyuser": True},
        "freshestCRL": "URI:http://a.example/delta.crl", "issuerAltName": "issuer:copy",
    }  # fmt: skip
    arguments = {"signing_cert": str(pki / "ca.crt"), "extensions": extensions}
    outcome = run("create_crl", str(pki / "ca.key"), revoked, **arguments, path=str(path))
    assert outcome.value == f"PEM written to {path}"
    assert "CRLNumber was ignored" in outcome.warnings[0]
    shown = openssl("crl", "-noout", "-text", "-CAfile", str(pki / "ca.crt"), "-in", str(path))
    for words in ("Serial Number: FF", "01337A", "Key Compromise", "Only User Certificates", "X509v3 Freshest CRL"):
        assert words in shown
    read = made("read_crl", str(path))
    assert set(read["revoked_certificates"]) == {"FF", "01337A"}
    assert read["revoked_certificates"]["FF"]["revocation_date"] == "2026-01-02 03:04:05"
    assert read["extensions"]["cRLNumber"] == {"critical": False, "value": 7}
    assert made("verify_crl", str(path), str(pki / "ca.crt")) is True
    later, now = (datetime.datetime.fromisoformat(read[name]) for name in ("next_update", "last_update"))
    assert (later - now).days == 100
    everything = made("create_crl", str(pki / "ca.key"), revoked, **arguments, include_expired=True, encoding="der")
    assert len(made("read_crl", everything)["revoked_certificates"]) == 4
    assert made("encode_crl", made("encode_crl", everything)) == made("encode_crl", everything)


def test_containers_hold_what_they_should(pki: Path, tmp_path: Path) -> None:
    ca = (pki / "ca.crt").read_text()
    chain = made("create_certificate", **signed(pki, CN="web"), append_certs=[ca])
    assert chain.count("BEGIN CERTIFICATE") == 2
    assert chain.endswith(ca)
    for encoding, form in (("pkcs7_pem", "PEM"), ("pkcs7_der", "DER")):
        box = made("encode_certificate", chain, encoding, append_certs=str(pki / "ca.crt"))
        raw = box.encode() if form == "PEM" else base64.b64decode(box)
        assert openssl("pkcs7", "-print_certs", "-inform", form, given=raw).count("subject=") == 2
        assert the(made("encode_certificate", box)) in {the(chain), the(ca)}
    path = tmp_path / "web.p12"
    arguments = signed(pki, CN="web", encoding="pkcs12", pkcs12_passphrase=PASSPHRASE, pkcs12_friendlyname="web")
    made("create_certificate", **arguments, append_certs=[ca], path=str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    argv = ("pkcs12", "-in", str(path), "-nodes", "-passin", f"pass:{PASSPHRASE}")
    shown = openssl(*argv)
    assert shown.count("BEGIN CERTIFICATE") == 2
    assert (pki / "web.key").read_text() in shown
    assert pkcs12.load_pkcs12(path.read_bytes(), PASSPHRASE.encode()).cert.friendly_name == b"web"  # type: ignore[union-attr]
    assert made("get_public_key", str(path), PASSPHRASE) == made("get_public_key", str(pki / "web.key"))
    der = made("encode_certificate", chain, "der")
    assert made("encode_certificate", der) + "\n" + ca == chain


def test_a_chain_is_written_as_a_whole_and_an_existing_file_kept_on_request(pki: Path, tmp_path: Path) -> None:
    path = tmp_path / "chain.crt"
    arguments = signed(pki, CN="web", path=str(path), append_certs=str(pki / "ca.crt"))
    made("create_certificate", **arguments)
    before = path.read_text()
    assert before.count("BEGIN CERTIFICATE") == 2
    assert "overwrite was set to false" in made("create_certificate", **arguments, overwrite=False)
    assert path.read_text() == before


def test_copies_of_what_was_issued(pki: Path, tmp_path: Path) -> None:
    arguments = signed(pki, CN="web", copypath=str(tmp_path), serial_number=0xABC)
    cert = made("create_certificate", **arguments)
    made("create_certificate", **arguments, prepend_cn=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["abc.crt", "web-abc.crt"]
    assert (tmp_path / "abc.crt").read_text() == cert
    refused = run("create_certificate", **{**arguments, "CN": "../../web"}, prepend_cn=True)
    assert "without slashes" in refused.value
    assert len(list(tmp_path.iterdir())) == 2


def test_pem_is_written_reformatted_and_keys_are_kept(pki: Path, tmp_path: Path) -> None:
    path, cert, key = tmp_path / "both.pem", (pki / "ca.crt").read_text(), (pki / "web.key").read_text()
    assert made("write_pem", cert.replace("\n", ""), str(path)) == f"PEM written to {path}"
    assert path.read_text() == cert
    assert path.stat().st_mode & 0o777 == 0o600
    parameters = "-----BEGIN DH PARAMETERS-----\nMAYCAQ8CAQI=\n-----END DH PARAMETERS-----\n"
    path.write_text(key + parameters)
    made("write_pem", key + cert, str(path), overwrite=False, pem_type="CERTIFICATE")
    assert path.read_text() == key + cert + parameters
    made("write_pem", key + cert, str(path), pem_type="CERTIFICATE")
    assert path.read_text() == cert


@pytest.mark.parametrize(
    ("policy", "given", "subject"),
    [
        ("www", {"CN": "mine"}, "CN=of the policy"),
        ("www", {"subject": {"CN": "mine", "O": "mine"}}, "CN=of the policy"),
        ("map", {"subject": {"CN": "mine", "O": "mine"}}, "CN=of the policy,O=mine"),
        ("map", {"subject": "CN=mine"}, "CN=of the policy"),
        ("list", {"subject": ["CN=mine"]}, "CN=mine,O=Example,C=DE"),
        ("list", {"subject": {"CN": "mine"}}, "O=Example,C=DE"),
        ("text", {"subject": "CN=mine"}, "CN=of the policy"),
        ("former", {"O": "mine"}, "CN=of the policy,O=mine"),
        (None, {"subject": "CN=mine"}, "CN=mine"),
    ],
)
def test_a_signing_policy_prevails(
    pki: Path, monkeypatch: pytest.MonkeyPatch, policy: str | None, given: dict[str, Any], subject: str
) -> None:
    monkeypatch.chdir(pki)
    arguments = signed(pki, signing_policy=policy, basicConstraints="CA:TRUE", keyUsage="cRLSign", **given)
    cert = the(made("create_certificate", **arguments))
    assert cert.subject.rfc4514_string() == subject
    constraints = cert.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == ((True, False) if policy == "www" else (False, True))
    assert len(cert.extensions) == (1 if policy == "former" else 2)


def test_a_signing_policy_is_shown_without_its_key() -> None:
    assert made("get_signing_policy", "map") == {"subject": {"CN": "of the policy"}, "signing_cert": "ca.crt"}
    assert made("get_signing_policy", "former") == {"CN": "of the policy", "keyUsage": None}
    assert made("get_signing_policy", "nosuch") == {}


def test_signing_policies_of_the_configuration_come_before_those_of_the_grains() -> None:
    opts = {"x509_signing_policies": {"www": {"CN": "of the configuration"}}}
    grains = {"x509_signing_policies": {"www": {"CN": "of the grains"}}}
    loader = Loader(INDEX, opts, grains, {"x509_signing_policies": {"other": {"CN": "of the pillar"}}})
    found = [call(loader, "x509.get_signing_policy", [name], {}).value for name in ("www", "other")]
    assert found == [{"CN": "of the configuration"}, {"CN": "of the pillar"}]


def test_signing_policies_are_in_the_pillar_else_in_the_grains() -> None:
    grains = {"x509_signing_policies": {"www": {"CN": "of the grains"}, "other": {"O": "of the grains"}}}
    loader = Loader(INDEX, {}, grains, {"x509_signing_policies": POLICIES})
    assert call(loader, "x509.get_signing_policy", ("www",), {}).value["CN"] == "of the policy"
    assert call(loader, "x509.get_signing_policy", ("other",), {}).value == {"O": "of the grains"}


def test_former_names_work_with_a_note(pki: Path) -> None:
    key = str(pki / "ca.key")
    former = {"commonName": "old", "X509v3 Basic Constraints": "critical CA:TRUE", "algorithm": "sha512", "text": True}
    outcome = run("create_certificate", signing_private_key=key, **former)
    assert outcome.warnings == (
        "commonName is deprecated: write CN.",
        "X509v3 Basic Constraints is deprecated: write basicConstraints.",
        "algorithm is deprecated: write digest.",
        "The argument text has no effect.",
    )
    cert = the(outcome.value)
    assert cert.subject.rfc4514_string() == "CN=old"
    assert cert.signature_hash_algorithm is not None
    assert cert.signature_hash_algorithm.name == "sha512"
    assert cert.extensions[0].critical
    assert made("get_private_key_size", made("create_private_key", bits=3072, cipher="aes")) == 3072
    revoked = [{"one": [{"serial_number": "01337A"}, {"reason": "keyCompromise"}]}]
    found = made("read_crl", made("create_crl", key, revoked, signing_cert=str(pki / "ca.crt")))
    assert found["revoked_certificates"]["01337A"]["extensions"]["CRLReason"]["value"] == "keyCompromise"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"signing_private_key": None}, "needs signing_private_key"),
        ({"signing_private_key": "web.key"}, "not the key of signing_cert"),
        ({"private_key": None}, "needs private_key, public_key or csr"),
        ({"private_key": None, "encoding": "pkcs12"}, "private_key is missing"),
        ({"private_key": "closed.key"}, "has a passphrase, and none was given"),
        ({"private_key": "A" * 100 + "!"}, "A text of 101 characters is neither"),
        ({"encoding": "text"}, "no encoding 'text'"),
        ({"encoding": "der", "append_certs": ["ca.crt"]}, "DER holds one certificate"),
        ({"encoding": "pkcs12", "pkcs12_passphrase": ""}, "passphrase is empty"),
        ({"digest": "md5"}, "no digest 'md5'"),
        ({"days_valid": "long"}, "days_valid is a number"),
        ({"days_valid": 1e300}, "days_valid is a number"),
        ({"not_after": "soon"}, "not_after is a time such as"),
        ({"not_after": "1999-01-01 00:00:00"}, "No certificate can be made of these arguments"),
        ({"serial_number": "xyz"}, "not a serial number"),
        ({"serial_number": -1}, "No certificate can be made"),
        ({"subject": "web"}, "not a distinguished name"),
        ({"subject": 7}, "a text, a list or a map"),
        ({"C": "Germany"}, "not a distinguished name"),
        ({"signing_policy": "nosuch"}, "no signing policy 'nosuch'"),
        ({"keyUsages": "cRLSign"}, "Unknown arguments: keyUsages"),
        ({"nsComment": "hello"}, "nsComment and nsCertType are not supported"),
        ({"keyUsage": "sign"}, "'sign' is not a key usage"),
        ({"basicConstraints": "pathlen:1"}, "'ca' is missing"),
        ({"basicConstraints": 7}, "basicConstraints cannot be used"),
        ({"extendedKeyUsage": "serverAuthentication"}, "not an object identifier"),
        ({"subjectKeyIdentifier": "critical, hash"}, "must not be critical"),
        ({"subjectKeyIdentifier": "xyz"}, "subjectKeyIdentifier cannot be used"),
        ({"authorityKeyIdentifier": "always"}, "neither keyid nor issuer"),
        ({"subjectAltName": "example.org"}, "has no type"),
        ({"subjectAltName": "DNS:"}, "not a domain name"),
        ({"subjectAltName": "DNS:a..b"}, "not a domain name"),
        ({"subjectAltName": "IP:192.0.2.0/24"}, "subjectAltName cannot be used"),
        ({"subjectAltName": "otherName:a"}, "otherName are not supported"),
        ({"subjectAltName": "host:a"}, "'host' is not a type of names"),
        ({"crlDistributionPoints": [{"fullname": "URI:http://a", "reasons": ["mood"]}]}, "'mood' is not a reason"),
        ({"nameConstraints": "allowed;DNS:a"}, "'allowed' is missing"),
        ({"nameConstraints": {}}, "nameConstraints cannot be used"),
        ({"tlsfeature": "speed"}, "tlsfeature cannot be used"),
        ({"copypath": "/nosuch/folder"}, "/nosuch/folder"),
        ({"path": "/nosuch/folder/file"}, "/nosuch/folder/file"),
    ],
)  # fmt: skip
def test_certificates_that_cannot_be_made_are_refused_in_a_sentence(
    pki: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(pki)
    arguments = {name: value for name, value in signed(pki, **given).items() if value is not None}
    outcome = run("create_certificate", **arguments)
    assert outcome.retcode == 1
    assert words in outcome.value
    assert "Traceback" not in outcome.value


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "words"),
    [
        ("create_private_key", ("dsa",), {}, "no algorithm 'dsa'"),
        ("create_private_key", ("rsa", 1024), {}, "2048, 3072 or 4096"),
        ("create_private_key", ("ec", 255), {}, "256, 384 or 521"),
        ("create_private_key", (), {"passphrase": ""}, "passphrase is empty"),
        ("create_private_key", (), {"size": 7}, "Unknown arguments: size"),
        ("create_csr", ("web.key",), {"encoding": "pkcs12"}, "no encoding 'pkcs12'"),
        ("create_csr", ("web.key",), {"days_valid": 7}, "Unknown arguments: days_valid"),
        ("create_crl", ("ca.key", []), {}, "needs signing_cert"),
        ("create_crl", ("web.key", []), {"signing_cert": "ca.crt"}, "not the key of signing_cert"),
        ("create_crl", ("ca.key", [7]), {"signing_cert": "ca.crt"}, "is a map with serial_number or certificate"),
        ("create_crl", ("ca.key", [{}]), {"signing_cert": "ca.crt"}, "needs serial_number or certificate"),
        ("create_crl", ("ca.key", []), {"signing_cert": "ca.crt", "extensions": {"cRLNumber": "x"}}, "cRLNumber"),
        ("encode_certificate", ("ca.crt", "pem"), {"private_key": "ca.key"}, "Only PKCS #12 holds a private key"),
        ("encode_certificate", ("ca.crt", "pkcs12"), {}, "private_key is missing"),
        ("write_pem", ("nothing", "/nosuch/file"), {}, "neither a file"),
        ("write_pem", ("ca.crt", "/nosuch/file"), {"pem_type": "X509 CRL"}, "no PEM entry of type X509 CRL"),
    ],
)  # fmt: skip
def test_other_bad_arguments_are_refused_in_a_sentence(
    pki: Path, monkeypatch: pytest.MonkeyPatch, fun: str, args: Any, kwargs: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(pki)
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 1
    assert words in outcome.value


def test_secrets_are_recognised_by_the_names_of_their_parameters() -> None:
    names = ("passphrase", "private_key_passphrase", "signing_private_key_passphrase", "pkcs12_passphrase")
    assert all(is_secret_argument(name) for name in names)
    assert PASSPHRASE not in json.dumps(run("create_private_key", "ec", passphrase=PASSPHRASE).value)


def test_an_authority_signs_for_the_minions_of_its_policy(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pki)
    key = made("get_public_key", "web.key")
    answer = asks("minion:web1", AUTHORITY, {"public_key": key, "CN": "web", "O": "asked for"})
    assert answer["errors"] == []
    cert = the(answer["data"])
    assert cert.subject.rfc4514_string() == "CN=web,O=of the policy"
    assert cert.issuer == the(Path("ca.crt").read_text()).subject
    request = made("create_csr", "web.key", CN="web")
    assert asks("minion:web1", AUTHORITY, {"csr": request, "CN": "web"})["errors"] == []
    shown = asks("minion:web1", AUTHORITY, {}, only_policy=True)["data"]
    assert shown == {"O": "of the policy", "signing_cert": Path("ca.crt").read_text()}


@pytest.mark.parametrize(
    ("user", "policy", "given", "words"),
    [
        ("minion:db1", {}, {}, "db1 is not permitted to use this signing policy"),
        ("web1", {}, {}, "no minion has published this job"),
        ("minion:web1", {"minions": "G@role:web"}, {}, "is a glob here"),
        ("minion:web1", {"signing_cert": None}, {}, "needs signing_private_key and signing_cert"),
        ("minion:web1", {}, {"public_key": "web.key"}, "is sent as PEM"),
        ("minion:web1", {}, {"public_key": None}, "needs private_key, public_key or csr"),
        ("minion:web1", {}, {"copypath": "/tmp"}, "Only the policy of the authority may have copypath"),
        ("minion:web1", {}, {"signing_cert": "ca.crt"}, "may have signing_cert"),
        ("minion:web1", {}, {"private_key": "ca.key"}, "may have private_key"),
        ("minion:web1", {}, {"basicConstraints": {"ca": True}}, "only by a policy with basicConstraints"),
        ("minion:web1", {"basicConstraints": None}, {"csr": "AUTHORITY"}, "only by a policy with basicConstraints"),
        ("minion:web1", {}, "www", "kwargs is a map"),
    ],
)  # fmt: skip
def test_an_authority_refuses_others_and_what_is_its_own(
    pki: Path, monkeypatch: pytest.MonkeyPatch, user: str, policy: dict[str, Any], given: Any, words: str
) -> None:
    monkeypatch.chdir(pki)
    if isinstance(given, dict):
        given = {"public_key": made("get_public_key", "web.key"), "CN": "web", **given}
    if isinstance(given, dict) and given.get("csr"):
        given = {"CN": "web", "csr": made("create_csr", "web.key", CN="web", basicConstraints="CA:TRUE")}
    answer = asks(user, {**AUTHORITY, **policy}, given)
    assert answer["data"] is None
    assert words in answer["errors"][0]


def test_an_unknown_policy_of_an_authority_is_a_sentence() -> None:
    assert "must be specified" in asks("minion:web1", {}, {})["errors"][0]


def test_a_minion_sends_its_public_key_and_keeps_the_private_one(pki: Path, tmp_path: Path) -> None:
    folder = tmp_path / "_modules"
    folder.mkdir()
    (folder / "publish.py").write_text(
        "import pathlib\n\n\n"
        "def publish(tgt, fun, arg=None, timeout=5):\n"
        "    cert = pathlib.Path(__opts__['answer']).read_text()\n"
        "    __context__['sent'] = arg\n"
        "    return {tgt: {'data': cert, 'errors': []}} if tgt == 'ca1' else {}\n\n\n"
        "def sent():\n    return __context__.get('sent')\n"
    )
    opts = {"module_dirs": [str(tmp_path)], "answer": str(pki / "ca.crt")}
    loader = Loader(build_index(search_layers(opts)), opts, {}, {})
    given = {"ca_server": "ca1", "signing_policy": "www", "private_key": str(pki / "web.key"), "CN": "web"}
    outcome = call(loader, "x509.create_certificate", (), {**given, "CA": "no attribute"})
    assert outcome.value == (pki / "ca.crt").read_text()
    assert outcome.warnings == ("CA was ignored: certificates have no such arguments.",)
    policy, details, only_policy = call(loader, "publish.sent", (), {}).value
    assert (policy, only_policy, sorted(details)) == ("www", False, ["CN", "public_key"])
    assert "PUBLIC KEY" in details["public_key"]
    silent = call(loader, "x509.create_certificate", (), {**given, "ca_server": "ca2"})
    assert (silent.retcode, "has not answered within 60 s" in silent.value) == (1, True)
