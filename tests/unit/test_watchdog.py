"""The board of turns and the watchdog that reads it, on a clock of the test's own."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import SaltliteError
from saltlite.master.handlers.results import Reported
from saltlite.master.processes import supervisor
from saltlite.master.processes.supervisor import (
    LOOK_COUNTS_S,
    OWN_TURN_TIMES,
    TURN_BLOCKED_S,
    TURN_CPU_S,
    TURN_MAX_S,
    Watchdog,
    board_of,
    without_board,
)
from saltlite.master.processes.turns import (
    refuse_ended,
    turn_of_link,
    turn_of_question,
    turn_of_report,
    turn_of_request,
)
from saltlite.model.ids import MinionId
from saltlite.model.keys import Fingerprint
from saltlite.platform import shared_memory as turnboard
from saltlite.platform.shared_memory import CAREFUL_S, ENDED_MAX, NAMELESS, REFUSED_S, TEXT_BYTES, TurnBoard, TurnLabel
from saltlite.platform.supervision import Spec

ROOT = Principal("root", 0)
REQUEST = {"v": 1, "verb": "publish", "request_id": "r1", "token": b"one"}


@dataclass
class Machine:
    """Processes and a clock that the test moves."""

    at: float = 1000.0
    cpu: dict[int, float] = field(default_factory=dict)
    state: str = "R"
    killed: list[str] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=lambda: {"MWorker-0": 10, "MWorker-1": 11, "maintenance": 12})

    def __post_init__(self) -> None:
        self.board = TurnBoard(["MWorker-0", "MWorker-1"], ["maintenance"], self.now)
        self.watchdog = Watchdog(
            self.board, self, self.now, cpu_s=lambda pid: self.cpu.get(pid, 0.0), state=lambda _pid: self.state
        )

    def now(self) -> float:
        return self.at

    def pids(self) -> dict[str, int]:
        return self.running

    def signal(self, name: str, signum: int) -> None:
        assert signum == signal.SIGKILL
        self.killed.append(name)

    def pass_s(self, seconds: float, *, cpu: float = 0.0) -> None:
        for _ in range(round(seconds)):
            self.at += 1.0
            for pid in self.running.values():
                self.cpu[pid] = self.cpu.get(pid, 0.0) + cpu
            self.watchdog.look()


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_turn_that_computes_for_too_long_is_ended_named_and_refused(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    turn = turn_of_request(machine.board, ROOT, REQUEST)
    with machine.board.marks("MWorker-0").named(turn):
        machine.pass_s(TURN_MAX_S, cpu=1.0)
        assert machine.killed == [], "the first look only sees that it has begun"
        machine.pass_s(1, cpu=1.0)
        assert machine.killed == ["MWorker-0"]
        machine.pass_s(100, cpu=1.0)
    assert machine.killed == ["MWorker-0"], "it is ended once"
    assert "MWorker-0 (pid 10) was 30 s in one turn" in caplog.text
    assert "the request publish of root (uid 0)" in caplog.text
    with pytest.raises(SaltliteError, match="held an MWorker for 30 s and was ended"):
        refuse_ended(machine.board, turn)


def test_an_honest_turn_on_a_busy_machine_is_not_ended(machine: Machine) -> None:
    with machine.board.marks("MWorker-0").named(TurnLabel("an index")):
        machine.pass_s(2 * TURN_BLOCKED_S, cpu=(TURN_CPU_S - 1) / (2 * TURN_BLOCKED_S))
    assert machine.killed == []


def test_a_turn_that_waits_is_ended_later(machine: Machine) -> None:
    machine.state = "D"
    with machine.board.marks("MWorker-1").named(TurnLabel("a disk")):
        machine.pass_s(TURN_BLOCKED_S)
        assert machine.killed == []
        machine.pass_s(1)
    assert machine.killed == ["MWorker-1"]


def test_time_in_which_somebody_has_stopped_it_does_not_count(machine: Machine) -> None:
    machine.state = "T"
    with machine.board.marks("MWorker-1").named(TurnLabel("a debugger")):
        machine.pass_s(1000, cpu=1.0)
    assert machine.killed == []


def test_a_supervisor_that_stood_still_counts_one_look(machine: Machine) -> None:
    machine.state = "S"
    with machine.board.marks("MWorker-0").named(TurnLabel("a write")):
        machine.pass_s(1)
        machine.at += 3600.0
        machine.watchdog.look()
        assert machine.killed == []
        machine.pass_s(TURN_BLOCKED_S - LOOK_COUNTS_S - 1)
        assert machine.killed == []


def test_each_turn_has_a_deadline_of_its_own(machine: Machine) -> None:
    marks = machine.board.marks("MWorker-0")
    for _ in range(5):
        with marks.named(TurnLabel("the same thing again")):
            machine.pass_s(TURN_MAX_S - 5, cpu=1.0)
    marks.idle()
    machine.pass_s(1000, cpu=1.0)
    assert machine.killed == []


def test_the_masters_own_work_may_take_longer(machine: Machine) -> None:
    machine.board.marks("maintenance").begin()
    machine.pass_s(TURN_MAX_S * OWN_TURN_TIMES, cpu=1.0)
    assert machine.killed == []
    machine.pass_s(1, cpu=1.0)
    assert machine.killed == ["maintenance"]
    assert machine.board.untold("MWorker-1") == []
    (ended,) = machine.board.untold("MWorker-0")
    assert (ended.process, ended.text) == ("maintenance", NAMELESS.text)
    machine.board.mark_reported(ended)
    assert machine.board.untold("MWorker-0") == []


def test_a_process_that_took_the_place_of_an_ended_one_has_its_own_time(machine: Machine) -> None:
    marks = machine.board.marks("MWorker-0")
    marks.begin()
    machine.pass_s(TURN_MAX_S, cpu=1.0)
    machine.running["MWorker-0"] = 20
    machine.pass_s(TURN_MAX_S, cpu=1.0)
    assert machine.killed == []


def test_what_stands_on_the_board_is_what_is_done_now() -> None:
    board = TurnBoard(["MWorker-0"])
    marks = board.marks("MWorker-0")
    assert board.seen("MWorker-0") is None
    marks.begin()
    first = board.seen("MWorker-0")
    assert first is not None
    assert first.turn == NAMELESS
    with marks.named(TurnLabel("outer", b"o" * 32)), marks.named(TurnLabel("é\n" * TEXT_BYTES)):
        inner = board.seen("MWorker-0")
        assert inner is not None
        assert inner.turn.text.startswith("é?é?")
        assert len(inner.turn.text.encode()) <= TEXT_BYTES
    with marks.named(TurnLabel("outer", b"o" * 32)):
        with marks.named(TurnLabel("inner")):
            pass
        again = board.seen("MWorker-0")
        assert again is not None
        assert again.turn == TurnLabel("outer", b"o" * 32)
    last = board.seen("MWorker-0")
    assert last is not None
    assert last.turn == NAMELESS, "what follows is not taken for the work that had a name"
    assert len({first.number, inner.number, again.number, last.number}) == 4
    marks.idle()
    assert board.seen("MWorker-0") is None


def test_what_was_ended_is_refused_for_a_while_and_only_so_much_is_remembered(machine: Machine) -> None:
    board = machine.board
    every = [TurnLabel(f"work {n}", board.digest(b"%d" % n)) for n in range(ENDED_MAX + 1)]
    for turn in every:
        board.end("MWorker-0", turn, 31.0)
    assert board.ended(every[0].digest) is None, "it made room"
    found = board.ended(every[1].digest)
    assert found is not None
    assert (found.text, found.process, found.held_s) == ("work 1", "MWorker-0", 31.0)
    assert board.ended(b"") is None
    assert board.ended(board.digest(b"else")) is None
    machine.at += REFUSED_S - 1
    board.renew(found)
    machine.at += 2
    assert board.ended(every[1].digest) is not None, "it was asked for again"
    assert board.ended(every[2].digest) is None
    machine.at += REFUSED_S
    assert board.ended(every[1].digest) is None
    assert not board.is_refusing()


def test_reports_are_judged_one_by_one_after_a_turn_with_reports_was_ended(machine: Machine) -> None:
    machine.board.end("MWorker-0", TurnLabel("a request"), 30.0)
    assert not machine.board.is_careful()
    machine.board.end("MWorker-0", TurnLabel("5 reports", is_reports=True), 30.0)
    assert machine.board.is_careful()
    assert CAREFUL_S > TURN_BLOCKED_S + 10, "the next MWorker has to find out which"
    machine.at += CAREFUL_S
    assert not machine.board.is_careful()


def test_what_is_the_same_work() -> None:
    board = TurnBoard(["MWorker-0"])

    def request(**changed: object) -> bytes:
        return turn_of_request(board, ROOT, REQUEST | changed).digest

    assert request() == request(token=b"two"), "a login is no part of it"
    assert request() != request(request_id="r2")
    assert request() != turn_of_request(board, Principal("u", 1000), REQUEST).digest
    assert request() != turn_of_request(TurnBoard(["MWorker-0"]), ROOT, REQUEST).digest, "the key is this master's"
    assert (
        turn_of_request(board, ROOT, {"verb": "x\ny" * 1000}).text == "the request of an unknown verb of root (uid 0)"
    )
    web1, web2 = MinionId("web1"), MinionId("web2")
    ask = {"t": "file_request", "n": 1, "operation": "read", "env": "base", "path": "a", "offset": 0, "nonce": b"1"}
    again = ask | {"n": 2, "nonce": b"2"}
    assert turn_of_question(board, web1, ask).digest == turn_of_question(board, web2, again).digest, "one file"
    pillar = {"t": "doc_get", "n": 1, "kind": "pillar", "sha256": b"", "offset": 0, "nonce": b"1"}
    assert turn_of_question(board, web1, pillar).digest != turn_of_question(board, web2, pillar).digest
    assert turn_of_question(board, web1, pillar).text == "doc_get of web1: pillar"
    assert turn_of_link(board, {"t": "wake_up"}).digest == b""
    assert (
        turn_of_link(board, {"t": "pull", "id": "web1"}).digest != turn_of_link(board, {"t": "pull", "id": "w"}).digest
    )
    ret = Reported(web1, Fingerprint("f"), {"t": "return", "jid": "2026"}, b"body")
    same = Reported(web1, Fingerprint("f"), {"t": "return", "jid": "2026", "dur_ms": 1}, b"body")
    assert turn_of_report(board, ret).digest == turn_of_report(board, same).digest
    assert turn_of_report(board, ret).text == "the report return of web1 for job 2026"
    holds = [Reported(web1, Fingerprint("f"), {"t": "digest", "grains": value}, None) for value in (b"1", b"2")]
    assert turn_of_report(board, holds[0]).digest != turn_of_report(board, holds[1]).digest


def test_processes_that_are_not_watched_let_go_of_the_board() -> None:
    board = board_of(1)
    ran: list[str] = []
    specs = [
        Spec(name, lambda _ready: ran.append("x"), tuple) for name in ("MWorker-0", "maintenance", "hooks", "link")
    ]
    *watched, link = without_board(specs, board)
    for spec in watched:
        spec.run(lambda: None)
    assert board.seen("MWorker-0") is None
    link.run(lambda: None)
    assert len(ran) == 4
    with pytest.raises(ValueError, match="closed"):
        board.seen("MWorker-0")


def test_the_limits_leave_room_for_the_longest_honest_turns() -> None:
    assert (turnboard.ENDED_MAX, supervisor.TURN_MAX_S, supervisor.TURN_CPU_S) == (64, 30.0, 20.0)
