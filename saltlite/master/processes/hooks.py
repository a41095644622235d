"""The process of hooks: it reads the event log by cursor, and has jobs and runners begin under the names of others.

Each is authorised at that moment, as if its principal had asked: by the handler that any client reaches. A job is begun
once for an event, however often the process dies, because its request id follows from the event; a runner once at most,
because the cursor is written before.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from saltlite.auth.acl import Principal
from saltlite.auth.logins import external
from saltlite.errors import RefusedError, SaltliteError, StoreError
from saltlite.hooks import DEPTH_MAX, Depths, Firing, Hook, firing
from saltlite.limits import RateLimiter
from saltlite.master.handlers.events import handle_runner_event
from saltlite.master.handlers.publish import handle_publish
from saltlite.master.processes.context import Master
from saltlite.model.events import Event, tag_hook_told
from saltlite.model.ids import jid_at
from saltlite.platform.accounts import groups_of, uid_of
from saltlite.platform.cursor import CursorFile
from saltlite.platform.defects import DEFECT, log_defect
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

PAGE = 200
LOOK_S = 0.2
"""How often the event log is looked at."""
AGAIN_S = 2.0
"""After so long a store that failed is asked again."""
STALE_S = 600.0
"""An event that is older no hook fires for: the master was away, and what it was about is over."""
LIMITED_S = 60.0
"""That a hook is held back by its rate is told so often at most."""

MINUTE_S = 60.0
"""What the bucket of a hook holds, in seconds; each firing takes its part of it."""

Ended = Callable[[int], None]
"""Called with the retcode of a runner."""


class Runners(Protocol):
    """Runs the runner of a hook as its local user."""

    def run(self, hook: Hook, wanted: Firing, jid: str, ended: Ended) -> None:
        """Raises RefusedError when too many wait."""
        ...


class Hooks:
    """Fires hooks. `bell` tells the other processes that something was committed."""

    def __init__(
        self,
        reactor: Reactor,
        master: Master,
        hooks: tuple[Hook, ...],
        cursor: CursorFile,
        *,
        runners: Runners | None,
        bell: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._master = master
        master.pillar_guesses = None  # targets of hooks are the operator's, who may know pillars
        self._hooks = hooks
        self._cursor = cursor
        self._runners = runners
        self._bell = bell
        self._rate = RateLimiter(1.0, MINUTE_S)
        self._depths = Depths()
        self._limited: dict[str, tuple[float, int]] = {}
        # Hooks that are new are for what comes.
        self._after = int(cursor.read().get("seq", master.store.last_seq()))
        self._save(self._after)

    def look(self) -> None:
        """Fire for what is new, and again in a moment."""
        wait_s = LOOK_S
        try:
            while self._page():
                pass
        except StoreError as error:
            log.error("hooks cannot read the event log for now: %s", error)  # noqa: TRY400 - the sentence says it all
            wait_s = AGAIN_S
        self._reactor.call_later(wait_s, self.look)

    def _page(self) -> bool:
        events = self._master.store.events(self._after, PAGE)
        for event in events:
            if event.damage:
                log.error("hooks leave out event %d (%s), which cannot be read: %s", event.seq, event.tag, event.damage)
            else:
                self._heed(event)
            self._after = event.seq
        if events:
            self._save(self._after)
        return bool(events)

    def _heed(self, event: Event) -> None:
        try:
            self._depths.note(event.tag, event.data)
            for hook in self._hooks:
                if hook.wants(event.tag, event.data):
                    self._event(hook, event)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - named supervision point: hooks for the other events still fire
            log_defect(f"event {event.seq} in the process of hooks")

    def _save(self, seq: int) -> None:
        self._cursor.write({"seq": seq})

    def _event(self, hook: Hook, event: Event) -> None:
        about = {"seq": event.seq, "tag": event.tag, "as": hook.user}
        if self._master.clock.wall() - event.at > STALE_S:
            self._tell(hook, "stale", about)
            return
        depth = self._depths.of(event.tag, event.data)
        if depth >= DEPTH_MAX:
            self._tell(hook, "loop", {**about, "reason": f"{depth} hooks in a row have led to this event"})
            return
        if self._rate.take(hook.name, self._master.clock.monotonic(), MINUTE_S / hook.rate):
            self._hold_back(hook, about)
            return
        try:
            self._tell(hook, "fired", {**about, **self._fire(hook, event, depth + 1)})
        except StoreError:
            raise
        except SaltliteError as error:
            self._tell(hook, "refused", {**about, "reason": str(error)[:500]})
        except Exception:  # noqa: BLE001 - named supervision point: this hook is refused, and the next one fires
            log_defect(f"hook {hook.name}")
            self._tell(hook, "refused", {**about, "reason": DEFECT})

    def _hold_back(self, hook: Hook, about: Mapping[str, Any]) -> None:
        now = self._master.clock.monotonic()
        told_at, count = self._limited.get(hook.name, (-LIMITED_S, 0))
        if now - told_at < LIMITED_S:
            self._limited[hook.name] = told_at, count + 1
            return
        self._limited[hook.name] = now, 0
        self._tell(hook, "limited", {**about, "count": count + 1, "rate": hook.rate})

    def _fire(self, hook: Hook, event: Event, depth: int) -> dict[str, Any]:
        principal, wanted = principal_of(hook.user), firing(hook, event.tag, event.data)
        if wanted.tgt is None:
            # For this process, too: when the store fails after the runner has begun, it does not begin again.
            self._after = event.seq
            self._save(event.seq)
            jid = self._runner(principal, hook, wanted)
        else:
            jid = self._job(principal, hook, wanted, event)
        self._depths.begun(jid, depth)
        return {"jid": jid, "fun": wanted.fun}

    def _job(self, principal: Principal, hook: Hook, wanted: Firing, event: Event) -> str:
        name = f"{self._master.store.store_id()}:{hook.name}:{event.seq}"
        request = {
            "request_id": hashlib.sha256(name.encode()).hexdigest()[:32],
            "tgt": wanted.tgt,
            "tgt_type": wanted.tgt_type,
            "calls": [[wanted.fun, wanted.args, wanted.kwargs]],
            "origin": f"hook {hook.name}, event {event.seq}",
        }
        self._master.begin_request()
        return str(handle_publish(self._master, principal, request).fields["jid"])

    def _runner(self, principal: Principal, hook: Hook, wanted: Firing) -> str:
        if self._runners is None:
            raise RefusedError("this process runs no runners")
        jid, began = jid_at(time.time_ns() // 1000), self._master.clock.monotonic()
        announced = {"jid": jid, "funs": [wanted.fun]}
        handle_runner_event(self._master, principal, announced)

        def ended(retcode: int) -> None:
            duration_ms = round((self._master.clock.monotonic() - began) * 1000)
            try:
                handle_runner_event(
                    self._master, principal, {**announced, "retcode": retcode, "duration_ms": duration_ms}
                )
            except SaltliteError as error:
                log.error("the end of a runner of hook %s is not noted: %s", hook.name, error)  # noqa: TRY400 - a sentence
            self._bell()

        self._runners.run(hook, wanted, jid, ended)
        return jid

    def _tell(self, hook: Hook, what: str, data: Mapping[str, Any]) -> None:
        level = logging.INFO if what == "fired" else logging.WARNING
        log.log(level, "hook %s, event %s: %s %s", hook.name, data["seq"], what, data.get("reason", ""))
        with self._master.store.write() as store:
            store.put_event(tag_hook_told(hook.name, what), data, self._master.clock.wall())
        self._bell()


def principal_of(user: str) -> Principal:
    """Who `as` means: a local user, or `backend:user`, who has no groups here, for these are said at a login.

    Raises RefusedError when there is no such local user.
    """
    backend, colon, name = user.partition(":")
    if colon:
        return external(backend, name, ())
    uid = uid_of(user)
    if uid < 0:
        raise RefusedError(f"there is no user {user!r} on this machine")
    return Principal(user, uid, groups=groups_of(user))
