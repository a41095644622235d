"""`salt.utils.json`: JSON whose text keeps characters beyond ASCII."""

from __future__ import annotations

import contextlib
import json
import re
from importlib import import_module
from json import JSONEncoder
from types import ModuleType
from typing import Any

__all__ = ["JSONEncoder", "dump", "dumps", "find_json", "import_json", "load", "loads"]


def find_json(s: str) -> Any:
    """The first object or array in a text with more around it. Raises ValueError if there is none."""
    decoder = json.JSONDecoder()
    for bracket in re.finditer(r"[{\[]", s):
        with contextlib.suppress(json.JSONDecodeError):
            return decoder.raw_decode(s, bracket.start())[0]
    raise ValueError("the text has no JSON in it")


def import_json() -> ModuleType:
    """The first library for JSON of `ujson`, `yajl` and `json` that is installed."""
    for name in ("ujson", "yajl"):
        with contextlib.suppress(ImportError):
            return import_module(name)
    return json


def load(fp: Any, **kwargs: Any) -> Any:
    """`json.load`, or that of the library `_json_module`."""
    return kwargs.pop("_json_module", json).load(fp, **kwargs)


def loads(s: Any, **kwargs: Any) -> Any:
    """`json.loads`, or that of the library `_json_module`."""
    return kwargs.pop("_json_module", json).loads(s, **kwargs)


def dump(obj: Any, fp: Any, **kwargs: Any) -> Any:
    """`json.dump` that keeps characters beyond ASCII, or that of the library `_json_module`."""
    kwargs.setdefault("ensure_ascii", False)
    return kwargs.pop("_json_module", json).dump(obj, fp, **kwargs)


def dumps(obj: Any, **kwargs: Any) -> Any:
    """`json.dumps` that keeps characters beyond ASCII, or that of the library `_json_module`."""
    kwargs.setdefault("ensure_ascii", False)
    return kwargs.pop("_json_module", json).dumps(obj, **kwargs)
