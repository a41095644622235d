"""Follow one published job until it ends or the waiting does: printing, the status line, Ctrl-C, the exit code.

`saltlite.cli.job` and the verbs `job watch`, `job rerun` and `cp` use it. `saltlite.client.follower` decides how long
to wait; `saltlite.cli.outcome` words what did not return.
"""

from __future__ import annotations

import time

from saltlite.cli import exitcodes, outcome
from saltlite.cli.targets import missing_executor_lines, natural_key, nodeset, noun, skipped_lines
from saltlite.client.follower import FIRST_MESSAGE_S
from saltlite.errors import RemoteProtocolError, SaltliteError, UnreachableError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import Any, Self, TypeVar

    from saltlite.cli.console import Console
    from saltlite.cli.outcome import Missing
    from saltlite.cli.printers import Printer
    from saltlite.client.follower import Progress, Published, WaitPolicy
    from saltlite.client.local import LastSeen, LocalClient

    T = TypeVar("T")
    Message = dict[str, Any]
    Step = Callable[[], Message | None]

TICK_S = 0.25
"""How often the status line is drawn while nothing happens."""

SHOW_AFTER_S = 0.25
"""A job that ends sooner shows no status line."""

REDRAW_S = 0.1
"""The shortest time between two redraws; returns may arrive by the thousand."""

NAMES_MAX = 5
"""The status line names the remaining targets when there are at most this many."""

DETACH, KILL, WAIT = "d", "k", "w"

_SEPARATOR = " \u00b7 "
_END: dict[str, Any] = {}


class Detached(KeyboardInterrupt):
    """The user stopped waiting; the job goes on."""

    def __init__(self, jid: str) -> None:
        super().__init__(
            f"interrupted: job {jid} goes on; see it with `saltlite job watch {jid}`, "
            f"end it with `saltlite job kill {jid}`"
        )


class Following:
    """One followed job. `progress` is new, and the client's connection carries the job's stream.

    `names_away`: say which targets are not connected. `passthrough`: as in `outcome.exit_code`.
    """

    def __init__(
        self,
        client: LocalClient,
        progress: Progress,
        printer: Printer,
        console: Console,
        *,
        names_away: bool = True,
        passthrough: bool = False,
    ) -> None:
        self._client = client
        self._progress = progress
        self._printer = printer
        self._console = console
        self._jid = progress.published.jid
        self._status = StatusLine(console, progress) if console.wants_status() else None
        self._away_unreported = names_away and bool(progress.published.away)
        self._passthrough = passthrough
        self._interrupts = HeldInterrupts() if console.can_ask() and not console.feeds_pipe() else None

    def run(self, policy: WaitPolicy) -> tuple[int, list[Missing]]:
        """Wait and print; the exit code, and the targets that did not return.

        Raises Detached when interrupted, and UnreachableError when the master is gone. What has arrived is printed in
        either case.
        """
        try:
            self._printer.start()
            if self._interrupts is None:
                self._take_messages(policy, lambda step: step())
            else:
                self._wait_and_ask(policy, self._interrupts)
            if self._away_unreported:
                report_away(self._progress, self._console)
            last_seen = self._last_seen()
        except KeyboardInterrupt:
            self._printer.finish(self._missing(), exitcodes.INTERRUPTED)
            raise Detached(self._jid) from None
        except (UnreachableError, RemoteProtocolError) as error:
            self._printer.finish(self._missing(), error.exit_code)
            raise
        missing, code = self._missing(last_seen), outcome.exit_code(self._progress, passthrough=self._passthrough)
        self._printer.finish(missing, code)
        return code, missing

    def _wait_and_ask(self, policy: WaitPolicy, interrupts: HeldInterrupts) -> None:
        waiting = True
        with interrupts as held:
            while waiting:
                try:
                    self._take_messages(policy, held.run)
                    waiting = False
                except KeyboardInterrupt:
                    held.run(lambda: ask_and_do(self._client, self._progress, self._console))

    def _take_messages(self, policy: WaitPolicy, run: Callable[[Step], Message | None]) -> None:
        """Take messages until the stream or the waiting ends; `run` calls what blocks, and may be interrupted."""
        tick_s = TICK_S if self._status is not None else FIRST_MESSAGE_S if self._away_unreported else None
        messages = self._client.messages(self._progress, policy, tick_s=tick_s)
        try:
            while (message := run(lambda: next(messages, _END))) is not _END:
                if message is not None:
                    self._printer.take(self._progress.apply(message, now=time.monotonic()))
                if self._away_unreported and self._progress.begun_or_late(time.monotonic()):
                    self._away_unreported = False  # not sooner: a minion that is away now may have returned long ago
                    report_away(self._progress, self._console)
                if self._status is not None:
                    self._status.show(time.monotonic())
        finally:
            messages.close()
            self._console.clear_status()

    def _last_seen(self) -> LastSeen | None:
        progress = self._progress
        carriers = dict.fromkeys([*progress.silent(), *map(progress.published.carrier, outcome.open_targets(progress))])
        waited_for = [minion for minion in carriers if minion not in progress.published.away]
        try:
            return self._client.last_seen(waited_for) if waited_for else None
        except SaltliteError:  # the master may be gone by now; the summary does without
            return None

    def _missing(self, last_seen: LastSeen | None = None) -> list[Missing]:
        return outcome.missing(self._progress, known_now(self._progress, self._console, last_seen))


