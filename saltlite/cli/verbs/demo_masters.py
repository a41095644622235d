"""What `saltlite demo --masters N` adds: a database, masters that join the first one, and the loss of one of them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from glob import glob
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.client.local import LocalClient
from saltlite.config.load import load_master
from saltlite.config.paths import SOCKET_PATH_BYTES_MAX, master_socket
from saltlite.errors import SaltliteError, StartupError, UsageError
from saltlite.master.processes import invitation
from saltlite.master.processes.identity import name_of
from saltlite.platform.files import write_new
from saltlite.platform.privileges import private_dir
from saltlite.platform.process import set_parent_death_signal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.config.master import MasterConfig

DATABASE_S = 60.0
"""How long PostgreSQL may take to start or to stop."""
WORK_S = 5
"""How long the job runs during which a master is killed."""
SHOW_S = 60.0
LOOK_S = 0.05
ACCOUNTS = ("postgres", "nobody")
"""Whom PostgreSQL runs as where the demo runs as root, which it refuses."""
FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
"""Where the packages of distributions put the programs of the server."""
SOCKET = ".s.PGSQL.5432"


class DemoDatabase:
    """A PostgreSQL server of this machine's packages in a folder, on a Unix socket there. Raises UsageError without."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, "database")
        self._server: subprocess.Popen[bytes] | None = None
        self._initdb, self._postgres = program("initdb"), program("postgres")
        if len(os.path.join(self.folder, SOCKET)) > SOCKET_PATH_BYTES_MAX:
            raise UsageError(f"{folder} is too long for a Unix socket in it: name a shorter folder with --dir")
        import_driver()

    @property
    def dsn(self) -> str:
        """How a master connects."""
        quoted = self.folder.replace("\\", "\\\\").replace("'", "\\'")
        return f"host='{quoted}' dbname=postgres user=saltlite"

    def start(self) -> None:
        """Make it, start it, and wait until it answers. Raises StartupError."""
        os.mkdir(self.folder, 0o700)
        account = _account()
        if account is not None:
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            os.chmod(os.path.dirname(self.folder), 0o711)  # noqa: S103 - its files are readable by root only
        data = os.path.join(self.folder, "data")
        made = self._run(self._initdb, "-D", data, "-U", "saltlite", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        if made.wait(DATABASE_S) != 0:
            raise StartupError(f"the database could not be made: {self._log()}")
        options = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}")
        self._server = self._run(self._postgres, "-D", data, *options)
        give_up_at = time.monotonic() + DATABASE_S
        while not os.path.exists(os.path.join(self.folder, SOCKET)) or "ready to accept" not in self._log():
            if self._server.poll() is not None or time.monotonic() > give_up_at:
                raise StartupError(f"the database did not start: {self._log()}")
            time.sleep(LOOK_S)

    def close(self) -> None:
        """Stop it."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGINT)  # ends its connections
        try:
            self._server.wait(DATABASE_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        account, parent = _account(), os.getpid()
        as_account: dict[str, Any] = (
            {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        )
        with open(os.path.join(self.folder, "log"), "ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: set_parent_death_signal(signal.SIGINT, parent),  # noqa: PLW1509 - there are none
                **as_account,
            )

    def _log(self) -> str:
        """The end of its log, as one line."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return " ".join(file.read()[-2000:].split())


def program(name: str) -> str:
    """The path of a program of the newest PostgreSQL server that is installed. Raises UsageError."""
    folders = [folder for pattern in FOLDERS for folder in glob(pattern)]
    found = sorted(
        (path for folder in folders if os.access(path := os.path.join(folder, name), os.X_OK)),
        key=lambda path: [int(part) for part in path.replace("-", "/").split("/") if part.isdigit()],
    )
    newest = found[-1] if found else shutil.which(name)
    if newest is None:
        raise UsageError(
            "--masters needs a PostgreSQL server on this machine, which runs in the demo's folder: install the package "
            "postgresql (Debian) or postgresql-server (RPM)"
        )
    return newest


def import_driver() -> None:
    """Raises MisconfiguredError without the driver of PostgreSQL."""
    from saltlite.master.processes.store_opening import load_postgres

    load_postgres()


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise UsageError(f"PostgreSQL does not run as root, and there is no user {' or '.join(ACCOUNTS)} here")


def join_first(first: MasterConfig, further: MasterConfig, now: float) -> None:
    """What `saltlite master request`, `invite` and `join` do. Raises SaltliteError."""
    private_dir(further.pki_dir, os.geteuid(), os.getegid())
    name = name_of(further)
    request = invitation.request_of(further.pki_dir, name)
    path = os.path.join(further.pki_dir, "invitation")
    write_new(path, invitation.invite(first.pki_dir, request, first.database, now))
    invitation.join(further.pki_dir, invitation.read_invitation(path, further.pki_dir, name, now))
    os.unlink(path)


def show_loss(config_dirs: Sequence[str], kill: dict[str, int], console: Console) -> int:
    """Kill a master while a job runs on all minions, and show that nothing is lost; an exit code.

    `config_dirs` are those of all masters, `kill` has the process group of each by name.
    """
    sockets = {name_of(config): master_socket(config.sock_dir) for config in map(_config, config_dirs)}
    first, *others = sockets
    with LocalClient(sockets[first]) as client, client.another() as asker:
        sessions = {row["name"]: row["sessions"] for row in asker.call("masters")["masters"]}
        total = sum(sessions.values())
        victim = max(others, key=lambda name: (sessions[name], name))
        console.note(f"Each master has a part of the minions: {_listed(sessions)}.")
        console.note(f"A job runs on all {total}: '*' cmd.run 'sleep {WORK_S}; echo done', published on {first}.")
        job = client.job("*", "cmd.run", [f"sleep {WORK_S}; echo done"], None, "glob")
        published = client.publish(job, follow=True)
        _wait_until_running(asker, published.jid)
        os.killpg(kill[victim], signal.SIGKILL)
        console.note(f"{victim}, which has {sessions[victim]} of them, is killed while they work (SIGKILL).")
        began = time.monotonic()
        done = [reply.name for reply in client.wait_for(published, SHOW_S) if reply.has_value and reply.value == "done"]
        console.note(f"{len(done)} of {total} returned {time.monotonic() - began:.1f} s later.")
    left = next(name for name in others if name != victim) if len(others) > 1 else first
    with LocalClient(sockets[left]) as client:
        stored = client.call("job_show", jid=published.jid)["job"]["targets"]
        again = client.cmd("*", "test.ping", timeout=SHOW_S)
    kept = sum(row["state"] == "returned" for row in stored)
    console.note(f"{left} has {kept} results of that job, and {len(again)} of {total} minions answer it now.")
    return exitcodes.OK if total == len(done) == kept == len(again) else exitcodes.FAILED


def _config(config_dir: str) -> MasterConfig:
    return load_master(config_dir).config


def _listed(sessions: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(sessions.items()))


def _wait_until_running(client: LocalClient, jid: str) -> None:
    give_up_at = time.monotonic() + SHOW_S
    while any(row["state"] in ("queued", "received") for row in client.call("job_show", jid=jid)["job"]["targets"]):
        if time.monotonic() > give_up_at:
            raise SaltliteError(f"the job {jid} does not begin on all minions within {SHOW_S:g} s")
        time.sleep(LOOK_S)
