"""One function, run by this program for another process: the order comes on stdin, the answer goes to stdout.

The executor `sudo` starts this file as another user, by its path, so that this user runs the code of the minion even if
it cannot import it. Both messages are msgpack. Order: opts, grains, pillar, fun, args, kwargs, jid, user. Answer:
value, retcode, warnings.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def main() -> int:
    """Read the order, call, answer; whatever the function prints goes to stderr."""
    import msgpack  # type: ignore[import-untyped]  # noqa: PLC0415 - no type information; found by the path set below

    from saltlite.loader.call import call  # noqa: PLC0415 - found by the path that is set below
    from saltlite.loader.encode import decode_return, encode_whole  # noqa: PLC0415 - as above
    from saltlite.loader.index import build_index  # noqa: PLC0415 - as above
    from saltlite.loader.loader import Loader  # noqa: PLC0415 - as above
    from saltlite.loader.search_path import search_layers  # noqa: PLC0415 - as above

    order: dict[str, Any] = msgpack.unpackb(sys.stdin.buffer.read(), strict_map_key=False)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    opts, closed = _open_to_me(order["opts"])
    loader = Loader(build_index(search_layers(opts)), opts, order["grains"], order["pillar"])
    pub = {"jid": order["jid"], "fun": order["fun"], "arg": order["args"], "user": order["user"]}
    outcome = call(loader, order["fun"], order["args"], order["kwargs"], pub=pub)
    value = decode_return(encode_whole(outcome.value, VALUE_MAX).body, VALUE_MAX)
    warnings = list(outcome.warnings)
    if outcome.retcode and closed and order["fun"] not in loader:
        warnings.append(f"the user who is to call it has no way into {', '.join(closed)}, if modules are there")
    answer = {"value": value, "retcode": outcome.retcode, "warnings": warnings}
    with answers:
        answers.write(msgpack.packb(answer))
    return 0


def _open_to_me(opts: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options without what the minion keeps for itself; folders of plug-ins that are closed to this user."""
    found, closed = {**opts, "cachedir": ""}, []
    for name in ("module_dirs", "utils_dirs", "extension_modules"):
        folders = opts.get(name) or []
        every = [folders] if isinstance(folders, str) else folders
        mine = [folder for folder in every if os.access(folder, os.R_OK | os.X_OK)]
        closed += [folder for folder in every if folder not in mine]
        found[name] = "".join(mine) if isinstance(folders, str) else mine
    return found, closed


VALUE_MAX = 2**30
"""Bytes of a value between two processes of one machine; what may travel is limited behind it."""


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
    sys.exit(main())
