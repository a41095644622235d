"""How long `saltlite key revoke` takes on one of three masters while another one has the session of that minion: with
all of them well, with that one stopped (SIGSTOP), and with that one cut off from the database.

`python -m tests.bench.bench_revoke [TIMES]` prints one JSON document; not run by pytest. The masters are real daemons,
the database is one of this machine's packages with fsync, and the minions are those of `bench_masters`. A third master
is cut off by a relay to the database, which passes nothing on and closes nothing.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saltlite.errors import SaltliteError
from tests.bench.bench_masters import KILLED, MASTERS, Site
from tests.bench.measure import Others, family, machine, rounded
from tests.support.fleet import Fleet
from tests.support.postgres import Server, running_server

TIMES = 10
WELL_MAX_S = 1.0
HINDERED_MAX_S = 5.5


class Relay:
    """Passes connections to a database on, until it is cut."""

    def __init__(self, server: Server, folder: Path) -> None:
        name = ".s.PGSQL.5432"
        self.dsn = server.dsn().replace(f"host={server.folder}", f"host={folder}")
        self.is_cut = False
        self._server = f"{server.folder}/{name}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / name))
        self._listener.listen(100)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        others: dict[socket.socket, socket.socket] = {}
        while True:
            if self.is_cut:
                select.select([], [], [], 0.02)
                continue
            for one in select.select([self._listener, *others], [], [], 0.02)[0]:
                if one is self._listener:
                    client, _ = one.accept()
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(self._server)
                    others |= {client: server, server: client}
                elif one in others:
                    try:
                        data = one.recv(1 << 16)
                        others[one].sendall(data)
                    except OSError:
                        data = b""
                    if not data:
                        for end in (one, others[one]):
                            del others[end]
                            end.close()


def measure(site: Site, relay: Relay, times: int) -> dict[str, Any]:
    """The times of revokes, in milliseconds, and how many sessions of revoked keys were left."""
    site.start_crowds()
    site.until(lambda: site.all_back() and site.stored(), "all minions are there")
    pids = family(site.fleet.daemons[KILLED].pid)

    def stopped(is_on: bool) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP if is_on else signal.SIGCONT)

    def cut(is_on: bool) -> None:
        relay.is_cut = is_on

    found: dict[str, Any] = {}
    hindrances: dict[str, Callable[[bool], None]] = {"well": lambda _on: None, "stopped": stopped, "cut_off": cut}
    for name, hinder in hindrances.items():
        took: list[float] = []
        refused: list[Any] = []
        for _ in range(times):
            site.until(lambda: _state(site) == "up" and len(_theirs(site)) > 0, "the third master is up")
            key = _theirs(site)[0]
            hinder(True)
            began = time.monotonic()
            try:
                with site.fleet.client(MASTERS[0]) as client:
                    answer = client.call("key_change", action="revoke", fingerprints=[key])
                refused += answer["refused"]
            except SaltliteError as error:
                refused.append(str(error))
            took.append(rounded((time.monotonic() - began) * 1000))
            hinder(False)
        found[name] = {"ms": sorted(took), "refused": refused}
    up = "SELECT count(*) FROM minions AS m JOIN keys AS k ON k.id = m.id WHERE m.up = 1 AND k.state <> 'accepted'"
    found["sessions_left"] = int(site.server.sql(up))
    limits = {"well": WELL_MAX_S, "stopped": HINDERED_MAX_S, "cut_off": HINDERED_MAX_S}
    found["met"] = all(
        not found[name]["refused"] and found[name]["ms"][-1] <= limit * 1000 for name, limit in limits.items()
    )
    return found


def _state(site: Site) -> str:
    return site.server.sql(f"SELECT state FROM masters WHERE name = '{KILLED}'")  # noqa: S608 - a name of this file


def _theirs(site: Site) -> list[str]:
    """The keys of minions with a session, first those at the third master: a master that was fenced gets its minions
    back after a minute only."""
    sql = f"SELECT fingerprint FROM minions WHERE up = 1 ORDER BY master <> '{KILLED}', id"  # noqa: S608 - as above
    return site.server.sql(sql).split()


def main(times: int) -> int:
    """Measure; the exit code is 1 when a limit was not met."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    document: dict[str, Any] = {"machine": machine(), "times": times}
    others = Others()
    folder = Path(tempfile.mkdtemp(prefix="saltlite-bench-"))
    with running_server(max_connections="100") as server:
        fleet = Fleet(folder)
        (folder / "relay").mkdir()
        relay = Relay(server, folder / "relay")
        try:
            site = Site(fleet, server, 4 * 3 * times, {KILLED: relay.dsn})
            try:
                document.update(measure(site, relay, times))
            finally:
                site.close()
        finally:
            fleet.close()
            shutil.rmtree(folder, ignore_errors=True)
    document["others_percent"] = others.share_percent()
    print(json.dumps(document, indent=2))
    return 0 if document["met"] else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES))
