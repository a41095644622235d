"""The link process and its MWorkers: what is handed over at once, and what waits while the store fails, is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.link import DECIDE_S, REPORT_BYTES, STORE_RETRY_S, LinkProcess
from saltlite.master.protocol.effects import Decide, Effect, MinionReport
from saltlite.master.protocol.session_manager import TICK_S
from saltlite.master.protocol.sessions import Sessions
from saltlite.model.keys import Fingerprint
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import HEARTBEATS_PER_S, RETURN_MEMORY
from saltlite.wire.messages import FUNCTIONS_BYTES_MAX

KEY = Fingerprint("k")


class Reactor:
    """Runs what is due soon when it is told to, and what is due later when its seconds are named."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def call_soon(self, work: Callable[[], None]) -> None:
        self.soon.append(work)

    def call_later(self, seconds: float, work: Callable[[], None]) -> None:
        self.later.append((seconds, work))

    def ring(self, seconds: float) -> None:
        due = [work for wait, work in self.later if wait == seconds]
        self.later = [(wait, work) for wait, work in self.later if wait != seconds]
        for work in due:
            work()


class FakeSessionManager:
    """Wants what a test puts into `wants`."""

    def __init__(self) -> None:
        self.wants: list[Effect] = []
        self.arriving: list[Effect] = []
        """What the next frame makes it want."""
        self.sessions = Sessions()

    @property
    def has_work(self) -> bool:
        return bool(self.wants)

    def frame(self, *_frame: object) -> None:
        self.wants, self.arriving = self.arriving, []

    def take(self) -> list[Effect]:
        wants, self.wants = self.wants, []
        return wants

    def tick(self) -> None: ...

    def figures(self) -> dict[str, Any]:
        return {}

    def present(self) -> list[Any]:
        return []

    def __getattr__(self, name: str) -> Any:
        return cast("Any", Nothing())


class Nothing:
    """Takes any call, is empty."""

    has_responses = False

    def __call__(self, *_given: Any, **_more: Any) -> list[Any]:
        return []

    def __getattr__(self, name: str) -> Any:
        return Nothing()


class Link:
    """A link process with one MWorker, which keeps what it was sent."""

    def __init__(self) -> None:
        self.reactor, self.manager = Reactor(), FakeSessionManager()
        self.rests = 0
        network = Nothing()
        vars(network)["rest"] = self._rest
        self.process = LinkProcess(
            cast("Any", self.reactor), cast("Any", self.manager), lambda _owner: cast("Any", network)
        )
        self.sent: list[bytes] = []
        self.process.add_mworker(self._channel, lambda: None)
        self.says({"t": "hello", "role": ipc.MWORKER, "watch": True})

    def _channel(self, on_batch: Callable[[list[bytes]], None], on_close: Callable[[str], None]) -> Any:
        self.on_batch, self.close = on_batch, on_close
        channel = Nothing()
        vars(channel)["send"] = self.sent.append
        return channel

    def _rest(self) -> None:
        self.rests += 1

    def frame(self, *wants: Effect) -> bool:
        """A frame arrives that makes the manager want that; whether the next ones may wait for each other."""
        before, self.manager.arriving = self.rests, list(wants)
        self.process.on_frame(b"route", -1, "", b"frame")
        self.carry_out()
        return self.rests > before

    def says(self, message: IpcMessage) -> None:
        """The MWorker says that."""
        self.on_batch([pack(message)])
        self.carry_out()

    def carry_out(self) -> None:
        while self.reactor.soon:
            self.reactor.soon.pop(0)()

    def report(self, *reports: MinionReport) -> None:
        self.manager.wants += reports
        self.process.on_hangup(0)
        self.carry_out()

    def batches(self) -> list[IpcMessage]:
        """The batches of reports that were sent since the last call."""
        found = [message for message in map(unpack, self.sent) if message["t"] == "reports"]
        self.sent.clear()
        return found


