"""The words that the master gives for completion: from its store, bounded, and to operators only."""

from __future__ import annotations

from typing import Any, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError, UsageError
from saltlite.master.handlers.functions import FUNCTION_SETS_MAX, JIDS_MAX, WORDS_MAX
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
PKG = {
    "pkg.install": "pkg.install(name:str=None,/,*names:str,refresh:bool=False,**kwargs)",
    "pkg.info": "pkg.info",
    "test.ping": "test.ping()",
}


class MasterRig:
    """A master over a store of its own."""

    def __init__(self) -> None:
        identity = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        config = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({0}))
        self.store = MemoryStore()
        # No link: a question that reached for it would fail the test.
        self.master = Master(self.store, ManualClock(wall=NOW), identity, config, cast("Any", None), *inventory())

    def add(self, name: str, functions: dict[str, str] | None = None, state: KeyState = KeyState.ACCEPTED) -> None:
        minion, public = MinionId(name), name.encode().ljust(32, b".")
        key = fingerprint(public)
        digest = "" if functions is None else f"{sorted(functions)}"
        with self.store.write() as store:
            store.put_key(KeyRecord(minion, key, public, state, "1.2.3.4", NOW, NOW, 1))
            if functions is not None:
                store.put_functions(FunctionSet(digest, functions, whole=True))
                had_sessions(store, [MinionRow(minion, key, "", "1", "b", "i", digest, up=True, last_seen=NOW)])

    def words(self, kind: str, prefix: str = "", *, principal: Principal = ROOT, **fields: Any) -> list[str]:
        request = {"v": 1, "verb": "complete", "kind": kind, "prefix": prefix, **fields}
        found: list[str] = handle_request(self.master, principal, request).fields["words"]
        return found


@pytest.fixture
def rig() -> MasterRig:
    rig = MasterRig()
    rig.add("web2", PKG)
    rig.add("web1", {"test.ping": "test.ping(delay:int=0)", "disk.usage": "disk.usage()"})
    rig.add("new", state=KeyState.PENDING)
    rig.add("gone", state=KeyState.REVOKED)
    return rig


def test_minions_are_those_with_an_accepted_key(rig: MasterRig) -> None:
    assert rig.words("minion") == ["web1", "web2"]
    assert rig.words("minion", "web2") == ["web2"]


def test_targets_are_minions_and_what_they_manage(rig: MasterRig) -> None:
    rig.master.registry.register("web1", {"ssh": ["web3", "db1"], "dummy": ["web3", "a:b"]})
    assert rig.words("target") == ["web1", "web2"]
    assert rig.words("target", "we") == ["web1", "web2", "web3"]
    assert rig.words("target", "ssh:") == ["ssh:db1", "ssh:web3"]
    assert rig.words("target", "dummy:a") == ["dummy:a:b"]
    assert rig.words("target", "nothing:") == []


def test_keys_are_those_in_the_states_that_are_asked_for(rig: MasterRig) -> None:
    assert rig.words("key") == ["gone", "new", "web1", "web2"]
    assert rig.words("key", states=["pending", "nonsense"]) == ["new"]
    assert rig.words("key", states=[]) == []


def test_functions_are_completed_up_to_the_module_first(rig: MasterRig) -> None:
    assert rig.words("function") == ["disk.", "pkg.", "test."]
    assert rig.words("function", "pk") == ["pkg.info", "pkg.install"]
    assert rig.words("function", "pkg.ins") == ["pkg.install"]
    assert rig.words("function", "nothing") == []


def test_a_function_that_a_minion_knows_and_does_not_have_is_no_word(rig: MasterRig) -> None:
    rig.add("web3", {"pkg.lock": "pkg.lock?", "pkg.info": "pkg.info?"})
    assert rig.words("function", "pkg.") == ["pkg.info", "pkg.install"]


def test_functions_of_keys_that_were_revoked_are_left_out(rig: MasterRig) -> None:
    rig.add("evil", {"evil.f": "evil.f()"}, KeyState.REVOKED)
    assert rig.words("function", "evil") == []


def test_arguments_are_those_that_have_a_name_in_any_signature(rig: MasterRig) -> None:
    assert rig.words("argument", function="pkg.install") == ["refresh="]
    assert rig.words("argument", function="test.ping") == ["delay="]
    assert rig.words("argument", "x", function="test.ping") == []
    assert rig.words("argument", function="pkg.info") == []
    assert rig.words("argument", function="no.such") == []
    assert rig.words("argument") == []


def test_an_answer_has_a_limit(rig: MasterRig) -> None:
    for number in range(WORDS_MAX + 10):
        rig.add(f"m{number:04d}")
    assert len(rig.words("minion")) == WORDS_MAX


def test_so_many_function_sets_are_looked_at_and_no_more(rig: MasterRig) -> None:
    for number in range(FUNCTION_SETS_MAX + 10):
        rig.add(f"odd{number:03d}", {f"odd{number:03d}.f": f"odd{number:03d}.f()"})
    modules = {word for word in rig.words("function") if word.startswith("odd")}
    assert FUNCTION_SETS_MAX - 2 <= len(modules) <= FUNCTION_SETS_MAX


def test_jobs_are_the_newest_ones_with_that_beginning(monkeypatch: pytest.MonkeyPatch, rig: MasterRig) -> None:
    asked: list[tuple[Any, int]] = []

    def jobs(wanted: Any, limit: int) -> list[Any]:
        asked.append((wanted.before, limit))
        return []

    monkeypatch.setattr(rig.store, "jobs", jobs)
    assert rig.words("jid", "2026") == []
    assert rig.words("jid", "web") == []
    assert asked == [("2026:", JIDS_MAX)]


def test_another_kind_is_refused(rig: MasterRig) -> None:
    with pytest.raises(UsageError, match="minion, function"):
        rig.words("secret")


def test_only_operators_are_told(rig: MasterRig) -> None:
    with pytest.raises(RefusedError):
        rig.words("minion", principal=Principal("bob", 1000))
