"""Operators are told of turns that the supervisor has ended."""

from __future__ import annotations

from saltlite.master.processes.context import Master
from saltlite.model.events import tag_turn_ended
from saltlite.platform.turn_board import Marks


def tell_ended(master: Master, marks: Marks) -> bool:
    """An event for each turn that was ended and is not told yet; whether there was one. Raises StoreError, and then it
    is told later. Those of a process are told by the one that has its place, or by the first MWorker."""
    untold = marks.board.untold(marks.name)
    if not untold:
        return False
    with master.store.write() as store:
        for ended in untold:
            data = {"process": ended.process, "turn": ended.text, "held_s": round(ended.held_s, 1)}
            store.put_event(tag_turn_ended(ended.process), data, master.clock.wall())
    for ended in untold:
        marks.board.told(ended)
    return True
