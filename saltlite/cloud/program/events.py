"""Events of machines to the master's watchers, without secrets, in the order that the contract wants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.cloud.rules.flow import Announcer
from saltlite.cloud.rules.names import name_in_tag
from saltlite.errors import SaltliteError, UnreachableError
from saltlite.model.redaction import Secrets

log = logging.getLogger(__name__)

TAG_ROOT = "salt/cloud/"

Ask = Callable[..., dict[str, Any]]
"""Asks the master one verb."""


class CloudEvents:
    """Fires what drivers and the core say. Of a machine that is made or destroyed an announcer keeps the order."""

    def __init__(self, ask: Ask, secrets: Secrets, more_fields: Mapping[str, frozenset[str]]) -> None:
        """`more_fields` are those that somebody wants events to have besides, by the last part of their tag."""
        self._ask = ask
        self._secrets = secrets
        self._more_fields = more_fields
        self._announcers: dict[str, Announcer] = {}
        self._silent = False

    def announce(self, machine: str, announcer: Announcer, settings: Mapping[str, Any]) -> None:
        """From now on events of this machine are in this order; the first has what is wanted of these settings."""
        self._announcers[machine] = announcer
        wanted = self._more_fields.get(announcer.order[0], frozenset())
        self._all(machine, announcer.begun({key: settings[key] for key in sorted(wanted) if key in settings}))

    def take_up(self, machine: str, announcer: Announcer) -> None:
        """From now on events of this machine go on where another process stopped."""
        self._announcers[machine] = announcer

    def finish(self, machine: str, data: Mapping[str, Any]) -> None:
        """What was announced is true now."""
        announcer = self._announcers.pop(machine, None)
        if announcer is not None:
            self._all(machine, announcer.made(data))

    def abandon(self, machine: str) -> None:
        """What was announced will not be."""
        self._announcers.pop(machine, None)

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        """An event that somebody wants to fire: `salt/cloud/<machine>/<what>`, the only tags that there are for it."""
        machine, slash, what = tag.removeprefix(TAG_ROOT).rpartition("/")
        if not tag.startswith(TAG_ROOT) or not slash:
            log.info("The event %s is not fired: drivers fire salt/cloud/<machine>/<what>.", tag)
            return
        announcer = self._announcers.get(machine)
        self._all(machine, [(what, dict(data))] if announcer is None else announcer.said(what, data))

    def _all(self, machine: str, events: list[tuple[str, dict[str, Any]]]) -> None:
        for what, data in events:
            self._send(machine, what, self._secrets.event(what, data, self._more_fields.get(what, frozenset())))

    def _send(self, machine: str, what: str, said: dict[str, Any]) -> None:
        try:
            self._ask("cloud_event", machine=name_in_tag(self._secrets.text(machine)), what=what, data=said)
        except UnreachableError as error:
            # Machines can be looked at and destroyed without a master, perhaps just because it is gone.
            if not self._silent:
                log.warning("Nobody is told of this: %s", error)
            self._silent = True
        except SaltliteError as error:
            log.warning("The event %s of %s was not fired: %s", what, machine, error)
