"""The notify protocol, against a socket that plays systemd."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from saltlite.master.processes import store_opening
from saltlite.platform.supervision import notify, watchdog_interval_s


@pytest.fixture(params=["path", "abstract"])
def init(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        if request.param == "path":
            sock.bind(str(tmp_path / "notify"))
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        else:
            sock.bind(f"\0saltlite-test-{os.getpid()}")
            monkeypatch.setenv("NOTIFY_SOCKET", f"@saltlite-test-{os.getpid()}")
        sock.settimeout(60)
        yield sock


def test_systemd_gets_all_lines_in_one_message(init: socket.socket) -> None:
    assert notify(["READY=1", "STATUS=4 minions of 5 are up"])
    assert init.recv(4096) == b"READY=1\nSTATUS=4 minions of 5 are up"


def test_a_status_cannot_bring_another_line(init: socket.socket) -> None:
    assert notify(["STATUS=connection: refused (why\nMAINPID=1)", "READY=1"])
    assert init.recv(4096) == b"STATUS=connection: refused (why MAINPID=1)\nREADY=1"


def test_systemd_waits_for_a_store_that_takes_long(init: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_opening, "EXTEND_S", 0.2)

    class Store:
        def count_keys(self, _state: object) -> int:
            time.sleep(0.3)  # longer than half of EXTEND_S
            return 7

        def close(self) -> None:
            pass

    monkeypatch.setattr(store_opening, "drop_to", lambda _user: None)
    assert store_opening.opened_as("root", lambda: cast("Any", Store)) == 7
    assert init.recv(4096).startswith(b"EXTEND_TIMEOUT_USEC=200000\n")


def test_an_init_system_that_does_not_read_never_blocks_the_daemon(init: socket.socket) -> None:
    for _ in range(100_000):
        if not notify(["WATCHDOG=1"]):
            return
    pytest.fail("the queue of the socket never filled up")


@pytest.mark.parametrize("path", [None, "", "relative", "/nowhere/notify"])
def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch, path: str | None) -> None:
    if path is None:
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    else:
        monkeypatch.setenv("NOTIFY_SOCKET", path)
    assert not notify(["READY=1"])


@pytest.mark.parametrize(
    ("usec", "pid", "interval"),
    [
        ("30000000", None, 15.0),
        ("30000000", "mine", 15.0),
        ("30000000", "1", None),
        ("0", None, None),
        ("soon", None, None),
        (None, None, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_systemd_asks(
    monkeypatch: pytest.MonkeyPatch, usec: str | None, pid: str | None, interval: float | None
) -> None:
    for name, value in (
        ("WATCHDOG_USEC", usec),
        ("WATCHDOG_PID", str(os.getpid()) if pid == "mine" else pid),
    ):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert watchdog_interval_s() == interval
