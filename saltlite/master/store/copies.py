"""The files of `saltlite cp` in a store that masters share, so that each minion fetches them from its own master.

The files are stored as pieces, in the order in which they were put. A piece is sealed together with the name of its
area and its number, and the number of pieces is sealed as well. So someone who can write to the database can neither
change nor truncate a file. An area is put by one client, so its numbers need no lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from saltlite.errors import RemoteProtocolError, SaltliteError, UsageError
from saltlite.files.server import CopiedPiece
from saltlite.master.store.sealing import Seal
from saltlite.master.store.sharing import CopyPiece, SharedInventory
from saltlite.model.clock import Clock
from saltlite.wire.codec import LOCAL, decode, encode
from saltlite.wire.limits import MIB

AREA_MAX = 256 * MIB
"""Bytes of the files of one `saltlite cp`. More are refused."""
COUNT = -1
"""The piece that has the number of the others, and their size in bytes."""


class SharedCopies:
    """`saltlite.files.server.SharedAreas`."""

    def __init__(self, rows: SharedInventory, seal_key: bytes, clock: Clock) -> None:
        """`seal_key` has 32 bytes."""
        self._rows = rows
        self._seal = Seal(seal_key)
        self._clock = clock

    def begin(self, area: str) -> None:
        """Make an area."""
        self._put(area, {COUNT: [0, 0]})

    def put(self, area: str, piece: CopiedPiece) -> None:
        """Add a piece of a file. Raises UsageError above AREA_MAX."""
        found = self._piece(area, COUNT)
        if found is None:
            raise UsageError("the files to copy are gone: start the copy again")
        count, size = found
        size += len(piece.data)
        if size > AREA_MAX:
            raise UsageError(
                f"one copy has at most {AREA_MAX // MIB} MiB where several masters share a database: copy less at "
                "once, or put the files below file_roots of all masters"
            )
        self._put(area, {count: list(piece), COUNT: [count + 1, size]})

    def pieces(self, area: str) -> Iterator[CopiedPiece]:
        """All pieces, in order; none without that area. Raises SaltliteError if one is missing or damaged."""
        found = self._piece(area, COUNT)
        for number in range(found[0] if found is not None else 0):
            piece = self._piece(area, number)
            if piece is None:
                raise SaltliteError(
                    f"piece {number} of the files to copy is missing in the database: start the copy again"
                )
            yield CopiedPiece(*piece)

    def end(self, area: str) -> None:
        """Remove an area."""
        self._rows.delete_pieces(area)

    def _put(self, area: str, pieces: dict[int, list[Any]]) -> None:
        now = self._clock.wall()
        self._rows.put_pieces(
            [
                CopyPiece(area, number, now, self._seal.seal(encode({"": fields}, LOCAL), area, number))
                for number, fields in pieces.items()
            ]
        )

    def _piece(self, area: str, number: int) -> Any:
        data = self._rows.piece(area, number)
        if data is None:
            return None
        try:
            return decode(self._seal.opened(data, area, number), LOCAL)[""]
        except (ValueError, RemoteProtocolError):
            raise SaltliteError(
                f"piece {number} of the files to copy was not put by a master: start the copy again, and see who else "
                "can write to the database"
            ) from None
