"""Wake machines by their hardware addresses, with packets from the master's machine.

A packet reaches the network of its broadcast address only, and nothing confirms it: ``manage.up`` shows who has come.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.plugins._wake_on_lan import send

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_EVERYBODY = "255.255.255.255"
_PORT = 9
_NONE = "00:00:00:00:00:00"


def wol(mac: str, bcast: str = _EVERYBODY, destport: int = _PORT) -> bool:
    """Send a wake-on-LAN packet for a hardware address; True when it was sent.

    CLI Example::

        saltlite-run network.wol 08-00-27-13-69-77
        saltlite-run network.wol 08:00:27:13:69:77 192.0.2.255 7
    """
    send(mac, bcast, destport)
    return True


def wollist(maclist: str, bcast: str = _EVERYBODY, destport: int = _PORT) -> list[str]:
    """Send a packet for each line of a file of hardware addresses, and return them. Empty lines and comments after
    ``#`` are skipped.

    CLI Example: ``saltlite-run network.wollist /srv/wake-up.txt``
    """
    try:
        with open(maclist, encoding="utf-8", errors="replace") as file:
            found = [mac for line in file if (mac := line.partition("#")[0].strip())]
    except OSError as error:
        raise CommandExecutionError(f"{maclist} cannot be read: {error.strerror}.") from error
    return _woken(found, bcast, destport)


def wolmatch(tgt: str, tgt_type: str = "glob", bcast: str = _EVERYBODY, destport: int = _PORT) -> list[str]:
    """Send a packet for each interface of the minions that match, as far as their cached grains name it; return the
    hardware addresses.

    CLI Example::

        saltlite-run network.wolmatch 'web*'
        saltlite-run network.wolmatch 192.0.2.0/24 tgt_type=ipcidr bcast=192.0.2.255
    """
    grains: dict[str, dict[str, Any]] = __salt__["cache.grains"](tgt, tgt_type)
    every = [mac for of in grains.values() for name, mac in (of.get("hwaddr_interfaces") or {}).items() if name != "lo"]
    return _woken([mac for mac in every if mac != _NONE], bcast, destport)


def _woken(macs: list[str], bcast: str, destport: int) -> list[str]:
    for mac in macs:
        send(mac, bcast, destport)
    return macs
