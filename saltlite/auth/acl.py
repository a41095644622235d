"""Access control: the rules of the configuration, and the one decision for every way into the master (R8).

Deny by default. Operators may do everything: root and the user that started the master, as the kernel proves through
the Unix socket. Other local users may do what `publisher_acl` grants them, holders of a login what `external_auth`
does, and minions publish what `peer` grants the name that their session proves, and run the runners of `peer_run`.
The user that the master's own processes run as is never served: its link process reads what strangers send and runs as
that user, and it must not be able to publish (S10).

A job is allowed if each of its functions is, on each of its resolved targets. Every other verb is in RIGHTS, mostly
under the names of the equivalent runners and wheel functions of Salt; a right to a runner is a right to the verbs
that the runner uses, and to nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Protocol

from saltlite.errors import CostlyRuleError, RefusedError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.fleet import Budget, BudgetError
from saltlite.targeting.patterns import Pattern, glob_pattern, regex_pattern

# -- rules


RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK = "runner", "wheel", "executor", "returner", "hook"
PEER = "minion"
"""The backend of the principals of minions; no backend of `external_auth` may have this name."""
PATTERN_MAX = 500
"""Characters of one pattern."""
TEXT_MAX = 4096
"""An argument with more characters matches no pattern."""
RULES_MAX = 10_000
"""Rules of one user."""
HOLDERS_KEPT = 100
"""Principals whose rules are cached: finding them matches patterns of users, and a request needs them ten times."""
ANSWERS_KEPT = 64
"""Cached answers for one principal about runners and wheel functions; the names in a request may be of any number."""
NAME_MAX = 255
"""Characters of a function or a user for which every pattern is run. Patterns that no automaton can match may deny
longer texts, as they could take too long."""

NAMED_MAX = 5
"""How many of the sufficient rights a refusal names."""

_NO_MODULES = ("", RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK)
"""Kinds that no module of runners gives its name to."""
_MODULE = re.compile(r"([A-Za-z0-9_]+)\.\*", re.ASCII)
_ANY = regex_pattern(".*", flags=re.DOTALL, whole=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments."""

    fun: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    """None with unknown arguments: then rules about these are not asked."""


_CALLERS = {"test.cross_test": "func", "test.try": "module"}
"""Functions that call the one that an argument names, their first -> that argument."""


def call_within(call: Call) -> Call | None:
    """What a call has called: it takes the right to that, too. None for most, and where no arguments are known.

    Whatever is not a name or a list of arguments cannot be called; it comes back as a call that no rule grants.
    """
    named = _CALLERS.get(call.fun)
    if named is None or call.kwargs is None or not (call.args or named in call.kwargs):
        return None
    fun = call.args[0] if call.args else call.kwargs[named]
    if named == "module":
        return Call(str(fun), (), {name: value for name, value in call.kwargs.items() if name != named})
    args = call.args[1] if len(call.args) > 1 else call.kwargs.get("args")
    # A text is taken apart into letters, and a map into keys, as `*args` does it.
    return Call(str(fun), tuple(args) if isinstance(args, str | list | tuple | Mapping) else (), {})


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is granted."""

    text: str
    """As it can be shown: where it is from, and what it says."""
    fun: Pattern
    where: str = ""
    """The target expression that it holds for, "" for every target. Not looked at for `kind` other than ""."""
    kind: str = ""
    """"" for functions on targets; RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK, or the name of a module of runners."""
    args: tuple[Pattern, ...] = ()
    kwargs: tuple[tuple[str, Pattern], ...] = ()

    def allows(self, call: Call, budget: Budget) -> bool:
        """Whether the rule is about this call, wherever it is to run.

        Raises CostlyRuleError when to find that out costs more than is left of `budget`.
        """
        if self.kind:
            return False
        try:
            if not self.fun.matches(call.fun, budget):
                return False
            if call.kwargs is None:
                return True
            return self._args_match(call.args, budget) and self._kwargs_match(call.kwargs, budget)
        except BudgetError:
            raise CostlyRuleError(
                f"{call.fun} is denied: a pattern of the rule {self.text[:200]!r} takes too long on what it is given"
            ) from None

    def allows_name(self, kind: str, name: str) -> bool:
        """Whether the rule grants `name` of a kind other than functions, such as ("runner", "jobs.list_jobs")."""
        if kind in (RUNNER, WHEEL) and self.kind not in _NO_MODULES:
            module, _, function = name.partition(".")
            return self.kind == module and self.fun.matches(function, Budget())
        return self.kind == kind and self.fun.matches(name, Budget())

    def _args_match(self, args: Sequence[Any], budget: Budget) -> bool:
        # A pattern for an argument that is not there does not hold; arguments without a pattern are free, as in Salt.
        if len(args) < len(self.args):
            return False
        return all(_matches(pattern, value, budget) for pattern, value in zip(self.args, args, strict=False))

    def _kwargs_match(self, kwargs: Mapping[str, Any], budget: Budget) -> bool:
        return all(name in kwargs and _matches(pattern, kwargs[name], budget) for name, pattern in self.kwargs)


def _matches(pattern: Pattern, value: Any, budget: Budget) -> bool:
    """Only plain values have one text; a list or a map has none that a pattern could be sure of."""
    if not isinstance(value, str | int | float | bool):
        return False
    text = str(value)
    return len(text) <= TEXT_MAX and pattern.matches(text, budget)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of `publisher_acl`, or of one backend of `external_auth`. By user, `group%` or pattern."""

    by_user: Mapping[str, tuple[Rule, ...]]
    patterns: bool = False
    """Whether a user may be written as a glob or a regular expression, as in publisher_acl."""

    def of(self, user: str, groups: Collection[str]) -> tuple[Rule, ...]:
        """The user's own rules with those of the groups; those of `*` for whom has none of his own."""
        # A name that ends so is written for a group.
        own = () if user.endswith("%") else self.by_user.get(user)
        if own is None:
            own = self._by_pattern(user)
        of_groups = [rule for group in sorted(groups) for rule in self.by_user.get(f"{group}%", ())]
        return (*own, *of_groups)

    def _by_pattern(self, user: str) -> tuple[Rule, ...]:
        if not self.patterns:
            return self.by_user.get("*", ())
        meant = [name for name in self.by_user if not name.endswith("%") and is_user(user, name)]
        return tuple(rule for name in meant for rule in self.by_user[name])


