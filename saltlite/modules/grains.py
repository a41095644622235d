"""Show the grains: what this minion knows of its machine.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

_SANITIZED = {
    "serialnumber": "SERIAL",
    "uuid": "UUID",
    "machine_id": "MACHINE_ID",
    "domain": "DOMAINNAME",
    "fqdn": "MINION.DOMAINNAME",
    "id": "MINION",
    "host": "MINION",
    "localhost": "MINION",
    "nodename": "MINION",
}


def items(sanitize: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    """
    All grains. With ``sanitize=True`` names and serial numbers of this machine are replaced.

    CLI Example::

        saltlite '*' grains.items
        saltlite '*' grains.items sanitize=True
    """
    shown = dict(__grains__)
    if sanitize:
        shown.update({name: text for name, text in _SANITIZED.items() if name in shown})
    return shown


def item(*args: str, default: Any = "", delimiter: str = ":") -> dict[str, Any]:
    """
    The named grains; a grain that does not exist has the value of ``default``.

    CLI Example::

        saltlite '*' grains.item os
        saltlite '*' grains.item os osrelease oscodename
        saltlite '*' grains.item host default=unknown
    """
    return {name: get(name, default, delimiter) for name in args}


def get(key: str, default: Any = "", delimiter: str = ":") -> Any:
    """
    One grain, or a value inside it: the parts of the key are separated by ``delimiter``.

    Numbers count the items of a list. A key that does not exist gives ``default``.

    CLI Example::

        saltlite '*' grains.get os
        saltlite '*' grains.get locale_info:defaultlanguage
        saltlite '*' grains.get ip4_interfaces:eth0:0
    """
    value: Any = __grains__
    if key in __grains__:
        return value[key]
    for part in str(key).split(delimiter):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return default
    return value


def ls() -> list[str]:
    """
    The names of all grains, sorted.

    CLI Example::

        saltlite '*' grains.ls
    """
    return sorted(__grains__)


def has_value(key: str) -> bool:
    """
    Whether the grain exists and is neither empty, nor zero, nor False.

    CLI Example::

        saltlite '*' grains.has_value ip4_interfaces:eth0
    """
    return bool(get(key))
