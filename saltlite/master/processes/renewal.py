"""The supervisor's look at the certificate and the fleet key: what is new on the disk comes into use.

A certificate is renewed before it runs out, and whoever changes the fleet key (`saltlite key fleet rotate`) only
changes files. The processes that show a certificate read it when they start, while they still may; so they make way
for new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from saltlite.errors import SaltliteError
from saltlite.master.processes import identity
from saltlite.model.keys import fingerprint

log = logging.getLogger(__name__)

RENEW_S = 12 * 3600.0
"""How often the certificate is looked at: minions believe one for 90 days at most."""
PKI_LOOK_S = 2.0
"""How often the files of the fleet are looked at for a change: one stat(2) each."""


class Renewal:
    """`ensure` makes and renews what is needed in `pki_dir`, or raises SaltliteError; `restart` has the processes that
    show the certificate start anew."""

    def __init__(self, pki_dir: str, ensure: Callable[[], None], restart: Callable[[], None]) -> None:
        self._pki_dir = pki_dir
        self._ensure = ensure
        self._restart = restart
        self._used = identity.certificate_of(pki_dir)
        self._seen = identity.stamps(pki_dir)

    def look(self) -> None:
        """Whether somebody changed the fleet key, or began to."""
        if identity.stamps(self._pki_dir) != self._seen:
            self.renew()

    def renew(self) -> None:
        """Renew what runs out, and use what is new. What stands in the way is logged: the old one serves on."""
        seen = identity.stamps(self._pki_dir)
        try:
            self._ensure()
            # Before the certificate is read: a change that comes in between is seen the next time, or used now.
            seen = identity.stamps(self._pki_dir)
            certificate = identity.certificate_of(self._pki_dir)
        except SaltliteError as error:
            log.error("the present certificate stays in use: %s", error)  # noqa: TRY400 - a sentence
        else:
            if certificate != self._used:
                self._used = certificate
                log.info("this master is of fleet %s, by a new certificate", fingerprint(certificate.fleet_public))
                self._restart()
        self._seen = seen