def functions(number: int) -> MinionReport:
    texts = [f"mod{number}.fun({'x' * 900})"] * (FUNCTIONS_BYTES_MAX // 1024)
    return MinionReport("web1", KEY, {"t": "functions", "digest": str(number), "functions": texts, "whole": True})


def test_a_whole_fleet_that_reports_its_functions_at_once_fits_into_the_messages_to_an_mworker() -> None:
    link = Link()
    count = ipc.MESSAGE_MAX // FUNCTIONS_BYTES_MAX + 10
    link.report(*map(functions, range(count)))
    assert max(map(len, link.sent)) < ipc.MESSAGE_MAX
    assert sum(len(batch["items"]) for batch in link.batches()) == count


def test_results_that_were_left_out_are_counted() -> None:
    link = Link()
    for skipped in (2, 3):
        link.says({"t": "committed", "n": 0, "items": [], "skipped": skipped})
    link.says({"t": "stats", "n": 1})
    assert unpack(link.sent[-1])["figures"]["skipped"] == 5


def test_what_waits_while_the_store_fails_is_bounded_in_bytes_and_in_number() -> None:
    link = Link()
    state = MinionReport("web1", KEY, {"t": "job_state", "jid": "2" * 20, "state": "refused", "reason": ""})
    most = RETURN_MEMORY // REPORT_BYTES
    link.report(*[state] * (most + 1000))
    for batch in link.batches():
        link.says({"t": "uncommitted", "n": batch["n"]})
    link.reactor.ring(STORE_RETRY_S)
    assert sum(len(batch["items"]) for batch in link.batches()) == most


class TwoMWorkers:
    """A link process with two MWorkers; the first one watches all commits."""

    def __init__(self, *, second_watches: bool) -> None:
        self.link = Link()
        self.others: list[bytes] = []
        self._says: list[Callable[[list[bytes]], None]] = []
        self.link.process.add_mworker(self._channel, lambda: None)
        self.second_says({"t": "hello", "role": ipc.MWORKER, "watch": second_watches})

    def _channel(self, on_batch: Callable[[list[bytes]], None], _on_close: Callable[[str], None]) -> Any:
        self._says.append(on_batch)
        channel = Nothing()
        vars(channel)["send"] = self.others.append
        return channel

    def second_says(self, message: IpcMessage) -> None:
        self._says[0]([pack(message)])

    def publish(self, jid: str) -> IpcMessage:
        return {"t": "publish", "job": [jid, b"", b"", 0], "items": []}

    def woken(
        self, *own: list[str] | None, theirs: list[list[str] | None]
    ) -> tuple[list[IpcMessage], list[IpcMessage]]:
        """What both were told when each had committed something in these jobs."""
        self.link.sent.clear()
        self.others.clear()
        for jobs in own:
            self.link.says({"t": "wake_up", "jobs": jobs})
        for jobs in theirs:
            self.second_says({"t": "wake_up", "jobs": jobs})
        self.link.reactor.ring(ipc.WAKE_UP_S)
        return [unpack(data) for data in self.link.sent], [unpack(data) for data in self.others]


def test_an_mworker_learns_of_which_jobs_the_others_have_committed_something() -> None:
    woken = TwoMWorkers(second_watches=True).woken
    assert woken(["1"], ["1", "2"], theirs=[]) == ([], [{"t": "wake_up", "jobs": ["1", "2"]}])
    assert woken([], theirs=[["3"]]) == ([{"t": "wake_up", "jobs": ["3"]}], [{"t": "wake_up", "jobs": []}])
    assert woken(["1"], None, ["2"], theirs=[]) == ([], [{"t": "wake_up", "jobs": None}])


def test_an_mworker_that_watches_nothing_is_woken_only_for_its_own_jobs_and_those_without_a_publisher() -> None:
    two = TwoMWorkers(second_watches=False)
    two.link.says(two.publish("1"))
    two.second_says(two.publish("2"))
    assert two.woken(["1"], [], theirs=[]) == ([], [])
    assert two.woken(["1", "2"], theirs=[]) == ([], [{"t": "wake_up", "jobs": ["2"]}])
    # Of an earlier link process, or of maintenance: any MWorker may have a follower of it.
    assert two.woken(["3"], theirs=[]) == ([], [{"t": "wake_up", "jobs": ["3"]}])
    assert two.woken(None, theirs=[]) == ([], [{"t": "wake_up", "jobs": None}])


def test_an_mworker_that_begins_to_watch_is_woken_for_all_until_it_ends() -> None:
    two = TwoMWorkers(second_watches=False)
    two.link.says(two.publish("1"))
    two.second_says({"t": "watch", "wanted": True})
    assert two.woken(["1"], theirs=[]) == ([], [{"t": "wake_up", "jobs": ["1"]}])
    assert two.woken([], theirs=[]) == ([], [{"t": "wake_up", "jobs": []}])
    two.second_says({"t": "watch", "wanted": False})
    assert two.woken(["1"], [], theirs=[]) == ([], [])


def test_an_mworker_tells_for_how_many_minions_the_pace_of_heartbeats_is() -> None:
    link = Link()
    link.says({"t": "fleet", "accepted_keys": 40 * HEARTBEATS_PER_S})
    assert link.manager.sessions.heartbeat_s == 40.0


def test_keys_are_decided_about_in_turn_by_those_that_are_least_busy_but_not_by_the_first_mworker() -> None:
    link = Link()
    sent: list[list[bytes]] = [link.sent]
    for _ in range(2):
        link.sent = []
        sent.append(link.sent)
        link.process.add_mworker(link._channel, lambda: None)
        link.says({"t": "hello", "role": ipc.MWORKER, "watch": False})

    def decided_by() -> list[int]:
        for of_one in sent:
            of_one.clear()
        for _ in range(4):
            link.manager.wants.append(Decide(1, b"p", "10.0.0.1", {}))
            link.process.on_hangup(0)
            link.carry_out()
        return [[unpack(raw)["t"] for raw in of_one].count("decide") for of_one in sent]

    assert decided_by() == [0, 2, 2]
    # Nobody commits what the first and the second have got.
    link.report(functions(1))
    link.report(functions(2))
    assert decided_by() == [0, 0, 4]


def _with_two_deciders() -> tuple[Link, list[list[bytes]]]:
    """A link process with three MWorkers, of which the last two decide about keys, and what these were sent."""
    link = Link()
    sent: list[list[bytes]] = []
    for _ in range(2):
        link.sent = []
        sent.append(link.sent)
        link.process.add_mworker(link._channel, lambda: None)
        link.says({"t": "hello", "role": ipc.MWORKER, "watch": False})
    return link, sent


def _decides(link: Link, sent: list[list[bytes]], sessions: range) -> list[list[int]]:
    """The sessions that each of them has to decide about."""
    for of_one in sent:
        of_one.clear()
    for session in sessions:
        link.manager.wants.append(Decide(session, b"p", "10.0.0.1", {}))
        link.process.on_hangup(0)
        link.carry_out()
    asked = [[unpack(raw) for raw in of_one] for of_one in sent]
    return [[message["session"] for message in of_one if message["t"] == "decide"] for of_one in asked]


def test_an_mworker_that_owes_a_verdict_decides_about_no_more_keys() -> None:
    link, sent = _with_two_deciders()
    first, last = _decides(link, sent, range(1, 3))
    assert len(first) == len(last) == 1
    # The last one, whose messages these are, has answered; the other one stands still.
    link.says({"t": "decided", "session": last[0], "state": "accepted", "id": "web1", "gone": []})
    link.reactor.time += DECIDE_S
    first, last = _decides(link, sent, range(3, 7))
    assert (first, last) == ([], [3, 4, 5, 6])


def test_keys_that_an_mworker_has_not_decided_about_go_to_another_when_it_is_gone() -> None:
    link, sent = _with_two_deciders()
    _first, last = _decides(link, sent, range(1, 3))
    for of_one in sent:
        of_one.clear()
    link.close("it has ended")
    link.carry_out()
    again = [unpack(raw) for raw in sent[0]]
    assert [message["session"] for message in again if message["t"] == "decide"] == last


def test_heartbeats_wait_for_each_other_only_after_a_second_without_anything_else() -> None:
    link = Link()
    link.reactor.ring(TICK_S)
    assert not link.frame(), "an MWorker has just connected"
    link.reactor.ring(TICK_S)
    assert link.frame()
    assert link.frame()
    assert not link.frame(functions(1))
    assert not link.frame(), "there was a report"
    link.reactor.ring(TICK_S)
    assert not link.frame(), "there was a report in the second before"
    link.reactor.ring(TICK_S)
    assert link.frame()
    link.says({"t": "stats", "n": 1})
    assert not link.frame(), "an MWorker has said something, perhaps a job"
