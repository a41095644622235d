"""The process of hooks: it follows the event log by a cursor, and begins the jobs and runners of hooks that match.

Each one is authorised at that moment by the handler that serves clients, as if its user had asked. A job begins once
per event even if the process dies repeatedly, because its request id follows from the event; a runner begins at most
once, because the cursor is written first.

Each runner runs in its own process as the hook's user, started by a separate process (`Starter`), which keeps the
rights of the master's start. Its only input is a socket pair with the process of hooks, which names the hook and the
arguments; user and function come from the starter's own copy of the configuration, so a compromised process of hooks
cannot run anything else.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from saltlite.auth.acl import Principal
from saltlite.auth.logins import external
from saltlite.errors import CursorLostError, RefusedError, SaltliteError, StoreError
from saltlite.hooks import DEPTH_MAX, Depths, Firing, Hook, firing
from saltlite.limits import RateLimiter
from saltlite.master.handlers.operator_verbs import carry_out
from saltlite.master.processes.context import Master
from saltlite.master.processes.runners import MESSAGE_MAX, RunnerStart, Starter
from saltlite.model.events import Event, tag_hook_event
from saltlite.model.ids import jid_at
from saltlite.platform.files import EventLogCursor
from saltlite.platform.logs import DEFECT, log_defect
from saltlite.platform.privileges import groups_of, uid_of
from saltlite.platform.process import set_parent_death_signal, set_title
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel
from saltlite.wire.framing import pack, unpack

log = logging.getLogger(__name__)

PAGE = 200
LOOK_S = 0.2
"""The interval of reading the event log."""
AGAIN_S = 2.0
"""After this time a failed read of the store is repeated."""
STALE_S = 600.0
"""No hook fires for an older event: the master was down, and its cause is over."""
LIMITED_S = 60.0
"""The least interval between events that tell that a hook exceeds its rate."""

MINUTE_S = 60.0
"""What the bucket of a hook holds, in seconds; each firing takes its part of it."""

Ended = Callable[[int], None]
"""Called with the retcode of a runner."""


class RunnerPort(Protocol):
    """Runs the runner of a hook as its local user."""

    def run(self, hook: Hook, wanted: Firing, jid: str, ended: Ended) -> None:
        """Raises RefusedError when too many wait."""
        ...


class Hooks:
    """Fires hooks. `wake_up` tells the other processes that something was committed."""

    def __init__(
        self,
        reactor: Reactor,
        master: Master,
        hooks: tuple[Hook, ...],
        cursor: EventLogCursor,
        *,
        runners: RunnerPort | None,
        wake_up: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._master = master
        master.pillar_guesses = None  # targets of hooks are the operator's, who may know pillars
        self._hooks = hooks
        self._cursor = cursor
        self._runners = runners
        self._wake_up = wake_up
        self._rate = RateLimiter(1.0, MINUTE_S)
        self._depths = Depths()
        self._limited: dict[str, tuple[float, int]] = {}
        self._after = 0
        self._fires = False
        self._begin()

    def _begin(self) -> None:
        """Go on from the cursor, unless another master fires the hooks."""
        kept = self._cursor.read()
        if kept is not None:
            # New hooks fire for new events only.
            self._after = int(kept.get("seq", self._master.store.last_seq()))
            self._save(self._after)
            self._fires = True

    def look(self) -> None:
        """Fire for new events, and schedule the next look."""
        wait_s = LOOK_S
        try:
            if not self._fires:
                self._begin()
                wait_s = AGAIN_S
            while self._fires and self._page():
                pass
        except CursorLostError:
            log.warning("another master fires the hooks now")
            self._fires = False
        except StoreError as error:
            log.error("hooks cannot read the event log for now: %s", error)  # noqa: TRY400 - the sentence says it all
            wait_s = AGAIN_S
        self._reactor.call_later(wait_s, self.look)

    def _page(self) -> bool:
        events = self._master.store.events(self._after, PAGE)
        for event in events:
            if event.damage:
                log.error("hooks skip event %d (%s), which cannot be read: %s", event.seq, event.tag, event.damage)
            else:
                self._fire_for(event)
            self._after = event.seq
        if events:
            self._save(self._after)
        return bool(events)

    def _fire_for(self, event: Event) -> None:
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
            self._record_event(hook, "stale", about)
            return
        depth = self._depths.of(event.tag, event.data)
        if depth >= DEPTH_MAX:
            self._record_event(hook, "loop", {**about, "reason": f"{depth} hooks in a row have led to this event"})
            return
        if self._rate.take(hook.name, self._master.clock.monotonic(), MINUTE_S / hook.rate):
            self._limit(hook, about)
            return
        try:
            self._record_event(hook, "fired", {**about, **self._fire(hook, event, depth + 1)})
        except StoreError:
            raise
        except SaltliteError as error:
            self._record_event(hook, "refused", {**about, "reason": str(error)[:500]})
        except Exception:  # noqa: BLE001 - named supervision point: this hook is refused, and the next one fires
            log_defect(f"hook {hook.name}")
            self._record_event(hook, "refused", {**about, "reason": DEFECT})

    def _limit(self, hook: Hook, about: Mapping[str, Any]) -> None:
        now = self._master.clock.monotonic()
        told_at, count = self._limited.get(hook.name, (-LIMITED_S, 0))
        if now - told_at < LIMITED_S:
            self._limited[hook.name] = told_at, count + 1
            return
        self._limited[hook.name] = now, 0
        self._record_event(hook, "limited", {**about, "count": count + 1, "rate": hook.rate})

    def _fire(self, hook: Hook, event: Event, depth: int) -> dict[str, Any]:
        principal = principal_of(hook.user, differs=bool(self._master.config.realm))
        wanted = firing(hook, event.tag, event.data)
        if wanted.tgt is None:
            # Set here, too: if the store fails after the runner began, it must not begin again.
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
        return str(carry_out(self._master, principal, "publish", request).fields["jid"])

    def _runner(self, principal: Principal, hook: Hook, wanted: Firing) -> str:
        if self._runners is None:
            raise RefusedError("this process runs no runners")
        jid, began = jid_at(int(self._master.clock.wall() * 1e6)), self._master.clock.monotonic()
        announced = {"jid": jid, "funs": [wanted.fun]}
        carry_out(self._master, principal, "runner_event", announced)

        def ended(retcode: int) -> None:
            duration_ms = round((self._master.clock.monotonic() - began) * 1000)
            try:
                request = {**announced, "retcode": retcode, "duration_ms": duration_ms}
                carry_out(self._master, principal, "runner_event", request)
            except SaltliteError as error:
                log.error("the end of a runner of hook %s is not noted: %s", hook.name, error)  # noqa: TRY400 - a sentence
            self._wake_up()

        self._runners.run(hook, wanted, jid, ended)
        return jid

    def _record_event(self, hook: Hook, what: str, data: Mapping[str, Any]) -> None:
        level = logging.INFO if what == "fired" else logging.WARNING
        log.log(level, "hook %s, event %s: %s %s", hook.name, data["seq"], what, data.get("reason", ""))
        with self._master.store.write() as store:
            store.put_event(tag_hook_event(hook.name, what), data, self._master.clock.wall())
        self._wake_up()


def principal_of(user: str, *, differs: bool) -> Principal:
    """The principal of `as`: a local user, or `backend:user`, without groups, which are known only after a login.
    `differs`: the uid of a local user may differ between masters.

    Raises RefusedError when there is no such local user.
    """
    backend, colon, name = user.partition(":")
    if colon:
        return external(backend, name, ())
    uid = uid_of(user)
    if uid < 0:
        raise RefusedError(f"there is no user {user!r} on this machine")
    # If another master takes over the hook, it has to find the jobs that this one began (G2).
    return Principal(user, uid, groups=groups_of(user), is_of_hook=differs)


WAITING_MAX = 64
"""Runners of hooks that have not ended; more are refused."""
TITLE = "hook runners"


class HookRunners:
    """The client of the starter, in the process of hooks."""

    def __init__(self, reactor: Reactor, sock: socket.socket) -> None:
        self._open: dict[int, Callable[[int], None]] = {}
        self._numbers = 0
        self._channel = Channel(
            reactor,
            sock,
            self._received,
            lambda _reason: reactor.stop(),
            message_max=MESSAGE_MAX,
            send_buffer_max=64 * MESSAGE_MAX,
        )

    def run(self, hook: Hook, wanted: Firing, jid: str, ended: Callable[[int], None]) -> None:
        """Run the runner of a hook; `ended` gets its retcode. Raises RefusedError: too many, or too large."""
        if len(self._open) >= WAITING_MAX:
            raise RefusedError(f"{WAITING_MAX} runners of hooks have not ended yet")
        self._numbers += 1
        message = {"n": self._numbers, "hook": hook.name, "args": wanted.args, "kwargs": wanted.kwargs, "jid": jid}
        packed = pack(message)
        if len(packed) > MESSAGE_MAX:
            raise RefusedError(f"its arguments have {len(packed)} bytes, and may have {MESSAGE_MAX}")
        self._open[self._numbers] = ended
        self._channel.send(packed)

    def _received(self, batch: list[bytes]) -> None:
        for data in batch:
            response = unpack(data)
            self._open.pop(response["n"])(response["retcode"])


def start_starter(hooks: tuple[Hook, ...], config_dir: str) -> socket.socket | None:
    """Fork the starter, which ends with this process; returns its socket, None if no hook has a runner."""
    if all(hook.tgt is not None for hook in hooks):
        return None
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork() == 0:
        try:
            set_parent_death_signal(signal.SIGKILL, parent)
            for signum in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signum, signal.SIG_IGN)  # it ends when the process of hooks does
            ours.close()
            set_title(TITLE)
            known = {hook.name: hook for hook in hooks if hook.tgt is None}
            Starter(config_dir, functools.partial(run_of_hook, known)).serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return ours


def run_of_hook(hooks: Mapping[str, Hook], message: Mapping[str, Any]) -> RunnerStart:
    """The runner for a request of the process of hooks. Raises KeyError for a hook that is not in the configuration."""
    hook = hooks[message["hook"]]
    return RunnerStart(
        f"hook {hook.name}", hook.user, hook.fun, message["args"], message["kwargs"], message["jid"], hook.user
    )
