"""Three masters on one real PostgreSQL, and minions with them, for tests of what several masters do together."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saltlite.cli.verbs.auth import entry_of
from tests.support.fleet import ME, Fleet, Said, children_of, wait_until
from tests.support.postgres import Server

MASTERS = ("one", "two", "three")
HOOKS = {"once": {"event": "app/fire", "as": ME, "job": {"tgt": "ann", "fun": "test.echo", "arg": ["{n}"]}}}


class Site:
    """Three masters on one database. `homes`: the minions, and the masters that each of them joins."""

    def __init__(
        self,
        fleet: Fleet,
        server: Server,
        homes: Mapping[str, str],
        through: Mapping[str, Sequence[str | Path]] | None = None,
        **options: Any,
    ) -> None:
        """`through`: the commands that masters are started by. `options`: those of all masters, with the usual ones."""
        self.fleet = fleet
        self.server = server
        self.minions = tuple(homes)
        self.standby: Server | None = None
        """Another server that the masters may find the database on."""
        self.through = through or {}
        entries = fleet.folder / "logins"
        entries.touch(0o600)
        entries.write_text(entry_of("carol", b"correct horse") + entry_of("dave", b"battery staple"))
        for name in MASTERS:
            pki = fleet.root(name) / "etc/saltlite/pki/master"
            if name != "one":
                pki.mkdir(mode=0o700, parents=True)
                for file in ("fleet.key", "shared.key"):
                    shutil.copy(fleet.root("one") / "etc/saltlite/pki/master" / file, pki)
            common: dict[str, Any] = {
                "database": server.dsn(),
                "several_masters": True,
                "hooks": HOOKS,
                "external_auth": {"file": {who: ["test.*", "@jobs", "@event"] for who in ("carol", "dave")}},
                "auth_file": str(entries),
            }
            fleet.through = self.through.get(name, ())
            fleet.start_master(name, master_name=name, master_address=fleet.address(name), **(common | options))
        fleet.through = ()
        for minion, name in homes.items():
            fleet.join(minion, at=name, master=self.homes(name))
        for name in MASTERS:
            fleet.wait_up(*homes, master=name)

    def homes(self, first: str) -> list[str]:
        """The addresses of all masters, that one first."""
        return [self.fleet.address(name) for name in (first, *(name for name in MASTERS if name != first))]

    def sessions(self) -> dict[str, str]:
        """The master that each minion has a session with, by the database."""
        rows = self.server.sql("SELECT id, master FROM minions WHERE up = 1").splitlines()
        found = {minion: master for minion, _, master in (row.partition("|") for row in rows)}
        return {minion: master for minion, master in found.items() if minion in self.minions}

    def holder(self, work: str) -> str:
        """The master that does this work for all."""
        return self.server.sql(f"SELECT master FROM readers WHERE name = '{work}'")  # noqa: S608 - a constant

    def fire(self, master: str, number: int) -> None:
        """Send the event of the hook there; its job has run once."""
        echoes = "SELECT count(*) FROM jobs AS j JOIN returns AS r ON r.jid = j.jid WHERE j.fun = 'test.echo'"
        before = int(self.server.sql(echoes))
        said = self.fleet.cli("runner", "event.send", "app/fire", f'{{"n": "{number}"}}', master=master)
        assert said.code == 0, said.err
        wait_until(lambda: int(self.server.sql(echoes)) == before + 1, "the hook of one master fires")

    def ping(self, master: str) -> object:
        """What `'*' test.ping` prints there; a minion of a killed master has the time to come to another one."""
        return returned(self.fleet.cli("-t", "30", "*", "test.ping", "--out", "json", master=master))

    @contextmanager
    def standing_still(self, master: str) -> Iterator[None]:
        """All processes of that master are stopped meanwhile."""
        pids = family(self.fleet.daemons[master].pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def wait_joined(self, master: str) -> None:
        """Wait until that master acts again."""
        wait_until(lambda: self.fleet.cli("*", "test.ping", master=master).code == 0, f"{master} has joined again")


def family(pid: int) -> list[int]:
    """A process and all that came from it, parents first."""
    return [pid, *(one for child in children_of(pid) for one in family(child))]


def returned(said: Said) -> Any:
    """What a command printed that must have ended well."""
    assert said.code == 0, said.err
    return json.loads(said.out)
