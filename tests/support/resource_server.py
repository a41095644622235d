"""A resource server of a minion, on a reactor of its own, and the files of a resource type for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.encode import decode_return
from saltlite.loader.index import build_index
from saltlite.loader.search_path import search_layers
from saltlite.minion.jobs.job_process import JobContext, JobSpec
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.rpc_server import RpcServer
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.resources.discovery import Declared
from saltlite.minion.resources.server import ResourceServer, RunCallbacks, ServerContext
from saltlite.platform.files import PosixFolder
from saltlite.platform.reactor import Reactor
from saltlite.wire.codec import decode_document
from saltlite.wire.messages import SegmentRow, decode_segment
from tests.support.keys import answer_check
from tests.support.modules import write

JID = "20260131235959123456"
BOUND_S = 60.0
PLACES = 32

CONNECTION = """
    import os, time

    def init(opts):
        open(os.path.join(opts["cachedir"], "inits"), "a").write("x")
        if __pillar__.get("init_fails"):
            raise ValueError("no route")

    def initialized():
        return True

    def discover(opts):
        return __pillar__["resources"]["probe"]["ids"]

    def grains():
        open(os.path.join(__opts__["cachedir"], "grains"), "a").write("x")
        while os.path.exists(os.path.join(__opts__["cachedir"], "hold-" + __resource__["id"])):
            time.sleep(0.01)
        if __resource__["id"] == "bad":
            raise ValueError("no grains here")
        return {"rid": __resource__["id"], "role": "probe"}

    def shutdown(opts):
        open(os.path.join(opts["cachedir"], "shutdowns"), "a").write("x")
    """
SLOT = """
    import os, threading, time

    def ping():
        return True

    def who():
        return dict(__resource__), dict(__grains__)

    def pid():
        return os.getpid()

    def sleep(seconds):
        time.sleep(seconds)
        return seconds

    def sleep_if(rid, seconds):
        if __resource__["id"] == rid:
            time.sleep(seconds)
        return True

    def both():
        "True when another resource is called at the same moment."
        __context__.setdefault("meet", threading.Barrier(2)).wait(60)
        return True

    def alone():
        "How many calls are at this resource."
        here = __context__.setdefault("here", {})
        rid = __resource__["id"]
        here[rid] = here.get(rid, 0) + 1
        time.sleep(0.05)
        seen = here[rid]
        here[rid] -= 1
        return seen

    def fail(code):
        __context__["retcode"] = code

    def crash():
        os._exit(3)

    def large(size):
        return "x" * size

    def complain():
        import logging
        logging.getLogger("probe").warning("something is odd")
    """
FILES = {"resources/probe/__init__": CONNECTION, "resources/probe/modules/test": SLOT}


@dataclass
class ResourceRig:
    """A resource server on a reactor of its own, with what it reported. Nothing waits longer than BOUND_S."""

    folder: Path
    reactor: Reactor
    spool: DiskSpool
    server: ResourceServer
    segments: list[str]
    inventories: list[dict[str, list[str]]]
    registered: list[dict[str, Any]] = field(default_factory=list)
    done: dict[str, str] = field(default_factory=dict)
    parts: int = 0

    def until(self, condition: Callable[[], object], bound_s: float = BOUND_S) -> None:
        end = time.monotonic() + bound_s

        def look() -> None:
            if condition() or time.monotonic() > end:
                self.reactor.stop()
            else:
                self.reactor.call_later(0.002, look)

        look()
        self.reactor.run()
        assert condition()

    def found(self, ids: list[str], **more: Any) -> dict[str, Any]:
        """What is registered when the pillar declares these resources: on a busy machine some grains come later."""
        before = len(self.registered)
        self.server.pillar_is({"resources": {"probe": {"ids": ids}}, **more})
        over: list[bool] = []
        self.server.looked(lambda: over.append(True))
        self.until(lambda: over)
        assert len(self.registered) > before
        return self.registered[-1]

    def until_grains(self, *ids: str) -> dict[str, Any]:
        """What is registered when these resources, and no others, have grains."""
        self.until(lambda: self.registered and set(self.registered[-1]["grains"]) == {f"probe:{one}" for one in ids})
        return self.registered[-1]

    def hold(self, rid: str) -> Path:
        """As long as this file is there, that resource gives no grains."""
        path = self.folder / "cache" / f"hold-{rid}"
        path.touch()
        return path

    def begin(self, ids: list[str], fun: str, *args: Any, user: str = "root", kind: str = "probe") -> str:
        self.parts += 1
        part = f"{JID}-{self.parts}"
        call = JobSpec(part, [(fun, args, {})], user)
        self.server.begin(call, [f"{kind}:{one}" for one in ids])
        self.server.go(part)
        return part

    def rows(self, part: str) -> dict[str, SegmentRow]:
        """What the resources of that part have answered until now."""
        mine = [name for name in self.segments if name.startswith(f"{part}.")]
        return {row.srn.partition(":")[2]: row for name in mine for row in decode_segment(self.spool.read(name).body)}

    def run(self, ids: list[str], fun: str, *args: Any) -> dict[str, SegmentRow]:
        part = self.begin(ids, fun, *args)
        self.until(lambda: part in self.done)
        return self.rows(part)

    def values(self, ids: list[str], fun: str, *args: Any) -> dict[str, Any]:
        return {rid: decode_return(row.body) for rid, row in self.run(ids, fun, *args).items()}

    def count(self, what: str) -> int:
        path = self.folder / "cache" / what
        return len(path.read_text()) if path.exists() else 0

    def stop(self) -> None:
        gone: list[bool] = []
        self.server.stop(lambda: gone.append(True))
        self.until(lambda: gone)


MakeResourceRig = Callable[..., ResourceRig]


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeResourceRig]:
    made: list[ResourceRig] = []

    def make_one(
        files: Mapping[str, str] = FILES, *, timeout_s: float = 60.0, pillar_key: str = "resources"
    ) -> ResourceRig:
        write(tmp_path, files)
        for name in ("cache", "spool"):
            (tmp_path / name).mkdir()
        opts = {"module_dirs": [str(tmp_path)], "cachedir": str(tmp_path / "cache"), "id": "ma"}
        index = build_index(search_layers(opts))
        returns = Returns("ma", 16 << 20, str(tmp_path / "kept"), 1 << 20)
        around = JobContext(opts, {"os": "Debian"}, lambda: index, str(tmp_path / "spool"), returns, lambda *_: None)
        reactor = Reactor()
        spool = DiskSpool(PosixFolder(str(tmp_path / "spool")))
        segments: list[str] = []
        inventories: list[dict[str, list[str]]] = []
        said = RunCallbacks(segments.append, lambda part, how: rig.done.update({part: how}))
        server = ResourceServer(
            reactor,
            around,
            Declared(pillar_key, PLACES, timeout_s, {}),
            spool,
            around=ServerContext(
                RpcServer(reactor, lambda _message: None, lambda _what, done: done({}), answer_check("ma")),
                lambda data: rig.registered.append(decode_document(data)),
                inventories.append,
            ),
            runs=said,
        )
        rig = ResourceRig(tmp_path, reactor, spool, server, segments, inventories)
        made.append(rig)
        return rig

    yield make_one
    for rig in made:
        rig.stop()
        rig.reactor.close()
