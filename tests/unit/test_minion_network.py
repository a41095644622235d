"""The network process of a minion, and what it says of modules that change while it runs."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from saltlite.minion.processes import ipc_messages as inside
from saltlite.minion.processes.network import NetworkProcess
from saltlite.minion.protocol.connection import Changed, Effect, Phase
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.model.job import TargetState
from saltlite.model.keys import fingerprint
from saltlite.wire.framing import pack
from saltlite.wire.messages import functions_message

JID = "20270115080000000001"
OLD = functions_message(["m.f()"], whole=True)
NEW = functions_message(["m.f(a)"], whole=True)


class Connected:
    """A connection whose phase the test chooses; `sent` is what a master would have read."""

    def __init__(self) -> None:
        self.phase = Phase.BACKOFF
        self.master = "a:1"
        self.sent: list[Any] = []
        self.announced = OLD["digest"]
        self._effects: list[Effect] = []

    def enter(self, phase: Phase, reason: str = "") -> None:
        self.phase = phase
        self._effects.append(Changed(phase, reason))

    def functions_are(self, digest: str) -> None:
        self.announced = digest

    def send(self, message: Any) -> bool:
        if self.phase is Phase.READY:
            self.sent.append(message)
        return self.phase is Phase.READY

    def take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def link_up(self) -> None: ...

    def deadline(self) -> float:
        return 0.0


class Quiet:
    """A reactor, or a channel, that does nothing."""

    def call_at(self, *_: object) -> Quiet:
        return self

    def cancel(self) -> None: ...


@pytest.fixture
def connection() -> Connected:
    return Connected()


@pytest.fixture
def network(connection: Connected) -> NetworkProcess:
    key = fingerprint(b"k" * 32)
    return NetworkProcess(cast("Any", Quiet()), cast("Any", connection), lambda _: cast("Any", None), OLD, key=key)


def change(network: NetworkProcess) -> None:
    network.on_batch([pack({**inside.functions(NEW), "session": 0})])


def test_in_a_session_the_master_is_told_at_once(network: NetworkProcess, connection: Connected) -> None:
    connection.phase = Phase.READY
    change(network)
    assert (connection.sent, connection.announced) == ([NEW], NEW["digest"])


def test_a_change_while_the_session_is_being_made_is_told_when_it_is_there(
    network: NetworkProcess, connection: Connected
) -> None:
    change(network)
    assert connection.sent == []
    connection.enter(Phase.READY)
    network.on_batch([])
    connection.enter(Phase.READY)
    network.on_batch([])
    assert connection.sent == [NEW]


def test_a_refusal_is_a_warning_once_until_the_key_has_another_state(
    network: NetworkProcess, connection: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for phase, reason in [
            (Phase.REFUSED, "revoked"), (Phase.CONNECT, ""), (Phase.REFUSED, "revoked"), (Phase.REFUSED, "rejected"),
            (Phase.PENDING, "wait"), (Phase.REFUSED, "revoked"),
        ]:  # fmt: skip
            connection.enter(phase, reason)
            network.on_batch([])
    refused = [record.levelname for record in caplog.records if "refused" in record.getMessage()]
    assert refused == ["WARNING", "INFO", "WARNING", "WARNING"]


def test_what_was_on_its_way_to_one_master_does_not_reach_the_next(
    network: NetworkProcess, connection: Connected
) -> None:
    result = inside.result(JID, SpoolEntry(TargetState.RETURNED, 0, b"x", 0, 0), inline_max=10)
    for _ in range(2):
        connection.enter(Phase.READY)
        network._line.on_up()

    network.on_batch([pack({**result, "session": 1}), pack({**inside.state(JID, "running", ""), "session": 1})])
    assert connection.sent == []

    network.on_batch([pack({**result, "session": 2})])
    assert [message["t"] for message in connection.sent] == ["return"]
