"""What a job's process asks of the minion, and how long it waits for that."""

from __future__ import annotations

import socket

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.minion.jobs import rpc_client as errands
from saltlite.minion.jobs.rpc_client import RpcClient
from saltlite.wire.framing import framed, pack


def test_a_refresh_that_takes_too_long_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "REFRESH_S", 0.01)
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        pytest.raises(CommandExecutionError, match=r"its pillar after 0\.01 s, and goes on"),
    ):
        RpcClient(ours.fileno()).refresh("pillar")


@pytest.mark.parametrize(("names", "reason"), [(["the disk is full"], ": the disk is full."), ([], ".")])
def test_a_master_that_stays_busy_is_not_asked_for_ever_and_its_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, names: list[str], reason: str
) -> None:
    monkeypatch.setattr(errands, "BUSY_S", 0.02)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for number in range(1, 9):
            theirs.sendall(framed(pack({"t": "response", "n": number, "state": "busy", "names": names})))
        with pytest.raises(CommandExecutionError) as raised:
            RpcClient(ours.fileno(), patience_s=0.05).request({"t": "ask", "n": 0})
    assert str(raised.value) == f"The master could not take the request for 0.05 s{reason}"
