"""Arguments of Salt's functions that ask for what is not done here: taken at their defaults, refused otherwise.

They keep their places, so that what stands behind them in a call by position means what it means in Salt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.errors import SaltInvocationError

_SELINUX = "labels of SELinux are kept, and not set: run chcon or semanage"
_WEB = "it is for files from the web, which are not fetched here"
_SIGNED = "signatures are not checked here: give a source_hash"
_ALIKE = "files are managed to the last byte here: file.get_diff compares in this way"

_UNSERVED: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("seuser", "serole", "setype", "serange"), (None, _SELINUX)),
    "verify_ssl": (True, _WEB),
    "use_etag": (False, _WEB),
    **dict.fromkeys(
        ("signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome"), (None, _SIGNED)
    ),
    "sig_backend": ("gpg", _SIGNED),
    **dict.fromkeys(("ignore_ordering", "ignore_whitespace"), (False, _ALIKE)),
    "ignore_comment_characters": (None, _ALIKE),
}
"""Name -> its default, and what to say of any other value."""


def refuse_unserved(given: Mapping[str, Any]) -> None:
    """Raise SaltInvocationError for one of these arguments that asks for something; others in `given` do not matter."""
    for name, (default, reason) in _UNSERVED.items():
        value = given.get(name, default)
        if value and value != default:
            raise SaltInvocationError(f"{name}={value!r} cannot be: {reason}.")
