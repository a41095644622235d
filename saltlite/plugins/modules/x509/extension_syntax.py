"""Parses subjects and extensions in Salt's forms: texts as for OpenSSL, lists and maps.

An extension is critical if its text or list has the word `critical`, or its map has a true value under it. Imports
`cryptography`, so it is loaded on use.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID, SubjectInformationAccessOID

from saltlite.errors import SaltInvocationError, SaltliteError

from .extensions import ATTRIBUTES, TIME

_FORBIDDEN_IN_REQUESTS = frozenset(
    {"authorityInfoAccess", "authorityKeyIdentifier", "issuerAltName", "crlDistributionPoints"}
)
OF_CERTIFICATES = (
    "basicConstraints", "keyUsage", "extendedKeyUsage", "subjectKeyIdentifier", "authorityKeyIdentifier",
    "issuerAltName", "authorityInfoAccess", "subjectAltName", "crlDistributionPoints", "certificatePolicies",
    "policyConstraints", "inhibitAnyPolicy", "nameConstraints", "noCheck", "tlsfeature",
)  # fmt: skip
OF_REQUESTS = tuple(name for name in OF_CERTIFICATES if name not in _FORBIDDEN_IN_REQUESTS)
"""Extensions of a request, which are also those that a certificate takes over from its request."""
OF_REVOCATION_LISTS = (
    "authorityKeyIdentifier", "authorityInfoAccess", "cRLNumber", "deltaCRLIndicator", "freshestCRL", "issuerAltName",
    "issuingDistributionPoint",
)  # fmt: skip
OF_REVOCATIONS = ("certificateIssuer", "CRLReason", "invalidityDate")

_PURPOSES = {
    "serverAuth": "1.3.6.1.5.5.7.3.1",
    "clientAuth": "1.3.6.1.5.5.7.3.2",
    "codeSigning": "1.3.6.1.5.5.7.3.3",
    "emailProtection": "1.3.6.1.5.5.7.3.4",
    "timeStamping": "1.3.6.1.5.5.7.3.8",
    "OCSPSigning": "1.3.6.1.5.5.7.3.9",
    "ipsecIKE": "1.3.6.1.5.5.7.3.17",
    "pkInitKDC": "1.3.6.1.5.2.3.5",
    "msSmartcardLogin": "1.3.6.1.4.1.311.20.2.2",
    "msCodeInd": "1.3.6.1.4.1.311.2.1.21",
    "msCodeCom": "1.3.6.1.4.1.311.2.1.22",
    "msCTLSign": "1.3.6.1.4.1.311.10.3.1",
    "msEFS": "1.3.6.1.4.1.311.10.3.4",
}
_USAGES = {
    "digitalSignature": "digital_signature",
    "nonRepudiation": "content_commitment",
    "keyEncipherment": "key_encipherment",
    "dataEncipherment": "data_encipherment",
    "keyAgreement": "key_agreement",
    "keyCertSign": "key_cert_sign",
    "cRLSign": "crl_sign",
    "encipherOnly": "encipher_only",
    "decipherOnly": "decipher_only",
}
_ACCESS = {
    "OCSP": AuthorityInformationAccessOID.OCSP,
    "caIssuers": AuthorityInformationAccessOID.CA_ISSUERS,
    "caRepository": SubjectInformationAccessOID.CA_REPOSITORY,
}
_REASONS = {flag.value.lower(): flag for flag in x509.ReasonFlags}
_OID = re.compile(r"[012](\.[0-9]+)+")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_RFC4514_NAMES = {
    "MAIL": ATTRIBUTES["MAIL"], "emailAddress": ATTRIBUTES["MAIL"], "SN": ATTRIBUTES["SN"], "GN": ATTRIBUTES["GN"],
    "SERIALNUMBER": ATTRIBUTES["SERIALNUMBER"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parties:
    """The keys and the certificate that identifiers in extensions are derived from; None where there are none."""

    subject_key: Any = None
    issuer_key: Any = None
    issuer: x509.Certificate | None = None


def extension(name: str, value: Any, parties: Parties) -> tuple[Any, bool]:
    """Return the extension of this name, and whether it is critical. Raises SaltInvocationError."""
    critical, rest = _critical(value)
    try:
        built = _PARSERS[name](rest, parties)
    except SaltliteError:
        raise
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise SaltInvocationError(f"{name} cannot be used as it is given: {reason}.") from error
    if critical and name in _NEVER_CRITICAL:
        raise SaltInvocationError(f"{name} must not be critical.")
    return built, critical and name not in _PLAIN


def distinguished_name(given: Any) -> x509.Name:
    """Return a name from RFC 4514 text, a list of such texts for each RDN, or a map. Raises SaltInvocationError."""
    try:
        if isinstance(given, str):
            return x509.Name.from_rfc4514_string(given, _RFC4514_NAMES)
        if isinstance(given, Mapping):
            return x509.Name(
                [x509.NameAttribute(oid, str(given[name])) for name, oid in ATTRIBUTES.items() if name in given]
            )
        if isinstance(given, list | tuple):
            return x509.Name([_rdn(each) for each in given])
    except ValueError as error:
        raise SaltInvocationError(f"{given!r:.200} is not a distinguished name: {error}") from error
    raise SaltInvocationError("A distinguished name is given as a text, a list or a map.")


def moment(given: Any, name: str) -> datetime.datetime:
    """Return a time in UTC from text such as `2026-01-31 12:00:00`. Raises SaltInvocationError."""
    if isinstance(given, datetime.datetime):
        return given if given.tzinfo else given.replace(tzinfo=datetime.UTC)
    try:
        return datetime.datetime.strptime(str(given), TIME).replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise SaltInvocationError(f"{name} is a time such as '2026-01-31 12:00:00', not {given!r:.40}.") from error


# --- The forms ---


def _critical(value: Any) -> tuple[bool, Any]:
    """Return whether a value is marked as critical, and the value without the mark."""
    if isinstance(value, str):
        text = value.strip()
        marked = re.match(r"critical(?![^\s,])", text)
        return bool(marked), text[8:].lstrip(", \t") if marked else text
    if isinstance(value, Mapping):
        return bool(value.get("critical")), {key: each for key, each in value.items() if key != "critical"}
    if isinstance(value, list | tuple):
        return "critical" in value, [each for each in value if each != "critical"]
    return False, value


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, of a text with commas, or of one value."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return list(value) if isinstance(value, list | tuple) else [value]


def _fields(value: Any) -> dict[str, Any]:
    """Return a map, or the map that a text such as `CA:TRUE, pathlen:1` stands for."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple) and all(isinstance(each, Mapping) for each in value):
        return {key: each[key] for each in value for key in each}
    split = (str(item).partition(":") for item in _listed(value))
    return {key.strip(): text.strip() for key, _colon, text in split}


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Return type and value of each general name: `DNS:a.example`, or maps such as `{dns: a.example}`."""
    found: list[tuple[str, Any]] = []
    for item in [value] if isinstance(value, Mapping) else _listed(value):
        if isinstance(item, Mapping):
            for kind, each in item.items():
                whole = isinstance(each, list) and str(kind).lower() != "dirname"
                found.extend((str(kind), one) for one in (each if whole else [each]))
            continue
        kind, colon, text = str(item).partition(":")
        if not colon:
            raise ValueError(f"{item!r:.80} has no type, as DNS:example.org has")
        found.append((kind.strip(), text.strip()))
    return found


def _true(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() in {"true", "yes", "1"}


def _oid(given: Any) -> x509.ObjectIdentifier:
    if not _OID.fullmatch(str(given)):
        raise ValueError(f"{given!r:.80} is not an object identifier such as 1.2.3.4")
    return x509.ObjectIdentifier(str(given))


def _rdn(given: Any) -> x509.RelativeDistinguishedName:
    rdns = x509.Name.from_rfc4514_string(str(given), _RFC4514_NAMES).rdns
    if len(rdns) != 1:
        raise ValueError(f"{given!r:.80} is not one relative distinguished name such as CN=web")
    return rdns[0]


def _general_names(value: Any, *, constraint: bool = False) -> list[x509.GeneralName]:
    return [_general_name(kind, each, constraint=constraint) for kind, each in _pairs(value)]


def _general_name(kind: str, value: Any, *, constraint: bool = False) -> x509.GeneralName:
    match kind.lower():
        case "dns":
            return x509.DNSName(_domain(str(value), prefix=r"\.|\*\."))
        case "email" | "mail":
            user, at, domain = str(value).rpartition("@")
            return x509.RFC822Name(user + at + _domain(domain, prefix="" if at else r"\."))
        case "uri":
            return x509.UniformResourceIdentifier(_address(str(value)))
        case "ip":
            return x509.IPAddress(ipaddress.ip_network(value) if constraint else ipaddress.ip_address(value))
        case "rid":
            return x509.RegisteredID(_oid(value))
        case "dirname":
            return x509.DirectoryName(distinguished_name(value))
        case "othername":
            raise ValueError("names of the type otherName are not supported")
    raise ValueError(f"{kind!r:.40} is not a type of names: use DNS, email, URI, IP, RID or dirName")


def _domain(text: str, *, prefix: str = "") -> str:
    """Return a domain name in ASCII, after a prefix that is allowed, such as `*.`. Raises ValueError."""
    found = re.match(prefix, text)
    front = found[0] if found else ""
    name = text[len(front) :]
    if not name.isascii():
        try:
            import idna
        except ImportError:
            raise ValueError(
                f"{name!r:.80} needs the Python package idna, or has to be written in ASCII (xn--…)"
            ) from None
        name = idna.encode(name).decode()  # its errors are ValueErrors
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{text!r:.80} is not a domain name")
    return front + name


def _address(text: str) -> str:
    """Return a URL with its host in ASCII."""
    parts = urllib.parse.urlsplit(text)
    if parts.netloc.isascii():
        return text
    login, at, place = parts.netloc.rpartition("@")
    host, colon, port = place.partition(":")
    return urllib.parse.urlunsplit(parts._replace(netloc=login + at + _domain(host) + colon + port))


# --- The extensions ---


def _basic_constraints(value: Any, _parties: Parties) -> x509.BasicConstraints:
    fields = {str(key).lower(): each for key, each in _fields(value).items()}
    length = fields.get("pathlen")
    return x509.BasicConstraints(_true(fields["ca"]), None if length is None else int(length))


def _key_usage(value: Any, _parties: Parties) -> x509.KeyUsage:
    if isinstance(value, Mapping):
        value = [name for name, wanted in value.items() if wanted]
    usages = re.split(r"[\s,]+", value) if isinstance(value, str) else _listed(value)
    unknown = [each for each in usages if each not in _USAGES]
    if unknown:
        raise ValueError(f"{unknown[0]!r:.40} is not a key usage: use {', '.join(_USAGES)}")
    return x509.KeyUsage(**{argument: name in usages for name, argument in _USAGES.items()})


def _extended_key_usage(value: Any, _parties: Parties) -> x509.ExtendedKeyUsage:
    return x509.ExtendedKeyUsage([_oid(_PURPOSES.get(str(each), each)) for each in _listed(value)])


def _subject_key(value: Any, parties: Parties) -> x509.SubjectKeyIdentifier:
    if value == "hash":
        return x509.SubjectKeyIdentifier.from_public_key(parties.subject_key)
    return x509.SubjectKeyIdentifier(value if isinstance(value, bytes) else bytes.fromhex(value.replace(":", "")))


def _authority_key(value: Any, parties: Parties) -> x509.AuthorityKeyIdentifier:
    fields = _fields(value)
    ca = parties.issuer
    key_id: bytes | None = None
    if "keyid" in fields:
        key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(parties.issuer_key).key_identifier
        if ca is not None:
            with_id = [each.value for each in ca.extensions if isinstance(each.value, x509.SubjectKeyIdentifier)]
            key_id = with_id[0].digest if with_id else key_id
    if "issuer" not in fields or (key_id is not None and fields["issuer"] != "always"):
        if key_id is None:
            raise ValueError("it has neither keyid nor issuer")
        return x509.AuthorityKeyIdentifier(key_id, None, None)
    if ca is None:
        raise ValueError("issuer is taken from signing_cert, which is not given")
    return x509.AuthorityKeyIdentifier(key_id, [x509.DirectoryName(ca.issuer)], ca.serial_number)


def _issuer_names(value: Any, parties: Parties) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for kind, each in _pairs(value):
        if (kind, each) != ("issuer", "copy"):
            names.append(_general_name(kind, each))
            continue
        if parties.issuer is None:
            raise ValueError("issuer:copy takes the names from signing_cert, which is not given")
        found = [one.value for one in parties.issuer.extensions if isinstance(one.value, x509.SubjectAlternativeName)]
        if not found:
            raise ValueError("issuer:copy finds no subjectAltName in signing_cert")
        names.extend(found[0])
    return names


def _information_access(value: Any, _parties: Parties) -> x509.AuthorityInformationAccess:
    given: Iterable[tuple[Any, Any]]
    if isinstance(value, str):
        given = [(way.strip(), place.strip()) for way, _, place in (item.partition(";") for item in _listed(value))]
    else:
        given = _fields(value).items() if isinstance(value, Mapping) else [
            pair for each in value for pair in each.items()
        ]  # fmt: skip
    described = [
        x509.AccessDescription(_ACCESS.get(str(way)) or _oid(way), name)
        for way, places in given
        for name in _general_names(places)
    ]
    return x509.AuthorityInformationAccess(described)


def _distribution_points(value: Any) -> list[x509.DistributionPoint]:
    points = []
    for item in [value] if isinstance(value, Mapping) else _listed(value):
        fields = item if isinstance(item, Mapping) and not _is_general_name(item) else {"fullname": [item]}
        reasons = fields.get("reasons")
        points.append(
            x509.DistributionPoint(
                full_name=_general_names(fields["fullname"]) if fields.get("fullname") else None,
                relative_name=_rdn(fields["relativename"]) if fields.get("relativename") else None,
                reasons=_reasons(reasons) if reasons else None,
                crl_issuer=_general_names(fields["crlissuer"]) if fields.get("crlissuer") else None,
            )
        )
    return points


def _is_general_name(item: Mapping[Any, Any]) -> bool:
    return not {"fullname", "relativename", "crlissuer", "reasons"}.intersection(item)


def _reasons(value: Any) -> frozenset[x509.ReasonFlags]:
    return frozenset(_reason(each) for each in _listed(value))


def _reason(given: Any) -> x509.ReasonFlags:
    found = _REASONS.get(str(given).strip().lower())
    if found is None:
        raise ValueError(f"{given!r:.40} is not a reason: use {', '.join(each.value for each in x509.ReasonFlags)}")
    return found


def _issuing_point(value: Any, _parties: Parties) -> x509.IssuingDistributionPoint:
    if not isinstance(value, Mapping):
        raise TypeError("it has to be a map")
    some = value.get("onlysomereasons")
    return x509.IssuingDistributionPoint(
        full_name=_general_names(value["fullname"]) if value.get("fullname") else None,
        relative_name=_rdn(value["relativename"]) if value.get("relativename") else None,
        only_contains_user_certs=bool(value.get("onlyuser")),
        only_contains_ca_certs=bool(value.get("onlyCA")),
        only_some_reasons=_reasons(some) if some else None,
        indirect_crl=bool(value.get("indirectCRL")),
        only_contains_attribute_certs=bool(value.get("onlyAA")),
    )


def _policies(value: Any, _parties: Parties) -> x509.CertificatePolicies:
    given = value if isinstance(value, Mapping) else dict.fromkeys(_listed(value))
    policies = []
    for oid, qualifiers in given.items():
        listed = [] if not qualifiers else qualifiers if isinstance(qualifiers, list | tuple) else [qualifiers]
        policies.append(x509.PolicyInformation(_oid(oid), [_qualifier(each) for each in listed] or None))
    return x509.CertificatePolicies(policies)


def _qualifier(given: Any) -> str | x509.UserNotice:
    """Return the address of a statement, or a notice to users."""
    if not isinstance(given, Mapping):
        return str(given)
    numbers = given.get("noticeNumbers")
    reference = x509.NoticeReference(given.get("organization"), [int(each) for each in numbers]) if numbers else None
    return x509.UserNotice(reference, given.get("text"))


def _policy_constraints(value: Any, _parties: Parties) -> x509.PolicyConstraints:
    fields = _fields(value)
    required, inhibited = (fields.get(name) for name in ("requireExplicitPolicy", "inhibitPolicyMapping"))
    return x509.PolicyConstraints(
        None if required is None else int(required), None if inhibited is None else int(inhibited)
    )


def _name_constraints(value: Any, _parties: Parties) -> x509.NameConstraints:
    scopes: dict[str, list[Any]] = {"permitted": [], "excluded": []}
    if isinstance(value, Mapping):
        for scope, names in value.items():
            scopes[scope].extend(_listed(names))
    else:
        for item in _listed(value):
            scope, _semicolon, name = str(item).partition(";")
            scopes[scope.strip()].append(name)
    permitted, excluded = (_general_names(names, constraint=True) or None for names in scopes.values())
    return x509.NameConstraints(permitted, excluded)


def _tls_features(value: Any, _parties: Parties) -> x509.TLSFeature:
    return x509.TLSFeature([x509.TLSFeatureType[str(each)] for each in _listed(value)])


def _number(value: Any) -> int:
    """Return the number of an extension that is one number: itself, in a text, or under `value`."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return int(value["value"] if isinstance(value, Mapping) else value)


