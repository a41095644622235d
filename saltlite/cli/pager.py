"""The pager: what is longer than the screen of a terminal is read in another program, as with git.

SALTLITE_PAGER or PAGER names the program, else it is `less`; an empty one or `cat` means none.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess

DEFAULT_PAGER = "less"
ENVIRONMENT = {"LESS": "FRX", "LV": "-c"}
"""As git sets them: end at once if all fits, show colours, leave the text on the screen."""


def is_longer(text: str) -> bool:
    """Whether the text needs more lines than the terminal at descriptor 1 has, with one for the prompt."""
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return False
    if not size.lines or not size.columns:  # a terminal that does not know its size
        return False
    lines = (max(1, -(-len(line) // size.columns)) for line in text.removesuffix("\n").split("\n"))
    return sum(lines) >= size.lines


def show(text: str, encoding: str) -> bool:
    """Show the text in the pager until the user ends it; False if there is no pager that can be started."""
    argv = _pager()
    if not argv or not _has_a_reader():
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        with subprocess.Popen(argv, stdin=subprocess.PIPE, env={**ENVIRONMENT, **os.environ}) as pager:
            pager.communicate(text.encode(encoding, "backslashreplace"))  # returns early when the user has seen enough
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return True


def _has_a_reader() -> bool:
    """Whether the terminal at descriptor 1 is the one that this process is controlled from, and in its foreground.

    A program that collects output through a pseudoterminal, as `cmd.run_all use_vt=True` does, would never end a pager.
    """
    try:
        return os.tcgetpgrp(1) == os.getpgrp()
    except OSError:
        return False


def _pager() -> list[str]:
    wish = next((os.environ[name] for name in ("SALTLITE_PAGER", "PAGER") if name in os.environ), DEFAULT_PAGER)
    if os.environ.get("TERM", "dumb") == "dumb":
        return []
    try:
        argv = shlex.split(wish)
    except ValueError:  # quotes without their ends
        return []
    return argv if argv and argv != ["cat"] and shutil.which(argv[0]) else []
