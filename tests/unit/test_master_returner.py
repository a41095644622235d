"""What one returner is handed, again, alone, or not at all; and where it goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.errors import CommandExecutionError, RefusedError, SaltInvocationError, UsageError
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.returner import (
    AGAIN_MAX_S,
    AGAIN_S,
    DEATHS_ALONE,
    DEATHS_MAX,
    PAGE,
    WANTED_MAX,
    Returner,
    Subscription,
)
from saltlite.model.ids import MinionId
from saltlite.platform.daemon import ManualClock
from saltlite.platform.files import CursorFile
from saltlite.testing.memory_store import MemoryStore
from tests.support.master import MasterRig
from tests.support.store import commit
from tests.support.store import ret as returned

EVENTS = Subscription("one", events=True)


class ReturnerRig:
    """A returner over a store in memory."""

    def __init__(self, folder: Path, wanted: Subscription = EVENTS) -> None:
        self.store = MemoryStore()
        self.wanted = wanted
        self.cursor = CursorFile(str(folder / "returners/one.json"))
        self.pauses: list[float] = []
        self.taken: list[list[int]] = []
        self.fails: Callable[[list[int]], None] = lambda _numbers: None
        self.returner = self.begin()

    def begin(self) -> Returner:
        """The process starts."""
        functions = {"one.event_return": self._take}
        return Returner(
            self.store, ManualClock(wall=1.0), functions, self.wanted, self.cursor, pause=self.pauses.append
        )

    def _take(self, events: list[dict[str, Any]]) -> None:
        numbers = [event["data"]["n"] for event in events]
        self.fails(numbers)
        self.taken.append(numbers)

    def say(self, *numbers: int, tag: str = "app/x") -> None:
        with self.store.write() as store:
            for number in numbers:
                store.put_event(tag, {"n": number}, 1.0)

    def told(self) -> list[tuple[str, Any]]:
        return [(event.tag, event.data) for event in self.store.events() if event.tag.startswith("salt/returner")]


def test_a_new_returner_begins_with_what_comes_and_a_known_one_where_it_stood(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path)
    rig.say(1, 2)
    assert rig.returner.step()
    rig.say(3)
    again = rig.begin()
    assert again.step()
    assert not again.step()
    assert rig.taken == [[1, 2], [3]]


def test_what_fails_is_offered_again_after_growing_pauses_and_nothing_is_lost(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path)
    rig.say(1)

    def away(_numbers: list[int]) -> None:
        raise CommandExecutionError("the server is away")

    def broken(_numbers: list[int]) -> None:
        raise KeyError("a defect")

    for fails in [*[away] * 4, *[broken] * 4]:
        rig.fails = fails
        rig.returner.step()
    assert rig.pauses == [min(AGAIN_MAX_S, AGAIN_S * 2**number) for number in range(8)]
    rig.fails = lambda _numbers: None
    rig.returner.step()
    assert rig.taken == [[1]]


def test_one_that_is_refused_for_good_is_dropped_alone_and_told(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path)
    rig.say(1, 2, 3)

    def picky(numbers: list[int]) -> None:
        if 2 in numbers:
            raise SaltInvocationError("no twos")

    rig.fails = picky
    rig.returner.step()
    assert rig.taken == [[1], [3]]
    assert rig.told() == [("salt/returner/one/dropped", {"count": 1, "reason": "no twos"})]
    rig.returner.step()  # what is told of it does not come back to it
    assert rig.taken == [[1], [3]]


def test_events_that_are_deleted_before_their_turn_are_counted(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path)
    rig.say(*range(5))
    with rig.store.write() as store:
        store.prune_events(3)
    rig.returner.step()
    assert rig.taken[0] == [3, 4]
    assert rig.told() == [("salt/returner/one/lost", {"count": 3, "reason": "deleted before they were delivered"})]


def test_an_event_that_kills_the_process_is_dropped_in_the_end_and_no_other(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path)
    rig.say(1, 2, 3)

    class DiedError(BaseException):
        """A process that ends here runs no further line."""

    def deadly(numbers: list[int]) -> None:
        if 2 in numbers:
            raise DiedError

    rig.fails = deadly
    starts = 0
    while [3] not in rig.taken and starts < 4 * DEATHS_MAX:
        returner = rig.begin()
        starts += 1
        try:
            while returner.step():
                pass
        except DiedError:
            continue
    assert rig.taken == [[1], [3]]
    assert starts <= DEATHS_ALONE + DEATHS_MAX + 2
    ((tag, data),) = rig.told()
    assert (tag, data["count"]) == ("salt/returner/one/dropped", 1)


def test_planned_stops_are_no_deaths(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path)
    rig.say(1)

    def stop(_numbers: list[int]) -> None:
        raise SystemExit(0)

    rig.fails = stop
    for _ in range(2 * DEATHS_MAX):
        rig.begin().run()
    assert rig.told() == []
    rig.fails = lambda _numbers: None
    rig.begin().step()
    assert rig.taken == [[1]]


def test_a_call_has_a_page_of_events_at_most_and_only_those_that_are_wanted(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path, Subscription("one", events=True, tags=["app/*"], not_tags=["app/secret*"]))
    rig.say(*range(PAGE + 1))
    rig.say(-1, tag="app/secret")
    rig.say(-2, tag="other")
    rig.returner.step()
    rig.returner.step()
    assert [len(numbers) for numbers in rig.taken] == [PAGE, 1]


def test_of_so_many_jobs_is_remembered_that_they_named_it(tmp_path: Path) -> None:
    rig = ReturnerRig(tmp_path, Subscription("one"))
    with rig.store.write() as store:
        for number in range(WANTED_MAX + 1):
            store.put_event(f"salt/job/{number}/returners", {"jid": str(number), "returners": ["one"]}, 1.0)
    while rig.returner.step():
        pass
    assert len(rig.cursor.read()["jobs"]) == WANTED_MAX
    assert "0" not in rig.cursor.read()["jobs"]


# -- jobs that name returners


def publish(rig: MasterRig, who: Principal, ret: Any) -> None:
    request = {"v": 1, "verb": "publish", "request_id": "0" * 32, "tgt": "web1", "tgt_type": "glob", "ret": ret}
    handle_request(rig.master, who, {**request, "calls": [["test.ping", [], {}]]})


def test_a_job_names_returners_that_there_are_and_that_its_user_may_name() -> None:
    rules = read_rules({"amy": ["test.*", {"@returner": ["json_file"]}], "bob": ["test.*"]}, "publisher_acl")
    rig = MasterRig("web1", granted=Granted(publisher=rules), returners=frozenset({"json_file", "http"}))
    for who, ret in (("bob", "json_file"), ("bob", "unknown"), ("amy", ["json_file", "http"])):
        with pytest.raises(RefusedError, match="the returner"):
            publish(rig, Principal(who, 1001), ret)
    with pytest.raises(UsageError, match="names http, json_file"):
        publish(rig, Principal("root", 0), "json_file,mysql")
    assert rig.store.events() == []
    publish(rig, Principal("amy", 1001), "json_file")
    new, named = rig.store.events()
    assert (new.tag, named.tag) == (f"salt/job/{new.data['jid']}/new", f"salt/job/{new.data['jid']}/returners")
    assert named.data["returners"] == ["json_file"]


@pytest.mark.parametrize("body", [b"\xc1", b"\x91" * 3000 + b"\xc0", b"\xa1\xff", b"\xc7\x00\x05", b"\xc0\xc0"])
def test_a_return_that_is_no_value_keeps_back_no_other(tmp_path: Path, body: bytes) -> None:
    rig = MasterRig("web1", "web2")
    jid = rig.ask("publish", request_id="0" * 32, tgt="*", tgt_type="glob", calls=[["test.ping", [], {}]]).fields["jid"]
    taken: list[Any] = []
    cursor = CursorFile(str(tmp_path / "one.json"))
    returner = Returner(
        rig.store,
        rig.clock,
        {"one.return_many": taken.extend, "one.returner": taken.append},
        Subscription("one", every_return=True),
        cursor,
        pause=lambda _seconds: None,
    )
    job = rig.store.job(jid)
    assert job is not None
    for minion, said in (("web1", body), ("web2", b"\xc3")):
        commit(rig.store, returned(job, MinionId(minion), body=said))
    returner.step()
    assert [(one["id"], one["success"], one["retcode"]) for one in taken] == [("web1", False, 1), ("web2", True, 0)]
    assert "cannot be read" in taken[0]["return"]
    json.dumps(taken)


def test_the_status_says_how_far_behind_a_reader_of_events_is_and_for_how_long(tmp_path: Path) -> None:
    cursor = CursorFile(str(tmp_path / "one.json"))
    rig = MasterRig("web1", readers={"returner one": str(tmp_path / "one.json"), "hooks": str(tmp_path / "none.json")})
    rig.ask("event_send", tag="app/x", data={})
    cursor.write({"seq": rig.store.last_seq()})
    for _ in range(3):
        rig.clock.advance(10.0)
        rig.ask("event_send", tag="app/x", data={})
    question = rig.ask("status").question
    assert question is not None
    readers = question.fields(None)["readers"]
    assert readers == {"returner one": {"behind": 3, "lag_s": 20.0}, "hooks": {"behind": 0, "lag_s": 0.0}}


# -- those that ship


def shipped(**config: Any) -> Loader:
    opts = {"returner_config": config, "module_dirs": [], "extension_modules": ""}
    return Loader(build_index(search_layers(opts, "returners")), opts, {}, {})


def test_a_torn_line_is_cut_off_and_large_files_make_way(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text('{"n": 0}\n{"n": 1, "half')
    loader = shipped(json_file={"path": str(path), "keep": 2})
    loader["json_file.event_return"]([{"n": 2, "bytes": b"\xff", "nan": float("nan"), 3: 4}])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"n": 0},
        {"n": 2, "bytes": "\\xff", "nan": "nan", "3": 4},
    ]
    small = shipped(json_file={"path": str(path), "keep": 2, "max_size": 0})
    for number in range(5, 9):
        small["json_file.event_return"]([{"n": number}])
    left = {one.name: json.loads(one.read_text().splitlines()[0])["n"] for one in tmp_path.iterdir()}
    assert left == {"out": 8, "out.1": 7, "out.2": 6}


def test_a_file_that_cannot_be_written_is_an_error_that_comes_again(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for path in ("relative", "", str(tmp_path / "link"), str(tmp_path / "none/out")):
        with pytest.raises(CommandExecutionError):
            shipped(json_file={"path": path})["json_file.event_return"]([{}])
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("status", "raises"),
    [(204, None), (400, SaltInvocationError), (302, CommandExecutionError), (401, CommandExecutionError)],
)
def test_what_a_server_answers_decides_what_becomes_of_it(status: int, raises: type[Exception] | None) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

        def log_message(self, *unused: object) -> None:
            """Tests are quiet."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        post = shipped(http={"url": f"http://127.0.0.1:{server.server_address[1]}"})["http.return_many"]
        if raises is None:
            post([{"n": 1}])
        else:
            with pytest.raises(raises):
                post([{"n": 1}])
        serving.join()


@pytest.mark.parametrize("url", ["", "ftp://x/", "https://", "http://127.0.0.1:1/", "http://127.0.0.1:x/"])
def test_what_cannot_be_reached_comes_again(url: str) -> None:
    with pytest.raises(CommandExecutionError):
        shipped(http={"url": url})["http.return_many"]([{}])
