"""Resources run for real: their type's process, its threads, what it leaves in the spool, what becomes of it."""

from __future__ import annotations

import os
import signal
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
from saltlite.minion.resources import calls, discovery, server
from saltlite.minion.resources import server as keeper
from saltlite.minion.resources.device_queue import DOUBT_S
from saltlite.minion.resources.discovery import Declared
from saltlite.minion.resources.process import HUNG_MAX
from saltlite.minion.resources.server import RESTART_MIN_S, ResourceServer, RunCallbacks, ServerContext
from saltlite.model.job import TargetState
from saltlite.model.resourcelook import bits_of
from saltlite.platform import logs
from saltlite.platform.files import PosixFolder
from saltlite.platform.reactor import Reactor, Timer
from saltlite.wire.codec import decode_document
from saltlite.wire.messages import SegmentRow, decode_segment
from tests.support.fleet import wait_until
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
class Rig:
    """A resource server on a reactor of its own, with what it said. Nothing waits longer than BOUND_S."""

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


MakeRig = Callable[..., Rig]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeRig]:
    made: list[Rig] = []

    def make_one(files: Mapping[str, str] = FILES, *, timeout_s: float = 60.0, pillar_key: str = "resources") -> Rig:
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
        rig = Rig(tmp_path, reactor, spool, server, segments, inventories)
        made.append(rig)
        return rig

    yield make_one
    for rig in made:
        rig.stop()
        rig.reactor.close()


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    logs.configure("info", log_file=str(tmp_path / "log"), stderr_fd=None)
    yield tmp_path / "log"
    logs.configure("quiet", stderr_fd=None)


def test_what_is_found_is_registered_with_grains_and_what_the_slots_take(make: MakeRig) -> None:
    rig = make()
    assert rig.found(["p2", "p1"])["resources"] == {"probe": ["p1", "p2"]}
    said = rig.until_grains("p1", "p2")
    assert said["grains"]["probe:p1"] == {"rid": "p1", "role": "probe"}
    assert said["stale"] == []
    assert "test.sleep(seconds)" in said["functions"]["probe"]


def test_every_resource_answers_with_its_own_id_and_grains(make: MakeRig) -> None:
    rig = make()
    ids = [f"p{number}" for number in range(64)]
    rig.found(ids)
    rig.until_grains(*ids)
    said = rig.values(ids, "test.who")
    assert said == {rid: [{"id": rid, "type": "probe"}, {"rid": rid, "role": "probe"}] for rid in ids}


