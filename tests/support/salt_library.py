"""Calls of Salt's library and what they return: the table `tests/data/salt_library.txt`.

A line is `expression  ->  value`, or `raises` and the name of the error, with the text for those that users see. The
values are Salt's. `results` evaluates the expressions with the modules of one of the two libraries.
"""

from __future__ import annotations

import collections
import copy
import datetime
import importlib
import ipaddress
import logging
import pprint
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "data" / "salt_library.txt"

_ELSEWHERE = {
    "_compat": "_compat", "config": "config", "defaults": "defaults", "exceptions": "exceptions",
    "exitcodes": "defaults.exitcodes", "payload": "payload", "pkg": "utils.pkg", "returners": "returners",
    "rpm": "utils.pkg.rpm", "saslprep": "ext.saslprep", "state": "state", "syspaths": "syspaths",
    "template": "template", "validate_net": "utils.validate.net",
    "validate_path": "utils.validate.path", "validate_user": "utils.validate.user", "version": "version",
    **{f"ser_{name}": f"serializers.{name}" for name in ("configparser", "json", "msgpack", "yaml")},
}  # fmt: skip
"""Name in the table -> module; the others are in `utils`."""
_SEEN_BY_USERS = ("CommandExecutionError", "CommandNotFoundError", "SaltInvocationError")
_STANDARD = {
    "OrderedDict": collections.OrderedDict,
    "collections": collections,
    "copy": copy,
    "datetime": datetime,
    "ipaddress": ipaddress,
}


def table() -> Iterator[tuple[str, str]]:
    """(expression, value) of each line."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        expression, _, value = line.partition("  ->  ")
        yield expression, value


def module_of(expression: str) -> str:
    """The first name of a module in an expression."""
    return next(iter(_names(expression)))


def _names(expression: str) -> list[str]:
    """What stands before a dot, but for modules of Python."""
    found: list[str] = re.findall(r"\b([a-z_]\w*)\.", expression)
    return [name for name in found if name not in _STANDARD]


def result(expression: str, package: str) -> str:
    """What an expression gives with the modules of `package`, which is `salt` or ours, as the table writes it."""
    space: dict[str, Any] = dict(_STANDARD)
    for name in _names(expression):
        try:
            space[name] = importlib.import_module(f"{package}.{_ELSEWHERE.get(name, f'utils.{name}')}")
        except ImportError:
            continue  # a word in a text
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pprint.pformat(eval(expression, space), width=100000).replace("\n", "\\n")  # noqa: S307 - of the table
    except Exception as error:  # noqa: BLE001 - an error is a result
        name = type(error).__name__.replace("SaltliteError", "SaltException")
        text = f": {error}".replace("\n", "\\n") if name in _SEEN_BY_USERS else ""
        return f"raises {name}{text}"
    finally:
        logging.disable(before)