NO_RULES = Rules({})


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Whom and what `publisher_acl_blacklist` forbids, whatever is granted elsewhere."""

    users: tuple[str, ...] = ()
    modules: tuple[Pattern, ...] = ()

    def user(self, user: str) -> bool:
        return any(is_user(user, name) for name in self.users)

    def function(self, fun: str) -> bool:
        """Raises CostlyRuleError when to find that out takes too long."""
        budget = Budget()
        try:
            return any(pattern.matches(fun, budget) for pattern in self.modules)
        except BudgetError:
            raise CostlyRuleError(
                f"{fun[:NAME_MAX]} is denied: a pattern of publisher_acl_blacklist takes too long on its name"
            ) from None


def is_user(user: str, written: str) -> bool:
    """Whether a user is meant by a name, a glob or a regular expression for the whole name."""
    return user == written or any(pattern.matches(user, Budget()) for pattern in _user_patterns(written))


@lru_cache(RULES_MAX)
def _user_patterns(written: str) -> tuple[Pattern, ...]:
    """The glob, and the regular expression where it is one. Raises UsageError for one that cannot be run."""
    try:
        re.compile(written)
    except (re.error, OverflowError, RecursionError):  # a glob such as `*`
        return (glob_pattern(written),)
    return glob_pattern(written), regex_pattern(written, whole=True, longest=NAME_MAX)


def read_rules(written: Any, option: str, *, patterns: bool = False) -> Rules:
    """A map from users to lists of rules. Raises UsageError, which names the `option`."""
    if not isinstance(written, dict):
        raise UsageError(f"{option} is a map from users to lists of what they may")
    if patterns:
        _check_users(map(str, written), option)
    return Rules({str(user): _of_user(rows, f"{option}.{user}") for user, rows in written.items()}, patterns)


def read_peers(written: Any) -> Rules:
    """The option `peer`: a map from minions, written like users of publisher_acl, to what each may publish.

    Raises UsageError, which names the option.
    """
    rules = read_rules(written, "peer", patterns=True)
    for rule in (one for some in rules.by_user.values() for one in some):
        if rule.kind:
            raise UsageError(f"{rule.text}: minions publish functions only, and have no other rights")
    return rules


def read_peer_runs(written: Any) -> Rules:
    """The option `peer_run`: a map from minions, written like users of publisher_acl, to the runners of each.

    Raises UsageError, which names the option.
    """
    rules = read_rules(written, "peer_run", patterns=True)
    for rule in (one for some in rules.by_user.values() for one in some):
        if rule.kind or rule.where:
            raise UsageError(f"{rule.text}: peer_run lists runners by name, as in [manage.up, 'jobs.*']")
    return rules


def read_blacklist(written: Any) -> Blacklist:
    """`{users: [...], modules: [...]}`. Raises UsageError."""
    if not isinstance(written, dict) or not set(written) <= {"users", "modules"}:
        raise UsageError("publisher_acl_blacklist is a map with the lists `users` and `modules`")
    users, modules = written.get("users") or [], written.get("modules") or []
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in (users, modules)):
        raise UsageError("`users` and `modules` of publisher_acl_blacklist are lists of texts")
    _check_users(users, "publisher_acl_blacklist.users")
    return Blacklist(tuple(users), tuple(_fun_pattern(text, "publisher_acl_blacklist.modules") for text in modules))


def _check_users(written: Iterable[str], option: str) -> None:
    for user in written:
        try:
            _user_patterns(user)
        except UsageError as error:
            raise UsageError(f"{option}: {error}") from None


def _of_user(rows: Any, option: str) -> tuple[Rule, ...]:
    if not isinstance(rows, list):
        raise UsageError(f"{option} takes a list of functions, targets and rights such as '@jobs'")
    rules = tuple(rule for row in rows for rule in _outer(row, option))
    if len(rules) > RULES_MAX:
        raise UsageError(f"{option} has more than {RULES_MAX} rules")
    return rules


def _outer(row: Any, option: str) -> list[Rule]:
    if isinstance(row, str):
        return [_kind_of(row, None, option) if row.startswith("@") else _function(row, None, "", option)]
    if not isinstance(row, dict) or not row:
        raise UsageError(
            f"{option}: {str(row)[:80]!r} is not a rule: write a function, or a map from a target to functions"
        )
    rules: list[Rule] = []
    for key, value in row.items():
        if not isinstance(key, str):
            raise UsageError(f"{option}: {key!r} is not text")
        if key.startswith("@"):
            rules += _named(key, value, option)
        elif isinstance(value, list):
            rules += [rule for one in value for rule in _inner(one, key, option)]
        else:
            rules.append(_function(key, value, "", option))
    return rules


def _named(key: str, value: Any, option: str) -> list[Rule]:
    """`{'@jobs': ['list_job']}`."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{option}: {key} takes a list of functions; patterns for arguments are for jobs only")
    return [_kind_of(key, one, option) for one in value]