def test_a_type_is_loaded_and_its_grains_are_collected_once_however_many_jobs_run(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2"])
    rig.until_grains("p1", "p2")
    pids = [rig.values(["p1", "p2"], "test.pid") for _ in range(3)]
    assert (rig.count("inits"), rig.count("grains")) == (1, 2)
    assert len({pid for said in pids for pid in said.values()}) == 1


def test_resources_are_called_at_the_same_time(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2"])
    assert rig.values(["p1", "p2"], "test.both") == {"p1": True, "p2": True}


def test_a_device_has_one_call_at_a_time(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1"])
    parts = [rig.begin(["p1"], "test.alone") for _ in range(4)]
    rig.until(lambda: set(parts) <= rig.done.keys())
    assert [decode_return(rig.rows(part)["p1"].body) for part in parts] == [1, 1, 1, 1]


def test_a_resource_that_hangs_delays_no_other_and_times_out_alone(make: MakeRig) -> None:
    rig = make(timeout_s=4.0)
    ids = [f"p{number}" for number in range(40)]
    rig.found(ids)
    part = rig.begin(ids, "test.sleep_if", "p7", 60)
    rig.until(lambda: len(rig.rows(part)) == 39)
    assert part not in rig.done
    rig.until(lambda: part in rig.done)
    hung = rig.rows(part)["p7"]
    assert (hung.state, hung.body, hung.reason) == (TargetState.TIMED_OUT, b"", "it did not answer within 4 s")


def test_after_a_call_that_hangs_the_process_is_replaced_and_the_device_is_asked_again(make: MakeRig) -> None:
    rig = make(timeout_s=0.3)
    rig.found(["p1"])
    before = rig.values(["p1"], "test.pid")
    rig.run(["p1"], "test.sleep", 60)
    rig.until(lambda: rig.count("inits") == 2)
    assert rig.values(["p1"], "test.pid") != before
    assert rig.values(["p1"], "test.who")["p1"][1] == {"rid": "p1", "role": "probe"}


def test_a_crashed_process_ends_its_parts_says_how_and_is_started_again(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2"])
    part = rig.begin(["p1"], "test.crash")
    rig.until(lambda: part in rig.done)
    assert rig.done[part] == "exit status 3"
    assert rig.values(["p2"], "test.ping") == {"p2": True}


def test_a_process_that_is_killed_ends_its_parts(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1"])
    pid = rig.values(["p1"], "test.pid")["p1"]
    part = rig.begin(["p1"], "test.sleep", 30)
    os.kill(pid, signal.SIGKILL)
    rig.until(lambda: part in rig.done)
    assert rig.done[part] == "killed by SIGKILL"


def test_a_cancelled_part_ends_at_once_and_what_was_answered_before_is_kept(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2"])
    part = rig.begin(["p1", "p2"], "test.sleep_if", "p2", 60)
    rig.until(lambda: rig.rows(part))
    rig.server.cancel(part, late=False)
    rig.until(lambda: part in rig.done, 30)
    assert (list(rig.rows(part)), rig.done[part] != "") == (["p1"], True)


def test_what_is_not_managed_here_is_refused_and_the_others_answer(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1"])
    said = rig.run(["p1", "gone"], "test.ping")
    assert (said["p1"].state, said["gone"].state) == (TargetState.RETURNED, TargetState.REFUSED)
    assert said["gone"].reason == "this minion does not manage it"


def test_a_type_that_the_pillar_does_not_declare_is_refused(make: MakeRig) -> None:
    rig = make()
    rig.server.pillar_is({})
    assert rig.run(["p1"], "test.ping")["p1"].state is TargetState.REFUSED


def test_parts_wait_for_the_first_pillar(make: MakeRig) -> None:
    rig = make()
    part = rig.begin(["p1"], "test.ping")
    rig.found(["p1"])
    rig.until(lambda: part in rig.done)
    assert rig.rows(part)["p1"].state is TargetState.RETURNED


@pytest.mark.parametrize(
    ("fun", "args", "text"),
    [
        ("cmd.run", ["id"], "Function 'cmd.run' is not supported for resource type 'probe'"),
        ("test.ping", [1], "Passed invalid arguments to test.ping: "),
        ("test.sleep", ["x"], "The minion function caused an exception: Traceback"),
    ],
)
def test_what_goes_wrong_is_said_in_the_words_of_a_minion(make: MakeRig, fun: str, args: list[Any], text: str) -> None:
    rig = make()
    rig.found(["p1"])
    row = rig.run(["p1"], fun, *args)["p1"]
    assert decode_return(row.body).startswith(text)
    assert row.retcode == 1


def test_the_retcode_belongs_to_the_call(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2"])
    assert {row.retcode for row in rig.run(["p1", "p2"], "test.fail", 7).values()} == {7}
    assert {row.retcode for row in rig.run(["p1", "p2"], "test.ping").values()} == {0}


def test_a_large_answer_is_a_segment_of_its_own(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2"])
    assert {rid: len(text) for rid, text in rig.values(["p1", "p2"], "test.large", 100_000).items()} == {
        "p1": 100_000,
        "p2": 100_000,
    }
    assert len(rig.segments) == 2


def test_many_answers_share_a_segment(make: MakeRig) -> None:
    rig = make()
    ids = [f"p{number}" for number in range(500)]
    rig.found(ids)
    assert len(rig.run(ids, "test.ping")) == 500
    assert len(rig.segments) < 25


def test_ids_come_from_discover_alone_and_follow_it(make: MakeRig) -> None:
    rig = make()
    assert rig.found(["d1"])["resources"] == {"probe": ["d1"]}
    assert rig.found(["d1", "d3"])["resources"] == {"probe": ["d1", "d3"]}
    assert rig.found(["d1"])["resources"] == {"probe": ["d1"]}
    assert rig.inventories == [{"probe": ["d1"]}, {"probe": ["d1", "d3"]}, {"probe": ["d1"]}]


def test_the_pillar_key_is_the_one_of_the_configuration(make: MakeRig) -> None:
    rig = make(pillar_key="things")
    rig.server.pillar_is({"things": {"probe": {}}, "resources": {"probe": {"ids": ["p1"]}}})
    rig.until(lambda: rig.registered)
    assert rig.registered[-1]["resources"] == {"probe": ["p1"]}


def test_an_empty_pillar_key_is_the_default_one_and_a_warning(make: MakeRig, log_file: Path) -> None:
    assert make(pillar_key="").found(["p1"])["resources"] == {"probe": ["p1"]}
    assert "option resource_pillar_key is empty, and resources is used" in log_file.read_text()


def test_the_same_pillar_again_is_no_reason_to_look(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1"])
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1"]}}})
    rig.values(["p1"], "test.ping")
    assert rig.count("grains") == 1


def test_a_look_that_is_asked_for_finds_what_has_changed_outside(make: MakeRig) -> None:
    changing = CONNECTION.replace(
        'return __pillar__["resources"]["probe"]["ids"]', "return os.listdir(opts['cachedir'])"
    )
    rig = make({**FILES, "resources/probe/__init__": changing})
    rig.found([])
    (rig.folder / "cache/new").touch()
    over: list[bool] = []
    rig.server.looked(lambda: over.append(True))
    rig.until(lambda: over)
    assert "new" in rig.registered[-1]["resources"]["probe"]


def test_a_pillar_that_says_the_same_of_a_type_is_seen_by_its_process_and_does_not_replace_it(make: MakeRig) -> None:
    own = """
        import os

        def seen():
            return os.getpid(), __pillar__.get('colour'), __minion__['pillar.get']('colour')
        """
    rig = make({**FILES, "resources/probe/modules/own": own})
    rig.found(["p1"])
    pid, before, _ = rig.values(["p1"], "own.seen")["p1"]
    rig.found(["p1"], colour="red")
    assert (rig.values(["p1"], "own.seen")["p1"], before) == ([pid, "red", "red"], None)
    rig.found(["p1", "p2"], colour="red")
    assert rig.values(["p1"], "own.seen")["p1"][0] != pid


def test_without_the_key_there_are_no_resources_any_more(make: MakeRig) -> None:
    rig = make()
    rig.found(["d1"])
    rig.server.pillar_is({})
    rig.until(lambda: rig.registered[-1]["resources"] == {})
    rig.until(lambda: rig.count("shutdowns") == 1)


def test_grains_that_cannot_be_collected_are_named_and_the_others_are_there(make: MakeRig, log_file: Path) -> None:
    rig = make()
    assert rig.found(["p1", "bad"])["resources"] == {"probe": ["bad", "p1"]}
    assert rig.until_grains("p1")["stale"] == ["probe:bad"]
    why = "the grains of probe:bad could not be collected: ValueError: no grains here"
    rig.until(lambda: why in log_file.read_text())


def test_what_cannot_be_an_id_is_left_out(make: MakeRig, log_file: Path) -> None:
    said = make().found(["p1", "a/b", "..", "a b", "x*", 5, "p1"])  # type: ignore[list-item]
    assert said["resources"] == {"probe": ["p1"]}
    assert "resource type probe: ids are skipped: 'a/b' is not a resource id" in log_file.read_text()


def test_init_that_fails_is_what_the_resources_answer(make: MakeRig) -> None:
    rig = make()
    assert rig.found(["p1"], init_fails=True)["resources"] == {"probe": ["p1"]}
    assert rig.values(["p1"], "test.ping") == {
        "p1": "Resource type 'probe' is not initialised: init() raised ValueError: no route"
    }


def test_resources_that_the_master_withholds_are_not_in_the_inventory(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2", "p3"])
    assert rig.inventories[-1] == {"probe": ["p1", "p2", "p3"]}
    rig.server.registered(bits_of([True, False, True]))
    assert rig.inventories[-1] == {"probe": ["p2"]}
    rig.found(["p1", "p2", "p3", "p4"])
    assert rig.inventories[-1] == {"probe": ["p2", "p4"]}
    # The whole registration was refused: what the master took before is left.
    rig.server.registered(None)
    assert rig.inventories[-1] == {"probe": ["p2"]}
    rig.server.registered(b"")
    assert rig.inventories[-1] == {"probe": ["p1", "p2", "p3", "p4"]}


HIDING = """
    def init(opts):
        raise ConnectionError("no route to the controller")
    def initialized(): return True
    def discover(opts): return []
    def grains(): return {}
"""


def test_a_custom_type_whose_init_fails_leaves_the_resources_to_the_shipped_type(make: MakeRig, log_file: Path) -> None:
    rig = make({"resources/dummy/__init__": HIDING, "resources/dummy/modules/extra": "def f(): return 1\n"})
    rig.server.pillar_is({"resources": {"dummy": {"resource_ids": ["d1", "d2"]}}})
    rig.until(lambda: rig.registered and rig.registered[-1]["resources"])
    assert rig.registered[-1]["resources"] == {"dummy": ["d1", "d2"]}
    report = rig.registered[-1]["reports"]["dummy"]
    assert (report["loaded"], report["initialised"], report["found"]) == (True, True, 2)
    why = "the shipped type takes its place: init() raised ConnectionError: no route to the controller"
    assert why in report["error"]
    assert why in log_file.read_text()
    part = rig.begin(["d1"], "test.ping", kind="dummy")
    rig.until(lambda: part in rig.done)
    assert [decode_return(row.body) for row in rig.rows(part).values()] == [True]


def test_a_type_that_does_not_load_takes_no_other_with_it(make: MakeRig, log_file: Path) -> None:
    rig = make({**FILES, "resources/broken/__init__": "raise ValueError('no')\n"})
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1"]}, "broken": {}, "nosuch": {}, "not a type": {}}})
    rig.until(lambda: rig.registered)
    assert rig.registered[-1]["resources"] == {"probe": ["p1"]}
    text = log_file.read_text()
    assert "No resource loader available for type 'nosuch': there is no nosuch/__init__.py" in text
    assert "No resource loader available for type 'broken': 'broken' could not be imported: ValueError: no" in text
    assert "'not a type' is not a resource type" in text


def test_a_type_without_files_is_tried_less_and_less_often_and_said_once(
    make: MakeRig, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "AGAIN_S", 0.05)
    monkeypatch.setattr(server, "AGAIN_MAX_S", 0.2)
    rig = make()
    waits: list[float] = []
    call_later = rig.reactor.call_later

    def noted(seconds: float, call: Callable[[], None]) -> Timer:
        if call.__qualname__.startswith("TypeSupervisor._found_ids"):
            waits.append(seconds)
        return call_later(seconds, call)

    monkeypatch.setattr(rig.reactor, "call_later", noted)
    rig.server.pillar_is({"resources": {"nosuch": {}}})
    rig.until(lambda: len(waits) == 4)
    assert waits == [0.05, 0.1, 0.2, 0.2]
    assert log_file.read_text().count("No resource loader available for type 'nosuch'") == 1
    over: list[bool] = []
    rig.server.refresh(lambda: over.append(True))
    rig.until(lambda: over)
    assert waits[-1] == 0.05


def test_shutdown_is_called_when_the_minion_stops(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1"])
    rig.stop()
    assert rig.count("shutdowns") == 1


def test_a_look_finds_new_files_of_the_type(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1"])
    write(rig.folder, {"resources/probe/modules/more": "def f():\n    return 'more'\n"})
    over: list[bool] = []
    rig.server.refresh(lambda: over.append(True))
    rig.until(lambda: over)
    assert rig.values(["p1"], "more.f") == {"p1": "more"}
    assert "more.f" in " ".join(rig.registered[-1]["functions"]["probe"])


def test_log_lines_name_the_resource_and_the_job(make: MakeRig, log_file: Path) -> None:
    rig = make()
    rig.found(["p1"])
    rig.run(["p1"], "test.complain")
    line = next(line for line in log_file.read_text().splitlines() if "something is odd" in line)
    assert f"jid={JID}" in line
    assert "srn=probe:p1" in line


def test_ids_are_registered_before_slow_grains_are_there(make: MakeRig) -> None:
    rig = make()
    slow = rig.hold("slow")
    assert rig.found(["p1", "slow"])["resources"] == {"probe": ["p1", "slow"]}
    assert rig.until_grains("p1")["stale"] == ["probe:slow"]
    slow.unlink()
    assert rig.until_grains("p1", "slow")["stale"] == []


def test_grains_are_registered_while_those_of_another_resource_hang(make: MakeRig) -> None:
    rig = make()
    late, _hung = rig.hold("late"), rig.hold("hung")
    rig.found(["p1", "late", "hung"])
    rig.until_grains("p1")
    late.unlink()
    assert rig.until_grains("p1", "late")["stale"] == ["probe:hung"]


def test_a_look_does_not_wait_for_grains_that_hang_and_asks_nobody_twice(make: MakeRig) -> None:
    rig = make()
    rig.hold("hung")
    rig.found(["p1", "hung"])
    rig.until(lambda: rig.count("grains") == 2)
    for number in range(2):
        rig.until_grains("p1")  # who has answered can be asked again
        over: list[bool] = []
        rig.server.refresh(lambda over=over: over.append(True))  # type: ignore[misc]  # a default binds the name
        rig.until(lambda over=over: over)  # type: ignore[misc]  # as above
        assert rig.registered[-1]["resources"] == {"probe": ["hung", "p1"]}
        rig.until(lambda number=number: rig.count("grains") == 3 + number)  # type: ignore[misc]  # as above


def test_grains_of_a_type_have_a_limit_together_and_those_beyond_it_are_left_out(
    make: MakeRig, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One resource has {"rid": "pN", "role": "probe"}, which are 19 bytes.
    monkeypatch.setattr(discovery, "RESOURCE_GRAINS_TOTAL_MAX", 40)
    rig = make()
    rig.found(["p1", "p2", "p3"])
    rig.until(lambda: "the grains of 1 resources are skipped (probe:p" in log_file.read_text())
    rig.until(lambda: len(rig.registered[-1]["grains"]) == 2)
    said = rig.registered[-1]
    assert set(said["grains"]) | set(said["stale"]) == {"probe:p1", "probe:p2", "probe:p3"}
    assert len(said["stale"]) == 1


def test_a_device_can_be_asked_while_another_one_gives_its_grains(make: MakeRig) -> None:
    rig = make()
    rig.hold("slow")
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1", "slow"]}}})
    assert rig.values(["p1"], "test.ping") == {"p1": True}
    assert not rig.registered or "probe:slow" not in rig.registered[-1]["grains"]


def test_functions_reach_the_modules_of_their_minion(make: MakeRig) -> None:
    own = "def f():\n    return __minion__['test.echo']('x'), __resource_funcs__['probe.discover'](__opts__)\n"
    rig = make({**FILES, "resources/probe/modules/own": own})
    rig.found(["p1"])
    assert rig.values(["p1"], "own.f") == {"p1": ["x", ["p1"]]}


def test_a_process_that_crashes_again_and_again_is_started_with_growing_pauses(make: MakeRig, log_file: Path) -> None:
    rig = make()
    rig.found(["p1"])
    began = time.monotonic()
    for _ in range(5):
        rig.run(["p1"], "test.crash")
    assert time.monotonic() - began >= sum(RESTART_MIN_S * 2**n for n in range(4))
    assert "its process ended (exit status 3), and is started again" in log_file.read_text()


def test_when_more_than_a_few_calls_hang_a_fresh_process_takes_what_comes_next(make: MakeRig) -> None:
    rig = make(timeout_s=0.5)
    ids = [f"p{number}" for number in range(HUNG_MAX + 1)]
    rig.found([*ids, "busy", "other"])
    before = rig.values(["other"], "test.pid")["other"]
    hanging = rig.begin(ids, "test.sleep", 60)
    # One after the other: the old process has something else to do until after the new one is there.
    busy = [rig.begin(["busy"], "test.sleep", 0.1) for _ in range(15)]

    def replaced() -> bool:
        if rig.count("inits") == 1 and len(set(busy) - rig.done.keys()) < 15:
            busy.append(rig.begin(["busy"], "test.sleep", 0.1))
        return hanging in rig.done and rig.count("inits") == 2

    rig.until(replaced)
    assert rig.values(["other"], "test.pid")["other"] != before
    rig.until(lambda: set(busy) <= rig.done.keys())
    assert {rig.rows(part)["busy"].state for part in busy} == {TargetState.RETURNED}


def test_a_process_that_is_not_heard_of_any_more_is_killed_and_its_calls_end(
    make: MakeRig, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "LISTEN_S", 0.5)
    rig = make()
    rig.found(["p1"])
    frozen = rig.values(["p1"], "test.pid")["p1"]
    part = rig.begin(["p1"], "test.sleep", 60)
    os.kill(frozen, signal.SIGSTOP)
    rig.until(lambda: part in rig.done)
    assert rig.done[part] == "killed by SIGKILL"
    assert "its process has not been heard of for 1.5 s, and is killed" in log_file.read_text()
    assert rig.values(["p1"], "test.pid")["p1"] != frozen


def test_a_process_that_waits_for_its_devices_is_heard_of(make: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    # The call outlasts the silence that ends a process, and a busy machine's pauses do not reach it.
    monkeypatch.setattr(keeper, "LISTEN_S", 0.5)
    rig = make()
    rig.found(["p1"])
    assert rig.values(["p1"], "test.sleep", 2.0) == {"p1": 2.0}


LIMITS = (
    CONNECTION
    + """
    def timeout(fun, args, kwargs):
        return {"test.sleep": 0.3}.get(fun)
    """
)


def test_a_type_names_the_limit_of_a_call_and_what_has_none_has_the_one_of_the_minion(make: MakeRig) -> None:
    rig = make({**FILES, "resources/probe/__init__": LIMITS}, timeout_s=2.0)
    rig.found(["p1", "p2"])
    both = [rig.begin(["p1"], "test.sleep", 60), rig.begin(["p2"], "test.sleep_if", "p2", 0.8)]
    rig.until(lambda: set(both) <= rig.done.keys())
    first, second = (next(iter(rig.rows(part).values())) for part in both)
    assert (first.state, first.reason) == (TargetState.TIMED_OUT, "it did not answer within 0.3 s")
    assert (second.state, second.reason) == (TargetState.RETURNED, "")


def test_a_limit_of_a_type_may_be_longer_than_that_of_the_minion(make: MakeRig) -> None:
    longer = LIMITS.replace('"test.sleep": 0.3', '"test.sleep": 30')
    rig = make({**FILES, "resources/probe/__init__": longer}, timeout_s=0.5)
    rig.found(["p1"])
    assert rig.values(["p1"], "test.sleep", 1.0) == {"p1": 1.0}


def test_a_type_that_fails_to_name_a_limit_has_the_one_of_the_minion(make: MakeRig, log_file: Path) -> None:
    rig = make({**FILES, "resources/probe/__init__": LIMITS.replace("return {", "return 1 / 0 or {")}, timeout_s=0.3)
    rig.found(["p1"])
    assert rig.run(["p1"], "test.sleep", 60)["p1"].reason == "it did not answer within 0.3 s"
    assert "timeout() raised ZeroDivisionError: division by zero; 0.3 s are the limit" in log_file.read_text()


def test_devices_whose_calls_fail_after_a_while_leave_half_of_the_places_to_the_others(make: MakeRig) -> None:
    dead = "import time\n\n\ndef reach(seconds):\n    time.sleep(seconds)\n    raise ValueError('no route')\n"
    rig = make({**FILES, "resources/probe/modules/dead": dead})
    ids = [f"p{number}" for number in range(PLACES)]
    rig.found([*ids, "alive"])
    rig.run(ids, "dead.reach", DOUBT_S)
    part = rig.begin(ids, "dead.reach", 2.0)
    assert rig.values(["alive"], "test.ping") == {"alive": True}
    assert part not in rig.done
    rig.until(lambda: part in rig.done)
    began = {row.start_ms for row in rig.rows(part).values()}
    assert max(began) - min(began) >= 1900


# -- what is told of each type


def test_each_type_is_told_of_loaded_or_why_not_found_and_what_was_before(make: MakeRig) -> None:
    rig = make()
    rig.found(["p1", "p2"])
    first = rig.registered[-1]
    told = first["reports"]["probe"]
    assert (told["loaded"], told["initialised"], told["found"], told["was"], told["error"]) == (True, True, 2, None, "")
    rig.server.pillar_is({"resources": {"probe": {"ids": []}, "nosuch": {}}})
    rig.until(lambda: "nosuch" in rig.registered[-1]["reports"] and rig.registered[-1]["reports"]["probe"]["was"] == 2)
    told = rig.registered[-1]["reports"]
    assert (told["probe"]["found"], told["probe"]["looked_at"]) == (0, "pillar resources:probe, which has the keys ids")
    assert told["probe"]["look"] not in ("", first["reports"]["probe"]["look"])
    assert (told["nosuch"]["loaded"], told["nosuch"]["found"], told["nosuch"]["look"]) == (False, None, "")
    assert "there is no nosuch/__init__.py" in told["nosuch"]["error"]
    assert rig.registered[-1]["look"] not in ("", first["look"])


def test_a_type_that_cannot_be_initialised_or_looked_at_says_why(make: MakeRig) -> None:
    rig = make()
    rig.server.pillar_is({"resources": {"probe": {}}, "init_fails": True})
    rig.until(lambda: rig.registered and rig.registered[-1]["reports"])
    told = rig.registered[-1]["reports"]["probe"]
    assert (told["loaded"], told["initialised"], told["found"], told["look"]) == (True, False, None, "")
    assert told["error"] == "discover() raised KeyError: 'ids'"
    # It can be looked at now, and still not be called.
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1"]}}, "init_fails": True})
    rig.until(lambda: rig.registered[-1]["reports"]["probe"]["found"] == 1)
    told = rig.registered[-1]["reports"]["probe"]
    assert (told["initialised"], "init() raised ValueError: no route" in told["error"]) == (False, True)


def test_the_minion_looks_again_when_the_master_wants_to_be_sure_and_once_for_several_times(
    make: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_AGAIN_S", 0.2)
    rig = make()
    rig.found(["p1"])

    def looks() -> int:
        """What one look found may be registered in two parts."""
        return len({one["reports"]["probe"]["look"] for one in rig.registered})

    assert looks() == 1
    for _ in range(3):
        rig.server.look_again()
    rig.until(lambda: looks() == 2)
    rig.run(["p1"], "test.sleep", 0.6)
    assert looks() == 2


def test_a_minion_without_types_says_the_same_after_each_start(make: MakeRig) -> None:
    rig = make()
    rig.server.pillar_is({"nothing": "here"})
    rig.until(lambda: rig.registered)
    assert (rig.registered[-1]["look"], rig.registered[-1]["reports"]) == ("", {})
    assert rig.server.looked_at() == "pillar resources is not there"
    rig.server.pillar_is({"resources": {}})
    assert rig.server.looked_at() == "pillar resources declares no resource types"


def test_a_custom_type_that_does_not_load_leaves_the_shipped_types_resources_reachable(make: MakeRig) -> None:
    rig = make({"resources/dummy/__init__": "import no_such_library"})
    rig.server.pillar_is({"resources": {"dummy": {"resource_ids": ["d1"]}}})
    rig.until(lambda: rig.registered and rig.registered[-1]["resources"] == {"dummy": ["d1"]})
    report = rig.server.reports()["dummy"]
    assert (report.loaded, report.initialised, report.found) == (True, True, 1)
    assert "no_such_library" in report.problem()
    call = JobSpec(f"{JID}-1", [("test.ping", [], {})], "root")
    rig.server.begin(call, ["dummy:d1"])
    rig.server.go(call.jid)
    rig.until(lambda: call.jid in rig.done)
    assert decode_return(rig.rows(call.jid)["d1"].body) is True


THREADS = """
    import threading

    def thread():
        return threading.get_ident()

    def own_threads():
        return sum(each.name.startswith("probe:") for each in threading.enumerate())
    """


def test_calls_on_one_resource_run_in_one_thread_if_the_type_asks_for_it(make: MakeRig) -> None:
    # Not from the pillar: a change of the pillar replaces the process with all its threads.
    changing = CONNECTION.replace(
        'return __pillar__["resources"]["probe"]["ids"]', "return open(opts['cachedir'] + '/ids').read().split()"
    )
    connection = "    THREAD_PER_RESOURCE = True\n" + changing
    rig = make({"resources/probe/__init__": connection, "resources/probe/modules/test": THREADS + SLOT})
    ids = [f"p{number}" for number in range(20)]
    present = rig.folder / "cache/ids"
    present.write_text(" ".join(ids))
    rig.found([])
    # Calls that wait make the pool start further threads.
    rig.values(ids, "test.sleep", 0.05)
    first, *others = [rig.values(ids, "test.thread") for _ in range(4)]
    assert others == [first] * 3
    assert len(set(first.values())) == len(ids)
    assert rig.values(["p1", "p2"], "test.both") == {"p1": True, "p2": True}
    assert rig.values(["p1"], "test.own_threads") == {"p1": len(ids)}
    present.write_text("p1")
    over: list[bool] = []
    rig.server.looked(lambda: over.append(True))
    rig.until(lambda: over)
    wait_until(lambda: rig.values(["p1"], "test.own_threads") == {"p1": 1}, "the threads of the others end")


def test_a_resource_without_a_thread_answers_with_the_reason(make: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "RESOURCE_THREADS_MAX", 0)
    connection = "    THREAD_PER_RESOURCE = True\n" + CONNECTION
    rig = make({"resources/probe/__init__": connection, "resources/probe/modules/test": THREADS + SLOT})
    rig.found(["p1"])
    answer = rig.run(["p1"], "test.thread")["p1"]
    assert (answer.state, answer.retcode) == (TargetState.RETURNED, 1)
    assert "0 resources of its type have threads" in decode_return(answer.body)


def test_a_call_that_hangs_in_the_thread_of_its_resource_delays_no_other(make: MakeRig) -> None:
    connection = "    THREAD_PER_RESOURCE = True\n" + CONNECTION
    rig = make({**FILES, "resources/probe/__init__": connection}, timeout_s=2.0)
    rig.found(["p1", "p2"])
    part = rig.begin(["p1", "p2"], "test.sleep_if", "p1", 60)
    rig.until(lambda: part in rig.done)
    assert [rig.rows(part)[one].state for one in ("p1", "p2")] == [TargetState.TIMED_OUT, TargetState.RETURNED]
