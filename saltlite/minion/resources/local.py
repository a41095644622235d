"""Resources without a minion: found and called in this very process, for a command that nobody else takes part in."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.loader.loader import Loader
from saltlite.loader.resource_types import ResourceType, TypeUnavailableError, find_type
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.resources import answering
from saltlite.minion.resources.answering import GrainsError, Work
from saltlite.minion.resources.calls import Calls
from saltlite.minion.resources.declared import Declared
from saltlite.minion.resources.device_queue import DeviceQueue, GivenUp, Turn
from saltlite.minion.resources.finding import good_ids
from saltlite.minion.resources.timing import Waiting, lesser
from saltlite.model.ids import TargetId, resource_index_srn_key
from saltlite.wire.segment import SegmentRow

log = logging.getLogger(__name__)

LOOK_S = 0.05
"""How long a call that has ended may go unnoticed."""


@dataclass(frozen=True, slots=True)
class Here:
    """What resources are found and called with."""

    opts: Mapping[str, Any]
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    minion: Loader
    returns: Returns


class LocalType:
    """One resource type in this process: what it has, and its calls. Raises TypeUnavailableError."""

    def __init__(self, name: str, here: Here, *, places: int, timeout_s: float) -> None:
        self.name = name
        self.grains: dict[TargetId, dict[str, Any]] = {}
        """Of each of its resources; empty where they cannot be collected."""
        files = find_type(name, here.opts)
        self.texts = files.function_texts()
        """The text of `saltlite.model.signature` for each function of its slots."""
        self._returns = here.returns
        self._places = places
        self._timeout_s = timeout_s
        self._type = ResourceType(files, here.opts, here.grains, here.pillar, minion=here.minion)
        try:
            self._type.init()
            ids = good_ids(name, self._type.discover() or [])
        except Exception as error:
            raise TypeUnavailableError(f"{type(error).__name__}: {error}") from error
        srns = [resource_index_srn_key(name, one) for one in ids]
        self.grains = {srn: {} for srn in srns}
        work = Work("", [("grains", (), {})], "")
        self._each(
            srns, work, self._grains_of, lambda srn, why, _s: log.warning("grains of %s are missing: %s", srn, why)
        )

    def run(self, srns: Sequence[TargetId], work: Work) -> dict[TargetId, SegmentRow]:
        """Call the functions on each of these resources."""
        rows: dict[TargetId, SegmentRow] = {}

        def call(srn: TargetId) -> bool:
            answer = answering.answer(self._type, srn, work, self.grains[srn], returns=self._returns)
            rows[srn] = answer.row
            return not answer.raised

        def late(srn: TargetId, why: str, limit_s: float) -> None:
            rows[srn] = answering.late(srn, why, limit_s)

        self._each(srns, work, call, late)
        # A call that was given up may still end while its row is read.
        return dict(rows)

    def close(self) -> None:
        """Let the type shut down."""
        try:
            self._type.shutdown()
        except Exception as error:  # noqa: BLE001 - supervision point: it is the type's own code
            log.warning("resource type %s: shutdown() raised %s: %s", self.name, type(error).__name__, error)

    def _grains_of(self, srn: TargetId) -> bool:
        try:
            self.grains[srn] = answering.grains_of(self._type, srn, {})
        except GrainsError as error:
            log.warning("grains of %s are missing: %s", srn, error)
            return False
        return True

    def _each(
        self,
        srns: Sequence[TargetId],
        work: Work,
        call: Callable[[TargetId], bool],
        late: Callable[[TargetId, str, float], None],
    ) -> None:
        """Call for all of them, as many at once as there may be; `late` for those that take too long."""
        ended: queue.SimpleQueue[GivenUp | TargetId] = queue.SimpleQueue()

        def run(turn: Turn) -> bool:
            limit_s = answering.limit_of(self._type, turn.device, work.calls, self.grains[turn.device], self._timeout_s)
            calls.limit(turn, lesser(limit_s, work.timing.limit_s))
            return call(turn.device)

        calls: Calls[bool] = Calls(
            DeviceQueue(self._places, self._timeout_s),
            run,
            lambda turn, _good: ended.put(turn.device),
            ended.put,
            failed=lambda good: not good,
            now=time.monotonic,
        )
        waiting = Waiting(calls.add)
        waiting.add("", srns, work.timing, time.monotonic())
        awaited = set(srns)
        while awaited:
            now = time.monotonic()
            wait_s = min(LOOK_S, max(0.0, min(waiting.tick(now), calls.tick()) - now))
            try:
                one = ended.get(timeout=wait_s)
            except queue.Empty:
                continue
            if isinstance(one, GivenUp):
                late(one.device, one.why or answering.too_late(one.limit_s), one.limit_s)
            awaited.discard(one.device if isinstance(one, GivenUp) else one)


def local_types(declared: Declared, here: Here) -> list[LocalType]:
    """The types that the pillar declares; one that cannot be used is left out, with a warning."""
    found = []
    for name in declared.types_in(here.pillar):
        try:
            found.append(LocalType(name, here, places=declared.places_of(name), timeout_s=declared.timeout_s))
        except TypeUnavailableError as error:
            log.warning("%s", answering.unavailable(name, str(error)))
    return found
