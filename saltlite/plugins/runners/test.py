"""Functions to test how runners are called.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__, __config__

EVENTS_MAX = 1000
"""Maximum events of one ``stream``."""

_VARIABLES = {
    "us": [
        "foo", "bar", "baz", "qux", "quux", "quuz", "corge", "grault", "garply", "waldo", "fred", "plugh", "xyzzy",
        "thud",
    ],
    "uk": ["wibble", "wobble", "wubble", "flob"],
}  # fmt: skip


def arg(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments and keyword arguments.

    CLI Example: ``saltlite-run test.arg 1 two three=3``
    """
    return {"args": list(args), "kwargs": {name: value for name, value in kwargs.items() if not name.startswith("__")}}


def raw_arg(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments including those that the loader adds, such as ``__pub_jid``.

    CLI Example: ``saltlite-run test.raw_arg 1 two three=3``
    """
    return {"args": list(args), "kwargs": kwargs}


def metasyntactic(locality: str = "us") -> list[str] | None:
    """Return metasyntactic variables of ``us`` or ``uk``.

    CLI Example: ``saltlite-run test.metasyntactic locality=uk``
    """
    return _VARIABLES.get(locality)


def stdout_print() -> str:
    """Print ``foo``, which goes to stderr, and return ``bar``.

    CLI Example: ``saltlite-run test.stdout_print``
    """
    print("foo")  # noqa: T201 - that is what it is for
    return "bar"


def sleep(s_time: float = 10) -> bool:
    """Wait for this many seconds, and return True.

    CLI Example: ``saltlite-run test.sleep 5``
    """
    time.sleep(s_time)
    return True


def stream(count: int = 99, interval: float = 0.1, **kwargs: Any) -> bool:
    """Send ``count`` events with the tag ``run/<jid>/progress``, ``interval`` seconds apart, and return True.

    Tags that begin with ``salt`` are reserved for the master.

    CLI Example::

        saltlite-run test.stream
        saltlite-run test.stream count=3 interval=1
    """
    if not 1 <= count <= EVENTS_MAX:
        raise SaltInvocationError(f"count is a number from 1 to {EVENTS_MAX}.")
    tag = f"run/{kwargs['__pub_jid']}/progress"
    for number in range(1, count + 1):
        __client__.call("event_send", tag=tag, data={"message": f"Runner is {100 * number // (count + 1)}% done"})
        time.sleep(interval)
    return True


def get_opts() -> dict[str, Any]:
    """Return the options of the master, with secrets hidden.

    CLI Example: ``saltlite-run test.get_opts``
    """
    return __config__
