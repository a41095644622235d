"""Returners of a real master: what arrives, when a server is away, slow or unwilling, and when the master dies."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

OWN = """
import os
def returner(ret):
    if ret["fun"] == "test.version":
        os.kill(os.getpid(), 9)
    with open(__opts__["returner_config"]["mine"]["path"], "a") as file:
        file.write(f"{ret['id']} {ret['fun']} {ret['return']}\\n")
"""
"""A returner as a user would write it; one that dies of some returns."""


class Server(HTTPServer):
    """Answers with these statuses, then with 200; keeps what it took."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Post)
        self.statuses: list[int] = []
        self.took: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked = 0


class Post(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked += 1
        status = server.statuses.pop(0) if server.statuses else 200
        if status == 200:
            server.took.append(body)
            server.headers.append(dict(self.headers))
        self.send_response(status)
        self.end_headers()

    def log_message(self, *unused: object) -> None:
        """Tests are quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    serving = threading.Thread(target=server.serve_forever, args=(0.02,))
    serving.start()
    yield server
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("returners")
    (folder / "own/returners").mkdir(parents=True)
    (folder / "own/returners/mine.py").write_text(OWN)
    (folder / "token").write_text("s3cret\n")
    fleet = Fleet(folder)
    url = f"http://127.0.0.1:{server.server_address[1]}/in"
    try:
        fleet.start_master(
            module_dirs=[str(folder / "own")],
            returner_config={
                "json_file": {"path": str(folder / "returns.jsonl")},
                "http": {"url": url, "token_file": str(folder / "token")},
                "mine": {"path": str(folder / "mine.txt")},
            },
            master_returners=["json_file"],
            event_return=["http"],
            event_return_whitelist=["app/*"],
        )
        fleet.join("web1", "db1")
        yield fleet
    finally:
        fleet.close()


def lines(fleet: Fleet, fun: str) -> list[dict[str, Any]]:
    path = fleet.folder / "returns.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [one for one in found if one["fun"] == fun]


def test_every_return_is_a_line_with_what_was_called_by_whom_and_what_came_of_it(fleet: Fleet) -> None:
    assert fleet.cli("*", "test.arg", "1", "two=2").code == 0
    wait_until(lambda: len(lines(fleet, "test.arg")) == 2, "both returns are in the file")
    one = next(line for line in lines(fleet, "test.arg") if line["id"] == "db1")
    assert one["fun_args"] == [1, {"__kwarg__": True, "two": 2}]
    assert one["return"]["args"] == [1]
    assert (one["success"], one["retcode"], one["tgt"]) == (True, 0, "*")
    assert (fleet.folder / "returns.jsonl").stat().st_mode & 0o777 == 0o600


def test_events_reach_a_server_that_was_away_and_only_those_that_are_wanted(fleet: Fleet, server: Server) -> None:
    server.statuses += [503, 429]
    assert fleet.cli("runner", "event.send", "other/x").code == 0
    assert fleet.cli("runner", "event.send", "app/x", "n=1").code == 0
    wait_until(lambda: server.took, "the server took the event")
    ((event,),) = [body["events"] for body in server.took]
    assert (event["tag"], event["data"]["n"], server.asked) == ("app/x", 1, 3)
    assert server.headers[0]["Authorization"] == "Bearer s3cret"


def test_what_a_server_refuses_for_good_is_dropped_and_told(fleet: Fleet, server: Server) -> None:
    server.statuses.append(400)
    assert fleet.cli("runner", "event.send", "app/never").code == 0
    said = fleet.cli("events", "salt/returner/http/dropped", "--since", "0", "--count", "1", "--out", "jsonl")
    assert json.loads(said.out)["data"] == {"count": 1, "reason": "127.0.0.1 answered 400 Bad Request"}


def test_a_job_names_a_returner_and_no_other_job_is_sent_there(fleet: Fleet) -> None:
    assert fleet.cli("web1", "test.echo", "no").code == 0
    assert fleet.cli("web1", "test.echo", "yes", "--return", "mine").code == 0
    path = fleet.folder / "mine.txt"
    wait_until(lambda: path.exists() and path.read_text(), "the returner was called")
    assert path.read_text() == "web1 test.echo yes\n"
    refused = fleet.cli("web1", "test.ping", "--return", "nobody")
    assert (refused.code, "no returner 'nobody'" in refused.err) == (2, True)


def test_a_returner_that_dies_holds_up_no_job_and_no_other_returner(fleet: Fleet) -> None:
    assert fleet.cli("web1", "test.version", "--return", "mine").code == 0
    wait_until(lambda: len(lines(fleet, "test.version")) == 1, "the other returner has the return")
    assert fleet.cli("*", "test.ping").code == 0


def test_what_came_back_while_no_returner_ran_is_handed_on_once_the_master_is_back(fleet: Fleet) -> None:
    master = fleet.daemons["master"]
    (pid,) = master.children("returner json")
    os.kill(pid, signal.SIGSTOP)
    assert fleet.cli("*", "test.fib", "5").code == 0
    assert lines(fleet, "test.fib") == []
    master.kill_whole()
    fleet.restart_master()
    wait_until(lambda: {one["id"] for one in lines(fleet, "test.fib")} == {"web1", "db1"}, "both are in the file")


def test_a_returner_that_there_is_not_ends_the_start_with_a_sentence(fleet: Fleet, tmp_path: Path) -> None:
    other = Fleet(tmp_path)
    try:
        with pytest.raises(AssertionError, match=r"names the returner 'mysql', which lacks mysql\.returner"):
            other.start_master(master_returners=["mysql"])
    finally:
        other.close()
