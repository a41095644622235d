"""What somebody with few rights learns of the rest of the fleet: nothing, by any verb, count, word or refusal."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.errors import NoTargetError, RefusedError, SaltliteError, UsageError
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import QUESTIONS_AT_ONCE, Answer
from saltlite.master.store.ports import FunctionSet, MinionRow
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState, fingerprint
from tests.support.keys import NOW
from tests.support.master import ROOT, MasterRig
from tests.support.store import had_sessions

WEB = Principal("wendy", 1000)
"""May run test.ping on web*."""
ALL = Principal("ada", 1001)
"""May run test.ping everywhere."""
MANAGER = Principal("mia", 1002)
"""May list minions, and run test.ping on web*."""
KEEPER = Principal("ken", 1003)
"""As WEB, and may list keys."""
TWO = Principal("tom", 1004)
"""May run one function here and another one there."""
LAMP = Principal("lou", 1005)
"""May use one resource."""
PUBLISHER = {
    "wendy": [{"web*": ["test.ping"]}],
    "ada": ["test.ping"],
    "mia": [{"web*": ["test.ping"]}, {"@runner": ["manage.up"]}],
    "ken": [{"web*": ["test.ping"]}, {"@wheel": ["key.list_all"]}, {"@runner": ["manage.status"]}],
    "tom": [{"web*": ["test.ping"]}, {"db*": ["test.version"]}],
    "lou": [{"dummy:lamp-1": ["test.ping"]}],
    "pat": [{"@runner": ["manage.status"]}],
}
PING = ["test.ping", [], {}]


class Site(MasterRig):
    """web1, web2 and db1 of which the functions are known, resources of two types, and a minion that waits."""

    def __init__(self) -> None:
        super().__init__("web1", "web2", "db1", granted=Granted(publisher=read_rules(PUBLISHER, "publisher_acl")))
        self.add_keys("new1", "web9", state=KeyState.PENDING)
        for number, (minion, extra) in enumerate([("web1", "web.only"), ("db1", "db.only")]):
            digest = f"{number:064x}"
            functions = {name: f"{name}()" for name in ("test.ping", "test.version", extra)}
            with self.store.write() as store:
                store.put_functions(FunctionSet(digest, functions, whole=True))
                row = MinionRow(
                    MinionId(minion),
                    fingerprint(minion.encode().ljust(32, b".")),
                    "",
                    "1",
                    "b",
                    "i",
                    digest,
                    up=True,
                    last_seen=NOW,
                )
                had_sessions(store, [row])
        self.register("web1", {"dummy": ["lamp-1"]}, functions={"dummy": ["lamp.on()"]})
        self.register("db1", {"rack": ["r-1"]}, functions={"rack": ["rack.open()"]})
        self._requests = 0

    def by(self, who: Principal, verb: str, **fields: Any) -> Answer:
        return handle_request(self.master, who, {"v": 1, "verb": verb, **fields})

    def publish(self, who: Principal, tgt: str, tgt_type: str = "glob", call: Any = PING) -> dict[str, Any]:
        self._requests += 1
        fields = {"request_id": f"{self._requests:032x}", "tgt": tgt, "tgt_type": tgt_type, "calls": [call]}
        return self.by(who, "publish", **fields).fields

    def explain(self, who: Principal, tgt: str, tgt_type: str = "glob") -> dict[str, Any]:
        asked = {"tgt": tgt, "tgt_type": tgt_type, "fun": "test.ping", "args": [], "kwargs": {}}
        return self.by(who, "acl_explain", user=who.user, **asked).fields

    def words(self, who: Principal, kind: str, prefix: str = "", **more: Any) -> list[str]:
        found: list[str] = self.by(who, "complete", kind=kind, prefix=prefix, **more).fields["words"]
        return found


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


def error_of(asked: Any) -> tuple[type[SaltliteError] | None, str]:
    try:
        asked()
    except SaltliteError as error:
        return type(error), str(error)
    return None, ""


THERE_OR_NOT = [
    ("glob", "db1", "db2"),
    ("glob", "db*", "zz*"),
    ("glob", "r-1", "r-2"),
    ("glob", "rack:r-1", "rack:r-2"),
    ("glob", "new1", "new2"),
    ("list", "web1,db1", "web1,db2"),
    ("list", "web1,rack:r-1", "web1,rack:r-2"),
    ("list", "web1,new1", "web1,new2"),
    ("pcre", "db.", "zz."),
    ("compound", "web1 or L@db1", "web1 or L@db2"),
    ("compound", "db1 or db2", "db3 or db4"),
]


@pytest.mark.parametrize(("kind", "there", "not_there"), THERE_OR_NOT)
def test_a_target_beyond_reach_is_refused_as_one_that_is_not_there(
    site: Site, kind: str, there: str, not_there: str
) -> None:
    asks = [
        lambda target: site.publish(WEB, target, kind),
        lambda target: site.by(WEB, "describe", tgt=target, tgt_type=kind, funs=["test.ping"]),
    ]
    for ask in asks:
        assert error_of(lambda ask=ask: ask(there)) == error_of(lambda ask=ask: ask(not_there))
        assert error_of(lambda ask=ask: ask(there))[0] is RefusedError
    assert site.explain(WEB, there, kind) == site.explain(WEB, not_there, kind)
    assert not site.explain(WEB, there, kind)["allowed"]


def test_a_refusal_says_nothing_of_the_type_of_a_resource_beyond_reach(site: Site) -> None:
    assert error_of(lambda: site.publish(ALL, "r-1"))[0] is UsageError
    assert error_of(lambda: site.publish(WEB, "r-1"))[0] is RefusedError


def test_explain_counts_what_is_within_the_reach_of_its_caller_and_names_nobody(site: Site) -> None:
    said = site.explain(WEB, "*")
    assert (said["allowed"], said["targets"], said["refused"], said["refused_count"]) == (False, 3, [], 0)
    assert not any(letter.isdigit() for letter in said["reason"].replace("(uid 1000)", ""))
    # The three minions: resources whose type lacks test.ping are left out of the job.
    assert site.explain(TWO, "*")["targets"] == 3
    assert site.explain(LAMP, "*")["targets"] == 1
    assert site.explain(WEB, "web*")["allowed"]
    asked = {"tgt": "*", "tgt_type": "glob", "fun": "test.ping", "args": [], "kwargs": {}, "user": "wendy"}
    assert site.by(ROOT, "acl_explain", **asked).fields["refused"] == ["db1"]


def test_one_who_may_use_two_places_is_refused_by_the_rules_of_the_function(site: Site) -> None:
    assert error_of(lambda: site.publish(TWO, "web1,db1", "list"))[0] is RefusedError
    assert site.publish(TWO, "web1")["minions"] == ["web1"]


def test_a_name_that_the_rules_place_would_cover_is_said_to_be_nobody(site: Site) -> None:
    kind, sentence = error_of(lambda: site.publish(WEB, "web7"))
    assert (kind, "web7: neither an accepted minion nor a resource has this name" in sentence) == (NoTargetError, True)
    assert set(site.publish(WEB, "web1,web7", "list")["unknown"]) == {"web7"}


def test_who_may_know_the_whole_fleet_is_shown_the_name_that_was_meant_and_others_are_not() -> None:
    site = Site()
    assert error_of(lambda: site.publish(ROOT, "wbe1"))[1].endswith("did you mean web1?")
    assert site.publish(ROOT, "web1,wbe2", "list")["unknown"]["wbe2"].endswith("did you mean web2?")
    site.grains("web1", os="Debian", role="web")
    for target, kind in (("oss:Debian", "grain"), ("G@oss:Debian or not *", "compound")):
        assert error_of(lambda target=target, kind=kind: site.publish(ROOT, target, kind))[1].endswith(
            "no minion has the grain 'oss'; did you mean os?"
        )
    assert "grain" not in error_of(lambda: site.publish(ROOT, "os:SUSE", "grain"))[1]
    assert "did you mean" not in error_of(lambda: site.publish(WEB, "web7"))[1]
    assert "did you mean" not in error_of(lambda: site.publish(WEB, "oss:Debian", "grain"))[1]


def test_states_of_keys_are_told_to_who_may_list_keys(site: Site) -> None:
    for who, told in ((WEB, False), (ALL, False), (MANAGER, False), (KEEPER, True), (ROOT, True)):
        assert ("its key is pending" in error_of(lambda who=who: site.publish(who, "web9"))[1]) is told, who
        assert ("pending" in str(site.publish(who, "web1,web9", "list")["unknown"])) is told, who
    assert "wait to be accepted" not in error_of(lambda: site.publish(ALL, "new*"))[1]
    assert "waits to be accepted" in error_of(lambda: site.publish(ROOT, "new*"))[1]


def test_status_tells_of_pending_keys_only_who_may_list_keys(site: Site) -> None:
    for user, uid, count in (("pat", 1006, 0), ("ken", 1003, 2), ("root", 0, 2)):
        question = site.by(Principal(user, uid), "status").question
        assert question is not None
        said = question.fields(None)
        assert said["conflicts"] == (0 if count else None)
        assert said["counts"]["pending"] == count == sum(row["state"] == "pending" for row in said["minions"])


def test_words_are_completed_within_reach(site: Site) -> None:
    assert site.words(WEB, "minion") == ["web1", "web2"]
    assert site.words(WEB, "target", "dummy:") == ["dummy:lamp-1"]
    assert site.words(WEB, "target", "r") == site.words(WEB, "target", "rack:") == []
    assert site.words(WEB, "function", "") == ["lamp.", "test.", "web."]
    assert site.words(WEB, "argument", function="db.only") == []
    assert site.words(LAMP, "minion") == []
    assert site.words(LAMP, "function", "l") == ["lamp.on"]
    assert site.words(LAMP, "function", "test.") == []
    for who in (ALL, MANAGER, ROOT):
        assert site.words(who, "minion") == ["db1", "web1", "web2"]
        assert site.words(who, "function", "") == ["db.", "lamp.", "rack.", "test.", "web."]


def test_silences_are_told_of_minions_within_reach(site: Site) -> None:
    for who, known in ((WEB, {"web1"}), (LAMP, set()), (ALL, {"web1", "db1"}), (MANAGER, {"web1", "db1"})):
        question = site.by(who, "last_seen", ids=["web1", "db1"]).question
        assert question is not None
        assert set(question.fields({"silent_s": {}})["silent_s"]) == known


def test_a_user_has_other_masters_asked_a_limited_number_of_times_and_operators_any() -> None:
    site = Site()
    site.master.elsewhere.update(site.master.store.accepted_ids())
    ids = ["web1", "web1", "db1"]
    for _ in range(QUESTIONS_AT_ONCE):
        question = site.by(WEB, "last_seen", ids=ids).question
        assert question is not None
        assert question.elsewhere == ["web1"]
    assert asked(site, WEB, ids) == ([], set())
    assert asked(site, ALL, ids) == (["web1", "db1"], {"web1", "db1"})
    for _ in range(QUESTIONS_AT_ONCE + 1):
        assert asked(site, ROOT, ids) == (["web1", "db1"], {"web1", "db1"})
    site.clock.advance(1.0)
    assert asked(site, WEB, ids) == (["web1"], {"web1"})
    # What this master knows itself costs no other anything.
    site.master.elsewhere.clear()
    assert asked(site, WEB, ids) == ([], {"web1"})


def asked(site: Site, who: Principal, ids: list[str]) -> tuple[list[MinionId], set[str]]:
    """The minions that other masters are asked about, and those that the answer is about."""
    question = site.by(who, "last_seen", ids=ids).question
    assert question is not None
    return list(question.elsewhere), set(question.fields({"silent_s": {}})["silent_s"])


# --- hooks ------------------------------------------------------------------------------------------

HOOKS = {
    "any": ["@hook"],
    "some": [{"@hook": ["deploy", "ci/*"]}],
    "ping": [".*", "@runner", "@wheel", "@event"],
}
PATHS = [
    ("any", "", True),
    ("any", "deploy", True),
    ("some", "deploy", True),
    ("some", "ci/build", True),
    ("some", "ci/build/7", True),
    ("some", "ci", False),
    ("some", "", False),
    ("some", "deploy/x", False),
    ("some", "xdeploy", False),
    ("ping", "deploy", False),
    ("nobody", "deploy", False),
]


@pytest.mark.parametrize(("user", "path", "allowed"), PATHS)
def test_a_hook_is_a_right_by_its_path(user: str, path: str, allowed: bool) -> None:
    rig = MasterRig("web1", granted=Granted(publisher=read_rules(HOOKS, "publisher_acl")))
    who = Principal(user, 2000)
    request = {"v": 1, "verb": "hook", "path": path, "data": {"x": 1}}
    if allowed:
        handle_request(rig.master, who, request)
    else:
        with pytest.raises(RefusedError, match="may not"):
            handle_request(rig.master, who, request)
    assert len(rig.events("salt/netapi/hook")) == allowed
    asked = {"user": user, "tgt": "@hook", "tgt_type": "glob", "fun": path, "args": [], "kwargs": {}}
    said = handle_request(rig.master, who, {"v": 1, "verb": "acl_explain", **asked}).fields
    assert (said["allowed"], "that takes @hook" in said["reason"]) == (allowed, not allowed)


def test_a_right_to_hooks_is_no_right_to_runners_or_events() -> None:
    rig = MasterRig("web1", granted=Granted(publisher=read_rules(HOOKS, "publisher_acl")))
    for fields in ({"verb": "event_send", "tag": "x", "data": {}}, {"verb": "minions"}):
        with pytest.raises(RefusedError):
            handle_request(rig.master, Principal("any", 2000), {"v": 1, **fields})


@pytest.mark.parametrize("glob", ["", "/deploy", "ci/", "x" * 501])
def test_a_path_that_no_hook_has_is_refused_where_it_is_written(glob: str) -> None:
    with pytest.raises(UsageError, match="is not the path of a hook"):
        read_rules({"fred": [{"@hook": [glob]}]}, "publisher_acl")
