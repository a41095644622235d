"""Beacons: functions that check the machine at intervals and send events to the master.

They run in a separate process, one after the other. The process is replaced when the configuration, the pillar, the
grains or the plug-ins change, and killed when a beacon takes longer than CHECK_S. Events have the tag
`salt/beacon/ID/NAME/…`. The master accepts only tags with the minion's own id.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from saltlite.errors import SaltInvocationError, UsageError
from saltlite.loader.encode import RETURN_MAX, decode_return, encode_whole
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.minion.jobs.job_process import JobContext, fork_with_socket, stand_alone
from saltlite.minion.jobs.rpc_client import event_message
from saltlite.minion.timers.changes import KeptChanges
from saltlite.minion.timers.schedule import NEVER
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.events import tag_beacon
from saltlite.model.ids import MinionId
from saltlite.platform.process import Child, set_title
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import Channel
from saltlite.wire.framing import IpcMessage, framed, pack, read_frame, unpack
from saltlite.wire.messages import Message

log = logging.getLogger(__name__)

KIND = "beacons"
"""The plug-in type."""
FILE = "beacons"
"""In data_dir: the changes that functions made."""
TITLE = "saltlite-beacons"
INTERVAL_S = 1.0
"""The default interval of a beacon, as in Salt."""
INTERVAL_MAX_S = 365 * 86_400.0
CHECK_S = 60.0
"""Seconds that one beacon may take. After that its process is killed, and the beacon is paused for REST_S."""
REST_S = 600.0
BEACONS_MAX = 128
"""Configured beacons. Further ones are not used."""
EVENTS_AT_ONCE = 100
"""Events that one call of a beacon may return. Further ones are dropped, and counted in the log."""
EVENTS_WAITING = 1000
"""Events that wait for the master. The oldest is dropped first, and counted in the log."""
BUSY_S = 0.5
"""Seconds until an event is sent again when the master was busy."""
FILES_LOOK_S = 3.0
"""Seconds between two checks whether the process is outdated."""
MESSAGE_MAX = 16 * 1024 * 1024
_FOR_THE_MINION = frozenset({"interval", "enabled", "disable_during_state_run", "run_once", "beacon_module"})
"""Settings that every beacon has. Its function does not see them."""

Ask = Callable[[Message, Callable[[Message], None]], None]


@dataclass(slots=True)
class _Beacon:
    """One configured beacon; `next_at` is monotonic seconds."""

    written: Any
    module: str
    config: list[dict[str, Any]]
    interval_s: float
    enabled: bool = True
    not_during_states: bool = False
    run_once: bool = False
    next_at: float = 0.0


def read_beacon(name: str, written: Any) -> _Beacon:
    """Check the settings that every beacon has. Raises UsageError."""
    place = f"beacon {str(name)[:80]}"
    if isinstance(written, Mapping):
        written = [{key: value} for key, value in written.items()]
    if not isinstance(written, list) or not all(isinstance(one, Mapping) for one in written):
        raise UsageError(f"{place}: its configuration is a list of maps")
    about: dict[str, Any] = {}
    for one in written:
        about.update(one)
    interval = about.get("interval", INTERVAL_S)
    if type(interval) not in (int, float) or not INTERVAL_S <= interval <= INTERVAL_MAX_S:
        raise UsageError(f"{place}: interval is a number of seconds, {INTERVAL_S:g} at least")
    for flag in ("enabled", "disable_during_state_run", "run_once"):
        if not isinstance(about.get(flag, False), bool):
            raise UsageError(f"{place}: {flag} is true or false")
    module = about.get("beacon_module", name)
    if not isinstance(module, str) or not module.isidentifier():
        raise UsageError(f"{place}: there is no beacon module {str(module)[:40]!r}")
    kept = ({key: value for key, value in one.items() if key not in _FOR_THE_MINION} for one in written)
    return _Beacon(
        written=written,
        module=module,
        config=[one for one in kept if one],
        interval_s=float(interval),
        enabled=about.get("enabled", True),
        not_during_states=about.get("disable_during_state_run", False),
        run_once=about.get("run_once", False),
    )


class Beacons:
    """The beacons of a minion. `ask` sends an event; `runs_states` says whether a job of states runs.

    `due` is called by the timer loop, `changed` when the next time may have changed.
    """

    def __init__(
        self,
        reactor: Reactor,
        clock: Clock,
        context: JobContext,
        ask: Ask,
        runs_states: Callable[[], bool],
        data_dir: str,
    ) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._reactor = reactor
        self._clock = clock
        self._context = context
        self._runs_states = runs_states
        self._changes = KeptChanges(os.path.join(data_dir, FILE))
        self._beacons: dict[str, _Beacon] = {}
        self._events = EventQueue(reactor, ask)
        self._process: _Process | None = None
        self._stamp: tuple[object, ...] = ()
        self._index: Index | None = None
        self._look_at = 0.0
        """When the plug-ins, the grains and the pillar are compared again."""
        self._checking = ""
        self._deadline: Timer | None = None
        self._open = False

    # -- what happens

    def configure(self) -> None:
        """Use the present configuration and pillar."""
        self._open = True
        beacons: dict[str, _Beacon] = {}
        for name, written in self._wanted().items():
            known = self._beacons.get(name)
            if len(beacons) >= BEACONS_MAX:
                log.error("a beacon is not used: a minion has at most %d, and %s is beyond them", BEACONS_MAX, name)
                continue
            try:
                beacon = read_beacon(name, written)
            except UsageError as error:
                log.error("a beacon is not used: %s", error)  # noqa: TRY400 - a sentence
                continue
            beacons[name] = known if known is not None and known.written == beacon.written else beacon
        self._beacons = beacons
        self.changed()

    def next_time(self) -> float:
        """When the next beacon is due, in monotonic seconds; infinity for never."""
        if self._checking or not self._changes.enabled:
            return NEVER
        return min((one.next_at for one in self._beacons.values() if one.enabled), default=NEVER)

    def due(self) -> None:
        """Run the beacons that are due, the one that has been due for the longest time first."""
        now = self._clock.monotonic()
        if self._checking or not self._changes.enabled:
            return
        waiting = [(one.next_at, name) for name, one in self._beacons.items() if one.enabled and one.next_at <= now]
        if not waiting:
            self._drop_process_without_beacons()
            return
        name = min(waiting)[1]
        beacon = self._beacons[name]
        beacon.next_at = now + beacon.interval_s
        skipped = beacon.not_during_states and self._runs_states()
        self._check(name, beacon, "close" if skipped else "check")

    def _drop_process_without_beacons(self) -> None:
        if self._process is not None and not any(one.enabled for one in self._beacons.values()):
            self._stop()

    def _check(self, name: str, beacon: _Beacon, what: str) -> None:
        process = self._ready_process()
        if process is None:
            return
        self._checking = name
        process.channel.send(
            pack({"t": what, "name": name, "module": beacon.module, "config": [*beacon.config, {"_beacon_name": name}]})
        )
        self._deadline = self._reactor.call_later(CHECK_S, self._late)

    def _ready_process(self) -> _Process | None:
        """The process; a new one if the old one is outdated."""
        context, now = self._context, self._clock.monotonic()
        if self._process is not None and now < self._look_at:
            return self._process
        self._look_at = now + FILES_LOOK_S
        index = build_index(search_layers(context.opts, KIND), self._index)
        self._index = index
        stamp = (index, context.loader().index, context.grains, context.pillar, context.opts)
        if self._process is not None and any(a is not b for a, b in zip(stamp, self._stamp, strict=True)):
            self._stop()
        if self._process is None:
            try:
                self._process = _fork(self._reactor, context, index, self._answered, self._gone)
            except OSError as error:
                log.error("beacons do not run for now: %s", error.strerror)  # noqa: TRY400 - a sentence
                return None
            self._stamp = stamp
        return self._process

    def _answered(self, process: _Process, message: IpcMessage) -> None:
        if process is not self._process or not self._checking:
            return
        name, self._checking = self._checking, ""
        if self._deadline is not None:
            self._deadline.cancel()
        beacon = self._beacons.get(name)
        if message.get("problem"):
            log.error("beacon %s: %s", name, message["problem"])
            if beacon is not None:
                beacon.next_at = self._clock.monotonic() + REST_S
        elif beacon is not None and beacon.run_once and message["t"] == "checked":
            beacon.enabled = False
        if message.get("dropped"):
            log.warning("beacon %s had %d events more than %d", name, message["dropped"], EVENTS_AT_ONCE)
        minion = MinionId(self._context.opts["id"])
        for tag, data in message.get("events", ()):
            self._events.put(tag_beacon(minion, name, tag), data)
        self.changed()

    def _late(self) -> None:
        name = self._checking
        log.error("beacon %s took more than %g s: its process is killed, and it rests for %g s", name, CHECK_S, REST_S)
        self._gave_up()

    def _gone(self, process: _Process) -> None:
        if process is self._process:
            self._process = None
            if self._checking:
                log.error("beacon %s ended its process, and rests for %g s", self._checking, REST_S)
                self._gave_up()

    def _gave_up(self) -> None:
        if self._checking in self._beacons:
            self._beacons[self._checking].next_at = self._clock.monotonic() + REST_S
        self._stop()
        self.changed()

    def _stop(self) -> None:
        process, self._process = self._process, None
        self._checking = ""
        if self._deadline is not None:
            self._deadline.cancel()
        if process is not None:
            process.channel.close()
            process.child.signal(signal.SIGKILL)

    # -- configuration

    def _sources(self) -> dict[str, dict[str, Any]]:
        found = {}
        for source, values in (("opts", self._context.opts), ("pillar", self._context.pillar)):
            beacons = values.get("beacons") or {}
            found[source] = dict(beacons) if isinstance(beacons, Mapping) else {}
        return found

    def _wanted(self) -> dict[str, Any]:
        sources = self._sources()
        configured = {**sources["opts"], **sources["pillar"]}
        # Salt keeps the switch for all beacons among the entries.
        if configured.pop("enabled", True) is False:
            return {}
        return self._changes.apply(configured)

    def answer(self, operation: str, fields: Mapping[str, Any]) -> IpcMessage:
        """Carry out an operation of the functions of `beacons`. Raises UsageError."""
        handlers: dict[str, Callable[..., IpcMessage]] = {
            "list": self._list, "set": self._set, "enable": self._enable, "save": self._save, "reset": self._reset,
        }  # fmt: skip
        handler = handlers.get(operation)
        if handler is None or not self._open:
            raise UsageError(f"the beacons cannot do {operation[:40]!r} now: try again in a moment")
        try:
            return handler(**fields)
        except TypeError:
            raise UsageError(f"{operation} of the beacons does not take these fields") from None

    def _list(self) -> IpcMessage:
        pillar = self._sources()["pillar"]
        sources = {name: "pillar" if name in pillar else "opts" for name in self._beacons}
        beacons = {name: one.written for name, one in self._beacons.items()}
        return {"beacons": beacons, "enabled": self._changes.enabled, "sources": sources}

    def _set(self, name: str, config: Any, *, persist: bool = True) -> IpcMessage:
        if config is not None:
            read_beacon(name, config)
        self._changes.put(name, config, persist=persist)
        self.configure()
        return {}

    def _enable(self, *, enabled: bool, persist: bool = True) -> IpcMessage:
        self._changes.switch(enabled=enabled, persist=persist)
        self.configure()
        return {}

    def _save(self) -> IpcMessage:
        self._changes.save()
        return {}

    def _reset(self) -> IpcMessage:
        self._changes.reset()
        self.configure()
        return {}


class EventQueue:
    """Events on their way to the master, one at a time and in order."""

    def __init__(self, reactor: Reactor, ask: Ask) -> None:
        self._reactor = reactor
        self._ask = ask
        self._waiting: deque[Message] = deque()
        self._sending = False
        self._dropped = 0

    def put(self, tag: str, data: Mapping[str, Any]) -> None:
        """Send an event. One that is too large, or no event, is logged."""
        try:
            message = event_message(tag, data, "")
        except SaltInvocationError as error:
            log.error("the event %s of a beacon is not sent: %s", tag[:80], error)  # noqa: TRY400 - a sentence
            return
        if len(self._waiting) >= EVENTS_WAITING:
            self._waiting.popleft()
            if not self._dropped:
                log.warning("%d events of beacons wait for the master: the oldest are dropped", EVENTS_WAITING)
            self._dropped += 1
        self._waiting.append(message)
        self._send()

    def _send(self) -> None:
        if self._waiting and not self._sending:
            self._sending = True
            self._ask(self._waiting[0], self._answered)

    def _answered(self, response: Message) -> None:
        self._sending = False
        if response["state"] == "busy":
            self._reactor.call_later(BUSY_S, self._send)
            return
        if response["state"] != "ok":
            log.error("the master refuses an event of a beacon: %s", " ".join(response["names"]))
        if self._waiting:
            self._waiting.popleft()
        if not self._waiting and self._dropped:
            log.warning("%d events of beacons were dropped", self._dropped)
            self._dropped = 0
        self._send()


# -- The process


@dataclass(slots=True, eq=False)
class _Process:
    """The process of the beacons, as the job server sees it."""

    channel: Channel
    child: Child


def _fork(
    reactor: Reactor,
    context: JobContext,
    index: Index,
    answered: Callable[[_Process, IpcMessage], None],
    gone: Callable[[_Process], None],
) -> _Process:
    """Fork it. Raises OSError."""
    loader = context.loader()
    pid, ours = fork_with_socket(partial(_live, loader, index))
    process: _Process

    def on_batch(batch: list[bytes]) -> None:
        for data in batch:
            answered(process, unpack(data))

    channel = Channel(
        reactor, ours, on_batch, lambda _reason: gone(process), message_max=MESSAGE_MAX, send_buffer_max=MESSAGE_MAX
    )
    process = _Process(channel, Child(reactor, pid, lambda _status: None))
    return process


def _live(loader: Loader, index: Index, fd: int) -> None:
    """The life of the process: answer until the job server is gone."""
    stand_alone(fd)
    set_title(TITLE)
    beacons = loader.of_type(KIND, index)
    while (data := read_frame(partial(os.read, fd), MESSAGE_MAX)) is not None:
        answer = framed(pack(checked(beacons, unpack(data))))
        rest = memoryview(answer)
        while rest:
            rest = rest[os.write(fd, rest) :]


def checked(beacons: Mapping[str, Callable[..., Any]], asked: IpcMessage) -> IpcMessage:
    """The answer to one request: `events`, rows of a tag and data, `dropped`, or a `problem`."""
    module, config = asked["module"], asked["config"]
    try:
        if asked["t"] == "close":
            if f"{module}.close" in beacons:
                beacons[f"{module}.close"](config)
            return {"t": "closed"}
        if f"{module}.beacon" not in beacons:
            return {"t": "checked", "problem": f"there is no beacon {module} here that can be loaded"}
        if f"{module}.validate" in beacons:
            valid, comment = beacons[f"{module}.validate"](config[:-1])
            if not valid:
                return {"t": "checked", "problem": f"its configuration is not valid: {comment}"}
        raw = beacons[f"{module}.beacon"](config) or []
    except Exception as error:  # noqa: BLE001 - supervision point: the other beacons go on
        return {"t": "checked", "problem": f"{type(error).__name__}: {error}"[:1000]}
    rows = [
        [str(event.get("tag", "")), {str(key): value for key, value in event.items() if key != "tag"}]
        for event in list(raw)[:EVENTS_AT_ONCE]
        if isinstance(event, Mapping)
    ]
    # Encoded like a return, so that any value becomes plain data.
    plain = decode_return(encode_whole(rows, RETURN_MAX).body, 2 * RETURN_MAX)
    return {"t": "checked", "events": plain, "dropped": max(0, len(raw) - EVENTS_AT_ONCE)}