def _inner(row: Any, where: str, option: str) -> list[Rule]:
    """A row of a target's list."""
    if isinstance(row, str):
        if row.startswith("@"):
            raise UsageError(
                f"{option}: {row} is not a function, and holds for every target: write it outside of this list"
            )
        return [_function(row, None, where, option)]
    if isinstance(row, dict) and row and all(isinstance(key, str) for key in row):
        return [_function(fun, value, where, option) for fun, value in row.items()]
    raise UsageError(f"{option}: {str(row)[:80]!r} is not a function for {where!r}")


def _function(fun: str, patterns: Any, where: str, option: str) -> Rule:
    given = patterns if patterns is not None else {}
    if not isinstance(given, dict) or not set(given) <= {"args", "kwargs"}:
        raise UsageError(f"{option}: {fun} takes a map of `args`, a list, and `kwargs`, a map, or nothing")
    args, kwargs = given.get("args") or [], given.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise UsageError(f"{option}: `args` of {fun} is a list of patterns, `kwargs` a map from names to patterns")
    on = f" on {where}" if where else ""
    with_arguments = f" with {given}" if args or kwargs else ""
    return Rule(
        text=f"{option}: {fun}{on}{with_arguments}",
        fun=_fun_pattern(fun, option),
        where=where,
        args=tuple(_pattern(one, option) for one in args),
        kwargs=tuple((str(name), _pattern(one, option)) for name, one in kwargs.items()),
    )


def _kind_of(key: str, function: str | None, option: str) -> Rule:
    name = key[1:]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name, re.ASCII):
        raise UsageError(f"{option}: {key!r} is not a right: write @runner, @wheel, @jobs or another module of runners")
    kind = {"runners": RUNNER}.get(name, name)
    text = f"{option}: {key}" if function is None else f"{option}: {key} {function}"
    if kind == HOOK and function is not None:
        return Rule(text, _path_pattern(function, option), kind=kind)
    return Rule(text, _fun_pattern(".*" if function is None else function, option), kind=kind)