def _only(value: Any) -> Any:
    items = _listed(value)
    if len(items) != 1:
        raise ValueError("it has to be one value")
    return items[0]


_PARSERS: dict[str, Callable[[Any, Parties], Any]] = {
    "basicConstraints": _basic_constraints,
    "keyUsage": _key_usage,
    "extendedKeyUsage": _extended_key_usage,
    "subjectKeyIdentifier": _subject_key,
    "authorityKeyIdentifier": _authority_key,
    "issuerAltName": lambda value, parties: x509.IssuerAlternativeName(_issuer_names(value, parties)),
    "authorityInfoAccess": _information_access,
    "subjectAltName": lambda value, _parties: x509.SubjectAlternativeName(_general_names(value)),
    "crlDistributionPoints": lambda value, _parties: x509.CRLDistributionPoints(_distribution_points(value)),
    "certificatePolicies": _policies,
    "policyConstraints": _policy_constraints,
    "inhibitAnyPolicy": lambda value, _parties: x509.InhibitAnyPolicy(_number(value)),
    "nameConstraints": _name_constraints,
    "noCheck": lambda _value, _parties: x509.OCSPNoCheck(),
    "tlsfeature": _tls_features,
    "cRLNumber": lambda value, _parties: x509.CRLNumber(_number(value)),
    "deltaCRLIndicator": lambda value, _parties: x509.DeltaCRLIndicator(_number(value)),
    "freshestCRL": lambda value, _parties: x509.FreshestCRL(_distribution_points(value)),
    "issuingDistributionPoint": _issuing_point,
    "certificateIssuer": lambda value, parties: x509.CertificateIssuer(_issuer_names(value, parties)),
    "CRLReason": lambda value, _parties: x509.CRLReason(_reason(_only(value))),
    "invalidityDate": lambda value, _parties: x509.InvalidityDate(moment(_only(value), "invalidityDate")),
}
_NEVER_CRITICAL = frozenset({"subjectKeyIdentifier", "authorityKeyIdentifier", "cRLNumber"})
_PLAIN = frozenset({"authorityInfoAccess", "freshestCRL"})
"""They ignore the word `critical`, as in Salt."""
