"""The master's cache of minions: grains, pillar, and the grains of resources.

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
    """Return the cached grains of each minion. No minion is contacted.

    CLI Example::

        saltlite-run cache.grains '*'
        saltlite-run cache.grains 'role:web' tgt_type=grain
    """
    return dict(_values(_GRAINS, tgt, tgt_type))


def pillar(tgt: str = "*", tgt_type: str = "glob") -> dict[str, dict[str, Any]]:
    """Return the cached pillar of each minion. ``pillar.show_pillar`` compiles it anew.

    CLI Example::

        saltlite-run cache.pillar
        saltlite-run cache.pillar 'web*'
    """
    return dict(_values(_PILLAR, tgt, tgt_type))


def clear_grains(tgt: str = "", tgt_type: str = "glob") -> bool:
    """Clear the cached grains of minions. Connected minions are asked for them at once, others send them when they
    connect. Until then no target by grains selects them. Without a target nothing is cleared and False is returned.

    CLI Example: ``saltlite-run cache.clear_grains web1``
    """
    return _clear([_GRAINS], tgt, tgt_type)


def clear_pillar(tgt: str = "", tgt_type: str = "glob") -> bool:
    """Clear the cached pillar of minions. No target by pillar selects them until it is compiled again, for their next
    session or by ``saltutil.refresh_pillar``. Without a target nothing is cleared and False is returned.

    CLI Example: ``saltlite-run cache.clear_pillar web1``
    """
    return _clear([_PILLAR], tgt, tgt_type)


def clear_all(tgt: str = "", tgt_type: str = "glob") -> bool:
    """Clear the cached grains and pillar of minions.

    CLI Example: ``saltlite-run cache.clear_all 'web*'``
    """
    return _clear([_GRAINS, _PILLAR], tgt, tgt_type)


def list_(bank: str) -> list[str]:
    """Return the keys of a bank: minions of ``grains`` and ``pillar``, SRNs of ``resource_grains``, and bare ids of
    ``resources``.

    CLI Example::

        saltlite-run cache.list grains
        saltlite-run cache.list resources
    """
    return [key for key, _nothing in _values(bank, "*", "glob", names=True)]


def fetch(bank: str, key: str) -> dict[str, Any]:
    """Return the value of one key in a bank, or {}.

    A key is the id of a minion, or a resource by its SRN or its bare id. If several resources have the bare id, the
    value is a map from SRNs to values. ``resources`` has a resource's ``managing_minions``, and ``types``, a map from
    types to minions. A resource has the pillar of its minion.

    CLI Example::

        saltlite-run cache.fetch grains web1
        saltlite-run cache.fetch resource_grains ssh:web-1
        saltlite-run cache.fetch resources web-1
    """
    answer = __client__.call("cached", bank=bank, tgt=key, tgt_type="list", key=key)
    return answer["values"].get(key) or {}


def flush(bank: str, key: str | None = None) -> bool:
    """Clear one minion in the bank ``grains`` or ``pillar``; without a key, the whole bank.

    CLI Example::

        saltlite-run cache.flush pillar web1
        saltlite-run cache.flush grains
    """
    if key is None:
        return _clear([bank], "*", "glob")
    if not key.strip():
        raise SaltInvocationError("The key is empty; omit it to clear the whole bank.")
    return _clear([bank], key, "list")


def _values(bank: str, tgt: str, tgt_type: str, **how: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    cursor: dict[str, str] = {}
    while True:
        answer = __client__.call("cached", bank=bank, tgt=tgt, tgt_type=tgt_type, **how, **cursor)
        yield from answer["values"].items()
        if not answer["more"]:
            return
        cursor = {"after": answer["last"]}


def _clear(banks: list[str], tgt: str, tgt_type: str) -> bool:
    if not tgt:
        return False
    __client__.call("cache_clear", banks=banks, tgt=tgt, tgt_type=tgt_type)
    return True
