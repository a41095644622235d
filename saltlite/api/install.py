"""/install: the installer of a minion and its bundle, for whoever knows the id of a join token that is valid.

`saltlite key token create --install` writes both as root (`saltlite.cloud.deploy.offer`); the API only reads them. The
installer has no secret: the token itself never comes here, and without it no machine joins.
"""

from __future__ import annotations

import json
import os
import shlex
import time

from saltlite.api.endpoint import Endpoint
from saltlite.api.web_app import send_file

OFFER_MAX = 256 * 1024
GONE = (
    "this address has no installer: its join token has expired, was revoked, or is of another master; make a new one "
    "there"
)


class Installer(Endpoint):
    """/install/<token id>: the installer; /install/<token id>/bundle: what it installs. No login."""

    def streams(self) -> bool:
        """Both have formats of their own, whatever Accept says."""
        return True

    async def get(self, token_id: str, bundle: str | None = None) -> None:
        """One of the two. A refusal is a shell script, too: it says the sentence where curl was to be run by sh."""
        folder = self.context.config.install_dir
        offer = _offer(folder, token_id)
        if offer is None:
            self.set_status(403)
            self._script(f"echo saltlite: {shlex.quote(GONE)} >&2\nexit 1\n")
        elif bundle:
            await send_file(self, folder, offer["bundle"])
        else:
            self._script(offer["script"])

    def _script(self, text: str) -> None:
        self.set_header("Content-Type", "text/x-shellscript; charset=utf-8")
        self.finish(text)


def _offer(folder: str, token_id: str) -> dict[str, str] | None:
    """The offer of a token; None when there is none, or it has expired."""
    try:
        with open(os.path.join(folder, f"{token_id}.json"), encoding="utf-8") as file:
            offer: dict[str, str] = json.loads(file.read(OFFER_MAX))
    except (OSError, ValueError):
        return None
    return offer if float(offer["expires_at"]) > time.time() else None


INSTALL_PATHS = {r"/install/([a-z0-9]{8})(/bundle)?": Installer}
