"""The connection to the master: events of machines, join tokens, and the keys of their minions.

Threads and forked processes share one client. Events are redacted, and fired in the order of Salt's contract.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.client.local import LocalClient
from saltlite.cloud.api.exceptions import SaltCloudExecutionTimeout, SaltCloudSystemExit
from saltlite.cloud.rules.catalogue import name_in_tag
from saltlite.cloud.rules.flow import Announcer
from saltlite.errors import SaltliteError, UnreachableError
from saltlite.model.keys import KeyState
from saltlite.model.redaction import Secrets

log = logging.getLogger(__name__)


class Master:
    """A client of the operator protocol, one verb at a time. Raises what `LocalClient.call` raises."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __call__(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Call one verb; returns the fields of its answer."""
        with self._lock:
            return self._client.call(verb, **fields)

    def forked(self) -> None:
        """After a fork: the connection belongs to the parent."""
        self._lock = threading.Lock()
        self._client.close()


TAG_ROOT = "salt/cloud/"

Ask = Callable[..., dict[str, Any]]
"""Calls one verb of the master."""


class CloudEvents:
    """Fires events of drivers and of the program. An announcer orders those of each create and destroy."""

    def __init__(self, ask: Ask, secrets: Secrets, more_fields: Mapping[str, frozenset[str]]) -> None:
        """`more_fields` are additional allowed fields, by the last part of the tag."""
        self._ask = ask
        self._secrets = secrets
        self._more_fields = more_fields
        self._announcers: dict[str, Announcer] = {}
        self._silent = False

    def announce(self, machine: str, announcer: Announcer, settings: Mapping[str, Any]) -> None:
        """Order the events of this machine; the first one has the allowed fields of `settings`."""
        self._announcers[machine] = announcer
        wanted = self._more_fields.get(announcer.order[0], frozenset())
        self._all(machine, announcer.begun({key: settings[key] for key in sorted(wanted) if key in settings}))

    def take_up(self, machine: str, announcer: Announcer) -> None:
        """Continue the events of this machine where another process stopped."""
        self._announcers[machine] = announcer

    def finish(self, machine: str, data: Mapping[str, Any]) -> None:
        """Fire the last event: the create or destroy is complete."""
        announcer = self._announcers.pop(machine, None)
        if announcer is not None:
            self._all(machine, announcer.made(data))

    def abandon(self, machine: str) -> None:
        """Drop the last event: the create or destroy failed."""
        self._announcers.pop(machine, None)

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        """Fire an event of a driver; any tag but `salt/cloud/<machine>/<what>` is dropped."""
        machine, slash, what = tag.removeprefix(TAG_ROOT).rpartition("/")
        if not tag.startswith(TAG_ROOT) or not slash:
            log.info("The event %s is not fired: drivers fire salt/cloud/<machine>/<what>.", tag)
            return
        announcer = self._announcers.get(machine)
        self._all(machine, [(what, dict(data))] if announcer is None else announcer.continued(what, data))

    def _all(self, machine: str, events: list[tuple[str, dict[str, Any]]]) -> None:
        for what, data in events:
            self._send(machine, what, self._secrets.event(what, data, self._more_fields.get(what, frozenset())))

    def _send(self, machine: str, what: str, data: dict[str, Any]) -> None:
        try:
            self._ask("cloud_event", machine=name_in_tag(self._secrets.text(machine)), what=what, data=data)
        except UnreachableError as error:
            # Machines can be listed and destroyed without a master, perhaps because it is gone.
            if not self._silent:
                log.warning("No events are fired: %s", error)
            self._silent = True
        except SaltliteError as error:
            log.warning("The event %s of %s was not fired: %s", what, machine, error)


LOOK_EVERY_S = 0.1
LOOK_LESS_OFTEN_S = 1.0
"""Seconds between two polls whether a minion is up: at first, and after `_OFTEN` polls."""
_OFTEN = 100
_PENDING_GRACE_S = 5.0
"""How long a key with a token may be pending: the use of the token is a separate commit."""


