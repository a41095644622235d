"""Read the mine of minions on the master, and have minions update it.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__, __salt__


def get(tgt: str, fun: str | list[str], tgt_type: str = "glob", ages: bool = False) -> dict[str, Any]:
    """Return values of minions, whoever may read them, in the form of the function ``mine.get``. No minion is asked.

    With ``ages`` each value is a map of ``value`` and ``age``, the seconds since its minion confirmed it.

    CLI Example::

        saltlite-run mine.get '*' network.ip_addrs
        saltlite-run mine.get 'web*' network.ip_addrs ages=True
    """
    names = [one.strip() for one in fun.split(",")] if isinstance(fun, str) else [str(one) for one in fun]
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    after, more = "", True
    while more:
        answer = __client__.call("mine_get", tgt=tgt, tgt_type=tgt_type, functions=names, after=after)
        more, after = answer["more"], answer["last"]
        for name, rows in answer["values"].items():
            for minion, (value, age) in rows.items():
                found[name][minion] = {"value": value, "age": round(age, 1)} if ages else value
    if isinstance(fun, str) and len(names) == 1:
        return found[names[0]]
    return {name: rows for name, rows in found.items() if rows}


def update(tgt: str, tgt_type: str = "glob", clear: bool = False, mine_functions: Any = None) -> dict[str, Any]:
    """Have minions update their mine, and return what ``mine.update`` returned.

    CLI Example: ``saltlite-run mine.update 'web*'``
    """
    given = {"clear": clear, "mine_functions": mine_functions}
    found: dict[str, Any] = __salt__["salt.execute"](tgt, "mine.update", tgt_type=tgt_type, kwarg=given)
    return found
