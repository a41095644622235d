"""Strangers that only hold connections: thousands from few networks, and an honest minion from elsewhere."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator

import pytest

from saltlite.wire.limits import UNAUTHENTICATED_PER_NETWORK
from tests.support.fleet import Fleet, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

STRANGERS = 3000


@contextlib.contextmanager
def silent(port: int, addresses: list[str]) -> Iterator[list[socket.socket]]:
    """A connection from each of these addresses of loopback, which says nothing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * STRANGERS)), hard))
    with contextlib.ExitStack() as stack:
        made = []
        for address in addresses:
            with contextlib.suppress(OSError):
                made.append(
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), 5, source_address=(address, 0)))
                )
        yield made


def still_open(connections: list[socket.socket]) -> int:
    """How many of them the master has not ended."""
    count = 0
    for each in connections:
        each.setblocking(False)
        try:
            while each.recv(4096):
                pass
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count


def strangers(fleet: Fleet) -> int:
    with fleet.client() as client:
        return int(client.call("status")["link"]["unauthenticated"])


def test_three_thousand_silent_strangers_of_one_network_keep_nobody_out(fleet: Fleet) -> None:
    fleet.start_master(handshakes_per_address=10)
    token = fleet.token("--uses", "2")
    fleet.start_minion("before", join_token=token)
    fleet.wait_up("before")
    port = int(fleet.address().rpartition(":")[2])

    with silent(port, ["127.0.0.2"] * STRANGERS) as connections:
        assert len(connections) > STRANGERS * 0.9
        wait_until(lambda: still_open(connections) <= UNAUTHENTICATED_PER_NETWORK, "the others were hung up on")
        assert 0 < strangers(fleet) <= UNAUTHENTICATED_PER_NETWORK
        fleet.start_minion("after", join_token=token)
        fleet.wait_up("before", "after")
        answer = fleet.cli("--out", "json", "*", "test.ping").json()
        assert answer == {"before": True, "after": True}


def test_three_thousand_silent_strangers_of_as_many_networks_keep_nobody_out(fleet: Fleet) -> None:
    fleet.start_master(handshakes_per_address=10)
    port = int(fleet.address().rpartition(":")[2])
    addresses = [
        f"127.{1 + number // 65536}.{number // 256 % 256}.{number % 256}" for number in range(1, STRANGERS + 1)
    ]

    with silent(port, addresses) as connections:
        assert len(connections) > STRANGERS * 0.9
        wait_until(lambda: strangers(fleet) > STRANGERS * 0.9, "the master has counted them")
        fleet.join("after")
        assert fleet.cli("--out", "json", "after", "test.ping").json() == {"after": True}
