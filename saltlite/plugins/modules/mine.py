"""The mine: values of this minion that the master keeps, and that other minions read.

``mine_functions`` names the functions whose results are kept, in the configuration or the pillar::

    mine_functions:
      network.ip_addrs: [eth0]
      site_key:
        - mine_function: cmd.run
        - cat /etc/site.key
        - allow_tgt: 'web*'

A value is sent only when it has changed. ``allow_tgt`` and ``allow_tgt_type`` say which minions may read it; without
them all may.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __master__, __salt__, __utils__

_VALUE_MAX = 60 * 1024
"""Bytes of one encoded value. A larger one is not sent."""


def update(clear: bool = False, mine_functions: Any = None) -> bool | None:
    """Call the functions of ``mine_functions`` and send what has changed to the master; ``None`` without any.

    ``clear`` removes values of other functions. ``mine_functions`` replaces those of the configuration and the pillar;
    a list of names will do. A function that fails keeps its old value, and is noted.

    CLI Example::

        saltlite '*' mine.update
        saltlite '*' mine.update mine_functions='[network.ip_addrs]'
    """
    functions = mine_functions or __salt__["config.merge"]("mine_functions", {})
    if isinstance(functions, list):
        functions = {name: {} for name in functions}
    if not isinstance(functions, Mapping):
        raise SaltInvocationError("mine_functions is a map from names to functions, or a list of names.")
    if not functions:
        return None
    values: dict[str, tuple[Any, dict[str, Any]]] = {}
    failed = 0
    for alias, definition in functions.items():
        name, args, kwargs, allowed = _definition(definition)
        try:
            values[alias] = __salt__[name or alias](*args, **kwargs), allowed
        except Exception as error:  # noqa: BLE001 - supervision point: the others are sent
            failed += 1
            note(f"{alias} is not in the mine: {error}")
    if failed:
        __context__["retcode"] = 1
    return _put(values, clear=clear)


def send(name: str, *args: Any, **kwargs: Any) -> bool:
    """Call a function and send its result to the master, as the value ``name``.

    ``mine_function`` is the function if it is not ``name``; ``allow_tgt`` and ``allow_tgt_type`` say which minions may
    read the value. Other arguments are those of the function. If it fails, this returns False, and a note says why.

    CLI Example::

        saltlite '*' mine.send network.ip_addrs interface=eth0
        saltlite '*' mine.send addresses mine_function=network.ip_addrs allow_tgt='web*'
    """
    given = __utils__["args.clean_kwargs"](**kwargs)
    function = given.pop("mine_function", None) or name
    allowed = {key: given.pop(key) for key in ("allow_tgt", "allow_tgt_type") if key in given}
    try:
        value = __salt__[function](*args, **given)
    except Exception as error:  # noqa: BLE001 - supervision point: the function may be anybody's
        __context__["retcode"] = 1
        note(f"{name} is not in the mine: {error}")
        return False
    return _put({name: (value, allowed)}, clear=False)


def get(
    tgt: str | list[str], fun: str | list[str], tgt_type: str = "glob", exclude_minion: bool = False, max_age: float = 0
) -> dict[str, Any]:
    """Return values of minions: a map from minions to values of one function, or of several (a list, or separated with
    commas) a map from functions to such maps.

    ``max_age`` skips values that their minion has not confirmed for so many seconds; ``exclude_minion`` skips this
    minion. Targets by pillar take whole values.

    CLI Example::

        saltlite web1 mine.get 'db*' network.ip_addrs
        saltlite web1 mine.get 'role:db' network.ip_addrs,test.version tgt_type=grain max_age=7200
    """
    names = [one.strip() for one in fun.split(",")] if isinstance(fun, str) else [str(one) for one in fun]
    names = list(dict.fromkeys(name for name in names if name))
    target = ",".join(map(str, tgt)) if isinstance(tgt, list | tuple) else str(tgt)
    fields = {"tgt": target, "tgt_type": tgt_type, "functions": names, "max_age": float(max_age)}
    answer = _master().ask("mine_get", fields)["values"]
    own = __salt__["grains.get"]("id") if exclude_minion else None
    found = {
        name: {minion: _master().decoded(body) for minion, body in rows.items() if minion != own}
        for name, rows in answer.items()
    }
    if isinstance(fun, str) and len(names) == 1:
        return found[names[0]]
    return {name: rows for name, rows in found.items() if rows}


def delete(fun: str) -> bool:
    """Remove one value of this minion.

    CLI Example: ``saltlite '*' mine.delete network.ip_addrs``
    """
    _master().ask("mine_delete", {"functions": [fun]})
    return True


def flush() -> bool:
    """Remove all values of this minion.

    CLI Example: ``saltlite '*' mine.flush``
    """
    _master().ask("mine_delete", {"functions": None})
    return True


def valid() -> dict[str, Any] | None:
    """Return the functions of ``mine_functions`` that exist here, with their arguments; ``None`` without any.

    CLI Example: ``saltlite '*' mine.valid``
    """
    functions = __salt__["config.merge"]("mine_functions", {})
    if not functions:
        return None
    found: dict[str, Any] = {}
    for alias, definition in functions.items():
        name, args, kwargs, _allowed = _definition(definition)
        if (name or alias) in __salt__:
            found[alias] = {name: [*args, kwargs] if kwargs else args} if name else [*args, kwargs] if kwargs else args
    return found


def _definition(definition: Any) -> tuple[str | None, list[Any], dict[str, Any], dict[str, Any]]:
    """Function ("" for that of the name), arguments, keyword arguments and the target of readers."""
    parsed: tuple[str | None, list[Any], dict[str, Any], dict[str, Any]]
    parsed = __utils__["mine.parse_function_definition"](definition)
    return parsed


def _master() -> Any:
    if not hasattr(__master__, "ask"):
        raise CommandExecutionError("This call has no master with a mine.")
    return __master__


def _put(values: Mapping[str, tuple[Any, dict[str, Any]]], *, clear: bool) -> bool:
    """Send values with the targets of their readers; True when the master has all of them."""
    master = _master()
    bodies, offers, whole = {}, {}, True
    for name, (value, allowed) in values.items():
        body = master.encoded(value)
        if len(body) > _VALUE_MAX:
            note(f"{name} is not in the mine: it has {len(body)} bytes, and may have {_VALUE_MAX}")
            whole = False
            continue
        allow = allowed.get("allow_tgt") or ""
        target = ",".join(map(str, allow)) if isinstance(allow, list | tuple) else str(allow)
        bodies[name] = body
        offers[name] = [hashlib.sha256(body).digest(), target, allowed.get("allow_tgt_type") or "glob"]
    wanted = master.ask("mine_put", {"offers": offers, "values": {}, "clear": clear})["wanted"]
    for names in _groups({name: len(bodies[name]) for name in wanted}):
        some = {"offers": {name: offers[name] for name in names}, "values": {name: bodies[name] for name in names}}
        master.ask("mine_put", {**some, "clear": False})
    if not whole:
        __context__["retcode"] = 1
    return whole


def _groups(sizes: Mapping[str, int]) -> list[list[str]]:
    """Names in groups whose values fit into one request."""
    groups: list[list[str]] = []
    room = 0
    for name, size in sizes.items():
        if size > room:
            groups.append([])
            room = _VALUE_MAX
        groups[-1].append(name)
        room -= size
    return groups
