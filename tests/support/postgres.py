"""A PostgreSQL server of this machine's packages, as an ordinary user, in a temporary folder, on a Unix socket."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from saltlite.master.store.ports import Store
from saltlite.master.store.sharing import SharedStore
from tests.support.fleet_watcher import MARK, mark, watch

ACCOUNT = "nobody"
"""Whom the server runs as where tests run as root: PostgreSQL refuses root."""
STARTS_S = 60.0
SETTINGS = {
    "listen_addresses": "''",
    "shared_buffers": "64MB",
    "max_connections": "200",
    # Durability is the server's own affair; tests of crashes switch it on.
    "fsync": "off",
    "autovacuum_naptime": "1h",
}


def program(name: str) -> str | None:
    """The path of a program of the newest PostgreSQL that is installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = [str(folder / name) for folder in folders if (folder / name).exists()]
    return found[-1] if found else shutil.which(name)


def _account() -> dict[str, int]:
    """Whom its processes run as, as `subprocess` takes it."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(ACCOUNT)
    return {"user": account.pw_uid, "group": account.pw_gid}


class Server:
    """A server in a folder. It listens on a Unix socket in the same folder only."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._settings = {**SETTINGS, "unix_socket_directories": f"'{folder}'", **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = itertools.count(1)
        initdb = program("initdb")
        if initdb is None:
            pytest.skip("no PostgreSQL server is installed (Debian: postgresql)")
        self._run("initdb", "-U", "saltlite", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    def _run(self, name: str, *options: str) -> None:
        command = [program(name) or name, "-D", f"{self.folder}/data", *options]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **_account())  # type: ignore[call-overload]

    def follow(self, primary: Server) -> None:
        """Stop, begin anew as a standby of that server, and have its commits wait for this one."""
        name = self.copy(primary)
        primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        primary.sql("SELECT pg_reload_conf()")
        waits = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        give_up_at = time.monotonic() + STARTS_S
        while primary.sql(waits) != "1":
            assert time.monotonic() < give_up_at, "the standby does not follow"
            time.sleep(0.05)

    def copy(self, primary: Server) -> str:
        """Stop, and begin anew as a standby of that server, which waits for nothing; the name of the standby."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder / "data")
        name = f"standby{self.folder.name.rpartition('-')[2]}"
        source = f"host={primary.folder} user=saltlite application_name={name}"
        self._run("pg_basebackup", "-d", source, "-R", "-c", "fast", "-N")
        self.start()
        return name

    def promote(self) -> None:
        """Make this standby the primary; it waits for no standby."""
        self._run("pg_ctl", "promote", "-w", "-s")
        self.sql("ALTER SYSTEM RESET synchronous_standby_names")
        self.sql("SELECT pg_reload_conf()")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        server = program("postgres")
        assert server is not None
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value.strip(chr(39))}")]
        with (self.folder / "log").open("ab") as out:
            watch()
            self._process = subprocess.Popen(  # type: ignore[call-overload]  # of the account
                [server, "-D", f"{self.folder}/data", *options],
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=os.environ | {MARK: mark("postgres")},
                **_account(),
            )
        give_up_at = time.monotonic() + STARTS_S
        while not self.answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < give_up_at, "PostgreSQL did not start"
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether it takes connections."""
        command = [program("pg_isready") or "pg_isready", "-q", "-h", str(self.folder)]
        return subprocess.run(command, check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends all connections, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(STARTS_S)
            self._process = None

    @property
    def pid(self) -> int:
        """The process that all others of the server come from."""
        assert self._process is not None
        return self._process.pid

    def dsn(self, schema: str = "public", dbname: str = "postgres") -> str:
        """How to connect to a schema of a database."""
        return f"host={self.folder} user=saltlite dbname={dbname} options='-c search_path={schema}'"

    def new_schema(self) -> str:
        """The DSN of an empty schema."""
        name = f"s{next(self._schemas)}"
        self.sql(f"CREATE SCHEMA {name}")
        return self.dsn(name)

    def sql(self, statements: str, dsn: str = "") -> str:
        """Run statements; what they answer."""
        command = [program("psql") or "psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statements]
        done = subprocess.run([*command, dsn or self.dsn()], check=True, capture_output=True, text=True)
        return done.stdout.strip()


@contextmanager
def running_server(**settings: str) -> Iterator[Server]:
    """A server that is gone afterwards."""
    # The path of a socket may have 107 bytes, which pytest's own folders come close to.
    folder = Path(tempfile.mkdtemp(prefix="saltlite-pg-"))
    if account := _account():
        os.chown(folder, account["user"], account["group"])
    server = None
    try:
        server = Server(folder, **settings)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder)


def opener_of_postgres(dsn: str, master: int = 1) -> Callable[[], Store]:
    """How a store there is opened."""
    psycopg_is_there = pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")
    assert psycopg_is_there
    from saltlite.master.store.postgres import PostgresStore

    return lambda: PostgresStore(dsn, master=master, waits_s=0.0)


def several_of_postgres(dsn: str) -> Callable[[], SharedStore]:
    """How one more master opens a store there that they share."""
    opener_of_postgres(dsn)
    from saltlite.master.store.postgres import PostgresStore

    names = itertools.count(1)
    return lambda: PostgresStore(dsn, master=1, waits_s=0.0, name=f"master-{next(names)}", several=True)
