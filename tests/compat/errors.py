"""Errors with the same arguments under Salt and here: prints as JSON what differs in texts and attributes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import salt.exceptions

from saltlite import errors

TEXTS = ["", "why", "why.", "why?", b"why", ValueError("why"), 7]
INFOS: list[Any] = [
    None, {}, {"changes": {"a": 1}}, {"changes": {"a": 1}, "b": ["x\ny", 1, None, [True], {"c": 2.5}], "d": {"e": {}}},
    ["a", ["b", ["c"]], ("d",)], "text\nof two lines", 7, True,
]  # fmt: skip
ATTRIBUTES = ("args", "message", "strerror")
FURTHER = ("error", "info", "strerror_without_changes")


def main() -> None:
    differ = []
    for text, info in itertools.product(TEXTS, INFOS):
        differ += _differences("CommandExecutionError", (text, info), (*ATTRIBUTES, *FURTHER))
    for name, text in itertools.product(("CommandNotFoundError", "SaltInvocationError"), TEXTS):
        differ += _differences(name, (text,), ATTRIBUTES[1:])  # args keep what is no text
    print(json.dumps({"differ": differ, "families": _families()}))


def _differences(name: str, args: tuple[Any, ...], attributes: tuple[str, ...]) -> list[str]:
    ours, theirs = getattr(errors, name)(*args), getattr(salt.exceptions, name)(*args)
    pairs = {"str": (str(ours), str(theirs))}
    pairs |= {one: (getattr(ours, one), getattr(theirs, one)) for one in attributes}
    return [
        f"{name}{args} {one}: {found[0]!r}, not {found[1]!r}" for one, found in pairs.items() if found[0] != found[1]
    ]


def _families() -> list[str]:
    names = ("CommandExecutionError", "CommandNotFoundError", "SaltInvocationError")
    return [
        f"{one} and {other}"
        for one, other in itertools.permutations(names, 2)
        if issubclass(getattr(errors, one), getattr(errors, other))
        != issubclass(getattr(salt.exceptions, one), getattr(salt.exceptions, other))
    ]


if __name__ == "__main__":
    main()