def _path_pattern(glob: str, option: str) -> Pattern:
    """A glob for the whole path of a hook, as event tags are matched: `*` matches slashes too."""
    if not 1 <= len(glob) <= PATTERN_MAX or glob.startswith("/") or glob.endswith("/"):
        raise UsageError(
            f"{option}: {glob[:80]!r} is not the path of a hook: write it without the slash at either end, as in ci/*, "
            f"with 1 to {PATTERN_MAX} characters"
        )
    return glob_pattern(glob)


def _fun_pattern(text: str, option: str) -> Pattern:
    """As `_pattern`, but `test.*` is every function of the module `test`, and none of `testing`."""
    module = _MODULE.fullmatch(text)
    return _pattern(rf"{module[1]}\..*" if module else text, option)


def _pattern(text: Any, option: str) -> Pattern:
    """A regular expression for a whole text of one line; None stands for any value, as in Salt."""
    if text is None:
        return _ANY
    if not isinstance(text, str | int | float | bool) or len(str(text)) > PATTERN_MAX:
        raise UsageError(f"{option}: {str(text)[:80]!r} is not a pattern of at most {PATTERN_MAX} characters")
    try:
        return regex_pattern(str(text), whole=True, longest=NAME_MAX)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


ANYBODY, SOMEBODY, JOBS = "anybody", "somebody", "jobs"
"""Kinds of rows in RIGHTS that are not kinds of rules: whoever may connect; whoever was granted anything; whoever was
granted any of a job's functions."""

_MINIONS = (
    "manage.status", "manage.up", "manage.down", "manage.versions",
    "manage.list_state", "manage.present", "manage.alived", "manage.allowed", "manage.joined",
    "manage.list_not_state", "manage.not_present", "manage.not_alived", "manage.not_allowed", "manage.not_joined",
)  # fmt: skip
_RESOURCES = ("resource.list", "resource.list_grains", "resource.owner", "resource.grains", "resource.match")
_FILES = (
    "fileserver.envs", "fileserver.file_list", "fileserver.dir_list", "fileserver.empty_dir_list",
    "fileserver.symlink_list",
)  # fmt: skip
_CLEARED = ("cache.clear_grains", "cache.clear_pillar", "cache.clear_all", "cache.flush")
CLOUD = ("cloud.action", "cloud.destroy", "cloud.function", "cloud.map_run", "cloud.profile")
"""Runners that run drivers of clouds, and tell of it."""

RIGHTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "login": (ANYBODY, (), "log in"),
    "logout": (ANYBODY, (), "log out"),
    "whoami": (ANYBODY, (), "ask who they are"),
    "acl_explain": (ANYBODY, (), "ask what is granted"),
    # Of holders of tokens, which the request names.
    "event_views": (ANYBODY, (), "ask for the views of tokens"),
    "publish": (JOBS, (), "publish jobs"),
    "describe": (JOBS, (), "ask what functions do"),
    "copy_begin": (JOBS, ("cp.recv",), "copy files to minions"),
    "copy_put": (JOBS, ("cp.recv",), "copy files to minions"),
    "copy_end": (JOBS, ("cp.recv",), "copy files to minions"),
    # Own jobs; `sees_jobs_of_others` decides on the others.
    "follow": (SOMEBODY, (), "follow jobs"),
    "job_list": (SOMEBODY, (), "list jobs"),
    "job_show": (SOMEBODY, (), "see jobs"),
    "job_return": (SOMEBODY, (), "see returns of jobs"),
    "job_kill": (SOMEBODY, (), "end jobs"),
    "events": (SOMEBODY, (), "see events"),
    "last_seen": (SOMEBODY, (), "ask when minions were last seen"),
    "complete": (SOMEBODY, (), "ask for completions"),
    "runner_event": (SOMEBODY, (), "report calls of runners"),
    "auth_token_list": (SOMEBODY, (), "list logins"),
    "auth_token_revoke": (SOMEBODY, (), "revoke logins"),
    # Which path, its handler says.
    "hook": (HOOK, (), "post to hooks"),
    "event_send": (RUNNER, ("event.send",), "send events"),
    "status": (RUNNER, ("manage.status",), "see the status of the fleet"),
    "masters": (RUNNER, ("manage.status",), "list masters"),
    "minions": (RUNNER, _MINIONS, "list minions"),
    "match": (RUNNER, ("match.compound_matches", "resource.match"), "ask what a target selects"),
    # Which bank of these, its handler says.
    "cached": (RUNNER, ("cache.grains", "cache.pillar", "cache.list", "cache.fetch"), "see cached data"),
    "cache_clear": (RUNNER, _CLEARED, "clear caches"),
    # What of it, its handler says.
    "file_list": (RUNNER, _FILES, "list files of the file server"),
    "missing_functions": (RUNNER, ("doc.execution", "smi.report"), "ask which functions are missing"),
    "mine_get": (RUNNER, ("mine.get",), "read the mine"),
    "pillar_show": (RUNNER, ("pillar.show_pillar", "pillar.show_top"), "see pillars"),
    "resource_list": (RUNNER, _RESOURCES, "list resources"),
    "resource_owner": (RUNNER, ("resource.owner", "resource.show"), "ask which minion manages a resource"),
    "resource_grains": (RUNNER, ("resource.grains", "resource.show"), "see grains of resources"),
    "resource_list_grains": (RUNNER, ("resource.list_grains",), "list grains of resources"),
    "resource_transfer": (RUNNER, ("resource.transfer",), "transfer resources"),
    "resource_confirm": (RUNNER, ("resource.confirm",), "confirm registrations of resources"),
    "resource_stats": (RUNNER, ("resource.stats",), "see figures of the registry of resources"),
    "resource_compact": (RUNNER, ("resource.compact",), "compact the registry of resources"),
    "resource_verify": (RUNNER, ("resource.verify",), "verify the registry of resources"),
    "key_list": (WHEEL, ("key.list_all", "key.list", "key.glob_match", "key.name_match", "key.finger"), "list keys"),
    "key_finger": (WHEEL, ("key.finger", "key.finger_master", "key.master_key_str"), "see fingerprints"),
    "key_change": (WHEEL, ("key.accept", "key.reject", "key.delete", "key.revoke"), "change keys"),
    "key_preaccept": (WHEEL, ("key.accept",), "accept keys in advance"),
    "key_rename": (WHEEL, ("key.rename",), "rename minions"),
    "master_drain": (WHEEL, ("master.drain",), "drain masters"),
    "master_remove": (WHEEL, ("master.remove",), "remove masters"),
    "token_create": (WHEEL, ("key.token_create",), "create join tokens"),
    "token_list": (WHEEL, ("key.token_list",), "list join tokens"),
    "token_revoke": (WHEEL, ("key.token_revoke",), "revoke join tokens"),
    "config_values": (WHEEL, ("config.values",), "see the configuration of the master"),
    "minions_connected": (WHEEL, ("minions.connected",), "list connected minions"),
    # Which function, its handler says.
    "wheel_event": (SOMEBODY, (), "report calls of wheel functions"),
    "cloud_event": (RUNNER, CLOUD, "report what clouds do"),
}
"""verb -> who may ask it: a kind, and the names of which one is enough; and what it does, for refusals."""

JOBS_OF_OTHERS = (
    "jobs.list_jobs", "jobs.list_jobs_filter", "jobs.list_job", "jobs.print_job", "jobs.lookup_jid", "jobs.active",
    "jobs.last_run", "jobs.exit_success",
)  # fmt: skip
KILL_OF_OTHERS = ("jobs.kill",)
RULES_OF_OTHERS = ("config.get",)
"""Runners whose right shows the rules of all users anyway."""
LOGINS_OF_OTHERS = {"auth_token_list": ("auth.token_list",), "auth_token_revoke": ("auth.token_revoke",)}
"""verb -> wheel functions whose right makes it reach the logins of all users."""
ALL_EVENTS = ("event.listen", "state.event")

