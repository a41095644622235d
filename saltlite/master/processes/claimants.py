"""Who wanted a resource that has become free: these minions are asked to register again, and it passes on at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from saltlite.master.processes.registrations import Registrations
from saltlite.model.ids import MinionId, TargetId

ASKED_MAX = 100
"""Minions that are asked at once: each sends all that it manages, and one of them gets the resource. The others tell
anyway, within minutes, what they hold."""


class Asking(Protocol):
    """The way to the link process."""

    def fetch(self, minion: str, what: str) -> None: ...


def ask_claimants(registrations: Registrations, link: Asking, free: Collection[TargetId], *, but: MinionId) -> None:
    """Have minions register again whose claims on these resources were refused; not the one that gave them up."""
    if free:
        for minion in sorted(registrations.claimants(free) - {but})[:ASKED_MAX]:
            link.fetch(minion, "resources")
