"""`saltlite TARGET MODULE.FUNCTION …`: publish a job, print returns as they arrive, tell who is missing."""

from __future__ import annotations

import time

from saltlite.cli import exitcodes, outcome
from saltlite.cli.arguments import parse_arguments
from saltlite.cli.connect import open_client
from saltlite.cli.joboptions import TARGET_AND_FUNCTION
from saltlite.cli.render import outputters
from saltlite.client.local import JobCall
from saltlite.client.waiting import Progress
from saltlite.errors import NoTargetError, UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient
    from saltlite.client.waiting import Published, Reply


def run(parsed: Parsed, console: Console) -> int:
    """Run one job, read with the table JOB; the exit code. Raises SaltliteError."""
    console.quiet = parsed.on("quiet")
    call = _job_call(parsed)
    out: str = parsed.options.get("out", outputters.DEFAULT)
    if out in outputters.FOR_PROGRAMS:
        console.use_utf8()
    with open_client(parsed) as client:
        published = _publish(client, call, parsed)
        if parsed.on("async"):
            _print_jid(published, out, console)
            return exitcodes.OK
        progress = Progress(published, now=time.monotonic())
        printer = _Printer(console, out, colors=not parsed.on("no_color") and console.wants_colors())
        timeout_s = parsed.options.get("timeout", published.timeout_s)
        return _follow(client, progress, printer, timeout_s)


def _job_call(parsed: Parsed) -> JobCall:
    if len(parsed.words) < TARGET_AND_FUNCTION or "." not in parsed.words[1]:
        raise UsageError(_what_is_missing(parsed.words))
    if parsed.on("pcre") and parsed.on("list"):
        raise UsageError("--pcre and --list exclude each other: a target is read in one way")
    target, fun, *words = parsed.words
    arg, kwarg = parse_arguments(words)
    return JobCall(
        target,
        fun,
        arg=arg,
        kwarg=kwarg,
        tgt_type="pcre" if parsed.on("pcre") else "list" if parsed.on("list") else "glob",
        deliver_ms=_milliseconds(parsed.options.get("deliver_by")),
        run_ms=_milliseconds(parsed.options.get("run_timeout")),
    )


def _what_is_missing(words: Sequence[str]) -> str:
    if not words:
        return "say what to run where: saltlite TARGET MODULE.FUNCTION, as in saltlite '*' test.ping"
    if len(words) == 1:
        return f"{words[0]!r} is no command, and a target needs a function: saltlite {words[0]!r} test.ping"
    return f"{words[1]!r} is not a function: it is written MODULE.FUNCTION, as in test.ping"


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _publish(client: LocalClient, call: JobCall, parsed: Parsed) -> Published:
    try:
        published = client.publish(call, follow=not parsed.on("async"))
    except KeyboardInterrupt:
        raise UnansweredInterrupt from None
    if not published.minions:
        raise NoTargetError(f"no minion matches {call.tgt!r}; nothing was published")
    return published


class UnansweredInterrupt(KeyboardInterrupt):
    """Interrupted between the request and its answer."""

    def __str__(self) -> str:
        return "interrupted before the master answered: the job may have been published"


def _print_jid(published: Published, out: str, console: Console) -> None:
    if out == "json":
        from saltlite.cli.render.json import document

        console.data(document({"jid": published.jid, "minions": published.minions}))
    elif out != "quiet":
        console.data(f"Executed command with job ID: {published.jid}\n")


class _Printer:
    """Prints returns as they arrive, or at the end where the format is one document."""

    def __init__(self, console: Console, out: str, *, colors: bool) -> None:
        self.console = console
        self._out = out
        self._colors = colors
        self._held: dict[str, Any] = {}

    def reply(self, reply: Reply) -> None:
        if not reply.has_value:
            return
        if self._out in outputters.WHOLE:
            self._held[reply.id] = reply.value
            return
        red_ids = frozenset({reply.id} if reply.failed() else ())
        paint = outputters.Paint(colors=self._colors, red_ids=red_ids)
        self._print(outputters.render(self._out, {reply.id: reply.value}, paint))

    def finish(self) -> None:
        """Call it however the job ended: what has arrived is worth printing."""
        if self._out in outputters.WHOLE:
            self._print(outputters.render(self._out, self._held))

    def _print(self, text: str) -> None:
        if text:
            self.console.data(text)


def _follow(client: LocalClient, progress: Progress, printer: _Printer, timeout_s: float) -> int:
    jid, console = progress.published.jid, printer.console
    try:
        try:
            for reply in client.watch(progress, timeout_s):
                printer.reply(reply)
        finally:
            printer.finish()
    except KeyboardInterrupt:
        console.error(f"interrupted: job {jid} goes on; end it with `saltlite job kill {jid}`")
        return exitcodes.INTERRUPTED
    _tell_missing(progress, console)
    return outcome.exit_code(progress)


def _tell_missing(progress: Progress, console: Console) -> None:
    waited_s = time.monotonic() - progress.published_at
    for line in outcome.failed_lines(progress):
        console.note(line)
    for line in outcome.missing_lines(progress, waited_s=waited_s, now=console.now()):
        console.note(line)
    if waiting := outcome.open_minions(progress):
        jid, count = progress.published.jid, f"{len(waiting)} of {len(progress.states)}"
        console.note(f"saltlite: job {jid} stays open for {count} minions; end it with `saltlite job kill {jid}`")
