"""`saltlite TARGET MODULE.FUNCTION …`: publish a job, print returns as they arrive, tell who is missing."""

from __future__ import annotations

import time

from saltlite.cli import exitcodes, outcome
from saltlite.cli.calls import read_call
from saltlite.cli.connect import open_client
from saltlite.cli.following import Following, tell_failures, tell_missing, tell_notes, tell_skipped
from saltlite.cli.outputters import DEFAULT, FOR_PROGRAMS, STREAMS, Outputters
from saltlite.cli.printers import EachEvent, EachReply, FullObject, OneObject, start_fields
from saltlite.cli.printing import look_of, opened_output
from saltlite.cli.targets import compound_hint, kinds_text, targets_text
from saltlite.client.waiting import Progress, WaitPolicy
from saltlite.config.paths import DEFAULT_CONFIG_DIR
from saltlite.errors import NoTargetError, UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.cli.printers import Printer
    from saltlite.client.local import JobCall, LocalClient
    from saltlite.client.waiting import Published

EXPIRY_S = 3.0
"""How much later than the end of its delivery time the master surely has said that a job was not delivered."""


def run(parsed: Parsed, console: Console) -> int:
    """Run one job, read with the table JOB; the exit code. Raises SaltliteError, and Detached when interrupted."""
    console.quiet = parsed.on("quiet")
    _check(parsed)
    with opened_output(parsed, console) as output:
        form = _Format(parsed, output)
        with open_client(parsed) as client:
            call, wanted = read_call(client, parsed, console)
            form.prefer(wanted)
            return _run(client, call, parsed, form)


def follow_job(client: LocalClient, published: Published, parsed: Parsed, console: Console) -> int:
    """Follow a job, whose stream the client's connection carries, as the command that publishes one does.

    Of the options in `parsed` those of FOLLOW_OPTIONS count. The exit code; raises as `run` does.
    """
    console.quiet = parsed.on("quiet")
    _check(parsed)
    with opened_output(parsed, console) as output:
        return _follow(client, published, parsed, _Format(parsed, output))


def _check(parsed: Parsed) -> None:
    if parsed.on("verbose") and parsed.on("quiet"):
        raise UsageError("--verbose and --quiet exclude each other")


class _Format:
    """How the returns of a job are printed, and where. Raises UsageError when there is no such outputter."""

    def __init__(self, parsed: Parsed, console: Console) -> None:
        self.console = console
        self._look = look_of(parsed, console)
        self._outputters = Outputters(lambda: _master_opts(parsed))
        self._asked: str = parsed.options.get("out", "")
        if self._asked and self._asked not in STREAMS:
            self._outputters.find(self._asked, self._look)
        self.out = self._asked or DEFAULT

    def prefer(self, wanted: str) -> None:
        """The function asks for this outputter, or for none."""
        self.out = self._outputters.choose(self._asked, wanted, self._look)

    def printer(self, progress: Progress) -> Printer:
        console, look = self.console, self._look
        if self.out in FOR_PROGRAMS:
            console.use_utf8()
        one_line = look.indent is not None and look.indent < 0
        if self.out == "json" and not one_line:
            return OneObject(console, look.indent)
        if self.out == "json-full":
            return FullObject(console, progress)
        if self.out == "jsonl":
            return EachEvent(console, progress)
        if not self._asked and self.out == DEFAULT and console.shows_data() and len(progress.states) > 1:
            from saltlite.cli.group import EqualAnswers

            return EqualAnswers(console, color=look.color)
        return EachReply(console, self.out, self._outputters, look)


def _master_opts(parsed: Parsed) -> dict[str, Any]:
    from saltlite.cli.custom_output import master_opts

    return master_opts(parsed.options.get("config_dir", DEFAULT_CONFIG_DIR))


def _run(client: LocalClient, call: JobCall, parsed: Parsed, form: _Format) -> int:
    published = _publish(client, call, parsed)
    if parsed.on("async"):
        tell_skipped(published, form.console)
        _print_jid(published, form.out, form.console)
        return exitcodes.OK
    return _follow(client, published, parsed, form)


def _publish(client: LocalClient, call: JobCall, parsed: Parsed) -> Published:
    try:
        published = client.publish(call, follow=not parsed.on("async"))
    except NoTargetError as error:
        raise NoTargetError(f"{error}{compound_hint(call.tgt, call.tgt_type)}") from error
    except KeyboardInterrupt:
        raise UnansweredInterrupt from None
    if not published.count:
        raise NoTargetError(f"nothing matches {call.tgt!r}; nothing was published")
    return published


class UnansweredInterrupt(KeyboardInterrupt):
    """Interrupted between the request and its answer."""

    def __str__(self) -> str:
        return "interrupted before the master answered: the job may have been published"


def _follow(client: LocalClient, published: Published, parsed: Parsed, form: _Format) -> int:
    console = form.console
    progress = Progress(published, now=time.monotonic())
    _tell_start(published, parsed, console)
    printer = form.printer(progress)
    code, missing = Following(client, progress, printer, console).run(_patience(published, parsed))
    if not printer.names_failures:
        tell_failures(progress, console)
    tell_notes(progress, console)
    tell_missing(progress, missing, console)
    if parsed.on("summary"):
        console.error(_summary(progress, len(missing)))
    return code


def _summary(progress: Progress, missing_count: int) -> str:
    counts = outcome.summary(progress, missing_count)
    resources = counts["resources"]
    which = f" ({kinds_text(len(progress.states) - resources, resources)})" if resources else ""
    return (
        f"{counts['targeted']} targeted{which}, {counts['returned']} returned, {counts['failed']} of them failed, "
        f"{counts['missing']} did not return ({time.monotonic() - progress.published_at:.1f} s)"
    )


def _tell_start(published: Published, parsed: Parsed, console: Console) -> None:
    if parsed.on("show_jid"):
        console.error(f"jid: {published.jid}")
    if parsed.on("verbose"):
        count = targets_text(len(published.minions), len(published.managing))
        began = outcome.moment(console.now(), console.now())
        console.error(f"job {published.jid}: {published.fun} on {published.target!r}, {count}, followed since {began}")
    tell_skipped(published, console)


def _patience(published: Published, parsed: Parsed) -> WaitPolicy:
    timeout_s = parsed.options.get("timeout")
    if timeout_s is not None:
        return WaitPolicy(timeout_s, away_quiet_s=timeout_s)
    if "deliver_by" not in parsed.options:
        return WaitPolicy(published.timeout_s)
    # Who says how long the job may take to arrive waits so long for it to arrive.
    whole_s = published.deliver_s + EXPIRY_S
    return WaitPolicy(max(published.timeout_s, whole_s), away_s=whole_s)


def _print_jid(published: Published, out: str, console: Console) -> None:
    if out in ("json", "json-full", "jsonl"):
        from saltlite.plugins.output import json

        console.use_utf8()
        shape = json.line if out == "jsonl" else json.document
        fields = start_fields(published)
        console.data(shape({"type": "start", **fields} if out == "jsonl" else fields))
    elif out != "quiet":
        console.data(f"Executed command with job ID: {published.jid}\n")
