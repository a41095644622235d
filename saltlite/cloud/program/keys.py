"""Tokens and keys of the minions of machines, at the master."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudExecutionTimeout, SaltCloudSystemExit
from saltlite.cloud.program.events import Ask
from saltlite.model.keys import KeyState

LOOK_EVERY_S = 0.1
LOOK_LESS_OFTEN_S = 1.0
"""Between two questions whether a minion is up: at first, and after so many of them."""
_OFTEN = 100
_PENDING_GRACE_S = 5.0
"""For so long a key may wait although it has a token: the token's use is a commit of its own."""


class MinionKeys:
    """Asks the master. Every method raises SaltliteError for what it refuses, and when it is not there."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def make_token(self, minion_id: str, expires_s: float) -> str:
        """A token by which one minion of this id may join, once. Raises SaltCloudSystemExit when the id is taken."""
        holder = next((row for row in self._keys(minion_id) if row["state"] == KeyState.ACCEPTED), None)
        if holder is not None:
            raise SaltCloudSystemExit(
                f"the master has accepted a key for {minion_id} already ({holder['how']}): take another name, or "
                f"`saltlite key delete {minion_id}` if that minion is no more"
            )
        answer = self._ask("token_create", uses=1, expires_s=expires_s, id_glob=minion_id)
        return str(answer["token"])

    def void_token(self, token_id: str) -> None:
        """Let nobody join by this token any more."""
        self._ask("token_revoke", token_id=token_id)

    def wait_until_up(self, minion_id: str, wait_s: float, say: Callable[[str], None]) -> None:
        """Return when the minion is accepted and has a session.

        Raises SaltCloudExecutionTimeout, and SaltCloudSystemExit for a key that is not accepted.
        """
        began, looks = time.monotonic(), 0
        say("waits for its minion")
        while True:
            if self._ask("heard", ids=[minion_id])["heard"].get(minion_id) is not None and self._is_up(minion_id):
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
        """Delete the keys that came by this token, and those of this id that wait since `since`, a time since 1970."""
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
        return [row for row in self._ask("key_list")["keys"] if row["id"] == minion_id]

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
            return ": it did not reach the master; is its setting `minion: {master: ADDRESS}` right, and its port open?"
        return f": its key is {rows[0]['state']}, but it has no session"
