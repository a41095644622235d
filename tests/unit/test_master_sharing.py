"""A master that shares its store: leases, changes of keys by other masters, whose jobs it hands over, and which minions
it sends elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from saltlite.master.handlers.minions import notice_elsewhere
from saltlite.master.processes.contests import TEXT_MAX, Newcomer
from saltlite.master.processes.link import LinkProcess
from saltlite.master.processes.link_channel import (
    MEMBERSHIP,
    MWORKER,
    LinkAddress,
    LinkChannel,
    ask_stats,
    elsewhere,
    masters,
)
from saltlite.master.processes.master_rows import MasterRows, fleets_of
from saltlite.master.processes.membership import DirectorySigner, Membership
from saltlite.master.processes.mworker import MWorker
from saltlite.master.processes.other_masters import FENCE_S, OtherMasters, fence
from saltlite.master.protocol import sharing
from saltlite.master.protocol.effects import CloseConnection, MinionReport, Presence, Pull, Send
from saltlite.master.protocol.sharing import SUSPEND_S, Issuers
from saltlite.master.store.sharing import MasterRow, MasterState
from saltlite.model.events import MasterEvent, tag_master, tag_presence_change
from saltlite.model.ids import MinionId
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire import codec, directory, frames
from saltlite.wire.certificates import succeed
from saltlite.wire.directory import MasterEntry
from saltlite.wire.framing import unpack
from saltlite.wire.job_body import sign
from saltlite.wire.messages import RUN_MAX
from tests.support.keys import FLEET, FLEET_PRIVATE, JOB_PRIVATE, JOB_PUBLIC, NOW, certificate, ed25519_public, seed
from tests.support.master import MasterRig
from tests.support.memory_fleet import MESSAGES, Peer, SessionRig, delivery, of
from tests.support.store import key, row

LEASE_S = 4.0
REPORT = {"t": "job_state", **MESSAGES["job_state"]}
OTHER = seed("jobs of another master")


def leased() -> tuple[SessionRig, Peer]:
    """A manager with a lease, and a minion with a session."""
    rig = SessionRig(leased=True)
    renew(rig)
    peer = rig.join("web1")
    rig.manager.deliver("web1", [], rest="")
    rig.take()
    rig.done.clear()
    return rig, peer


def renew(rig: SessionRig) -> None:
    rig.manager.lease(rig.clock.boottime() + LEASE_S)


def test_without_a_lease_nothing_is_read_or_sent_and_with_the_next_one_all_of_it_in_order() -> None:
    rig, peer = leased()
    rig.wait(LEASE_S)
    peer.say(REPORT)
    peer.say({"t": "heartbeat", "running": [], "spool": 0})
    rig.manager.deliver("web1", [delivery(1, rig)])
    rig.manager.cancel([("web1", "20270101000000000000")])
    rig.wait(SUSPEND_S - 1.0)
    assert rig.take() == []
    assert rig.manager.figures()["lease"] is False, "the status says so"
    renew(rig)
    assert rig.manager.figures()["lease"] is True
    assert [message["t"] for message in peer.heard()] == ["job", "cancel"]
    rig.manager.tick()
    assert {"t": "heartbeat_ack"} in peer.heard()
    assert [report.message for report in of(MinionReport, rig.done)] == [REPORT]


def test_sessions_end_a_minute_after_their_lease() -> None:
    rig, peer = leased()
    rig.wait(LEASE_S + SUSPEND_S - 0.1)
    assert rig.take() == []
    rig.wait(0.1)
    effects = rig.take()
    assert [up.up for up in of(Presence, effects)] == [False]
    assert of(CloseConnection, effects) == [CloseConnection(peer.number, peer.address)]
    renew(rig)
    peer.say(REPORT)
    assert rig.take() == []


def test_a_master_that_was_fenced_ends_its_sessions_at_once() -> None:
    rig, _guest = leased()
    rig.manager.end_lease()
    assert [up.up for up in of(Presence, rig.take())] == [False]


def test_what_waits_for_a_session_that_ended_meanwhile_is_dropped() -> None:
    rig, peer = leased()
    rig.wait(LEASE_S)
    peer.say(REPORT)
    rig.manager.deliver("web1", [delivery(1, rig)])
    rig.manager.key_changed_elsewhere(peer.key, "revoked", "web1")
    renew(rig)
    assert peer.heard() == []
    assert of(MinionReport, rig.done) == []
    assert rig.refused() == {"no-session": 1}


def test_a_stranger_without_a_lease_has_to_come_again() -> None:
    rig = SessionRig(leased=True)
    peer = Peer(rig, "web1")
    assert peer.hello() == b""
    assert of(CloseConnection, rig.done) == [CloseConnection(peer.number, peer.address)]
    renew(rig)
    assert peer.hello() != b""


@pytest.mark.parametrize("limit", ["RETURN_MEMORY", "WAITING_OF_SESSION"])
def test_frames_that_wait_take_limited_memory(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, peer = leased()
    rig.wait(LEASE_S)
    frame = peer.seal(REPORT)
    monkeypatch.setattr(sharing, limit, len(frame) + sharing.FRAME_COST)
    peer.raw(frame)
    assert of(CloseConnection, rig.take()) == []
    peer.say(REPORT)
    assert of(CloseConnection, rig.take()) == [CloseConnection(peer.number, peer.address)]


def test_frames_of_strangers_take_none_of_the_memory_for_frames_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, peer = leased()
    stranger = Peer(rig, "stranger", address="10.6.6.6")
    rig.wait(LEASE_S)
    frame = peer.seal(REPORT)
    monkeypatch.setattr(sharing, "RETURN_MEMORY", len(frame) + sharing.FRAME_COST)
    for raw in (frame, b"\x02\x04" + b"x" * len(frame), b"\x02\x04"):
        stranger.raw(raw)
    peer.raw(frame)
    assert of(CloseConnection, rig.take()) == []
    renew(rig)
    assert [report.message for report in of(MinionReport, rig.take())] == [REPORT]


@pytest.mark.parametrize(
    ("state", "minion", "ends"),
    [
        ("accepted", "web1", False),
        ("accepted", "web2", True),
        ("pending", "web1", True),
        ("revoked", "web1", True),
        ("deleted", "web1", True),
    ],
)
def test_an_accepted_session_ends_when_its_key_was_changed_elsewhere(state: str, minion: str, ends: bool) -> None:
    rig, peer = leased()
    rig.manager.key_changed_elsewhere(peer.key, state, minion)
    assert bool(of(Presence, rig.take())) is ends


def test_a_pending_session_is_accepted_by_another_master_and_stays_while_it_waits() -> None:
    rig = SessionRig()
    peer = rig.join("web1", "pending")
    peer.heard()
    rig.manager.key_changed_elsewhere(peer.key, "pending", "web1")
    assert peer.heard() == []
    rig.manager.key_changed_elsewhere(peer.key, "accepted", "web1")
    assert peer.heard() == [{"t": "state", "state": "accepted"}]
    assert of(Pull, rig.done) == [Pull("web1", fresh=True)]


def test_an_acceptance_that_is_read_before_its_verdict_has_come_sends_no_minion_away() -> None:
    rig = SessionRig()
    peer = Peer(rig, "web1")
    peer.prove()
    rig.manager.key_changed_elsewhere(peer.key, "accepted", "web1")
    peer.decided("accepted")
    assert [message.get("state") for message in peer.heard()] == ["accepted"]
    other = Peer(rig, "web2")
    other.prove()
    rig.manager.key_changed_elsewhere(other.key, "accepted", "web3")
    assert [message.get("state") for message in other.heard()] == ["busy"]


def test_a_job_of_another_master_carries_its_certificate() -> None:
    rig = SessionRig()
    own = certificate(NOW)
    other = replace(own, job_public=ed25519_public(OTHER)).encode()
    issuers = Issuers(own.encode())
    mine, theirs, unsigned = (delivery(number, rig) for number in range(3))
    mine.signature, theirs.signature = sign(JOB_PRIVATE, mine.body), sign(OTHER, theirs.body)
    issuers.named([mine, theirs])
    assert (mine.certificate, theirs.certificate) == (b"", b""), "no other master is known"
    issuers.others_are([other])
    assert issuers.named([mine, theirs, unsigned]) == [mine, theirs], "minions would refuse what nobody known signed"
    assert (mine.certificate, theirs.certificate) == (b"", other)
    issuers.others_are([])
    theirs.certificate = b""
    assert issuers.named([mine, theirs]) == [mine]


# -- the directory of masters, drain, and minions that belong to another master

MASTERS = tuple(MasterEntry(name, f"{name}:4515", 100, True) for name in ("m1", "m2"))
"""This master is m1."""


def among(rig: SessionRig, *masters: MasterEntry) -> None:
    rig.manager.masters_are(*directory.signed(JOB_PRIVATE, masters))


def joined(rig: SessionRig, count: int, **said: Any) -> list[Peer]:
    peers = []
    for number in range(count):
        peer = Peer(rig, f"web{number}")
        peer.prove(**{"moves": True, **said})
        peer.decided("accepted")
        peers.append(peer)
    rig.take()
    return peers


def told(peers: Sequence[Peer], rig: SessionRig) -> list[tuple[str, Any]]:
    """What each of them heard since, without heartbeats."""
    sends = {peer.route: peer for peer in peers}
    found = []
    for send in (effect for effect in rig.take() if isinstance(effect, Send)):
        peer = sends[send.route]
        assert peer.session is not None
        found.append((peer.name, codec.decode(peer.session.open(send.frame))))
    return found


def passes(rig: SessionRig, peers: Sequence[Peer], seconds: int) -> list[tuple[str, Any]]:
    """What they hear in that time, in which they are well and the lease is renewed."""
    heard = []
    for _ in range(seconds):
        renew(rig)
        rig.wait(1.0)
        for peer in peers:
            peer.say({"t": "heartbeat", "running": [], "spool": 0})
        heard += [(name, message) for name, message in told(peers, rig) if message["t"] != "heartbeat_ack"]
    return heard


def test_minions_get_the_directory_when_they_come_and_when_it_changes() -> None:
    rig = SessionRig(leased=True)
    renew(rig)
    among(rig, *MASTERS)
    peers = joined(rig, 2)
    heard = passes(rig, peers, 3)
    assert [(name, message["t"]) for name, message in heard] == [("web0", "directory"), ("web1", "directory")]
    assert directory.read(heard[0][1]["content"], heard[0][1]["sig"], [JOB_PUBLIC]).masters == MASTERS
    among(rig, *MASTERS)
    assert passes(rig, peers, 2) == []
    among(rig, *MASTERS[:1])
    assert len(passes(rig, peers, 2)) == 2


def test_a_minion_of_the_version_before_hears_of_no_directory_and_is_told_to_reconnect_when_the_master_drains() -> None:
    rig = SessionRig(leased=True)
    renew(rig)
    among(rig, *MASTERS)
    peers = joined(rig, 2, moves=False)
    assert passes(rig, peers, 3) == []
    rig.manager.drain(wanted=True)
    assert [message["t"] for _name, message in told(peers, rig)] == ["reconnect"] * 2


def test_many_minions_get_the_directory_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "TOLD_AT_ONCE", 2)
    rig = SessionRig(leased=True)
    renew(rig)
    peers = joined(rig, 5)
    among(rig, *MASTERS)
    assert [len(passes(rig, peers, 1)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_master_that_drains_sends_its_minions_away_once_and_takes_no_more() -> None:
    rig = SessionRig(leased=True)
    renew(rig)
    among(rig, *MASTERS)
    peers = joined(rig, 3)
    passes(rig, peers, 2)
    late = Peer(rig, "late")
    late.prove(moves=True)
    rig.manager.drain(wanted=True)
    rig.manager.drain(wanted=True)
    assert [message for _name, message in told(peers, rig)] == [{"t": "move", "to": "", "spread_ms": 15}] * 3
    # The directory says now that this master takes no sessions, and comes without a second request to leave.
    among(rig, MASTERS[1], replace(MASTERS[0], is_up=False))
    assert {message["t"] for _name, message in passes(rig, peers, 2)} == {"directory"}
    # It had proved its key before.
    late.decided("accepted")
    assert [message["t"] for _name, message in passes(rig, [*peers, late], 2)] == ["welcome", "directory", "move"]
    assert isinstance(frames.parse(Peer(rig, "web9").hello()), frames.BusyFrame)
    rig.manager.drain(wanted=False)
    assert isinstance(frames.parse(Peer(rig, "web9").hello()), frames.ReplyFrame)


def foreign(peers: Sequence[Peer]) -> set[str]:
    known = directory.Directory(MASTERS)
    return {peer.name for peer in peers if known.home(MinionId(peer.name)) == "m2"}


def test_minions_of_another_master_are_sent_home_after_a_minute_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sharing, "MOVES_AT_ONCE", 2)
    rig = SessionRig(leased=True)
    renew(rig)
    peers = joined(rig, 30)
    among(rig, *MASTERS)
    early = passes(rig, peers, int(sharing.OVER_S))
    assert {message["t"] for _name, message in early} == {"directory"}
    first = passes(rig, peers, 1)
    assert [message for _name, message in first] == [{"t": "move", "to": "m2", "spread_ms": 1000}] * 2
    rest = passes(rig, peers, 20)
    assert {name for name, _message in first + rest} == foreign(peers)
    assert len(first + rest) == len(foreign(peers)) >= 4


@pytest.mark.parametrize("others", [(), (MasterEntry("m2", "m2:4515", 100, False),)])
def test_minions_stay_when_their_home_is_not_up_or_unknown(others: tuple[MasterEntry, ...]) -> None:
    rig = SessionRig(leased=True)
    renew(rig)
    peers = joined(rig, 30)
    among(rig, MASTERS[0], *others)
    assert {message["t"] for _name, message in passes(rig, peers, 2 * int(sharing.OVER_S))} == {"directory"}


def test_a_few_minions_that_belong_elsewhere_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "OVER", 100.0)
    rig = SessionRig(leased=True)
    renew(rig)
    peers = joined(rig, 30)
    among(rig, *MASTERS)
    assert {message["t"] for _name, message in passes(rig, peers, 2 * int(sharing.OVER_S))} == {"directory"}


# -- the process that renews the lease


class Turns:
    """A reactor whose calls the test makes."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []

    def add_reader(self, _fd: int, _call: Callable[[], None]) -> None:
        """Commits of others are not heard."""

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def call_later(self, _seconds: float, call: Callable[[], None]) -> None:
        self.later.append(call)

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()


