"""Ctrl-C while a job is followed: what it may cut short, and the question that a person is asked."""

from __future__ import annotations

import signal

from saltlite.cli import outcome
from saltlite.cli.nodeset import nodeset
from saltlite.errors import SaltliteError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, Self, TypeVar

    from saltlite.cli.console import Console
    from saltlite.client.local import LocalClient
    from saltlite.client.waiting import Progress

    T = TypeVar("T")

DETACH, KILL, WAIT = "d", "k", "w"


class HeldInterrupts:
    """A context in which Ctrl-C is a KeyboardInterrupt only while `run` runs something.

    One that comes at another time, when half a return is printed for one, is raised by the next `run`.
    """

    def __init__(self) -> None:
        self._running = False
        self._pending = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *unused: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self._running:
            raise KeyboardInterrupt
        self._pending = True

    def run(self, step: Callable[[], T]) -> T:
        """What `step` gives. Raises KeyboardInterrupt, after which `step` may have begun."""
        self._running = True
        try:
            if self._pending:
                self._pending = False
                raise KeyboardInterrupt
            return step()
        finally:
            self._running = False


def ask_and_do(client: LocalClient, progress: Progress, console: Console) -> None:
    """Return when the person wants to wait on, after killing the job where it is open for one.

    Raises KeyboardInterrupt for the rest, a second Ctrl-C included.
    """
    left = outcome.amount(progress, outcome.open_targets(progress))
    key = console.ask_key(f"[d]etach  [k]ill on {left}  [w]ait", f"{DETACH}{KILL}{WAIT}")
    if key == KILL:
        _kill(client, progress, console)
    elif key != WAIT:
        raise KeyboardInterrupt


def _kill(client: LocalClient, progress: Progress, console: Console) -> None:
    jid = progress.published.jid
    try:
        answer = client.call("job_kill", jid=jid)
    except SaltliteError as error:
        console.error(f"saltlite: the job could not be killed: {error}")
        return
    console.note(f"saltlite: asked {outcome.amount(progress, answer['ids'])} to kill job {jid}")
    if away := answer["away"]:
        console.note(f"not connected, so not asked: {nodeset(map(progress.published.name, away))}")
