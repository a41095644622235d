"""`saltlite audit`: the audit log of this machine's master.

Both commands read files that only root and the master's user can read; the master need not run.
"""

from __future__ import annotations

import heapq
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option, parse_timestamp
from saltlite.cli.output import print_answer
from saltlite.client.events import EventReader
from saltlite.config.load import load_master
from saltlite.errors import SaltliteError, UnreachableError, UsageError
from saltlite.master.processes.audit import audit_dir, chains, entries_of, segments, verify
from saltlite.model.events import tag_audit_head
from saltlite.model.plain import printable
from saltlite.plugins.output.json import line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

LIMIT = 100
"""Entries that `audit list` shows unless --limit says otherwise."""
HEADS_S = 1.0
"""Seconds without a further event after which all heads that the store knows have arrived."""


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) > 0):
        raise UsageError(f"say a number of entries, not {text[:40]!r}")
    return int(text)


def run_list(argv: Sequence[str], console: Console) -> int:
    """Show entries, the newest last."""
    parsed = command_table(
        "audit list",
        Option("--who", metavar="GLOB", help="of these users: 'ada*'"),
        Option("--did", metavar="GLOB", help="of these requests: publish, 'key_*', login ..."),
        Option("--refused", help="only what was refused"),
        Option("--since", metavar="TIME", help="from this time on: 2h, 2026-01-31"),
        Option("--limit", metavar="N", convert=_limit, help=f"the last N of them ({LIMIT})"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"audit list takes no {parsed.words[0]!r}")
    since = (
        parse_timestamp(parsed.options["since"], lambda: _now(parsed, console)) if "since" in parsed.options else 0.0
    )
    wanted = [entry for entry in _entries(_folder(parsed)) if entry["at"] >= since and _is_wanted(entry, parsed)]
    shown = wanted[-parsed.options.get("limit", LIMIT) :]
    print_answer({"entries": shown}, "".join(f"{_row(entry)}\n" for entry in shown), parsed, console)
    return exitcodes.OK


def run_verify(argv: Sequence[str], console: Console) -> int:
    """Check every chain against itself and against what the store knows; exit 4 if something is wrong."""
    parsed = command_table("audit verify").parse(argv)
    console.quiet = parsed.on("quiet")
    if parsed.words:
        raise UsageError(f"audit verify takes no {parsed.words[0]!r}")
    folder, heads = _folder(parsed), {}
    try:
        heads = _heads(parsed)
    except UnreachableError as error:
        console.note(
            f"saltlite: the files are not compared with the store, because the master does not answer: {error}"
        )
    try:
        there = chains(folder)
        # The store of several masters knows the chains of all of them.
        own = tuple({f"{name.rpartition('.')[0]}." for name in there}) or ("",)
        names = sorted({*there, *(name for name in heads if name.startswith(own))})
        checked = [verify(folder, name, heads.get(name, {})) for name in names]
    except OSError as error:
        raise _unreadable(error, folder) from error
    problems = [problem for one in checked for problem in one.problems]
    lines = [f"{one.chain}: entries {one.first} to {one.last}" for one in checked if one.last]
    text = "\n".join([*lines, *problems, "" if problems else "no problem\n"])
    answer = {"chains": {one.chain: [one.first, one.last] for one in checked}, "problems": problems}
    print_answer(answer, text, parsed, console)
    return exitcodes.FAILED if problems else exitcodes.OK


def _now(parsed: Parsed, console: Console) -> float:
    """The time by the clock that the entries are from: that of this machine where the master does not answer."""
    try:
        with open_client(parsed) as client:
            return client.time()
    except SaltliteError:
        return console.own_now()


def _folder(parsed: Parsed) -> str:
    return audit_dir(load_master(config_dir_of(parsed)).config.data_dir)


def _heads(parsed: Parsed) -> dict[str, dict[int, str]]:
    """Chain -> number -> hash of what the store knows."""
    found: dict[str, dict[int, str]] = {}
    with open_client(parsed) as client:
        reader = EventReader(client, tag_audit_head(), after=0)
        while (event := reader.within(HEADS_S)) is not None:
            data = event["data"]
            found.setdefault(str(data["chain"]), {})[data["number"]] = data["hash"]
    return found


def _entries(folder: str) -> Iterator[dict[str, Any]]:
    """The entries of all chains by time."""
    try:
        each = [
            (entry for _first, path in segments(folder, chain) for entry in entries_of(path))
            for chain in chains(folder)
        ]
        yield from heapq.merge(*each, key=lambda entry: float(entry.get("at", 0.0)))
    except OSError as error:
        raise _unreadable(error, folder) from error


def _unreadable(error: OSError, folder: str) -> SaltliteError:
    if isinstance(error, FileNotFoundError):
        return UsageError(f"there is no audit log in {folder}: the master has not run yet")
    return UsageError(f"{error.filename or folder} cannot be read: {error.strerror}; run the command as root")


def _is_wanted(entry: dict[str, Any], parsed: Parsed) -> bool:
    return (
        fnmatchcase(str(entry.get("who")), parsed.options.get("who", "*"))
        and fnmatchcase(str(entry.get("did")), parsed.options.get("did", "*"))
        and (not parsed.on("refused") or "refused" in entry)
    )


_NOT_SHOWN = ("n", "at", "who", "did", "hash", "refused")


def _row(entry: dict[str, Any]) -> str:
    import time

    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["at"]))
    details = {name: value for name, value in entry.items() if name not in _NOT_SHOWN}
    text = f"{at}  {entry.get('who')}  {entry.get('did')}" + (f"  {line(details).strip()}" if details else "")
    return printable(text + (f"  refused: {entry['refused']}" if "refused" in entry else ""))
