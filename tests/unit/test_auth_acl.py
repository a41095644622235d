"""Authorisation (S9): who may do what is what the table and the rules say, and everything else is denied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from saltlite.auth.acl import (
    NAMED_MAX,
    RIGHTS,
    RULES_MAX,
    TEXT_MAX,
    Action,
    Call,
    Granted,
    Principal,
    authorize,
    judge,
    knows_pillars,
    may,
    read_blacklist,
    read_rules,
)
from saltlite.errors import CostlyRuleError, RefusedError, UsageError
from saltlite.master.handlers import operator_verbs
from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.fleet import STEPS_MAX, Budget

SERVICE = 990
"""The user that the master became."""
UNKNOWN = ["", "Publish", "publish ", "shutdown", "__class__", "heartbeat"]
FLEET = {"web1": "web1", "web2": "web2", "db1": "db1", "ssh:web-gw": "web1"}
"""Each target with the minion that it is, or that manages it."""


@dataclass(frozen=True)
class Access:
    operators: frozenset[int] = frozenset({0})
    granted: Granted = field(default_factory=Granted)


def selects(expression: str) -> frozenset[TargetId]:
    """Globs of minions, with what these manage, as the matchers do it."""
    begin = expression.rstrip("*")
    return frozenset(TargetId(one) for one, owner in FLEET.items() if owner.startswith(begin))


def access(rows: Any = None, *, external: Any = None, blacklist: Any = None) -> Access:
    """Rules for the local users, and for those of each backend."""
    return Access(
        granted=Granted(
            publisher=read_rules(rows or {}, "publisher_acl", patterns=True),
            external={name: read_rules(users, f"external_auth.{name}") for name, users in (external or {}).items()},
            blacklist=read_blacklist(blacklist or {}),
            barred=frozenset({SERVICE}),
        )
    )


FRED = Principal("fred", 1000)
PAM_FRED = Principal("fred", -5, "pam")
PRINCIPALS = {
    "root": (Principal("root", 0), True),
    "somebody": (Principal("mallory", 1001), False),
    "somebody called root": (Principal("root", 1001), False),
    "somebody who logged in as root": (Principal("root", 0, "pam"), False),
    "nobody": (Principal("nobody", 65534), False),
    "the user of the master's processes": (Principal("saltlite", SERVICE), False),
}


def allowed(principal: Principal, action: Action, rules: Access) -> bool:
    try:
        authorize(principal, action, rules, selects)
    except RefusedError:
        return False
    return True


def may_run(principal: Principal, rules: Access, fun: str, *targets: str, **call: Any) -> bool:
    minions = [MinionId(one) for one in targets if ":" not in one]
    resources = [TargetId(one) for one in targets if ":" in one]
    wanted = Call(fun, call.pop("args", ()), call.pop("kwargs", {}))
    return allowed(principal, Action("publish", wanted, minions, resources, **call), rules)


def test_the_cache_of_rules_is_bounded_and_keeps_principals_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.auth.acl.HOLDERS_KEPT", 3)
    monkeypatch.setattr("saltlite.auth.acl.ANSWERS_KEPT", 2)
    rules = access(
        {"fred": ["@runner"], "ops%": ["@wheel"]},
        external={"pam": {"fred": ["test.*"]}},
        blacklist={"users": ["mallory"]},
    )
    granted = rules.granted
    fred_in_ops = Principal("fred", 1000, groups=frozenset({"ops"}))
    for _ in range(2):
        for uid in range(1, 6):
            assert not may(Principal("mallory", uid), "runner", ("jobs.active",), rules)
        for number in range(5):
            assert may(FRED, "runner", (f"jobs.{number}",), rules)
            assert not may(FRED, "wheel", (f"key.{number}",), rules)
            assert may(fred_in_ops, "wheel", (f"key.{number}",), rules)
            assert not may(PAM_FRED, "runner", (f"jobs.{number}",), rules)
        assert len(granted._holders) <= 3
        assert all(len(holder._named) <= 2 for holder in granted._holders.values())


# --- without rules ----------------------------------------------------------------------------------

OPEN_TO_ALL = {"login", "logout", "whoami", "acl_explain", "event_views"}


@pytest.mark.parametrize("kind", PRINCIPALS)
@pytest.mark.parametrize("verb", sorted(RIGHTS))
def test_without_rules_operators_may_everything_and_others_log_in(kind: str, verb: str) -> None:
    principal, operator = PRINCIPALS[kind]
    assert allowed(principal, Action(verb), access()) is (
        operator or (verb in OPEN_TO_ALL and principal.uid != SERVICE)
    )


@pytest.mark.parametrize("kind", PRINCIPALS)
@pytest.mark.parametrize("verb", UNKNOWN)
def test_a_verb_that_is_not_in_the_table_is_denied_to_everybody(kind: str, verb: str) -> None:
    everything = {".*": [".*", "@runner", "@wheel", "@jobs", "@executor", "@returner"]}
    assert not allowed(PRINCIPALS[kind][0], Action(verb), access(everything))


def test_without_operators_even_root_is_denied() -> None:
    assert not allowed(Principal("root", 0), Action("publish"), Access(operators=frozenset()))


def test_the_table_has_exactly_the_verbs_that_the_master_answers() -> None:
    assert set(operator_verbs.VERBS) == set(RIGHTS)


def test_the_refusal_says_who_may_not_do_what_and_the_way_out() -> None:
    with pytest.raises(RefusedError, match=r"mallory \(uid 1000\) may not end jobs: run it as root"):
        authorize(Principal("mallory", 1000), Action("job_kill"), access())


def test_of_many_rights_of_which_one_is_enough_the_refusal_names_the_first() -> None:
    with pytest.raises(
        RefusedError, match=r"fred \(uid 1000\) may not list minions: that takes @runner manage"
    ) as told:
        authorize(Principal("fred", 1000), Action("minions"), access({"fred": ["test.*"]}))
    assert str(told.value).count(" or manage.") == NAMED_MAX - 1
    assert " or one of 9 others in " in str(told.value)


def test_the_user_of_the_masters_processes_is_refused_whatever_is_granted_to_it() -> None:
    rules = access({"saltlite": [".*"], ".*": [".*", "@runner", "@wheel"]})
    service = Principal("saltlite", SERVICE)
    assert not any(allowed(service, Action(verb), rules) for verb in RIGHTS)
    assert not may_run(service, rules, "test.ping", "web1")
    assert not allowed(service, Action("login"), rules)


# --- jobs: principal x rule x function x target -----------------------------------------------------

RULES = {
    "fred": ["test.*", {"web*": ["pkg.*", {"cmd.run": {"args": ["ls( .*)?"], "kwargs": {"cwd": "/tmp"}}}]}],
    "dev%": [{"db1": ["test.ping"]}],
    "ops": [{"web1": ["service.restart"]}, {"web2": ["service.restart"]}],
    "splayer": ["test.ping", {"@executor": ["splay"]}, {"@returner": ["json_file"]}],
}
RUNS: list[tuple[Principal, str, list[str], dict[str, Any], bool]] = [
    (FRED, "test.ping", ["web1", "db1", "ssh:web-gw"], {}, True),
    (FRED, "test", ["web1"], {}, False),
    (FRED, "testing.ping", ["web1"], {}, False),
    (FRED, "xtest.ping", ["web1"], {}, False),
    (FRED, "test.ping\n", ["web1"], {}, False),
    (FRED, "TEST.ping", ["web1"], {}, False),
    (FRED, "pkg.install", ["web1"], {}, True),
    (FRED, "pkg.install", ["web1", "web2", "ssh:web-gw"], {}, True),
    (FRED, "pkg.install", ["db1"], {}, False),
    (FRED, "pkg.install", ["web1", "db1"], {}, False),
    (FRED, "pkg.install", ["ssh:other"], {}, False),
    (FRED, "cmd.run", ["web1"], {"args": ["ls"], "kwargs": {"cwd": "/tmp"}}, True),
    (FRED, "cmd.run", ["web1"], {"args": ["ls -l"], "kwargs": {"cwd": "/tmp"}}, True),
    (FRED, "cmd.run", ["web1"], {"args": ["rm -rf /"], "kwargs": {"cwd": "/tmp"}}, False),
    (FRED, "cmd.run", ["web1"], {"args": ["x\nls"], "kwargs": {"cwd": "/tmp"}}, False),
    (FRED, "cmd.run", ["web1"], {"args": [], "kwargs": {"cwd": "/tmp", "cmd": "rm"}}, False),
    (FRED, "cmd.run", ["web1"], {"args": ["ls", "/tmp"], "kwargs": {}}, False),
    (FRED, "cmd.run", ["web1"], {"args": ["ls"], "kwargs": {"cwd": "/"}}, False),
    (FRED, "cmd.run", ["web1"], {"args": [["ls"]], "kwargs": {"cwd": "/tmp"}}, False),
    (FRED, "cmd.run", ["web1"], {"args": [b"ls"], "kwargs": {"cwd": "/tmp"}}, False),
    (FRED, "cmd.run", ["web1"], {"args": ["ls " + "x" * TEXT_MAX], "kwargs": {"cwd": "/tmp"}}, False),
    (FRED, "cmd.run", ["db1"], {"args": ["ls"], "kwargs": {"cwd": "/tmp"}}, False),
    (FRED, "test.ping", ["web1"], {"executors": ["splay"]}, False),
    (FRED, "test.ping", ["web1"], {"executors": ["direct_call"]}, False),
    (FRED, "test.ping", ["web1"], {"returners": ["http"]}, False),
    (PAM_FRED, "test.ping", ["web1"], {}, False),
    (Principal("gina", 1002, groups=frozenset({"dev"})), "test.ping", ["db1"], {}, True),
    (Principal("gina", 1002, groups=frozenset({"dev"})), "test.ping", ["web1"], {}, False),
    (Principal("dev%", 1003), "test.ping", ["db1"], {}, False),
    (Principal("dev", 1003), "test.ping", ["db1"], {}, False),
    (Principal("fred", 1000, groups=frozenset({"dev"})), "test.ping", ["db1"], {}, True),
    (Principal("ops", 1004), "service.restart", ["web1", "web2"], {}, True),
    (Principal("ops", 1004), "service.restart", ["web1", "web2", "db1"], {}, False),
    (Principal("splayer", 1005), "test.ping", ["web1"], {"executors": ["splay"], "returners": ["json_file"]}, True),
    (Principal("splayer", 1005), "test.ping", ["web1"], {"executors": ["splay", "sudo"]}, False),
    (Principal("splayer", 1005), "test.ping", ["web1"], {"executors": ["splay"], "returners": ["http"]}, False),
]


@pytest.mark.parametrize(("principal", "fun", "targets", "call", "expected"), RUNS)
def test_a_job_is_allowed_where_rules_cover_its_function_arguments_and_each_target(
    principal: Principal, fun: str, targets: list[str], call: dict[str, Any], expected: bool
) -> None:
    assert may_run(principal, access(RULES), fun, *targets, **call) is expected


def test_local_users_are_not_those_of_a_backend_and_backends_are_not_each_other() -> None:
    rules = access({"fred": ["pkg.*"]}, external={"pam": {"fred": ["test.*"]}, "file": {"fred": ["sys.*"]}})
    for principal, own in ((FRED, "pkg.x"), (PAM_FRED, "test.x"), (Principal("fred", -6, "file"), "sys.x")):
        assert [fun for fun in ("pkg.x", "test.x", "sys.x") if may_run(principal, rules, fun, "web1")] == [own]


def test_the_star_is_for_whoever_has_no_entry_of_his_own() -> None:
    rules = access(external={"pam": {"*": ["test.ping"], "fred": ["pkg.*"]}})
    assert may_run(Principal("gina", -7, "pam"), rules, "test.ping", "web1")
    assert not may_run(PAM_FRED, rules, "test.ping", "web1")


def test_what_is_blacklisted_is_refused_whatever_is_granted_but_not_to_operators() -> None:
    rules = access({"fred": [".*"], "gina": [".*"]}, blacklist={"users": ["gi.*"], "modules": ["cmd.*"]})
    assert may_run(FRED, rules, "test.ping", "web1")
    assert not may_run(FRED, rules, "cmd.run", "web1")
    assert not may_run(Principal("gina", 1002), rules, "test.ping", "web1")
    assert not allowed(Principal("gina", 1002), Action("job_list"), rules)
    assert may_run(Principal("root", 0), rules, "cmd.run", "web1")


def test_a_rule_for_some_targets_grants_nothing_where_nobody_resolves_them() -> None:
    action = Action("publish", Call("pkg.install", kwargs={}), [MinionId("web1")])
    with pytest.raises(RefusedError):
        authorize(FRED, action, access(RULES))


def test_a_refusal_of_targets_names_the_users_own_and_not_the_others() -> None:
    action = Action("publish", Call("pkg.install", kwargs={}), [MinionId("web1"), MinionId("db1")])
    with pytest.raises(RefusedError) as caught:
        authorize(FRED, action, access(RULES), selects)
    assert str(caught.value) == (
        "fred (uid 1000) may not run pkg.install on this target, only on web*: nothing was published"
    )


def test_a_verdict_has_the_rules_that_hold_and_the_targets_that_none_covers() -> None:
    action = Action("publish", Call("pkg.install", kwargs={}), [MinionId("web1"), MinionId("db1")])
    verdict = judge(FRED, action, access(RULES), selects)
    assert [rule.text for rule in verdict.rules] == ["publisher_acl.fred: pkg.* on web*"]
    assert verdict.uncovered == {"db1"}


# --- everything else --------------------------------------------------------------------------------

NAMED = {
    "@runner": {"runner": ["jobs.list_jobs", "manage.up", "pillar.show_pillar"], "wheel": []},
    "@wheel": {"runner": [], "wheel": ["key.accept", "key.list_all"]},
    "@jobs": {"runner": ["jobs.list_jobs", "jobs.kill"], "wheel": []},
    "@key": {"runner": [], "wheel": ["key.accept"]},
}


@pytest.mark.parametrize("right", NAMED)
def test_a_right_is_to_a_kind_or_to_a_module(right: str) -> None:
    rules = access({"fred": [right]})
    every = {"jobs.list_jobs", "jobs.kill", "manage.up", "pillar.show_pillar", "key.accept", "key.list_all"}
    for kind, names in NAMED[right].items():
        assert all(may(FRED, kind, [name], rules) for name in names)
    assert not may_run(FRED, rules, "test.ping", "web1")
    assert not all(may(FRED, kind, [name], rules) for kind in ("runner", "wheel") for name in every)


def test_a_right_to_some_functions_is_to_these_alone() -> None:
    rules = access({"fred": [{"@jobs": ["list_job"]}, {"@runner": ["manage.*"]}, {"@wheel": ["key.list_all"]}]})
    assert may(FRED, "runner", ["jobs.list_job"], rules)
    assert not may(FRED, "runner", ["jobs.list_jobs"], rules)
    assert may(FRED, "runner", ["manage.up"], rules)
    assert allowed(FRED, Action("key_list"), rules)
    assert not allowed(FRED, Action("key_change", name="key.accept"), rules)
    assert not allowed(FRED, Action("pillar_show"), rules)


@pytest.mark.parametrize(
    "rows",
    [
        "test.ping",
        {"fred": "test.ping"},
        {"fred": [1]},
        {"fred": [{}]},
        {"fred": ["test.("]},
        {"fred": ["x" * 501]},
        {"fred": [{"web*": "test.ping"}]},
        {"fred": [{"web*": ["@jobs"]}]},
        {"fred": [{"web*": [["test.ping"]]}]},
        {"fred": [{"@jobs": "list_job"}]},
        {"fred": [{"@jobs": [{"list_job": {}}]}]},
        {"fred": [{"cmd.run": {"args": "ls"}}]},
        {"fred": [{"cmd.run": {"argument": ["ls"]}}]},
        {"fred": ["@"]},
        {"fred": ["test.ping"] * (RULES_MAX + 1)},
    ],
)
def test_what_is_no_rule_is_refused_when_it_is_read_and_not_taken_for_something_else(rows: Any) -> None:
    with pytest.raises(UsageError):
        read_rules(rows, "publisher_acl")


@pytest.mark.parametrize(
    ("rows", "known"),
    [
        ([".*"], True),
        (["pillar.*"], True),
        ([{"@runner": ["pillar.show_pillar"]}], True),
        (["@pillar"], True),
        ([{"*": ["pillar.items"]}], False),
        (["test.*", "@jobs", "@wheel"], False),
    ],
)
def test_pillars_are_known_to_whom_they_are_shown_everywhere(rows: list[Any], known: bool) -> None:
    assert knows_pillars(FRED, access({"fred": rows})) is known


def test_a_blacklisted_pillar_is_not_known() -> None:
    assert not knows_pillars(FRED, access({"fred": [".*"]}, blacklist={"modules": ["pillar.*"]}))
    assert not knows_pillars(FRED, access({"fred": [".*"]}, blacklist={"users": ["fred"]}))


CALLERS = [
    ("test.cross_test", ["cmd.run", ["id"]], {}),
    ("test.cross_test", ["cmd.run"], {"args": ["id"]}),
    ("test.cross_test", [], {"func": "cmd.run", "args": ["id"]}),
    ("test.cross_test", ["test.cross_test", ["cmd.run", ["id"]]], {}),
    ("test.cross_test", ["test.try", ["cmd.run"]], {}),
    ("test.try", ["cmd.run"], {"cmd": "id"}),
    ("test.try", [], {"module": "cmd.run", "cmd": "id"}),
]


@pytest.mark.parametrize(("fun", "args", "kwargs"), CALLERS)
def test_a_function_that_calls_others_takes_the_right_to_these(fun: str, args: list[Any], kwargs: Any) -> None:
    action = Action("publish", Call(fun, args, kwargs), [MinionId("web1")])
    assert not allowed(FRED, action, access({"fred": ["test.*", "network.*"]}))
    assert not allowed(FRED, action, access({"fred": ["test.*", {"db*": ["cmd.*"]}]}))
    assert not allowed(FRED, action, access({"fred": [".*"]}, blacklist={"modules": ["cmd.*"]}))
    assert allowed(FRED, action, access({"fred": [".*"]}))
    assert allowed(Principal("root", 0), action, access())


def test_patterns_for_arguments_hold_for_what_is_called_within() -> None:
    rules = access({"fred": ["test.*", {"cmd.run": {"args": ["ls.*"]}}]})

    def may_run(command: str) -> bool:
        call = Call("test.cross_test", ["cmd.run", [command]], {})
        return allowed(FRED, Action("publish", call, [MinionId("web1")]), rules)

    assert may_run("ls /")
    assert not may_run("id")
    odd = Call("test.cross_test", [["cmd.run"], ["ls /"]], {})
    assert not allowed(FRED, Action("publish", odd, [MinionId("web1")]), rules)
    ping = Call("test.cross_test", ["test.ping"], {})
    assert allowed(FRED, Action("publish", ping, [MinionId("web1")]), rules)


def test_a_rule_whose_pattern_takes_too_long_denies_and_is_named() -> None:
    budget = Budget(2_000)
    rules = read_rules({"fred": [{"cmd.run": {"args": ["(a|b)*a(a|b){151}c"]}}]}, "publisher_acl")
    [rule] = rules.of("fred", ())
    assert rule.allows(Call("cmd.run", ["ab" * 80 + "c"], {}), Budget())
    named = r"cmd.run is denied: a pattern of the rule .publisher_acl.fred: cmd.run .* takes too long"
    with pytest.raises(CostlyRuleError, match=named):
        rule.allows(Call("cmd.run", ["ab" * 2000 + "c"], {}), budget)


def test_a_rule_with_a_pattern_that_nothing_can_run_in_bounded_time_is_refused_where_it_is_read() -> None:
    with pytest.raises(UsageError, match=r"^publisher_acl.fred: the regular expression .* could run forever"):
        read_rules({"fred": [{"cmd.run": {"args": ["(?=(a*)*b)a"]}}]}, "publisher_acl")
    with pytest.raises(UsageError, match=r"^publisher_acl: the regular expression .* could run forever"):
        read_rules({"(a+)+\\1": ["test.ping"]}, "publisher_acl", patterns=True)


@pytest.mark.parametrize("argument", ["a" * 28 + "!", "a" * 4000 + "!"])
def test_arguments_that_make_a_rule_backtrack_are_compared_at_once(argument: str) -> None:
    [rule] = read_rules({"fred": [{"cmd.run": {"args": ["(a+)+"]}}]}, "publisher_acl").of("fred", ())
    budget = Budget()
    assert not rule.allows(Call("cmd.run", [argument], {}), budget)
    assert rule.allows(Call("cmd.run", [argument.rstrip("!")], {}), budget)
    assert budget.left > STEPS_MAX * 0.9
