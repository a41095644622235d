"""An execution module that leaves traces, for tests that look from outside at how often and where it ran."""

from __future__ import annotations

import os
import signal
import time


def enter(path: str, seconds: float = 0.0) -> int:
    """Append one line to `path`, take so long, return the process id.

    CLI Example::

        saltlite '*' probe.enter /tmp/trace 3
    """
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(seconds)
    return os.getpid()


def big(size: int) -> str:
    """A text of `size` bytes.

    CLI Example::

        saltlite '*' probe.big 5000000
    """
    return "x" * size


def die() -> None:
    """End the process of the job without a return.

    CLI Example::

        saltlite '*' probe.die
    """
    os.kill(os.getpid(), signal.SIGKILL)


def loud(text: str) -> bool:
    """Print `text` where a program would.

    CLI Example::

        saltlite '*' probe.loud hello
    """
    print(text, flush=True)
    return True
