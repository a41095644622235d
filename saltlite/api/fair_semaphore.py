"""Who may wait at the same moment for something that is scarce: so many altogether, and so many of one caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from saltlite.errors import UnreachableError


@dataclass(slots=True)
class _Row:
    """One caller: his places, and how many of his requests are in the queue or have one."""

    places: asyncio.Semaphore
    requests: int = 0


class FairSemaphore:
    """Places; who finds none waits for one."""

    def __init__(self, most: int, most_of_one: int, patience_s: float) -> None:
        """How many places there are, how many one caller has at most, and how long to wait for one, in seconds."""
        self._places = asyncio.Semaphore(most)
        self._most_of_one = most_of_one
        self._patience_s = patience_s
        self._rows: dict[str, _Row] = {}

    @asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """Have a place. Raises UnreachableError when there was none in time."""
        row = self._rows.setdefault(caller, _Row(asyncio.Semaphore(self._most_of_one)))
        row.requests += 1
        try:
            # First his own: who asks for much waits for himself, and stands in nobody's way.
            async with self._waited(row.places), self._waited(self._places):
                yield
        finally:
            row.requests -= 1
            if not row.requests:
                del self._rows[caller]

    @asynccontextmanager
    async def _waited(self, places: asyncio.Semaphore) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience_s):
                await places.acquire()
        except TimeoutError:
            raise UnreachableError(
                f"as many jobs are waited for as there may be, and none ended in {self._patience_s:g}s: "
                "publish with local_async, and read /jobs or /events"
            ) from None
        try:
            yield
        finally:
            places.release()
