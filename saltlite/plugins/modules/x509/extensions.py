"""Converts names and extensions to plain data in Salt's form. Imports `cryptography`, so it is loaded on use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import CRLEntryExtensionOID, ExtensionOID, NameOID

TIME = "%Y-%m-%d %H:%M:%S"

ATTRIBUTES = {
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "STREET": NameOID.STREET_ADDRESS,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "CN": NameOID.COMMON_NAME,
    "MAIL": NameOID.EMAIL_ADDRESS,
    "SN": NameOID.SURNAME,
    "GN": NameOID.GIVEN_NAME,
    "UID": NameOID.USER_ID,
    "SERIALNUMBER": NameOID.SERIAL_NUMBER,
}
"""Salt's names, in the order in which they stand in a subject."""

EXTENSIONS = {
    "basicConstraints": ExtensionOID.BASIC_CONSTRAINTS,
    "keyUsage": ExtensionOID.KEY_USAGE,
    "extendedKeyUsage": ExtensionOID.EXTENDED_KEY_USAGE,
    "subjectKeyIdentifier": ExtensionOID.SUBJECT_KEY_IDENTIFIER,
    "authorityKeyIdentifier": ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    "issuerAltName": ExtensionOID.ISSUER_ALTERNATIVE_NAME,
    "authorityInfoAccess": ExtensionOID.AUTHORITY_INFORMATION_ACCESS,
    "subjectAltName": ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    "crlDistributionPoints": ExtensionOID.CRL_DISTRIBUTION_POINTS,
    "issuingDistributionPoint": ExtensionOID.ISSUING_DISTRIBUTION_POINT,
    "certificatePolicies": ExtensionOID.CERTIFICATE_POLICIES,
    "policyConstraints": ExtensionOID.POLICY_CONSTRAINTS,
    "inhibitAnyPolicy": ExtensionOID.INHIBIT_ANY_POLICY,
    "nameConstraints": ExtensionOID.NAME_CONSTRAINTS,
    "noCheck": ExtensionOID.OCSP_NO_CHECK,
    "tlsfeature": ExtensionOID.TLS_FEATURE,
    "cRLNumber": ExtensionOID.CRL_NUMBER,
    "deltaCRLIndicator": ExtensionOID.DELTA_CRL_INDICATOR,
    "freshestCRL": ExtensionOID.FRESHEST_CRL,
    "CRLReason": CRLEntryExtensionOID.CRL_REASON,
    "certificateIssuer": CRLEntryExtensionOID.CERTIFICATE_ISSUER,
    "invalidityDate": CRLEntryExtensionOID.INVALIDITY_DATE,
}


def name(given: x509.Name) -> dict[str, Any]:
    """Return the first value of each attribute that Salt knows, by short name."""
    found = {}
    for short, oid in ATTRIBUTES.items():
        values = given.get_attributes_for_oid(oid)
        if values:
            found[short] = values[0].value
    return found


def name_hash(given: x509.Name) -> str:
    """Return Salt's hash: the first four bytes of the name's SHA-1, reversed."""
    digest = hashes.Hash(hashes.SHA1())  # noqa: S303 - a name of a name, which is what people have stored
    digest.update(given.public_bytes())
    return pairs(digest.finalize()[:4][::-1])


def pairs(value: bytes | int) -> str:
    """Return hexadecimal digits in pairs: `0A:FF`."""
    raw = value if isinstance(value, bytes) else value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    return raw.hex(":").upper()


def described(given: x509.Extensions) -> dict[str, dict[str, Any]]:
    """Return the extensions by name, each with `critical` and its values; unknown ones are skipped."""
    names = {oid: short for short, oid in EXTENSIONS.items()}
    found = {}
    for extension in given:
        if extension.oid in names:
            found[names[extension.oid]] = {"critical": extension.critical, **_value(extension.value)}
    return found


def _value(value: Any) -> dict[str, Any]:
    shape: Callable[[Any], dict[str, Any]] | None = _SHAPES.get(type(value))
    return {"value": str(value)} if shape is None else shape(value)


def _usage(value: x509.KeyUsage) -> dict[str, Any]:
    return {
        "cRLSign": value.crl_sign,
        "dataEncipherment": value.data_encipherment,
        "decipherOnly": value.decipher_only if value.key_agreement else False,
        "digitalSignature": value.digital_signature,
        "encipherOnly": value.encipher_only if value.key_agreement else False,
        "keyAgreement": value.key_agreement,
        "keyCertSign": value.key_cert_sign,
        "keyEncipherment": value.key_encipherment,
        "nonRepudiation": value.content_commitment,
    }


def _authority(value: x509.AuthorityKeyIdentifier) -> dict[str, Any]:
    number = value.authority_cert_serial_number
    return {
        "keyid": pairs(value.key_identifier) if value.key_identifier else None,
        "issuer": _general(value.authority_cert_issuer) or None,
        "issuer_sn": pairs(number) if number else None,
    }


