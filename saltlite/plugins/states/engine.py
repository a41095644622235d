"""Runs one function of Salt's module `state` for `modules/state.py`, in a Python that has Salt.

It imports nothing of saltlite, because that Python need not have it. Frames of msgpack go through stdin and what was
stdout: a length in four bytes, then the message.

    to the engine      {fun, args, kwargs, options, functions}    once: what to run; names of functions of the minion
                       [true, value] | [false, text]              the answer to a call
    from the engine    ["call", name, args, kwargs]               a call of a function of the minion
                       ["return", value, retcode]                 the end
                       ["error", class, text]                     the end: the call failed

Salt runs in its local mode: states and files come from the folders that the minion has synced, pillar and grains from
the minion. Modules that would ask a master of Salt call the minion's functions instead (`salt_modules`).
"""

from __future__ import annotations

import os
import struct
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_LENGTH = struct.Struct(">I")


class Channel:
    """Messages from and to the minion."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = os.fdopen(incoming, "rb")
        self._outgoing = os.fdopen(outgoing, "wb")
        self._owner = os.getpid()

    def read(self) -> Any:
        """The next message. Raises EOFError when the minion is gone."""
        import msgpack  # type: ignore[import-untyped]  # it has no types

        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return msgpack.unpackb(self._exactly(size), strict_map_key=False)

    def write(self, message: Any) -> None:
        """Send a message; values that msgpack does not know are sent as text."""
        import msgpack

        data = msgpack.packb(message, default=_plain)
        self._outgoing.write(_LENGTH.pack(len(data)) + data)
        self._outgoing.flush()

    def call(self, name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Call a function of the minion. Raises Salt's CommandExecutionError."""
        from salt.exceptions import CommandExecutionError

        if os.getpid() != self._owner:
            # A state with `parallel: True` has a process of its own, and the answers are its parent's.
            raise CommandExecutionError(f"{name} cannot be called in a parallel state.")
        self.write(["call", name, list(args), dict(kwargs)])
        is_value, value = self.read()
        if not is_value:
            raise CommandExecutionError(value)
        return value

    def _exactly(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise EOFError
        return data


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)


_channel: Channel
_functions: list[str]


def minion_functions(module: str, place: str) -> dict[str, Callable[..., Any]]:
    """The functions of a module of the minion by their names, for the module `place` of Salt's loader."""
    prefix = f"{module}."
    return {name.removeprefix(prefix): _remote(name, place) for name in _functions if name.startswith(prefix)}


def _remote(name: str, place: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        return _channel.call(name, args, {key: kwargs[key] for key in kwargs if not key.startswith("__pub_")})

    function.__name__ = name.rpartition(".")[2]
    function.__module__ = place  # Salt's loader takes a module's own functions only
    function.__doc__ = f"``{name}`` of the minion."
    return function


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a minion of Salt in local mode."""
    import salt.config

    options: dict[str, Any] = salt.config.DEFAULT_MINION_OPTS.copy()
    options.update(given)
    options.update(
        {
            "__role": "minion",
            "__cli": "salt-call",  # takes the pillar that is here
            "file_client": "local",
            "master_uri": "tcp://127.0.0.1:0",  # events go through the module `event`
            "module_dirs": [os.path.join(_HERE, "salt_modules")],
            "pillar_roots": {},
            "state_events": True,
        }
    )
    return options


def _keep_pillar(pillar: Mapping[str, Any]) -> None:
    """Let Salt take the minion's pillar where it would compile one; arguments `pillar=` go on top."""
    import copy

    import salt.pillar
    import salt.utils.dictupdate

    class MinionsPillar:
        def __init__(self, override: Mapping[str, Any] | None) -> None:
            self._override = override

        def compile_pillar(self, *_args: Any, **_kwargs: Any) -> Any:
            return salt.utils.dictupdate.merge(copy.deepcopy(dict(pillar)), dict(self._override or {}))

    def get_pillar(*_args: Any, pillar_override: Mapping[str, Any] | None = None, **_kwargs: Any) -> MinionsPillar:
        return MinionsPillar(pillar_override)

    salt.pillar.get_pillar = get_pillar


def _run(order: Mapping[str, Any]) -> tuple[Any, int]:
    import salt.loader

    options = _options(order["options"])
    _keep_pillar(options["pillar"])
    context: dict[str, Any] = {}
    functions = salt.loader.minion_mods(options, context=context, utils=salt.loader.utils(options, context=context))
    if any(_has_plugins(root) for roots in options["file_roots"].values() for root in roots):
        functions["saltutil.sync_all"](refresh=False)
        functions = salt.loader.minion_mods(options, context=context, utils=salt.loader.utils(options, context=context))
    value = functions[order["fun"]](*order["args"], **order["kwargs"])
    retcode = context.get("retcode", 0)
    return value, retcode if isinstance(retcode, int) else 1


def _has_plugins(root: str) -> bool:
    with os.scandir(root) as entries:
        return any(entry.name.startswith("_") and entry.is_dir() for entry in entries)


def main() -> int:
    """Run the function that stdin names."""
    global _channel, _functions  # noqa: PLW0603 - one order is the life of this process
    sys.path.remove(_HERE)
    sys.modules["saltlite_engine"] = sys.modules[__name__]
    _channel = Channel(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # what states print belongs to the log
    try:
        order = _channel.read()
        _functions = order["functions"]
        value, retcode = _run(order)
        _channel.write(["return", value, retcode])
    except Exception as error:  # noqa: BLE001 - supervision point: Salt's files raise anything, and the minion is told
        traceback.print_exc()
        _channel.write(["error", type(error).__name__, str(error) or type(error).__name__])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
