"""The fleet of tests/data/rights, and its three doors: the Unix socket, the command line, the HTTP API."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from saltlite.cli.console import Console
from saltlite.cli.main import run
from saltlite.client.local import LocalClient
from tests.support.api import PASSWORD, Api, user_file
from tests.support.fleet import ORDINARY_COMMAND, Fleet, Said, wait_until

DATA = Path(__file__).parents[1] / "data/rights"
LOCAL_USER = "daemon"
"""Who has the rules of fred by publisher_acl."""
MANAGED = {"web1": ["lamp-1"], "db1": ["lamp-2", "web-x"]}

_MODULE = """
import time

def here(note="", mode=""):
    _write("here rw" if mode == "rw" else "here")
    return {name}

def slow(seconds):
    _write("slow")
    time.sleep(seconds)
    _write("slow ended")

def _write(text):
    with open({log!r}, "a", encoding="utf-8") as log:
        log.write({name} + " {module}." + text + "\\n")
"""
_NAMES = {"modules": '__opts__["id"]', "resources/dummy/modules": '"dummy:" + __resource__["id"]'}
"""Folder of modules -> what they are called on, in Python."""


def rows(name: str) -> Any:
    """What a file of tests/data/rights says."""
    return yaml.safe_load((DATA / f"{name}.yaml").read_text())


class RightsSite:
    """The running fleet. `log` is what ran: a line for each function on each target."""

    def __init__(self, folder: Path) -> None:
        self.said = rows("site")
        self.fleet = fleet = Fleet(folder)
        self.log = folder / "ran"
        self.log.touch()
        self.log.chmod(0o666)
        self._modules(folder / "own")
        users: dict[str, Any] = self.said["users"]
        self.options: dict[str, Any] = {
            "auth_file": user_file(folder / "users", *users),
            "external_auth": {"file": users},
            "publisher_acl": {LOCAL_USER: users["fred"]},
            "nodegroups": self.said["nodegroups"],
        }
        self._pillar()
        fleet.start_master(**self.options)
        (folder / "master/master").chmod(0o644)
        for name, role in (("web1", "web"), ("web2", "web"), ("db1", "db")):
            allowed = ["direct_call", "dry", "timeout"]
            fleet.join(name, grains={"role": role}, module_dirs=[str(folder / "own")], executors_allowed=allowed)
        wait_until(lambda: self._registered() == 3, "the resources are registered")
        self.url = fleet.start_api(logins_per_address=1000)
        self._clients: dict[str, LocalClient] = {}
        self._apis: dict[str, Api] = {}

    def close(self) -> None:
        """End all of it."""
        for client in self._clients.values():
            client.close()
        self.fleet.close()

    def restart_master(self, **options: Any) -> None:
        """Start the master again, with other options; clients connect anew."""
        for client in self._clients.values():
            client.close()
        self.fleet.start_master(**(self.options | options))
        (self.fleet.folder / "master/master").chmod(0o644)

    def _modules(self, own: Path) -> None:
        for module in ("mark", "other"):
            for place, name in _NAMES.items():
                path = own / place / f"{module}.py"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(_MODULE.format(log=str(self.log), name=name, module=module))

    def _pillar(self) -> None:
        folder = self.fleet.root("master") / "srv/pillar"
        folder.mkdir(parents=True)
        (folder / "top.sls").write_text("base:\n  web1: [web1]\n  web2: [web2]\n  db1: [db1]\n")
        for name in ("web1", "web2", "db1"):
            ids = MANAGED.get(name, [])
            resources = {"dummy": {"resource_ids": ids}} if ids else {}
            said = {"tier": "back" if name == "db1" else "front", "secret": "tea", "resources": resources}
            (folder / f"{name}.sls").write_text(json.dumps(said))

    def _registered(self) -> int:
        with self.fleet.client() as client:
            return len(client.call("resource_list")["resources"])

    # -- the doors

    def client(self, who: str) -> LocalClient:
        """The Unix socket by a login; root's without one."""
        if who not in self._clients:
            made = self._clients[who] = self.fleet.client()
            if who in self.said["users"]:
                made.log_in("file", who, PASSWORD, keep=True)
        return self._clients[who]

    @contextlib.contextmanager
    def asking(self, who: str) -> Iterator[LocalClient]:
        """The Unix socket, by a login or as the local user: that is who this process is meanwhile."""
        if who != LOCAL_USER:
            yield self.client(who)
            return
        os.seteuid(pwd.getpwnam(who).pw_uid)
        try:
            # Each has a connection of its own: that of a moment ago may be root's.
            with self.fleet.client() as client:
                yield client
        finally:
            os.seteuid(0)

    def api(self, who: str) -> Api:
        """The API, logged in."""
        if who not in self._apis:
            self._apis[who] = Api(self.url).log_in(who)
        return self._apis[who]

    def cli(self, who: str, *words: str) -> Said:
        """The command line: with a kept login, in this process, or as the local user, in one of that user's."""
        options = ["-c", str(self.fleet.folder / "master")]
        if who == LOCAL_USER:
            return self._as_local_user(*options, *words)
        home = self.fleet.folder / f"home-{who}"
        if not home.exists():
            home.mkdir(mode=0o700)
            kept = {self.fleet.socket_path(): self.client(who).token}
            (home / ".saltlite_token").touch(mode=0o600)
            (home / ".saltlite_token").write_text(json.dumps(kept))
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, HOME=str(home)):
            code = run([*options, "-T", *words], Console(None, out, err))
        return Said(code, out.getvalue(), err.getvalue())

    def _as_local_user(self, *words: str) -> Said:
        uid = pwd.getpwnam(LOCAL_USER).pw_uid
        done = subprocess.run(
            ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", ORDINARY_COMMAND, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.fleet.environment() | {"HOME": str(self.fleet.folder / f"home-{LOCAL_USER}")},
            check=False,
            timeout=60,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    # -- what ran

    def ran(self) -> Counter[str]:
        """Every line of the log, and how often."""
        return Counter(self.log.read_text().splitlines())

    def wait_ran(self, before: Counter[str], lines: Sequence[str]) -> Counter[str]:
        """Wait until at least these lines are there that were not before; which lines there are that were not."""
        wanted = Counter(lines)
        with contextlib.suppress(AssertionError):  # what is missing is for the caller to say
            wait_until(lambda: not wanted - (self.ran() - before), "what was granted runs")
        return self.ran() - before


@contextlib.contextmanager
def rights_site() -> Iterator[RightsSite]:
    """The fleet, in a folder that other users can reach."""
    folder = Path(tempfile.mkdtemp(prefix="saltlite-rights-"))
    folder.chmod(0o755)
    site = RightsSite(folder)
    try:
        yield site
    finally:
        site.close()
        shutil.rmtree(folder)
