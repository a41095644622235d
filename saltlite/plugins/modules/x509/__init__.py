"""Read certificates, requests, revocation lists and keys.

Each is given as the path of a file on this minion or as its content: PEM, DER, or either as hexadecimal digits or in
base64 (with ``b64:`` before it). Of a file with several certificates the first is taken. Nothing here makes or signs
anything, and no private key is shown.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

__parts__ = {
    "reading": [
        "expired",
        "expires",
        "get_pem_entries",
        "get_pem_entry",
        "get_private_key_size",
        "get_public_key",
        "read_certificate",
        "read_certificates",
        "read_crl",
        "read_csr",
        "verify_crl",
        "verify_private_key",
        "verify_signature",
        "will_expire",
    ],
}
