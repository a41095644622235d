"""What the configuration grants to whom: read once, matched often.

A rule is written as in Salt's `external_auth` and `publisher_acl`:

    'test.*'                                  functions: all of a module, or a regular expression for the whole name
    {'cmd.run': {'args': ['ls.*'], 'kwargs': {'cwd': '/tmp'}}}      a function with patterns for its arguments
    {'web*': ['pkg.*', {'cmd.run': {...}}]}   these on the targets of a target expression only
    '@runner', '@wheel', '@jobs', '@cloud'    everything of the kind, or of the module `jobs`
    {'@jobs': ['list_job', 'list_jobs']}      some of it
    '@executor', {'@executor': ['splay']}     to name these executors in a job; '@returner' likewise
    '@hook', {'@hook': ['deploy', 'ci/*']}    POST /hook of the API: all paths, or those that one of the globs matches

A map inside of a target's list is a function with patterns; on the outside it is that when its value is a map, a
target when its value is a list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from saltlite.errors import CostlyRuleError, UsageError
from saltlite.targeting.budget import Budget, BudgetError
from saltlite.targeting.patterns import Pattern, glob_pattern, regex_pattern

RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK = "runner", "wheel", "executor", "returner", "hook"
PATTERN_MAX = 500
"""Characters of one pattern."""
TEXT_MAX = 4096
"""An argument with more characters matches no pattern."""
RULES_MAX = 10_000
"""Rules of one user."""
NAME_MAX = 255
"""Characters of a function or a user for which every pattern is run. Patterns that no automaton can match may deny
longer texts, as they could take too long."""

_NO_MODULES = ("", RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK)
"""Kinds that no module of runners gives its name to."""
_MODULE = re.compile(r"([A-Za-z0-9_]+)\.\*", re.ASCII)
_ANY = regex_pattern(".*", flags=re.DOTALL, whole=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments, as somebody wants to have it run."""

    fun: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    """None with unknown arguments: then rules about these are not asked."""


_CALLERS = {"test.cross_test": "func", "test.try": "module"}
"""Functions that call the one that an argument names, their first -> that argument."""


def call_within(call: Call) -> Call | None:
    """What a call has called: it takes the right to that, too. None for most, and where no arguments are known.

    What is no name, or no list of arguments, is nothing that could be called; it comes back as one without a right.
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
    """The rules of one place: of `publisher_acl`, or of a backend of `external_auth`. By user, `group%` or pattern."""

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


def read_rules(written: Any, place: str, *, patterns: bool = False) -> Rules:
    """A map from users to lists of rules. Raises UsageError with the place of what is none."""
    if not isinstance(written, dict):
        raise UsageError(f"{place} is a map from users to lists of what they may")
    if patterns:
        _check_users(map(str, written), place)
    return Rules({str(user): _of_user(rows, f"{place}.{user}") for user, rows in written.items()}, patterns)


def read_blacklist(written: Any) -> Blacklist:
    """`{users: [...], modules: [...]}`. Raises UsageError."""
    if not isinstance(written, dict) or not set(written) <= {"users", "modules"}:
        raise UsageError("publisher_acl_blacklist is a map with the lists `users` and `modules`")
    users, modules = written.get("users") or [], written.get("modules") or []
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in (users, modules)):
        raise UsageError("`users` and `modules` of publisher_acl_blacklist are lists of texts")
    _check_users(users, "publisher_acl_blacklist.users")
    return Blacklist(tuple(users), tuple(_fun_pattern(text, "publisher_acl_blacklist.modules") for text in modules))


def _check_users(written: Iterable[str], place: str) -> None:
    for user in written:
        try:
            _user_patterns(user)
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None


def _of_user(rows: Any, place: str) -> tuple[Rule, ...]:
    if not isinstance(rows, list):
        raise UsageError(f"{place} takes a list of functions, targets and rights such as '@jobs'")
    rules = tuple(rule for row in rows for rule in _outer(row, place))
    if len(rules) > RULES_MAX:
        raise UsageError(f"{place} has more than {RULES_MAX} rules")
    return rules


def _outer(row: Any, place: str) -> list[Rule]:
    if isinstance(row, str):
        return [_kind_of(row, None, place) if row.startswith("@") else _function(row, None, "", place)]
    if not isinstance(row, dict) or not row:
        raise UsageError(
            f"{place}: {str(row)[:80]!r} is no rule: write a function, or a map from a target to functions"
        )
    rules: list[Rule] = []
    for key, value in row.items():
        if not isinstance(key, str):
            raise UsageError(f"{place}: {key!r} is no text")
        if key.startswith("@"):
            rules += _named(key, value, place)
        elif isinstance(value, list):
            rules += [rule for one in value for rule in _inner(one, key, place)]
        else:
            rules.append(_function(key, value, "", place))
    return rules


def _named(key: str, value: Any, place: str) -> list[Rule]:
    """`{'@jobs': ['list_job']}`."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{place}: {key} takes a list of functions; patterns for arguments are for jobs only")
    return [_kind_of(key, one, place) for one in value]