class AnsweringLink:
    """A link process that answers at once, and notes what it was asked; each fetch takes a while."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked: list[dict[str, Any]] = []
        self.fetched: list[str] = []
        self.verdicts: list[tuple[str, str]] = []
        self.listed: list[MasterEntry] = []
        """The directory, as minions get it."""

    def ask(self, message: Callable[[int], dict[str, Any]], done: Callable[[Any], None]) -> None:
        self.asked.append(message(0))
        done({"state": "busy", "silent_s": {"web1": 1.0}})

    def fetch(self, minion: str, _what: str) -> None:
        self.clock.advance(0.6)
        self.fetched.append(minion)

    def placement(self, signed: tuple[bytes, bytes], *, draining: bool) -> None:
        self.listed = list(directory.read(*signed, [JOB_PUBLIC]).masters)

    def contest_over(self, newcomer: Newcomer, state: str) -> None:
        self.verdicts.append((newcomer.id, state))

    def wake_up(self, _jobs: Any) -> None:
        """No MWorker waits."""


class MembershipRig:
    """The membership of a master that is up, with its store."""

    def __init__(self) -> None:
        self.disk = MemoryStoreDisk(store_id="0" * 32)
        self.store = MemoryStore(self.disk)
        self.clock, self.turns = ManualClock(wall=NOW), Turns()
        self.link = AnsweringLink(self.clock)
        signer = DirectorySigner(JOB_PRIVATE, JOB_PUBLIC, MasterRows([FLEET]), lists_masters=True)
        self.membership = Membership(
            cast("Any", self.turns), self.store, self.clock, cast("Any", self.link), M1, signer
        )
        self.turns.run()
        self.renew()

    def renew(self) -> list[dict[str, Any]]:
        """A second later; what the link process was asked meanwhile."""
        before = len(self.link.asked)
        self.clock.advance(1.0)
        self.turns.later.pop(0)()
        self.turns.run()
        return self.link.asked[before:]

    def put(self, *minions: str) -> None:
        for minion in minions:
            with self.store.write() as tx:
                tx.put_event(
                    tag_master("m2", MasterEvent.FETCH), {"by": "m2", "minions": [minion], "what": "grains"}, NOW
                )


M1 = MasterRow(
    name="m1", start=1, certificate=b"", address="m1:4515", version="1.0", state=MasterState.JOINING, applied=0
)


def test_the_directory_has_the_time_of_the_database_and_is_signed_again_after_a_day() -> None:
    signer = DirectorySigner(JOB_PRIVATE, JOB_PUBLIC, MasterRows([FLEET]), lists_masters=True)

    def number(read_at: float) -> int:
        return directory.read(*signer.directory([M1], read_at), [JOB_PUBLIC]).number

    assert [number(NOW), number(NOW + 86_399.0)] == [int(NOW * 1000)] * 2
    assert number(NOW + 86_400.0) == int((NOW + 86_400.0) * 1000)
    # A server was promoted whose clock is behind, and a master has gone.
    signer.directory([], NOW)
    assert number(NOW + 1.0) == int((NOW + 86_400.0) * 1000) + 2


def test_a_promoted_server_that_has_all_that_was_read_costs_no_session() -> None:
    rig = MembershipRig()
    rig.put("web1")
    rig.renew()
    rig.disk.inventory.place = "promoted"
    rig.put("web2")
    asked = rig.renew()
    assert [one["begins"] for one in asked] == [False] * len(asked)
    assert asked[-1]["lease"] is not None
    assert rig.link.fetched == ["web1", "web2"]
    # Once, for readers whose cursors are on the former time line.
    assert [event.tag for event in rig.store.events() if "promoted" in event.tag] == ["salt/master/m1/promoted"]


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_promoted_server_that_lacks_what_was_read_ends_the_sessions_before_there_is_a_lease(more: int) -> None:
    rig = MembershipRig()
    kept = rig.disk.tables.copy()
    rig.put("web1", "web2")
    rig.renew()
    rig.disk.tables = kept
    rig.disk.inventory.place = "promoted"
    rig.put(*["web3"] * more)
    assert [(one["begins"], one["lease"]) for one in rig.renew()][:1] == [(True, None)]
    assert rig.renew()[-1]["lease"] is not None
    assert rig.store.masters()[0].start != M1.start


def test_handing_over_stops_when_the_lease_has_to_be_renewed_and_goes_on_after_that() -> None:
    rig = MembershipRig()
    rig.put("web1", "web2", "web3", "web4", "web5")
    before = rig.store.masters()[0].renewals
    rig.renew()
    assert rig.link.fetched == ["web1", "web2", "web3", "web4", "web5"]
    assert rig.store.masters()[0].renewals >= before + 3


@pytest.mark.parametrize(
    "written",
    [
        {"certificate": b"no certificate"},
        {"certificate": certificate(NOW).encode()},  # of m1
        {"certificate": certificate(NOW, name="m3", fleet=seed("a thief")).encode()},
        {"certificate": certificate(NOW, name="m3").encode()[:-1] + b"?"},
        {"weight": 0},
        {"address": "no address"},
    ],
)
def test_a_row_that_no_master_wrote_reaches_neither_the_link_process_nor_minions(written: dict[str, Any]) -> None:
    rig = MembershipRig()
    m2 = replace(
        M1, name="m2", address="m2:4515", state=MasterState.UP, certificate=certificate(NOW, name="m2").encode()
    )
    m3 = replace(m2, name="m3", certificate=certificate(NOW, name="m3").encode())
    with rig.store.write() as tx:
        tx.renew(m2)
        tx.renew(replace(m3, **written))
    asked = rig.renew()[-1]
    assert (asked["certs"], asked["lease"] is not None) == ([m2.certificate], True)
    assert [one.name for one in rig.link.listed] == ["m1", "m2"]


def test_a_master_whose_fleet_key_was_changed_is_known_by_its_keys_and_by_a_former_fleet_key() -> None:
    m2 = replace(M1, name="m2", certificate=certificate(NOW, name="m2").encode())
    renewed = replace(m2, certificate=certificate(NOW, name="m2", fleet=seed("second")).encode())
    rows = MasterRows([FLEET])
    assert rows.used([renewed], M1) == []
    assert rows.used([m2], M1) == [m2]
    assert rows.used([renewed], M1) == [renewed]
    damaged = replace(m2, certificate=m2.certificate[:-1] + b"?")
    assert rows.used([damaged], M1) == [], "it is by the fleet key, so it has to be right"
    stranger = certificate(NOW, name="m2", fleet=seed("second"), static=seed("a thief")).encode()
    assert rows.used([replace(m2, certificate=stranger)], M1) == []
    # The holder of the new fleet key, which begins.
    way = succeed(FLEET_PRIVATE, seed("second"), serial=1, time=0).encode()
    assert MasterRows(fleets_of(certificate(NOW, fleet=seed("second")), way)).used([m2, renewed], M1) == [m2, renewed]


def test_a_master_signs_its_own_address_as_it_knows_it() -> None:
    rig = MembershipRig()
    rig.renew()
    (mine,) = rig.store.masters()
    with rig.store.write() as tx:
        tx.renew(replace(mine, address="no address", weight=0))
        tx.put_event(tag_presence_change(), {"new": ["web1"], "lost": []}, NOW)
    rig.membership._turn()  # not the one that renews, which would mend the row
    assert [one["elsewhere"] for one in rig.link.asked[-1:]] == [[("web1", False)]]
    assert [(one.address, one.weight, one.is_up) for one in rig.link.listed] == [(M1.address, M1.weight, True)]


def newcomer(**about: Any) -> list[Any]:
    """The row of a newcomer that waits at m2 for the verdict of m1."""
    known = {
        "id": "web1",
        "fingerprint": "key",
        "boot": "b",
        "run": 1,
        "handshake": 2,
        "address": "10.0.0.7",
        "owner": "m1",
        "older_boot": "a",
        "older_run": 1,
        "older_handshake": 1,
    }
    return list({**known, **about}.values())


BAD_NEWCOMERS = [
    3,
    [],
    [*newcomer(), "more"],
    newcomer(fingerprint=[]),
    newcomer(owner=[]),
    newcomer(id={}),
    newcomer(id="web\0"),
    newcomer(run="x"),
    newcomer(handshake=True),
    newcomer(older_run=RUN_MAX + 1),
    newcomer(older_handshake=-1),
    newcomer(address="1" * (TEXT_MAX + 1)),
]


def test_a_newcomer_at_another_master_is_probed_here_and_verdicts_of_other_masters_are_read() -> None:
    rig = MembershipRig()
    rows = [newcomer(address="1" * TEXT_MAX, older_run=RUN_MAX), newcomer(owner="m3")]
    with rig.store.write() as tx:
        tx.put_event(tag_master("m2", MasterEvent.CONTESTED), {"by": "m2", "newcomers": rows}, NOW)
    assert [one["key"] for one in rig.renew() if one["t"] == "contest"] == ["key"]
    rig.turns.later.pop(0)()
    assert rig.store.events(rig.store.last_seq() - 1)[0].data["states"] == [["web1", "busy"]]
    with rig.store.write() as tx:
        asked = tx.put_event(tag_master("m1", MasterEvent.CONTESTED), {"by": "m1", "newcomers": rows[1:]}, NOW)
        states = [["web1", "duplicate_key"]]
        tx.put_event(tag_master("m3", MasterEvent.CONTEST_OVER), {"by": "m3", "asked": asked, "states": states}, NOW)
    rig.renew()
    assert rig.link.verdicts == [("web1", "duplicate_key")]


@pytest.mark.parametrize("by", ["m1", "m2"])
@pytest.mark.parametrize("row", BAD_NEWCOMERS)
def test_a_newcomer_that_no_master_wrote_reaches_neither_the_link_process_nor_a_timer(by: str, row: object) -> None:
    """In the name of this master, the timer would ask about its owner."""
    rig = MembershipRig()
    with rig.store.write() as tx:
        tx.put_event(tag_master(by, MasterEvent.CONTESTED), {"by": by, "newcomers": [row]}, NOW)
    rig.put("web1")
    timers = len(rig.turns.later)
    assert {one["t"] for one in rig.renew()} == {"masters"}
    assert rig.link.fetched == ["web1"]
    assert len(rig.turns.later) == timers


def test_a_defect_in_what_is_done_about_an_event_is_logged_as_one_and_the_next_event_is_handed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = MembershipRig()
    with rig.store.write() as tx:
        tx.put_event(tag_master("m2", MasterEvent.ASKED), {"by": "m2", "ids": ["web1"]}, NOW)
    monkeypatch.delattr(Membership, "_tell_last_seen")
    rig.put("web1")
    rig.renew()
    assert rig.link.fetched == ["web1"]
    (said,) = [record for record in caplog.records if "passed over" in record.getMessage()]
    assert "met a defect of saltlite" in said.getMessage()
    assert said.exc_info is not None


def test_the_time_which_the_database_may_have_to_tell_is_not_asked_for_in_a_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = MembershipRig()
    wall, writes = rig.clock.wall, []

    def asked_for() -> float:
        writes.append(rig.store._writing)
        return wall()

    monkeypatch.setattr(rig.clock, "wall", asked_for)
    with rig.store.write() as tx:
        tx.put_key(key(MinionId("web1")))
        tx.claim([row(MinionId("web1"), up=True, master="m3", boot_id="a", run=1, handshake=1)])
        tx.put_event(tag_master("m2", MasterEvent.ASKED), {"by": "m2", "ids": ["web1"]}, NOW)
        rows = [newcomer(owner="m3")]
        asked = tx.put_event(tag_master("m1", MasterEvent.CONTESTED), {"by": "m1", "newcomers": rows}, NOW)
        data = {"by": "m3", "asked": asked, "states": [["web1", "accepted"]]}
        tx.put_event(tag_master("m3", MasterEvent.CONTEST_OVER), data, NOW)
        tx.put_event(tag_master("m2", MasterEvent.CONTESTED), {"by": "m2", "newcomers": [newcomer()]}, NOW)
    before = rig.store.last_seq()
    rig.renew()
    for late in rig.turns.later[:-1]:
        late()
    assert rig.link.verdicts == [("web1", "accepted")]
    assert not rig.store.minions([MinionId("web1")])[0].up
    told = {event.tag for event in rig.store.events(before)}
    assert told >= {tag_master("m1", what) for what in (MasterEvent.SEEN, MasterEvent.CONTEST_OVER)}
    assert len(writes) >= 4
    assert not any(writes)


@pytest.mark.parametrize(
    ("tag", "data"),
    [
        (tag_master("m2", MasterEvent.CONTESTED), {"by": "m2"}),
        (tag_master("m2", MasterEvent.CONTESTED), {"by": "m2", "newcomers": {}}),
        (tag_master("m2", MasterEvent.CONTEST_OVER), {"by": "m2", "asked": []}),
        (tag_master("m2", MasterEvent.CONTEST_OVER), {"by": "m2", "asked": 1, "states": {}}),
        (tag_master("m2", MasterEvent.CONTEST_OVER), {"by": "m2", "asked": 1, "states": [["web1", "fine"]]}),
        (tag_master("m2", MasterEvent.CONTEST_OVER), {"by": "m2", "asked": 1, "states": [["web1", []]]}),
        (tag_master("m2", MasterEvent.CONTEST_OVER), {"by": "m2", "asked": 1, "states": [[[], "busy"]]}),
        (tag_presence_change(), {"new": 3, "lost": [None, {}]}),
    ],
)
def test_an_event_that_no_master_wrote_is_passed_over(
    tag: str, data: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    rig = MembershipRig()
    with rig.store.write() as tx:
        tx.put_event(tag, data, NOW)
    rig.put("web1")
    rig.renew()
    assert rig.link.fetched == ["web1"]
    assert rig.renew()[-1]["lease"] is not None
    assert "defect" not in caplog.text
    assert ("this master cannot read it" in caplog.text) == (tag != tag_presence_change())


def test_an_id_that_the_database_refuses_in_a_query_does_not_keep_a_master_from_its_lease() -> None:
    rig = MembershipRig()
    with rig.store.write() as tx:
        tx.put_event(tag_presence_change(), {"new": ["web\0", "web1"], "lost": ["\0"]}, NOW)
    asked = rig.renew()[-1]
    assert (asked["elsewhere"], asked["lease"] is not None) == ([("web1", False)], True)


def test_a_master_that_renewed_since_it_was_judged_is_not_fenced() -> None:
    rig = MembershipRig()
    (row,) = rig.store.masters()
    fence(rig.store, "m1", NOW, lambda now: now.renewals != row.renewals)
    assert rig.store.masters() == [row]
    fence(rig.store, "m1", NOW, lambda now: now.renewals == row.renewals)
    assert [one.state for one in rig.store.masters()] == [MasterState.FENCED]


def test_a_master_that_applies_a_change_while_it_is_judged_is_not_fenced() -> None:
    rig = MembershipRig()
    (row,) = rig.store.masters()
    other = OtherMasters(cast("Any", rig.turns), rig.store, rig.clock, "m2")
    known: list[bool] = []
    other.wait(row.applied + 1, known.append)
    assert known == []
    rig.clock.advance(FENCE_S)
    answers = [[row], [replace(row, applied=row.applied + 1)], [replace(row, applied=row.applied + 1)]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.store, "masters", lambda: answers.pop(0))
        rig.turns.later.pop()()
    assert known == [True]
    assert rig.store.masters() == [row]


@pytest.mark.parametrize(("role", "answers"), [(MEMBERSHIP, [None]), (MWORKER, [])])
def test_what_membership_asked_is_answered_when_the_link_process_ends(role: str, answers: list[None]) -> None:
    channel = LinkChannel(cast("Any", Turns()), LinkAddress("/nowhere/link", 0), role, lambda _batch: None)
    heard: list[Any] = []
    channel.ask(ask_stats, heard.append)
    channel._closed("it has ended")
    assert heard == answers


def test_a_master_that_begins_anew_reads_again_which_minions_the_others_have() -> None:
    rig = SessionRig(leased=True)
    link = LinkProcess(cast("Any", Turns()), rig.manager, lambda _owner: cast("Any", None))
    heard: list[Any] = []
    channel = SimpleNamespace(channel=SimpleNamespace(send=lambda data: heard.append(unpack(data))))
    link._mworkers.append(cast("Any", channel))
    for begins in (False, True):
        link._of_masters(cast("Any", channel), masters(1, begins=begins))
    assert [(one["t"], one.get("anew")) for one in heard] == [
        ("masters_done", None),
        ("elsewhere", True),
        ("masters_done", None),
    ]


def test_an_mworker_reads_again_which_minions_the_others_have() -> None:
    rig = MasterRig("web1", "web2")
    notice_elsewhere(rig.master, [(MinionId("web1"), True)])
    with rig.store.write() as tx:
        tx.claim([row(MinionId("web2"), master="m2", run=1)])
    serving = MWorker.__new__(MWorker)
    serving._master = rig.master
    serving._carry_out(elsewhere([], anew=False))
    assert rig.master.elsewhere == {"web1"}
    serving._carry_out(elsewhere([], anew=True))
    assert rig.master.elsewhere == set(rig.master.present) == {"web2"}
