"""`saltlite job fetch`: a return that was too large to travel, whole, from the minion that kept it.

It comes in parts, one job each, and is compared with its length and SHA-256 before anything is written.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.connect import open_client
from saltlite.cli.jobs import JobRow, amount
from saltlite.cli.options import Option
from saltlite.cli.outfile import OutFile
from saltlite.client.local import JobCall
from saltlite.client.values import decode_value
from saltlite.client.waiting import Progress, WaitPolicy
from saltlite.config.paths import require_path
from saltlite.errors import NoTargetError, SaltliteError, UnreachableError, UsageError
from saltlite.model.ids import parse_jid
from saltlite.model.printable import printable
from saltlite.plugins.output.json import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.client.local import LocalClient

FUNCTION = "saltutil.kept_return"
PART_BYTES = 4 * 1024 * 1024
"""Bytes that one job brings."""
WHOLE_MAX = 1024 * 1024 * 1024
"""Bytes of a return that is fetched: it is held in memory until its checksum was compared."""
CONTAINERS_MAX = 10_000_000
"""Lists and maps in it, which take a GiB."""


def run(argv: Sequence[str], console: Console) -> int:
    """Fetch the return of a job on one minion; a text and bytes are written as they are, the rest as JSON."""
    parsed = command_table(
        "job fetch",
        Option("--out-file", metavar="PATH", convert=require_path, help="write it to this file, whole or not at all"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) not in (1, 2):
        raise UsageError("say which return to fetch: saltlite job fetch JID MINION")
    jid = parse_jid(parsed.words[0])
    with open_client(parsed) as client:
        minion = parsed.words[1] if len(parsed.words) == 2 else _only_target(client.call("job_show", jid=jid)["job"])
        value = decode_value(_fetch(client, jid, minion, console), containers_max=CONTAINERS_MAX)
    if parsed.options.get("out") == "json":
        data: str | bytes = document({minion: value})
    else:
        data = value if isinstance(value, str | bytes) else document(value)
    _write(data, parsed.options.get("out_file", ""), console)
    return exitcodes.OK


def _only_target(job: JobRow) -> str:
    targets, jid = job["targets"], job["jid"]
    if len(targets) != 1:
        raise UsageError(f"job {jid} ran on {amount(targets)}: say which, saltlite job fetch {jid} MINION")
    target: str = targets[0]["id"]
    if "minion" in targets[0]:
        raise UsageError(f"{target} is a resource, and of resources no whole return is kept")
    return target


def _fetch(client: LocalClient, jid: str, minion: str, console: Console) -> bytes:
    """All of the kept return. Raises SaltliteError when what came is not what was kept."""
    whole = bytearray()
    part = _part(client, jid, minion, 0)
    size, digest, part_bytes = part["size"], part["sha256"], len(part["data"])
    if size > WHOLE_MAX:
        raise SaltliteError(f"{minion} says that the return has {size} bytes, and no more than {WHOLE_MAX} are fetched")
    while True:
        whole += part["data"]
        if console.wants_status():
            console.status(f"{len(whole) // 1024} of {size // 1024} KiB")
        # All parts but the last are equally long: a minion that sends crumbs must not make us ask for ever.
        if len(whole) >= size or not part_bytes or len(part["data"]) < part_bytes:
            break
        part = _part(client, jid, minion, len(whole))
    console.clear_status()
    if len(whole) != size or hashlib.sha256(whole).hexdigest() != digest:
        raise SaltliteError(f"the return of job {jid} came damaged from {minion}: fetch it again")
    return bytes(whole)


def _part(client: LocalClient, jid: str, minion: str, offset: int) -> dict[str, Any]:
    job = JobCall([minion], FUNCTION, arg=[jid, offset, PART_BYTES], tgt_type="list")
    published = client.publish(job, follow=True)
    if minion in published.away:
        raise UnreachableError(f"{minion} is not connected: fetch the return when it is back")
    progress = Progress(published, now=time.monotonic())
    for reply in client.watch(progress, WaitPolicy(published.timeout_s)):
        if reply.failed() or not _is_part(reply.value):
            why = reply.value if isinstance(reply.value, str) else reply.reason
            raise NoTargetError(f"{minion}: {why or 'it sent no part of a return'}")
        part: dict[str, Any] = reply.value
        return part
    raise UnreachableError(f"{minion} did not answer: look with `saltlite job show {published.jid}`")


def _is_part(value: object) -> bool:
    shape = {"size": int, "sha256": str, "data": bytes}
    return isinstance(value, dict) and {name: type(one) for name, one in value.items()} == shape


def _write(data: str | bytes, out_file: str, console: Console) -> None:
    if not out_file:
        text = data if isinstance(data, str) else data.decode(errors="backslashreplace")
        # A file or a pipe gets it as it was returned; a terminal must not obey what a minion sends.
        console.data("\n".join(map(printable, text.split("\n"))) if console.shows_data() else text)
        return
    with OutFile(out_file) as stream:
        stream.buffer.write(data if isinstance(data, bytes) else data.encode(errors="backslashreplace"))
