"""What users with less than everything get from a master: jobs, histories, events, logins; and no way around a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_blacklist, read_rules
from saltlite.auth.logins import external
from saltlite.errors import LoginError, NoTargetError, RefusedError, UsageError
from saltlite.master.handlers.events import TOKENS_MAX, EventStream
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Answer, Master, Watch
from saltlite.master.processes.local_clients import LocalClients
from tests.support.keys import NOW
from tests.support.master import ROOT, MasterRig

FRED = Principal("fred", 1000)
GINA = Principal("gina", 1001)
HANS = Principal("hans", 1002)
SERVICE = 990
PUBLISHER = {
    "fred": ["test.*", {"web*": ["pkg.*", {"cmd.run": {"args": ["ls"]}}]}],
    "gina": ["test.ping", "@jobs"],
    "hans": [{"@runner": ["manage.up"]}, {"G@role:web": ["test.ping"]}],
    ".*": [],
}
AUDITOR, ADMIN = ("config.get", "manage.up"), ("auth.token_list", "auth.token_revoke")
EXTERNAL = {
    "file": {
        "ivy": [{"@runner": [*AUDITOR]}],
        "jack": [{"@runner": ["config.get"]}],
        "kim": [{"@wheel": [*ADMIN]}],
        "fred": ["test.ping"],
        "ops%": [{"web1": ["service.restart"]}],
    }
}


class AccessRig(MasterRig):
    """A master with rules."""

    def __init__(self) -> None:
        granted = Granted(
            publisher=read_rules(PUBLISHER, "publisher_acl", patterns=True),
            external={name: read_rules(users, name) for name, users in EXTERNAL.items()},
            blacklist=read_blacklist({"modules": ["test.exception"]}),
            barred=frozenset({SERVICE}),
        )
        super().__init__("web1", "web2", "db1", granted=granted, nodegroups={"front": "web1 or I@role:w*"})
        self._requests = 0

    def by(self, who: Principal, verb: str, **fields: Any) -> Answer:
        return handle_request(self.master, who, {"v": 1, "verb": verb, **fields})

    def publish(self, who: Principal, tgt: str, *calls: list[Any], tgt_type: str = "glob", **fields: Any) -> Answer:
        self._requests += 1
        rows = [call if isinstance(call, list) else [call, [], {}] for call in calls]
        request = {"request_id": f"{self._requests:032x}", "tgt": tgt, "tgt_type": tgt_type, "calls": rows}
        return self.by(who, "publish", **(request | fields))

    def log_in(self, user: str, *groups: str, backend: str = "file") -> str:
        """The token of somebody whose password was right."""
        answer = self.by(HANS, "login", backend=backend, username=user, password="x")
        assert answer.login is not None
        token: str = answer.login.fields(groups)["token"]
        return token


@pytest.fixture
def rig() -> AccessRig:
    return AccessRig()


PING = ["test.ping", [], {}]
INSTALL = ["pkg.install", ["vim"], {}]


def ls(*args: Any, **kwargs: Any) -> list[Any]:
    return ["cmd.run", list(args), kwargs]


JOBS: list[tuple[str, Principal, str, list[Any], dict[str, Any], bool]] = [
    ("a function on everything", FRED, "*", [PING], {}, True),
    ("a function on its targets", FRED, "web*", [INSTALL], {}, True),
    ("a wider target", FRED, "*", [INSTALL], {}, False),
    ("the same targets written otherwise", FRED, "web1,web2", [INSTALL], {"tgt_type": "list"}, True),
    ("another target in a list", FRED, "web1,db1", [INSTALL], {"tgt_type": "list"}, False),
    ("another target by a regular expression", FRED, "web1|db1", [INSTALL], {"tgt_type": "pcre"}, False),
    ("another target in a compound", FRED, "web* or E@db.", [INSTALL], {"tgt_type": "compound"}, False),
    ("a subset of a wider target", FRED, "*", [INSTALL], {"subset": 1}, False),
    ("a subset of its targets", FRED, "web*", [INSTALL], {"subset": 1}, True),
    (
        "a batch of a wider target",
        FRED,
        "*",
        [INSTALL],
        {"batch": {"size": 1, "percent": False, "wait_ms": 0, "failhard": False}},
        False,
    ),
    ("a compound job of what is granted", FRED, "web*", [PING, INSTALL], {}, True),
    ("a compound job with one more", FRED, "web*", [PING, INSTALL, ["service.stop", ["x"], {}]], {}, False),
    ("a compound job with one more in front", FRED, "web*", [["service.stop", ["x"], {}], PING], {}, False),
    ("a compound job that is granted elsewhere", FRED, "*", [PING, INSTALL], {}, False),
    ("granted arguments", FRED, "web1", [ls("ls")], {}, True),
    ("other arguments", FRED, "web1", [ls("ls; id")], {}, False),
    ("other arguments by name", FRED, "web1", [ls(cmd="id")], {}, False),
    ("no arguments", FRED, "web1", [ls()], {}, False),
    ("a list where a text was granted", FRED, "web1", [ls(["ls"])], {}, False),
    ("bytes where a text was granted", FRED, "web1", [ls(b"ls")], {}, False),
    ("the second call with other arguments", FRED, "web1", [ls("ls"), ls("id")], {}, False),
    ("what is blacklisted", FRED, "*", [["test.exception", [], {}]], {}, False),
    ("a function of somebody else's", GINA, "*", [["test.version", [], {}]], {}, False),
    ("his own function", GINA, "*", [PING], {}, True),
    ("a runner's right is none to the function", HANS, "*", [["manage.up", [], {}]], {}, False),
    ("targets by a grain that nobody has", HANS, "web1", [PING], {}, False),
    ("the user of the master's processes", Principal("saltlite", SERVICE), "*", [PING], {}, False),
    ("somebody without rules", Principal("mallory", 1009), "*", [PING], {}, False),
]


@pytest.mark.parametrize(
    ("who", "tgt", "calls", "more", "expected"), [row[1:] for row in JOBS], ids=[r[0] for r in JOBS]
)
def test_a_job_is_published_where_every_call_is_granted_on_every_target(
    rig: AccessRig, who: Principal, tgt: str, calls: list[Any], more: dict[str, Any], expected: bool
) -> None:
    if expected:
        assert rig.publish(who, tgt, *calls, **more).fields["jid"]
        assert len(rig.by(ROOT, "job_list").fields["jobs"]) == 1
    else:
        with pytest.raises(RefusedError):
            rig.publish(who, tgt, *calls, **more)
        assert rig.link.published == []
        assert rig.by(ROOT, "job_list").fields["jobs"] == []


def test_what_a_rule_selects_is_what_is_so_at_that_moment(rig: AccessRig) -> None:
    with pytest.raises(RefusedError):
        rig.publish(HANS, "web1", PING)
    rig.grains("web1", role="web")
    assert rig.publish(HANS, "web1", PING).fields["minions"] == ["web1"]
    with pytest.raises(RefusedError):
        rig.publish(HANS, "web*", PING)


@pytest.mark.parametrize(
    "calls",
    [
        [["test.ping,pkg.install", [], {}]],
        [["test.ping\n", [], {}]],
        [[["test.ping", "pkg.install"], [], {}]],
        [["TEST.ping ", [], {}]],
        [["test.ping", [], {}, "more"]],
        [["test\N{FULLWIDTH FULL STOP}ping", [], {}]],
        [b"test.ping"],
    ],
)
def test_a_function_that_is_written_in_another_way_is_no_function(rig: AccessRig, calls: list[Any]) -> None:
    with pytest.raises((UsageError, RefusedError)):
        rig.publish(FRED, "*", *calls)


def test_resources_are_covered_by_what_selects_them(rig: AccessRig) -> None:
    rig.register("web1", {"dummy": ["d1"]}, functions={"dummy": ["pkg.install(name)", "test.ping()"]})
    rig.register("db1", {"dummy": ["d2"]}, functions={"dummy": ["pkg.install(name)", "test.ping()"]})
    assert rig.publish(FRED, "web*", INSTALL).fields["resources"] == {"web1": ["dummy:d1"]}
    assert rig.publish(FRED, "d1", INSTALL, tgt_type="list").fields["resources"] == {"web1": ["dummy:d1"]}
    for target, kind in (("T@dummy", "compound"), ("d1,d2", "list"), ("dummy:d2", "list"), ("*", "glob")):
        with pytest.raises(RefusedError):
            rig.publish(FRED, target, INSTALL, tgt_type=kind)


def test_the_request_id_of_another_user_leads_to_no_job_of_his(rig: AccessRig) -> None:
    jid = rig.publish(ROOT, "*", PING, request_id="a" * 32).fields["jid"]
    assert rig.publish(FRED, "*", PING, request_id="a" * 32).fields["jid"] != jid


# --- what is seen -----------------------------------------------------------------------------------


def tags(rig: AccessRig, who: Principal, pattern: str = "*") -> list[str]:
    watch = rig.by(who, "events", pattern=pattern, after=0).follow
    assert isinstance(watch, Watch)
    news = EventStream(rig.master, watch).news()
    return [] if news is None else [row["tag"] for row in news["events"]]


def test_events_that_were_are_answered_once_to_those_who_may_see_them(rig: AccessRig) -> None:
    rig.publish(FRED, "*", PING)
    rig.publish(ROOT, "*", PING)
    said = rig.by(ROOT, "events", pattern="*", after=0, once=True)
    assert said.follow is None
    assert [row["tag"] for row in said.fields["events"]] == tags(rig, ROOT)
    assert said.fields["last"] == said.fields["events"][-1]["seq"]
    own = rig.by(FRED, "events", pattern="*", after=0, once=True).fields
    assert [row["tag"] for row in own["events"]] == tags(rig, FRED)
    assert 0 < len(own["events"]) < len(said.fields["events"])
    none = rig.by(HANS, "events", pattern="*", after=0, once=True).fields
    assert (none["events"], none["seq"]) == ([], none["last"])


def test_a_user_sees_his_own_jobs_and_with_a_right_those_of_others(rig: AccessRig) -> None:
    own = rig.publish(FRED, "*", PING).fields["jid"]
    others = rig.publish(ROOT, "*", PING).fields["jid"]
    listed = {who.user: {job["jid"] for job in rig.by(who, "job_list").fields["jobs"]} for who in (FRED, GINA, HANS)}
    assert listed == {"fred": {own}, "gina": {own, others}, "hans": set()}
    assert rig.by(FRED, "job_list", user="root").fields["jobs"] == []
    for verb, more in (
        ("job_show", {}),
        ("job_return", {"target": "web1"}),
        ("follow", {"after": 0}),
        ("job_kill", {}),
    ):
        with pytest.raises(UsageError, match="there is no job"):
            rig.by(FRED, verb, jid=others, **more)
    assert rig.by(GINA, "job_show", jid=others).fields["job"]["user"] == "root"


def test_a_uid_is_somebody_else_on_another_master_of_the_store(rig: AccessRig) -> None:
    here, there = replace(FRED, realm="a"), replace(FRED, realm="b")
    own = rig.publish(here, "web1", PING, deliver_ms=60_000).fields["jid"]
    assert [job["jid"] for job in rig.by(here, "job_list").fields["jobs"]] == [own]
    for stranger in (there, FRED):
        assert rig.by(stranger, "job_list").fields["jobs"] == []
        for verb in ("job_show", "job_kill"):
            with pytest.raises(UsageError, match="there is no job"):
                rig.by(stranger, verb, jid=own)
        assert tags(rig, stranger) == []
    assert tags(rig, here) == [f"salt/job/{own}/new"]
    assert LocalClients("a").came(1001, 0.0, is_user=True).realm == "a"
    assert LocalClients("a").came(0, 0.0, is_user=False).owner == 0, "an operator is one on all masters"


def test_a_user_ends_his_own_jobs_only(rig: AccessRig) -> None:
    own = rig.publish(FRED, "web1", PING, deliver_ms=60_000).fields["jid"]
    with pytest.raises(RefusedError):
        handle_request(rig.master, Principal("seer", 1010), {"v": 1, "verb": "job_kill", "jid": own})
    ended: list[Any] = []
    rig.link.cancel = ended.append  # type: ignore[attr-defined]  # this link has no jobs to end
    assert rig.by(FRED, "job_kill", jid=own).fields["cancelled"] == ["web1"]


def test_a_user_is_told_of_his_own_jobs_and_runners_and_of_no_keys(rig: AccessRig) -> None:
    own = rig.publish(FRED, "*", PING).fields["jid"]
    others = rig.publish(ROOT, "*", PING).fields["jid"]
    run = "20260131235959123456"
    rig.by(HANS, "runner_event", jid=run, funs=["manage.up"])
    with rig.store.write() as tx:
        tx.put_event("salt/key", {"act": "accept"}, NOW)
    assert tags(rig, FRED) == [f"salt/job/{own}/new"]
    assert tags(rig, HANS) == [f"salt/run/{run}/new"]
    assert tags(rig, GINA) == [f"salt/job/{own}/new", f"salt/job/{others}/new"]
    assert len(tags(rig, ROOT)) == 4


def test_a_runner_is_announced_by_whoever_has_a_right_to_it(rig: AccessRig) -> None:
    run = "20260131235959123456"
    assert rig.by(HANS, "runner_event", jid=run, funs=["manage.up"]).committed
    for who, funs in ((HANS, ["manage.down"]), (HANS, ["manage.up", "manage.down"]), (FRED, ["manage.up"])):
        with pytest.raises(RefusedError):
            rig.by(who, "runner_event", jid=run, funs=funs)


def test_a_right_to_a_runner_is_one_to_what_that_runner_asks(rig: AccessRig) -> None:
    assert len(rig.by(HANS, "minions").fields["minions"]) == 3
    for verb, more in (("pillar_show", {"id": "web1"}), ("key_list", {}), ("resource_stats", {}), ("status", {})):
        with pytest.raises(RefusedError):
            rig.by(HANS, verb, **more)


def test_describe_answers_for_what_may_be_run_and_keys_are_completed_for_who_may_list_them(rig: AccessRig) -> None:
    assert rig.by(FRED, "describe", tgt="web*", tgt_type="glob", funs=["pkg.install"]).fields["count"] == 2
    with pytest.raises(RefusedError):
        rig.by(FRED, "describe", tgt="*", tgt_type="glob", funs=["pkg.install"])
    assert rig.by(FRED, "complete", kind="key", prefix="").fields["words"] == []
    assert rig.by(HANS, "complete", kind="minion", prefix="").fields["words"] == ["db1", "web1", "web2"]
    assert rig.by(HANS, "complete", kind="key", prefix="").fields["words"] == []


# --- logins -----------------------------------------------------------------------------------------


def test_a_token_makes_a_request_that_of_its_holder_whoever_sends_it(rig: AccessRig) -> None:
    token = rig.log_in("fred")
    jid = rig.publish(ROOT, "*", PING, token=token).fields["jid"]
    job = rig.store.job(jid)
    assert job is not None
    assert (job.user, job.uid) == ("file:fred", external("file", "fred", ()).uid)
    with pytest.raises(RefusedError):
        rig.publish(ROOT, "*", INSTALL, token=token)
    assert rig.by(ROOT, "job_list", token=token).fields["jobs"][0]["jid"] == jid
    assert rig.by(FRED, "job_list").fields["jobs"] == [], "fred of this machine is somebody else"


def test_groups_are_those_of_the_login(rig: AccessRig) -> None:
    restart = ["service.restart", ["x"], {}]
    assert rig.publish(HANS, "web1", restart, token=rig.log_in("zoe", "ops")).fields["minions"] == ["web1"]
    with pytest.raises(RefusedError):
        rig.publish(HANS, "web2", restart, token=rig.log_in("zoe", "ops"))
    with pytest.raises(RefusedError):
        rig.publish(HANS, "web1", restart, token=rig.log_in("fred"))


def test_who_has_a_password_and_no_rule_is_told_what_a_wrong_password_is_told(rig: AccessRig) -> None:
    with pytest.raises(LoginError, match="the name or the password is wrong"):
        rig.log_in("zoe", "other")


@pytest.mark.parametrize("token", ["", "0" * 64, "x", "\0", "ä" * 64])
def test_a_token_that_is_none_is_refused_and_the_caller_is_not_asked_instead(rig: AccessRig, token: str) -> None:
    with pytest.raises(LoginError):
        rig.by(ROOT, "minions", token=token)


def test_a_token_ends_with_logout_revocation_and_time(rig: AccessRig) -> None:
    tokens = [rig.log_in("fred") for _ in range(3)]
    assert len(set(tokens)) == 3
    rig.by(HANS, "logout", token=tokens[0])
    rows = rig.by(ROOT, "auth_token_list").fields["tokens"]
    assert [(row["user"], row["eauth"]) for row in rows] == [("fred", "file")] * 2
    assert not any(token in repr(rows) for token in tokens)
    (second,) = [row["id"] for row in rows if row["id"] == rig.master.logins.id_of(tokens[1])]
    assert rig.by(ROOT, "auth_token_revoke", ids=[second]).fields["revoked"] == [second]
    rig.by(HANS, "whoami", token=tokens[2])
    rig.clock.advance(rig.master.config.login_s)
    for token in tokens:
        with pytest.raises(LoginError):
            rig.by(HANS, "whoami", token=token)


def test_the_audit_log_says_what_a_revocation_ended(rig: AccessRig, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[str, Mapping[str, Any]]] = []
    monkeypatch.setattr(Master, "record", lambda _master, _who, did, details: noted.append((did, details)))
    rig.log_in("fred")
    (row,) = rig.by(ROOT, "auth_token_list").fields["tokens"]
    noted.clear()
    rig.by(ROOT, "auth_token_revoke", ids=["none", row["id"]])
    rig.by(ROOT, "token_revoke", token_id="none")
    assert noted == [
        ("auth_token_revoke", {"ids": ["none", row["id"]], "revoked": [row["id"]]}),
        ("token_revoke", {"token_id": "none", "revoked": False}),
    ]


def test_a_user_sees_and_ends_his_own_logins_only(rig: AccessRig) -> None:
    own, others = rig.log_in("fred"), rig.log_in("zoe", "ops")
    ids = [rig.master.logins.id_of(token) for token in (own, others)]
    assert [row["id"] for row in rig.by(HANS, "auth_token_list", token=own).fields["tokens"]] == ids[:1]
    assert rig.by(HANS, "auth_token_revoke", ids=ids, token=own).fields["revoked"] == ids[:1]


def test_the_rights_of_the_wheel_reach_the_logins_of_all_users(rig: AccessRig) -> None:
    own, others = rig.log_in("kim"), rig.log_in("fred")
    ids = {rig.master.logins.id_of(token) for token in (own, others)}
    assert {row["id"] for row in rig.by(HANS, "auth_token_list", token=own).fields["tokens"]} == ids
    wanted = rig.master.logins.id_of(others)
    assert rig.by(HANS, "auth_token_revoke", ids=[wanted], token=own).fields["revoked"] == [wanted]


def test_the_masters_own_user_is_refused_also_with_a_good_token(rig: AccessRig) -> None:
    token = rig.log_in("fred")
    for verb, more in (("whoami", {"token": token}), ("login", {"backend": "file", "username": "x", "password": "y"})):
        with pytest.raises(RefusedError, match="may ask nothing"):
            rig.by(Principal("saltlite", SERVICE), verb, **more)


# --- explain ----------------------------------------------------------------------------------------


def explained(
    rig: AccessRig, who: Principal, user: str, tgt: str, fun: str, *args: Any, **more: Any
) -> Mapping[str, Any]:
    fields = {"user": user, "tgt": tgt, "tgt_type": "glob", "fun": fun, "args": list(args), "kwargs": {}}
    return rig.by(who, "acl_explain", **(fields | more)).fields


def test_explain_says_what_is_allowed_by_which_rule_and_what_not(rig: AccessRig) -> None:
    said = explained(rig, ROOT, "fred", "web*", "pkg.install", "vim")
    assert (said["allowed"], said["rules"], said["targets"]) == (True, ["publisher_acl.fred: pkg.* on web*"], 2)
    said = explained(rig, ROOT, "fred", "*", "pkg.install", "vim")
    assert (said["allowed"], said["refused"], said["refused_count"]) == (False, ["db1"], 1)
    assert not explained(rig, ROOT, "fred", "web1", "cmd.run", "id")["allowed"]
    assert explained(rig, ROOT, "fred", "web1", "cmd.run", "ls")["allowed"]
    assert explained(rig, ROOT, "hans", "@runner", "manage.up")["allowed"]
    assert not explained(rig, ROOT, "hans", "@wheel", "key.accept")["allowed"]
    assert explained(rig, ROOT, "file:zoe", "web1", "service.restart", groups=["ops"])["allowed"]
    assert not explained(rig, ROOT, "file:zoe", "web1", "service.restart")["allowed"]


def test_explain_says_that_a_name_without_a_backend_is_of_no_local_user(rig: AccessRig) -> None:
    for target, fun in (("web1", "cmd.run"), ("@wheel", "key.accept")):
        said = explained(rig, ROOT, "nobody-of-this-name", target, fun)
        assert "there is no local user nobody-of-this-name" in said["reason"]
        assert "no local user" not in explained(rig, ROOT, "file:zoe", target, fun)["reason"]


def test_explain_decides_as_publish_does(rig: AccessRig) -> None:
    for label, who, tgt, calls, more, expected in JOBS:
        if len(calls) == 1 and set(more) <= {"tgt_type"} and who.uid != SERVICE and isinstance(calls[0][1], list):
            fun, args, kwargs = calls[0]
            said = explained(rig, who, who.user, tgt, fun, *args, kwargs=kwargs, **more)
            assert said["allowed"] is expected, label


def test_a_user_may_ask_about_himself_and_learns_no_other_targets(rig: AccessRig) -> None:
    assert explained(rig, FRED, "fred", "*", "pkg.install", "vim")["refused"] == []
    with pytest.raises(RefusedError):
        explained(rig, FRED, "gina", "*", "test.ping")
    with pytest.raises(RefusedError):
        explained(rig, FRED, "root", "*", "test.ping")


PILLAR_TARGETS = [
    ("pillar", "role:w*", True),
    ("pillar", "role:w?b", True),
    ("pillar", "role:*", True),
    ("pillar", "*:web", True),
    ("pillar_pcre", "role:web", True),
    ("compound", "web1 and not I@role:[a-v]*", True),
    ("compound", "( web1 or J@role:w )", True),
    ("compound", "I|@role|w*", True),
    ("pillar", "role:web", False),
    ("compound", "web1 and I@role:web", False),
    ("nodegroup", "front", False),
    ("compound", "N@front and web1", False),
    ("glob", "web*", False),
    ("grain", "role:*", False),
]


@pytest.mark.parametrize(("kind", "expression", "refused"), PILLAR_TARGETS)
def test_who_may_not_see_pillars_cannot_try_patterns_on_them(
    rig: AccessRig, kind: str, expression: str, refused: bool
) -> None:
    def sentence(who: Principal, verb: str, **fields: Any) -> str:
        try:
            rig.by(who, verb, tgt=expression, tgt_type=kind, **fields)
        except (RefusedError, UsageError, NoTargetError) as error:
            return str(error)
        return ""

    publish: dict[str, Any] = {"request_id": "f" * 32, "calls": [PING]}
    asked: list[tuple[str, dict[str, Any]]] = [("publish", publish), ("describe", {"funs": ["test.ping"]})]
    for verb, fields in asked:
        assert ("by patterns of pillar" in sentence(GINA, verb, **fields)) is refused, verb
        assert "by patterns of pillar" not in sentence(ROOT, verb, **fields), verb
    explain = {"fun": "test.ping", "args": [], "kwargs": {}}
    assert ("by patterns of pillar" in sentence(GINA, "acl_explain", user="gina", **explain)) is refused


def test_who_may_see_all_rules_and_the_fleet_may_ask_about_anyone(rig: AccessRig) -> None:
    ivy, jack = rig.log_in("ivy"), rig.log_in("jack")
    asked = {"user": "fred", "tgt": "*", "tgt_type": "glob", "fun": "pkg.install", "args": ["vim"], "kwargs": {}}
    said = rig.by(HANS, "acl_explain", token=ivy, **asked).fields
    assert (said["allowed"], said["refused"], said["targets"]) == (False, ["db1"], 3)
    own = rig.by(HANS, "acl_explain", token=ivy, **{**asked, "user": "file:ivy"}).fields
    assert (own["allowed"], own["rules"]) == (False, [])
    with pytest.raises(RefusedError, match=r"it takes @runner config\.get and manage\.up"):
        rig.by(HANS, "acl_explain", token=jack, **asked)


def test_the_view_of_events_is_one_name_for_equal_streams(rig: AccessRig) -> None:
    tokens = [rig.log_in("fred"), rig.log_in("fred"), rig.log_in("zoe", "ops"), "0" * 64, "no token"]
    one, again, other, *wrong = rig.by(HANS, "event_views", tokens=tokens).fields["views"]
    assert one == again != other
    assert wrong == ["", ""]
    for token, view in zip(tokens[:3], (one, again, other), strict=True):
        assert rig.by(HANS, "events", token=token, pattern="*").fields["view"] == view
    rig.by(HANS, "logout", token=tokens[0])
    assert rig.by(HANS, "event_views", tokens=tokens[:2]).fields["views"] == ["", one]


def test_who_sees_all_events_and_all_jobs_has_one_view_with_others_like_him(rig: AccessRig) -> None:
    views = {who.user: rig.by(who, "events", pattern="*").fields["view"] for who in (ROOT, FRED, GINA, HANS)}
    assert views["root"] == "all"
    assert len(set(views.values())) == 4


def test_views_are_told_of_a_limited_number_of_tokens(rig: AccessRig) -> None:
    for tokens in (["0" * 64] * (TOKENS_MAX + 1), [7]):
        with pytest.raises(UsageError):
            rig.by(HANS, "event_views", tokens=tokens)
