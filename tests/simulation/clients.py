"""A client in the simulation: `saltlite.client.follower` decides what it does; this file connects, sends and waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.client.follower import RESUME_PAUSE_S, Follower, Open, Progress, Published, WaitPolicy
from saltlite.errors import UnreachableError
from saltlite.wire.framing import pack, unpack
from tests.simulation.universe import End, Process, SimChannel, SimReactor

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet
    from tests.simulation.masters import SimMaster


class SimClient:
    """One run of `saltlite`."""

    def __init__(self, fleet: Fleet, master: SimMaster, request: Mapping[str, Any], patience: WaitPolicy) -> None:
        self.name = f"client{len(fleet.clients) + 1}"
        self.progress: Progress | None = None
        self.over = False
        self._fleet = fleet
        self.master = master
        self._request = {"v": 1, "verb": "publish", "follow": True, **request}
        self._patience = patience
        self._channel: SimChannel | None = None
        self._follower: Follower | None = None
        self._opening: Open | None = None
        """The action whose request has no answer yet."""
        self._asked_at = 0.0
        self._reads = 0
        """Numbers the reads, so that the timeout of an earlier one does nothing."""
        self._process = Process(fleet.universe, self.name, lambda _process, _power: None)
        self._reactor: Any = SimReactor(self._process)
        self._note("asked", request=request["request_id"])
        fleet.universe.at(fleet.universe.now, self._publish, self._process)

    def cut(self) -> None:
        """Its connection breaks."""
        if self._channel is not None and not self.over:
            self._process.run(self._lose)

    def _note(self, kind: str, **fields: Any) -> None:
        self._fleet.history.note(kind, client=self.name, **fields)

    # -- the connection

    def _publish(self) -> None:
        try:
            self._send(self._request)
        except UnreachableError:
            self._reactor.call_later(RESUME_PAUSE_S, self._publish)

    def _send(self, request: Mapping[str, Any]) -> None:
        """Send the request on a connection of its own. Raises UnreachableError."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        end: End = self._fleet.universe.connect(f"{self.master.name}/clients")
        self._asked_at = self._fleet.universe.now
        channel = self._channel = SimChannel(self._reactor, end, self._heard, lambda _reason: self._lost(channel))
        channel.send(pack(dict(request)))

    def _lose(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._lost(self._channel)

    def _lost(self, channel: SimChannel) -> None:
        if channel is not self._channel or self.over:
            return
        self._channel = None
        if self._follower is None:
            self._reactor.call_later(RESUME_PAUSE_S, self._publish)
        elif self._opening is not None:
            self._failed(self._follower)
        else:
            self._follower.lost()
            self._step()

    def _failed(self, follower: Follower) -> None:
        self._opening = None
        try:
            follower.failed(UnreachableError("the master is away"), self._fleet.universe.now)
        except UnreachableError:
            # It says that the master went away, and calls nobody missing.
            self.over = True
            return
        self._reactor.call_later(RESUME_PAUSE_S, self._step)

    # -- what the master says

    def _heard(self, batch: list[bytes]) -> None:
        for data in batch:
            message = unpack(data)
            if self.over or self._channel is None:
                return
            if "ok" in message:
                self._answered(message)
            elif self.progress is not None and self._follower is not None:
                self._news(self.progress, message)
                self._follower.received(message)
        self._step()

    def _answered(self, message: dict[str, Any]) -> None:
        if not message["ok"]:
            # It says that sentence, and calls nobody missing.
            self._fleet.say(self.name, f"is told: {message['error']}")
            self.over = True
        elif self._follower is not None and self._opening is not None:
            self._follower.opened(self._opening)
            self._opening = None
        else:
            published = Published(message)
            self.progress = Progress(published, now=self._fleet.universe.now)
            self._follower = Follower(self.progress, self._patience, live=True)
            self._note(
                "published",
                request=self._request["request_id"],
                jid=published.jid,
                minions=[*published.minions, *published.managing],
                owners=dict(published.managing),
            )

    def _news(self, progress: Progress, message: Mapping[str, Any]) -> None:
        seqs = {row["id"]: row["seq"] for row in message["returns"]}
        for reply in progress.apply(message, now=self._fleet.universe.now).replies:
            self._note("shown", jid=progress.published.jid, minion=reply.id, seq=seqs[reply.id])

    # -- what the follower wants next

    def _step(self) -> None:
        follower, progress = self._follower, self.progress
        if follower is None or progress is None or self.over or self._opening is not None:
            return
        self._reads += 1
        action = follower.next(self._fleet.universe.now)
        if action is None:
            self._close(progress)
        elif isinstance(action, Open):
            self._open(follower, action)
        elif action.timeout_s is not None:
            number = self._reads
            self._reactor.call_later(action.timeout_s + 1e-6, lambda: self._timed_out(follower, number))

    def _open(self, follower: Follower, action: Open) -> None:
        self._opening = action
        try:
            self._send({"v": 1, "verb": "follow", **action.fields})
        except UnreachableError:
            self._failed(follower)

    def _timed_out(self, follower: Follower, number: int) -> None:
        if number != self._reads or self.over:
            return
        try:
            follower.received(None)
        except UnreachableError:
            self.over = True
        else:
            self._step()

    def _close(self, progress: Progress) -> None:
        self.over = True
        looked = {} if progress.ended else {"asked_at": self._asked_at}
        self._note("closed", jid=progress.published.jid, missing=progress.missing(), **looked)
        if self._channel is not None:
            self._channel.close()
