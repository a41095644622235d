"""What an MWorker does about things that another one, or a link process, could not bring to an end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.handlers.minions import record
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Follow, HandlerConfig, Master, MasterIdentity
from saltlite.master.store.ports import MinionRow
from saltlite.model.events import tag_key, tag_presence_change
from saltlite.model.keys import KeyState, fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from tests.support.inventory import inventory
from tests.support.keys import certificate
from tests.support.store import NOW, WEB1, commit, had_sessions, job, key, publish, ret

ROOT = Principal("alice", 0)


@pytest.fixture
def master() -> Master:
    """A master with nothing but a store, an hour after the samples were made."""
    signed = certificate(NOW)
    who = MasterIdentity(fingerprint(signed.fleet_public), signed, bytes(32))
    link = cast("Any", None)
    return Master(
        MemoryStore(), ManualClock(wall=NOW + 3600), who, HandlerConfig(5.0, 60.0, frozenset({0})), link, *inventory()
    )


def row(*, up: bool, last_seen: float) -> MinionRow:
    return MinionRow(WEB1, key(WEB1).fingerprint, "10.0.0.1", "1", "boot", "disk", "", up, last_seen)


def test_a_minion_that_was_up_when_the_link_process_died_counts_as_seen_until_now(master: Master) -> None:
    with master.store.write() as store:
        store.put_key(key(WEB1))
        had_sessions(store, [row(up=True, last_seen=NOW - 10)])
    record(master, [], whole=True)
    found = master.store.minion(WEB1)
    assert found is not None
    assert (found.up, found.last_seen) == (False, NOW + 3600)


def test_a_key_that_is_revoked_again_is_told_to_the_link_again(master: Master) -> None:
    revoked = key(WEB1, state=KeyState.REVOKED)
    with master.store.write() as store:
        store.put_key(revoked)
    request = {"v": 1, "verb": "key_change", "action": "revoke", "fingerprints": [revoked.fingerprint]}
    answer = handle_request(master, ROOT, request)
    assert answer.question is not None
    assert answer.question.message(1)["changes"] == [(revoked.fingerprint, "revoked", WEB1)]


def test_a_change_of_a_key_waits_elsewhere_for_itself_and_not_for_what_follows_it(master: Master) -> None:
    with master.store.write() as store:
        store.put_key(key(WEB1))
    request = {"v": 1, "verb": "key_change", "action": "revoke", "fingerprints": [key(WEB1).fingerprint]}
    answer = handle_request(master, ROOT, request)
    with master.store.write() as store:
        store.put_event(tag_presence_change(), {"new": [], "lost": [WEB1]}, NOW)
    assert answer.question is not None
    (changed,) = (event for event in master.store.events() if event.tag == tag_key())
    assert answer.question.everywhere == changed.seq < master.store.last_seq()


def test_a_last_look_tells_what_is_stored_and_that_this_is_all_for_now(master: Master) -> None:
    publish(master.store, one := job(1))
    with master.store.write() as store:
        store.put_key(key(WEB1))
    commit(master.store, ret(one, WEB1))
    follower = JobFollower(master, Follow(one.jid, 0, once=True))
    news = follower.news()
    assert news is not None
    assert [returned["id"] for returned in news["returns"]] == [WEB1]
    assert news["so_far"] is True


def test_a_last_look_that_finds_nothing_says_so(master: Master) -> None:
    publish(master.store, one := job(1))
    assert JobFollower(master, Follow(one.jid, 0)).news() is None
    news = JobFollower(master, Follow(one.jid, 0, once=True)).news()
    assert news is not None
    assert (news["returns"], news["so_far"]) == ([], True)
