"""Follow one published job to its end, or to the end of somebody's patience: what is shown, and the exit code."""

from __future__ import annotations

import time

from saltlite.cli import exitcodes, outcome
from saltlite.cli.targets import noun, skipped_lines
from saltlite.client.waiting import FIRST_MESSAGE_S
from saltlite.errors import RemoteProtocolError, SaltliteError, UnreachableError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.interrupt import HeldInterrupts
    from saltlite.cli.outcome import Missing
    from saltlite.cli.printers import Printer
    from saltlite.cli.progress import StatusLine
    from saltlite.client.local import LocalClient
    from saltlite.client.waiting import Progress, Published, WaitPolicy

    Message = dict[str, Any]
    Step = Callable[[], Message | None]

_END: dict[str, Any] = {}


class Detached(KeyboardInterrupt):
    """Nobody waits for the job any more; it goes on."""

    def __init__(self, jid: str) -> None:
        super().__init__(
            f"interrupted: job {jid} goes on; see it with `saltlite job watch {jid}`, "
            f"end it with `saltlite job kill {jid}`"
        )


class Following:
    """One job that is followed. `progress` was just begun, and the client's connection carries its stream."""

    def __init__(self, client: LocalClient, progress: Progress, printer: Printer, console: Console) -> None:
        self._client = client
        self._progress = progress
        self._printer = printer
        self._console = console
        self._jid = progress.published.jid
        self._status = _status_line(console, progress)
        self._away_untold = bool(progress.published.away)
        self._interrupts = _held_interrupts() if console.can_ask() and not console.feeds_pipe() else None

    def run(self, patience: WaitPolicy) -> tuple[int, list[Missing]]:
        """Wait and print; the exit code, and who did not return.

        Raises Detached when it is interrupted, and UnreachableError when the master is gone: what has arrived is
        printed in either case.
        """
        try:
            self._printer.start()
            if self._interrupts is None:
                self._take_messages(patience, lambda step: step())
            else:
                self._wait_and_ask(patience, self._interrupts)
            if self._away_untold:
                tell_away(self._progress, self._console)
            heard = self._heard()
        except KeyboardInterrupt:
            self._printer.finish(self._missing(), exitcodes.INTERRUPTED)
            raise Detached(self._jid) from None
        except (UnreachableError, RemoteProtocolError) as error:
            self._printer.finish(self._missing(), error.exit_code)
            raise
        missing, code = self._missing(heard), outcome.exit_code(self._progress)
        self._printer.finish(missing, code)
        return code, missing

    def _wait_and_ask(self, patience: WaitPolicy, interrupts: HeldInterrupts) -> None:
        from saltlite.cli.interrupt import ask_and_do

        waiting = True
        with interrupts as held:
            while waiting:
                try:
                    self._take_messages(patience, held.run)
                    waiting = False
                except KeyboardInterrupt:
                    held.run(lambda: ask_and_do(self._client, self._progress, self._console))

    def _take_messages(self, patience: WaitPolicy, run: Callable[[Step], Message | None]) -> None:
        """Until the stream ends or patience does; `run` calls what waits, and may be interrupted in it."""
        tick_s = self._status.tick_s if self._status is not None else FIRST_MESSAGE_S if self._away_untold else None
        messages = self._client.messages(self._progress, patience, tick_s=tick_s)
        try:
            while (message := run(lambda: next(messages, _END))) is not _END:
                if message is not None:
                    self._printer.take(self._progress.apply(message, now=time.monotonic()))
                if self._away_untold and self._progress.begun_or_late(time.monotonic()):
                    self._away_untold = False  # not sooner: who is away now may have returned long ago
                    tell_away(self._progress, self._console)
                if self._status is not None:
                    self._status.show(time.monotonic())
        finally:
            messages.close()
            self._console.clear_status()

    def _heard(self) -> Mapping[str, float | None]:
        silent = self._progress.silent()
        try:
            return self._client.heard(silent) if silent else {}
        except SaltliteError:  # the master may have gone by now; the job is summed up without
            return {}

    def _missing(self, heard: Mapping[str, float | None] | None = None) -> list[Missing]:
        return outcome.missing(self._progress, known_now(self._progress, self._console, heard))


def _status_line(console: Console, progress: Progress) -> StatusLine | None:
    if not console.wants_status():
        return None
    from saltlite.cli.progress import StatusLine

    return StatusLine(console, progress)


def _held_interrupts() -> HeldInterrupts:
    from saltlite.cli.interrupt import HeldInterrupts

    return HeldInterrupts()


def known_now(progress: Progress, console: Console, heard: Mapping[str, float | None] | None = None) -> outcome.Known:
    """What is known at this moment."""
    return outcome.Known(now=console.now(), waited_s=time.monotonic() - progress.published_at, heard=heard)


def tell_skipped(published: Published, console: Console) -> None:
    """Say which resources the job left out."""
    for line in skipped_lines(published.skipped):
        console.note(line)


def tell_away(progress: Progress, console: Console) -> None:
    """Name at once the targets whose minion is not connected, and say until when the job waits for it."""
    known = known_now(progress, console)
    away = [outcome.missing_one(progress, one, known) for one in progress.states if progress.is_away(one)]
    if away:
        until = outcome.moment(outcome.delivery_end(progress.published), known.now)
        waits = f"; the job waits for it until {until} (--deliver-by)" if progress.published.deliver_s else ""
        _note(progress, console, sorted((one.name, f"{one.reason}{waits}") for one in away))


def tell_failures(progress: Progress, console: Console) -> None:
    """Name the targets whose function returned a failure."""
    _note(progress, console, outcome.failures(progress))


def tell_notes(progress: Progress, console: Console) -> None:
    """Say what targets had to say beside their returns."""
    _note(progress, console, outcome.notes(progress))


def tell_missing(progress: Progress, missing: Sequence[Missing], console: Console) -> None:
    """Name who did not return, but for those that `tell_away` has named."""
    told = {target for target in progress.states if progress.is_away(target)}
    _note(progress, console, [(one.name, one.reason) for one in missing if one.id not in told])
    if waiting := outcome.open_targets(progress):
        published = progress.published
        jid, count = published.jid, f"{len(waiting)} of {len(progress.states)}"
        kind = noun(len(published.minions), len(published.managing))
        console.note(f"saltlite: job {jid} stays open for {count} {kind}; end it with `saltlite job kill {jid}`")


def _note(progress: Progress, console: Console, told: Sequence[tuple[str, str]]) -> None:
    published = progress.published
    for line in outcome.lines(told, noun(len(published.minions), len(published.managing))):
        console.note(line)
