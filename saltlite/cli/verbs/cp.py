"""`saltlite cp`: copy files of this machine to minions.

They are uploaded to the master, and each minion fetches them from there like any file: in pieces, compared by digest.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from saltlite.cli.commands import COMMANDS, LOG_LEVEL, VERSIONS, begin
from saltlite.cli.connect import open_client
from saltlite.cli.job import follow_job, origin
from saltlite.cli.job_options import FOLLOW_OPTIONS
from saltlite.cli.options import Option, Table, parse_duration
from saltlite.cli.targets import TARGET_OPTIONS, target_kind
from saltlite.client.local import JobCall
from saltlite.errors import SaltliteError, UsageError
from saltlite.platform import logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient

PIECE = 1024 * 1024
"""Bytes of one upload."""

OPTIONS = (
    # Salt's salt-cp has -C for something else.
    *(option if option.key != "compound" else Option("--compound", help=option.help) for option in TARGET_OPTIONS),
    Option("-C", "--chunked", help="no effect: files always go in pieces, however large"),
    Option("--deliver-by", metavar="TIME", convert=parse_duration, help="how long it may wait to reach a minion"),
    *FOLLOW_OPTIONS,
    LOG_LEVEL,
    *VERSIONS,
)


def run(argv: Sequence[str], console: Console) -> int:
    """Copy the files, and report what each minion has; the exit code is that of the job."""
    parsed = Table(*COMMANDS["cp"], OPTIONS, salt="salt-cp").parse(argv)
    begin(parsed, "saltlite-cp", console)
    logs.configure(parsed.options.get("log_level", "warning"))
    if len(parsed.words) < 3:
        raise UsageError("name the target, the files and the destination: saltlite cp TARGET SOURCE... DEST")
    target, *sources, dest = parsed.words
    if not dest.startswith("/"):
        raise UsageError(f"{dest!r} is a path on minions and must be absolute")
    files = list(_files(sources))
    with open_client(parsed) as client:
        area, jid = client.call("copy_begin")["area"], ""
        try:
            for path, name in files:
                _upload(client, area, path, name)
            published = client.publish(_job(parsed, target, [area, dest]), follow=True)
            jid = published.jid
            return follow_job(client, published, parsed, console)
        finally:
            # The master deletes the rest a day later.
            with contextlib.suppress(SaltliteError):
                client.call("copy_end", area=area, jid=jid)


def _job(parsed: Parsed, target: str, arguments: list[str]) -> JobCall:
    deliver_by: float | None = parsed.options.get("deliver_by")
    return JobCall(
        target,
        "cp.recv",
        arg=arguments,
        tgt_type=target_kind(parsed),
        deliver_ms=None if deliver_by is None else int(deliver_by * 1000),
        origin=origin() or None,
    )


def _upload(client: LocalClient, area: str, path: str, name: str) -> None:
    """Upload one file."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            offset = 0
            while (data := file.read(PIECE)) or offset == 0:
                client.call("copy_put", area=area, path=name, offset=offset, data=data, mode=mode)
                offset += len(data)
                if not data:
                    break
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _files(sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(path here, path below the destination) of each file. Raises UsageError for what cannot be copied."""
    seen: dict[str, str] = {}
    for source in sources:
        if os.path.isdir(source):
            base = os.path.dirname(os.path.abspath(source))
            found = [os.path.join(above, one) for above, _folders, names in os.walk(source) for one in sorted(names)]
            pairs = [(path, os.path.relpath(os.path.abspath(path), base)) for path in found]
        elif os.path.isfile(source):
            pairs = [(source, os.path.basename(source))]
        else:
            raise UsageError(f"there is no file {source}")
        for path, name in pairs:
            if seen.setdefault(name, path) != path:
                raise UsageError(f"{seen[name]} and {path} would have the same path on the minions")
            yield path, name
    if not seen:
        raise UsageError("there is no file to copy")
