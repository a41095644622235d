"""Environment variables of the job's process and its commands.

Each job has its own process, so changes end with the job. Put calls that depend on each other into one job.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import os
from typing import Any

from saltlite.errors import SaltInvocationError


def setval(
    key: str, val: str | bool, false_unsets: bool = False, permanent: bool | str = False, *, test: bool = False
) -> str | bool | None:
    """Set a variable and return its value.

    False is stored as an empty text, or with ``false_unsets`` removes the variable. Other values than text give False.
    ``permanent`` is refused, because it is for machines with a registry.

    CLI Example::

        saltlite '*' environ.setval foo bar
        saltlite '*' environ.setval baz val=False false_unsets=True
    """
    _refuse_permanent(permanent)
    name = _name(key)
    if val is False and false_unsets:
        if not test:
            os.environ.pop(name, None)
        return None
    value = "" if val is False else val
    if not isinstance(value, str):
        return False
    if "\0" in value:
        raise SaltInvocationError(f"The value of {name} has a NUL character in it, which no variable can have.")
    if not test:
        os.environ[name] = value
    return value


def setenv(
    environ: dict[str, Any], false_unsets: bool = False, clear_all: bool = False, update_minion: bool = False,
    permanent: bool | str = False, *, test: bool = False,
) -> dict[str, Any] | bool:  # fmt: skip
    """Set several variables: name -> the return of ``environ.setval``.

    ``clear_all`` sets all others to an empty text, or removes them with ``false_unsets``. False if ``environ`` is no
    dict of texts. ``update_minion`` is refused, because a job cannot change the minion.

    CLI Example::

        saltlite '*' environ.setenv '{foo: bar, baz: quux}'
        saltlite '*' environ.setenv '{a: b, c: False}' false_unsets=True
    """
    _refuse_permanent(permanent)
    if update_minion:
        raise SaltInvocationError(
            "update_minion does not apply: the minion's own variables are set where its service is started."
        )
    if not isinstance(environ, dict) or any(
        not isinstance(value, str) and value is not False for value in environ.values()
    ):
        return False
    wanted = {name: False for name in os.environ if name not in environ} if clear_all else {}
    wanted |= environ
    for name in wanted:
        _name(name)
    return {name: setval(name, value, false_unsets, test=test) for name, value in wanted.items()}


def get(key: str, default: str = "") -> Any:
    """Return the value of a variable.

    CLI Example::

        saltlite '*' environ.get foo
        saltlite '*' environ.get baz default=False
    """
    return os.environ.get(key, default) if isinstance(key, str) else False


def has_value(key: str, value: str | None = None) -> bool:
    """Return whether a variable is set, and optionally has this value.

    CLI Example: ``saltlite '*' environ.has_value foo``
    """
    found = os.environ.get(key) if isinstance(key, str) else None
    return found is not None and value in (None, found)


def item(keys: str | list[str], default: str = "") -> dict[str, Any]:
    """Return the values of one or several variables, by name; an empty map without a name.

    CLI Example::

        saltlite '*' environ.item foo
        saltlite '*' environ.item '[foo, baz]' default=None
    """
    names = [keys] if isinstance(keys, str) else keys or []
    if not isinstance(names, list | tuple):
        raise SaltInvocationError(f"{keys!r:.80} is neither the name of a variable nor a list of names.")
    return {key: get(key, default) for key in names}


def items() -> dict[str, str]:
    """Return all variables.

    CLI Example: ``saltlite '*' environ.items``
    """
    return dict(os.environ)


def _name(key: Any) -> str:
    if not isinstance(key, str) or not key or "=" in key or "\0" in key:
        raise SaltInvocationError(f"{key!r} is not the name of a variable: names contain no equal sign and no NUL.")
    return key


def _refuse_permanent(permanent: Any) -> None:
    if permanent:
        raise SaltInvocationError(
            "permanent needs a registry, which this system does not have: write the variable into /etc/environment."
        )
