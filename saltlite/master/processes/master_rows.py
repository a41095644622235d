"""Which rows of the table `masters` are used: those with a certificate of this fleet.

Whoever can write to the database must neither stop all masters by a row that the link process, or minions, cannot
read, nor have minions told of a master that the fleet key never signed for.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from saltlite.errors import ProtocolError
from saltlite.master.store.sharing import MasterRow
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire import directory
from saltlite.wire.certificates import MasterCertificate, decode_chain
from saltlite.wire.limits import MASTERS_MAX

log = logging.getLogger(__name__)


def fleets_of(certificate: MasterCertificate, chain: bytes) -> frozenset[bytes]:
    """The fingerprints of the fleet key that signed this certificate, and of those before it in its encoded
    successions: masters whose certificates are not renewed yet have one by a former key."""
    former = [record.old_public for record in decode_chain(chain)]
    return frozenset(map(fingerprint_bytes, [certificate.fleet_public, *former]))


def check_signed(certificate: MasterCertificate, fleets: Collection[bytes]) -> None:
    """Raises RemoteProtocolError unless one of these fleets (25-byte fingerprints) has signed the certificate. Whether
    it has expired is not judged here."""
    fleet = fingerprint_bytes(certificate.fleet_public)
    certificate.verify(fleet if fleet in fleets else next(iter(fleets)), certificate.not_before)


class MasterRows:
    """Judges the rows. A problem is logged once for each master."""

    def __init__(self, fleets: Collection[bytes]) -> None:
        """`fleets` are the 25-byte fingerprints of the fleet keys that may have signed certificates."""
        self._fleets = fleets
        self._good: dict[str, MasterCertificate] = {}
        """The last certificate of each master that was verified."""
        self._named: set[str] = set()
        """The masters whose rows are not used, as the log has said."""

    def used(self, masters: Sequence[MasterRow], me: MasterRow) -> list[MasterRow]:
        """The rows that link processes and minions may get. Of its own row, this master uses the state alone: it knows
        the rest, which somebody else may have changed."""
        problems = {row.name: self._problem(row) for row in masters if row.name != me.name}
        self._good = {name: one for name, one in self._good.items() if name in problems}
        for name in [name for name, problem in problems.items() if problem and name not in self._named]:
            log.error(
                "the row of the master %s in the database is not used (%s): if the fleet key was not changed just now, "
                "no master wrote it: remove it (saltlite master remove), and see who else can write there",
                name[:80],
                problems[name],
            )
            if len(self._named) < MASTERS_MAX:
                self._named.add(name)
        return [
            replace(me, state=row.state) if row.name == me.name else row
            for row in masters
            if not problems.get(row.name)
        ]

    def _problem(self, row: MasterRow) -> str:
        """Why no master of this fleet can have written that row; "" if one can."""
        try:
            certificate = MasterCertificate.decode(row.certificate)
            directory.from_rows([[row.name, row.address, row.weight, True]])
            if certificate.name != row.name:
                return "its certificate is that of another master"
            self._verify(certificate)
        except ProtocolError as error:
            return str(error)
        return ""

    def _verify(self, certificate: MasterCertificate) -> None:
        """Raises RemoteProtocolError."""
        known = self._good.get(certificate.name)
        keys = certificate.static_public, certificate.job_public
        is_by_another_key = fingerprint_bytes(certificate.fleet_public) not in self._fleets
        if is_by_another_key and known is not None and (known.static_public, known.job_public) == keys:
            # The fleet key was changed, and this master does not have the way to the new one yet. No key of that
            # master is new.
            return
        check_signed(certificate, self._fleets)
        self._good[certificate.name] = certificate
