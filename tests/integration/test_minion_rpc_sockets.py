"""What a job's process asks of the minion, and how long it waits for that."""

from __future__ import annotations

import socket

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.minion.jobs import rpc_client as errands
from saltlite.minion.jobs.rpc_client import RpcClient


def test_a_refresh_that_takes_too_long_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "REFRESH_S", 0.01)
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        pytest.raises(CommandExecutionError, match=r"its pillar after 0\.01 s, and goes on"),
    ):
        RpcClient(ours.fileno()).refresh("pillar")
