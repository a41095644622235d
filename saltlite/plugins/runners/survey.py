"""Group minions by their answers, and compare the groups.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__

_ORDERS = ("down", "up")


def hash(
    tgt: str, fun: str, *args: Any, survey_sort: str = "down", tgt_type: str = "compound", **kwargs: Any
) -> list[dict[str, Any]]:
    """Run a function on minions and group those with equal returns: ``pool`` has the ids, ``result`` the return as
    text. The largest pool comes first, or the smallest with ``survey_sort=up``.

    CLI Example::

        saltlite-run survey.hash '*' test.ping
        saltlite-run survey.hash 'web*' cmd.run 'sha256sum /etc/hosts' survey_sort=up
    """
    return _pools(tgt, fun, args, kwargs, order=survey_sort, tgt_type=tgt_type)


def diff(
    tgt: str, fun: str, *args: Any, survey_sort: str = "down", tgt_type: str = "compound", **kwargs: Any
) -> list[dict[str, Any]]:
    """Like ``survey.hash``, with a ``diff`` from the first pool's result to each other one.

    CLI Example::

        saltlite-run survey.diff '*' cmd.run 'cat /etc/hosts'
        saltlite-run survey.diff '*' pkg.list_pkgs survey_sort=up
    """
    first, *others = pools = _pools(tgt, fun, args, kwargs, order=survey_sort, tgt_type=tgt_type) or [{}]
    for other in others:
        lines = difflib.unified_diff(
            first["result"].splitlines(),
            other["result"].splitlines(),
            fromfile=first["pool"][0],
            tofile=other["pool"][0],
            n=0,
            lineterm="",
        )
        other["diff"] = "\n".join(lines)
    return pools if first else []


def _pools(
    tgt: str, fun: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, order: str, tgt_type: str
) -> list[dict[str, Any]]:
    if order not in _ORDERS:
        raise SaltInvocationError(f"survey_sort is up or down, not {order!r}")
    given = {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}
    pools: dict[str, list[str]] = {}
    for minion, value in sorted(__client__.cmd(tgt, fun, args, given, tgt_type).items()):
        pools.setdefault(_text(value), []).append(minion)
    ranked = sorted(pools.items(), key=lambda one: len(one[1]), reverse=order == "down")
    return [{"pool": minions, "result": text} for text, minions in ranked]


def _text(value: Any) -> str:
    """Return the same text for equal values, with one line per item of a list or map."""
    if not isinstance(value, list | dict):
        return str(value)
    return json.dumps(_named(value), indent=4, sort_keys=True, ensure_ascii=False, default=str)


def _named(value: Any) -> Any:
    """Convert keys to text, because keys of different types cannot be sorted."""
    if isinstance(value, dict):
        return {str(key): _named(one) for key, one in value.items()}
    return [_named(one) for one in value] if isinstance(value, list) else value
