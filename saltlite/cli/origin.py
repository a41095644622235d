"""From where a job is asked for, as far as the command line can tell: noted with the job, and trusted by nobody."""

from __future__ import annotations

import os

ORIGIN_MAX = 200
"""Characters."""


def origin() -> str:
    """As in `ssh 10.0.0.7, pts/3, sudo from alice`; "" when nothing is known."""
    address = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
    user = os.environ.get("SUDO_USER", "")
    parts = [f"ssh {address}" if address else "", _terminal(), f"sudo from {user}" if user else ""]
    text = ", ".join(part for part in parts if part)
    return "".join(character for character in text if character.isprintable())[:ORIGIN_MAX]


def _terminal() -> str:
    for descriptor in (0, 2):
        try:
            return os.ttyname(descriptor).removeprefix("/dev/")
        except OSError:
            continue
    return ""
