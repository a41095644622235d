"""Session manager, connections and jobs together: joins, jobs, revocation, silence, restarts as operators see them."""

from __future__ import annotations

import pytest

from saltlite.master.protocol.sessions import SILENCE_HEARTBEATS
from saltlite.minion.protocol.connection import BACKOFF_MAX_S, Phase
from saltlite.minion.protocol.resend import OFFER_AGAIN_S
from saltlite.model.job import TargetState
from saltlite.testing.link import Fate, Flight
from saltlite.wire.limits import CHUNK, HEARTBEAT_MIN_S, RETURN_MAX
from tests.support.keys import key_of
from tests.support.memory_fleet import Fleet

HOUR = 3600.0
NOTICED_S = SILENCE_HEARTBEATS * HEARTBEAT_MIN_S + BACKOFF_MAX_S + 10.0


class Network:
    """What becomes of frames: all delivered, until the test says otherwise."""

    def __init__(self) -> None:
        self.lost_to_server = False
        self.lost_to_client = False

    def __call__(self, flight: Flight) -> Fate:
        lost = self.lost_to_server if flight.to_server else self.lost_to_client
        return Fate.DROP if lost else Fate.DELIVER


def test_a_minion_with_a_token_joins_and_stays() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    fleet.run(HOUR)
    assert minion.phase() is Phase.READY
    assert fleet.master.came_and_went == [("web1", True)]
    assert fleet.master.manager.refused_frames == {}


def test_a_pending_minion_gets_its_job_in_the_moment_it_is_accepted() -> None:
    fleet = Fleet()
    minion = fleet.minion(token=b"")
    fleet.run(HOUR)
    assert minion.phase() is Phase.PENDING
    jid = fleet.master.publish(["web1"])
    fleet.settle()
    assert fleet.entered == {}
    fleet.master.change_key("web1", "accepted")
    fleet.settle()
    assert minion.phase() is Phase.READY
    assert fleet.entered == {(jid, "web1"): 1}


def test_a_minion_of_another_fleet_never_proves_itself_and_never_stops_trying() -> None:
    fleet = Fleet()
    minion = fleet.minion(fleet_key=b"o" * 25)
    fleet.run(HOUR)
    assert set(fleet.master.manager.refused_frames) == {"bad-mac"}
    assert minion.reasons.count("") > HOUR / BACKOFF_MAX_S
    assert fleet.master.keys == {}


def test_the_first_contact_of_a_minion_that_may_trust_pins_the_fleet() -> None:
    fleet = Fleet()
    minion = fleet.minion(fleet_key=None)
    fleet.settle()
    assert minion.phase() is Phase.READY


def test_a_job_runs_returns_and_leaves_nothing_behind() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    jid = fleet.master.publish(["web1"])
    fleet.settle()
    assert fleet.master.state(jid, "web1") is TargetState.RUNNING
    minion.finish(jid)
    fleet.settle()
    assert fleet.master.state(jid, "web1") is TargetState.RETURNED
    assert fleet.master.jobs[jid].returns == {"web1": minion.result}
    assert minion.spool.jids() == []
    assert fleet.entered == {(jid, "web1"): 1}