def _inner(row: Any, where: str, place: str) -> list[Rule]:
    """A row of a target's list."""
    if isinstance(row, str):
        if row.startswith("@"):
            raise UsageError(f"{place}: {row} is no function, and holds for no target: write it on its own")
        return [_function(row, None, where, place)]
    if isinstance(row, dict) and row and all(isinstance(key, str) for key in row):
        return [_function(fun, value, where, place) for fun, value in row.items()]
    raise UsageError(f"{place}: {str(row)[:80]!r} is no function for {where!r}")


def _function(fun: str, patterns: Any, where: str, place: str) -> Rule:
    given = patterns if patterns is not None else {}
    if not isinstance(given, dict) or not set(given) <= {"args", "kwargs"}:
        raise UsageError(f"{place}: {fun} takes a map of `args`, a list, and `kwargs`, a map, or nothing")
    args, kwargs = given.get("args") or [], given.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise UsageError(f"{place}: `args` of {fun} is a list of patterns, `kwargs` a map from names to patterns")
    on = f" on {where}" if where else ""
    with_arguments = f" with {given}" if args or kwargs else ""
    return Rule(
        text=f"{place}: {fun}{on}{with_arguments}",
        fun=_fun_pattern(fun, place),
        where=where,
        args=tuple(_pattern(one, place) for one in args),
        kwargs=tuple((str(name), _pattern(one, place)) for name, one in kwargs.items()),
    )


def _kind_of(key: str, function: str | None, place: str) -> Rule:
    name = key[1:]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name, re.ASCII):
        raise UsageError(f"{place}: {key!r} is no right: write @runner, @wheel, @jobs or another module of runners")
    kind = {"runners": RUNNER}.get(name, name)
    text = f"{place}: {key}" if function is None else f"{place}: {key} {function}"
    if kind == HOOK and function is not None:
        return Rule(text, _path_pattern(function, place), kind=kind)
    return Rule(text, _fun_pattern(".*" if function is None else function, place), kind=kind)


def _path_pattern(glob: str, place: str) -> Pattern:
    """A glob for the whole path of a hook, as event tags are matched: `*` matches slashes too."""
    if not 1 <= len(glob) <= PATTERN_MAX or glob.startswith("/") or glob.endswith("/"):
        raise UsageError(
            f"{place}: {glob[:80]!r} is no path of a hook: write it without the slash at either end, as in ci/*, "
            f"with 1 to {PATTERN_MAX} characters"
        )
    return glob_pattern(glob)


def _fun_pattern(text: str, place: str) -> Pattern:
    """As `_pattern`, but `test.*` is every function of the module `test`, and none of `testing`."""
    module = _MODULE.fullmatch(text)
    return _pattern(rf"{module[1]}\..*" if module else text, place)


def _pattern(text: Any, place: str) -> Pattern:
    """A regular expression for a whole text of one line; None stands for any value, as in Salt."""
    if text is None:
        return _ANY
    if not isinstance(text, str | int | float | bool) or len(str(text)) > PATTERN_MAX:
        raise UsageError(f"{place}: {str(text)[:80]!r} is no pattern of at most {PATTERN_MAX} characters")
    try:
        return regex_pattern(str(text), whole=True, longest=NAME_MAX)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
