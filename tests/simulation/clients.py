"""A client in the simulation: it asks, follows and gives up by the rules of `saltlite.client`, without blocking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.client.follower import RESUME_FOR_S, Progress, Published, WaitPolicy
from saltlite.errors import UnreachableError
from saltlite.wire.framing import pack, unpack
from tests.simulation.universe import End, Process, SimChannel, SimReactor

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet
    from tests.simulation.masters import SimMaster

AGAIN_S = 0.2
"""Until the next try to reach the master."""


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
        self._lost_at: float | None = None
        self._asked_at = 0.0
        self._looking = False
        self._looked = False
        self._process = Process(fleet.universe, self.name, lambda _process, _power: None)
        self._reactor: Any = SimReactor(self._process)
        self._note("asked", request=request["request_id"])
        fleet.universe.at(fleet.universe.now, self._connect, self._process)

    def cut(self) -> None:
        """Its connection breaks."""
        if self._channel is not None and not self.over:
            self._process.run(self._lose)

    def _note(self, kind: str, **fields: Any) -> None:
        self._fleet.history.note(kind, client=self.name, **fields)

    # -- the connection

    def _connect(self) -> None:
        if self.over or self._channel is not None:
            return
        if self._lost_at is None:
            self._lost_at = self._fleet.universe.now
        try:
            end: End = self._fleet.universe.connect(f"{self.master.name}/clients")
        except UnreachableError:
            self._again()
            return
        self._asked_at = self._fleet.universe.now
        channel = self._channel = SimChannel(self._reactor, end, self._heard, lambda _reason: self._lost(channel))
        if self.progress is None:
            channel.send(pack(self._request))
        else:
            follow = {"v": 1, "verb": "follow", "jid": self.progress.published.jid, "after": self.progress.seq}
            channel.send(pack(follow | {"once": self._looking}))

    def _again(self) -> None:
        lost_at = self._fleet.universe.now if self._lost_at is None else self._lost_at
        if self.progress is not None and self._fleet.universe.now >= lost_at + RESUME_FOR_S:
            # It says that the master went away, and calls nobody missing.
            self.over = True
            return
        self._reactor.call_later(AGAIN_S, self._connect)

    def _lose(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._lost(self._channel)

    def _lost(self, channel: SimChannel) -> None:
        if channel is self._channel:
            self._channel = None
            if not self.over:
                self._again()

    # -- what the master says

    def _heard(self, batch: list[bytes]) -> None:
        self._lost_at = None
        for data in batch:
            message = unpack(data)
            if self.over or self._channel is None:
                return
            if "ok" in message:
                self._answered(message)
            elif self.progress is not None:
                self._news(self.progress, message)
        self._wait()

    def _answered(self, message: dict[str, Any]) -> None:
        if not message["ok"]:
            # It says that sentence, and calls nobody missing.
            self._fleet.say(self.name, f"is told: {message['error']}")
            self.over = True
        elif self.progress is None:
            published = Published(message)
            self.progress = Progress(published, now=self._fleet.universe.now)
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
        if message.get("so_far"):
            self._looked = True

    # -- waiting

    def _wait(self) -> None:
        progress = self.progress
        if progress is None or self.over or self._channel is None:
            return
        patience_s = progress.wait_s(self._patience, now=self._fleet.universe.now)
        if patience_s == 0.0 and (progress.ended or self._looked):
            self._close(progress)
        elif patience_s == 0.0 and not self._looking:
            self._look(looking=True)
        elif patience_s != 0.0 and self._looked:
            self._look(looking=False)
        elif patience_s is not None and patience_s > 0.0:
            self._reactor.call_later(patience_s + 1e-6, self._wait)

    def _look(self, *, looking: bool) -> None:
        """Take the stream up anew: for a last look at what is stored, or to wait on after one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._looking, self._looked = looking, False
        self._connect()

    def _close(self, progress: Progress) -> None:
        self.over = True
        looked = {} if progress.ended else {"asked_at": self._asked_at}
        self._note("closed", jid=progress.published.jid, missing=progress.missing(), **looked)
        if self._channel is not None:
            self._channel.close()
