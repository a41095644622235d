"""What the master says of functions that minions lack, and what it notes of runners."""

from __future__ import annotations

from typing import Any, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.functions import NAMES_MAX
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.store.ports import FunctionSet, MinionRow
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyRecord, KeyState, fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import had_sessions

ROOT = Principal("root", 0)
JID = "20260131235959123456"
PKG = {"pkg.install": "pkg.install(name:str)", "test.ping": "test.ping()"}


class MasterRig:
    """A master over a store of its own."""

    def __init__(self) -> None:
        identity = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        config = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({0}))
        self.store = MemoryStore()
        # No link: a question that reached for it would fail the test.
        self.master = Master(self.store, ManualClock(wall=NOW), identity, config, cast("Any", None), *inventory())

    def add(self, name: str, functions: dict[str, str] | None, *, whole: bool = True) -> None:
        minion, public = MinionId(name), name.encode().ljust(32, b".")
        key, digest = fingerprint(public), f"{functions} {whole}"
        with self.store.write() as store:
            store.put_key(KeyRecord(minion, key, public, KeyState.ACCEPTED, "1.2.3.4", NOW, NOW, 1))
            if functions is not None:
                store.put_functions(FunctionSet(digest, functions, whole=whole))
                had_sessions(store, [MinionRow(minion, key, "", "1", "b", "i", digest, up=True, last_seen=NOW)])

    def ask(self, verb: str, principal: Principal = ROOT, **fields: Any) -> dict[str, Any]:
        return handle_request(self.master, principal, {"v": 1, "verb": verb, **fields}).fields

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [(event.tag, dict(event.data)) for event in self.store.events() if event.tag.startswith("salt/run")]


def test_minions_are_told_apart_by_what_they_said_of_their_functions() -> None:
    rig = MasterRig()
    rig.add("has", PKG)
    rig.add("lacks", {"test.ping": "test.ping()"})
    rig.add("knows", {"pkg.install": "pkg.install?"}, whole=False)
    rig.add("silent", None)
    rig.add("unsure", {"test.ping": "test.ping()"}, whole=False)
    assert rig.ask("missing_functions", fun="pkg.install") == {
        "count": 5,
        "missing": 2,
        "names": ["knows", "lacks"],
        "unknown": 2,
        "unknown_names": ["silent", "unsure"],
    }


def test_an_answer_names_a_limited_number_of_minions_and_counts_all() -> None:
    rig = MasterRig()
    for number in range(NAMES_MAX + 5):
        rig.add(f"m{number:05}", {"test.ping": "test.ping()"})
    told = rig.ask("missing_functions", fun="pkg.install")
    assert (told["missing"], len(told["names"])) == (NAMES_MAX + 5, NAMES_MAX)


def test_a_name_that_is_no_function_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a function"):
        MasterRig().ask("missing_functions", fun="../etc")


def test_a_runner_that_begins_and_ends_makes_two_events() -> None:
    rig = MasterRig()
    rig.ask("runner_event", jid=JID, funs=["manage.up", "jobs.active"])
    rig.ask("runner_event", jid=JID, funs=["manage.up", "jobs.active"], retcode=3, duration_ms=12)
    begun = {"fun": "manage.up,jobs.active", "user": "root"}
    assert rig.events() == [
        (f"salt/run/{JID}/new", begun),
        (f"salt/run/{JID}/ret", {**begun, "retcode": 3, "duration_ms": 12, "success": False}),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"jid": "../../key", "funs": ["manage.up"]},
        {"jid": JID, "funs": []},
        {"jid": JID, "funs": ["a.b"] * 17},
        {"jid": JID, "funs": ["manage"]},
        {"jid": JID, "funs": [7]},
    ],
)
def test_no_other_event_can_be_made_by_it(fields: dict[str, Any]) -> None:
    rig = MasterRig()
    with pytest.raises(UsageError):
        rig.ask("runner_event", **fields)
    assert rig.events() == []


def test_only_operators_may() -> None:
    nobody = Principal("nobody", 65534)
    with pytest.raises(RefusedError):
        MasterRig().ask("missing_functions", nobody, fun="pkg.install")
    with pytest.raises(RefusedError):
        MasterRig().ask("runner_event", nobody, jid=JID, funs=["manage.up"])
