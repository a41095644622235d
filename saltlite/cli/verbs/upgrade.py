"""`saltlite upgrade`: bring minions to the version of this machine's master.

It runs as root on the master's machine, because only root can sign with the key of the fleet. The bundle travels as
the files of `saltlite cp` do. Each batch is over when every minion of it is connected again, with the new version or
back on the old one, or has run out of time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from saltlite import __version__
from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option, parse_duration
from saltlite.cli.output import print_answer
from saltlite.cli.targets import TARGET_OPTIONS, natural_key, nodeset, target_kind
from saltlite.cli.verbs.cp import PIECE
from saltlite.client.follower import Progress, Reply, WaitPolicy
from saltlite.client.local import JobCall
from saltlite.cloud.deploy.offer import WHEELS, bundle_of
from saltlite.config.load import load_api, load_master
from saltlite.errors import ConfigError, NoTargetError, SaltliteError, UsageError
from saltlite.master.processes.identity import sign_bundle

if TYPE_CHECKING:
    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient

WITHIN_S = 60.0
SPARE_S = 60.0
"""How much longer than a trial a minion may take until it is back on the old version."""
INSTALL_S = 600.0
"""How long without news of a minion that installs."""
LOOK_S = 2.0
BATCH_SIZE = 10

UPGRADED, CURRENT, BACK, FAILED, UNREACHED, NOT_BEGUN = (
    "upgraded", "current", "back on the old", "failed", "not reached", "not begun",
)  # fmt: skip
GOOD = (UPGRADED, CURRENT)


def run(argv: Sequence[str], console: Console) -> int:
    """Upgrade the minions, and say of each what it has now; the exit code is OK if all have the new version."""
    parsed = command_table(
        "upgrade",
        *TARGET_OPTIONS,
        Option("-b", "--batch", metavar="N", convert=_number, help=f"how many minions at a time ({BATCH_SIZE})"),
        Option("--within", metavar="TIME", convert=parse_duration, help="how long one may take to come back (60s)"),
    ).parse(argv)
    if len(parsed.words) != 1:
        raise UsageError("name one target: saltlite upgrade TARGET")
    console.quiet = parsed.on("quiet")
    config_dir = config_dir_of(parsed)
    config = load_master(config_dir).config
    with open_client(parsed, console) as client:
        rows = client.call("minions", tgt=parsed.words[0], tgt_type=target_kind(parsed))["minions"]
        if not rows:
            raise NoTargetError(f"no minion matches {parsed.words[0]!r}")
        upgrade = Upgrade(client, console, parsed.options.get("within", WITHIN_S))
        bundle = bundle_of(_wheels(config_dir))
        manifest = json.dumps(
            {"version": __version__, "sha256": hashlib.sha256(bundle).hexdigest(), "size": len(bundle)}, sort_keys=True
        )
        key, signature = sign_bundle(config.pki_dir, manifest.encode())
        with _area(client, bundle) as area:
            upgrade.run(rows, [area, manifest, key.hex(), signature.hex()], parsed.options.get("batch", BATCH_SIZE))
    return _report(upgrade.found, parsed, console)


def _wheels(config_dir: str) -> str:
    """The folder of wheels for other kinds of minions, as the installer has it; "" where no API is configured."""
    with contextlib.suppress(ConfigError):
        return os.path.join(load_api(config_dir).config.install_dir, WHEELS)
    return ""


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise UsageError(f"a batch has 1 to 10000 minions, not {text!r}")
    return int(text)


@contextlib.contextmanager
def _area(client: LocalClient, bundle: bytes) -> Iterator[str]:
    """An environment on the master with the bundle in it."""
    area: str = client.call("copy_begin")["area"]
    try:
        for offset in range(0, len(bundle), PIECE):
            data = bundle[offset : offset + PIECE]
            client.call("copy_put", area=area, path="bundle.tar", offset=offset, data=data, mode=0o600)
        yield area
    finally:
        # The master deletes the rest a day later.
        with contextlib.suppress(SaltliteError):
            client.call("copy_end", area=area, jid="")


class Upgrade:
    """The upgrade of some minions. `found`: id -> `state`, `version` and `reason`."""

    def __init__(self, client: LocalClient, console: Console, within_s: float) -> None:
        self._client = client
        self._console = console
        self._within_s = within_s
        self.found: dict[str, dict[str, str]] = {}

    def run(self, rows: Sequence[dict[str, Any]], arguments: list[str], size: int) -> None:
        """Upgrade the minions of these rows, `size` at a time. It ends early when none of a batch was upgraded.

        After a restart of the master minions connect again within a minute or two: those that were not connected
        follow at the end if they are by then.
        """
        away = [row["id"] for row in rows if row["state"] != "up"]
        if self._batches(self._connected(rows), arguments, size) and away:
            rows = self._client.call("minions", tgt=",".join(away), tgt_type="list")["minions"]
            self._batches(self._connected(rows), arguments, size)

    def _connected(self, rows: Sequence[dict[str, Any]]) -> list[str]:
        """The ids that can be upgraded now; the others are settled."""
        waiting = []
        for row in sorted(rows, key=lambda row: natural_key(row["id"])):
            if row["state"] != "up":
                self._settle(row["id"], UNREACHED, row["version"], "it is not connected")
            elif row["version"] == __version__:
                self._settle(row["id"], CURRENT, __version__)
            else:
                waiting.append(row["id"])
        return waiting

    def _batches(self, waiting: list[str], arguments: list[str], size: int) -> bool:
        """Upgrade them; False if none of a batch was upgraded, and the rest was not begun."""
        while waiting:
            batch, waiting = waiting[:size], waiting[size:]
            self._console.note(f"upgrading to {__version__}: {nodeset(batch)}")
            self._one_batch(batch, arguments)
            if not any(self.found[one]["state"] in GOOD for one in batch):
                for one in waiting:
                    self._settle(one, NOT_BEGUN, "", "no minion of the batch before it was upgraded")
                return False
        return True

    def _one_batch(self, batch: list[str], arguments: list[str]) -> None:
        answered, restarting = set[str](), list[str]()
        for reply in self._ask(batch, "upgrade.install", [*arguments, self._within_s], INSTALL_S):
            answered.add(reply.id)
            self.found.pop(reply.id, None)
            if reply.retcode or not isinstance(reply.value, dict):
                self._settle(reply.id, FAILED, "", _sentence(reply))
            elif reply.value["state"] == "current":
                self._settle(reply.id, CURRENT, __version__)
            else:
                restarting.append(reply.id)
        for one in set(batch) - answered:
            self._settle(one, UNREACHED, "", "it did not answer")
        give_up = time.monotonic() + self._within_s + SPARE_S
        while restarting and time.monotonic() < give_up:
            time.sleep(LOOK_S)
            self._look(restarting)
            restarting = [one for one in restarting if one not in self.found]
        for one in restarting:
            self._settle(one, UNREACHED, "", f"it did not come back within {self._within_s + SPARE_S:g}s")

    def _look(self, restarting: list[str]) -> None:
        """Settle those that are connected with the new version, or back on the old one."""
        rows = self._client.call("minions", tgt=",".join(restarting), tgt_type="list")["minions"]
        up = {row["id"]: row["version"] for row in rows if row["state"] == "up"}
        for one, version in up.items():
            if version == __version__:
                self._settle(one, UPGRADED, version)
        others = [one for one in up if one not in self.found]
        if not others:
            return
        for reply in self._ask(others, "upgrade.state", [], LOOK_S):
            if not reply.retcode and isinstance(reply.value, dict) and not reply.value["trial"]:
                last = reply.value["last"] or {}
                if last.get("version") == __version__ and last.get("outcome") == "rolled back":
                    self._settle(reply.id, BACK, reply.value["version"], last["reason"])

    def _ask(self, ids: Sequence[str], fun: str, arguments: list[Any], timeout_s: float) -> list[Reply]:
        published = self._client.publish(JobCall(ids, fun, arg=arguments, tgt_type="list"), follow=True)
        progress = Progress(published, now=time.monotonic())
        return list(self._client.watch(progress, WaitPolicy(timeout_s)))

    def _settle(self, minion: str, state: str, version: str, reason: str = "") -> None:
        self.found[minion] = {"state": state, "version": version, "reason": reason}


def _sentence(reply: Reply) -> str:
    text = reply.value if isinstance(reply.value, str) else reply.reason or f"retcode {reply.retcode}"
    return text.strip().removeprefix("ERROR: ")


def _report(found: dict[str, dict[str, str]], parsed: Parsed, console: Console) -> int:
    """Print what became of the minions, the good first, those with the same end together."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in sorted(found, key=natural_key):
        row = found[one]
        groups.setdefault((row["state"], row["version"], row["reason"]), []).append(one)
    lines = []
    for (state, version, reason), ids in sorted(groups.items(), key=lambda item: item[0][0] not in GOOD):
        about = f"{state} {version}".strip() if state in (UPGRADED, BACK) else state
        lines.append(f"{nodeset(ids)}: {about}{f' ({reason})' if reason else ''}\n")
    print_answer(found, "".join(lines), parsed, console)
    states = {row["state"] for row in found.values()}
    if states & {FAILED, BACK, NOT_BEGUN}:
        return exitcodes.FAILED
    return exitcodes.MISSING if UNREACHED in states else exitcodes.OK
