"""The master's port when somebody still holds it: waited for, but not for ever."""

from __future__ import annotations

import socket
import time

import pytest

from saltlite.config.master import MasterConfig
from saltlite.master.processes import app
from saltlite.platform.stream import PortInUseError


def test_a_port_that_a_dying_master_still_holds_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = socket.create_server(("127.0.0.1", 0))
    port = holder.getsockname()[1]
    monkeypatch.setattr(time, "sleep", lambda _seconds: holder.close())

    with app.listen_for_minions(MasterConfig(interface="127.0.0.1", port=port)) as listener:
        assert listener.getsockname() == ("127.0.0.1", port)


def test_a_port_that_stays_in_use_is_named_after_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "PORT_WAIT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} on 127.0.0.1 is in use"):
            app.listen_for_minions(MasterConfig(interface="127.0.0.1", port=port))
