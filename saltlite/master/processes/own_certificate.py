"""The supervisor renews the master's certificate in time, and reads it again when a fleet file changes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from saltlite.errors import SaltliteError
from saltlite.master.processes import identity
from saltlite.master.processes.identity import ANSWER_FILE, INVITED, certificate_of, stamp, stamps
from saltlite.master.processes.supervisor import MEMBERSHIP
from saltlite.model.keys import fingerprint

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig
    from saltlite.master.processes.supervisor import Supervisor

log = logging.getLogger(__name__)

RENEW_S = 12 * 3600.0
"""How often the certificate is checked; minions accept one for at most 90 days."""
PKI_LOOK_S = 2.0
"""How often the fleet files are checked for changes: one stat(2) each."""


class FileWatch:
    """Calls `changed` when that file is replaced."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self._path = path
        self._changed = changed
        self._seen = stamp(path)

    def look(self) -> None:
        """Call `changed` if the file was replaced since the last call."""
        seen = stamp(self._path)
        if seen != self._seen:
            self._seen = seen
            self._changed()


class Renewal:
    """Renews the certificate, and restarts the processes that present it, because they read it at their start.

    `ensure` creates and renews what is needed in `pki_dir`, or raises SaltliteError; `restart` restarts the processes.
    A change of the file `answer` triggers a renewal as well.
    """

    def __init__(self, pki_dir: str, ensure: Callable[[], None], restart: Callable[[], None], answer: str) -> None:
        self._pki_dir = pki_dir
        self._answer = answer
        self._ensure = ensure
        self._restart = restart
        self._used = certificate_of(pki_dir)
        self._seen = self._stamps()

    def look(self) -> None:
        """Renew if a fleet file has changed."""
        if self._stamps() != self._seen:
            self.renew()

    def renew(self) -> None:
        """Renew and use the certificate. After an error, which is logged, the old one stays in use."""
        seen = self._stamps()
        try:
            self._ensure()
            # Read before the certificate, so that a change in between is noticed the next time.
            seen = self._stamps()
            certificate = certificate_of(self._pki_dir)
        except SaltliteError as error:
            log.error("the present certificate stays in use: %s", error)  # noqa: TRY400 - a sentence
        else:
            if certificate != self._used:
                self._used = certificate
                log.info("this master is of fleet %s, by a new certificate", fingerprint(certificate.fleet_public))
                self._restart()
        self._seen = seen

    def _stamps(self) -> tuple[tuple[int, int] | None, ...]:
        return stamps(self._pki_dir, self._answer)


def ensure_identity_of(config: MasterConfig, now: float, accepted: int = 0) -> None:
    """Create missing keys and renew the certificate. If another master has the fleet key, use the certificate that it
    has signed. `accepted` is the number of accepted keys in the store. Raises StartupError."""
    if config.several_masters:
        from saltlite.master.processes.renewal import adopt  # noqa: PLC0415 - for a shared store only

        adopt(config.pki_dir, config.data_dir, now)
    identity.ensure_identity(config.pki_dir, identity.name_of(config), now, accepted)


def keep_certificate(
    config: MasterConfig, now: Callable[[], float], supervisor: Supervisor, showing: Sequence[str]
) -> None:
    """Renew the certificate in time, and load a rotated fleet key. The processes that present them are restarted
    then."""
    answer = os.path.join(config.data_dir, ANSWER_FILE)
    renewal = Renewal(
        config.pki_dir, lambda: ensure_identity_of(config, now()), lambda: supervisor.restart_in_turn(showing), answer
    )
    supervisor.every(RENEW_S, renewal.renew)
    supervisor.every(PKI_LOOK_S, renewal.look)
    if config.several_masters:
        # It signs for the masters of the list when it starts.
        listed = FileWatch(os.path.join(config.pki_dir, INVITED), lambda: supervisor.restart_in_turn([MEMBERSHIP]))
        supervisor.every(PKI_LOOK_S, listed.look)
