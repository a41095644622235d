"""`salt.utils.validate.user`: names of users."""

from __future__ import annotations

import re
from typing import Any

VALID_USERNAME = re.compile(r"[a-z_][a-z0-9_-]*[$]?", re.IGNORECASE)
_MOST = 32


def valid_username(user: Any) -> bool:
    """Whether it begins like a name, and has 32 characters at most."""
    return isinstance(user, str) and len(user) <= _MOST and VALID_USERNAME.match(user) is not None
