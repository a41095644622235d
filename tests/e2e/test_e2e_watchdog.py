"""Work that never ends costs one MWorker one deadline: it is ended, named, and not handed to the next."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from saltlite.client.connection import ConnectionLostError
from saltlite.errors import SaltliteError
from tests.support.fleet import Daemon, Fleet, wait_until

WRAPPER = Path(__file__).parent / "hanging.py"


@pytest.fixture
def master(fleet: Fleet) -> Daemon:
    fleet.through = [sys.executable, WRAPPER]
    return fleet.start_master()


def ended(master: Daemon) -> list[str]:
    """The turns that were ended, by name."""
    return re.findall(r"of a processor: (.*); it is ended", master.log())


def test_a_request_that_hangs_is_ended_once_and_refused_when_it_comes_again(fleet: Fleet, master: Daemon) -> None:
    fleet.join("a")
    with fleet.client() as client:
        with pytest.raises(ConnectionLostError):
            client.call("hang", request_id="r1")
        client.close()
        with pytest.raises(SaltliteError, match=r"held an MWorker for \d+ s and was ended") as refused:
            client.call("hang", request_id="r1")
        assert refused.value.exit_code == 1
    (name,) = ended(master)  # it was not run again
    assert name.startswith("the request hang of ")
    assert fleet.cli("a", "test.ping").code == 0
    wait_until(lambda: len(master.children("MWorker-")) == 2, "the MWorker is there again")

    def told() -> list[dict[str, object]]:
        with fleet.store() as store:
            return [dict(event.data) for event in store.events() if event.tag.endswith("/turn_ended")]

    (event,) = wait_until(told, "operators are told")
    assert event["turn"] == name
    assert event["process"] in ("MWorker-0", "MWorker-1")
    assert float(str(event["held_s"])) >= 2.0


def test_a_report_that_hangs_is_left_out_and_the_others_of_its_batch_are_stored(fleet: Fleet, master: Daemon) -> None:
    fleet.join("poison", "b")
    jid = fleet.publish("*", "grains.get", "id")
    fleet.wait_state(jid, "b", "returned")
    wait_until(lambda: "is skipped, because it held" in master.log(), "it is left out")
    names = ended(master)
    assert re.fullmatch(r"\d reports, the first of (poison|b)", names[0])
    assert re.fullmatch(r"the report return of poison for job \d+", names[1])
    assert len(names) == 2
    assert fleet.cli("*", "test.ping").code == 0
    assert len(ended(master)) == 2


def test_a_question_for_a_file_that_hangs_is_refused_when_it_is_asked_again(fleet: Fleet, master: Daemon) -> None:
    fleet.join("a")
    said = fleet.cli("a", "cp.cache_file", "salt://poison.txt")
    names = ended(master)
    assert names
    assert all(name.startswith("file_request of a: poison") for name in names)
    assert "file_request of a: poison.txt is refused, for it held MWorker-" in master.log()
    assert "False" in said.out
    assert fleet.cli("a", "test.ping").code == 0
