"""Signing by another minion, the authority (``ca_server``): what a minion asks for, and what the authority answers.

A signing policy of the authority decides, and its values prevail. A minion sends its public key or a request, and what
the certificate is to say; it can name no file and no key of the authority. Who asks is known from the master, whose
option ``peer`` lets minions publish such jobs, and not from the arguments.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

from .loading import load_certificate, load_private_key, load_public_key, load_request

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

FUNCTION = "x509.sign_remote_certificate"
_ANSWER_S = 60
"""Seconds in which the authority answers."""
_AUTHORITYS = frozenset({
    "append_certs", "ca_server", "copypath", "path", "prepend_cn", "private_key", "private_key_passphrase",
    "signing_cert", "signing_policy", "signing_private_key", "signing_private_key_passphrase",
})  # fmt: skip
"""Arguments that only the authority's policy may have: files and keys."""
_CALLER = "minion:"
"""Begins the user of a job that a minion published."""


def certificate_by(ca_server: str, policy: str | None, details: dict[str, Any]) -> tuple[Any, Any]:
    """A certificate that the authority signs, and the private key that belongs to it, if that is here.

    `details` are arguments of `create_certificate`. Raises SaltInvocationError and CommandExecutionError.
    """
    key = details.pop("private_key", None)
    passphrase = details.pop("private_key_passphrase", None)
    own_key = load_private_key(key, passphrase) if key else None
    if own_key is not None:
        details["public_key"] = _public_text(own_key.public_key())
    elif details.get("public_key"):
        details["public_key"] = _public_text(load_public_key(details["public_key"]))
    if details.get("csr"):
        details["csr"] = _request_text(load_request(details["csr"]))
    return load_certificate(asked(ca_server, policy, details)), own_key


def asked(ca_server: str, policy: str | None, details: Mapping[str, Any], *, only_policy: bool = False) -> Any:
    """The authority's answer: a certificate, or its policy. Raises CommandExecutionError."""
    arguments = [policy, dict(details), only_policy]
    answers = __salt__["publish.publish"](ca_server, FUNCTION, arguments, timeout=_ANSWER_S)
    if len(answers) > 1:
        raise CommandExecutionError(f"ca_server is one minion, and {ca_server!r:.80} matches {len(answers)}.")
    answer = next(iter(answers.values()), None)
    if answer is None:
        raise CommandExecutionError(f"The authority {ca_server!r:.80} has not answered within {_ANSWER_S} s.")
    if not isinstance(answer, Mapping) or "data" not in answer:
        raise CommandExecutionError(f"The authority {ca_server!r:.80} cannot sign: {str(answer)[:500]}")
    if answer.get("errors"):
        raise CommandExecutionError(f"The authority {ca_server!r:.80} refused: {' '.join(map(str, answer['errors']))}")
    return answer["data"]


def answered(
    policy: Mapping[str, Any], given: Any, user: str, sign: Callable[[dict[str, Any]], Any], *, only_policy: bool
) -> dict[str, Any]:
    """The answer to a minion, or why there is none: `{"data": …, "errors": [sentence]}`.

    `user` is who published the job, by the master's word; `sign` makes the certificate.
    """
    if not policy:
        return {"data": None, "errors": ["signing_policy must be specified and defined on the authority."]}
    try:
        _check_caller(policy.get("minions"), user)
        data = _shown_policy(policy) if only_policy else sign(_checked(given))
    except (SaltInvocationError, CommandExecutionError) as error:
        return {"data": None, "errors": [str(error)]}
    return {"data": data, "errors": []}


def check_issued(cert: Any, policy: Mapping[str, Any]) -> None:
    """Raise SaltInvocationError for the certificate of another authority, which only a policy may allow."""
    from cryptography import x509

    try:
        is_authority = cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return
    if is_authority and not policy.get("basicConstraints"):
        raise SaltInvocationError(
            "A minion gets the certificate of an authority only by a policy with basicConstraints."
        )


def _check_caller(minions: Any, user: str) -> None:
    if minions is None:
        return
    if "@" in str(minions):
        raise SaltInvocationError("minions of a signing policy is a glob here: a compound target cannot be asked.")
    caller = user.removeprefix(_CALLER)
    if caller == user:
        raise SaltInvocationError("This policy is for minions, and no minion has published this job.")
    if not fnmatch.fnmatchcase(caller, str(minions)):
        raise SaltInvocationError(f"{caller} is not permitted to use this signing policy.")


def _checked(given: Any) -> dict[str, Any]:
    """The arguments of another minion. Raises SaltInvocationError for files and keys."""
    if not isinstance(given, Mapping):
        raise SaltInvocationError("kwargs is a map of arguments of x509.create_certificate.")
    details = {str(name): value for name, value in given.items()}
    if forbidden := sorted(_AUTHORITYS.intersection(details)):
        raise SaltInvocationError(f"Only the policy of the authority may have {', '.join(forbidden)}.")
    for name in ("public_key", "csr"):
        if details.get(name) and "-----BEGIN" not in str(details[name]):
            raise SaltInvocationError(f"{name} is sent as PEM: a path would be one of the authority.")
    if not (details.get("public_key") or details.get("csr")):
        raise SaltInvocationError("The certificate needs private_key, public_key or csr.")
    return details


def _shown_policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    """What other minions may see of a policy, with the authority's certificate in place of its path."""
    from cryptography.hazmat.primitives.serialization import Encoding

    hidden = {"minions", "signing_private_key", "signing_private_key_passphrase"}
    shown = {name: value for name, value in policy.items() if name not in hidden}
    if shown.get("signing_cert"):
        shown["signing_cert"] = load_certificate(shown["signing_cert"]).public_bytes(Encoding.PEM).decode()
    return shown


def _public_text(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    text: str = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return text


def _request_text(request: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: str = request.public_bytes(Encoding.PEM).decode()
    return text