OPTIONS_ALONE = "executor_opts"
"""Stands among the executors of a job that names none, and options for those that minions have."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The user behind a request: a local user, authenticated by the kernel, or one authenticated by a backend."""

    user: str
    uid: int
    """The uid of a local user. Of others a negative number, made of the backend and the name: no uid is one."""
    backend: str = ""
    """A backend of `external_auth`; "" for a local user."""
    groups: frozenset[str] = frozenset()
    realm: str = ""
    """Of a local user, if his uid may be that of somebody else on another master of the store: the name of his."""
    is_of_hook: bool = False
    """Whether any master of the store may ask, as a hook that fires: uids of the same local user differ there."""

    @property
    def owner(self) -> int:
        """The number that his jobs belong to: no other principal of any master has it."""
        if self.is_of_hook:
            return number_of(f"hook:{self.user}")
        return self.uid if not self.realm else number_of(f"realm:{len(self.realm)}:{self.realm}:{self.uid}")

    @property
    def label(self) -> str:
        """The name in jobs and logs; that of a local user has no colon."""
        name = f"{self.user}@{self.realm}" if self.realm else self.user
        return f"{self.backend}:{name}" if self.backend else name

    def __str__(self) -> str:
        return self.label if self.backend or self.uid < 0 else f"{self.label} (uid {self.uid})"


def number_of(text: str) -> int:
    """A negative number for a principal that has no uid, or none that is the same everywhere."""
    # As many bits as the store keeps: jobs go by this number, and some may choose the name that they log in with.
    return -1 - (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1)


@dataclass(frozen=True, slots=True)
class Action:
    """What they ask for. `minions` and `resources` (SRNs) are exactly what a job would go to; empty for other verbs.

    `call` is one function of a job; without one it is only asked whether any may be. `name` is the function of a wheel
    or runner when the verb stands for several of them, or the path of a hook; `executors` and `returners` are those
    that a job names.
    """

    verb: str
    call: Call | None = None
    minions: Collection[MinionId] = ()
    resources: Collection[TargetId] = ()
    name: str = ""
    executors: Sequence[str] = ()
    returners: Sequence[str] = ()
    budget: Budget = field(default_factory=Budget, compare=False)
    """What it may cost to compare `call` with the patterns of rules."""


@dataclass(frozen=True, slots=True)
class RuleHolder:
    """What the configuration says of one principal."""

    rules: tuple[Rule, ...]
    is_blacklisted: bool
    _named: dict[tuple[str, tuple[str, ...]], bool] = field(default_factory=dict, compare=False, repr=False)
    """Answers of `may_run_any`: the handlers ask for the same few names at every request."""

    def may_run_any(self, kind: str, names: tuple[str, ...]) -> bool:
        """Whether one of these names (of runners, wheel functions ...) is granted."""
        found = self._named.get((kind, names))
        if found is None:
            found = not self.is_blacklisted and _names_any(self.rules, kind, names)
            if len(self._named) < ANSWERS_KEPT:
                self._named[kind, names] = found
        return found


@dataclass(frozen=True, slots=True)
class Granted:
    """The access rules of the configuration."""

    publisher: Rules = field(default=NO_RULES)
    external: dict[str, Rules] = field(default_factory=dict)
    """Of each backend of `external_auth`."""
    peer_run: Rules = field(default=NO_RULES)
    """The runners of minions."""
    blacklist: Blacklist = field(default_factory=Blacklist)
    barred: frozenset[int] = frozenset()
    """The uids that the master's processes have, its link process included: no user who has one of them is served,
    unless it is an operator's."""
    _holders: dict[Principal, RuleHolder] = field(default_factory=dict, compare=False, repr=False)
    """A cache. The configuration is read once, so what it says of a principal never changes."""

    def of(self, principal: Principal) -> tuple[Rule, ...]:
        """Every rule for this principal."""
        return self.holder(principal).rules

    def holder(self, principal: Principal) -> RuleHolder:
        """What is granted to this principal."""
        found = self._holders.get(principal)
        if found is None:
            rules = self.external.get(principal.backend, NO_RULES) if principal.backend else self.publisher
            found = RuleHolder(rules.of(principal.user, principal.groups), self.blacklist.user(principal.user))
            if len(self._holders) >= HOLDERS_KEPT:
                self._holders.clear()
            self._holders[principal] = found
        return found


class AccessConfig(Protocol):
    """Where the decision finds who is an operator, and what is granted."""

    @property
    def operators(self) -> Collection[int]: ...

    @property
    def granted(self) -> Granted: ...


def authorize_peer_run(principal: Principal, call: Call, granted: Granted) -> None:
    """Return if `peer_run` lets this minion run the runner; RefusedError otherwise."""
    if granted.blacklist.user(principal.user) or granted.blacklist.function(call.fun):
        raise RefusedError(f"{principal} may not run the runner {call.fun}: publisher_acl_blacklist has one of both")
    rules, budget = granted.peer_run.of(principal.user, ()), Budget()
    if any(rule.allows(call, budget) for rule in rules):
        return
    with_any = any(rule.allows(Call(call.fun, kwargs=None), Budget()) for rule in rules)
    what = f"{call.fun} with these arguments" if with_any else call.fun
    raise RefusedError(f"{principal} may not run the runner {what}: no rule in `peer_run` of the master grants it")


