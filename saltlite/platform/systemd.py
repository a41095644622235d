"""Telling systemd how the daemon is, by the protocol of sd_notify(3), without its library."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from saltlite.platform.reactor import Reactor


def notify(state_lines: Iterable[str]) -> bool:
    """Send lines such as `READY=1` or `STATUS=…`; whether an init system that listens took them.

    Without systemd (no NOTIFY_SOCKET) nothing happens. Never waits and never raises: a daemon does its work
    whether or not somebody looks on. What stands behind a newline in one of them is not a line of its own: a status
    may tell what came from a process with fewer rights, which must not speak to the init system for this one.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.sendto("\n".join(line.replace("\n", " ") for line in state_lines).encode(), address)
        except OSError:
            return False
    return True


def watchdog_interval_s() -> float | None:
    """How often to send `WATCHDOG=1`, seconds: half of what systemd allows; None when it does not ask us."""
    allowed_us = os.environ.get("WATCHDOG_USEC", "")
    for_pid = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not allowed_us.isdigit() or int(allowed_us) == 0 or for_pid != str(os.getpid()):
        return None
    return int(allowed_us) / 2_000_000


def feed_watchdog(reactor: Reactor) -> None:
    """Send `WATCHDOG=1` from now on, as often as systemd asks for; nothing where it does not."""
    interval_s = watchdog_interval_s()
    if interval_s is not None:
        notify(["WATCHDOG=1"])
        reactor.call_later(interval_s, lambda: feed_watchdog(reactor))
