"""
One secret that every user of it knows, such as a program in front of the API that has checked who they are.

Master option ``sharedsecret_file`` names the file with the secret. Whoever has that can be every user whom
``external_auth`` names for it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__


def auth(username: str, password: str, **kwargs: Any) -> bool:
    """
    Whether the password is the secret; never, when there is none.

    CLI Example: ``saltlite -T -a sharedsecret '*' test.ping``
    """
    del username, kwargs
    secret = str(__opts__.get("sharedsecret") or "")
    # Hashed first, so that the time does not even reveal the length.
    given, kept = (hashlib.sha256(text.encode()).digest() for text in (password, secret))
    return bool(secret) and hmac.compare_digest(given, kept)