class StatusLine:
    """Draws `12/15 returned · 2 running · 1 silent · 3.2 s` for one job. Times are of `time.monotonic`."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._due = progress.published_at + SHOW_AFTER_S

    def show(self, now: float) -> None:
        """Draw the line, unless it was drawn just before."""
        if now >= self._due:
            self._due = now + REDRAW_S
            self._console.status(status_text(self._progress, now=now, width=self._console.status_width()))


def status_text(progress: Progress, *, now: float, width: int) -> str:
    """As much of the status line as fits into `width` characters; the less important parts are dropped first."""
    counts = progress.counts()
    done = f"{counts.pop('returned', 0)}/{len(progress.states)}"
    elapsed = _elapsed(now - progress.published_at)
    states = [f"{count} {name}" for name, count in counts.items()]
    awaited = progress.awaited()
    names = (
        [", ".join(sorted(map(progress.published.name, awaited), key=natural_key))]
        if 0 < len(awaited) <= NAMES_MAX
        else []
    )
    forms = (
        [f"{done} returned", *states, elapsed, *names],
        [f"{done} returned", *states, elapsed],
        [done, *states],
        [f"{done} returned", elapsed],
        [done, elapsed],
    )
    texts = [_SEPARATOR.join(form) for form in forms]
    return next((text for text in texts if len(text) <= width), done[:width])


def _elapsed(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes} min {left:02d} s"


class HeldInterrupts:
    """A context in which Ctrl-C raises KeyboardInterrupt only while `run` runs something.

    A Ctrl-C at another time, such as in the middle of printing a return, is raised by the next `run`.
    """

    def __init__(self) -> None:
        import _signal as signal  # type: ignore[import-not-found]  # signal itself imports enum

        self._signal = signal
        self._running = False
        self._pending = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = self._signal.signal(self._signal.SIGINT, self._take)
        return self

    def __exit__(self, *unused: object) -> None:
        self._signal.signal(self._signal.SIGINT, self._before)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self._running:
            raise KeyboardInterrupt
        self._pending = True

    def run(self, step: Callable[[], T]) -> T:
        """The result of `step`. Raises KeyboardInterrupt, after which `step` may have begun."""
        self._running = True
        try:
            if self._pending:
                self._pending = False
                raise KeyboardInterrupt
            return step()
        finally:
            self._running = False


def ask_and_do(client: LocalClient, progress: Progress, console: Console) -> None:
    """Ask what a Ctrl-C meant. Return when the person waits on, or after killing the job where it is open.

    Raises KeyboardInterrupt for any other answer, a second Ctrl-C included.
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


def known_now(progress: Progress, console: Console, last_seen: LastSeen | None = None) -> outcome.Known:
    """What is known now."""
    seen_ago, absences = last_seen or ({}, {})
    waited_s = time.monotonic() - progress.published_at
    return outcome.Known(now=console.now(), waited_s=waited_s, seen_ago=seen_ago, absences=absences)


def report_skipped(published: Published, console: Console) -> None:
    """Say which resources the job skipped, and which minions do not have the requested executors."""
    for line in (*skipped_lines(published.skipped), *missing_executor_lines(published.missing_executors)):
        console.note(line)


def report_away(progress: Progress, console: Console) -> None:
    """Name the targets whose minion is not connected, and say until when the job waits for it."""
    known = known_now(progress, console)
    away = [outcome.missing_one(progress, one, known) for one in progress.states if progress.is_away(one)]
    if away:
        until = outcome.local_time(outcome.delivery_end(progress.published), known.now)
        waits = f"; the job waits for it until {until} (--deliver-by)" if progress.published.deliver_s else ""
        _note(
            progress,
            console,
            [(one.name, f"{one.reason}{waits}") for one in sorted(away, key=lambda one: natural_key(one.name))],
        )


def report_failures(progress: Progress, console: Console) -> None:
    """Name the targets whose function returned a failure."""
    _note(progress, console, outcome.failures(progress))


def report_notes(progress: Progress, console: Console) -> None:
    """Print the notes that targets sent with their returns."""
    _note(progress, console, outcome.notes(progress))


def report_missing(progress: Progress, missing: Sequence[Missing], console: Console) -> None:
    """Name the targets that did not return, except those that `report_away` has named."""
    reported = {target for target in progress.states if progress.is_away(target)}
    _note(progress, console, [(one.name, one.reason) for one in missing if one.id not in reported])
    if waiting := outcome.open_targets(progress):
        published = progress.published
        jid, count = published.jid, f"{len(waiting)} of {len(progress.states)}"
        kind = noun(len(published.minions), len(published.managing))
        console.note(f"saltlite: job {jid} stays open for {count} {kind}; end it with `saltlite job kill {jid}`")


def _note(progress: Progress, console: Console, rows: Sequence[tuple[str, str]]) -> None:
    published = progress.published
    for line in outcome.lines(rows, noun(len(published.minions), len(published.managing))):
        console.note(line)
