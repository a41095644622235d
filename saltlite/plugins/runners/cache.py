"""The master's cache of minions: grains, pillar, and the grains of resources; and banks of values of one's own.

The banks ``grains``, ``pillar``, ``resource_grains`` and ``resources`` are the master's. A value in any other bank is a
file below ``<cachedir>/banks``, where ``cachedir`` is the one of runners: ``.cache`` in the master's
``extension_modules``. Plug-ins read and write there with ``salt.cache.Cache(__opts__, cachedir=__opts__["cachedir"] +
"/banks")``. Runners that the API calls have no such folder.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saltlite.loader.hints import __client__, __opts__
    from saltlite.salt.cache import Cache

__func_alias__ = {"list_": "list"}
__outputter__ = dict.fromkeys(("grains", "pillar", "fetch"), "yaml")

_GRAINS, _PILLAR = "grains", "pillar"
_OF_MINIONS = (_GRAINS, _PILLAR, "resource_grains", "resources")


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


def store(bank: str, key: str, data: Any) -> None:
    """Write a value into a bank of one's own. A bank may be a path, such as ``app/hosts``.

    CLI Example: ``saltlite-run cache.store app/hosts web1 '{rack: 4}'``
    """
    if bank in _OF_MINIONS:
        raise SaltInvocationError(f"The bank {bank} holds what minions send, and nothing else.")
    with _own(bank, key) as cache:
        cache.store(bank, key, data)


def list_(bank: str) -> list[str]:
    """Return the keys of a bank: minions of ``grains`` and ``pillar``, SRNs of ``resource_grains``, bare ids of
    ``resources``, and the keys of any other bank.

    CLI Example::

        saltlite-run cache.list grains
        saltlite-run cache.list resources
        saltlite-run cache.list app/hosts
    """
    if bank in _OF_MINIONS:
        return [key for key, _nothing in _values(bank, "*", "glob", names=True)]
    with _own(bank) as cache:
        return sorted(cache.list(bank))


def fetch(bank: str, key: str) -> Any:
    """Return the value of one key in a bank, or {}.

    A key is the id of a minion, or a resource by its SRN or its bare id, or one of a bank of one's own. If several
    resources have the bare id, the value is a map from SRNs to values. ``resources`` has a resource's
    ``managing_minions``, and ``types``, a map from types to minions. A resource has the pillar of its minion.

    CLI Example::

        saltlite-run cache.fetch grains web1
        saltlite-run cache.fetch resource_grains ssh:web-1
        saltlite-run cache.fetch resources web-1
        saltlite-run cache.fetch app/hosts web1
    """
    if bank in _OF_MINIONS:
        answer = __client__.call("cached", bank=bank, tgt=key, tgt_type="list", key=key)
        return answer["values"].get(key) or {}
    with _own(bank, key) as cache:
        return cache.fetch(bank, key)


def flush(bank: str, key: str | None = None) -> bool:
    """Clear one minion in the bank ``grains`` or ``pillar``, or a value of another bank; without a key, the whole bank.

    CLI Example::

        saltlite-run cache.flush pillar web1
        saltlite-run cache.flush grains
        saltlite-run cache.flush app/hosts web1
    """
    if key is not None and not key.strip():
        raise SaltInvocationError("The key is empty; omit it to clear the whole bank.")
    if bank in _OF_MINIONS:
        return _clear([bank], "*", "glob") if key is None else _clear([bank], key, "list")
    with _own(bank, key) as cache:
        return cache.flush(bank, key)


@contextlib.contextmanager
def _own(bank: str, key: str | None = "none") -> Iterator[Cache]:
    """The files of other banks. Raises SaltInvocationError and CommandExecutionError."""
    from saltlite.salt.cache import Cache  # noqa: PLC0415 - most calls are about minions
    from saltlite.salt.exceptions import SaltCacheError  # noqa: PLC0415 - as above

    if not bank.strip("/. ") or (key is not None and os.path.basename(key) != key):
        raise SaltInvocationError("A bank is a path such as app/hosts, and a key is a name without a slash.")
    if not __opts__.get("cachedir"):
        raise CommandExecutionError(
            "There is no place for values: call it with saltlite-run, where extension_modules is."
        )
    try:
        # Apart from the other files in that folder, so that no right to this runner is one to them.
        yield Cache({}, os.path.join(__opts__["cachedir"], "banks"))
    except SaltCacheError as error:
        raise CommandExecutionError(str(error)) from error


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
