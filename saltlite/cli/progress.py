"""How far a job is, in one line for a person who waits: `12/15 returned · 2 running · 1 silent · 3.2 s`."""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from saltlite.cli.console import Console
    from saltlite.client.waiting import Progress

TICK_S = 0.25
"""How often the line is drawn while nothing happens."""

SHOW_AFTER_S = 0.25
"""A job that ends sooner shows no line."""

REDRAW_S = 0.1
"""The shortest time between two lines: returns come by the thousand."""

NAMES_MAX = 5
"""When no more targets remain their names are shown."""

_SEPARATOR = " \u00b7 "


class StatusLine:
    """Draws the line for one job on a console that wants one. Times are of `time.monotonic`."""

    tick_s = TICK_S
    """How often to call `show` while there is no news."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._due = progress.published_at + SHOW_AFTER_S

    def show(self, now: float) -> None:
        """Draw it, unless that was done a moment ago."""
        if now >= self._due:
            self._due = now + REDRAW_S
            self._console.status(status_text(self._progress, now=now, width=self._console.status_width()))


def status_text(progress: Progress, *, now: float, width: int) -> str:
    """As much of the line as fits into `width` characters; what matters less is left out first."""
    counts = progress.counts()
    done = f"{counts.pop('returned', 0)}/{len(progress.states)}"
    elapsed = _elapsed(now - progress.published_at)
    states = [f"{count} {name}" for name, count in counts.items()]
    awaited = progress.awaited()
    names = [", ".join(sorted(map(progress.published.name, awaited)))] if 0 < len(awaited) <= NAMES_MAX else []
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