def _policies(value: x509.CertificatePolicies) -> dict[str, Any]:
    shown = []
    for policy in value:
        qualifiers: list[dict[str, Any]] = []
        for each in policy.policy_qualifiers or []:
            if isinstance(each, str):
                qualifiers.append({"practice_statement": each})
                continue
            reference = each.notice_reference
            qualifiers.append(
                {
                    "organizataion": reference.organization if reference else None,  # Salt's spelling
                    "notice_numbers": list(reference.notice_numbers) if reference else None,
                    "explicit_text": each.explicit_text,
                }
            )
        shown.append({_oid(policy.policy_identifier): qualifiers})
    return {"value": shown}


def _points(value: Iterable[x509.DistributionPoint]) -> dict[str, Any]:
    return {
        "value": [
            {
                "crlissuer": _general(point.crl_issuer),
                "fullname": _general(point.full_name),
                "reasons": sorted(reason.value for reason in point.reasons or ()),
                "relativename": point.relative_name.rfc4514_string() if point.relative_name else None,
            }
            for point in value
        ]
    }


def _issuing(value: x509.IssuingDistributionPoint) -> dict[str, Any]:
    return {
        "fullname": _general(value.full_name),
        "onysomereasons": sorted(reason.value for reason in value.only_some_reasons or ()),  # Salt's spelling
        "relativename": value.relative_name.rfc4514_string() if value.relative_name else None,
        "onlyuser": value.only_contains_user_certs,
        "onlyCA": value.only_contains_ca_certs,
        "onlyAA": value.only_contains_attribute_certs,
        "indirectCRL": value.indirect_crl,
    }


def _general(names: Iterable[x509.GeneralName] | None) -> list[str]:
    return [_general_name(each) for each in names or ()]


def _general_name(given: x509.GeneralName) -> str:
    value = given.value
    match given:
        case x509.DNSName():
            return f"DNS:{value}"
        case x509.DirectoryName():
            return f"dirName:{value.rfc4514_string()}"
        case x509.IPAddress():
            return f"IP:{value.exploded}"
        case x509.RFC822Name():
            return f"mail:{value}"
        case x509.RegisteredID():
            return f"RID:{value.dotted_string}"
        case x509.UniformResourceIdentifier():
            return f"URI:{value}"
    return str(given)


def _location(given: x509.GeneralName) -> str:
    """Return an address without its type, as Salt does for the extension `authorityInfoAccess`."""
    return given.value if isinstance(given.value, str) else _general_name(given)


def _oid(oid: x509.ObjectIdentifier) -> str:
    known: str = getattr(oid, "_name", "Unknown OID")
    return oid.dotted_string if known == "Unknown OID" else known


_SHAPES: dict[type, Callable[[Any], dict[str, Any]]] = {
    x509.BasicConstraints: lambda value: {"ca": value.ca, "pathlen": value.path_length},
    x509.KeyUsage: _usage,
    x509.ExtendedKeyUsage: lambda value: {"value": [_oid(oid) for oid in value]},
    x509.SubjectKeyIdentifier: lambda value: {"value": pairs(value.digest)},
    x509.AuthorityKeyIdentifier: _authority,
    x509.SubjectAlternativeName: lambda value: {"value": _general(value)},
    x509.IssuerAlternativeName: lambda value: {"value": _general(value)},
    x509.CertificateIssuer: lambda value: {"value": _general(value)},
    x509.AuthorityInformationAccess: lambda value: {
        "value": [{_oid(each.access_method): _location(each.access_location)} for each in value]
    },
    x509.CRLDistributionPoints: _points,
    x509.FreshestCRL: _points,
    x509.IssuingDistributionPoint: _issuing,
    x509.CertificatePolicies: _policies,
    x509.PolicyConstraints: lambda value: {
        "inhibitPolicyMapping": value.inhibit_policy_mapping,
        "requireExplicitPolicy": value.require_explicit_policy,
    },
    x509.InhibitAnyPolicy: lambda value: {"value": value.skip_certs},
    x509.NameConstraints: lambda value: {
        "excluded": _general(value.excluded_subtrees),
        "permitted": _general(value.permitted_subtrees),
    },
    x509.OCSPNoCheck: lambda _value: {"value": True},
    x509.TLSFeature: lambda value: {"value": [feature.name for feature in value]},
    x509.CRLNumber: lambda value: {"value": value.crl_number},
    x509.DeltaCRLIndicator: lambda value: {"value": value.crl_number},
    x509.CRLReason: lambda value: {"value": value.reason.value},
    x509.InvalidityDate: lambda value: {"value": value.invalidity_date.strftime(TIME)},
}
