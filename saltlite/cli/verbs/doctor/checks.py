"""Findings, how they are printed, and the checks that all daemons share: pure functions from evidence to findings."""

from __future__ import annotations

import shlex
import textwrap
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from saltlite.cli.options import format_duration
from saltlite.cli.verbs.doctor.host import HostEvidence, PathSeen, Sort
from saltlite.config.paths import DEFAULT_CONFIG_DIR
from saltlite.model.dataclass import dataclass
from saltlite.model.plain import printable
from saltlite.wire.certificates import BUILD_DATE_S

WIDTH = 100
_INDENT = " " * 11


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works but needs attention, or it could not be checked."""
    PROBLEM = "problem"
    """It does not work, or will not after the next start."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one `check`; `fix` is a line to paste into a root shell, "" without one."""

    check: str
    severity: Severity
    sentence: str
    fix: str = ""


def ok(check: str, sentence: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, Severity.OK, sentence)


def warning(check: str, sentence: str, fix: str = "") -> Finding:
    """A finding that needs attention."""
    return Finding(check, Severity.WARNING, sentence, fix)


def problem(check: str, sentence: str, fix: str = "") -> Finding:
    """A finding about something that does not work."""
    return Finding(check, Severity.PROBLEM, sentence, fix)


def text_of(findings: Sequence[Finding]) -> str:
    """Findings as lines; a fix stays on one line, however long."""
    lines: list[str] = []
    for finding in findings:
        start = f"  {finding.severity:<9}"
        text = f"{finding.check}: {printable(' '.join(finding.sentence.split()))}"
        lines += textwrap.wrap(
            text,
            WIDTH,
            initial_indent=start,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if finding.fix:
            lines.append(f"{_INDENT}fix: {printable(finding.fix)}")
    return "".join(f"{line}\n" for line in lines)


def rows_of(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings for `--out json`."""
    return [
        {"check": one.check, "severity": str(one.severity), "sentence": one.sentence, "fix": one.fix}
        for one in findings
    ]


DISK_LOW = 512 * 1024 * 1024
"""Below this many free bytes there is a warning; it is room for a few large returns."""

DISK_FULL = 32 * 1024 * 1024
"""Below this many free bytes the next job may be refused."""

INODES_LOW = 1000

CERTIFICATE_LOW_S = 29 * 86_400
"""The supervisor renews with 30 days left and checks twice a day; with less time left it did not."""

OTHERS = 0o077


def command(around: HostEvidence, words: str) -> str:
    """`saltlite words` for the examined configuration folder."""
    given = "" if around.config_dir == DEFAULT_CONFIG_DIR else f" -c {shlex.quote(around.config_dir)}"
    return f"saltlite{given} {words}"


def start(around: HostEvidence, daemon: str) -> str:
    """The command that starts a daemon."""
    if around.unit is not None and around.unit.load == "loaded":
        return f"systemctl restart {daemon}"
    given = "" if around.config_dir == DEFAULT_CONFIG_DIR else f" -c {shlex.quote(around.config_dir)}"
    return f"{daemon}{given} &"


def check_configuration(around: HostEvidence) -> Iterator[Finding]:
    """Whether the configuration files are valid."""
    for line in around.config_problems:
        yield problem("config", line)
    if not around.config_problems:
        count = around.config_files
        yield ok("config", f"{count} file{'' if count == 1 else 's'}, no problem")


def check_user(around: HostEvidence) -> Iterator[Finding]:
    """Whether the user that a daemon started by root becomes exists."""
    if around.euid == 0 and around.user_uid is None and around.user:
        name = shlex.quote(around.user)
        yield problem(
            "user",
            f"the user {around.user!r}, as which the daemon runs, does not exist",
            f"useradd --system --no-create-home {name}",
        )


def check_rights(around: HostEvidence) -> Iterator[Finding]:
    """What this user may not see."""
    hidden = [seen.path for seen in around.paths.values() if seen.sort is Sort.HIDDEN]
    if hidden:
        yield warning(
            "rights",
            f"as user {around.euid} this could not be seen: {', '.join(hidden)}",
            f"sudo {command(around, 'doctor')}",
        )


def check_secrets(around: HostEvidence, folder: str, names: Sequence[str]) -> Iterator[Finding]:
    """Whether the secret files in `folder` are private and have the right owner."""
    parent = around.paths[folder]
    bad = list(_open_to_others(parent, folder))
    for name in names:
        seen = around.paths[f"{folder}/{name}"]
        if seen.sort in (Sort.MISSING, Sort.HIDDEN):
            continue
        bad += _secret(seen, parent)
    yield from bad
    if not bad and parent.sort is Sort.FOLDER:
        yield ok(folder, f"{parent.path} and the keys in it belong to their owner alone")


def _open_to_others(seen: PathSeen, name: str) -> Iterator[Finding]:
    if seen.sort is Sort.FOLDER and seen.mode & 0o022:
        yield problem(name, f"others may write in {seen.path} (mode {seen.mode:04o})", _chmod("go-w", seen))
    elif seen.sort in (Sort.FILE, Sort.SOCKET, Sort.OTHER):
        yield problem(name, f"{seen.path} must be a folder and is not: move it away", f"mv {_q(seen)} {_q(seen)}.old")


def _secret(seen: PathSeen, parent: PathSeen) -> Iterator[Finding]:
    if seen.sort is not Sort.FILE:
        yield problem("keys", f"{seen.path} is not a regular file; secrets are not read through links or from folders")
    elif seen.mode & OTHERS:
        yield problem(
            "keys",
            f"others may use {seen.path} (mode {seen.mode:04o}), so the daemon refuses it; make a new one if they did",
            _chmod("600", seen),
        )
    elif seen.uid not in (0, parent.uid):
        yield problem(
            "keys",
            f"{seen.path} belongs to user {seen.uid}, and its folder to {parent.uid}",
            f"chown {parent.uid} {_q(seen)}",
        )


def check_owner(seen: PathSeen, name: str, uid: int) -> Iterator[Finding]:
    """Whether a private folder or file belongs to that user alone."""
    if seen.sort in (Sort.MISSING, Sort.HIDDEN):
        return
    if seen.uid != uid:
        yield problem(
            name,
            f"{seen.path} belongs to user {seen.uid}, and the daemon works in it as user {uid}",
            f"chown -R {uid} {_q(seen)}",
        )
    elif seen.mode & 0o022:
        yield problem(name, f"others may write to {seen.path} (mode {seen.mode:04o})", _chmod("go-w", seen))


def check_disks(around: HostEvidence) -> Iterator[Finding]:
    """Whether the daemon's disks have space; one line per file system."""
    reported: set[tuple[int, int]] = set()
    for name, seen in around.disks.items():
        if (seen.free, seen.total) in reported:
            continue
        reported.add((seen.free, seen.total))
        room = f"{seen.free / 2**20:,.0f} MiB of {seen.total / 2**20:,.0f} MiB are free below {seen.path}"
        look = f"du -xh --max-depth=2 {shlex.quote(seen.path)} | sort -h | tail"
        if not seen.writable:
            yield problem(
                f"disk ({name})",
                f"the file system below {seen.path} can only be read",
                f"mount | grep ' on {seen.path}'",
            )
        elif seen.free < DISK_FULL or seen.inodes_free == 0:
            yield problem(f"disk ({name})", f"{room}: writes will soon fail", look)
        elif seen.free < DISK_LOW or seen.inodes_free < INODES_LOW:
            yield warning(f"disk ({name})", f"{room} ({seen.inodes_free:,} more files)", look)
        else:
            yield ok(f"disk ({name})", room)


def check_clock(around: HostEvidence) -> Iterator[Finding]:
    """Whether this machine's clock can be right."""
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(around.now))
    if around.now < BUILD_DATE_S:
        yield problem(
            "clock", f"it shows {shown} UTC, which is before this saltlite was built", "timedatectl set-ntp true"
        )
    else:
        yield ok("clock", f"{shown} UTC")


def check_certificate(around: HostEvidence, since: int, until: int, of: str) -> Iterator[Finding]:
    """Whether minions accept a certificate now, by this machine's clock, and for how long."""
    left = until - around.now
    if around.now < since:
        wait = format_duration(since - around.now)
        yield problem(
            "certificate",
            f"that of {of} is not valid for another {wait}: this machine's clock, or the master's, is wrong",
            "timedatectl set-ntp true",
        )
    elif left < 0:
        yield problem("certificate", f"that of {of} expired {format_duration(-left)} ago: no minion accepts it")
    elif left < CERTIFICATE_LOW_S:
        yield warning("certificate", f"that of {of} expires in {format_duration(left)} and was not renewed")
    else:
        yield ok("certificate", f"that of {of} is valid for another {format_duration(left)}")


def check_unit(around: HostEvidence, *, runs: bool) -> Iterator[Finding]:
    """The state of the systemd unit."""
    seen = around.unit
    if seen is None or seen.load != "loaded":
        return
    if seen.active == "failed":
        yield problem(
            "systemd", f"{seen.name} has failed ({seen.result})", f"journalctl -u {seen.name} -n 30 --no-pager"
        )
    elif seen.active != "active":
        what = "though the daemon runs, started by hand" if runs else "so nothing starts it again"
        yield warning("systemd", f"{seen.name} is {seen.active}, {what}", f"systemctl start {seen.name}")
    elif seen.enabled not in ("enabled", "enabled-runtime", "static"):
        yield warning(
            "systemd",
            f"{seen.name} is {seen.enabled or 'not enabled'}: it does not start with the machine",
            f"systemctl enable {seen.name}",
        )
    else:
        yield ok("systemd", f"{seen.name} is active and enabled")


def _chmod(mode: str, seen: PathSeen) -> str:
    return f"chmod {mode} {_q(seen)}"


def _q(seen: PathSeen) -> str:
    return shlex.quote(seen.path)