class MinionKeys:
    """Every method raises SaltliteError if the master refuses or is not reachable."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def make_token(self, minion_id: str, expires_s: float) -> str:
        """A join token for one minion of this id. Raises SaltCloudSystemExit if the id is taken."""
        # The master never accepts two ids that differ by case only.
        keys = self._ask("key_list", id=minion_id)["keys"]
        held = (row for row in keys if row["state"] == KeyState.ACCEPTED)
        holder = next(held, None)
        if holder is not None:
            raise SaltCloudSystemExit(
                f"the master has accepted a key for {holder['id']} already ({holder['how']}): take another name, or "
                f"`saltlite key delete {holder['id']}` if that minion is no more"
            )
        answer = self._ask("token_create", uses=1, expires_s=expires_s, id_glob=minion_id)
        return str(answer["token"])

    def revoke_token(self, token_id: str) -> None:
        """Revoke a join token."""
        self._ask("token_revoke", token_id=token_id)

    def wait_until_up(self, minion_id: str, wait_s: float, say: Callable[[str], None]) -> None:
        """Wait until the minion is accepted and has a session.

        Raises SaltCloudExecutionTimeout, and SaltCloudSystemExit for a key that is not accepted.
        """
        began, looks = time.monotonic(), 0
        say("waits for its minion")
        while True:
            silent_s = self._ask("last_seen", ids=[minion_id])["silent_s"].get(minion_id)
            if silent_s is not None and self._is_up(minion_id):
                return
            waited = time.monotonic() - began
            if waited > wait_s:
                why = self._why(minion_id)
                raise SaltCloudExecutionTimeout(f"the minion {minion_id} did not come up in {wait_s:g} s{why}")
            if waited > _PENDING_GRACE_S and (refused := self._refused(minion_id)):
                raise SaltCloudSystemExit(refused)
            looks += 1
            time.sleep(LOOK_EVERY_S if looks < _OFTEN else LOOK_LESS_OFTEN_S)

    def delete_of_token(self, minion_id: str, token_id: str, since: float) -> None:
        """Delete the keys of this token, and pending keys of this id since `since`, seconds since 1970."""
        mine = f"join token {token_id} "
        self._delete(
            row
            for row in self._keys(minion_id)
            if (token_id and row["how"].startswith(mine))
            or (row["state"] == KeyState.PENDING and row["first_seen"] >= since - 1)
        )

    def has_any(self, minion_id: str) -> bool:
        """Whether the master has a key of this id."""
        return bool(self._keys(minion_id))

    def delete_all(self, minion_id: str) -> None:
        """Delete every key of this id."""
        self._delete(self._keys(minion_id))

    def _delete(self, rows: Any) -> None:
        fingerprints = [row["fingerprint"] for row in rows]
        if fingerprints:
            self._ask("key_change", action="delete", fingerprints=fingerprints)

    def _keys(self, minion_id: str) -> list[dict[str, Any]]:
        return [row for row in self._ask("key_list", id=minion_id)["keys"] if row["id"] == minion_id]

    def _is_up(self, minion_id: str) -> bool:
        rows = self._ask("minions")["minions"]
        return any(row["id"] == minion_id and row["state"] == "up" for row in rows)

    def _refused(self, minion_id: str) -> str:
        rows = self._keys(minion_id)
        if rows and all(row["state"] != KeyState.ACCEPTED for row in rows):
            return f"the master did not accept the key of {minion_id}: it is {rows[0]['state']} ({rows[0]['how']})"
        return ""

    def _why(self, minion_id: str) -> str:
        rows = self._keys(minion_id)
        if not rows:
            return (
                ": it did not reach the master; is its setting `minion: {master: ADDRESS}` right, and is the port open?"
            )
        return f": its key is {rows[0]['state']}, but it has no session"
