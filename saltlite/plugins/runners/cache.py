"""What the master has cached of minions: their grains, their pillar, and the grains of their resources.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saltlite.loader.hints import __client__

__func_alias__ = {"list_": "list"}
__outputter__ = dict.fromkeys(("grains", "pillar", "fetch"), "yaml")

_GRAINS, _PILLAR = "grains", "pillar"


def grains(tgt: str, tgt_type: str = "glob") -> dict[str, dict[str, Any]]:
    """The cached grains of each minion; nobody is asked.

    CLI Example::

        saltlite-run cache.grains '*'
        saltlite-run cache.grains 'role:web' tgt_type=grain
    """
    return dict(_values(_GRAINS, tgt, tgt_type))


def pillar(tgt: str = "*", tgt_type: str = "glob") -> dict[str, dict[str, Any]]:
    """The cached pillar of each minion, as it was made last. ``pillar.show_pillar`` makes it anew.

    CLI Example::

        saltlite-run cache.pillar
        saltlite-run cache.pillar 'web*'
    """
    return dict(_values(_PILLAR, tgt, tgt_type))


def clear_grains(tgt: str = "", tgt_type: str = "glob") -> bool:
    """Forget the cached grains of minions. Those that are connected are asked for them at once, the others send them
    when they come back; until then no target by grains selects them. Without a target nothing is done, and False
    returned.

    CLI Example::

        saltlite-run cache.clear_grains web1
    """
    return _clear([_GRAINS], tgt, tgt_type)


def clear_pillar(tgt: str = "", tgt_type: str = "glob") -> bool:
    """Forget the cached pillar of minions: no target by pillar selects them until it is made again, for their next
    session or at ``saltutil.refresh_pillar``. Without a target nothing is done, and False returned.

    CLI Example::

        saltlite-run cache.clear_pillar web1
    """
    return _clear([_PILLAR], tgt, tgt_type)


def clear_all(tgt: str = "", tgt_type: str = "glob") -> bool:
    """Forget both, grains and pillar.

    CLI Example::

        saltlite-run cache.clear_all 'web*'
    """
    return _clear([_GRAINS, _PILLAR], tgt, tgt_type)


def list_(bank: str) -> list[str]:
    """The minions of which a bank has something: ``grains``, ``pillar`` or ``resource_grains``.

    CLI Example::

        saltlite-run cache.list grains
    """
    return [minion for minion, _nothing in _values(bank, "*", "glob", names=True)]


def fetch(bank: str, key: str) -> dict[str, Any]:
    """What a bank has of one minion; {} for nothing.

    CLI Example::

        saltlite-run cache.fetch grains web1
        saltlite-run cache.fetch resource_grains gate1
    """
    return dict(_values(bank, key, "list")).get(key) or {}


def flush(bank: str, key: str | None = None) -> bool:
    """Forget what the bank ``grains`` or ``pillar`` has of one minion; of all of them without a key.

    CLI Example::

        saltlite-run cache.flush pillar web1
        saltlite-run cache.flush grains
    """
    if key is None:
        return _clear([bank], "*", "glob")
    if not key.strip():
        raise SaltInvocationError("An empty key is no minion; without one the whole bank is forgotten.")
    return _clear([bank], key, "list")


def _values(bank: str, tgt: str, tgt_type: str, **how: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    cursor: dict[str, str] = {}
    while True:
        said = __client__.call("cached", bank=bank, tgt=tgt, tgt_type=tgt_type, **how, **cursor)
        yield from said["values"].items()
        if not said["more"]:
            return
        cursor = {"after": max(said["values"])}


def _clear(banks: list[str], tgt: str, tgt_type: str) -> bool:
    if not tgt:
        return False
    __client__.call("cache_clear", banks=banks, tgt=tgt, tgt_type=tgt_type)
    return True
