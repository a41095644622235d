"""What the master is told of grains and resources, how the pillar comes, and what a session that ends costs."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest

from saltlite.master.handlers.documents import AT_ONCE, EVERY_S, Document, DocumentBuffer
from saltlite.minion.processes.ipc_messages import FORGED
from saltlite.minion.sync import AGAIN_S, HOLDS_S, DocumentCallbacks, DocumentSync
from saltlite.model.ids import MinionId
from saltlite.platform.daemon import ManualClock
from saltlite.wire.codec import decode_document, document_digest, encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message, Sender, check, response_message

GRAINS = {"id": "web1", "os": "Debian"}
REGISTRATION = encode_document({"resources": {"dummy": ["a"]}, "grains": {}, "stale": [], "functions": {}})


class Master:
    """A master that answers what a test lets it answer; the clock stands still."""

    def __init__(self) -> None:
        self.told: list[Message] = []
        self.asked: list[tuple[Message, Callable[[Message], None]]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.pillars: list[dict[str, Any]] = []
        self.registered: list[tuple[bool, Sequence[str]]] = []
        self.withheld = b""
        self.pillar: dict[str, Any] = {"role": "web"}
        self.held: dict[str, bytes] = {}
        self.made_with: list[str] | None = None
        self.looks_again = 0
        hooks = DocumentCallbacks(self.pillars.append, self._registered, self._look_again)
        self.minion = DocumentSync(self, self._ask, self._tell, hooks)

    def _registered(self, ok: bool, reasons: Sequence[str], withheld: bytes) -> None:
        self.registered.append((ok, reasons))
        self.withheld = withheld

    def _look_again(self) -> None:
        self.looks_again += 1

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.timers.append((seconds, callback))

    def pass_time(self, seconds: float) -> None:
        due = [callback for after, callback in self.timers if after <= seconds]
        self.timers = [timer for timer in self.timers if timer[0] > seconds]
        for callback in due:
            callback()

    def _ask(self, message: Message, answered: Callable[[Message], None]) -> None:
        check({**message, "n": 1}, Sender.MINION, accepted=True)
        self.asked.append((message, answered))

    def _tell(self, message: Message) -> None:
        self.told.append(check(dict(message), Sender.MINION, accepted=True))

    def kinds(self) -> list[str]:
        return [f"{message['t']} {message['kind']}" for message, _answered in self.asked]

    def say(self, state: str, **fields: Any) -> Message:
        """Answer the oldest question like this; the question."""
        message, answered = self.asked.pop(0)
        answered(response_message(1, state, **fields))
        return message

    def serve(self) -> list[str]:
        """Answer all questions as a master that is well; what was asked."""
        seen = []
        while self.asked:
            message = self.asked[0][0]
            seen.append(f"{message['t']} {message['kind']}")
            if message["t"] == "doc_put":
                self._take(message)
            else:
                self._give(message)
        return seen

    def _take(self, message: Message) -> None:
        kind = message["kind"]
        had = self.held.get(kind, b"") if message["offset"] else b""
        self.held[kind] = had + message["data"]
        whole = len(self.held[kind]) == message["size"]
        self.say("ok", size=len(self.held[kind]), sha256=message["sha256"] if whole else b"")

    def _give(self, message: Message) -> None:
        data = encode_document(self.pillar)
        piece = data[message["offset"] : message["offset"] + CHUNK]
        digest = document_digest(self.held["grains"]) if "grains" in self.held else ""
        names = self.made_with if self.made_with is not None else [digest]
        self.say("ok", size=len(data), sha256=hashlib.sha256(data).digest(), data=piece, names=names)


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def settled(master: Master) -> Master:
    """One whose minion is connected, has told its grains, and has its pillar."""
    master.minion.grains_are(GRAINS)
    master.minion.connected()
    master.serve()
    return master


def test_a_new_session_begins_with_the_digests_of_what_there_is(master: Master) -> None:
    master.minion.grains_are(GRAINS)
    master.minion.resources_are(REGISTRATION)
    master.minion.connected()
    digests = {"grains": document_digest(encode_document(GRAINS)), "resources": document_digest(REGISTRATION)}
    assert master.told == [{"t": "digest", **digests}]


def test_what_is_not_known_yet_at_the_session_is_told_when_it_is(master: Master) -> None:
    master.minion.connected()
    assert master.told == []
    master.minion.grains_are(GRAINS)
    assert [(message["grains"] != "", message["resources"]) for message in master.told] == [(True, "")]


def test_the_master_gets_what_it_asks_for_and_all_of_it(master: Master) -> None:
    big = {"id": "web1", "list": ["x" * 1000] * 200}
    master.made_with = []
    master.minion.grains_are(big)
    master.minion.connected()
    master.serve()
    master.minion.wanted("grains")
    assert len(master.serve()) > 3
    assert decode_document(master.held["grains"]) == big


def test_the_same_content_has_the_same_digest_in_whatever_order_it_was_found(settled: Master) -> None:
    settled.told.clear()
    settled.minion.grains_are(dict(reversed(GRAINS.items())))
    assert settled.told == []
    assert settled.asked == []


def test_what_changes_in_a_session_is_sent_without_being_asked_for(settled: Master) -> None:
    settled.minion.grains_are({**GRAINS, "os": "Fedora"})
    assert settled.serve() == ["doc_put grains"]
    assert decode_document(settled.held["grains"])["os"] == "Fedora"


def test_what_changes_while_it_is_sent_is_sent_as_it_is_at_last(settled: Master) -> None:
    settled.minion.grains_are({**GRAINS, "list": ["x" * 1000] * 200})
    settled._take(settled.asked[0][0])
    settled.minion.grains_are({**GRAINS, "os": "Fedora"})
    settled.serve()
    assert decode_document(settled.held["grains"]) == {**GRAINS, "os": "Fedora"}


def test_a_busy_master_is_asked_again_after_longer_and_longer_pauses(settled: Master) -> None:
    settled.minion.grains_are({**GRAINS, "os": "Fedora"})
    settled.say("busy")
    assert settled.asked == []
    settled.pass_time(AGAIN_S)
    settled.say("busy")
    settled.pass_time(AGAIN_S)
    assert settled.asked == []
    settled.pass_time(2 * AGAIN_S)
    assert settled.kinds() == ["doc_put grains"]


def test_a_session_that_ends_costs_nothing_but_time(settled: Master) -> None:
    settled.minion.grains_are({**GRAINS, "os": "Fedora"})
    done: list[str] = []
    settled.minion.settled("grains", lambda: done.append("grains"))
    lost = settled.asked.copy()
    settled.asked.clear()
    settled.minion.connected()
    lost[0][1](response_message(1, "refused"))
    assert done == []
    settled.serve()
    assert done == ["grains"]
    assert decode_document(settled.held["grains"])["os"] == "Fedora"


def test_the_master_is_told_again_from_time_to_time(settled: Master) -> None:
    settled.told.clear()
    settled.pass_time(HOLDS_S)
    settled.pass_time(HOLDS_S)
    assert [message["t"] for message in settled.told] == ["digest", "digest"]


def test_a_refused_registration_is_told_with_its_reasons_and_logged_once(
    settled: Master, caplog: pytest.LogCaptureFixture
) -> None:
    settled.minion.resources_are(REGISTRATION)
    for _ in range(2):
        settled.minion.wanted("resources")
        settled.say("refused", names=["dummy:a is somebody else's"])
    assert settled.registered == [(False, ["dummy:a is somebody else's"])] * 2
    assert caplog.text.count("refuses the resources of this minion: dummy:a is somebody else's") == 1


def test_a_registration_that_was_taken_with_exceptions_names_them(settled: Master) -> None:
    settled.minion.resources_are(REGISTRATION)
    settled.minion.wanted("resources")
    message = settled.asked[0][0]
    settled.say("ok", size=message["size"], sha256=message["sha256"], names=["dummy:b is not"])
    assert settled.registered == [(True, ["dummy:b is not"])]


def test_the_pillar_is_not_fetched_before_the_grains_are_known(master: Master) -> None:
    master.minion.connected()
    assert master.asked == []
    master.minion.grains_are(GRAINS)
    assert master.kinds() == ["doc_get pillar"]


def test_a_pillar_that_was_made_without_these_grains_is_fetched_again_when_the_master_has_them(master: Master) -> None:
    master.minion.grains_are(GRAINS)
    master.minion.connected()
    assert master.serve() == ["doc_get pillar", "doc_put grains", "doc_get pillar"]
    assert master.pillars == [{"role": "web"}]


def test_a_master_that_never_takes_the_grains_still_gives_a_pillar(master: Master) -> None:
    master.made_with = [""]
    master.minion.grains_are(GRAINS)
    master.minion.connected()
    master._give(master.asked[0][0])
    master.say("refused", names=["too large"])
    master.serve()
    assert master.pillars == [{"role": "web"}]


def test_a_large_pillar_comes_in_pieces(master: Master) -> None:
    master.pillar = {str(number): "x" * 1000 for number in range(200)}
    master.minion.grains_are(GRAINS)
    master.minion.connected()
    master.serve()
    assert master.pillars == [master.pillar]


def test_a_pillar_that_changes_while_it_is_fetched_is_fetched_from_its_beginning(settled: Master) -> None:
    settled.pillar = {str(number): "x" * 1000 for number in range(200)}
    settled.minion.refresh_pillar(lambda _why: None)
    settled._give(settled.asked[0][0])
    settled.say("absent")
    settled.pass_time(AGAIN_S)
    settled.serve()
    assert settled.pillars[-1] == settled.pillar


def test_pieces_that_do_not_fit_together_are_no_pillar(settled: Master) -> None:
    settled.minion.refresh_pillar(lambda _why: None)
    data = encode_document({"role": "db"})
    settled.say("ok", size=len(data), sha256=b"x" * 32, data=data)
    assert settled.pillars == [{"role": "web"}]
    settled.pass_time(AGAIN_S)
    settled.serve()
    assert len(settled.pillars) == 2


def test_a_pillar_that_nobody_signed_is_no_pillar_and_is_asked_for_again(settled: Master) -> None:
    settled.minion.refresh_pillar(lambda _why: None)
    settled.say(FORGED)
    assert (settled.pillars, settled.asked) == ([{"role": "web"}], [])
    settled.pass_time(AGAIN_S)
    assert settled.kinds() == ["doc_get pillar"]


def test_later_pieces_of_a_pillar_which_nobody_signs_change_nothing_of_what_the_first_said(settled: Master) -> None:
    whole = encode_document({str(number): "x" * 1000 for number in range(200)})
    sha256 = hashlib.sha256(whole).digest()
    settled.minion.refresh_pillar(lambda _why: None)
    settled.say("ok", size=len(whole), sha256=sha256, data=whole[:CHUNK])
    other = encode_document({"role": "evil"})
    settled.say("ok", size=len(other), sha256=hashlib.sha256(other).digest(), data=other, names=["other grains"])
    assert settled.pillars == [{"role": "web"}]
    assert settled.asked[0][0]["sha256"] == sha256


def test_a_refresh_that_comes_while_the_pillar_is_fetched_gets_a_newer_one(settled: Master) -> None:
    order: list[str] = []
    settled.minion.refresh_pillar(lambda _why: order.append(f"first {settled.pillars[-1]['role']}"))
    settled.minion.refresh_pillar(lambda _why: order.append(f"second {settled.pillars[-1]['role']}"))
    settled._give(settled.asked[0][0])
    settled.pillar = {"role": "db"}
    settled.serve()
    assert order == ["first web", "second db"]


def test_a_refresh_that_fails_says_why_at_once_and_the_pillar_is_fetched_later(settled: Master) -> None:
    told: list[str] = []
    settled.minion.refresh_pillar(told.append)
    settled.minion.refresh_pillar(told.append)
    settled.say("busy", names=["top.sls took more than 1 s of CPU"])
    assert told == ["top.sls took more than 1 s of CPU"] * 2
    settled.pillar = {"role": "db"}
    settled.pass_time(AGAIN_S)
    settled.serve()
    assert settled.pillars[-1] == {"role": "db"}
    assert len(told) == 2


def test_a_refresh_does_not_wait_for_the_retry_of_an_earlier_failure(settled: Master) -> None:
    told: list[str] = []
    settled.minion.refresh_pillar(told.append)
    settled.say("busy", names=["top.sls took more than 1 s of CPU"])
    settled.minion.refresh_pillar(told.append)
    assert settled.serve() == ["doc_get pillar"]
    assert told == ["top.sls took more than 1 s of CPU", ""]
    settled.pass_time(AGAIN_S)
    assert settled.asked == []


def test_a_registration_does_not_wait_for_the_retry_of_an_earlier_failure(
    settled: Master, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    settled.minion.resources_are(REGISTRATION)
    settled.minion.registered(lambda: done.append("first"))
    settled.say("busy", names=["the disk is full"])
    assert "does not take the resources of this minion so far: the disk is full" in caplog.text
    settled.minion.registered(lambda: done.append("second"))
    assert (settled.serve(), done) == (["doc_put resources"], ["first", "second"])
    settled.pass_time(AGAIN_S)
    assert settled.asked == []


def test_refreshes_one_after_the_other_never_wait_long_for_the_limit_of_the_master() -> None:
    """Each begins when the one before is done, as in a loop of saltutil.sync_resources. Time passes in timers only."""
    clock = ManualClock()
    documents = DocumentBuffer(clock)
    timers: list[tuple[float, int, Callable[[], None]]] = []
    order = count()

    def ask(message: Message, answered: Callable[[Message], None]) -> None:
        found = documents.put(MinionId("web1"), {**message, "n": 1})
        if isinstance(found, Document):
            found = response_message(1, "ok", size=message["size"], sha256=message["sha256"])
        answered(found)

    class Timers:
        def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
            heapq.heappush(timers, (clock.monotonic() + seconds, next(order), callback))

    minion = DocumentSync(Timers(), ask, lambda _message: None, DocumentCallbacks())
    minion.connected()
    took = []
    for number in range(2 * AT_ONCE):
        done: list[float] = []
        begun = clock.monotonic()
        minion.resources_are(encode_document({"resources": {"dummy": [str(number)]}}))
        minion.registered(lambda done=done: done.append(clock.monotonic()))  # type: ignore[misc]  # ends in this turn
        while not done:
            due, _number, callback = heapq.heappop(timers)
            clock.advance(max(0.0, due - clock.monotonic()))
            callback()
        took.append(done[0] - begun)
    assert max(took) <= AGAIN_S + EVERY_S


def test_a_refresh_without_a_session_is_done_in_the_next_one(master: Master) -> None:
    done: list[str] = []
    master.minion.grains_are(GRAINS)
    master.minion.refresh_pillar(lambda _why: done.append("pillar"))
    assert done == []
    master.minion.connected()
    master.serve()
    assert done == ["pillar"]


def test_somebody_who_wants_the_resources_registered_has_them_sent_also_when_the_master_has_them(
    settled: Master,
) -> None:
    done: list[str] = []
    settled.minion.registered(lambda: done.append("none to register"))
    assert done == ["none to register"]
    settled.minion.resources_are(REGISTRATION)
    assert settled.kinds() == []
    settled.minion.registered(lambda: done.append("sent"))
    assert (settled.serve(), done) == (["doc_put resources"], ["none to register", "sent"])
    settled.minion.registered(lambda: done.append("again"))
    assert (settled.serve(), done[-1]) == (["doc_put resources"], "again")


def test_who_wants_the_resources_registered_without_a_session_waits_for_the_next_one(master: Master) -> None:
    done: list[bool] = []
    master.minion.grains_are(GRAINS)
    master.minion.resources_are(REGISTRATION)
    master.minion.registered(lambda: done.append(True))
    assert done == []
    master.minion.connected()
    assert "doc_put resources" in master.serve()
    assert done == [True]


def test_a_master_that_wants_to_be_sure_has_the_minion_look_again(settled: Master) -> None:
    settled.minion.resources_are(REGISTRATION)
    for more in (False, True):
        settled.minion.wanted("resources")
        message = settled.asked[-1][0]
        settled.say("ok", size=len(REGISTRATION), sha256=message["sha256"], more=more)
    assert settled.looks_again == 1
