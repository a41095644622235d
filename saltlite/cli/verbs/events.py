"""`saltlite events`: show events as they come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option, parse_timestamp
from saltlite.client.events import EventReader
from saltlite.errors import UsageError
from saltlite.model.events import matches
from saltlite.model.plain import printable
from saltlite.plugins.output.json import document, line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient

CURSOR_DIGITS = 18
"""A cursor fits into 63 bits."""

SKIPPED_S = 1.0
"""Seconds without another event after which unreadable ones are reported."""


def run(argv: Sequence[str], console: Console) -> int:
    """Show events until Ctrl-C, or until `--count` of them."""
    table = command_table(
        "events",
        Option("--since", metavar="FROM", help="begin after this event number, or at this time: 2h"),
        Option(
            "--data",
            metavar="FIELD=GLOB",
            many=True,
            convert=_field,
            help="only matching events: data.env=prod*",
        ),
        Option("--count", metavar="N", convert=_whole, help="end after that many events"),
        formats=("text", "json", "jsonl"),
    )
    parsed = table.parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) > 1:
        raise UsageError("events takes one pattern; put it in quotes: saltlite events 'salt/job/*'")
    pattern = parsed.words[0] if parsed.words else "*"
    with open_client(parsed, console) as client:
        reader = EventReader(client, pattern, **_begin(parsed, client))
        if reader.gone:
            console.note("saltlite: the first of these events have been deleted (keep_jobs, store_max)")
        return _show(reader, parsed, console)


def _field(text: str) -> tuple[str, str]:
    field, equals, glob = text.partition("=")
    if not field or not equals:
        raise UsageError(f"{text[:40]!r} is not a field and glob: write --data retcode=0, or --data data.env='prod*'")
    return field, glob


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= CURSOR_DIGITS):
        raise UsageError(f"{text[:40]!r} is not a whole number")
    return int(text)


def _begin(parsed: Parsed, client: LocalClient) -> dict[str, Any]:
    if "since" not in parsed.options:
        return {}
    text: str = parsed.options["since"]
    if text.isdigit():
        return {"after": _whole(text)}
    try:
        return {"since": parse_timestamp(text, client.time)}
    except UsageError as error:
        raise UsageError(f"--since: {error}, or the number of an event") from error


def _show(reader: EventReader, parsed: Parsed, console: Console) -> int:
    out = parsed.options.get("out", "text")
    if out != "text":
        console.use_utf8()
    left = parsed.options.get("count")
    wanted = dict(parsed.options.get("data", ()))
    held: list[dict[str, Any]] = []
    code = exitcodes.OK
    try:
        while left is None or left > 0:
            event = _next(reader, console)
            if not matches(event["data"], wanted):
                continue
            left = None if left is None else left - 1
            if out == "json":
                held.append(event)
            else:
                console.data(line(event) if out == "jsonl" else _text(event))
    except KeyboardInterrupt:
        console.note(f"saltlite: `--since {reader.seq}` goes on from here")
        code = exitcodes.INTERRUPTED
    if out == "json":
        console.data(document({"events": held, "seq": reader.seq}))
    return code


def _next(reader: EventReader, console: Console) -> dict[str, Any]:
    """The next event; unreadable ones are reported on stderr at once."""
    while (event := reader.within(SKIPPED_S)) is None:
        _report_skipped(reader, console)
    _report_skipped(reader, console)
    return event


def _report_skipped(reader: EventReader, console: Console) -> None:
    for one in reader.skipped:
        console.note(
            f"saltlite: event {one['seq']} ({printable(str(one['tag']))}) cannot be read and is skipped: "
            f"{printable(str(one['reason']))}"
        )
    reader.skipped.clear()


def _text(event: dict[str, Any]) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["at"]))
    return f"{event['seq']:>8}  {at}  {printable(event['tag'])}  {line(event['data'])}"
