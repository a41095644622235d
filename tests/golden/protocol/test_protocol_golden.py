"""The protocol as it is spoken: states, frames and messages of whole stories, compared with checked-in traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from saltlite.testing.link import Fate, Flight
from saltlite.wire import codec
from saltlite.wire.frames import SecureSession
from tests.support.memory_fleet import Fleet

Golden = Callable[[str, str], None]

FRAMES = {1: "HELLO", 2: "REPLY", 3: "AUTH", 5: "BUSY", 6: "QUERY", 7: "FLEET"}


class Trace:
    """Writes down what the machines note and what flies between them; DATA frames as the messages in them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._plain: dict[bytes, bytes] = {}
        seal = SecureSession.seal

        def sealed(session: SecureSession, plaintext: bytes) -> bytes:
            frame = seal(session, plaintext)
            self._plain[frame] = plaintext
            return frame

        monkeypatch.setattr(SecureSession, "seal", sealed)
        self.fleet = Fleet(self._fly)
        self._began = self.fleet.clock.monotonic()
        self._jids: dict[str, str] = {}
        self.lines: list[str] = []
        self.fleet.note = self._note  # type: ignore[method-assign]  # the trace is written in one place

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def _fly(self, flight: Flight) -> Fate:
        way = f"minion {flight.connection} -> master" if flight.to_server else f"master -> minion {flight.connection}"
        plain = self._plain.get(flight.frame)
        if plain is None:
            said = FRAMES[flight.frame[1]]
        else:
            message = codec.decode(plain)
            said = f"DATA {message.pop('t')}{self._fields(message)}"
        self._line(way, said)
        return Fate.DELIVER

    def _note(self, who: str, what: str) -> None:
        self._line(who, what)

    def _line(self, who: str, what: str) -> None:
        at = self.fleet.clock.monotonic() - self._began
        self.lines.append(f"{at:8.2f}  {who:20}  {what}")

    def _fields(self, message: Mapping[str, Any]) -> str:
        return "".join(f" {name}={self._value(value)}" for name, value in message.items())

    def _value(self, value: Any) -> str:
        match value:
            case bytes():
                return f"<{len(value)} bytes>"
            case list():
                return "[" + " ".join(map(self._value, value)) + "]"
            case str() if value.isdigit() and len(value) == 20:
                return self._jids.setdefault(value, f"JOB{len(self._jids) + 1}")
            case str() if " " in value or not value:
                return repr(value)
            case _:
                return str(value)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    return Trace(monkeypatch)


def test_join_by_token_job_return_revoke(trace: Trace, golden: Golden) -> None:
    fleet = trace.fleet
    minion = fleet.minion()
    fleet.run(20.0)
    jid = fleet.master.publish(["web1"])
    fleet.run(3.0)
    minion.finish(jid)
    fleet.run(3.0)
    fleet.master.change_key("web1", "revoked")
    fleet.run(3.0)
    golden("join-job-return-revoke", trace.text())


def test_first_contact_pending_accepted_large_return_killed_job_reconnect(trace: Trace, golden: Golden) -> None:
    fleet = trace.fleet
    minion = fleet.minion(token=b"", fleet_key=None)
    fleet.run(20.0)
    fleet.master.change_key("web1", "accepted")
    fleet.run(1.0)
    minion.result = b"r" * 150_000
    jid = fleet.master.publish(["web1"])
    fleet.run(1.0)
    minion.finish(jid)
    fleet.run(1.0)
    jid = fleet.master.publish(["web1"], "test.sleep")
    fleet.run(1.0)
    fleet.master.cancel(jid)
    fleet.run(1.0)
    fleet.master.manager.leave(1000)
    fleet.master.carry()
    fleet.run(3.0)
    golden("first-contact-pending-large-kill-reconnect", trace.text())


def test_a_bad_frame_and_the_way_back(trace: Trace, golden: Golden) -> None:
    fleet = trace.fleet
    minion = fleet.minion()
    fleet.run(5.0)
    minion.connection.send({"t": "grant", "jid": "20270115080000000000"})
    minion.carry()
    fleet.run(10.0)
    golden("bad-frame-and-back", trace.text())
