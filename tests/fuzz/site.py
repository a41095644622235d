"""One MWorker of a master with a real store, banks, registry and files, for the surfaces that reach its handlers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.files.roots import FileRoots
from saltlite.files.server import FileService, Uploads
from saltlite.loader.encode import encode_return
from saltlite.master.handlers.documents import DocumentBuffer
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.store.banks import LocalBanks
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState, fingerprint
from saltlite.pillar.evaluation import Pillars
from saltlite.pillar.files import DiskPillarFiles
from saltlite.platform.daemon import ManualClock
from saltlite.resources.registry.admission import RegistrationRules
from saltlite.resources.registry.mmap import ResourceRegistry
from saltlite.wire import job_body, merkle
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import had_sessions, job, key, ret, row

MINIONS = ("web1", "web2", "db1")
FRESH_EVERY = 500
"""After so many inputs everything begins anew: what they leave behind is not to grow."""
JID = job(1).jid
GRAINS: Mapping[str, Any] = {"os": "Debian", "roles": ["web", "db"], "ip4_interfaces": {"lo": ["127.0.0.1"]}, "n": 1}


class QuietLink:
    """A link process that takes everything."""

    def __getattr__(self, _name: str) -> Any:
        return self._take

    def _take(self, *_given: Any, **_more: Any) -> None:
        pass


class Site:
    """`master` and what is around it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = folder / "template"
        self._live = folder / "live"
        self._left = 0
        self._template.mkdir(parents=True)
        self._made_files()
        self._open(self._template)
        self._fill()
        self._close()
        self.fresh()

    def fresh(self) -> bool:
        """Begin anew now and then, and say so; asked before each input."""
        self._left -= 1
        if self._left >= 0:
            return False
        self._left = FRESH_EVERY
        self._close()
        shutil.rmtree(self._live, ignore_errors=True)
        shutil.copytree(self._template, self._live)
        self._open(self._live)
        return True

    def close(self) -> None:
        """Give everything back."""
        self._close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _made_files(self) -> None:
        for name, text in {
            "files/top.txt": "text\n",
            "files/_modules/one.py": "def f():\n    return 1\n",
            "pillar/top.sls": "base: {'*': [a]}\n",
            "pillar/a.sls": "secret: 1\nnested: {key: [1, 2]}\n",
        }.items():
            path = self._template / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _open(self, folder: Path) -> None:
        self._opened = True
        self.folder = folder
        self.store = SqliteStore(str(folder / "store"))
        self.banks = LocalBanks(str(folder / "cache"))
        self.registry = ResourceRegistry({"cachedir": str(folder / "cache"), "registry_fsync": "never"})
        self.clock = ManualClock(wall=NOW)
        granted = Granted(
            read_rules({"bob": ["test.*", {"web*": ["pkg.*"]}, "@jobs", "@runner"]}, "publisher_acl"),
            external={"pam": read_rules({"ops": [".*", "@runner", "@wheel", "@events"]}, "external_auth")},
        )
        (folder / "copies").mkdir(exist_ok=True)
        self.master = Master(
            self.store,
            self.clock,
            MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE),
            HandlerConfig(
                5.0,
                60.0,
                frozenset({0}),
                copies_dir=str(folder / "copies"),
                nodegroups={"webs": "web* or G@os:Debian", "both": ["N@webs", "or", "db1"]},
                resources=RegistrationRules(),
                granted=granted,
                returners=frozenset({"json_file"}),
            ),
            cast("Any", QuietLink()),
            self.registry,
            self.banks,
            Pillars(DiskPillarFiles({"base": [str(folder / "pillar")]})),
            FileRoots({"base": [str(folder / "files")]}),
        )
        self.documents = DocumentBuffer(self.clock)
        self.service = FileService(self.master.files)
        self.uploads = Uploads(str(folder / "uploads"), 1024 * 1024)

    def _close(self) -> None:
        if getattr(self, "_opened", False):
            self._opened = False
            self.store.close()
            self.banks.close()
            self.registry.close()

    def _fill(self) -> None:
        names = tuple(MinionId(name) for name in MINIONS)
        jobs = []
        for number in (1, 2):
            made = job(number, names[:2])
            body = job_body.JobBody(
                jid=made.jid,
                calls=(job_body.FunctionCall("test.ping", [1, "a"], {"k": 2}),),
                user="root",
                audience=merkle.root(list(MINIONS[:2])),
                run_ms=0,
                deliver_ms=60_000,
            )
            jobs.append(job(number, names[:2], body=job_body.encode_body(body)))
        with self.store.write() as tx:
            for name in names:
                tx.put_key(key(name))
                had_sessions(tx, [row(name)])
            tx.put_key(key(MinionId("new1"), KeyState.PENDING))
            for one in jobs:
                tx.put_job(one)
            tx.put_returns([ret(jobs[0], names[0], body=encode_return({"a": [1, b"x", {2: None}]}))], NOW)
            tx.put_event("app/deployed", {"env": "prod", "n": {2: "two", "2": b"x"}}, NOW)
        for name in names:
            self.banks.bank("grains").put(name, dict(GRAINS), "d" * 32)
        self.registry.register("web1", {"dummy": ["a", "b"], "ssh": ["host1"]})


ROOT = Principal("root", 0)
BOB = Principal("bob", 1000)
STRANGER = Principal("eve", 1001)