Selects = Callable[[str], Collection[TargetId]]
"""Which of the fleet a target expression of a rule selects now."""


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """The verdict on one call: the rules that hold for some of its targets, and the targets that none covers."""

    rules: tuple[Rule, ...]
    uncovered: frozenset[TargetId]
    reason: str = ""
    """Why it is not allowed; "" when it is."""


def authorize(principal: Principal, action: Action, config: AccessConfig, selects: Selects | None = None) -> None:
    """Return if the principal may do this; RefusedError otherwise.

    `selects` resolves the targets of rules; an action with targets needs it. Without it rules for some targets only
    cover none.
    """
    refuse_barred(principal, config)
    if action.verb in RIGHTS and is_operator(principal, config):
        return
    holder = config.granted.holder(principal)
    rules = () if holder.is_blacklisted else holder.rules
    kind, names, what = RIGHTS.get(action.verb, ("", (), action.verb))
    if kind == JOBS and _may_publish(rules, names, action, config):
        if action.call is None:
            return
        verdict = judge(principal, action, config, selects)
        if not verdict.reason:
            return
        raise RefusedError(verdict.reason)
    if kind == ANYBODY or (kind == SOMEBODY and rules):
        return
    wanted = (action.name,) if action.name or kind == HOOK else names
    if kind in (RUNNER, WHEEL, HOOK) and _names_any(rules, kind, wanted):
        return
    raise RefusedError(_refusal(principal, what, kind, wanted, config))


def is_operator(principal: Principal, config: AccessConfig) -> bool:
    """Whether this is an operator, who may do everything."""
    return not principal.backend and principal.uid in config.operators


def refuse_barred(principal: Principal, config: AccessConfig) -> None:
    """Raises RefusedError for the user of the master's own processes."""
    if not principal.backend and principal.uid in config.granted.barred and principal.uid not in config.operators:
        raise RefusedError(
            f"{principal} may ask nothing: the master's own processes run as this user, and one that was broken into "
            "must not command the fleet; use another user"
        )


def may(principal: Principal, kind: str, names: Sequence[str], config: AccessConfig) -> bool:
    """Whether one of these names (of runners, wheel functions ...) is granted."""
    return is_operator(principal, config) or config.granted.holder(principal).may_run_any(kind, tuple(names))


def sees_jobs_of_others(principal: Principal, config: AccessConfig) -> bool:
    """Whether the principal sees jobs of others."""
    return may(principal, RUNNER, JOBS_OF_OTHERS, config)


def knows_pillars(principal: Principal, config: AccessConfig) -> bool:
    """Whether the principal may see all pillars, from the master or from every minion."""
    if may(principal, RUNNER, RIGHTS["pillar_show"][1], config):
        return True
    call = Call("pillar.items", kwargs=None)
    holder = config.granted.holder(principal)
    if holder.is_blacklisted or config.granted.blacklist.function(call.fun):
        return False
    return any(rule.allows(call, Budget()) and not rule.where for rule in holder.rules)


def judge(principal: Principal, action: Action, config: AccessConfig, selects: Selects | None = None) -> AccessVerdict:
    """Judge one call of a job on its targets, for a principal who is not an operator.

    A function that calls another one by name needs the right to both.
    """
    call = action.call
    if call is None:
        raise ValueError("only a call can be judged")
    verdict, within = _judge_one(principal, call, action, config, selects), call_within(call)
    if within is None or verdict.reason:
        return verdict
    inner = judge(principal, replace(action, call=within), config, selects)
    rules = () if inner.reason else tuple(dict.fromkeys((*verdict.rules, *inner.rules)))
    return AccessVerdict(
        rules, inner.uncovered, inner.reason and f"{call.fun} runs another function, and {inner.reason}"
    )