@pytest.mark.parametrize("size", [CHUNK + 1, 3 * CHUNK, RETURN_MAX // 4])
def test_a_large_return_arrives_whole(size: int) -> None:
    fleet = Fleet()
    minion = fleet.ready()
    minion.result = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    jid = fleet.master.publish(["web1"])
    fleet.settle()
    minion.finish(jid)
    fleet.run(5.0)
    if fleet.master.state(jid, "web1") is not TargetState.RETURNED:
        # The link was full in the middle of it: a new session starts it over.
        fleet.run(NOTICED_S)
    assert fleet.master.jobs[jid].returns == {"web1": minion.result}


def test_a_job_reaches_only_the_minions_that_it_is_for() -> None:
    fleet = Fleet()
    for name in ("web1", "web2", "db1"):
        fleet.ready(name)
    jid = fleet.master.publish(["web1", "web2"])
    fleet.run(60.0)
    assert fleet.entered == {(jid, "web1"): 1, (jid, "web2"): 1}


def test_a_revoked_minion_gets_nothing_more_and_does_not_come_back() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    jid = fleet.master.publish(["web1"])
    fleet.settle()
    fleet.master.change_key("web1", "revoked")
    minion.finish(jid)
    late = fleet.master.publish(["web1"])
    fleet.run(4 * HOUR)
    assert minion.phase() in (Phase.REFUSED, Phase.CONNECT)
    assert fleet.master.state(jid, "web1") is TargetState.REVOKED
    assert fleet.master.jobs[jid].returns == {}
    assert (late, "web1") not in fleet.entered
    assert fleet.master.present == set()


def test_a_job_under_way_while_its_minion_is_revoked_is_not_run_by_a_later_session() -> None:
    fleet = Fleet()
    fleet.ready()
    jid = fleet.master.publish(["web1"])
    fleet.master.change_key("web1", "deleted")
    fleet.run(HOUR)
    assert fleet.master.state(jid, "web1") is TargetState.REVOKED
    assert fleet.master.keys[key_of("web1")] == "accepted"  # by its token, as a new key would


def test_a_revocation_wins_over_a_verdict_that_was_read_before_it() -> None:
    fleet = Fleet()
    fleet.master.holds_decisions = True
    minion = fleet.minion()
    fleet.settle()
    (ask,) = fleet.master.undecided
    fleet.master.change_key("web1", "revoked")
    fleet.master.manager.decided(ask.session, "accepted", "web1")
    fleet.master.carry()
    fleet.master.holds_decisions = False
    fleet.run(HOUR)
    assert fleet.master.came_and_went == []
    assert minion.phase() is not Phase.READY


def test_an_acceptance_is_not_lost_to_a_verdict_that_was_read_before_it() -> None:
    fleet = Fleet()
    fleet.master.holds_decisions = True
    minion = fleet.minion(token=b"")
    fleet.settle()
    (ask,) = fleet.master.undecided
    fleet.master.change_key("web1", "accepted")
    fleet.master.manager.decided(ask.session, "pending", "web1")
    fleet.master.carry()
    fleet.master.holds_decisions = False
    fleet.run(10.0)
    assert minion.phase() is Phase.READY


def test_a_deleted_minion_comes_back_as_pending_within_seconds() -> None:
    fleet = Fleet()
    minion = fleet.minion(token=b"")
    fleet.settle()
    fleet.master.change_key("web1", "accepted")
    fleet.settle()
    fleet.master.change_key("web1", "deleted")
    fleet.run(5.0)
    assert minion.phase() is Phase.PENDING
    assert fleet.master.keys == {key_of("web1"): "pending"}


def test_a_copy_of_a_machine_that_runs_is_refused_however_often_it_comes_and_the_id_stays_up() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    copy = fleet.minion("web1")
    # As long as the first one may be silent: the fleet keeps the time of the second one only.
    fleet.run(SILENCE_HEARTBEATS * HEARTBEAT_MIN_S - 2.0)
    assert copy.phase() is Phase.REFUSED
    assert minion.phase() is Phase.READY
    assert fleet.master.present == {"web1"}
    assert fleet.master.came_and_went == [("web1", True)]


def test_silence_is_noticed_on_both_sides_and_healed() -> None:
    network = Network()
    fleet = Fleet(network)
    minion = fleet.ready()
    network.lost_to_client = network.lost_to_server = True
    fleet.run(SILENCE_HEARTBEATS * HEARTBEAT_MIN_S + 2.0)
    assert minion.phase() is not Phase.READY
    assert fleet.master.present == set()
    network.lost_to_client = network.lost_to_server = False
    fleet.run(BACKOFF_MAX_S + 15.0)
    assert minion.phase() is Phase.READY
    assert fleet.master.present == {"web1"}


@pytest.mark.parametrize("to_server", [True, False])
def test_a_network_that_works_one_way_only_is_noticed(to_server: bool) -> None:
    network = Network()
    fleet = Fleet(network)
    minion = fleet.ready()
    network.lost_to_server, network.lost_to_client = to_server, not to_server
    fleet.run(NOTICED_S)
    assert minion.phase() is not Phase.READY
    assert fleet.master.present == set()


def test_a_master_that_restarts_has_its_minions_back_and_no_job_runs_twice() -> None:
    fleet = Fleet()
    for name in ("web1", "web2", "web3"):
        fleet.ready(name)
    jid = fleet.master.publish(["web1", "web2", "web3"])
    fleet.settle()
    fleet.master.manager.leave(3000)
    fleet.master.carry()
    fleet.settle()
    fleet.master.stop()
    fleet.master.start()
    fleet.minions["web2"].finish(jid)
    fleet.run(75.0)
    assert fleet.master.present == {"web1", "web2", "web3"}
    assert fleet.master.state(jid, "web2") is TargetState.RETURNED
    assert set(fleet.entered.values()) == {1}


def test_a_job_that_was_published_while_its_minion_was_away_runs_when_it_comes() -> None:
    fleet = Fleet()
    fleet.master.keys[key_of("web1")] = "accepted"
    jid = fleet.master.publish(["web1"])
    fleet.run(30.0)
    fleet.ready()
    assert fleet.entered == {(jid, "web1"): 1}


def test_a_job_whose_time_was_over_when_its_minion_came_is_expired_by_the_minion_itself() -> None:
    fleet = Fleet()
    fleet.master.keys[key_of("web1")] = "accepted"
    jid = fleet.master.publish(["web1"], deliver_ms=10_000)
    fleet.run(30.0)
    fleet.ready()
    assert fleet.master.state(jid, "web1") is TargetState.EXPIRED
    assert fleet.entered == {}


def test_a_killed_job_returns_cancelled() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    jid = fleet.master.publish(["web1"], "test.sleep")
    fleet.settle()
    fleet.master.cancel(jid)
    fleet.run(5.0)
    assert fleet.master.state(jid, "web1") is TargetState.CANCELLED
    assert minion.spool.jids() == []


def test_a_job_that_runs_too_long_returns_timed_out() -> None:
    fleet = Fleet()
    fleet.ready()
    jid = fleet.master.publish(["web1"], run_ms=3_000)
    fleet.run(10.0)
    assert fleet.master.state(jid, "web1") is TargetState.TIMED_OUT


def test_a_minion_that_is_killed_adopts_its_job_and_hands_the_result_over() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    jid = fleet.master.publish(["web1"])
    fleet.settle()
    minion.kill()
    minion.boot()
    fleet.run(10.0)
    minion.finish(jid)
    fleet.settle()
    assert fleet.master.state(jid, "web1") is TargetState.RETURNED
    assert fleet.entered == {(jid, "web1"): 1}


def test_a_machine_that_loses_its_power_says_interrupted_and_does_not_run_the_job_again() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    jid = fleet.master.publish(["web1"])
    fleet.settle()
    minion.kill(power=True)
    minion.boot()
    fleet.run(10.0)
    assert fleet.master.state(jid, "web1") is TargetState.INTERRUPTED
    assert fleet.entered == {(jid, "web1"): 1}


def test_a_result_that_the_store_could_not_take_is_offered_again() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    jid = fleet.master.publish(["web1"])
    fleet.settle()
    fleet.master.store_fails = True
    minion.finish(jid)
    fleet.settle()
    assert minion.spool.jids() == [jid]
    fleet.master.store_fails = False
    fleet.run(OFFER_AGAIN_S + 1.0)
    assert fleet.master.state(jid, "web1") is TargetState.RETURNED
    assert minion.spool.jids() == []


def test_hundreds_of_jobs_go_through_the_window_in_order_and_each_runs_once() -> None:
    fleet = Fleet()
    minion = fleet.ready()
    minion.jobs.room(in_spool=True)
    jids = [fleet.master.publish(["web1"], deliver_ms=10**9) for _ in range(300)]
    for _ in range(1000):
        fleet.run(0.2)
        for jid in list(minion.processes):
            minion.finish(jid)
        if not fleet.master.unfinished():
            break
    assert {fleet.master.state(jid, "web1") for jid in jids} == {TargetState.RETURNED}
    assert fleet.entered == {(jid, "web1"): 1 for jid in jids}


def test_a_flood_of_handshakes_from_one_address_does_not_keep_a_minion_elsewhere_out() -> None:
    fleet = Fleet()
    for number in range(40):
        stranger = fleet.network.client(lambda: None, lambda _frame: None, lambda _why: None, ip="10.6.6.6")
        stranger.open("master:4515")
        fleet.settle()
        stranger.send(b"\x02\x01" + bytes([number]) * 48)
    fleet.settle()
    assert fleet.master.manager.refused_frames == {"bad-mac": 40}
    assert fleet.ready().phase() is Phase.READY


# -- one fault, at every place where it can happen


def story(fleet: Fleet) -> str:
    """A minion joins, runs a job with a large return, and everything settles; the jid."""
    minion = fleet.minion()
    minion.result = b"r" * (2 * CHUNK + 1)
    fleet.run(70.0)
    jid = fleet.master.publish(["web1"], deliver_ms=600_000)
    fleet.run(70.0)
    for process in list(minion.processes):
        minion.finish(process)
    fleet.run(20.0)
    for process in list(minion.processes):
        minion.finish(process)
    fleet.run(OFFER_AGAIN_S + NOTICED_S)
    return jid


def assert_settled(fleet: Fleet, jid: str) -> None:
    assert fleet.entered[jid, "web1"] == 1
    assert fleet.master.state(jid, "web1") in {TargetState.RETURNED, TargetState.INTERRUPTED}
    assert fleet.minions["web1"].phase() is Phase.READY
    assert fleet.minions["web1"].spool.jids() == []


DISK_OPERATIONS = 13
"""So many operations of the disk make one job, from RECEIVED to the result that was handed over."""


@pytest.mark.parametrize("operation", range(DISK_OPERATIONS))
def test_the_power_may_go_at_any_operation_of_the_disk(operation: int) -> None:
    fleet = Fleet()
    fleet.ready().cut_after = operation
    minion = fleet.minions["web1"]
    jid = fleet.master.publish(["web1"], deliver_ms=600_000)
    for _ in range(4):
        fleet.run(70.0)
        for process in list(minion.processes):
            minion.finish(process)
    fleet.run(OFFER_AGAIN_S + NOTICED_S)
    assert minion.cut_after is None, "the disk is used less than this test believes"
    assert_settled(fleet, jid)


class OneFault:
    """One frame, the n-th that flies, meets that fate."""

    def __init__(self, number: int, fate: Fate) -> None:
        self.left = number
        self.fate = fate

    def __call__(self, _flight: Flight) -> Fate:
        self.left -= 1
        return self.fate if self.left == -1 else Fate.DELIVER


@pytest.mark.parametrize("fate", [Fate.DROP, Fate.CUT, Fate.DUPLICATE, Fate.DELAY])
@pytest.mark.parametrize("number", range(24))
def test_any_frame_may_be_lost_doubled_late_or_the_last_of_its_connection(number: int, fate: Fate) -> None:
    fault = OneFault(number, fate)
    fleet = Fleet(fault)
    jid = story(fleet)
    assert fault.left < 0
    assert_settled(fleet, jid)