def _judge_one(
    principal: Principal, call: Call, action: Action, config: AccessConfig, selects: Selects | None
) -> AccessVerdict:
    targets = frozenset((*action.minions, *action.resources))
    blacklist, holder = config.granted.blacklist, config.granted.holder(principal)
    if holder.is_blacklisted:
        return AccessVerdict((), targets, f"{principal} may publish nothing: publisher_acl_blacklist has this user")
    if blacklist.function(call.fun):
        return AccessVerdict(
            (), targets, f"{principal} may not run {call.fun}: publisher_acl_blacklist has this function"
        )
    rules = holder.rules
    missing = _unnamed(rules, action)
    if missing:
        return AccessVerdict((), targets, f"{principal} may not have a job use {missing}: no rule grants it")
    about = tuple([rule for rule in rules if rule.allows(call, action.budget)])
    left, used = targets, []
    for rule in sorted(about, key=lambda one: one.where != ""):
        covered = _covered(rule, targets, selects)
        if covered or not targets:
            used.append(rule)
            left -= covered
        if targets and not left:
            break
    if not about:
        return AccessVerdict((), targets, _no_function(principal, call, rules))
    if left:
        return AccessVerdict(tuple(used), left, too_wide(principal, call, config))
    return AccessVerdict(tuple(used), frozenset())


def _covered(rule: Rule, targets: frozenset[TargetId], selects: Selects | None) -> frozenset[TargetId]:
    """The targets that the rule covers. Without targets nothing is resolved."""
    if not rule.where or not targets:
        return targets
    return targets.intersection(selects(rule.where)) if selects is not None else frozenset()


def target_expressions(principal: Principal, config: AccessConfig) -> frozenset[str]:
    """The target expressions of all rules that let him run some function; "" among them stands for every target."""
    holder = config.granted.holder(principal)
    if holder.is_blacklisted:
        return frozenset()
    return frozenset(rule.where for rule in holder.rules if not rule.kind)


def too_wide(principal: Principal, call: Call, config: AccessConfig) -> str:
    """The refusal for a target that rules do not cover. It must not tell how many targets there are, or whether any."""
    rules = config.granted.of(principal)
    expressions = ", ".join(sorted({rule.where for rule in rules if rule.where and rule.allows(call, Budget())}))
    return f"{principal} may not run {call.fun} on this target, only on {expressions}: nothing was published"


def _may_publish(rules: Sequence[Rule], names: Sequence[str], action: Action, config: AccessConfig) -> bool:
    """Whether it is worth to look at the job: some function at least is granted, or one of `names`."""
    if action.call is not None:
        return True
    if names:
        calls = [Call(name, kwargs=None) for name in names if not config.granted.blacklist.function(name)]
        return any(rule.allows(call, action.budget) for rule in rules for call in calls)
    return any(not rule.kind for rule in rules)


def _names_any(rules: Sequence[Rule], kind: str, names: Sequence[str]) -> bool:
    return any(rule.allows_name(kind, name) for rule in rules for name in names)


def _unnamed(rules: Sequence[Rule], action: Action) -> str:
    for kind, names in ((EXECUTOR, action.executors), (RETURNER, action.returners)):
        for name in names:
            if not _names_any(rules, kind, (name,)):
                return "options of executors without naming these" if name == OPTIONS_ALONE else f"the {kind} {name}"
    return ""


def _no_function(principal: Principal, call: Call, rules: Sequence[Rule]) -> str:
    with_any = any(rule.allows(Call(call.fun, kwargs=None), Budget()) for rule in rules)
    what = f"{call.fun} with these arguments" if with_any else call.fun
    if principal.backend == PEER:
        return f"{principal} may not publish {what}: no rule in `peer` of the master grants it"
    return f"{principal} may not run {what}: no rule grants it; `saltlite acl explain` shows what is granted"


def no_hook(path: str) -> str:
    """The end of the refusal of a hook that no rule grants, behind `may not`."""
    return f"post to /hook/{path}: that takes @hook with this path in publisher_acl or external_auth"


def _refusal(principal: Principal, what: str, kind: str, names: Sequence[str], config: AccessConfig) -> str:
    if not config.granted.of(principal):
        return f"{principal} may not {what}: run it as root, or as the user who started the master"
    if kind == HOOK:
        return f"{principal} may not {no_hook(names[0])}"
    need = f"@{kind} {_any_of(names)}" if kind in (RUNNER, WHEEL) else "a right to any function"
    return f"{principal} may not {what}: that takes {need} in publisher_acl or external_auth"


def _any_of(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return " or ".join([*names[:NAMED_MAX], *([f"one of {more} others"] if more > 0 else [])])
